mod finished;
mod order;
mod steps;

use super::*;
use crate::journal::{
    RunPurpose, RunStarted, SessionCreated, StepStarted, Text, TranscriptImported,
};

/// An event as the journal stores it.
fn event(kind: &str, body: &serde_json::Value) -> Event {
    Event::decode(kind, &body.to_string()).unwrap().unwrap()
}

/// Applies events, each with the run that wrote it and its timestamp.
fn fold(events: &[(u64, i64, Event)]) -> Result<State, IllegalEvent> {
    let mut state = State::empty(SessionId::new(Timestamp(1), [7; 10]));
    for (run, at, event) in events {
        let (run, at) = (Run(*run), Timestamp(*at));
        let record = state.head.seal(run, at, event);
        state.apply(&JournalEvent {
            seq: record.seq,
            run,
            at,
            event: event.clone(),
            hash: record.hash,
        })?;
    }
    Ok(state)
}

fn started_session() -> Vec<(u64, i64, Event)> {
    let created = SessionCreated {
        name: Name::sanitized("one"),
        session_kind: Kind::Workflow,
        workspace: "/a".into(),
        spec_path: "/a/s.yaml".into(),
        spec: Text::Inline("version: 0\n".into()),
        spec_digest: Digest::of(b"version: 0\n"),
        variables: BTreeMap::new(),
        out: "/a/out".into(),
        force: false,
        commit: None,
        pattern: None,
    };
    let started = StepStarted {
        path: Path::new("steps/0").unwrap(),
        revision: 0,
        attempt: 1,
        agent: "a".into(),
        input: Text::Inline("?".into()),
        input_digest: Digest::of(b"?"),
        resume_context: None,
    };
    vec![
        (1, 0, created.into()),
        (1, 0, started_run()),
        (1, 10, started.into()),
    ]
}

fn started_run() -> Event {
    RunStarted {
        host: "here".into(),
        pid: 7,
        version: "0".into(),
        purpose: RunPurpose::Work,
    }
    .into()
}

fn moved(to: &str) -> Event {
    SessionMoved {
        workspace: to.into(),
        spec_path: format!("{to}/s.yaml"),
        out: format!("{to}/out"),
    }
    .into()
}

#[test]
fn moving_between_runs_keeps_the_state() {
    let mut events = started_session();
    let before = fold(&events).unwrap();
    events.push((2, 5000, moved("/b")));
    let after = fold(&events).unwrap();
    let created = after.created.clone().unwrap();
    assert_eq!(
        [created.workspace, created.spec_path, created.out],
        ["/b", "/b/s.yaml", "/b/out"]
    );
    assert_eq!(after.run, Run(2));
    assert_eq!(after.active_ms, before.active_ms, "nobody worked meanwhile");
    let same = State {
        head: before.head,
        created: before.created.clone(),
        run: before.run,
        updated_at: before.updated_at,
        ..after
    };
    assert_eq!(same, before);
    events.extend([(3, 6000, started_run())]);
    assert_eq!(fold(&events).unwrap().status, Status::Running);
}

#[test]
fn moved_session_still_accepts_its_transcript() {
    let adopted: Event = TranscriptImported {
        path: Path::new("steps/0").unwrap(),
        revision: 0,
        program: CliAgentKind::Codex,
        native_id: "n".into(),
        file: "/f".into(),
        bytes: 1,
        digest: Digest::of(b"f"),
        attachments: Digest::of(b"p"),
        notes: Vec::new(),
    }
    .into();
    let mut events = started_session();
    events.push((1, 10, adopted));
    let newest = |events: &[_]| {
        let state = fold(events).unwrap();
        (state.imported.unwrap().run, state.run)
    };
    let mut resumed = events.clone();
    events.push((2, 20, moved("/b")));
    assert_eq!(newest(&events), (Run(2), Run(2)));
    resumed.extend([(2, 20, started_run()), (3, 30, moved("/b"))]);
    assert_eq!(newest(&resumed), (Run(1), Run(3)));
}

#[test]
fn move_during_a_run_is_refused() {
    let mut events = started_session();
    events.push((1, 20, moved("/b")));
    assert!(fold(&events).unwrap_err().reason.contains("between runs"));
    assert!(fold(&[(1, 0, moved("/b"))]).is_err());
}
