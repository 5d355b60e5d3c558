//! Builds sessions, events and checkpoints by hand, for tests that call a store without an engine.

use std::collections::BTreeMap;
use std::time::Duration;

use segno_core::checkpoint::{self, Files, Manifest, Position, Trigger};
use segno_core::digest::Digest;
use segno_core::id::{CheckpointId, Name, SessionId};
use segno_core::journal::{
    Event, Head, Record, Run, RunEnded, RunPurpose, RunStarted, Seq, SessionCreated, SessionMoved,
    StepFinished, StepStarted, Text,
};
use segno_core::lease::Owner;
use segno_core::session::{Kind, Status};
use segno_core::step::Path;
use segno_core::store::{Batch, LeaseUpdate, NewSession};
use segno_core::time::Timestamp;
use segno_core::usage::Usage;

/// How long leases last in tests.
pub const TTL: Duration = Duration::from_secs(30);

/// A process that can own leases.
pub fn owner(pid: u32) -> Owner {
    Owner {
        host: "here".into(),
        boot: "this".into(),
        namespace: "pid:[1]".into(),
        pid,
        started: 1,
    }
}

/// Builds the batches of one session's journal by hand.
#[derive(Debug, Clone)]
pub struct JournalBuilder {
    pub session: SessionId,
    /// The run that appends.
    pub run: Run,
    /// The last event that was built.
    pub head: Head,
}

impl JournalBuilder {
    /// A writer for session number `n`.
    pub fn new(n: u8) -> Self {
        Self::of(SessionId::new(Timestamp(1_794_738_089_000), [n; 10]))
    }

    /// A writer for a session.
    pub fn of(session: SessionId) -> Self {
        Self {
            session,
            run: Run(1),
            head: Head::genesis(session),
        }
    }

    /// The new session, ready for `Store::create`.
    pub fn create(&mut self, name: &str) -> NewSession {
        let name = Name::new(name).expect("tests use valid names");
        let spec = "version: 0\n";
        let created = SessionCreated {
            name: name.clone(),
            session_kind: Kind::Workflow,
            workspace: "/work".into(),
            spec_path: "/work/spec.yaml".into(),
            spec: Text::Inline(spec.into()),
            spec_digest: Digest::of(spec.as_bytes()),
            variables: BTreeMap::new(),
            out: "/work/artifacts".into(),
            force: false,
            commit: None,
            pattern: None,
        };
        let started = RunStarted {
            host: "here".into(),
            pid: 7,
            version: "0".into(),
            purpose: RunPurpose::Work,
        };
        NewSession {
            id: self.session,
            name,
            kind: Kind::Workflow,
            workspace: "/work".into(),
            owner: owner(7),
            ttl: TTL,
            batch: self.batch([created.into(), started.into()]),
        }
    }

    /// A batch of these events. Advances `head` to its end.
    pub fn batch(&mut self, events: impl IntoIterator<Item = Event>) -> Batch {
        let expected = self.head;
        let mut status = Status::Running;
        let mut workspace = None;
        let mut records: Vec<Record> = Vec::new();
        for event in events {
            match &event {
                Event::RunEnded(ended) => status = ended.status,
                Event::SessionMoved(moved) => workspace = Some(moved.workspace.clone()),
                _ => {}
            }
            let record = self.head.seal(self.run, Timestamp(1), &event);
            self.head = record.head();
            records.push(record);
        }
        Batch {
            session: self.session,
            run: self.run,
            expected,
            records,
            status,
            spec_digest: None,
            workspace,
            lease: LeaseUpdate::Renew(TTL),
            cached_state: None,
            handled_messages: Vec::new(),
        }
    }
}

pub fn step_started(path: &str) -> Event {
    StepStarted {
        path: Path::new(path).expect("tests use valid paths"),
        revision: 0,
        attempt: 1,
        agent: "a".into(),
        input: Text::Inline("question".into()),
        input_digest: Digest::of(b"question"),
        resume_context: None,
    }
    .into()
}

pub fn step_finished(path: &str, output: &str) -> Event {
    StepFinished {
        path: Path::new(path).expect("tests use valid paths"),
        revision: 0,
        attempt: 1,
        output: Text::Inline(output.into()),
        usage: Usage {
            input_tokens: 3,
            output_tokens: 4,
            ..Usage::default()
        },
        elapsed_ms: 5,
        context: None,
    }
    .into()
}

pub fn run_ended(status: Status) -> Event {
    RunEnded {
        status,
        error: None,
        output: None,
    }
    .into()
}

/// The session's workspace is another folder from here on.
pub fn session_moved(workspace: &str) -> Event {
    SessionMoved {
        workspace: workspace.into(),
        spec_path: "/work/spec.yaml".into(),
        out: "/work/artifacts".into(),
    }
    .into()
}

/// A checkpoint of a session, created at `at`.
pub fn checkpoint(session: SessionId, at: Timestamp) -> Manifest {
    let digest = Digest::of(b"files");
    Manifest {
        segno_checkpoint: checkpoint::VERSION,
        id: CheckpointId::new(at, [9; 10]),
        session,
        trigger: Trigger::Manual,
        note: None,
        at,
        host: "here".into(),
        version: "0".into(),
        parent: None,
        journal: Position {
            run: Run(1),
            seq: Seq(1),
            hash: digest,
        },
        status: Status::Paused,
        finished: 0,
        usage: Usage::default(),
        workspace: "/".into(),
        files: Files {
            snapshot: digest,
            files: 1,
            bytes: 1,
            unstable: 0,
            skipped: 0,
            excluded: 0,
        },
        repositories: Vec::new(),
        environment: BTreeMap::new(),
        attachments: None,
        origin: None,
        verified: None,
        pruned: None,
    }
}
