use segno_engine::Error;

use crate::world::{spec, stage};

const ROUNDS: &str = "{type: orchestrator_workers, config: {orchestrator: {agent: b, input: Plan., limits: {max_workers: 2, max_rounds: 3}}, worker_template: {agent: a}, reduce: {agent: a, input: \"{% for w in workers %}{{ w.task }}={{ w.response }} {% endfor %}{{ num_workers }} in {{ round_count }}\"}, writeup: {agent: a, input: \"{{ reduce_response }}!\"}}}";

#[tokio::test]
async fn work_is_handed_out_in_rounds_until_nothing_is_left() {
    let stage = stage(
        "answers:
- {step: rounds/1/orchestrator, text: '[{\"task\": \"dig\"}, {\"task\": \"sow\"}, \"wait\"]'}
- {step: rounds/2/orchestrator, text: 'One more: [{\"task\": \"reap\"}]'}
- {step: rounds/3/orchestrator, text: '[]'}
- {step: rounds/1/workers/0, text: dug}
- {step: rounds/1/workers/1, text: sown}
- {step: rounds/1/workers/2, text: waited}
- {step: rounds/2/workers/0, text: reaped}
- {step: reduce, text: harvest}
- {step: writeup, text: The harvest is in.}
",
    );
    let artifact = "outputs: {artifacts: [{path: o, from: \"{{ workers | length }} {{ round_count }} {{ reduce_response }} {{ writeup_response }}\"}]}";
    let outcome = stage.run(&spec(ROUNDS, artifact)).await.unwrap();
    assert_eq!(outcome.output, "The harvest is in.");
    assert_eq!(stage.asked("rounds/1/workers/1").as_deref(), Some("sow"));
    let second = stage.asked("rounds/2/orchestrator").unwrap();
    assert!(
        second.starts_with("Plan.") && second.contains("Worker 1 (sow):\nsown"),
        "{second}"
    );
    assert_eq!(
        stage.asked("reduce").as_deref(),
        Some("dig=dug sow=sown wait=waited reap=reaped 4 in 2")
    );
    assert_eq!(stage.asked("writeup").as_deref(), Some("harvest!"));
    assert_eq!(stage.artifact("o"), "4 2 harvest The harvest is in.");
}

#[tokio::test]
async fn a_plan_that_is_no_list_is_asked_for_twice_more() {
    let stage = stage("default: {text: Let us begin.}");
    let error = stage.run(&spec(ROUNDS, "")).await.unwrap_err();
    assert!(matches!(error, Error::Unusable { times: 3, .. }), "{error}");
    assert_eq!(
        stage.begun(),
        [
            "rounds/1/orchestrator",
            "rounds/1/orchestrator#2",
            "rounds/1/orchestrator#3"
        ]
    );
}

#[tokio::test]
async fn nothing_to_do_is_joined_too() {
    let stage =
        stage("answers: [{step: rounds/1/orchestrator, text: '[]'}]\ndefault: {text: idle}");
    assert_eq!(stage.run(&spec(ROUNDS, "")).await.unwrap().output, "idle");
    assert_eq!(stage.asked("reduce").as_deref(), Some("0 in 0"));
}

#[tokio::test]
async fn a_failed_worker_is_the_only_one_that_works_again() {
    let plan = "answers: [{step: rounds/1/orchestrator, text: '[{\"task\": \"x\"}, {\"task\": \"y\"}]'}, {step: rounds/2/orchestrator, text: '[]'}";
    let stage = stage(&format!(
        "{plan}, {{step: rounds/1/workers/1, fail: {{kind: auth}}}}]\ndefault: {{text: done, delay_ms: 10}}"
    ));
    stage.run(&spec(ROUNDS, "")).await.unwrap_err();
    stage.mend(&format!("{plan}]\ndefault: {{text: done}}"));
    stage.resume().await.unwrap();
    assert_eq!(
        stage.begun(),
        [
            "rounds/1/workers/1",
            "rounds/2/orchestrator",
            "reduce",
            "writeup"
        ]
    );
}
