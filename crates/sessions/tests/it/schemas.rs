//! Agents in separate files, and schemas for prompts and answers.

use segno_engine::Error;
use segno_sessions::start::{self, SpecError};

use crate::harness::{Harness, harness};

fn spec(agent: &str) -> String {
    format!(
        "version: 0\nname: flow\nruntime: {{provider: scripted, script: s.yaml, failure_policy: {{retries: 0}}}}\nagents: {{a: {agent}}}\npattern: {{type: chain, config: {{steps: [{{agent: a, input: '{{\"n\": 1}}'}}]}}}}\n"
    )
}

const SCHEMA: &str = "{type: object, required: [score], properties: {score: {type: integer}}}";

fn file(harness: &Harness, name: &str, content: &str) {
    let path = harness.folder.path().join(name);
    #[expect(clippy::disallowed_methods, reason = "the test's own file")]
    {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
}

#[tokio::test]
async fn valid_json_is_found_anywhere_in_an_answer() {
    for answer in [
        "{\"score\": 3}",
        "Here: {\"score\": 3}.",
        "```json\n{\"score\": 3}\n```",
    ] {
        let harness = harness(&format!("default: {{text: {answer:?}}}"));
        let agent = format!("{{prompt: Judge., output_schema: {SCHEMA}}}");
        harness.run(&spec(&agent)).await.unwrap();
        assert_eq!(harness.started_steps(), ["steps/0"]);
    }
}

#[tokio::test]
async fn invalid_answer_is_requested_once_more() {
    let harness = harness(
        "answers: [{step: steps/0, text: '{\"score\": \"high\"}'}, {step: steps/0/repair, text: '{\"score\": 3}'}]",
    );
    let agent = format!("{{prompt: Judge., output_schema: {SCHEMA}}}");
    let outcome = harness.run(&spec(&agent)).await.unwrap();
    assert_eq!(outcome.output, "{\"score\": 3}");
    let again = harness.prompt_of("steps/0/repair").unwrap();
    assert!(
        again.contains("/score: \"high\" is not of type \"integer\""),
        "{again}"
    );
}

#[tokio::test]
async fn resume_does_not_repeat_an_invalid_answer() {
    let harness = harness("default: {text: fine}");
    let agent = format!("{{prompt: Judge., output_schema: {SCHEMA}}}");
    let error = harness.run(&spec(&agent)).await.unwrap_err();
    assert!(
        matches!(&error, Error::UnusableAnswer { reason, .. } if reason == "it is not JSON"),
        "{error}"
    );
    harness.resume().await.unwrap_err();
    assert_eq!(harness.started_steps(), [""; 0]);
}

#[tokio::test]
async fn prompt_that_violates_input_schema_is_not_sent() {
    let harness = harness("default: {text: fine}");
    let agent = "{prompt: Judge., input_schema: {type: object, required: [m]}}";
    let error = harness.run(&spec(agent)).await.unwrap_err();
    assert!(matches!(error, Error::InvalidInput { .. }), "{error}");
    assert_eq!(harness.started_steps(), [""; 0]);
}

#[tokio::test]
async fn agent_file_finds_its_schemas_beside_it() {
    let harness = harness("default: {text: '{\"score\": 3}'}");
    file(
        &harness,
        "kept/judge.yaml",
        "version: 0\nname: x\nruntime: {provider: openai}\nagents: {judge: {prompt: Judge., output_schema: out.json, tools: [grep]}}\npattern: {}\n",
    );
    file(&harness, "kept/out.json", SCHEMA);
    harness
        .run(&spec("{$ref: kept/judge.yaml, tools: []}"))
        .await
        .unwrap();
    // The session's spec is self-contained: the files may change.
    file(
        &harness,
        "kept/out.json",
        "{type: object, required: [other]}",
    );
    let error = harness
        .run(&spec("{$ref: kept/judge.yaml, tools: []}"))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::UnusableAnswer { .. }), "{error}");
}

#[tokio::test]
async fn edit_of_a_referenced_file_is_detected() {
    let harness = harness("default: {text: x, fail: {kind: auth}}");
    file(&harness, "judge.yaml", "prompt: Judge.");
    harness.run(&spec("{$ref: judge.yaml}")).await.unwrap_err();
    let before = harness.summary().await.spec_digest;
    file(&harness, "judge.yaml", "prompt: Judge better.");
    harness.set_script("default: {text: x}");
    harness.resume().await.unwrap();
    assert!(harness.event_kinds().contains(&"spec_changed".to_owned()));
    assert_ne!(harness.summary().await.spec_digest, before);
}

#[tokio::test]
async fn invalid_reference_is_reported() {
    let harness = harness("default: {text: x}");
    file(
        &harness,
        "two.yaml",
        "agents: {a: {prompt: A}, b: {prompt: B}}",
    );
    file(&harness, "loop.yaml", "agents: {a: {$ref: two.yaml}}");
    file(&harness, "good.yaml", "prompt: A");
    for (agent, words) in [
        ("{$ref: {}}", "must be the name of a file"),
        ("{$ref: two.yaml}", "two.yaml must define one agent"),
        ("{$ref: loop.yaml}", "loop.yaml has a `$ref` itself"),
        (
            "{$ref: good.yaml, output_schema: {}}",
            "`output_schema` cannot be combined with `$ref`",
        ),
        (
            "{prompt: A, output_schema: {type: numbr}}",
            "is not a valid JSON schema",
        ),
        ("{prompt: A, input_schema: 7}", "must be a JSON schema"),
    ] {
        let error = harness.start(&spec(agent)).await.unwrap_err();
        let start::Error::Spec(SpecError::Invalid { problems, .. }) = error else {
            panic!("{error}")
        };
        assert!(problems.to_string().contains(words), "{problems}");
    }
}

#[tokio::test]
async fn missing_file_fails_a_start_but_not_a_resume() {
    let harness = harness("default: {text: x, fail: {kind: auth}}");
    for agent in [
        "{$ref: judge.yaml}",
        "{prompt: A, output_schema: judge.yaml}",
    ] {
        let error = harness.start(&spec(agent)).await.unwrap_err();
        let start::Error::Spec(error) = error else {
            panic!("{error}")
        };
        assert!(
            matches!(&error, SpecError::Unreadable { path, .. } if path.ends_with("judge.yaml")),
            "{error}"
        );
    }
    file(&harness, "judge.yaml", "prompt: Judge.");
    harness.run(&spec("{$ref: judge.yaml}")).await.unwrap_err();
    #[expect(clippy::disallowed_methods, reason = "the test's own file")]
    std::fs::remove_file(harness.folder.path().join("judge.yaml")).unwrap();
    harness.set_script("default: {text: x}");
    harness.resume().await.unwrap();
}
