use super::*;
use crate::journal::{RunStarted, SessionCreated, StepStarted, Text, TranscriptAdopted};

/// Applies events, each with the run that wrote it and when.
fn folded(events: &[(u64, i64, Event)]) -> Result<State, Illegal> {
    let mut state = State::empty(SessionId::new(Timestamp(1), [7; 10]));
    for (run, at, event) in events {
        let (run, at) = (Run(*run), Timestamp(*at));
        let record = state.head.seal(run, at, event);
        state.apply(&Entry {
            seq: record.seq,
            run,
            at,
            event: event.clone(),
            hash: record.hash,
        })?;
    }
    Ok(state)
}

fn begun() -> Vec<(u64, i64, Event)> {
    let created = SessionCreated {
        name: Name::like("one"),
        session_kind: Kind::Workflow,
        workspace: "/a".into(),
        spec_path: "/a/s.yaml".into(),
        spec: Text::Inline("version: 0\n".into()),
        spec_digest: Digest::of(b"version: 0\n"),
        variables: BTreeMap::new(),
        out: "/a/out".into(),
        force: false,
        commit: None,
    };
    let started = StepStarted {
        path: Path::new("steps/0").unwrap(),
        revision: 0,
        attempt: 1,
        agent: "a".into(),
        input: Text::Inline("?".into()),
        input_digest: Digest::of(b"?"),
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
fn a_session_is_moved_between_runs_and_stands_as_it_stood() {
    let mut events = begun();
    let before = folded(&events).unwrap();
    events.push((2, 5000, moved("/b")));
    let after = folded(&events).unwrap();
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
    assert_eq!(folded(&events).unwrap().status, Status::Running);
}

#[test]
fn a_session_that_was_only_moved_still_takes_what_its_transcript_says_next() {
    let adopted: Event = TranscriptAdopted {
        path: Path::new("steps/0").unwrap(),
        revision: 0,
        program: Program::Codex,
        native: "n".into(),
        file: "/f".into(),
        bytes: 1,
        digest: Digest::of(b"f"),
        papers: Digest::of(b"p"),
        notes: Vec::new(),
    }
    .into();
    let mut events = begun();
    events.push((1, 10, adopted));
    let newest = |events: &[_]| {
        let state = folded(events).unwrap();
        (state.adopted.unwrap().run, state.run)
    };
    let mut went_on = events.clone();
    events.push((2, 20, moved("/b")));
    assert_eq!(newest(&events), (Run(2), Run(2)));
    went_on.extend([(2, 20, started_run()), (3, 30, moved("/b"))]);
    assert_eq!(newest(&went_on), (Run(1), Run(3)));
}

#[test]
fn a_session_is_not_moved_in_the_middle_of_a_run_or_before_it_is_created() {
    let mut events = begun();
    events.push((1, 20, moved("/b")));
    assert!(folded(&events).unwrap_err().reason.contains("between runs"));
    assert!(folded(&[(1, 0, moved("/b"))]).is_err());
}
