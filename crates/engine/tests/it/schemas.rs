//! Agents kept in files of their own, and schemas for what they are asked and answer.

use segno_engine::Error;

use crate::world::{Stage, stage};

fn spec(agent: &str) -> String {
    format!(
        "version: 0\nname: flow\nruntime: {{provider: scripted, script: s.yaml, failure_policy: {{retries: 0}}}}\nagents: {{a: {agent}}}\npattern: {{type: chain, config: {{steps: [{{agent: a, input: '{{\"n\": 1}}'}}]}}}}\n"
    )
}

const SCHEMA: &str = "{type: object, required: [score], properties: {score: {type: integer}}}";

fn file(stage: &Stage, name: &str, content: &str) {
    let path = stage.folder.path().join(name);
    #[expect(clippy::disallowed_methods, reason = "the test's own file")]
    {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
}

#[tokio::test]
async fn an_answer_that_fits_is_taken_wherever_its_json_stands() {
    for answer in [
        "{\"score\": 3}",
        "Here: {\"score\": 3}.",
        "```json\n{\"score\": 3}\n```",
    ] {
        let stage = stage(&format!("default: {{text: {answer:?}}}"));
        let agent = format!("{{prompt: Judge., output_schema: {SCHEMA}}}");
        stage.run(&spec(&agent)).await.unwrap();
        assert_eq!(stage.begun(), ["steps/0"]);
    }
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_asked_for_once_more() {
    let stage = stage(
        "answers: [{step: steps/0, text: '{\"score\": \"high\"}'}, {step: steps/0/repair, text: '{\"score\": 3}'}]",
    );
    let agent = format!("{{prompt: Judge., output_schema: {SCHEMA}}}");
    let outcome = stage.run(&spec(&agent)).await.unwrap();
    assert_eq!(outcome.output, "{\"score\": 3}");
    let again = stage.asked("steps/0/repair").unwrap();
    assert!(
        again.contains("/score: \"high\" is not of type \"integer\""),
        "{again}"
    );
}

#[tokio::test]
async fn an_answer_that_never_fits_fails_and_is_not_paid_for_again() {
    let stage = stage("default: {text: fine}");
    let agent = format!("{{prompt: Judge., output_schema: {SCHEMA}}}");
    let error = stage.run(&spec(&agent)).await.unwrap_err();
    assert!(
        matches!(&error, Error::Unusable { reason, .. } if reason == "it is not JSON"),
        "{error}"
    );
    stage.resume().await.unwrap_err();
    assert_eq!(stage.begun(), [""; 0]);
}

#[tokio::test]
async fn a_question_that_does_not_fit_is_not_asked() {
    let stage = stage("default: {text: fine}");
    let agent = "{prompt: Judge., input_schema: {type: object, required: [m]}}";
    let error = stage.run(&spec(agent)).await.unwrap_err();
    assert!(matches!(error, Error::WrongInput { .. }), "{error}");
    assert_eq!(stage.begun(), [""; 0]);
}

#[tokio::test]
async fn an_agent_can_be_kept_in_a_file_with_its_schemas_beside_it() {
    let stage = stage("default: {text: '{\"score\": 3}'}");
    file(
        &stage,
        "kept/judge.yaml",
        "version: 0\nname: x\nruntime: {provider: openai}\nagents: {judge: {prompt: Judge., output_schema: out.json, tools: [grep]}}\npattern: {}\n",
    );
    file(&stage, "kept/out.json", SCHEMA);
    stage
        .run(&spec("{$ref: kept/judge.yaml, tools: []}"))
        .await
        .unwrap();
    // The session stands alone: the files may go.
    file(&stage, "kept/out.json", "{type: object, required: [other]}");
    let error = stage
        .run(&spec("{$ref: kept/judge.yaml, tools: []}"))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Unusable { .. }), "{error}");
}

#[tokio::test]
async fn an_edit_of_a_file_that_is_referred_to_is_noticed() {
    let stage = stage("default: {text: x, fail: {kind: auth}}");
    file(&stage, "judge.yaml", "prompt: Judge.");
    stage.run(&spec("{$ref: judge.yaml}")).await.unwrap_err();
    let before = stage.summary().await.spec_digest;
    file(&stage, "judge.yaml", "prompt: Judge better.");
    stage.mend("default: {text: x}");
    stage.resume().await.unwrap();
    assert!(stage.kinds().contains(&"spec_changed".to_owned()));
    assert_ne!(stage.summary().await.spec_digest, before);
}

#[tokio::test]
async fn a_reference_that_leads_nowhere_is_told() {
    let stage = stage("default: {text: x}");
    file(
        &stage,
        "two.yaml",
        "agents: {a: {prompt: A}, b: {prompt: B}}",
    );
    file(&stage, "loop.yaml", "agents: {a: {$ref: two.yaml}}");
    file(&stage, "good.yaml", "prompt: A");
    for (agent, words) in [
        ("{$ref: {}}", "must be the name of a file"),
        ("{$ref: two.yaml}", "two.yaml must hold one agent"),
        (
            "{$ref: loop.yaml}",
            "loop.yaml refers to another file itself",
        ),
        (
            "{$ref: good.yaml, output_schema: {}}",
            "`output_schema` cannot be set beside `$ref`",
        ),
        (
            "{prompt: A, output_schema: {type: numbr}}",
            "is not a JSON schema",
        ),
        ("{prompt: A, input_schema: 7}", "must be a schema"),
    ] {
        let error = stage.run(&spec(agent)).await.unwrap_err();
        let Error::Spec { problems, .. } = error else {
            panic!("{error}")
        };
        assert!(problems.to_string().contains(words), "{problems}");
    }
}

#[tokio::test]
async fn a_file_that_is_gone_is_named_and_does_not_stop_a_session_that_has_it() {
    let stage = stage("default: {text: x, fail: {kind: auth}}");
    for agent in [
        "{$ref: judge.yaml}",
        "{prompt: A, output_schema: judge.yaml}",
    ] {
        let error = stage.run(&spec(agent)).await.unwrap_err();
        assert!(
            matches!(&error, Error::Unreadable { path, .. } if path.ends_with("judge.yaml")),
            "{error}"
        );
    }
    file(&stage, "judge.yaml", "prompt: Judge.");
    stage.run(&spec("{$ref: judge.yaml}")).await.unwrap_err();
    #[expect(clippy::disallowed_methods, reason = "the test's own file")]
    std::fs::remove_file(stage.folder.path().join("judge.yaml")).unwrap();
    stage.mend("default: {text: x}");
    stage.resume().await.unwrap();
}
