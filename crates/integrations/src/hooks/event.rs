//! The hook itself, `segno __hook`: a CLI agent runs it when something happens in one of its
//! sessions.
//!
//! The CLI agent waits for it and interprets its output and exit code. So the hook prints nothing,
//! always succeeds, and does as little as possible: it writes one notification to the spool.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use segno_core::ports::Clock;
use serde::Deserialize;

use super::Agent;
use super::spool::Notification;

/// Maximum size of an event in bytes. Some events contain the last answer of a model.
const MAX_BYTES: usize = 4 << 20;
/// How long the CLI agent may take to send the event.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// The fields of the event that are needed here.
#[derive(Deserialize)]
struct Event {
    session_id: String,
    transcript_path: PathBuf,
}

/// Runs the hook. `clock` bounds how long it waits for the event.
pub fn main(clock: &dyn Clock) -> ExitCode {
    set_hook(Box::new(|_| {}));
    let _ = catch_unwind(AssertUnwindSafe(|| notify(clock)));
    ExitCode::SUCCESS
}

/// Writes a notification. Does nothing if anything is wrong.
fn notify(clock: &dyn Clock) -> Option<()> {
    // Sessions that Segno started itself are already in its journal.
    if std::env::var_os("SEGNO_SESSION").is_some() {
        return None;
    }
    let mut words = std::env::args_os().skip(2);
    let agent = Agent::parse(words.next()?.to_str()?)?;
    let home = PathBuf::from(words.next()?);
    if !home.is_absolute() {
        return None;
    }
    notification(agent, &read_event(clock)?)?.write(&home).ok()
}

fn notification(agent: Agent, bytes: &[u8]) -> Option<Notification> {
    let event: Event = serde_json::from_slice(bytes).ok()?;
    let root = agent.root()?;
    let new =
        |root: &Path| Notification::new(agent, &event.session_id, root, &event.transcript_path);
    // Some CLI agents report canonical paths, others paths as configured.
    new(&root).or_else(|| new(&root.canonicalize().ok()?))
}

/// Reads the event from stdin: to the end, or until it is complete JSON, because some CLI agents
/// keep the pipe open.
fn read_event(clock: &dyn Clock) -> Option<Vec<u8>> {
    let begun = clock.elapsed();
    let stdin = io::stdin();
    let (mut bytes, mut piece) = (Vec::new(), vec![0; 64 * 1024]);
    loop {
        let left = READ_TIMEOUT
            .checked_sub(clock.elapsed().saturating_sub(begun))?
            .try_into()
            .ok()?;
        if poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&left)).ok()? == 0 {
            return None;
        }
        let count = rustix::io::read(&stdin, &mut piece).ok()?;
        bytes.extend_from_slice(&piece[..count]);
        if bytes.len() > MAX_BYTES {
            return None;
        }
        let closed = bytes.trim_ascii_end().ends_with(b"}");
        if count == 0 || (closed && serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok())
        {
            return Some(bytes);
        }
    }
}
