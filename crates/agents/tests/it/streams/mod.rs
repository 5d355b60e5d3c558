//! The streams that Claude Code and Codex write to stdout: recorded and malformed ones.

mod golden;
mod malformed;
mod measured;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use segno_agents::program::{Permissions, Setup};
use segno_agents::{ClaudeCode, Codex};
use segno_core::agent::{Answer, Error};
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

/// A fake program: runs `script` in a shell, in the fixture's folder.
fn fake(fixture: &Fixture, program: CliAgentKind, script: &str) -> Box<dyn CliAgent> {
    let path = fixture.folder().join("program");
    write(&path, format!("#!/bin/sh\n{script}\n").as_bytes());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let setup = Setup {
        program: path.display().to_string(),
        home: fixture.folder().join("home"),
        permissions: Permissions::Edit,
        allowed_tools: Vec::new(),
        model: None,
        window: None,
        service: None,
        guard: process_guard(),
    };
    match program {
        CliAgentKind::ClaudeCode => Box::new(ClaudeCode::new(setup, Arc::new(FixedClock))),
        _ => Box::new(Codex::new(setup, Arc::new(FixedClock))),
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
