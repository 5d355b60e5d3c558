//! Tools that reach beyond the workspace: services, MCP servers, programs, and their restrictions.

use segno_testkit::model::{ModelResponse, ModelServer};
use segno_testkit::sandbox::{ProcessOutput, Sandbox, run_to_end};
use serde_json::{Value, json};

use super::chain;
use crate::sandbox;

/// A value that must appear nowhere. It is assembled, so that no scanner finds it in this file.
fn secret() -> String {
    ["plain", "words", "that", "open", "doors"].join("-")
}

/// A model that calls one tool, and then repeats its result.
fn calls_tool(tool: &str, input: Value) -> ModelServer {
    let tool = tool.to_owned();
    ModelServer::start(move |_, asked| {
        let messages = asked.body["messages"].as_array().unwrap();
        match messages.last().unwrap()["content"][0]["content"].as_str() {
            Some(result) => ModelResponse::Text(result.to_owned()),
            None => ModelResponse::Tools(String::new(), vec![(tool.clone(), input.clone())]),
        }
    })
}

fn spec(sandbox: &Sandbox, model: &ModelServer, more: &str) {
    chain(sandbox, "anthropic", &model.host(), "", &["go"]);
    let spec = sandbox.read("ask.yaml") + more;
    sandbox.write("ask.yaml", &spec);
}

fn run(sandbox: &Sandbox) -> ProcessOutput {
    let mut command = sandbox.command(&["run", "ask.yaml"]);
    command
        .env("ANTHROPIC_API_KEY", "key-for-tests-only-1")
        .env("DOOR_WORDS", secret());
    run_to_end(command)
}

/// A service that answers with what it was sent, including the caller's secret header.
fn echo() -> ModelServer {
    ModelServer::start(|_, asked| {
        let key = asked.header("x-words").unwrap_or("nothing").to_owned();
        ModelResponse::Status(
            200,
            "content-type: text/plain\r\n",
            format!("{} with {key}", asked.path),
        )
    })
}

fn address(server: &ModelServer) -> String {
    server.host().trim_start_matches("http://").to_owned()
}

#[test]
fn only_the_service_receives_its_secret() {
    let (sandbox, service) = (sandbox(), echo());
    let model = calls_tool("doors", json!({"path": "open/1"}));
    let tools = format!(
        "tools: {{http_executors: [{{id: doors, base_url: \"{}/v2\", headers: {{X-Words: \"Say ${{WORDS}}\"}}, description: Opens doors., examples: [{{path: open/1}}]}}]}}\nenv: {{secrets: [{{key: DOOR_WORDS, name: WORDS, source: env}}]}}\n",
        service.host()
    );
    spec(&sandbox, &model, &tools);
    sandbox.configure(&format!(
        "[network]\nallow_private = [\"{}\"]\n",
        address(&service)
    ));
    let output = run(&sandbox).expect_success();
    assert_eq!(service.requests()[0].path, "/v2/open/1");
    assert_eq!(
        service.requests()[0].header("x-words"),
        Some(format!("Say {}", secret()).as_str())
    );
    // The service returned the secret; from there on it is redacted.
    assert!(
        output.stdout.contains("/v2/open/1 with Say [secret:WORDS:"),
        "{}",
        output.stdout
    );
    let requests = model
        .requests()
        .iter()
        .map(|asked| asked.body.to_string())
        .collect::<String>();
    assert!(!requests.contains(&secret()));
    assert!(requests.contains("Opens doors.") && requests.contains("open/1"));
    let journal = sandbox.segno(&["logs", "--json"]).expect_success().stdout;
    assert!(journal.contains("tool_started") && !journal.contains(&secret()));
}

#[test]
fn missing_secret_is_reported_before_any_request() {
    let (sandbox, model) = (sandbox(), calls_tool("doors", json!({"path": "x"})));
    spec(
        &sandbox,
        &model,
        "tools: {http_executors: [{id: doors, base_url: 'https://x.example', headers: {A: '${KEY}'}}]}\nenv: {secrets: [{key: KEY, source: file, path: key.txt}]}\n",
    );
    run(&sandbox).refused(
        2,
        &[
            "secret `KEY` is missing",
            "key.txt cannot be read",
            "[A0103]",
        ],
    );
    assert!(model.requests().is_empty());
    assert!(crate::commands::session_statuses(&sandbox).is_empty());
}

#[test]
fn private_address_is_refused_unless_allowed() {
    let (sandbox, service) = (sandbox(), echo());
    for (tool, input, more) in [
        (
            "http_request",
            json!({"url": service.host()}),
            "tools: {python: [http_request]}\n",
        ),
        (
            "web_fetch",
            json!({"url": service.host()}),
            "tools: {python: [web_fetch]}\n",
        ),
    ] {
        let model = calls_tool(tool, input);
        spec(&sandbox, &model, more);
        let output = run(&sandbox).expect_success();
        assert!(
            output.stdout.contains("network.allow_private"),
            "{tool}: {}",
            output.stdout
        );
    }
    let inside = format!(
        "tools: {{http_executors: [{{id: inside, base_url: \"{}\"}}]}}\n",
        service.host()
    );
    let model = calls_tool("inside", json!({"path": "x"}));
    spec(&sandbox, &model, &inside);
    run(&sandbox).refused(2, &["service `inside`", "this machine", "[A0106]"]);
    assert!(model.requests().is_empty() && service.requests().is_empty());
}

#[test]
fn a_program_runs_in_the_workspace_without_our_keys() {
    let sandbox = sandbox();
    let code = "import os\nprint(os.getcwd())\nprint(sorted(name for name in os.environ if 'KEY' in name or 'DOOR' in name))";
    let model = calls_tool("python_exec", json!({"code": code}));
    spec(&sandbox, &model, "tools: {python: [python_exec]}\n");
    let output = run(&sandbox).expect_success();
    let folder = sandbox.work().canonicalize().unwrap();
    assert_eq!(
        output.stdout.trim_end(),
        format!("{}\n[]", folder.display())
    );
}

/// Asks the kernel for Landlock, and tries to write a file of another folder.
const WRITE_OUTSIDE: &str = "
import ctypes
open('inside', 'w')
if ctypes.CDLL(None).syscall(444, None, 0, 1) < 1:
    print('no Landlock')
else:
    try:
        open('OUTSIDE/x', 'w')
        print('written')
    except PermissionError:
        print('denied')
";

#[test]
fn code_of_a_model_writes_only_to_the_workspace() {
    let sandbox = sandbox();
    let outside = segno_testkit::sandbox::memory_dir();
    let code = WRITE_OUTSIDE.replace("OUTSIDE", &outside.path().display().to_string());
    let model = calls_tool("python_exec", json!({"code": code}));
    spec(&sandbox, &model, "tools: {python: [python_exec]}\n");
    for (settings, expected) in [
        ("", "denied"),
        ("[tools]\nconfine_programs = false\n", "written"),
    ] {
        sandbox.configure(settings);
        let output = run(&sandbox).expect_success();
        let known = [expected, "no Landlock"];
        let printed = output.stdout.trim_end();
        assert!(known.contains(&printed), "{printed}");
    }
}

#[test]
fn mount_shows_its_folder_and_nothing_beside_it() {
    let sandbox = sandbox();
    sandbox.write("kept/here/data.txt", "mounted\n");
    sandbox.write("kept/other.txt", "not for you\n");
    let mounts = "tools: {python: [file_read]}\nenv: {mounts: {data: kept/here}}\n";
    for (path, expected) in [
        ("data/data.txt", "mounted"),
        ("./data/data.txt", "mounted"),
        ("data/../other.txt", "outside of the workspace"),
    ] {
        let model = calls_tool("file_read", json!({"path": path}));
        spec(&sandbox, &model, mounts);
        let output = run(&sandbox).expect_success();
        assert!(
            output.stdout.contains(expected),
            "{path}: {}",
            output.stdout
        );
    }
    let all = "tools: {python: [file_read]}\nenv: {mounts: {data: /etc}}\n";
    let model = calls_tool("file_read", json!({}));
    spec(&sandbox, &model, all);
    run(&sandbox).refused(12, &["mount `data` must be a folder below"]);
}

#[test]
fn spec_verify_tool_reports_spec_errors() {
    let sandbox = sandbox();
    let model = calls_tool(
        "spec_verify",
        json!({"spec_content": "version: 0\nnam: x\n"}),
    );
    spec(&sandbox, &model, "tools: {python: [spec_verify]}\n");
    let output = run(&sandbox).expect_success();
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(report["schema_valid"], false);
    assert!(
        report["errors"]
            .to_string()
            .contains("did you mean `name`?"),
        "{report}"
    );
}

/// An MCP server with two tools, which counts its calls in a file.
const SERVER: &str = r#"
import json, os, sys
for line in sys.stdin:
    ask = json.loads(line)
    if "id" not in ask:
        continue
    if ask["method"] == "initialize":
        result = {"protocolVersion": ask["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "n", "version": "1"}}
    elif ask["method"] == "tools/list":
        tool = lambda name: {"name": name, "description": name, "inputSchema": {"type": "object"}}
        result = {"tools": [tool("stamp"), tool("burn")]}
    else:
        open("stamped", "a").write("x")
        result = {"content": [{"type": "text", "text": "stamped as " + os.environ["WHO"]}]}
    print(json.dumps({"jsonrpc": "2.0", "id": ask["id"], "result": result}), flush=True)
"#;

#[test]
fn mcp_tools_are_offered_within_the_guardrails() {
    let (sandbox, model) = (sandbox(), calls_tool("stamp", json!({})));
    sandbox.write("server.py", SERVER);
    spec(
        &sandbox,
        &model,
        "tools: {mcp: [{id: desk, command: python3, args: [server.py], env: {WHO: '${WORDS}'}}]}\nenv: {secrets: [{key: DOOR_WORDS, name: WORDS, source: env}]}\nsecurity: {guardrails: {allow_tools: [stamp]}}\n",
    );
    let output = run(&sandbox).expect_success();
    assert!(
        output.stdout.starts_with("stamped as [secret:WORDS:"),
        "{}",
        output.stdout
    );
    assert_eq!(sandbox.read("stamped"), "x");
    let offered = model.requests()[0].body["tools"].to_string();
    assert!(
        offered.contains("stamp") && !offered.contains("burn"),
        "{offered}"
    );
}

#[test]
fn mcp_server_gets_no_keys_unless_named() {
    let (sandbox, model) = (sandbox(), calls_tool("stamp", json!({})));
    let names = "\" \".join(sorted(os.environ))";
    let server = SERVER.replace("\"stamped as \" + os.environ[\"WHO\"]", names);
    sandbox.write("server.py", &server);
    spec(
        &sandbox,
        &model,
        "tools: {mcp: [{id: desk, command: python3, args: [server.py], env: {WHO: '${WORDS}', MODE: fast}}]}\nenv: {secrets: [{key: DOOR_WORDS, name: WORDS, source: env}]}\n",
    );
    let output = run(&sandbox).expect_success();
    let seen: Vec<&str> = output.stdout.split_whitespace().collect();
    for named in ["WHO", "MODE", "PATH", "HOME"] {
        assert!(seen.contains(&named), "{named}: {seen:?}");
    }
    for hidden in ["ANTHROPIC_API_KEY", "DOOR_WORDS"] {
        assert!(!seen.contains(&hidden), "{hidden}: {seen:?}");
    }
}

#[test]
fn mcp_tool_is_not_called_twice_after_a_lost_run() {
    let (sandbox, model) = (sandbox(), calls_tool("stamp", json!({})));
    sandbox.write(
        "server.py",
        &SERVER.replace(
            "result = {\"content\"",
            "os.kill(int(open(\"pid\").read()), 9)\n        result = {\"content\"",
        ),
    );
    spec(
        &sandbox,
        &model,
        "tools: {mcp: [{id: desk, command: python3, args: [server.py], env: {WHO: me}}]}\n",
    );
    let mut command = sandbox.command(&["run", "ask.yaml"]);
    command.env("ANTHROPIC_API_KEY", "key-for-tests-only-1");
    let child = command.spawn().unwrap();
    sandbox.write("pid", &child.id().to_string());
    let lost = segno_testkit::sandbox::wait_for_output(child);
    assert!(!lost.status.success());
    sandbox.write("server.py", SERVER);
    let mut command = sandbox.command(&["resume"]);
    command.env("ANTHROPIC_API_KEY", "key-for-tests-only-1");
    let output = run_to_end(command).expect_success();
    assert!(
        output
            .stdout
            .starts_with("The outcome of this call is unknown"),
        "{}",
        output.stdout
    );
    assert_eq!(sandbox.read("stamped"), "x");
    assert_eq!(model.requests().len(), 2);
}

#[test]
fn unstartable_mcp_server_is_reported_before_any_request() {
    let (sandbox, model) = (sandbox(), calls_tool("stamp", json!({})));
    spec(
        &sandbox,
        &model,
        "tools: {mcp: [{id: desk, command: no-such-program-here}]}\n",
    );
    run(&sandbox).refused(2, &["MCP server `desk`", "no-such-program-here", "[A0104]"]);
    assert!(model.requests().is_empty());
    assert!(crate::commands::session_statuses(&sandbox).is_empty());
}

#[test]
fn personal_data_is_redacted_from_output_and_requests() {
    let sandbox = sandbox();
    let model = ModelServer::start(|_, _| ModelResponse::Text("ask bob@example.org".into()));
    spec(
        &sandbox,
        &model,
        "inputs: {values: {who: ada@example.org}}\nsecurity: {guardrails: {pii_redaction: true}}\noutputs: {artifacts: [{path: out.md, from: '{{ last_response }}'}]}\n",
    );
    let with = sandbox
        .read("ask.yaml")
        .replace("\"go\"", "\"write to {{ who }}\"");
    sandbox.write("ask.yaml", &with);
    let output = run(&sandbox).expect_success();
    assert!(
        output.stdout.starts_with("ask [secret:email:"),
        "{}",
        output.stdout
    );
    assert!(!sandbox.read("artifacts/out.md").contains("bob@"));
    assert!(!model.requests()[0].body.to_string().contains("ada@"));
}
