use segno_engine::Error;

use crate::harness::{harness, spec};

const LOOP: &str = "{type: graph, config: {max_iterations: 3, nodes: {draft: {agent: a, input: \"{{ nodes.check.response }}|{{ nodes.check.status }}|{{ nodes.draft.iteration }}\"}, check: {agent: b, input: \"{{ nodes.draft.response }}\"}, done: {agent: a}}, edges: [{from: draft, to: [check]}, {from: check, choose: [{when: \"{{ 'redo' in nodes.check.response.lower() }}\", to: draft}, {when: else, to: done}]}]}}";

#[tokio::test]
async fn loop_repeats_until_its_condition_is_false() {
    let harness = harness(
        "answers: [{step: nodes/check, text: REDO it}, {step: 'nodes/check#2', text: good}, {step: nodes/draft, text: one}, {step: 'nodes/draft#2', text: two}]\ndefault: {text: closed}",
    );
    let artifact = "outputs: {artifacts: [{path: o, from: \"{{ terminal_node }} {{ total_steps }} {{ iteration_counts.draft }} {{ nodes.draft.response }} {{ last_response }}\"}]}";
    let outcome = harness.run(&spec(LOOP, artifact)).await.unwrap();
    assert_eq!(outcome.output, "closed");
    assert_eq!(
        harness.started_steps(),
        [
            "nodes/draft",
            "nodes/check",
            "nodes/draft#2",
            "nodes/check#2",
            "nodes/done"
        ]
    );
    assert_eq!(
        harness.prompt_of("nodes/draft").as_deref(),
        Some("None|not_executed|0")
    );
    assert_eq!(
        harness.prompt_of("nodes/draft#2").as_deref(),
        Some("REDO it|success|1")
    );
    assert_eq!(harness.artifact("o"), "done 5 2 two closed");
}

#[tokio::test]
async fn endless_loop_stops_at_max_iterations() {
    let harness = harness("answers: [{agent: b, text: redo}]\ndefault: {text: x}");
    let error = harness.run(&spec(LOOP, "")).await.unwrap_err();
    assert!(
        matches!(&error, Error::TooManyVisits { node, visits: 3, .. } if node == "draft"),
        "{error}"
    );
    assert_eq!(harness.started_steps().len(), 6);
}

#[tokio::test]
async fn graph_ends_if_no_condition_is_true() {
    let harness = harness("default: {text: x}");
    let pattern = "{type: graph, config: {nodes: {one: {agent: a, input: x}, two: {agent: a}}, edges: [{from: one, choose: [{when: \"nobody.knows is defined or len(nodes.one.response) > 7\", to: two}]}]}}";
    harness.run(&spec(pattern, "")).await.unwrap_err();
    let pattern = pattern.replace("nobody.knows is defined", "nobody");
    harness.run(&spec(&pattern, "")).await.unwrap();
    assert_eq!(harness.started_steps().last().unwrap(), "nodes/one");
}

#[tokio::test]
async fn resume_follows_the_same_edges() {
    let harness = harness(
        "answers: [{step: nodes/check, text: redo}, {step: 'nodes/check#2', fail: {kind: auth}}]\ndefault: {text: x}",
    );
    harness.run(&spec(LOOP, "")).await.unwrap_err();
    harness.set_script("default: {text: x}");
    harness.resume().await.unwrap();
    assert_eq!(harness.started_steps(), ["nodes/check#2", "nodes/done"]);
}
