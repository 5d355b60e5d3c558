//! Earlier texts, in memory only.

use std::collections::VecDeque;

const MAX_ENTRIES: usize = 200;

#[derive(Debug, Default)]
pub(super) struct History {
    entries: VecDeque<String>,
    /// The entry that is shown, if one is.
    shown: Option<usize>,
    /// What was typed before an entry was shown.
    draft: String,
}

impl History {
    /// Adds a text, unless it is empty or the same as the last one.
    pub(super) fn push(&mut self, text: &str) {
        self.close();
        if text.trim().is_empty() || self.entries.back().is_some_and(|last| last == text) {
            return;
        }
        if self.entries.len() == MAX_ENTRIES {
            self.entries.pop_front();
        }
        self.entries.push_back(text.to_owned());
    }

    /// Starts at the newest entry again.
    pub(super) fn close(&mut self) {
        self.shown = None;
    }

    /// Returns the entry before the shown one. `current` is the text to return to.
    pub(super) fn older(&mut self, current: &str) -> Option<String> {
        let at = self.shown.unwrap_or(self.entries.len()).checked_sub(1)?;
        if self.shown.is_none() {
            current.clone_into(&mut self.draft);
        }
        self.shown = Some(at);
        self.entries.get(at).cloned()
    }

    /// Returns the entry after the shown one, and after the last entry what was typed before.
    pub(super) fn newer(&mut self) -> Option<String> {
        let at = self.shown? + 1;
        if let Some(entry) = self.entries.get(at) {
            self.shown = Some(at);
            return Some(entry.clone());
        }
        self.shown = None;
        Some(std::mem::take(&mut self.draft))
    }
}
