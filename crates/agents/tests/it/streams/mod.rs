//! What Claude Code and Codex write to stdout: as they did, and as they never should.

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
use segno_core::companion::{Companion, Program, Way};
use segno_core::ports::{Boxed, Clock};
use segno_core::time::Timestamp;
use serde_json::json;

use crate::told::Told;
use crate::world::{World, runtime, warden, write};

/// The name of the conversation, as the recordings have it.
const CLAUDE: &str = "00000000-0000-4000-8000-000000000001";
const CODEX: &str = "00000000-0000-7000-8000-000000000001";

/// Time that stands still.
struct Still;

impl Clock for Still {
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

/// A program that is not what it says: `script`, for a shell, in the world's folder.
fn fake(world: &World, program: Program, script: &str) -> Box<dyn Companion> {
    let path = world.folder().join("program");
    write(&path, format!("#!/bin/sh\n{script}\n").as_bytes());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let setup = Setup {
        program: path.display().to_string(),
        home: world.folder().join("home"),
        permissions: Permissions::Edit,
        allow: Vec::new(),
        model: None,
        window: None,
        service: None,
        warden: warden(),
    };
    match program {
        Program::ClaudeCode => Box::new(ClaudeCode::new(setup, Arc::new(Still))),
        _ => Box::new(Codex::new(setup, Arc::new(Still))),
    }
}

/// How such a program is asked for the conversation of the recordings. Codex chooses its name itself
/// where it begins one.
fn way(program: Program) -> Way<'static> {
    match program {
        Program::ClaudeCode => Way::Begin { id: CLAUDE },
        _ => Way::Continue { id: CODEX },
    }
}

/// What comes of a program that does this, and what it reported.
fn asked(program: Program, script: &str) -> (Result<Answer, Error>, Vec<String>) {
    let (world, told) = (World::new(), Told::default());
    let fake = fake(&world, program, script);
    let answer = runtime().block_on(fake.ask(world.request(), way(program), &told));
    world.assert_empty();
    (answer, told.lines())
}

/// What comes of a program that writes this, and ends with this code.
fn heard(program: Program, stream: &[u8], code: u8) -> (Result<Answer, Error>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stream");
    write(&path, stream);
    asked(program, &ending(&path, code))
}

fn ending(stream: &Path, code: u8) -> String {
    format!("cat > /dev/null; cat '{}'; exit {code}", stream.display())
}

/// This Codex offers its list to no model that tests have; its form is that of its own sources.
#[test]
fn what_codex_means_to_do_is_told_when_it_changes() {
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
    let (answer, told) = heard(Program::Codex, stream.as_bytes(), 0);
    assert_eq!(answer.unwrap().text, "x");
    let lists: Vec<&String> = told.iter().filter(|line| line.starts_with("raw")).collect();
    assert_eq!(
        lists,
        [
            r#"raw {"items":[{"completed":false,"text":"count"}],"type":"todo_list"}"#,
            r#"raw {"items":[{"completed":true,"text":"count"}],"type":"todo_list"}"#,
        ]
    );
}
