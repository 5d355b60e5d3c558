//! Folds the notes of a session.

use serde::{Deserialize, Serialize};

use super::{
    Decision, Feedback, Memo, MemoId, Progress, Resolution, Sort, Source, Tests, Todo, Todos,
    Trouble, Written,
};
use crate::journal::{MemoWithdrawn, MemosWritten, Seq, StepFailed, StepFinished};
use crate::step::Path;
use crate::time::Timestamp;
use crate::usage::Usage;

/// How many notes of a kind are held in memory. Older ones stay in the journal.
const MAX_NOTES: usize = 200;

/// How many files are listed.
const MAX_FILES: usize = 200;

/// The fold of a session's notes. It stays small however long the session is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handoff {
    pub decisions: Shelf<Decision>,
    pub errors: Shelf<Trouble>,
    pub feedback: Shelf<Feedback>,
    /// Single todos.
    pub todos: Shelf<Todo>,
    /// The newest todo list of an agent.
    pub list: Option<Kept<Todos>>,
    /// The newest test result.
    pub tests: Option<Kept<Tests>>,
    /// The most recently written files, newest last.
    pub files: Vec<String>,
    /// How many other files were written before.
    pub earlier_files: u64,
    /// The last event that a model has read to extract notes.
    pub read_to: Option<Seq>,
}

/// Notes of one kind, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shelf<T> {
    /// The notes held in memory.
    pub kept: Vec<Kept<T>>,
    /// The total number of notes.
    pub count: u64,
    /// The number of the last note with an id.
    pub last: u64,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self {
            kept: Vec::new(),
            count: 0,
            last: 0,
        }
    }
}

impl<T> Shelf<T> {
    /// The notes that were not withdrawn, oldest first.
    pub fn standing(&self) -> impl DoubleEndedIterator<Item = &Kept<T>> {
        self.kept.iter().filter(|kept| kept.withdrawn.is_none())
    }

    fn find(&mut self, number: u64) -> Option<&mut Kept<T>> {
        let known = |kept: &&mut Kept<T>| kept.id.is_some_and(|id| id.number == number);
        self.kept.iter_mut().find(known)
    }
}

/// A note and its metadata.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept<T> {
    /// The note's id; `None` for notes derived from other events, and for kinds of which only the newest
    /// counts.
    pub id: Option<MemoId>,
    /// When the note was written or last corrected.
    pub at: Timestamp,
    /// The kind of author.
    pub source: Source,
    /// The author.
    pub by: String,
    /// The step that the note is about.
    pub path: Option<Path>,
    /// The journal event that contains the note.
    pub seq: Seq,
    /// The tool call that the note was derived from.
    pub call: Option<String>,
    pub corrected: bool,
    /// Why the note was withdrawn, if it was.
    pub withdrawn: Option<String>,
    pub memo: T,
}

/// A kind of note that [`Shelf`] can hold.
pub trait Item: PartialEq + Sized {
    const SORT: Sort;

    /// Whether the note needs no further action.
    fn is_settled(&self) -> bool;

    /// Whether `other` has the same subject and is an update of this note.
    fn is_followed_by(&self, other: &Self) -> bool;
}

impl Item for Decision {
    const SORT: Sort = Sort::Decision;

    fn is_settled(&self) -> bool {
        true
    }

    fn is_followed_by(&self, _: &Self) -> bool {
        false
    }
}

impl Item for Trouble {
    const SORT: Sort = Sort::Error;

    fn is_settled(&self) -> bool {
        self.resolution != Resolution::Unresolved
    }

    fn is_followed_by(&self, other: &Self) -> bool {
        self.subject.is_some() && self.subject == other.subject && !self.is_settled()
    }
}

impl Item for Feedback {
    const SORT: Sort = Sort::Feedback;

    fn is_settled(&self) -> bool {
        self.addressed || self.approved
    }

    fn is_followed_by(&self, _: &Self) -> bool {
        false
    }
}

impl Item for Todo {
    const SORT: Sort = Sort::Todo;

    fn is_settled(&self) -> bool {
        matches!(self.progress, Progress::Done | Progress::Dropped)
    }

    fn is_followed_by(&self, other: &Self) -> bool {
        self.text == other.text && !self.is_settled()
    }
}

/// The subject of a step's failure.
fn subject(path: &Path) -> String {
    format!("step {path}")
}

/// A note to be added, with its metadata.
struct NewNote<'a> {
    event: &'a MemosWritten,
    seq: Seq,
    at: Timestamp,
    call: Option<String>,
    corrects: Option<MemoId>,
    /// Whether the note gets an id. A note derived from another event has none: ids would differ in a
    /// fork of the session that lacks that event.
    named: bool,
}

impl NewNote<'_> {
    fn kept<T>(&self, id: Option<MemoId>, memo: T) -> Kept<T> {
        Kept {
            id,
            at: self.at,
            source: self.event.source,
            by: self.event.by.clone(),
            path: self.event.path.clone(),
            seq: self.seq,
            call: self.call.clone(),
            corrected: false,
            withdrawn: None,
            memo,
        }
    }
}

impl Handoff {
    /// Adds notes.
    pub fn write(&mut self, event: &MemosWritten, seq: Seq, at: Timestamp) {
        self.add_all(event, seq, at, true);
    }

    /// Adds notes that are derived from other events: they have no ids.
    pub fn learn(&mut self, event: &MemosWritten, seq: Seq, at: Timestamp) {
        self.add_all(event, seq, at, false);
    }

    fn add_all(&mut self, event: &MemosWritten, seq: Seq, at: Timestamp, named: bool) {
        for Written {
            memo,
            call,
            corrects,
        } in &event.memos
        {
            let new_note = NewNote {
                event,
                seq,
                at,
                call: call.clone(),
                corrects: *corrects,
                named,
            };
            match memo.clone() {
                Memo::Decision(decision) => self.decisions.add(decision, &new_note),
                Memo::Error(trouble) => self.errors.add(trouble, &new_note),
                Memo::Feedback(feedback) => self.feedback.add(feedback, &new_note),
                Memo::Todo(todo) => self.todos.add(todo, &new_note),
                Memo::Todos(list) => self.list = Some(new_note.kept(None, list)),
                Memo::Files(files) => self.add_files(files.paths),
                Memo::Tests(mut tests) => {
                    // A plain test run says nothing about which tests are expected to fail.
                    if tests.expected.is_none() {
                        let before = self.tests.take();
                        tests.expected = before.and_then(|before| before.memo.expected);
                    }
                    self.tests = Some(new_note.kept(None, tests));
                }
            }
        }
        self.read_to = self.read_to.max(event.read_to);
    }

    /// Marks a note as withdrawn. Does nothing if the note is no longer held in memory.
    pub fn withdraw(&mut self, event: &MemoWithdrawn) {
        let reason = event.reason.as_deref().unwrap_or_default();
        let why = format!("{}: {reason}", event.by);
        let why = why.trim_end_matches(": ").to_owned();
        let number = event.memo.number;
        let withdrawn = match event.memo.sort {
            Sort::Decision => self.decisions.find(number).map(|kept| &mut kept.withdrawn),
            Sort::Error => self.errors.find(number).map(|kept| &mut kept.withdrawn),
            Sort::Feedback => self.feedback.find(number).map(|kept| &mut kept.withdrawn),
            Sort::Todo => self.todos.find(number).map(|kept| &mut kept.withdrawn),
        };
        if let Some(withdrawn) = withdrawn {
            *withdrawn = Some(why);
        }
    }

    /// The subjects of unresolved errors that `source` reported.
    pub fn in_the_way(&self, source: Source) -> impl Iterator<Item = &str> {
        let open = self.errors.standing();
        let open = open.filter(move |kept| kept.source == source && !kept.memo.is_settled());
        open.filter_map(|kept| kept.memo.subject.as_deref())
    }

    /// Adds the error of a step that failed permanently. It is unresolved until the step finishes.
    pub fn fail(&mut self, event: &StepFailed, seq: Seq, at: Timestamp) {
        let (sort, text) = (event.error.kind.clone(), event.error.message.clone());
        self.add_step_error(&event.path, sort, text, Resolution::Unresolved, seq, at);
    }

    /// Marks the errors of a step as fixed, if it had failed permanently before.
    pub fn finish(&mut self, event: &StepFinished, seq: Seq, at: Timestamp) {
        let failed = self.errors_of(&event.path).next();
        if let Some(Trouble { sort, text, .. }) = failed.cloned() {
            self.add_step_error(&event.path, sort, text, Resolution::Fixed, seq, at);
        }
    }

    /// Unresolved errors of a step.
    pub fn errors_of(&self, path: &Path) -> impl Iterator<Item = &Trouble> {
        let subject = subject(path);
        let open = self.errors.standing().map(|kept| &kept.memo);
        open.filter(move |trouble| {
            !trouble.is_settled() && trouble.subject.as_deref() == Some(&subject)
        })
    }

    fn add_step_error(
        &mut self,
        path: &Path,
        sort: String,
        text: String,
        resolution: Resolution,
        seq: Seq,
        at: Timestamp,
    ) {
        let trouble = Memo::Error(Trouble {
            sort,
            text,
            subject: Some(subject(path)),
            resolution,
            notes: None,
        });
        let event = MemosWritten {
            source: Source::Driver,
            by: "segno".to_owned(),
            path: Some(path.clone()),
            memos: vec![trouble.bounded().into()],
            read_to: None,
            usage: Usage::default(),
        };
        self.learn(&event, seq, at);
    }

    /// Whether there are no notes.
    pub fn is_empty(&self) -> bool {
        *self
            == Self {
                read_to: self.read_to,
                ..Self::default()
            }
    }

    fn add_files(&mut self, paths: Vec<String>) {
        for path in paths {
            self.files.retain(|known| *known != path);
            self.files.push(path);
        }
        let over = self.files.len().saturating_sub(MAX_FILES);
        self.files.drain(..over);
        self.earlier_files += over as u64;
    }
}

impl<T: Item> Shelf<T> {
    fn add(&mut self, memo: T, new_note: &NewNote<'_>) {
        if let Some(corrected) = new_note.corrects
            && corrected.sort == T::SORT
            && let Some(kept) = self.find(corrected.number)
        {
            *kept = Kept {
                corrected: true,
                ..new_note.kept(kept.id, memo)
            };
            return;
        }
        let mut standing = self.kept.iter_mut().rev();
        let standing = standing.find(|kept| {
            kept.withdrawn.is_none() && (kept.memo == memo || kept.memo.is_followed_by(&memo))
        });
        // A note of a user takes precedence over what any other source reports.
        if let Some(kept) = standing {
            if kept.source >= new_note.event.source && kept.memo != memo {
                let corrected = kept.corrected;
                *kept = Kept {
                    corrected,
                    ..new_note.kept(kept.id, memo)
                };
            }
            return;
        }
        self.count += 1;
        self.last += u64::from(new_note.named);
        let id = new_note.named.then_some(MemoId {
            sort: T::SORT,
            number: self.last,
        });
        self.kept.push(new_note.kept(id, memo));
        if self.kept.len() > MAX_NOTES {
            let mut settled = self.kept.iter();
            let settled = settled.position(|kept| kept.memo.is_settled());
            self.kept.remove(settled.unwrap_or(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memo::Matter;

    fn written(source: Source, memos: Vec<Written>) -> MemosWritten {
        MemosWritten {
            source,
            by: "someone".into(),
            path: None,
            memos,
            read_to: None,
            usage: Usage::default(),
        }
    }

    fn decision(text: &str) -> Memo {
        Memo::Decision(Decision {
            matter: Matter::Approach,
            text: text.into(),
            why: None,
            alternatives: Vec::new(),
        })
    }

    fn error(subject: &str, text: &str, resolution: Resolution) -> Memo {
        Memo::Error(Trouble {
            sort: "build".into(),
            text: text.into(),
            subject: Some(subject.into()),
            resolution,
            notes: None,
        })
    }

    fn add(handoff: &mut Handoff, source: Source, memos: Vec<Memo>) {
        let memos = memos.into_iter().map(Written::from).collect();
        handoff.write(&written(source, memos), Seq(7), Timestamp(1));
    }

    #[test]
    fn repeated_notes_are_merged_and_keep_their_ids() {
        let mut handoff = Handoff::default();
        add(
            &mut handoff,
            Source::Agent,
            vec![decision("a"), decision("b")],
        );
        add(
            &mut handoff,
            Source::Model,
            vec![decision("a"), decision("c")],
        );
        let named = handoff.decisions.kept.iter();
        let named: Vec<_> = named
            .map(|kept| (kept.id.unwrap().to_string(), kept.memo.text.clone()))
            .collect();
        assert_eq!(
            named,
            [("d1", "a"), ("d2", "b"), ("d3", "c")]
                .map(|(id, text)| (id.to_owned(), text.to_owned()))
        );
        assert_eq!(handoff.decisions.kept[0].source, Source::Agent);
    }

    #[test]
    fn later_note_updates_the_same_subject() {
        let mut handoff = Handoff::default();
        let failed = error("make", "no such file", Resolution::Unresolved);
        add(&mut handoff, Source::Rule, vec![failed]);
        assert_eq!(
            handoff.in_the_way(Source::Rule).collect::<Vec<_>>(),
            ["make"]
        );
        let again = error("make", "syntax error", Resolution::Unresolved);
        add(&mut handoff, Source::Rule, vec![again]);
        add(
            &mut handoff,
            Source::Rule,
            vec![error("make", "syntax error", Resolution::Fixed)],
        );
        assert_eq!(handoff.errors.count, 1);
        assert_eq!(handoff.errors.kept[0].memo.resolution, Resolution::Fixed);
        // The next failure is a new error.
        add(
            &mut handoff,
            Source::Rule,
            vec![error("make", "again", Resolution::Unresolved)],
        );
        assert_eq!(handoff.errors.count, 2);
    }

    #[test]
    fn user_correction_outranks_a_rule() {
        let mut handoff = Handoff::default();
        let failed = error("make", "no such file", Resolution::Unresolved);
        add(&mut handoff, Source::Rule, vec![failed]);
        let correction = Written {
            corrects: Some("e1".parse().unwrap()),
            ..error("make", "it is the disk", Resolution::Unresolved).into()
        };
        handoff.write(
            &written(Source::Person, vec![correction]),
            Seq(8),
            Timestamp(2),
        );
        add(
            &mut handoff,
            Source::Rule,
            vec![error("make", "gone", Resolution::Fixed)],
        );
        let kept = &handoff.errors.kept[0];
        assert_eq!(
            (kept.memo.text.as_str(), kept.corrected),
            ("it is the disk", true)
        );
        assert_eq!(handoff.errors.count, 1);
    }

    #[test]
    fn withdrawn_note_is_hidden_and_keeps_its_id() {
        let mut handoff = Handoff::default();
        add(
            &mut handoff,
            Source::Agent,
            vec![decision("a"), decision("b")],
        );
        let withdrawn = MemoWithdrawn {
            memo: "d1".parse().unwrap(),
            by: "me".into(),
            reason: Some("wrong".into()),
        };
        handoff.withdraw(&withdrawn);
        let standing: Vec<_> = handoff
            .decisions
            .standing()
            .map(|kept| &kept.memo.text)
            .collect();
        assert_eq!(standing, ["b"]);
        assert_eq!(
            handoff.decisions.kept[0].withdrawn.as_deref(),
            Some("me: wrong")
        );
    }

    #[test]
    fn handoff_is_bounded_and_keeps_unresolved_errors() {
        let mut handoff = Handoff::default();
        add(
            &mut handoff,
            Source::Rule,
            vec![error("first", "x", Resolution::Unresolved)],
        );
        for n in 0..1000 {
            let memo = error(&n.to_string(), "x", Resolution::Fixed);
            add(
                &mut handoff,
                Source::Rule,
                vec![memo, decision(&n.to_string())],
            );
            let paths = vec![n.to_string()];
            add(
                &mut handoff,
                Source::Rule,
                vec![Memo::Files(super::super::Files { paths })],
            );
        }
        assert_eq!(handoff.errors.kept.len(), MAX_NOTES);
        assert_eq!(handoff.errors.count, 1001);
        assert_eq!(
            handoff.errors.kept[0].memo.subject.as_deref(),
            Some("first")
        );
        assert_eq!(handoff.decisions.kept.len(), MAX_NOTES);
        assert_eq!(handoff.files.last().map(String::as_str), Some("999"));
        assert_eq!(
            (handoff.files.len(), handoff.earlier_files),
            (MAX_FILES, 800)
        );
    }
}
