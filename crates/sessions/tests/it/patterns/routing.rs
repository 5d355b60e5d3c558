use segno_engine::Error;

use crate::harness::{harness, spec};

const ROUTES: &str = "{type: routing, config: {router: {agent: b, input: Choose., max_retries: 1}, routes: {long: {then: [{agent: a, input: \"at length, {{ router.chosen_route }}\"}, {agent: a}]}, short: {then: [{agent: a, input: in short}]}}}}";

#[tokio::test]
async fn only_the_chosen_route_runs() {
    let harness = harness(
        "answers: [{step: router, text: 'I take ```json\n{\"route\": \"long\", \"why\": 1}\n```'}, {step: routes/long/steps/0, text: one}]\ndefault: {text: two}",
    );
    let artifact = "outputs: {artifacts: [{path: \"{{ chosen_route }}.md\", from: \"{{ router_agent }}: {{ steps[0].response }}, {{ last_response }}\"}]}";
    let outcome = harness.run(&spec(ROUTES, artifact)).await.unwrap();
    assert_eq!(outcome.output, "two");
    assert_eq!(
        harness.started_steps(),
        ["router", "routes/long/steps/0", "routes/long/steps/1"]
    );
    assert_eq!(
        harness.prompt_of("routes/long/steps/0").as_deref(),
        Some("at length, long")
    );
    assert_eq!(
        harness.prompt_of("routes/long/steps/1").as_deref(),
        Some("one")
    );
    assert_eq!(harness.artifact("long.md"), "b: one, two");
}

#[tokio::test]
async fn answer_without_a_route_is_retried() {
    let harness = harness(
        "answers: [{step: router, text: maybe long}, {step: 'router#2', text: '{\"route\": \"short\"}'}]\ndefault: {text: done}",
    );
    assert_eq!(harness.run(&spec(ROUTES, "")).await.unwrap().output, "done");
    let again = harness.prompt_of("router#2").unwrap();
    assert!(again.contains("was not usable"), "{again}");
}

#[tokio::test]
async fn failed_router_is_not_asked_again_on_resume() {
    let harness = harness("default: {text: maybe}");
    let error = harness.run(&spec(ROUTES, "")).await.unwrap_err();
    assert!(
        matches!(error, Error::UnusableAnswer { times: 2, .. }),
        "{error}"
    );
    harness.resume().await.unwrap_err();
    assert_eq!(harness.started_steps(), [""; 0]);
}

#[tokio::test]
async fn unknown_route_fails_immediately() {
    let harness = harness("default: {text: '{\"route\": \"lang\"}'}");
    let error = harness
        .run(&spec(ROUTES, ""))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("no route `lang`"), "{error}");
    assert_eq!(harness.started_steps(), ["router"]);
}

#[tokio::test]
async fn resume_keeps_the_chosen_route() {
    let harness = harness(
        "answers: [{step: router, text: '{\"route\": \"long\"}'}, {step: routes/long/steps/1, fail: {kind: auth}}]\ndefault: {text: fine}",
    );
    harness.run(&spec(ROUTES, "")).await.unwrap_err();
    // The router would choose the other route now.
    harness.set_script(
        "answers: [{step: router, text: '{\"route\": \"short\"}'}]\ndefault: {text: fine}",
    );
    harness.resume().await.unwrap();
    assert_eq!(harness.started_steps(), ["routes/long/steps/1"]);
}
