use segno_engine::Error;

use crate::world::{spec, stage};

const LOOP: &str = "{type: graph, config: {max_iterations: 3, nodes: {draft: {agent: a, input: \"{{ nodes.check.response }}|{{ nodes.check.status }}|{{ nodes.draft.iteration }}\"}, check: {agent: b, input: \"{{ nodes.draft.response }}\"}, done: {agent: a}}, edges: [{from: draft, to: [check]}, {from: check, choose: [{when: \"{{ 'redo' in nodes.check.response.lower() }}\", to: draft}, {when: else, to: done}]}]}}";

#[tokio::test]
async fn a_loop_goes_round_until_its_condition_fails() {
    let stage = stage(
        "answers: [{step: nodes/check, text: REDO it}, {step: 'nodes/check#2', text: good}, {step: nodes/draft, text: one}, {step: 'nodes/draft#2', text: two}]\ndefault: {text: closed}",
    );
    let artifact = "outputs: {artifacts: [{path: o, from: \"{{ terminal_node }} {{ total_steps }} {{ iteration_counts.draft }} {{ nodes.draft.response }} {{ last_response }}\"}]}";
    let outcome = stage.run(&spec(LOOP, artifact)).await.unwrap();
    assert_eq!(outcome.output, "closed");
    assert_eq!(
        stage.begun(),
        [
            "nodes/draft",
            "nodes/check",
            "nodes/draft#2",
            "nodes/check#2",
            "nodes/done"
        ]
    );
    assert_eq!(
        stage.asked("nodes/draft").as_deref(),
        Some("None|not_executed|0")
    );
    assert_eq!(
        stage.asked("nodes/draft#2").as_deref(),
        Some("REDO it|success|1")
    );
    assert_eq!(stage.artifact("o"), "done 5 2 two closed");
}

#[tokio::test]
async fn a_loop_that_does_not_end_is_ended() {
    let stage = stage("answers: [{agent: b, text: redo}]\ndefault: {text: x}");
    let error = stage.run(&spec(LOOP, "")).await.unwrap_err();
    assert!(
        matches!(&error, Error::Loop { node, visits: 3, .. } if node == "draft"),
        "{error}"
    );
    assert_eq!(stage.begun().len(), 6);
}

#[tokio::test]
async fn without_a_way_that_holds_it_ends() {
    let stage = stage("default: {text: x}");
    let pattern = "{type: graph, config: {nodes: {one: {agent: a, input: x}, two: {agent: a}}, edges: [{from: one, choose: [{when: \"nobody.knows is defined or len(nodes.one.response) > 7\", to: two}]}]}}";
    stage.run(&spec(pattern, "")).await.unwrap_err();
    let pattern = pattern.replace("nobody.knows is defined", "nobody");
    stage.run(&spec(&pattern, "")).await.unwrap();
    assert_eq!(stage.begun().last().unwrap(), "nodes/one");
}

#[tokio::test]
async fn a_resume_takes_the_same_way() {
    let stage = stage(
        "answers: [{step: nodes/check, text: redo}, {step: 'nodes/check#2', fail: {kind: auth}}]\ndefault: {text: x}",
    );
    stage.run(&spec(LOOP, "")).await.unwrap_err();
    stage.mend("default: {text: x}");
    stage.resume().await.unwrap();
    assert_eq!(stage.begun(), ["nodes/check#2", "nodes/done"]);
}
