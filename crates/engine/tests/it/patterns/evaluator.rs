use std::fmt::Write;

use segno_engine::Error;

use crate::world::{spec, stage};

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
async fn drafts_are_revised_until_one_is_good_enough() {
    let stage = stage(&script(&[40, 85]));
    let artifact = "outputs: {artifacts: [{path: o, from: \"{{ iterations }} {{ final_score }} {{ min_score }} {{ max_iters }} {% for h in history %}{{ h.iteration }}:{{ h.score }}:{{ h.draft }};{% endfor %} {{ last_evaluation.issues }}\"}]}";
    let outcome = stage.run(&spec(DRAFTS, artifact)).await.unwrap();
    assert_eq!(outcome.output, "draft 2");
    assert_eq!(
        stage.asked("iterations/1/producer").as_deref(),
        Some("Answer.")
    );
    assert_eq!(
        stage.asked("iterations/2/producer").as_deref(),
        Some("2: fix [\"dull 1\"] in draft 1 (40)")
    );
    assert_eq!(
        stage.artifact("o"),
        "2 85 80 3 1:40:draft 1;2:85:draft 2; ['dull 2']"
    );
}

#[tokio::test]
async fn drafts_that_are_never_good_enough_fail_and_a_resume_grants_no_more() {
    let stage = stage(&script(&[40, 50, 60]));
    let error = stage.run(&spec(DRAFTS, "")).await.unwrap_err();
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
    let error = stage.resume().await.unwrap_err();
    assert!(matches!(error, Error::BelowScore { .. }), "{error}");
    assert_eq!(stage.begun(), [""; 0]);
}

#[tokio::test]
async fn a_resume_in_the_last_iteration_ends_with_it() {
    let failing = script(&[40, 50]) + "- {step: iterations/3/producer, fail: {kind: auth}}\n";
    let stage = stage(&failing);
    stage.run(&spec(DRAFTS, "")).await.unwrap_err();
    stage.mend(&script(&[99, 99, 60, 99]));
    stage.resume().await.unwrap_err();
    assert_eq!(
        stage.begun(),
        ["iterations/3/producer", "iterations/3/evaluator"]
    );
}

#[tokio::test]
async fn a_score_that_makes_no_sense_is_asked_for_once_more() {
    for bad in ["85.5", "101", "\\\"high\\\"", "null"] {
        let stage = stage(&format!(
            "answers:\n- {{step: iterations/1/evaluator, text: \"{{\\\"score\\\": {bad}}}\"}}\n- {{step: 'iterations/1/evaluator#2', text: '{{\"score\": \"85\"}}'}}\ndefault: {{text: draft}}"
        ));
        assert_eq!(stage.run(&spec(DRAFTS, "")).await.unwrap().output, "draft");
        let again = stage.asked("iterations/1/evaluator#2").unwrap();
        assert!(again.starts_with("Score draft\n"), "{again}");
    }
    let stage = stage("default: {text: splendid}");
    let error = stage.run(&spec(DRAFTS, "")).await.unwrap_err();
    assert!(matches!(error, Error::Unusable { times: 2, .. }), "{error}");
}
