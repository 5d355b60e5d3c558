use crate::harness::{harness, spec};

const BRANCHES: &str = "{type: parallel, config: {branches: [
  {id: right, steps: [{agent: a, input: contra}, {agent: a, input: \"more {{ last_response }} {{ steps[0].response }}\"}]},
  {id: left, steps: [{agent: a, input: pro}]}]REDUCE}}";

#[tokio::test]
async fn branches_see_their_own_steps_and_the_reduce_sees_all() {
    let harness = harness(
        "answers: [{step: branches/left/steps/0, text: yes}, {step: branches/right/steps/0, text: no}, {step: branches/right/steps/1, text: never}]\ndefault: {text: so be it}",
    );
    let reduce = ", reduce: {agent: b, input: \"{{ branches.left.response }}/{{ branches.right.response }} {{ branches | length }}\"}";
    let pattern = BRANCHES.replace("REDUCE", reduce);
    let outcome = harness.run(&spec(&pattern, "")).await.unwrap();
    assert_eq!(outcome.output, "so be it");
    assert_eq!(
        harness.prompt_of("branches/right/steps/1").as_deref(),
        Some("more no no")
    );
    assert_eq!(harness.prompt_of("reduce").as_deref(), Some("yes/never 2"));
}

#[tokio::test]
async fn without_reduce_answers_are_sorted_by_branch() {
    let harness = harness(
        "answers: [{step: branches/left/steps/0, text: yes, delay_ms: 900}]\ndefault: {text: no}",
    );
    let outcome = harness
        .run(&spec(&BRANCHES.replace("REDUCE", ""), ""))
        .await;
    assert_eq!(
        outcome.unwrap().output,
        "Branch left:\nyes\n\n---\n\nBranch right:\nno"
    );
}

#[tokio::test]
async fn resume_reruns_only_the_failed_branch() {
    let harness = harness(
        "answers: [{step: branches/right/steps/1, fail: {kind: auth}}]\ndefault: {text: fine, delay_ms: 10}",
    );
    let spec = spec(&BRANCHES.replace("REDUCE", ", reduce: {agent: b}"), "");
    harness.run(&spec).await.unwrap_err();
    harness.set_script("default: {text: fine}");
    harness.resume().await.unwrap();
    assert_eq!(
        harness.started_steps(),
        ["branches/right/steps/1", "reduce"]
    );
}
