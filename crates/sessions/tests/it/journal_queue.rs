//! The queue of the journal writer.

use std::sync::Arc;

use futures_util::FutureExt;
use segno_core::journal::{Event, NotesWritten, Run};
use segno_core::note::Source;
use segno_core::usage::Usage;
use segno_engine::history;
use segno_engine::journal::Writer;
use segno_engine::observe::NoObserver;

use crate::harness::{chain, harness};

fn event() -> Event {
    NotesWritten {
        source: Source::User,
        by: "user".to_owned(),
        path: None,
        notes: Vec::new(),
        read_to: None,
        usage: Usage::default(),
    }
    .into()
}

#[tokio::test]
async fn full_queue_makes_callers_wait() {
    let harness = harness("default: {text: done}");
    let session = harness.run(&chain("", &["one"])).await.unwrap().session;
    let state = history::load_state(&harness.env, session).await.unwrap();
    let (journal, _writer) =
        Writer::new(&harness.env, session, Run(1), state, Arc::new(NoObserver));
    // The writer is a task of the same thread: until this test yields, it takes nothing.
    let accepted = (0..10_000)
        .take_while(|_| journal.enqueue(event()).now_or_never().is_some())
        .count();
    assert!((1..=1000).contains(&accepted), "{accepted}");
    for _ in 0..10_000 {
        journal.enqueue(event()).await;
    }
}

#[tokio::test]
async fn state_is_cached_at_the_end_of_a_run() {
    let harness = harness("default: {text: done}");
    let session = harness.run(&chain("", &["one"])).await.unwrap().session;
    let cached = harness.env.store.cached_state(session).await.unwrap();
    assert_eq!(cached.unwrap().head, harness.summary().await.head);
}
