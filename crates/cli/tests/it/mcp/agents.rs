//! Real agents that a session starts, and whose models call the tools of Segno's MCP server.

use segno_testkit::model::{Call, ModelResponse, ModelServer, Script, Turn};
use segno_testkit::programs::{AgentFixture, Program};
use segno_testkit::sandbox::{Sandbox, run_to_end, wait_until};
use serde_json::{Value, json};

use crate::commands::tree;
use crate::{sandbox, segno};

/// Each agent's name, and its runtime settings in a spec.
fn agents() -> [(&'static str, String); 4] {
    let adapter = |adapter: Program| {
        let words = adapter.words();
        let words = words
            .iter()
            .map(|word| format!("{:?}", word.display().to_string()));
        let words = words.collect::<Vec<_>>().join(", ");
        format!("provider: acp, command: [{words}]")
    };
    [
        ("claude", "provider: claude-code".to_owned()),
        ("codex", "provider: codex".to_owned()),
        ("claude over ACP", adapter(Program::ClaudeAcp)),
        ("codex over ACP", adapter(Program::CodexAcp)),
    ]
}

fn call(tool: &str, input: Value) -> Call {
    Call::mcp_tool("segno", tool, input)
}

/// A model that records a decision and an error, and is done.
fn noting() -> Script {
    Script::new("noting", turns()).without_repairs()
}

fn turns() -> [Turn; 3] {
    [
        Turn::say("I decide.").call(call(
            "record_decision",
            json!({"text": "Use SQLite", "why": "one file"}),
        )),
        Turn::say("That fails.").call(call("record_error", json!({"text": "no disk"}))),
        Turn::say("Done."),
    ]
}

fn run(workshop: &AgentFixture, runtime: &str, script: &Script) -> String {
    let spec = workshop.write_task(runtime, &script.marker());
    let output = workshop
        .segno(&["run", spec.to_str().unwrap()])
        .expect_success();
    workshop.wait_until_idle();
    output.stderr
}

/// The recorded notes, each as its type and text.
fn noted(workshop: &AgentFixture) -> Vec<String> {
    let events = workshop.events("task", "memos_written");
    let text = |event: &Value| {
        assert_eq!(event["source"], "agent", "{event}");
        assert_eq!(event["by"], "worker", "{event}");
        assert_eq!(event["path"], "steps/0", "{event}");
        let note = event["memos"][0]["memo"].as_object().unwrap();
        let (kind, says) = note.iter().next().unwrap();
        format!("{kind}: {}", says["text"].as_str().unwrap())
    };
    events.iter().map(text).collect()
}

#[test]
fn agent_can_record_notes_with_any_permissions() {
    for (agent, runtime) in agents() {
        for permissions in ["read", "edit"] {
            let script = noting();
            let workshop = AgentFixture::new(segno(), [script.clone()], permissions);
            let settings = workshop.agent_sandbox.codex_home().join("config.toml");
            #[expect(clippy::disallowed_methods, reason = "a test looks at a file")]
            let read = || std::fs::read(&settings).unwrap();
            let before = read();
            run(&workshop, &runtime, &script);
            assert_eq!(
                noted(&workshop),
                ["decision: Use SQLite", "error: no disk"],
                "{agent} {permissions}"
            );
            let decision = &workshop.events("task", "memos_written")[0]["memos"][0]["memo"];
            assert_eq!(decision["decision"]["why"], "one file");
            let request = workshop
                .server
                .request("noting", 2)
                .unwrap()
                .body
                .to_string();
            for name in ["d1", "e1"] {
                let answer = format!("{{\\\"id\\\":\\\"{name}\\\",\\\"kept\\\":true}}");
                assert!(request.contains(&answer), "{agent}: {request}");
            }
            assert!(read() == before, "the person's settings are as they were");
        }
    }
}

#[test]
fn note_is_stored_once_when_killed_after_the_answer() {
    for (agent, runtime) in agents() {
        let [first, second, last] = turns();
        let later = Turn::say("I go on.").call(call("add_todo", json!({"text": "the rest"})));
        let script = Script::new("noting", [first, second.held(), later, last]).without_repairs();
        let workshop = AgentFixture::new(segno(), [script.clone()], "edit");
        let spec = workshop.write_task(&runtime, &script.marker());
        let child = workshop.start(&["run", spec.to_str().unwrap(), "--json"]);
        wait_until("the model is told that it was kept", || {
            workshop.server.is_held("noting", 1)
        });
        workshop.kill(child);
        workshop.server.release("noting", 1);
        workshop.segno(&["resume", "task"]).expect_success();
        workshop.wait_until_idle();
        let noted = noted(&workshop);
        let times = |note: &str| noted.iter().filter(|known| *known == note).count();
        assert_eq!(times("decision: Use SQLite"), 1, "{agent}: {noted:?}");
        // The model itself decides whether it repeats the turn that was cut off.
        assert!(times("error: no disk") <= 1, "{agent}: {noted:?}");
        // The new run has a server, too.
        assert_eq!(times("todo: the rest"), 1, "{agent}: {noted:?}");
        let listed = workshop
            .segno(&["note", "list", "task", "--json"])
            .expect_success();
        assert_eq!(listed.json().len(), noted.len(), "{agent}: {listed:?}");
        workshop.segno(&["doctor"]).expect_success();
    }
}

#[test]
fn agent_pauses_its_session_and_resume_runs_the_next_step() {
    for (agent, runtime) in agents().into_iter().take(2) {
        let first = Script::new(
            "first",
            [
                Turn::say("I need a person.")
                    .call(call("pause", json!({"reason": "the key is missing"}))),
                Turn::say("I wait."),
            ],
        );
        let second = Script::new("second", [Turn::say("All done.")]);
        let markers = [first.marker(), second.marker()];
        let workshop = AgentFixture::new(segno(), [first, second], "edit");
        let steps = markers.map(|marker| format!("{{agent: worker, input: \"Go. {marker}\"}}"));
        let spec = workshop.sandbox.write(
            "task.yaml",
            &format!(
                "version: 0\nname: task\nruntime: {{{runtime}}}\nagents: {{worker: {{prompt: You do tasks.}}}}\npattern: {{type: chain, config: {{steps: [{}]}}}}\n",
                steps.join(", ")
            ),
        );
        let output = workshop.segno(&["run", spec.to_str().unwrap()]);
        assert_eq!(output.code(), 130, "{agent}: {output:?}");
        workshop.wait_until_idle();
        let stop = &workshop.events("task", "stop_requested")[0];
        assert_eq!(stop["by"], "agent worker");
        assert_eq!(stop["reason"], "the key is missing");
        assert!(workshop.server.request("second", 0).is_none(), "{agent}");
        let output = workshop.segno(&["resume", "task"]).expect_success();
        assert!(output.stdout.contains("All done."), "{agent}: {output:?}");
    }
}

#[test]
fn agent_creates_a_checkpoint_and_reads_notes() {
    for (agent, runtime) in agents().into_iter().take(2) {
        let script = Script::new(
            "keeping",
            [
                Turn::say("I keep it.").call(Call::write("work.txt", "half\n")),
                Turn::say("So it is safe.").call(call("checkpoint", json!({"reason": "half-way"}))),
                Turn::say("I note it.").call(call("add_todo", json!({"text": "the other half"}))),
                Turn::say("I look.").call(call("read_history", json!({"category": "todos"}))),
                Turn::say("Done."),
            ],
        );
        let workshop = AgentFixture::new(segno(), [script.clone()], "all");
        run(&workshop, &runtime, &script);
        let listed = workshop
            .segno(&["checkpoint", "list", "task", "--json"])
            .expect_success();
        assert!(
            listed.stdout.contains("agent worker: half-way"),
            "{agent}: {listed:?}"
        );
        let request = workshop
            .server
            .request("keeping", 4)
            .unwrap()
            .body
            .to_string();
        assert!(
            request.matches("the other half").count() >= 2,
            "{agent}: {request}"
        );
    }
}

#[test]
fn secret_in_an_agents_note_is_never_stored() {
    let canary = ["canary", "Zq7Xw2Lm9Rt4Vb8Kc3Np6Ys1Hd5"].join("-");
    for (agent, runtime) in agents() {
        let script = Script::new(
            "telling",
            [
                Turn::say("I tell.")
                    .call(call("add_todo", json!({"text": format!("use {canary}")}))),
                Turn::say("Done."),
            ],
        );
        let workshop = AgentFixture::new(segno(), [script.clone()], "edit");
        let spec = workshop.write_task(&runtime, &script.marker());
        let mut command = workshop.command(&["run", spec.to_str().unwrap()]);
        command.env("MY_API_TOKEN", &canary);
        run_to_end(command).expect_success();
        workshop.wait_until_idle();
        let todo = &workshop.events("task", "memos_written")[0]["memos"][0]["memo"]["todo"];
        assert!(
            todo["text"].as_str().unwrap().starts_with("use ["),
            "{agent}: {todo}"
        );
        for path in tree(&workshop.sandbox.home())
            .iter()
            .filter(|path| path.is_file())
        {
            #[expect(clippy::disallowed_methods, reason = "a test looks at every file")]
            let bytes = std::fs::read(path).unwrap();
            let found = bytes
                .windows(canary.len())
                .any(|part| part == canary.as_bytes());
            assert!(!found, "{agent}: the secret is in {}", path.display());
        }
    }
}

/// A program in the place of Claude Code that records its arguments, and succeeds the second time.
const RECORDER: &str = r#"#!/bin/sh
for word in "$@"; do
  printf '%s\n' "$word" >> words
  case "$word" in --session-id=*|--resume=*) id=${word#*=} ;; esac
done
echo ---- >> words
cat > /dev/null
printf '{"type":"system","subtype":"init","session_id":"%s"}\n' "$id"
test -e failed || { touch failed; exit 1; }
printf '{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"%s"}\n' "$id"
"#;

/// The arguments of each start of the recorder.
fn started(sandbox: &Sandbox, more: &str) -> Vec<Vec<String>> {
    let program = sandbox.write_script("recorder", RECORDER);
    let program = program.display().to_string();
    sandbox.configure(&format!("[claude-code]\nprogram = {program:?}\n{more}\n"));
    sandbox.write(
        "task.yaml",
        "version: 0\nname: task\nruntime: {provider: claude-code, failure_policy: {retries: 0}}\nagents: {worker: {prompt: You do tasks.}}\npattern: {type: chain, config: {steps: [{agent: worker, input: Go.}]}}\n",
    );
    sandbox
        .segno(&["run", "task.yaml"])
        .refused(10, &["exited with code 1"]);
    sandbox.segno(&["resume", "task"]).expect_success();
    let words = sandbox.read("words");
    let starts = words.split_terminator("----\n");
    starts
        .map(|start| start.lines().map(str::to_owned).collect())
        .collect()
}

#[test]
fn agent_start_names_its_session_and_allows_only_our_tools() {
    let sandbox = sandbox();
    let starts = started(&sandbox, "allow = [\"Bash(make)\"]");
    assert_eq!(starts.len(), 2);
    let session = sandbox
        .segno(&["show", "task", "--json"])
        .expect_success()
        .json();
    let session = format!("--session={}", session[0]["session"].as_str().unwrap());
    for start in starts {
        let given = start
            .iter()
            .find_map(|word| word.strip_prefix("--mcp-config="));
        let given: Value = serde_json::from_str(given.unwrap()).unwrap();
        let server = &given["mcpServers"]["segno"];
        assert_eq!(server["command"], segno().to_str().unwrap());
        assert_eq!(
            server["args"],
            json!(["mcp", session, "--step=steps/0", "--agent=worker"])
        );
        assert_eq!(
            server["env"],
            json!({"SEGNO_HOME": sandbox.home().to_str().unwrap()})
        );
        assert!(
            start.contains(&"--allowedTools=Bash(make),mcp__segno".to_owned()),
            "{start:?}"
        );
        assert!(
            !start.iter().any(|word| word.contains("strict")),
            "{start:?}"
        );
    }
}

#[test]
fn mcp_false_starts_the_agent_without_a_server() {
    let sandbox = sandbox();
    for start in started(&sandbox, "mcp = false") {
        assert!(!start.iter().any(|word| word.contains("mcp")), "{start:?}");
    }
}

#[test]
fn api_model_can_use_the_mcp_server() {
    let sandbox = sandbox();
    let model = ModelServer::start(|number, _| match number {
        0 => ModelResponse::Tools(
            String::new(),
            vec![("record_decision".to_owned(), json!({"text": "Use SQLite"}))],
        ),
        _ => ModelResponse::Text("done".to_owned()),
    });
    sandbox.write(
        "ask.yaml",
        &format!(
            "version: 0\nname: ask\nruntime: {{provider: anthropic, model_id: small-1, host: \"{}\"}}\nagents: {{a: {{prompt: You are brief.}}}}\npattern: {{type: chain, config: {{steps: [{{agent: a, input: go}}]}}}}\ntools: {{mcp: [{{id: segno, command: {:?}, args: [mcp, --agent, a]}}]}}\n",
            model.host(),
            segno().display().to_string()
        ),
    );
    let mut command = sandbox.command(&["run", "ask.yaml"]);
    command.env("ANTHROPIC_API_KEY", "key-for-tests-only-1");
    run_to_end(command).expect_success();
    let notes = super::notes(&sandbox, "ask");
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert_eq!(notes[0]["note"]["decision"]["text"], "Use SQLite");
    assert_eq!(notes[0]["source"], "agent");
}
