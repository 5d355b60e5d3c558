use std::fmt::Write;

use segno_engine::Error;

use crate::harness::{harness, spec};

const DRAFTS: &str = "{type: evaluator_optimizer, config: {producer: a, evaluator: {agent: b, input: \"Score {{ draft }}\"}, accept: {min_score: 80, max_iters: 3}, revise_prompt: \"{{ iteration }}: fix {{ evaluation.issues | tojson }} in {{ draft }} ({{ evaluation.score }})\"}}";

fn script(scores: &[u32]) -> String {
    let mut script = "answers:\n".to_owned();
    for (n, score) in scores.iter().enumerate() {
        let n = n + 1;
        let _ = write!(
            script,
            "- {{step: iterations/{n}/producer, text: draft {n}}}\n- {{step: iterations/{n}/evaluator, text: '{{\"score\": {score}, \"issues\": [\"dull {n}\"], \"fixes\": null}}'}}\n"
        );
    }
    script
}

#[tokio::test]
async fn drafts_are_revised_until_the_score_is_reached() {
    let harness = harness(&script(&[40, 85]));
    let artifact = "outputs: {artifacts: [{path: o, from: \"{{ iterations }} {{ final_score }} {{ min_score }} {{ max_iters }} {% for h in history %}{{ h.iteration }}:{{ h.score }}:{{ h.draft }};{% endfor %} {{ last_evaluation.issues }}\"}]}";
    let outcome = harness.run(&spec(DRAFTS, artifact)).await.unwrap();
    assert_eq!(outcome.output, "draft 2");
    assert_eq!(
        harness.prompt_of("iterations/1/producer").as_deref(),
        Some("Answer.")
    );
    assert_eq!(
        harness.prompt_of("iterations/2/producer").as_deref(),
        Some("2: fix [\"dull 1\"] in draft 1 (40)")
    );
    assert_eq!(
        harness.artifact("o"),
        "2 85 80 3 1:40:draft 1;2:85:draft 2; ['dull 2']"
    );
}

#[tokio::test]
async fn resume_grants_no_more_drafts_than_max_iters() {
    let harness = harness(&script(&[40, 50, 60]));
    let error = harness.run(&spec(DRAFTS, "")).await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::BelowScore {
                best: 60,
                drafts: 3,
                ..
            }
        ),
        "{error}"
    );
    let error = harness.resume().await.unwrap_err();
    assert!(matches!(error, Error::BelowScore { .. }), "{error}");
    assert_eq!(harness.started_steps(), [""; 0]);
}

#[tokio::test]
async fn resume_in_last_iteration_stops_after_it() {
    let failing = script(&[40, 50]) + "- {step: iterations/3/producer, fail: {kind: auth}}\n";
    let harness = harness(&failing);
    harness.run(&spec(DRAFTS, "")).await.unwrap_err();
    harness.set_script(&script(&[99, 99, 60, 99]));
    harness.resume().await.unwrap_err();
    assert_eq!(
        harness.started_steps(),
        ["iterations/3/producer", "iterations/3/evaluator"]
    );
}

#[tokio::test]
async fn invalid_score_is_requested_once_more() {
    for bad in ["85.5", "101", "\\\"high\\\"", "null"] {
        let harness = harness(&format!(
            "answers:\n- {{step: iterations/1/evaluator, text: \"{{\\\"score\\\": {bad}}}\"}}\n- {{step: 'iterations/1/evaluator#2', text: '{{\"score\": \"85\"}}'}}\ndefault: {{text: draft}}"
        ));
        assert_eq!(
            harness.run(&spec(DRAFTS, "")).await.unwrap().output,
            "draft"
        );
        let again = harness.prompt_of("iterations/1/evaluator#2").unwrap();
        assert!(again.starts_with("Score draft\n"), "{again}");
    }
    let harness = harness("default: {text: splendid}");
    let error = harness.run(&spec(DRAFTS, "")).await.unwrap_err();
    assert!(
        matches!(error, Error::UnusableAnswer { times: 2, .. }),
        "{error}"
    );
}
