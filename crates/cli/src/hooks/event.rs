//! What an agent's program starts when something happens in one of its sessions: `segno __hook`.
//!
//! The program waits for it, and takes what it writes and how it ends for an answer. So it says
//! nothing, ends well whatever happens, and does as little as it can: it leaves a note.

use std::io;
use std::panic::{catch_unwind, set_hook};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use segno_core::ports::Clock;
use serde::Deserialize;

use super::Agent;
use crate::machine::MachineClock;
use crate::spool::Note;

/// The longest event that is read. The last answer of a model is in some.
const LONGEST: usize = 4 << 20;
/// How long the program may take to say what happened.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a program says about an event, as far as it matters here.
#[derive(Deserialize)]
struct Event {
    session_id: String,
    transcript_path: PathBuf,
}

pub(crate) fn main() -> ExitCode {
    set_hook(Box::new(|_| {}));
    let _ = catch_unwind(tell);
    ExitCode::SUCCESS
}

/// Leaves a note, unless anything is not as it should be.
fn tell() -> Option<()> {
    // What Segno started itself is in its journal.
    if std::env::var_os("SEGNO_SESSION").is_some() {
        return None;
    }
    let mut words = std::env::args_os().skip(2);
    let agent = Agent::of(words.next()?.to_str()?)?;
    let home = PathBuf::from(words.next()?);
    if !home.is_absolute() {
        return None;
    }
    note(agent, &heard()?)?.leave(&home).ok()
}

fn note(agent: Agent, said: &[u8]) -> Option<Note> {
    let event: Event = serde_json::from_slice(said).ok()?;
    let root = agent.root()?;
    let note = |root: &Path| Note::new(agent, &event.session_id, root, &event.transcript_path);
    // Some programs tell where things really are, and others where they were told to look.
    note(&root).or_else(|| note(&root.canonicalize().ok()?))
}

/// All that the program says: to its end, or until it makes sense, since some leave the pipe open.
fn heard() -> Option<Vec<u8>> {
    let clock = MachineClock::new();
    let stdin = io::stdin();
    let (mut said, mut piece) = (Vec::new(), vec![0; 64 * 1024]);
    loop {
        let left = PATIENCE.checked_sub(clock.elapsed())?.try_into().ok()?;
        if poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&left)).ok()? == 0 {
            return None;
        }
        let count = rustix::io::read(&stdin, &mut piece).ok()?;
        said.extend_from_slice(&piece[..count]);
        if said.len() > LONGEST {
            return None;
        }
        let closed = said.trim_ascii_end().ends_with(b"}");
        if count == 0 || (closed && serde_json::from_slice::<serde::de::IgnoredAny>(&said).is_ok())
        {
            return Some(said);
        }
    }
}
