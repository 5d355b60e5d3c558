//! Questions to people: saved before they are shown, asked once, answered before the answer is used.

use std::time::Duration;

use segno_core::session::Status;
use segno_engine::answer::{answer, open};
use segno_engine::{Error, World};

use crate::world::{Stage, spec, stage};

const CHAIN: &str = "{type: chain, config: {steps: [{agent: a, input: facts}, {type: hitl, prompt: \"Good {{ enough }}?\", context_display: \"It says: {{ steps[0].response }}\"DEFAULT}, {agent: b, input: \"{{ hitl_response }} {{ steps[1].response }} {{ steps[1].type }}\"}]}}";

fn asking(more: &str) -> String {
    spec(&CHAIN.replace("DEFAULT", more), "")
}

async fn say(stage: &Stage, text: &str) -> Result<String, Error> {
    let world: &World = &stage.world;
    let summary = stage.summary().await;
    let path = answer(world, &summary, None, text, "ann").await?;
    Ok(path.to_string())
}

#[tokio::test]
async fn a_question_ends_the_run_and_its_answer_lets_it_go_on() {
    let stage = stage("default: {text: the tide}");
    let error = stage.run(&asking("")).await.unwrap_err();
    let Error::Waiting {
        prompt, context, ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(prompt, "Good {{ enough }}?");
    assert_eq!(context.as_deref(), Some("It says: the tide"));
    assert_eq!(stage.summary().await.status, Status::Waiting);
    let asked = open(&stage.world, &stage.summary().await).await.unwrap();
    assert_eq!(asked[0].context.as_deref(), Some("It says: the tide"));
    // Going on without an answer asks the same again, and writes it down no second time.
    stage.resume().await.unwrap_err();
    assert!(!stage.kinds().contains(&"question_asked steps/1".to_owned()));
    assert_eq!(say(&stage, "yes").await.unwrap(), "steps/1");
    stage.resume().await.unwrap();
    assert_eq!(stage.asked("steps/2").as_deref(), Some("yes yes hitl"));
    assert_eq!(stage.begun(), ["steps/2"]);
}

#[tokio::test]
async fn a_question_is_answered_once() {
    let stage = stage("default: {text: x}");
    stage.run(&asking("")).await.unwrap_err();
    say(&stage, "yes").await.unwrap();
    let error = say(&stage, "no").await.unwrap_err();
    assert!(matches!(error, Error::NotAsked { .. }), "{error}");
    stage.resume().await.unwrap();
    let error = say(&stage, "no").await.unwrap_err();
    assert!(matches!(error, Error::NotAsked { .. }), "{error}");
}

#[tokio::test]
async fn when_its_time_is_over_the_default_counts() {
    let stage = stage("default: {text: x}");
    stage
        .run(&asking(", default: \"so so\", timeout_seconds: 60"))
        .await
        .unwrap_err();
    stage.clock.turn(59_000);
    stage.resume().await.unwrap_err();
    stage.clock.turn(2_000);
    stage.resume().await.unwrap();
    assert_eq!(stage.asked("steps/2").as_deref(), Some("so so so so hitl"));
}

#[tokio::test]
async fn without_a_default_time_that_is_over_is_a_failure_and_a_late_answer_counts() {
    let stage = stage("default: {text: x}");
    stage
        .run(&asking(", timeout_seconds: 60"))
        .await
        .unwrap_err();
    stage.clock.turn(61_000);
    let error = stage.resume().await.unwrap_err();
    assert!(matches!(error, Error::Unanswered { .. }), "{error}");
    say(&stage, "late").await.unwrap();
    stage.resume().await.unwrap();
    assert_eq!(stage.asked("steps/2").as_deref(), Some("late late hitl"));
}

#[tokio::test]
async fn while_one_branch_waits_the_others_go_on() {
    let stage = stage("default: {text: x, delay_ms: 10}");
    let pattern = "{type: parallel, config: {branches: [{id: l, steps: [{type: hitl, prompt: Left?}, {agent: a, input: \"{{ hitl_response }}\"}]}, {id: m, steps: [{agent: a, input: m}, {agent: a, input: m}]}, {id: r, steps: [{type: hitl, prompt: Right?}]}], reduce: {type: hitl, prompt: Join?}}}";
    let error = stage.run(&spec(pattern, "")).await.unwrap_err();
    assert!(matches!(error, Error::Waiting { .. }), "{error}");
    assert_eq!(stage.begun(), ["branches/m/steps/0", "branches/m/steps/1"]);
    let error = say(&stage, "which").await.unwrap_err();
    assert!(matches!(error, Error::WhichQuestion { .. }), "{error}");
    let summary = stage.summary().await;
    for (step, text) in [
        ("branches/l/steps/0", "left"),
        ("branches/r/steps/0", "right"),
    ] {
        answer(&stage.world, &summary, Some(step), text, "ann")
            .await
            .unwrap();
    }
    stage.resume().await.unwrap_err();
    assert_eq!(stage.asked("branches/l/steps/1").as_deref(), Some("left"));
    say(&stage, "joined").await.unwrap();
    assert_eq!(stage.resume().await.unwrap().output, "joined");
}

#[tokio::test]
async fn a_reviewer_may_choose_another_route() {
    let pattern = "{type: routing, config: {router: {agent: b, input: Choose., review_router: {type: hitl, prompt: Right?, context_display: \"{{ router.chosen_route }}\"}}, routes: {Long: {then: [{agent: a, input: \"{{ router.chosen_route }}\"}]}, short: {then: [{agent: a, input: s}]}}}}";
    for (said, route) in [("approved", "short"), ("route: long", "Long")] {
        let waiting =
            stage("answers: [{step: router, text: '{\"route\": \"short\"}'}]\ndefault: {text: x}");
        waiting.run(&spec(pattern, "")).await.unwrap_err();
        // What means nothing is refused when it is given: it cannot block the session for ever.
        let error = say(&waiting, "maybe").await.unwrap_err();
        assert!(matches!(error, Error::NotAnAnswer { .. }), "{error}");
        let stage =
            stage("answers: [{step: router, text: '{\"route\": \"short\"}'}]\ndefault: {text: x}");
        stage.run(&spec(pattern, "")).await.unwrap_err();
        say(&stage, said).await.unwrap();
        stage.resume().await.unwrap();
        assert_eq!(stage.begun(), [format!("routes/{route}/steps/0")]);
    }
}

#[tokio::test]
async fn a_gate_ends_the_drafts_or_lets_them_go_on() {
    let pattern = "{type: evaluator_optimizer, config: {producer: a, evaluator: {agent: b}, accept: {min_score: 80, max_iters: 2}, revise_prompt: \"{{ hitl_response }}\", review_gate: {type: hitl, prompt: Go on?, context_display: \"{{ iteration_index }} {{ current_evaluation.score }} {{ iterations[-1].draft_preview }}\"}}}";
    for (said, output) in [("STOP", "first"), ("shorter", "second")] {
        let stage = stage(
            "answers: [{step: iterations/1/producer, text: first}, {step: iterations/1/evaluator, text: '{\"score\": 10}'}, {step: iterations/2/evaluator, text: '{\"score\": 90}'}]\ndefault: {text: second}",
        );
        let error = stage.run(&spec(pattern, "")).await.unwrap_err().to_string();
        assert!(error.ends_with("0 10 first"), "{error}");
        say(&stage, said).await.unwrap();
        assert_eq!(stage.resume().await.unwrap().output, output);
        if output == "second" {
            assert_eq!(stage.asked("iterations/2/producer").as_deref(), Some(said));
        }
    }
}

#[tokio::test]
async fn an_answer_must_look_as_its_question_says() {
    let pattern = "{type: orchestrator_workers, config: {orchestrator: {agent: b}, worker_template: {agent: a}, decomposition_review: {type: hitl, prompt: Good plan?, context_display: \"{{ task_count }} {{ subtasks[0].task }}\", validation: {pattern: \"^(yes|no)$\"}}, reduce_review: {type: hitl, prompt: Good work?, context_display: \"{{ worker_count }}\"}, reduce: {agent: a, input: \"{{ hitl_response }} {{ num_workers }}\"}}}";
    let stage = stage(
        "answers: [{step: rounds/1/orchestrator, text: '[{\"task\": \"dig\"}]'}]\ndefault: {text: x}",
    );
    stage.run(&spec(pattern, "")).await.unwrap_err();
    let error = say(&stage, "maybe").await.unwrap_err();
    assert!(matches!(error, Error::NotAnAnswer { .. }), "{error}");
    say(&stage, "yes").await.unwrap();
    stage.resume().await.unwrap_err();
    say(&stage, "fine").await.unwrap();
    stage.resume().await.unwrap();
    assert_eq!(stage.asked("reduce").as_deref(), Some("fine 1"));
}

#[tokio::test]
async fn a_task_and_a_node_can_ask_a_person() {
    for (pattern, step) in [
        (
            "{type: workflow, config: {tasks: [{id: p, type: hitl, prompt: Why?}, {id: q, agent: a, deps: [p], input: \"{{ hitl_response }} {{ tasks.p.response }}\"}]}}",
            "tasks/q",
        ),
        (
            "{type: graph, config: {nodes: {p: {type: hitl, prompt: Why?}, q: {agent: a, input: \"{{ hitl_response }} {{ nodes.p.response }}\"}}, edges: [{from: p, to: [q]}]}}",
            "nodes/q",
        ),
    ] {
        let stage = stage("default: {text: x}");
        stage.run(&spec(pattern, "")).await.unwrap_err();
        say(&stage, "so").await.unwrap();
        stage.resume().await.unwrap();
        assert_eq!(stage.asked(step).as_deref(), Some("so so"));
    }
}

#[tokio::test]
async fn time_between_runs_is_nobody_s() {
    let stage = stage("default: {text: x, delay_ms: 3000}");
    let spec = asking("").replace("s.yaml", "s.yaml, budgets: {max_duration_s: 20}");
    stage.run(&spec).await.unwrap_err();
    stage
        .clock
        .turn(Duration::from_hours(10).as_millis().try_into().unwrap());
    say(&stage, "yes").await.unwrap();
    stage.resume().await.unwrap();
}
