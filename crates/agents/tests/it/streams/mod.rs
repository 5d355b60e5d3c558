//! The streams that Claude Code and Codex write to stdout: recorded and malformed ones.

mod contents;
mod golden;
mod malformed;
mod measured;
mod usage;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use segno_agents::program::{Permissions, Setup};
use segno_agents::{AgentEnvironment, ClaudeCode, Codex};
use segno_core::agent::{Answer, Error, Event, Listener};
use segno_core::cli_agent::{CliAgent, CliAgentKind, ConversationMode};
use segno_core::ports::{Boxed, Clock};
use segno_core::time::Timestamp;
use serde_json::json;

use crate::event_log::EventLog;
use crate::fixture::{Fixture, process_guard, runtime, write};

/// The session id in the recordings.
const CLAUDE: &str = "00000000-0000-4000-8000-000000000001";
const CODEX: &str = "00000000-0000-7000-8000-000000000001";

/// A clock that does not advance.
struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> Boxed<'_, ()> {
        Box::pin(std::future::pending())
    }
}

/// A clock on which any time passes at once.
struct QuickClock;

impl Clock for QuickClock {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> Boxed<'_, ()> {
        Box::pin(tokio::task::yield_now())
    }
}

/// A fake program: runs `script` in a shell, in the fixture's folder.
fn fake(fixture: &Fixture, program: CliAgentKind, script: &str) -> Box<dyn CliAgent> {
    fake_with_clock(fixture, program, script, Arc::new(FixedClock))
}

fn fake_with_clock(
    fixture: &Fixture,
    program: CliAgentKind,
    script: &str,
    clock: Arc<dyn Clock>,
) -> Box<dyn CliAgent> {
    let path = fixture.folder().join("program");
    write(&path, format!("#!/bin/sh\n{script}\n").as_bytes());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let setup = Setup {
        program: path.display().to_string(),
        home: fixture.folder().join("home"),
        user_home: None,
        permissions: Permissions::Edit,
        allowed_tools: Vec::new(),
        model: None,
        window: None,
        service: None,
        environment: AgentEnvironment::whole(),
        guard: process_guard(),
    };
    match program {
        CliAgentKind::ClaudeCode => Box::new(ClaudeCode::new(setup, clock)),
        _ => Box::new(Codex::new(setup, clock)),
    }
}

/// How the session of the recordings is requested. Codex chooses the id of a new thread itself.
fn way(program: CliAgentKind) -> ConversationMode<'static> {
    match program {
        CliAgentKind::ClaudeCode => ConversationMode::Start { id: CLAUDE },
        _ => ConversationMode::Resume { id: CODEX },
    }
}

/// The result of a program that runs this script, and the events it reported.
fn run_script(program: CliAgentKind, script: &str) -> (Result<Answer, Error>, Vec<String>) {
    let (fixture, events) = (Fixture::new(), EventLog::default());
    let fake = fake(&fixture, program, script);
    let answer = runtime().block_on(fake.ask(fixture.request(), way(program), &events));
    fixture.assert_empty();
    (answer, events.lines())
}

/// The result of a program that writes this stream and exits with this code.
fn run_stream(
    program: CliAgentKind,
    stream: &[u8],
    code: u8,
) -> (Result<Answer, Error>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stream");
    write(&path, stream);
    run_script(program, &ending(&path, code))
}

fn ending(stream: &Path, code: u8) -> String {
    format!("cat > /dev/null; cat '{}'; exit {code}", stream.display())
}

/// Creates a file when the program's context usage is reported.
struct ContextWatch {
    log: EventLog,
    reported: PathBuf,
}

impl Listener for ContextWatch {
    fn on_event(&self, event: Event<'_>) {
        if matches!(event, Event::Context(_)) {
            write(&self.reported, b"");
        }
        self.log.on_event(event);
    }
}

/// The program writes to its rollout after it has reported a finished tool call, and reports nothing
/// else until the usage has been noticed.
#[test]
#[expect(clippy::disallowed_methods, reason = "tests make files as others do")]
fn codex_usage_is_noticed_while_stdout_is_silent() {
    let fixture = Fixture::new();
    let day = fixture.folder().join("home/sessions/2026/11/16");
    std::fs::create_dir_all(&day).unwrap();
    let rollout = day.join(format!("rollout-2026-11-16T04-34-58-{CODEX}.jsonl"));
    write(&rollout, b"");
    let reported = fixture.folder().join("reported");
    let usage = json!({"input_tokens": 90, "output_tokens": 2});
    let count = json!({"type": "event_msg", "payload": {"type": "token_count", "info": {
        "last_token_usage": usage, "total_token_usage": usage, "model_context_window": 100}}});
    let call = json!({"id": "item_0", "type": "command_execution", "command": "true",
        "aggregated_output": "", "exit_code": 0, "status": "completed"});
    let message = json!({"id": "item_1", "type": "agent_message", "text": "done"});
    let script = [
        "cat > /dev/null".to_owned(),
        echo(&json!({"type": "thread.started", "thread_id": CODEX})),
        echo(&json!({"type": "item.completed", "item": call})),
        format!("{} >> '{}'", echo(&count), rollout.display()),
        format!(
            "n=0; until [ -e '{}' ]; do n=$((n+1)); [ $n -lt 1000 ] || exit 1; sleep 0.02; done",
            reported.display()
        ),
        echo(&json!({"type": "item.completed", "item": message})),
        echo(&json!({"type": "turn.completed"})),
    ]
    .join("\n");
    let events = ContextWatch {
        log: EventLog::default(),
        reported,
    };
    let codex = fake_with_clock(&fixture, CliAgentKind::Codex, &script, Arc::new(QuickClock));
    let answer =
        runtime().block_on(codex.ask(fixture.request(), way(CliAgentKind::Codex), &events));
    assert_eq!(answer.unwrap().text, "done");
    let lines = events.log.lines();
    assert!(
        lines.contains(&"context 92 Some(100)".to_owned()),
        "{lines:?}"
    );
}

fn echo(record: &serde_json::Value) -> String {
    format!("printf '%s\\n' '{record}'")
}

/// Codex offers its to-do list to no model that tests have; its format is taken from Codex's
/// sources.
#[test]
fn codex_todo_list_is_reported_when_it_changes() {
    let item = |sort: &str, done: bool| {
        let items = json!([{"text": "count", "completed": done}]);
        json!({"type": sort, "item": {"id": "item_0", "type": "todo_list", "items": items}})
    };
    let records = [
        json!({"type": "thread.started", "thread_id": CODEX}),
        item("item.started", false),
        item("item.updated", false),
        item("item.updated", true),
        item("item.completed", true),
        json!({"type": "item.completed", "item": {"id": "item_1", "type": "agent_message", "text": "x"}}),
        json!({"type": "turn.completed", "usage": {"input_tokens": 3, "output_tokens": 1}}),
    ];
    let stream: Vec<String> = records.iter().map(ToString::to_string).collect();
    let stream = stream.join("\n");
    let (answer, events) = run_stream(CliAgentKind::Codex, stream.as_bytes(), 0);
    assert_eq!(answer.unwrap().text, "x");
    let lists: Vec<&String> = events
        .iter()
        .filter(|line| line.starts_with("raw"))
        .collect();
    assert_eq!(
        lists,
        [
            r#"raw {"items":[{"completed":false,"text":"count"}],"type":"todo_list"}"#,
            r#"raw {"items":[{"completed":true,"text":"count"}],"type":"todo_list"}"#,
        ]
    );
}
