use segno_engine::Error;

use crate::harness::{harness, spec};

const ROUNDS: &str = "{type: orchestrator_workers, config: {orchestrator: {agent: b, input: Plan., limits: {max_workers: 2, max_rounds: 3}}, worker_template: {agent: a}, reduce: {agent: a, input: \"{% for w in workers %}{{ w.task }}={{ w.response }} {% endfor %}{{ num_workers }} in {{ round_count }}\"}, writeup: {agent: a, input: \"{{ reduce_response }}!\"}}}";

#[tokio::test]
async fn orchestrator_assigns_rounds_until_no_task_is_left() {
    let harness = harness(
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
    let outcome = harness.run(&spec(ROUNDS, artifact)).await.unwrap();
    assert_eq!(outcome.output, "The harvest is in.");
    assert_eq!(
        harness.prompt_of("rounds/1/workers/1").as_deref(),
        Some("sow")
    );
    let second = harness.prompt_of("rounds/2/orchestrator").unwrap();
    assert!(
        second.starts_with("Plan.") && second.contains("Worker 1 (sow):\nsown"),
        "{second}"
    );
    assert_eq!(
        harness.prompt_of("reduce").as_deref(),
        Some("dig=dug sow=sown wait=waited reap=reaped 4 in 2")
    );
    assert_eq!(harness.prompt_of("writeup").as_deref(), Some("harvest!"));
    assert_eq!(harness.artifact("o"), "4 2 harvest The harvest is in.");
}

#[tokio::test]
async fn plan_that_is_not_a_list_is_retried_twice() {
    let harness = harness("default: {text: Let us begin.}");
    let error = harness.run(&spec(ROUNDS, "")).await.unwrap_err();
    assert!(
        matches!(error, Error::UnusableAnswer { times: 3, .. }),
        "{error}"
    );
    assert_eq!(
        harness.started_steps(),
        [
            "rounds/1/orchestrator",
            "rounds/1/orchestrator#2",
            "rounds/1/orchestrator#3"
        ]
    );
}

#[tokio::test]
async fn reduce_runs_without_any_task() {
    let harness =
        harness("answers: [{step: rounds/1/orchestrator, text: '[]'}]\ndefault: {text: idle}");
    assert_eq!(harness.run(&spec(ROUNDS, "")).await.unwrap().output, "idle");
    assert_eq!(harness.prompt_of("reduce").as_deref(), Some("0 in 0"));
}

#[tokio::test]
async fn resume_reruns_only_the_failed_worker() {
    let plan = "answers: [{step: rounds/1/orchestrator, text: '[{\"task\": \"x\"}, {\"task\": \"y\"}]'}, {step: rounds/2/orchestrator, text: '[]'}";
    let harness = harness(&format!(
        "{plan}, {{step: rounds/1/workers/1, fail: {{kind: auth}}}}]\ndefault: {{text: done, delay_ms: 10}}"
    ));
    harness.run(&spec(ROUNDS, "")).await.unwrap_err();
    harness.set_script(&format!("{plan}]\ndefault: {{text: done}}"));
    harness.resume().await.unwrap();
    assert_eq!(
        harness.started_steps(),
        [
            "rounds/1/workers/1",
            "rounds/2/orchestrator",
            "reduce",
            "writeup"
        ]
    );
}
