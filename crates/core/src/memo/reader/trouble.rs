//! Errors that stand in the way, so that what fixes one is known.

use std::collections::VecDeque;

use super::output::{cut, telling};
use crate::memo::{Handoff, Item, Resolution, Source, Trouble};

/// How many are known at a time.
const KNOWN: usize = 100;

/// The longest text of one.
const TEXT: usize = 1200;

/// How programs say that they were not allowed to do something.
const DENIALS: [&str; 7] = [
    "requested permissions to",
    "haven't granted",
    "Permission to use",
    "doesn't want to proceed",
    "doesn't want to take this action",
    "A person refused this call",
    "rejected by user",
];

/// What went wrong and was not put right since.
#[derive(Debug, Clone, Default)]
pub(super) struct Troubles(VecDeque<Open>);

#[derive(Debug, Clone)]
struct Open {
    subject: String,
    source: Source,
    sort: String,
    text: String,
}

impl Open {
    fn memo(&self, resolution: Resolution) -> (Source, Trouble) {
        let trouble = Trouble {
            sort: self.sort.clone(),
            text: self.text.clone(),
            subject: Some(self.subject.clone()),
            resolution,
            notes: None,
        };
        (self.source, trouble)
    }
}

impl Troubles {
    /// Those of an earlier reader. What follows from other entries has no name, and is none of them.
    pub(super) fn of(handoff: &Handoff) -> Self {
        let standing = handoff.errors.standing();
        let open = standing.filter_map(|kept| {
            let own = matches!(kept.source, Source::Driver | Source::Rule) && kept.id.is_some();
            Some(Open {
                subject: kept.memo.subject.clone()?,
                source: kept.source,
                sort: kept.memo.sort.clone(),
                text: kept.memo.text.clone(),
            })
            .filter(|_| own && !kept.memo.is_settled())
        });
        let mut troubles = Self(open.collect());
        troubles.bound();
        troubles
    }

    /// Something went wrong. Nothing is said again that is known.
    pub(super) fn wrong(
        &mut self,
        source: Source,
        sort: &str,
        subject: &str,
        text: &str,
    ) -> Option<(Source, Trouble)> {
        let known = self.take(subject);
        let open = Open {
            subject: subject.to_owned(),
            // A writer that is believed less cannot say how it stands now.
            source: known
                .as_ref()
                .map_or(source, |known| known.source.min(source)),
            sort: sort.to_owned(),
            text: cut(text, TEXT),
        };
        let same = known.is_some_and(|known| known.sort == open.sort && known.text == open.text);
        let memo = open.memo(Resolution::Unresolved);
        self.0.push_back(open);
        self.bound();
        (!same).then_some(memo)
    }

    /// Something went well that may have gone wrong before.
    pub(super) fn well(&mut self, subject: &str) -> Option<(Source, Trouble)> {
        Some(self.take(subject)?.memo(Resolution::Fixed))
    }

    fn take(&mut self, subject: &str) -> Option<Open> {
        let at = self.0.iter().position(|open| open.subject == subject)?;
        self.0.remove(at)
    }

    fn bound(&mut self) {
        while self.0.len() > KNOWN {
            self.0.pop_front();
        }
    }
}

/// What a tool that failed said, and what sort of failure it is.
pub(super) fn complaint<'a>(usual: &'a str, text: &str) -> (&'a str, String) {
    let begin = &text[..text.floor_char_boundary(2000)];
    let denied = begin == "declined" || DENIALS.iter().any(|words| begin.contains(words));
    let told = telling(without_status(text));
    let told = match told.as_str() {
        "" if text.trim().is_empty() => "it failed, and said nothing".to_owned(),
        "" => cut(text.trim(), TEXT),
        _ => told,
    };
    (if denied { "denied" } else { usual }, told)
}

/// The status that a program tells before a command's own words.
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

/// Whether the words of a build speak of an error.
pub(super) fn complains(text: &str) -> bool {
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
