//! Shows an exchange of a chat while it runs, and sums up its usage.

use std::sync::{Arc, Mutex, PoisonError};

use segno_core::id::SessionId;
use segno_core::journal::{Ending, Event, JournalEvent};
use segno_core::state::State;
use segno_core::step::Path;
use segno_core::usage::Usage;
use segno_engine::{Env, Observer};
use segno_secrets::redact::Redactor;

use crate::output::{progress, stderr_line, stdout_line, text};

/// What to print while an answer is generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verbosity {
    /// Only notices and failures.
    Notices,
    /// Also the agent's text, line by line.
    Text,
}

pub(super) struct View {
    verbosity: Verbosity,
    redactor: Arc<Redactor>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Text of the incomplete last line.
    line: String,
    /// Whether any text of the agent was printed.
    printed: bool,
    usage: Usage,
    session: Option<SessionId>,
}

impl View {
    pub(super) fn new(env: &Env, verbosity: Verbosity) -> Self {
        Self {
            verbosity,
            redactor: Arc::clone(&env.redactor),
            inner: Mutex::default(),
        }
    }

    /// Usage since this view was created.
    pub(super) fn usage(&self) -> Usage {
        self.lock().usage
    }

    /// The session that was created meanwhile, if one was.
    pub(super) fn session(&self) -> Option<SessionId> {
        self.lock().session
    }

    /// Prints the rest of the text, or all of it if nothing was printed yet.
    pub(super) fn finish(&self, output: &str) {
        let mut inner = self.lock();
        let rest = std::mem::take(&mut inner.line);
        if !rest.is_empty() {
            self.show(&rest);
        } else if !inner.printed && !output.is_empty() {
            self.show(output);
        }
    }

    /// Prints whole lines only, so that the redactor sees a secret in one piece.
    fn show(&self, text: &str) {
        stdout_line(&text::sanitize_lines(&self.redactor.redact(text)));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for View {
    fn event(&self, session: SessionId, entry: &JournalEvent) {
        let usage = match &entry.event {
            Event::StepFinished(event) => event.usage,
            Event::StepFailed(event) => event.usage,
            Event::ModelReplied(event) => event.usage,
            Event::ConversationCompacted(event) => event.usage,
            Event::AgentMessages(event) => event.usage,
            _ => Usage::default(),
        };
        self.lock().usage += usage;
        match &entry.event {
            Event::SessionCreated(event) => {
                self.lock().session = Some(session);
                stderr_line(&format!("chat {} ({session})", event.name));
            }
            Event::StepFailed(_) | Event::ToolFinished(_) | Event::ToolRefused(_) => {
                stderr_line(&text::sanitize(&progress::describe(entry)));
            }
            _ => {}
        }
    }

    fn text(&self, _: &Path, _: u32, piece: &str) {
        if self.verbosity == Verbosity::Notices {
            return;
        }
        let mut inner = self.lock();
        inner.line.push_str(piece);
        if let Some(end) = inner.line.rfind('\n') {
            let rest = inner.line.split_off(end + 1);
            let whole = std::mem::replace(&mut inner.line, rest);
            inner.printed = true;
            self.show(whole.trim_end_matches('\n'));
        }
    }

    fn notice(&self, message: &str) {
        stderr_line(&format!("note: {}", text::sanitize(message)));
    }
}

/// Explains why the answer ended, if a limit was the reason.
pub(super) fn report_limits(state: &State) {
    let Some(chat) = &state.chat else {
        return;
    };
    if chat.ending == Some(Ending::MaxTurns) {
        stderr_line(&format!(
            "note: the model reached the limit of {} in one exchange; send `continue` to let it continue",
            text::count(chat.max_turns.into(), "turn")
        ));
    }
}
