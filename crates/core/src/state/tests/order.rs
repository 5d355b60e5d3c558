//! Which events may follow which.

use serde_json::json;

use super::*;
use crate::journal::{NoteWithdrawn, NotesWritten};
use crate::note::{Note, Progress, Source, Todo};

/// Whether `next` may follow these events.
fn follows(events: &[(u64, i64, Event)], run: u64, next: Event) -> Result<(), String> {
    let mut events = events.to_vec();
    fold(&events).unwrap();
    events.push((run, 20, next));
    fold(&events).map(|_| ()).map_err(|error| error.reason)
}

fn ended(status: &str) -> Event {
    event("run_ended", &json!({"status": status}))
}

fn lost(run: u64) -> Event {
    event("run_lost", &json!({"lost": run}))
}

fn noted() -> Event {
    let todo = Todo {
        text: "x".into(),
        progress: Progress::Pending,
    };
    NotesWritten {
        source: Source::User,
        by: "me".into(),
        path: None,
        notes: vec![Note::Todo(todo).into()],
        read_to: None,
        usage: Usage::default(),
    }
    .into()
}

fn paused(path: &str) -> Event {
    let body = json!({"path": path, "revision": 0, "attempt": 1});
    event("step_paused", &body)
}

/// A session whose first run has ended.
fn over(status: &str) -> Vec<(u64, i64, Event)> {
    let mut events = started_session();
    events.push((1, 15, ended(status)));
    events
}

#[test]
fn only_the_first_event_creates_the_session() {
    let created = started_session().remove(0).2;
    for (events, next) in [
        (vec![], started_run()),
        (vec![], paused("steps/0")),
        (started_session(), created.clone()),
    ] {
        let reason = follows(&events, 1, next).unwrap_err();
        assert_eq!(reason, "only the first event creates the session");
    }
    assert_eq!(follows(&[], 1, created), Ok(()));
}

#[test]
fn event_of_another_run_is_refused() {
    let running = started_session();
    for run in [0, 2] {
        let reason = follows(&running, run, paused("steps/0")).unwrap_err();
        let expected = format!("the event is of run {run}, the current run is 1");
        assert_eq!(reason, expected);
    }
    assert_eq!(follows(&running, 1, paused("steps/0")), Ok(()));
}

#[test]
fn notes_belong_to_the_run_or_to_a_later_one() {
    assert_eq!(follows(&started_session(), 1, noted()), Ok(()));
    assert_eq!(follows(&started_session(), 2, noted()), Ok(()));
    assert!(follows(&started_session(), 0, noted()).is_err());
    let empty = json!({"text": "", "by": "me"});
    let edited = event("brief_edited", &empty);
    assert_eq!(follows(&over("paused"), 2, edited), Ok(()));
    let withdrawn = NoteWithdrawn {
        note: "t1".parse().unwrap(),
        by: "me".into(),
        reason: None,
    };
    assert_eq!(follows(&over("paused"), 2, withdrawn.into()), Ok(()));
}

#[test]
fn agent_state_changes_in_runs_and_between_them() {
    let body = json!({"agent": "a", "key": "k", "value": 1, "source": "person", "by": "me"});
    let set = event("agent_state_changed", &body);
    assert_eq!(follows(&started_session(), 1, set.clone()), Ok(()));
    assert!(follows(&started_session(), 0, set.clone()).is_err());
    let mut events = over("paused");
    events.push((2, 16, set));
    let deleted = json!({"agent": "a", "key": "other", "source": "agent", "by": "a"});
    events.push((3, 17, event("agent_state_changed", &deleted)));
    let state = fold(&events).unwrap();
    assert_eq!((state.run, state.status), (Run(3), Status::Paused));
    let values: Vec<_> = state.agent_states.iter().collect();
    assert_eq!((values.len(), &values[0].2.value), (1, &json!(1)));
    // The session can be resumed under a later run.
    assert_eq!(follows(&events, 4, started_run()), Ok(()));
}

#[test]
fn run_starts_only_later_in_a_resumable_session() {
    // A run that is still marked as active may have been lost.
    assert_eq!(follows(&started_session(), 2, started_run()), Ok(()));
    assert_eq!(follows(&over("paused"), 2, started_run()), Ok(()));
    for (events, run) in [
        (started_session(), 1),
        (over("paused"), 1),
        (over("cancelled"), 2),
        (over("cancelled"), 1),
    ] {
        let reason = follows(&events, run, started_run()).unwrap_err();
        assert!(reason.starts_with("the session is "), "{reason}");
    }
}

#[test]
fn run_is_lost_once_and_by_a_later_run() {
    assert_eq!(follows(&started_session(), 2, lost(1)), Ok(()));
    assert!(follows(&started_session(), 1, lost(1)).is_err());
    assert!(follows(&over("paused"), 2, lost(1)).is_err());
    let mut events = started_session();
    events.push((2, 15, lost(1)));
    assert_eq!(fold(&events).unwrap().status, Status::Interrupted);
    assert!(follows(&events, 3, lost(1)).is_err());
}

#[test]
fn fork_is_recorded_third() {
    let from = SessionId::new(Timestamp(1), [9; 10]);
    let forked = event(
        "session_forked",
        &json!({"from": from.to_string(), "from_name": "other", "seq": 7}),
    );
    assert!(follows(&started_session(), 1, forked.clone()).is_err());
    assert_eq!(follows(&started_session()[..2], 1, forked), Ok(()));
}

#[test]
fn run_ends_with_a_status_that_may_follow() {
    assert_eq!(follows(&started_session(), 1, ended("paused")), Ok(()));
    let reason = follows(&over("cancelled"), 1, ended("paused")).unwrap_err();
    assert_eq!(reason, "status cancelled cannot become paused");
}

#[test]
fn only_an_open_question_is_answered() {
    let asked = event(
        "question_asked",
        &json!({"path": "steps/1", "prompt": "?", "timeout_s": 60}),
    );
    let answer = json!({"path": "steps/1", "answer": "yes", "by": "me"});
    let answered = event("question_answered", &answer);
    let mut events = started_session();
    let reason = follows(&events, 1, answered.clone()).unwrap_err();
    assert_eq!(reason, "there is no open question at steps/1");
    events.push((1, 12, asked));
    let state = fold(&events).unwrap();
    let question = &state.questions[&Path::new("steps/1").unwrap()];
    assert_eq!(question.until(), Some(Timestamp(60_012)));
    let forever = Question {
        timeout_s: None,
        ..question.clone()
    };
    assert_eq!(forever.until(), None);
    assert_eq!(follows(&events, 1, answered.clone()), Ok(()));
    events.push((1, 13, answered.clone()));
    let state = fold(&events).unwrap();
    assert!(state.questions.is_empty());
    assert_eq!(state.finished, 1);
    assert!(follows(&events, 1, answered).is_err());
}

#[test]
fn chat_events_need_a_chat() {
    let cleared = event("chat_cleared", &json!({"by": "me"}));
    let reason = follows(&started_session(), 1, cleared.clone()).unwrap_err();
    assert_eq!(reason, "the session is not a chat");
    let mut events = started_session();
    let opened = json!({"agent": "a", "max_turns": 3});
    events.push((1, 10, event("chat_opened", &opened)));
    assert_eq!(follows(&events, 1, cleared), Ok(()));
}

#[test]
fn refused_event_changes_nothing() {
    let mut state = fold(&started_session()).unwrap();
    let before = state.clone();
    let ended = ended("paused");
    let record = state.head.seal(Run(9), Timestamp(50), &ended);
    let refused = state.apply(&JournalEvent {
        seq: record.seq,
        run: Run(9),
        at: Timestamp(50),
        event: ended,
        hash: record.hash,
    });
    assert!(refused.is_err());
    assert_eq!(state, before);
}
