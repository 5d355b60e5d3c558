//! Unresolved errors, so that a later success can be recognized as a fix.

use std::collections::VecDeque;

use segno_core::handoff::{Handoff, NoteContent};
use segno_core::note::{ErrorNote, Resolution, Source};

use super::output::{cut, error_excerpt};

/// How many errors are tracked at a time.
const MAX_ERRORS: usize = 100;

/// The maximum length of an error's text.
const TEXT: usize = 1200;

/// How CLI agents report that a call was not approved.
const DENIALS: [&str; 7] = [
    "requested permissions to",
    "haven't granted",
    "Permission to use",
    "doesn't want to proceed",
    "doesn't want to take this action",
    "The user refused this call",
    "rejected by user",
];

/// Errors that were not fixed since.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenErrors(VecDeque<OpenError>);

#[derive(Debug, Clone)]
struct OpenError {
    subject: String,
    source: Source,
    sort: String,
    text: String,
}

impl OpenError {
    fn note(&self, resolution: Resolution) -> (Source, ErrorNote) {
        let error = ErrorNote {
            kind: self.sort.clone(),
            text: self.text.clone(),
            subject: Some(self.subject.clone()),
            resolution,
            notes: None,
        };
        (self.source, error)
    }
}

impl OpenErrors {
    /// The errors of an earlier reader. Errors derived from other events have no id and are not
    /// included.
    pub(super) fn of(handoff: &Handoff) -> Self {
        let standing = handoff.errors.active();
        let open = standing.filter_map(|kept| {
            let own = matches!(kept.source, Source::Driver | Source::Rule) && kept.id.is_some();
            Some(OpenError {
                subject: kept.note.subject.clone()?,
                source: kept.source,
                sort: kept.note.kind.clone(),
                text: kept.note.text.clone(),
            })
            .filter(|_| own && !kept.note.is_resolved())
        });
        let mut open_errors = Self(open.collect());
        open_errors.bound();
        open_errors
    }

    /// Records a failure. Returns `None` if the same error is already known.
    pub(super) fn add_failure(
        &mut self,
        source: Source,
        sort: &str,
        subject: &str,
        text: &str,
    ) -> Option<(Source, ErrorNote)> {
        let known = self.remove_subject(subject);
        let open = OpenError {
            subject: subject.to_owned(),
            // A less trusted source cannot update the note of a more trusted one.
            source: known
                .as_ref()
                .map_or(source, |known| known.source.min(source)),
            sort: sort.to_owned(),
            text: cut(text, TEXT),
        };
        let same = known.is_some_and(|known| known.sort == open.sort && known.text == open.text);
        let note = open.note(Resolution::Unresolved);
        self.0.push_back(open);
        self.bound();
        (!same).then_some(note)
    }

    /// Records a success: returns the fixed error if the subject had failed before.
    pub(super) fn mark_fixed(&mut self, subject: &str) -> Option<(Source, ErrorNote)> {
        Some(self.remove_subject(subject)?.note(Resolution::Fixed))
    }

    fn remove_subject(&mut self, subject: &str) -> Option<OpenError> {
        let at = self.0.iter().position(|open| open.subject == subject)?;
        self.0.remove(at)
    }

    fn bound(&mut self) {
        while self.0.len() > MAX_ERRORS {
            self.0.pop_front();
        }
    }
}

/// The kind of a failure and the text of a failed tool's result.
pub(super) fn failure_message<'a>(usual: &'a str, text: &str) -> (&'a str, String) {
    let begin = &text[..text.floor_char_boundary(2000)];
    let denied = begin == "declined" || DENIALS.iter().any(|words| begin.contains(words));
    let message = error_excerpt(without_status(text));
    let message = match message.as_str() {
        "" if text.trim().is_empty() => "it failed without a message".to_owned(),
        "" => cut(text.trim(), TEXT),
        _ => message,
    };
    (if denied { "denied" } else { usual }, message)
}

/// The exit status that a CLI agent puts before a command's output.
pub(super) fn status(text: &str) -> Option<i64> {
    let first = text.lines().take(4).find_map(|line| {
        let line = line.trim();
        let heads = ["Exit code: ", "Exit code ", "Process exited with code "];
        heads.iter().find_map(|head| line.strip_prefix(head))
    });
    first?.split_whitespace().next()?.parse().ok()
}

fn without_status(text: &str) -> &str {
    match text.split_once('\n') {
        Some((first, rest)) if first.starts_with("Exit code ") && !rest.trim().is_empty() => rest,
        _ => text,
    }
}

/// Whether build output contains an error.
pub(super) fn reports_error(text: &str) -> bool {
    let heads = [
        "error:",
        "error[",
        "Error:",
        "fatal:",
        "Traceback (most recent call last):",
        "npm ERR!",
        "npm error",
        "make: ***",
        "FAILED",
    ];
    let bad = |line: &str| {
        heads.iter().any(|head| line.starts_with(head))
            || (line.starts_with("make[") && line.contains("]: ***"))
    };
    text.lines().any(bad)
}
