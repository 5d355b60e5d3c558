//! Memos as people and programs are shown them.

use segno_core::journal::Seq;
use segno_core::memo::{Files, Handoff, Kept, Memo, MemoId, Source};
use segno_core::step::Path;
use segno_core::time::Timestamp;
use serde_json::{Value, json};

/// A memo, and what is known about it.
pub(super) struct Row {
    pub(super) id: Option<MemoId>,
    pub(super) memo: Memo,
    pub(super) source: Source,
    /// Absent for what is put together from several.
    pub(super) origin: Option<Origin>,
    pub(super) corrected: bool,
    /// Why it no longer holds, if it does not.
    pub(super) withdrawn: Option<String>,
}

/// Where a memo comes from.
pub(super) struct Origin {
    pub(super) at: Timestamp,
    pub(super) by: String,
    pub(super) step: Option<Path>,
    pub(super) entry: Seq,
    pub(super) call: Option<String>,
}

/// All memos of a session that are at hand.
pub(super) fn rows(handoff: &Handoff) -> Vec<Row> {
    let mut rows = Vec::new();
    let decisions = handoff.decisions.kept.iter();
    rows.extend(decisions.map(|kept| row(kept, Memo::Decision)));
    let errors = handoff.errors.kept.iter();
    rows.extend(errors.map(|kept| row(kept, Memo::Error)));
    let feedback = handoff.feedback.kept.iter();
    rows.extend(feedback.map(|kept| row(kept, Memo::Feedback)));
    let todos = handoff.todos.kept.iter();
    rows.extend(todos.map(|kept| row(kept, Memo::Todo)));
    rows.extend(handoff.list.iter().map(|kept| row(kept, Memo::Todos)));
    rows.extend(handoff.tests.iter().map(|kept| row(kept, Memo::Tests)));
    if !handoff.files.is_empty() {
        rows.push(files(handoff));
    }
    rows
}

/// The files that were written, from all memos about them: which told of each is in the journal.
fn files(handoff: &Handoff) -> Row {
    Row {
        id: None,
        memo: Memo::Files(Files {
            paths: handoff.files.clone(),
        }),
        source: Source::Driver,
        origin: None,
        corrected: false,
        withdrawn: None,
    }
}

fn row<T: Clone>(kept: &Kept<T>, memo: fn(T) -> Memo) -> Row {
    Row {
        id: kept.id,
        memo: memo(kept.memo.clone()),
        source: kept.source,
        origin: Some(Origin {
            at: kept.at,
            by: kept.by.clone(),
            step: kept.path.clone(),
            entry: kept.seq,
            call: kept.call.clone(),
        }),
        corrected: kept.corrected,
        withdrawn: kept.withdrawn.clone(),
    }
}

impl Row {
    /// Who wrote it, and what sort of writer that is.
    pub(super) fn from(&self) -> String {
        match &self.origin {
            Some(origin) => format!("{} ({})", origin.by, self.source),
            None => format!("({})", self.source),
        }
    }

    pub(super) fn json(&self) -> Value {
        let origin = self.origin.as_ref();
        json!({
            "v": 1,
            "kind": "memo",
            "id": self.id,
            "at": origin.map(|origin| origin.at),
            "source": self.source,
            "by": origin.map(|origin| &origin.by),
            "step": origin.and_then(|origin| origin.step.as_ref()),
            "entry": origin.map(|origin| origin.entry),
            "call": origin.and_then(|origin| origin.call.as_ref()),
            "corrected": self.corrected,
            "withdrawn": self.withdrawn,
            "memo": self.memo,
        })
    }
}
