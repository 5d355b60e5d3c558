use segno_engine::Error;

use crate::harness::{harness, spec};

const DIAMOND: &str = "{type: workflow, config: {tasks: [
  {id: x, agent: a, input: cause},
  {id: y, agent: a, input: effect},
  {id: z, agent: b, deps: [x, y], input: \"{{ tasks.x.response }} + {{ tasks.y.response }} ({{ tasks.x.agent }}, {{ tasks.x.status }})\"}]}}";

#[tokio::test]
async fn task_sees_its_dependencies() {
    let harness = harness(
        "answers: [{step: tasks/x, text: moon}, {step: tasks/y, text: tide}, {step: tasks/z, text: both}]",
    );
    let artifact = "outputs: {artifacts: [{path: o, from: \"{% for id, t in tasks.items() %}{{ id }}={{ t.response }} {% endfor %}{{ last_response }}\"}]}";
    let outcome = harness.run(&spec(DIAMOND, artifact)).await.unwrap();
    assert_eq!(outcome.output, "both");
    assert_eq!(
        harness.prompt_of("tasks/z").as_deref(),
        Some("moon + tide (a, success)")
    );
    assert_eq!(harness.artifact("o"), "x=moon y=tide z=both both");
}

#[tokio::test]
async fn task_starts_when_its_dependencies_are_done() {
    let harness = harness(
        "answers: [{step: tasks/slow, text: late, delay_ms: 60000}]\ndefault: {text: quick, delay_ms: 10}",
    );
    let pattern = "{type: workflow, config: {tasks: [{id: slow, agent: a, input: x}, {id: first, agent: a, input: x}, {id: second, agent: a, deps: [first], input: x}, {id: third, agent: a, deps: [second], input: x}]}}";
    harness.run(&spec(pattern, "")).await.unwrap();
    let event_kinds = harness.event_kinds();
    let place = |kind: &str| event_kinds.iter().position(|known| known == kind).unwrap();
    assert!(
        place("step_finished tasks/third") < place("step_finished tasks/slow"),
        "{event_kinds:?}"
    );
}

#[tokio::test]
async fn max_parallel_bounds_concurrent_agents() {
    let harness = harness("default: {text: x, delay_ms: 100}");
    let tasks: Vec<String> = (0..9)
        .map(|n| format!("{{id: t{n}, agent: a, input: x}}"))
        .collect();
    let pattern = format!(
        "{{type: workflow, config: {{tasks: [{}]}}}}",
        tasks.join(", ")
    );
    let spec = spec(&pattern, "").replace("s.yaml", "s.yaml, max_parallel: 3");
    harness.run(&spec).await.unwrap();
    let (mut now, mut most) = (0_i32, 0);
    for kind in harness.event_kinds() {
        now += i32::from(kind.starts_with("step_started"));
        now -= i32::from(kind.starts_with("step_finished"));
        most = most.max(now);
    }
    // A result and the next intent share a commit, and are observed in this order.
    assert_eq!(most, 3);
}

#[tokio::test]
async fn resume_reruns_only_the_failed_task() {
    let harness = harness(
        "answers: [{step: tasks/y, fail: {kind: auth}, delay_ms: 5}]\ndefault: {text: fine, delay_ms: 50}",
    );
    let error = harness.run(&spec(DIAMOND, "")).await.unwrap_err();
    assert!(matches!(error, Error::Step { path, .. } if path.as_str() == "tasks/y"));
    // The concurrent step was in flight: its answer is paid for, and recorded.
    assert!(
        harness
            .event_kinds()
            .contains(&"step_finished tasks/x".to_owned())
    );
    harness.set_script("default: {text: fine}");
    let outcome = harness.resume().await.unwrap();
    assert_eq!(harness.started_steps(), ["tasks/y", "tasks/z"]);
    assert_eq!(outcome.saved.steps, 1);
}

#[tokio::test]
async fn no_task_starts_after_a_failure() {
    let harness = harness(
        "answers: [{step: tasks/x, fail: {kind: auth}}]\ndefault: {text: fine, delay_ms: 50}",
    );
    let pattern = "{type: workflow, config: {tasks: [{id: x, agent: a, input: x}, {id: y, agent: a, input: x}, {id: z, agent: a, deps: [y], input: x}]}}";
    harness.run(&spec(pattern, "")).await.unwrap_err();
    assert!(!harness.started_steps().contains(&"tasks/z".to_owned()));
}

#[tokio::test]
async fn task_without_input_gets_its_dependencies() {
    let harness = harness("answers: [{step: tasks/x, text: moon}]\ndefault: {text: fine}");
    let pattern = "{type: workflow, config: {tasks: [{id: x, agent: a, input: x}, {id: y, agent: a, deps: [x], description: Sum up.}]}}";
    harness.run(&spec(pattern, "")).await.unwrap();
    assert_eq!(
        harness.prompt_of("tasks/y").as_deref(),
        Some("Sum up.\n\nx:\nmoon")
    );
}
