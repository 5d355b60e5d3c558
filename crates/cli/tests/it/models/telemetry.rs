//! The telemetry that a collector receives. The collector is this test's own socket, and the test
//! parses the data with the definitions that OpenTelemetry publishes. `make test` puts them where
//! this test finds them; `SEGNO_PYTHON` names another Python that has them.

use std::path::{Path, PathBuf};
use std::process::Command;

use segno_testkit::model::{ModelResponse, ModelServer};
use segno_testkit::sandbox::Sandbox;
use serde_json::{Value, json};

use super::{chain, run};
use crate::sandbox;

fn collector() -> ModelServer {
    ModelServer::start(|_, _| ModelResponse::Status(200, "", "{}".into()))
}

fn model() -> ModelServer {
    ModelServer::start(|_, asked| {
        let messages = asked.body["messages"].to_string();
        if messages.contains("tool_result") {
            return ModelResponse::Text("it is 42".into());
        }
        let input = json!({"expression": "6 * 7"});
        ModelResponse::Tools(String::new(), vec![("calculator".into(), input)])
    })
}

fn spec(sandbox: &Sandbox, model: &ModelServer, endpoint: &str, more: &str) {
    chain(sandbox, "anthropic", &model.host(), "", &["one", "two"]);
    let telemetry = format!(
        "tools: {{python: [calculator]}}\ntelemetry: {{otel: {{endpoint: \"{endpoint}\", service_name: tests}}{more}}}\noutputs: {{artifacts: [{{path: trace.json, from: \"{{{{ TRACE }}}}\"}}]}}\n"
    );
    let spec = sandbox.read("ask.yaml") + &telemetry;
    sandbox.write("ask.yaml", &spec);
}

/// Every span that the collector received.
fn spans(collector: &ModelServer) -> Vec<Value> {
    let requests = collector.requests();
    let spans = requests.iter().flat_map(|asked| {
        assert_eq!(asked.path, "/v1/traces");
        let spans = &asked.body["resourceSpans"][0]["scopeSpans"][0]["spans"];
        spans.as_array().unwrap().clone()
    });
    spans.collect()
}

fn attribute(span: &Value, key: &str) -> Option<String> {
    let all = span["attributes"].as_array().unwrap();
    let found = all.iter().find(|pair| pair["key"] == key)?;
    let value = found["value"].as_object().unwrap().values().next().unwrap();
    Some(
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned),
    )
}

#[test]
fn collector_receives_runs_agents_calls_and_tools() {
    let (sandbox, model, collector) = (sandbox(), model(), collector());
    spec(&sandbox, &model, &collector.host(), "");
    let mut command = sandbox.command(&["run", "ask.yaml"]);
    command
        .env("ANTHROPIC_API_KEY", "key-for-tests-only-1")
        .env("SEGNO_FAILPOINT", "step.before_effect:2");
    assert!(segno_testkit::sandbox::run_to_end(command).crashed());
    run(&sandbox, &["resume"]).expect_success();
    let spans = spans(&collector);
    let named = |name: &str| {
        spans
            .iter()
            .filter(|span| span["name"] == name)
            .collect::<Vec<_>>()
    };
    let runs = named("invoke_workflow ask");
    // The killed run could not report how it ended.
    assert_eq!(runs.len(), 1);
    let listed = sandbox.segno(&["sessions", "list", "--json"]);
    let listed = listed.expect_success().json();
    let session = listed[0]["session"].as_str().unwrap();
    for (key, value) in [
        ("segno.session.id", session),
        ("segno.resumed", "true"),
        ("segno.run", "2"),
        ("segno.steps.skipped", "1"),
        ("segno.checkpoint.count", "2"),
        ("segno.session.status", "completed"),
    ] {
        assert_eq!(attribute(runs[0], key).as_deref(), Some(value), "{key}");
    }
    let agents = named("invoke_agent a");
    let second = agents
        .iter()
        .find(|span| attribute(span, "segno.step").unwrap() == "steps/1");
    let second = second.unwrap();
    assert_eq!(second["parentSpanId"], runs[0]["spanId"]);
    for (key, value) in [
        ("gen_ai.provider.name", "anthropic"),
        ("gen_ai.request.model", "small-1"),
        ("gen_ai.usage.input_tokens", "22"),
        ("gen_ai.usage.output_tokens", "14"),
    ] {
        assert_eq!(attribute(second, key).as_deref(), Some(value), "{key}");
    }
    let tools = named("execute_tool calculator");
    assert!(!tools.is_empty());
    assert_eq!(
        attribute(tools[0], "gen_ai.tool.call.arguments"),
        None,
        "hidden by default"
    );
    assert_eq!(
        attribute(tools[0], "gen_ai.tool.call.result").as_deref(),
        Some("6 * 7 = 42")
    );
    let traces: std::collections::BTreeSet<&str> = spans
        .iter()
        .map(|span| span["traceId"].as_str().unwrap())
        .collect();
    assert_eq!(
        traces.len(),
        1,
        "a session is one trace, however many runs it took"
    );
    // The artifact holds the spans of all runs.
    let trace: Value = serde_json::from_str(&sandbox.read("artifacts/trace.json")).unwrap();
    assert_eq!(trace["trace_id"], **traces.first().unwrap());
    let steps = trace["spans"].as_array().unwrap().iter();
    assert_eq!(
        steps
            .filter(|span| span["name"] == "invoke_agent a")
            .count(),
        2
    );
}

#[test]
fn spans_match_the_opentelemetry_definitions() {
    let (sandbox, model, collector) = (sandbox(), model(), collector());
    spec(&sandbox, &model, &collector.host(), "");
    run(&sandbox, &["run", "ask.yaml"]).expect_success();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = match std::env::var_os("SEGNO_PYTHON") {
        Some(python) => PathBuf::from(python),
        None => here.join("../../target/python/bin/python"),
    };
    let bodies = collector.requests();
    let lines: Vec<String> = bodies.iter().map(|asked| asked.body.to_string()).collect();
    sandbox.write("sent.jsonl", &lines.join("\n"));
    let mut command = Command::new(python);
    command
        .arg(here.join("tests/it/models/otlp.py"))
        .arg(sandbox.work().join("sent.jsonl"));
    let output = segno_testkit::sandbox::run_to_end(command).expect_success();
    let names: Vec<String> = spans(&collector)
        .iter()
        .map(|span| span["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(output.stdout.lines().collect::<Vec<_>>(), names);
    assert_eq!(names.len(), 2 * 4 + 1);
}

#[test]
fn redacted_attributes_are_not_exported() {
    for (redact, arguments, result) in [
        (
            ", redact: {tool_inputs: false, tool_outputs: true}",
            true,
            false,
        ),
        (
            ", redact: {tool_inputs: true, tool_outputs: false}",
            false,
            true,
        ),
    ] {
        let (sandbox, model, collector) = (sandbox(), model(), collector());
        spec(&sandbox, &model, &collector.host(), redact);
        run(&sandbox, &["run", "ask.yaml"]).expect_success();
        let spans = spans(&collector);
        let tool = spans
            .iter()
            .find(|span| span["name"] == "execute_tool calculator")
            .unwrap();
        assert_eq!(
            attribute(tool, "gen_ai.tool.call.arguments").is_some(),
            arguments
        );
        assert_eq!(attribute(tool, "gen_ai.tool.call.result").is_some(), result);
    }
}

#[test]
fn missing_collector_delays_nothing() {
    let (sandbox, model) = (sandbox(), model());
    spec(&sandbox, &model, "http://127.0.0.1:1", "");
    let output = run(&sandbox, &["run", "ask.yaml"]).expect_success();
    assert_eq!(output.stdout, "it is 42\n");
    assert_eq!(
        output.stderr.matches("telemetry is not exported").count(),
        1,
        "{}",
        output.stderr
    );
}

#[test]
fn unsampled_session_exports_nothing() {
    let (sandbox, model, collector) = (sandbox(), model(), collector());
    spec(&sandbox, &model, &collector.host(), "");
    let spec = sandbox
        .read("ask.yaml")
        .replace("service_name: tests", "sample_ratio: 0");
    sandbox.write("ask.yaml", &spec);
    run(&sandbox, &["run", "ask.yaml"]).expect_success();
    assert!(collector.requests().is_empty());
}
