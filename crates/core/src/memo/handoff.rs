//! What the memos of a session add up to.

use serde::{Deserialize, Serialize};

use super::{
    Decision, Feedback, Memo, MemoId, Progress, Resolution, Sort, Source, Tests, Todo, Todos,
    Trouble, Written,
};
use crate::journal::{MemoWithdrawn, MemosWritten, Seq, StepFailed, StepFinished};
use crate::step::Path;
use crate::time::Timestamp;
use crate::usage::Usage;

/// How many memos of a sort are at hand. Older ones stay in the journal.
const AT_HAND: usize = 200;

/// How many files are named.
const NAMED: usize = 200;

/// What the memos of a session add up to. It stays small however long the session goes on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handoff {
    /// What was decided.
    pub decisions: Shelf<Decision>,
    /// What went wrong.
    pub errors: Shelf<Trouble>,
    /// What reviewers said.
    pub feedback: Shelf<Feedback>,
    /// Single things to do.
    pub todos: Shelf<Todo>,
    /// The newest list that an agent kept for itself.
    pub list: Option<Kept<Todos>>,
    /// How the tests stood when they were last run.
    pub tests: Option<Kept<Tests>>,
    /// The files that were written last, newest last.
    pub files: Vec<String>,
    /// How many others were written before.
    pub earlier_files: u64,
    /// Up to where a model has read what was said.
    pub read_to: Option<Seq>,
}

/// Memos of one sort, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shelf<T> {
    /// Those at hand.
    pub kept: Vec<Kept<T>>,
    /// How many there were in all.
    pub count: u64,
    /// The number of the last one that has a name.
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
    /// Those that hold, oldest first.
    pub fn standing(&self) -> impl DoubleEndedIterator<Item = &Kept<T>> {
        self.kept.iter().filter(|kept| kept.withdrawn.is_none())
    }

    fn find(&mut self, number: u64) -> Option<&mut Kept<T>> {
        let known = |kept: &&mut Kept<T>| kept.id.is_some_and(|id| id.number == number);
        self.kept.iter_mut().find(known)
    }
}

/// A memo, and what is known about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept<T> {
    /// Its name; what follows from other entries, and what only the newest counts of, has none.
    pub id: Option<MemoId>,
    /// When it was written or last corrected.
    pub at: Timestamp,
    /// By what sort of writer.
    pub source: Source,
    /// By whom.
    pub by: String,
    /// The step that it is about.
    pub path: Option<Path>,
    /// The entry of the journal that it stands in.
    pub seq: Seq,
    /// The tool call that it was learnt from.
    pub call: Option<String>,
    /// Whether it was corrected.
    pub corrected: bool,
    /// Why it no longer holds, if it does not.
    pub withdrawn: Option<String>,
    /// What it says.
    pub memo: T,
}

/// What can be on a shelf.
pub trait Item: PartialEq + Sized {
    /// Its sort.
    const SORT: Sort;

    /// Whether nobody has to do anything about it.
    fn is_settled(&self) -> bool;

    /// Whether `other` is about the same, and says how that stands now.
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

/// What the failure of a step is about.
fn subject(path: &Path) -> String {
    format!("step {path}")
}

/// A memo on its way in, with what is known about all that came with it.
struct Arriving<'a> {
    event: &'a MemosWritten,
    seq: Seq,
    at: Timestamp,
    call: Option<String>,
    corrects: Option<MemoId>,
    /// Whether it gets a name. What follows from another entry has none: names would not be the same in
    /// a copy of the session that lacks this entry.
    named: bool,
}

impl Arriving<'_> {
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
    /// Takes memos in.
    pub fn write(&mut self, event: &MemosWritten, seq: Seq, at: Timestamp) {
        self.take(event, seq, at, true);
    }

    /// Takes in what follows from other entries: it has no names.
    pub fn learn(&mut self, event: &MemosWritten, seq: Seq, at: Timestamp) {
        self.take(event, seq, at, false);
    }

    fn take(&mut self, event: &MemosWritten, seq: Seq, at: Timestamp, named: bool) {
        for Written {
            memo,
            call,
            corrects,
        } in &event.memos
        {
            let arriving = Arriving {
                event,
                seq,
                at,
                call: call.clone(),
                corrects: *corrects,
                named,
            };
            match memo.clone() {
                Memo::Decision(decision) => self.decisions.take(decision, &arriving),
                Memo::Error(trouble) => self.errors.take(trouble, &arriving),
                Memo::Feedback(feedback) => self.feedback.take(feedback, &arriving),
                Memo::Todo(todo) => self.todos.take(todo, &arriving),
                Memo::Todos(list) => self.list = Some(arriving.kept(None, list)),
                Memo::Files(files) => self.name(files.paths),
                Memo::Tests(mut tests) => {
                    // Who only ran them says nothing about which are meant to fail.
                    if tests.expected.is_none() {
                        let before = self.tests.take();
                        tests.expected = before.and_then(|before| before.memo.expected);
                    }
                    self.tests = Some(arriving.kept(None, tests));
                }
            }
        }
        self.read_to = self.read_to.max(event.read_to);
    }

    /// Takes in that a memo no longer holds. One that is not at hand is not missed.
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

    /// The subjects of errors that stand in the way, as a source that is no person told them.
    pub fn in_the_way(&self, source: Source) -> impl Iterator<Item = &str> {
        let open = self.errors.standing();
        let open = open.filter(move |kept| kept.source == source && !kept.memo.is_settled());
        open.filter_map(|kept| kept.memo.subject.as_deref())
    }

    /// A step failed for good. It stands in the way until the step is done.
    pub fn fail(&mut self, event: &StepFailed, seq: Seq, at: Timestamp) {
        let (sort, text) = (event.error.kind.clone(), event.error.message.clone());
        self.tell(&event.path, sort, text, Resolution::Unresolved, seq, at);
    }

    /// A step is done that had failed for good before.
    pub fn finish(&mut self, event: &StepFinished, seq: Seq, at: Timestamp) {
        let failed = self.errors_of(&event.path).next();
        if let Some(Trouble { sort, text, .. }) = failed.cloned() {
            self.tell(&event.path, sort, text, Resolution::Fixed, seq, at);
        }
    }

    /// Failures of a step that stand in the way.
    pub fn errors_of(&self, path: &Path) -> impl Iterator<Item = &Trouble> {
        let subject = subject(path);
        let open = self.errors.standing().map(|kept| &kept.memo);
        open.filter(move |trouble| {
            !trouble.is_settled() && trouble.subject.as_deref() == Some(&subject)
        })
    }

    fn tell(
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
        let told = MemosWritten {
            source: Source::Driver,
            by: "segno".to_owned(),
            path: Some(path.clone()),
            memos: vec![trouble.bounded().into()],
            read_to: None,
            usage: Usage::default(),
        };
        self.learn(&told, seq, at);
    }

    /// Whether nothing is there.
    pub fn is_empty(&self) -> bool {
        *self
            == Self {
                read_to: self.read_to,
                ..Self::default()
            }
    }

    fn name(&mut self, paths: Vec<String>) {
        for path in paths {
            self.files.retain(|known| *known != path);
            self.files.push(path);
        }
        let over = self.files.len().saturating_sub(NAMED);
        self.files.drain(..over);
        self.earlier_files += over as u64;
    }
}

impl<T: Item> Shelf<T> {
    fn take(&mut self, memo: T, arriving: &Arriving<'_>) {
        if let Some(corrected) = arriving.corrects
            && corrected.sort == T::SORT
            && let Some(kept) = self.find(corrected.number)
        {
            *kept = Kept {
                corrected: true,
                ..arriving.kept(kept.id, memo)
            };
            return;
        }
        let mut standing = self.kept.iter_mut().rev();
        let standing = standing.find(|kept| {
            kept.withdrawn.is_none() && (kept.memo == memo || kept.memo.is_followed_by(&memo))
        });
        // What a person said stands against what anyone else sees.
        if let Some(kept) = standing {
            if kept.source >= arriving.event.source && kept.memo != memo {
                let corrected = kept.corrected;
                *kept = Kept {
                    corrected,
                    ..arriving.kept(kept.id, memo)
                };
            }
            return;
        }
        self.count += 1;
        self.last += u64::from(arriving.named);
        let id = arriving.named.then_some(MemoId {
            sort: T::SORT,
            number: self.last,
        });
        self.kept.push(arriving.kept(id, memo));
        if self.kept.len() > AT_HAND {
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
    fn what_is_said_twice_is_kept_once_and_numbers_do_not_change() {
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
    fn a_later_word_about_the_same_subject_says_how_it_stands() {
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
        // The next failure is another one.
        add(
            &mut handoff,
            Source::Rule,
            vec![error("make", "again", Resolution::Unresolved)],
        );
        assert_eq!(handoff.errors.count, 2);
    }

    #[test]
    fn a_correction_of_a_person_holds_against_what_a_rule_sees() {
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
    fn what_is_withdrawn_does_not_stand_and_keeps_its_name() {
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
    fn it_stays_small_and_what_stands_in_the_way_stays_longest() {
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
        assert_eq!(handoff.errors.kept.len(), AT_HAND);
        assert_eq!(handoff.errors.count, 1001);
        assert_eq!(
            handoff.errors.kept[0].memo.subject.as_deref(),
            Some("first")
        );
        assert_eq!(handoff.decisions.kept.len(), AT_HAND);
        assert_eq!(handoff.files.last().map(String::as_str), Some("999"));
        assert_eq!((handoff.files.len(), handoff.earlier_files), (NAMED, 800));
    }
}
