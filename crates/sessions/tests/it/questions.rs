//! Questions to humans: recorded before they are shown, asked once, and answered before the answer
//! is used.

use std::time::Duration;

use segno_core::session::Status;
use segno_engine::{Env, Error};
use segno_sessions::answer::{self, answer, open_questions};

use crate::harness::{Harness, harness, spec};

const CHAIN: &str = "{type: chain, config: {steps: [{agent: a, input: facts}, {type: hitl, prompt: \"Good {{ enough }}?\", context_display: \"It says: {{ steps[0].response }}\"DEFAULT}, {agent: b, input: \"{{ hitl_response }} {{ steps[1].response }} {{ steps[1].type }}\"}]}}";

fn spec_with_question(more: &str) -> String {
    spec(&CHAIN.replace("DEFAULT", more), "")
}

async fn answer_question(harness: &Harness, text: &str) -> Result<String, answer::Error> {
    let env: &Env = &harness.env;
    let summary = harness.summary().await;
    let path = answer(env, &summary, None, text, "ann").await?;
    Ok(path.to_string())
}

#[tokio::test]
async fn question_ends_the_run_and_answer_resumes_it() {
    let harness = harness("default: {text: the tide}");
    let error = harness.run(&spec_with_question("")).await.unwrap_err();
    let Error::WaitingForHuman {
        prompt, context, ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(prompt, "Good {{ enough }}?");
    assert_eq!(context.as_deref(), Some("It says: the tide"));
    assert_eq!(harness.summary().await.status, Status::Waiting);
    let open_questions = open_questions(&harness.env, &harness.summary().await)
        .await
        .unwrap();
    assert_eq!(
        open_questions[0].context.as_deref(),
        Some("It says: the tide")
    );
    // A resume without an answer asks the same question, and does not record it again.
    harness.resume().await.unwrap_err();
    assert!(
        !harness
            .event_kinds()
            .contains(&"question_asked steps/1".to_owned())
    );
    assert_eq!(answer_question(&harness, "yes").await.unwrap(), "steps/1");
    harness.resume().await.unwrap();
    assert_eq!(
        harness.prompt_of("steps/2").as_deref(),
        Some("yes yes hitl")
    );
    assert_eq!(harness.started_steps(), ["steps/2"]);
}

#[tokio::test]
async fn a_question_is_answered_once() {
    let harness = harness("default: {text: x}");
    harness.run(&spec_with_question("")).await.unwrap_err();
    answer_question(&harness, "yes").await.unwrap();
    let error = answer_question(&harness, "no").await.unwrap_err();
    assert!(
        matches!(error, answer::Error::NoOpenQuestion { .. }),
        "{error}"
    );
    harness.resume().await.unwrap();
    let error = answer_question(&harness, "no").await.unwrap_err();
    assert!(
        matches!(error, answer::Error::NoOpenQuestion { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn default_answers_after_the_timeout() {
    let harness = harness("default: {text: x}");
    harness
        .run(&spec_with_question(
            ", default: \"so so\", timeout_seconds: 60",
        ))
        .await
        .unwrap_err();
    harness.clock.advance(59_000);
    harness.resume().await.unwrap_err();
    harness.clock.advance(2_000);
    harness.resume().await.unwrap();
    assert_eq!(
        harness.prompt_of("steps/2").as_deref(),
        Some("so so so so hitl")
    );
}

#[tokio::test]
async fn timeout_without_default_fails_but_late_answer_counts() {
    let harness = harness("default: {text: x}");
    harness
        .run(&spec_with_question(", timeout_seconds: 60"))
        .await
        .unwrap_err();
    harness.clock.advance(61_000);
    let error = harness.resume().await.unwrap_err();
    assert!(matches!(error, Error::AnswerTimeout { .. }), "{error}");
    answer_question(&harness, "late").await.unwrap();
    harness.resume().await.unwrap();
    assert_eq!(
        harness.prompt_of("steps/2").as_deref(),
        Some("late late hitl")
    );
}

#[tokio::test]
async fn other_branches_continue_while_one_waits() {
    let harness = harness("default: {text: x, delay_ms: 10}");
    let pattern = "{type: parallel, config: {branches: [{id: l, steps: [{type: hitl, prompt: Left?}, {agent: a, input: \"{{ hitl_response }}\"}]}, {id: m, steps: [{agent: a, input: m}, {agent: a, input: m}]}, {id: r, steps: [{type: hitl, prompt: Right?}]}], reduce: {type: hitl, prompt: Join?}}}";
    let error = harness.run(&spec(pattern, "")).await.unwrap_err();
    assert!(matches!(error, Error::WaitingForHuman { .. }), "{error}");
    assert_eq!(
        harness.started_steps(),
        ["branches/m/steps/0", "branches/m/steps/1"]
    );
    let error = answer_question(&harness, "which").await.unwrap_err();
    assert!(matches!(error, answer::Error::Ambiguous { .. }), "{error}");
    let summary = harness.summary().await;
    for (step, text) in [
        ("branches/l/steps/0", "left"),
        ("branches/r/steps/0", "right"),
    ] {
        answer(&harness.env, &summary, Some(step), text, "ann")
            .await
            .unwrap();
    }
    harness.resume().await.unwrap_err();
    assert_eq!(
        harness.prompt_of("branches/l/steps/1").as_deref(),
        Some("left")
    );
    answer_question(&harness, "joined").await.unwrap();
    assert_eq!(harness.resume().await.unwrap().output, "joined");
}

#[tokio::test]
async fn a_reviewer_may_choose_another_route() {
    let pattern = "{type: routing, config: {router: {agent: b, input: Choose., review_router: {type: hitl, prompt: Right?, context_display: \"{{ router.chosen_route }}\"}}, routes: {Long: {then: [{agent: a, input: \"{{ router.chosen_route }}\"}]}, short: {then: [{agent: a, input: s}]}}}}";
    for (said, route) in [("approved", "short"), ("route: long", "Long")] {
        let waiting = harness(
            "answers: [{step: router, text: '{\"route\": \"short\"}'}]\ndefault: {text: x}",
        );
        waiting.run(&spec(pattern, "")).await.unwrap_err();
        // An unusable answer is rejected when it is given, so it cannot block the session forever.
        let error = answer_question(&waiting, "maybe").await.unwrap_err();
        assert!(matches!(error, answer::Error::Invalid { .. }), "{error}");
        let harness = harness(
            "answers: [{step: router, text: '{\"route\": \"short\"}'}]\ndefault: {text: x}",
        );
        harness.run(&spec(pattern, "")).await.unwrap_err();
        answer_question(&harness, said).await.unwrap();
        harness.resume().await.unwrap();
        assert_eq!(harness.started_steps(), [format!("routes/{route}/steps/0")]);
    }
}

#[tokio::test]
async fn review_gate_stops_or_continues_the_drafts() {
    let pattern = "{type: evaluator_optimizer, config: {producer: a, evaluator: {agent: b}, accept: {min_score: 80, max_iters: 2}, revise_prompt: \"{{ hitl_response }}\", review_gate: {type: hitl, prompt: Go on?, context_display: \"{{ iteration_index }} {{ current_evaluation.score }} {{ iterations[-1].draft_preview }}\"}}}";
    for (said, output) in [("STOP", "first"), ("shorter", "second")] {
        let harness = harness(
            "answers: [{step: iterations/1/producer, text: first}, {step: iterations/1/evaluator, text: '{\"score\": 10}'}, {step: iterations/2/evaluator, text: '{\"score\": 90}'}]\ndefault: {text: second}",
        );
        let error = harness
            .run(&spec(pattern, ""))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.ends_with("0 10 first"), "{error}");
        answer_question(&harness, said).await.unwrap();
        assert_eq!(harness.resume().await.unwrap().output, output);
        if output == "second" {
            assert_eq!(
                harness.prompt_of("iterations/2/producer").as_deref(),
                Some(said)
            );
        }
    }
}

#[tokio::test]
async fn answer_must_match_the_validation() {
    let pattern = "{type: orchestrator_workers, config: {orchestrator: {agent: b}, worker_template: {agent: a}, decomposition_review: {type: hitl, prompt: Good plan?, context_display: \"{{ task_count }} {{ subtasks[0].task }}\", validation: {pattern: \"^(yes|no)$\"}}, reduce_review: {type: hitl, prompt: Good work?, context_display: \"{{ worker_count }}\"}, reduce: {agent: a, input: \"{{ hitl_response }} {{ num_workers }}\"}}}";
    let harness = harness(
        "answers: [{step: rounds/1/orchestrator, text: '[{\"task\": \"dig\"}]'}]\ndefault: {text: x}",
    );
    harness.run(&spec(pattern, "")).await.unwrap_err();
    let error = answer_question(&harness, "maybe").await.unwrap_err();
    assert!(matches!(error, answer::Error::Invalid { .. }), "{error}");
    answer_question(&harness, "yes").await.unwrap();
    harness.resume().await.unwrap_err();
    answer_question(&harness, "fine").await.unwrap();
    harness.resume().await.unwrap();
    assert_eq!(harness.prompt_of("reduce").as_deref(), Some("fine 1"));
}

#[tokio::test]
async fn task_and_node_can_ask_a_human() {
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
        let harness = harness("default: {text: x}");
        harness.run(&spec(pattern, "")).await.unwrap_err();
        answer_question(&harness, "so").await.unwrap();
        harness.resume().await.unwrap();
        assert_eq!(harness.prompt_of(step).as_deref(), Some("so so"));
    }
}

#[tokio::test]
async fn time_between_runs_does_not_count() {
    let harness = harness("default: {text: x, delay_ms: 3000}");
    let spec = spec_with_question("").replace("s.yaml", "s.yaml, budgets: {max_duration_s: 20}");
    harness.run(&spec).await.unwrap_err();
    harness
        .clock
        .advance(Duration::from_hours(10).as_millis().try_into().unwrap());
    answer_question(&harness, "yes").await.unwrap();
    harness.resume().await.unwrap();
}
