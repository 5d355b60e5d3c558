//! Derives notices from events of a journal.
//!
//! [`notices`] is pure: the same event and facts give the same notices, with the same ids. A notice
//! contains no answer of an agent: only names, statuses, reasons and questions. Its text is
//! bounded, redacted and free of control characters.

use segno_core::error::join_shown;
use segno_core::id::SessionId;
use segno_core::journal::{Event, JournalEvent, RunEnded, RunWithdrawn, Suspension};
use segno_core::sanitize::sanitize;
use segno_core::session::Status;
use segno_core::store::Error as StoreError;
use segno_core::time::Timestamp;
use segno_secrets::redact::Redactor;
use serde::{Deserialize, Serialize};

use super::facts::Facts;
use super::kind::Kind;

/// The longest title and text, in characters.
const MAX_TITLE: usize = 120;
const MAX_TEXT: usize = 600;

/// The codes of errors with which a run pauses because a budget or a context is used up.
const USED_UP: [&str; 2] = ["R0112", "R0116"];

/// What people are told about a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    pub kind: Kind,
    pub session: SessionId,
    pub name: String,
    /// The session's status after the event.
    pub status: Status,
    /// The event that the notice is derived from.
    pub seq: u64,
    pub run: u64,
    pub at: Timestamp,
    /// One line.
    pub title: String,
    /// The reason; may be empty.
    pub text: String,
    /// What to do next, as a command.
    pub hint: Option<String>,
}

impl Notice {
    /// The notice's id: two notices with the same id are the same notice.
    pub fn id(&self) -> String {
        format!("{}-{:010}-{}", self.session, self.seq, self.kind)
    }

    /// Redacts and bounds all text.
    #[must_use]
    pub fn cleaned(self, redactor: &Redactor) -> Self {
        let clean = |text: &str, most| bounded(&sanitize(&redactor.redact(text)), most);
        Self {
            name: clean(&self.name, MAX_TITLE),
            title: clean(&self.title, MAX_TITLE),
            text: clean(&self.text, MAX_TEXT),
            hint: self.hint.map(|hint| clean(&hint, MAX_TITLE)),
            ..self
        }
    }
}

/// Truncates a text to `most` characters.
pub(super) fn bounded(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most - 1).chain(['…']).collect(),
    }
}

/// The notices about an event. `facts` are those before the event.
pub fn notices(session: SessionId, entry: &JournalEvent, facts: &Facts) -> Vec<Notice> {
    let about = About {
        session,
        entry,
        facts,
    };
    match &entry.event {
        Event::RunStarted(event) if event.purpose.is_work() => about.run_started(),
        Event::RunLost(_) => vec![about.lost(Status::Interrupted)],
        Event::RunWithdrawn(event) => about.not_started(event).into_iter().collect(),
        Event::QuestionAsked(event) => {
            let hint = format!("segno answer {} TEXT", facts.name);
            vec![about.notice(
                Kind::Waiting,
                Status::Waiting,
                "waits for you",
                &event.prompt,
                Some(hint),
            )]
        }
        Event::StepFailed(event) => match &event.suspended {
            Some(limit) if !facts.limited.contains_key(&event.path) => vec![about.limited(limit)],
            _ => Vec::new(),
        },
        Event::StepStarted(event) if facts.limited.contains_key(&event.path) => {
            vec![about.notice(
                Kind::LimitLifted,
                Status::Running,
                "continues",
                "the limit that it waited for is lifted",
                None,
            )]
        }
        Event::RunEnded(event) => about.run_ended(event).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// The notice about the checkpoints of a lost session, if there are none or if some are damaged. It
/// says what is left. `entry` is the event by which the loss became known.
pub fn checkpoint_notice<T>(
    session: SessionId,
    entry: &JournalEvent,
    facts: &Facts,
    checkpoints: &[Result<T, StoreError>],
) -> Option<Notice> {
    let about = About {
        session,
        entry,
        facts,
    };
    let errors = checkpoints.iter().filter_map(|it| it.as_ref().err());
    let damaged = errors.clone().count();
    let intact = checkpoints.len() - damaged;
    let left = format!(
        "left are the journal up to event {} and the files in {} as they are",
        entry.seq, facts.workspace
    );
    let (title, text) = match (intact, damaged) {
        (0, 0) => ("was lost without a checkpoint", left),
        (_, 0) => return None,
        (0, _) => (
            "was lost, and all its checkpoints are damaged",
            format!("{left}; {}", join_shown(errors)),
        ),
        (intact, damaged) => (
            "was lost, and has damaged checkpoints",
            format!(
                "{damaged} of its {} checkpoints cannot be used, {intact} can",
                intact + damaged
            ),
        ),
    };
    let hint = format!("segno resume {} --dry-run", facts.name);
    Some(about.notice(
        Kind::Checkpoint,
        Status::Interrupted,
        title,
        &text,
        Some(hint),
    ))
}

/// The subject of a notice.
struct About<'a> {
    session: SessionId,
    entry: &'a JournalEvent,
    facts: &'a Facts,
}

impl About<'_> {
    fn notice(
        &self,
        kind: Kind,
        status: Status,
        what: &str,
        text: &str,
        hint: Option<String>,
    ) -> Notice {
        Notice {
            kind,
            session: self.session,
            name: self.facts.name.clone(),
            status,
            seq: self.entry.seq.0,
            run: self.entry.run.0,
            at: self.entry.at,
            title: format!("{} {what}", self.facts.name),
            text: text.to_owned(),
            hint,
        }
    }

    fn resume_hint(&self) -> String {
        format!("segno resume {}", self.facts.name)
    }

    fn run_started(&self) -> Vec<Notice> {
        let mut notices = Vec::new();
        if self.facts.is_run_open {
            notices.push(self.lost(Status::Running));
        }
        if self.facts.is_automatic {
            notices.push(self.notice(
                Kind::Resumed,
                Status::Running,
                "was resumed by itself",
                "",
                None,
            ));
        }
        notices
    }

    /// `status` tells whether the session was resumed meanwhile.
    fn lost(&self, status: Status) -> Notice {
        let (text, hint) = match status {
            Status::Running => ("its run died without an end; it was resumed", None),
            _ => ("its run died without an end", Some(self.resume_hint())),
        };
        self.notice(Kind::Lost, status, "was lost", text, hint)
    }

    fn limited(&self, limit: &Suspension) -> Notice {
        let text = format!("limit of {}, lifted at {}", limit.provider, limit.until);
        self.notice(
            Kind::LimitReached,
            Status::Running,
            "reached a limit",
            &text,
            None,
        )
    }

    /// A requested run that could not start.
    fn not_started(&self, withdrawn: &RunWithdrawn) -> Option<Notice> {
        let error = withdrawn.error.as_ref()?;
        let hint = Some(self.resume_hint());
        let what = "could not be run";
        Some(self.notice(Kind::Failed, Status::Failed, what, &error.message, hint))
    }

    fn run_ended(&self, ended: &RunEnded) -> Option<Notice> {
        let error = ended.error.as_ref();
        let reason = error.map_or("", |error| error.message.as_str());
        let status = ended.status;
        let used_up = error.is_some_and(|error| USED_UP.contains(&error.kind.as_str()));
        let (kind, what) = match status {
            Status::Failed => (Kind::Failed, "failed"),
            Status::Cancelled => (Kind::Cancelled, "was cancelled"),
            Status::Completed => (Kind::Completed, "is completed"),
            Status::Interrupted => (Kind::Paused, "was interrupted"),
            Status::Paused if used_up => (Kind::LimitReached, "reached a limit"),
            // A chat rests between messages. The question was told when it was asked.
            Status::Paused if !self.facts.kind.is_chat() => (Kind::Paused, "is paused"),
            _ => return None,
        };
        let text = match (&self.facts.stop, reason) {
            (Some((by, None)), "") => format!("requested by {by}"),
            (Some((by, Some(reason))), "") => format!("requested by {by}: {reason}"),
            (_, reason) => reason.to_owned(),
        };
        let hint = match status {
            Status::Completed => Some(format!("segno show {}", self.facts.name)),
            Status::Cancelled => None,
            _ => Some(self.resume_hint()),
        };
        Some(self.notice(kind, status, what, &text, hint))
    }
}

#[cfg(test)]
mod tests;
