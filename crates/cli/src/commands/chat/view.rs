//! An exchange, as it is watched.

use std::sync::{Arc, Mutex, PoisonError};

use segno_core::id::SessionId;
use segno_core::journal::{Ending, Entry, Event};
use segno_core::redact::Redactor;
use segno_core::state::State;
use segno_core::usage::Usage;
use segno_engine::{Observer, World};

use crate::output::{data, plain, progress, say};

/// What is shown while an answer is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// What the person should know.
    Notes,
    /// That, and what the agent says, line by line.
    Words,
}

pub(super) struct View {
    shown: Shown,
    redactor: Arc<Redactor>,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    /// What was said of the line that is not over.
    line: String,
    /// Whether anything was shown of what was said.
    spoke: bool,
    usage: Usage,
    session: Option<SessionId>,
}

impl View {
    pub(super) fn new(world: &World, shown: Shown) -> Self {
        Self {
            shown,
            redactor: Arc::clone(&world.redactor),
            inside: Mutex::default(),
        }
    }

    /// What was used since it began to watch.
    pub(super) fn usage(&self) -> Usage {
        self.lock().usage
    }

    /// The session that was made meanwhile, if one was.
    pub(super) fn session(&self) -> Option<SessionId> {
        self.lock().session
    }

    /// Shows the rest of what was said, or all of it if nothing was shown yet.
    pub(super) fn conclude(&self, output: &str) {
        let mut inside = self.lock();
        let rest = std::mem::take(&mut inside.line);
        if !rest.is_empty() {
            self.show(&rest);
        } else if !inside.spoke && !output.is_empty() {
            self.show(output);
        }
    }

    /// By whole lines, so that a secret is seen as a whole.
    fn show(&self, text: &str) {
        data(&plain::lines(&self.redactor.redact(text)));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for View {
    fn entry(&self, session: SessionId, entry: &Entry) {
        let usage = match &entry.event {
            Event::StepFinished(event) => event.usage,
            Event::StepFailed(event) => event.usage,
            Event::ModelReplied(event) => event.usage,
            Event::TalkShortened(event) => event.usage,
            Event::AgentSaid(event) => event.usage,
            _ => Usage::default(),
        };
        self.lock().usage += usage;
        match &entry.event {
            Event::SessionCreated(event) => {
                self.lock().session = Some(session);
                say(&format!("chat {} ({session})", event.name));
            }
            Event::StepFailed(_) | Event::ToolFinished(_) => {
                say(&plain::plain(&progress::describe(entry)));
            }
            _ => {}
        }
    }

    fn words(&self, piece: &str) {
        if self.shown == Shown::Notes {
            return;
        }
        let mut inside = self.lock();
        inside.line.push_str(piece);
        if let Some(end) = inside.line.rfind('\n') {
            let rest = inside.line.split_off(end + 1);
            let whole = std::mem::replace(&mut inside.line, rest);
            inside.spoke = true;
            self.show(whole.trim_end_matches('\n'));
        }
    }

    fn notice(&self, message: &str) {
        say(&format!("note: {}", plain::plain(message)));
    }
}

/// Says why there is no more, if that is not plain.
pub(super) fn limits(state: &State) {
    let Some(chat) = &state.chat else {
        return;
    };
    if chat.ending == Some(Ending::MaxTurns) {
        say(&format!(
            "note: the model answered {}, which is the most within one exchange; say `go on` to let it go on",
            plain::count(chat.max_turns.into(), "time")
        ));
    }
}
