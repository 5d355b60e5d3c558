use segno_engine::Error;

use crate::world::{spec, stage};

const DIAMOND: &str = "{type: workflow, config: {tasks: [
  {id: x, agent: a, input: cause},
  {id: y, agent: a, input: effect},
  {id: z, agent: b, deps: [x, y], input: \"{{ tasks.x.response }} + {{ tasks.y.response }} ({{ tasks.x.agent }}, {{ tasks.x.status }})\"}]}}";

#[tokio::test]
async fn a_task_sees_the_tasks_before_it() {
    let stage = stage(
        "answers: [{step: tasks/x, text: moon}, {step: tasks/y, text: tide}, {step: tasks/z, text: both}]",
    );
    let artifact = "outputs: {artifacts: [{path: o, from: \"{% for id, t in tasks.items() %}{{ id }}={{ t.response }} {% endfor %}{{ last_response }}\"}]}";
    let outcome = stage.run(&spec(DIAMOND, artifact)).await.unwrap();
    assert_eq!(outcome.output, "both");
    assert_eq!(
        stage.asked("tasks/z").as_deref(),
        Some("moon + tide (a, success)")
    );
    assert_eq!(stage.artifact("o"), "x=moon y=tide z=both both");
}

#[tokio::test]
async fn a_task_begins_as_soon_as_its_own_dependencies_are_done() {
    let stage = stage(
        "answers: [{step: tasks/slow, text: late, delay_ms: 60000}]\ndefault: {text: quick, delay_ms: 10}",
    );
    let pattern = "{type: workflow, config: {tasks: [{id: slow, agent: a, input: x}, {id: first, agent: a, input: x}, {id: second, agent: a, deps: [first], input: x}, {id: third, agent: a, deps: [second], input: x}]}}";
    stage.run(&spec(pattern, "")).await.unwrap();
    let kinds = stage.kinds();
    let place = |kind: &str| kinds.iter().position(|known| known == kind).unwrap();
    assert!(
        place("step_finished tasks/third") < place("step_finished tasks/slow"),
        "{kinds:?}"
    );
}

#[tokio::test]
async fn no_more_agents_are_asked_at_once_than_allowed() {
    let stage = stage("default: {text: x, delay_ms: 100}");
    let tasks: Vec<String> = (0..9)
        .map(|n| format!("{{id: t{n}, agent: a, input: x}}"))
        .collect();
    let pattern = format!(
        "{{type: workflow, config: {{tasks: [{}]}}}}",
        tasks.join(", ")
    );
    let spec = spec(&pattern, "").replace("s.yaml", "s.yaml, max_parallel: 3");
    stage.run(&spec).await.unwrap();
    let (mut now, mut most) = (0_i32, 0);
    for kind in stage.kinds() {
        now += i32::from(kind.starts_with("step_started"));
        now -= i32::from(kind.starts_with("step_finished"));
        most = most.max(now);
    }
    // A result and the next intent share a commit, and are shown in this order.
    assert_eq!(most, 3);
}

#[tokio::test]
async fn a_failed_task_is_the_only_one_that_is_run_again() {
    let stage = stage(
        "answers: [{step: tasks/y, fail: {kind: auth}, delay_ms: 5}]\ndefault: {text: fine, delay_ms: 50}",
    );
    let error = stage.run(&spec(DIAMOND, "")).await.unwrap_err();
    assert!(matches!(error, Error::Step { path, .. } if path.as_str() == "tasks/y"));
    // What was in flight beside it is paid for, and kept.
    assert!(stage.kinds().contains(&"step_finished tasks/x".to_owned()));
    stage.mend("default: {text: fine}");
    let outcome = stage.resume().await.unwrap();
    assert_eq!(stage.begun(), ["tasks/y", "tasks/z"]);
    assert_eq!(outcome.saved.steps, 1);
}

#[tokio::test]
async fn after_a_failure_nothing_new_is_begun() {
    let stage = stage(
        "answers: [{step: tasks/x, fail: {kind: auth}}]\ndefault: {text: fine, delay_ms: 50}",
    );
    let pattern = "{type: workflow, config: {tasks: [{id: x, agent: a, input: x}, {id: y, agent: a, input: x}, {id: z, agent: a, deps: [y], input: x}]}}";
    stage.run(&spec(pattern, "")).await.unwrap_err();
    assert!(!stage.begun().contains(&"tasks/z".to_owned()));
}

#[tokio::test]
async fn a_task_without_an_input_works_on_what_came_before_it() {
    let stage = stage("answers: [{step: tasks/x, text: moon}]\ndefault: {text: fine}");
    let pattern = "{type: workflow, config: {tasks: [{id: x, agent: a, input: x}, {id: y, agent: a, deps: [x], description: Sum up.}]}}";
    stage.run(&spec(pattern, "")).await.unwrap();
    assert_eq!(
        stage.asked("tasks/y").as_deref(),
        Some("Sum up.\n\nx:\nmoon")
    );
}
