use segno_engine::Error;

use crate::world::{spec, stage};

const ROUTES: &str = "{type: routing, config: {router: {agent: b, input: Choose., max_retries: 1}, routes: {long: {then: [{agent: a, input: \"at length, {{ router.chosen_route }}\"}, {agent: a}]}, short: {then: [{agent: a, input: in short}]}}}}";

#[tokio::test]
async fn the_chosen_route_is_run_and_nothing_else() {
    let stage = stage(
        "answers: [{step: router, text: 'I take ```json\n{\"route\": \"long\", \"why\": 1}\n```'}, {step: routes/long/steps/0, text: one}]\ndefault: {text: two}",
    );
    let artifact = "outputs: {artifacts: [{path: \"{{ chosen_route }}.md\", from: \"{{ router_agent }}: {{ steps[0].response }}, {{ last_response }}\"}]}";
    let outcome = stage.run(&spec(ROUTES, artifact)).await.unwrap();
    assert_eq!(outcome.output, "two");
    assert_eq!(
        stage.begun(),
        ["router", "routes/long/steps/0", "routes/long/steps/1"]
    );
    assert_eq!(
        stage.asked("routes/long/steps/0").as_deref(),
        Some("at length, long")
    );
    assert_eq!(stage.asked("routes/long/steps/1").as_deref(), Some("one"));
    assert_eq!(stage.artifact("long.md"), "b: one, two");
}

#[tokio::test]
async fn an_answer_that_names_no_route_is_asked_for_again() {
    let stage = stage(
        "answers: [{step: router, text: maybe long}, {step: 'router#2', text: '{\"route\": \"short\"}'}]\ndefault: {text: done}",
    );
    assert_eq!(stage.run(&spec(ROUTES, "")).await.unwrap().output, "done");
    let again = stage.asked("router#2").unwrap();
    assert!(again.contains("could not be used"), "{again}");
}

#[tokio::test]
async fn a_router_that_never_names_a_route_fails_and_its_answers_are_kept() {
    let stage = stage("default: {text: maybe}");
    let error = stage.run(&spec(ROUTES, "")).await.unwrap_err();
    assert!(matches!(error, Error::Unusable { times: 2, .. }), "{error}");
    stage.resume().await.unwrap_err();
    assert_eq!(stage.begun(), [""; 0]);
}

#[tokio::test]
async fn a_route_that_does_not_exist_fails_at_once() {
    let stage = stage("default: {text: '{\"route\": \"lang\"}'}");
    let error = stage.run(&spec(ROUTES, "")).await.unwrap_err().to_string();
    assert!(error.contains("no route `lang`"), "{error}");
    assert_eq!(stage.begun(), ["router"]);
}

#[tokio::test]
async fn the_choice_survives_a_failure_in_its_route() {
    let stage = stage(
        "answers: [{step: router, text: '{\"route\": \"long\"}'}, {step: routes/long/steps/1, fail: {kind: auth}}]\ndefault: {text: fine}",
    );
    stage.run(&spec(ROUTES, "")).await.unwrap_err();
    // It would choose the other one now.
    stage.mend("answers: [{step: router, text: '{\"route\": \"short\"}'}]\ndefault: {text: fine}");
    stage.resume().await.unwrap();
    assert_eq!(stage.begun(), ["routes/long/steps/1"]);
}
