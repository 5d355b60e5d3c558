//! (d) A session of a million events: how long it takes to read its state, and to open it for a
//! run.

use std::path::Path;
use std::time::Instant;

use segno_core::journal::{Event, JournalEvent};
use segno_core::snapshot::Depth;
use segno_core::state::State;
use segno_core::store::{Batch, CachedState, Journal, Sessions};
use segno_engine::{Env, history};
use segno_sessions::doctor;
use segno_testkit::journal::{JournalBuilder, step_finished, step_started};
use segno_testkit::sandbox::Sandbox;

use crate::disk::Disk;
use crate::figures::{Bar, Row, Samples, Table, millis};
use crate::{Plan, log_progress, parts};

/// About as often as the engine stores a folded state.
const FOLD_EVERY: usize = 1000;

/// The length that the bar applies to; a shorter session is shown without a verdict.
const FULL: usize = 1_000_000;

/// How many times each command is measured.
const REPETITIONS: usize = 15;

pub(crate) fn measure(plan: &Plan, disk: &mut Disk, table: &mut Table) {
    let events = if plan.quick { FULL / 10 } else { FULL };
    let sandbox = Sandbox::new(&plan.segno);
    let root = sandbox.home().parent().unwrap().to_owned();
    log_progress(&format!("  creating a session of {events} events"));
    let session = make(&root, events);
    let runtime = parts::runtime();
    let (mut open, mut read) = (Samples::default(), Samples::default());
    let (mut status, mut list) = (Samples::default(), Samples::default());
    for _ in 0..REPETITIONS {
        disk.probe();
        let begun = Instant::now();
        let env = parts::env(parts::store(&root));
        open.push(millis(begun.elapsed()));
        let begun = Instant::now();
        let state = runtime
            .block_on(history::load_state(&env, session))
            .unwrap();
        read.push(millis(begun.elapsed()));
        assert_eq!(
            state.head.seq.0, events as u64,
            "the whole journal was read"
        );
        drop(env);
        for (words, samples) in [
            (&["status"][..], &mut status),
            (&["sessions", "list", "--all"][..], &mut list),
        ] {
            let begun = Instant::now();
            let said = sandbox.segno(words).expect_success();
            samples.push(millis(begun.elapsed()));
            assert!(said.stdout.contains("long"), "{words:?}: {}", said.stdout);
        }
    }
    let of = |what: &str| format!("{events} events: {what}");
    table.add(Row::single("d", of("opening the store"), "ms", open));
    for (what, samples) in [
        ("look", read),
        ("segno status", status),
        ("segno sessions list", list),
    ] {
        let row = Row::single("d", of(what), "ms", samples);
        table.add(if events == FULL {
            row.bar(Bar::AtMost(100.0))
        } else {
            row
        });
    }
    let env = parts::env(parts::store(&root));
    let times = if plan.quick { 3 } else { 2 };
    let full = (0..times).map(|_| {
        let begun = Instant::now();
        let (state, done) = runtime
            .block_on(history::load_verified(&env, session))
            .unwrap();
        assert_eq!(
            state.finished,
            done.len() as u64,
            "all finished steps are found"
        );
        millis(begun.elapsed())
    });
    table.add(Row::single(
        "d",
        of("opening it for a run, fully verified"),
        "ms",
        full.collect(),
    ));
    verify(&runtime, &env, events, table);
}

/// Checks that the session built here is one that the engine would build: `doctor` finds nothing.
fn verify(runtime: &tokio::runtime::Runtime, env: &Env, events: usize, table: &mut Table) {
    log_progress("  verifying it");
    let begun = Instant::now();
    let verified = doctor::verify(env, Depth::Structure, |_, _| (), &|_, _| ());
    let report = runtime.block_on(verified).unwrap();
    assert_eq!(report.findings, [], "the created session is intact");
    assert_eq!(report.events, events as u64, "all events were read");
    table.note(format!(
        "doctor verified the session of {events} events in {:.1} s and found no damage",
        begun.elapsed().as_secs_f64()
    ));
}

/// Builds a session whose run is in the middle of a step, as after a kill: its latest folded state
/// is as old as it can be.
pub(crate) fn make(root: &Path, events: usize) -> segno_core::id::SessionId {
    let store = parts::store(root);
    let mut journal = JournalBuilder::new(1);
    let mut state = State::empty(journal.session);
    let new = journal.create("long");
    fold(&mut state, &new.batch);
    let mut written = new.batch.records.len();
    let mut step = 0;
    parts::runtime().block_on(async {
        store.create(new).await.unwrap();
        while written < events {
            let count = FOLD_EVERY.min(events - written);
            let some: Vec<Event> = (written..written + count)
                .map(|index| {
                    let path = format!("steps/{step}");
                    if index % 2 == 0 {
                        step_started(&path)
                    } else {
                        step += 1;
                        step_finished(&path, &parts::answer(step))
                    }
                })
                .collect();
            let mut batch = journal.batch(some);
            fold(&mut state, &batch);
            batch.spec_digest = state.spec_digest;
            if count == FOLD_EVERY {
                batch.cached_state = Some(CachedState {
                    head: state.head,
                    version: State::VERSION,
                    body: serde_json::to_string(&state).unwrap(),
                });
            }
            store.append(batch).await.unwrap();
            written += count;
        }
    });
    journal.session
}

fn fold(state: &mut State, batch: &Batch) {
    let mut head = batch.expected;
    for record in &batch.records {
        let entry: JournalEvent = head.open(record).unwrap();
        head = entry.head();
        state.apply(&entry).unwrap();
    }
}
