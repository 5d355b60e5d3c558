use super::*;
use crate::note::DecisionType;
use crate::note::Progress::{Done, Pending};
use crate::note::Resolution::{Fixed, Unresolved};

fn written(source: Source, notes: Vec<WrittenNote>) -> NotesWritten {
    NotesWritten {
        source,
        by: "someone".into(),
        path: None,
        notes,
        read_to: None,
        usage: Usage::default(),
    }
}

fn decision(text: &str) -> Note {
    Note::Decision(Decision {
        decision_type: DecisionType::Approach,
        text: text.into(),
        why: None,
        alternatives: Vec::new(),
    })
}

fn error(subject: &str, text: &str, resolution: Resolution) -> Note {
    Note::Error(ErrorNote {
        kind: "build".into(),
        text: text.into(),
        subject: Some(subject.into()),
        resolution,
        notes: None,
    })
}

fn add(handoff: &mut Handoff, source: Source, notes: Vec<Note>) {
    let notes = notes.into_iter().map(WrittenNote::from).collect();
    handoff.add(&written(source, notes), Seq(7), Timestamp(1));
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
    let named = handoff.decisions.notes.iter();
    let named: Vec<_> = named
        .map(|kept| (kept.id.unwrap().to_string(), kept.note.text.clone()))
        .collect();
    assert_eq!(
        named,
        [("d1", "a"), ("d2", "b"), ("d3", "c")].map(|(id, text)| (id.to_owned(), text.to_owned()))
    );
    assert_eq!(handoff.decisions.notes[0].source, Source::Agent);
}

#[test]
fn later_note_updates_the_same_subject() {
    let mut handoff = Handoff::default();
    let failed = error("make", "no such file", Resolution::Unresolved);
    add(&mut handoff, Source::Rule, vec![failed]);
    assert_eq!(
        handoff
            .unresolved_subjects(Source::Rule)
            .collect::<Vec<_>>(),
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
    assert_eq!(handoff.errors.notes[0].note.resolution, Resolution::Fixed);
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
    let correction = WrittenNote {
        corrects: Some("e1".parse().unwrap()),
        ..error("make", "it is the disk", Resolution::Unresolved).into()
    };
    handoff.add(
        &written(Source::User, vec![correction]),
        Seq(8),
        Timestamp(2),
    );
    add(
        &mut handoff,
        Source::Rule,
        vec![error("make", "gone", Resolution::Fixed)],
    );
    let kept = &handoff.errors.notes[0];
    assert_eq!(
        (kept.note.text.as_str(), kept.corrected),
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
    let withdrawn = NoteWithdrawn {
        note: "d1".parse().unwrap(),
        by: "me".into(),
        reason: Some("wrong".into()),
    };
    handoff.withdraw(&withdrawn);
    let standing: Vec<_> = handoff
        .decisions
        .active()
        .map(|kept| &kept.note.text)
        .collect();
    assert_eq!(standing, ["b"]);
    assert_eq!(
        handoff.decisions.notes[0].withdrawn.as_deref(),
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
        let note = error(&n.to_string(), "x", Resolution::Fixed);
        add(
            &mut handoff,
            Source::Rule,
            vec![note, decision(&n.to_string())],
        );
        let paths = vec![n.to_string()];
        add(
            &mut handoff,
            Source::Rule,
            vec![Note::Files(crate::note::Files { paths })],
        );
    }
    assert_eq!(handoff.errors.notes.len(), MAX_NOTES);
    assert_eq!(handoff.errors.count, 1001);
    assert_eq!(
        handoff.errors.notes[0].note.subject.as_deref(),
        Some("first")
    );
    assert_eq!(handoff.decisions.notes.len(), MAX_NOTES);
    assert_eq!(handoff.files.last().map(String::as_str), Some("999"));
    assert_eq!(
        (handoff.files.len(), handoff.earlier_files),
        (MAX_FILES, 800)
    );
}

fn todo(text: &str, progress: Progress) -> Note {
    Note::Todo(Todo {
        text: text.into(),
        progress,
    })
}

fn feedback(approved: bool, addressed: bool) -> Note {
    Note::Feedback(Feedback {
        persona: "critic".into(),
        approved,
        severity: crate::note::Severity::Minor,
        comments: Vec::new(),
        addressed,
    })
}

#[test]
fn resolved_notes_need_no_action() {
    let is_resolved = |note: Note| {
        let mut handoff = Handoff::default();
        add(&mut handoff, Source::Agent, vec![note]);
        let all = [
            handoff.errors.notes.first().map(|it| it.note.is_resolved()),
            handoff
                .feedback
                .notes
                .first()
                .map(|it| it.note.is_resolved()),
            handoff.todos.notes.first().map(|it| it.note.is_resolved()),
            handoff
                .decisions
                .notes
                .first()
                .map(|it| it.note.is_resolved()),
        ];
        all.into_iter().flatten().collect::<Vec<_>>()
    };
    for (note, expected) in [
        (decision("a"), true),
        (error("make", "x", Resolution::Unresolved), false),
        (error("make", "x", Resolution::Fixed), true),
        (error("make", "x", Resolution::Workaround), true),
        (feedback(false, false), false),
        (feedback(true, false), true),
        (feedback(false, true), true),
        (todo("a", Progress::Pending), false),
        (todo("a", Progress::InProgress), false),
        (todo("a", Progress::Done), true),
        (todo("a", Progress::Dropped), true),
    ] {
        assert_eq!(is_resolved(note.clone()), [expected], "{note:?}");
    }
}

#[test]
fn note_updates_an_open_one_of_the_same_subject_only() {
    let counts = |first: Note, second: Note| {
        let mut handoff = Handoff::default();
        add(&mut handoff, Source::Agent, vec![first, second]);
        let counts = [
            handoff.errors.count,
            handoff.feedback.count,
            handoff.todos.count,
            handoff.decisions.count,
        ];
        counts.into_iter().sum::<u64>()
    };
    let unnamed = |text: &str| {
        Note::Error(ErrorNote {
            kind: "build".into(),
            text: text.into(),
            subject: None,
            resolution: Resolution::Unresolved,
            notes: None,
        })
    };
    for (first, second, count) in [
        (
            error("make", "x", Unresolved),
            error("make", "y", Unresolved),
            1,
        ),
        (
            error("make", "x", Unresolved),
            error("test", "x", Unresolved),
            2,
        ),
        (error("make", "x", Fixed), error("make", "y", Unresolved), 2),
        (unnamed("x"), unnamed("y"), 2),
        (unnamed("x"), unnamed("x"), 1),
        (todo("a", Pending), todo("a", Done), 1),
        (todo("a", Done), todo("a", Pending), 2),
        (todo("a", Pending), todo("b", Pending), 2),
        (decision("a"), decision("b"), 2),
        (feedback(false, false), feedback(true, false), 2),
    ] {
        assert_eq!(
            counts(first.clone(), second.clone()),
            count,
            "{first:?} {second:?}"
        );
    }
}

#[test]
fn updated_note_keeps_its_id_and_who_corrected_it() {
    let mut handoff = Handoff::default();
    let failed = |text: &str| error("make", text, Resolution::Unresolved);
    add(&mut handoff, Source::Rule, vec![failed("a")]);
    // A model is trusted less than a rule, a user more.
    add(&mut handoff, Source::Model, vec![failed("b")]);
    assert_eq!(handoff.errors.notes[0].note.text, "a");
    add(&mut handoff, Source::Agent, vec![failed("c")]);
    let kept = &handoff.errors.notes[0];
    assert_eq!((kept.note.text.as_str(), kept.source), ("c", Source::Agent));
    assert_eq!((kept.id, kept.corrected), ("e1".parse().ok(), false));
    let correction = |of: &str, note: Note| WrittenNote {
        corrects: Some(of.parse().unwrap()),
        ..note.into()
    };
    let corrected = vec![correction("e1", failed("d"))];
    handoff.add(&written(Source::User, corrected), Seq(8), Timestamp(2));
    add(&mut handoff, Source::User, vec![failed("e")]);
    let kept = &handoff.errors.notes[0];
    assert_eq!((kept.note.text.as_str(), kept.corrected), ("e", true));
    // A correction of another kind of note, or of an unknown one, is a new note.
    for (of, count) in [("d1", 1), ("t1", 2), ("d9", 3)] {
        let other = correction(of, decision(of));
        handoff.add(&written(Source::User, vec![other]), Seq(9), Timestamp(3));
        assert_eq!(handoff.decisions.count, count, "{of}");
    }
    assert!(handoff.decisions.notes.iter().all(|kept| !kept.corrected));
    assert_eq!(handoff.errors.count, 1);
}

#[test]
fn repeated_note_stays_as_it_was() {
    let mut handoff = Handoff::default();
    add(&mut handoff, Source::Rule, vec![decision("a")]);
    handoff.add(
        &written(Source::User, vec![decision("a").into()]),
        Seq(8),
        Timestamp(2),
    );
    let kept = &handoff.decisions.notes[0];
    assert_eq!((kept.seq, kept.source), (Seq(7), Source::Rule));
    // A withdrawn note is not repeated but new.
    handoff.withdraw(&NoteWithdrawn {
        note: "d1".parse().unwrap(),
        by: "me".into(),
        reason: None,
    });
    assert_eq!(handoff.decisions.notes[0].withdrawn.as_deref(), Some("me"));
    add(&mut handoff, Source::Rule, vec![decision("a")]);
    let ids: Vec<_> = handoff.decisions.notes.iter().map(|it| it.id).collect();
    assert_eq!(ids, ["d1".parse().ok(), "d2".parse().ok()]);
}

#[test]
fn withdrawal_hides_one_note_of_its_kind() {
    let mut handoff = Handoff::default();
    let notes = vec![
        decision("a"),
        error("make", "x", Resolution::Unresolved),
        feedback(false, false),
        todo("a", Progress::Pending),
        todo("b", Progress::Pending),
    ];
    add(&mut handoff, Source::Agent, notes);
    let mut withdraw = |note: &str| {
        handoff.withdraw(&NoteWithdrawn {
            note: note.parse().unwrap(),
            by: "me".into(),
            reason: None,
        });
        [
            handoff.decisions.active().count(),
            handoff.errors.active().count(),
            handoff.feedback.active().count(),
            handoff.todos.active().count(),
        ]
    };
    assert_eq!(withdraw("t2"), [1, 1, 1, 1]);
    assert_eq!(withdraw("t9"), [1, 1, 1, 1]);
    assert_eq!(withdraw("e1"), [1, 0, 1, 1]);
    assert_eq!(withdraw("f1"), [1, 0, 0, 1]);
    assert_eq!(withdraw("d1"), [0, 0, 0, 1]);
    assert_eq!(withdraw("t1"), [0, 0, 0, 0]);
}

#[test]
fn unresolved_subjects_are_those_of_one_source() {
    let mut handoff = Handoff::default();
    add(
        &mut handoff,
        Source::Rule,
        vec![
            error("open", "x", Resolution::Unresolved),
            error("fixed", "x", Resolution::Fixed),
        ],
    );
    let other = error("other", "x", Resolution::Unresolved);
    add(&mut handoff, Source::Agent, vec![other]);
    let subjects: Vec<_> = handoff.unresolved_subjects(Source::Rule).collect();
    assert_eq!(subjects, ["open"]);
}

#[test]
fn errors_of_a_step_are_told_apart_by_its_path() {
    let failed = |path: &str| StepFailed {
        path: Path::new(path).unwrap(),
        revision: 0,
        attempt: 1,
        error: crate::journal::Failure {
            kind: "auth".into(),
            message: path.into(),
        },
        usage: Usage::default(),
        retry_in_ms: None,
        suspended: None,
    };
    let mut handoff = Handoff::default();
    handoff.add_step_failure(&failed("steps/0"), Seq(4), Timestamp(5));
    handoff.add_step_failure(&failed("steps/1"), Seq(6), Timestamp(7));
    let texts = |handoff: &Handoff, path: &str| {
        let path = Path::new(path).unwrap();
        let errors = handoff.step_errors(&path).map(|error| error.text.clone());
        errors.collect::<Vec<_>>()
    };
    assert_eq!(texts(&handoff, "steps/0"), ["steps/0"]);
    assert_eq!(texts(&handoff, "steps/1"), ["steps/1"]);
    assert_eq!(texts(&handoff, "steps/2"), Vec::<String>::new());
    let kept = &handoff.errors.notes[0];
    // Derived from another event: without an id, and counted without a number.
    assert_eq!((kept.id, kept.seq, kept.at), (None, Seq(4), Timestamp(5)));
    assert_eq!(kept.note.subject.as_deref(), Some("step steps/0"));
    assert_eq!((handoff.errors.count, handoff.errors.last), (2, 0));
    let finished = StepFinished {
        path: Path::new("steps/0").unwrap(),
        revision: 0,
        attempt: 2,
        output: crate::journal::Text::Inline(String::new()),
        usage: Usage::default(),
        elapsed_ms: 1,
        context: None,
    };
    handoff.resolve_step_errors(&finished, Seq(8), Timestamp(9));
    assert_eq!(texts(&handoff, "steps/0"), Vec::<String>::new());
    assert_eq!(texts(&handoff, "steps/1"), ["steps/1"]);
    assert_eq!(handoff.errors.notes[0].note.resolution, Resolution::Fixed);
}

#[test]
fn only_read_events_do_not_count_as_notes() {
    let mut handoff = Handoff::default();
    assert!(handoff.is_empty());
    let mut event = written(Source::Model, Vec::new());
    event.read_to = Some(Seq(9));
    handoff.add(&event, Seq(10), Timestamp(1));
    assert_eq!((handoff.read_to, handoff.is_empty()), (Some(Seq(9)), true));
    add(&mut handoff, Source::Rule, vec![decision("a")]);
    assert!(!handoff.is_empty());
}

#[test]
fn newest_write_of_a_file_counts() {
    let mut handoff = Handoff::default();
    let mut write = |paths: &[&str]| {
        let paths = paths.iter().map(|&path| path.to_owned()).collect();
        let files = Note::Files(crate::note::Files { paths });
        add(&mut handoff, Source::Rule, vec![files]);
        handoff.files.clone()
    };
    assert_eq!(write(&["a", "b"]), ["a", "b"]);
    assert_eq!(write(&["a", "c"]), ["b", "a", "c"]);
}

#[test]
fn expected_failures_outlive_a_plain_test_run() {
    let mut handoff = Handoff::default();
    let mut run = |expected: Option<&[&str]>| {
        let names = |list: &[&str]| list.iter().map(|&name| name.to_owned()).collect();
        let tests = Note::Tests(Tests {
            phase: crate::note::Phase::Red,
            command: "make test".into(),
            failing: Vec::new(),
            expected: expected.map(names),
            passed: None,
            failed: None,
            summary: String::new(),
        });
        add(&mut handoff, Source::Rule, vec![tests]);
        handoff.tests.clone().unwrap().note.expected
    };
    assert_eq!(run(None), None);
    assert_eq!(run(Some(&["a"])), Some(vec!["a".to_owned()]));
    assert_eq!(run(None), Some(vec!["a".to_owned()]));
    assert_eq!(run(Some(&[])), Some(Vec::new()));
}
