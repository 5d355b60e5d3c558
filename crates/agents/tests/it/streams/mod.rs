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
        warden: warden(),
    };
    match program {
        Program::ClaudeCode => Box::new(ClaudeCode::new(setup, Arc::new(Still))),
        _ => Box::new(Codex::new(setup)),
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
