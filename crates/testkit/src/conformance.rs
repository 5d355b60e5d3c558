//! The conformance suite that every store passes, the one in memory included. `conformance!(make)`
//! turns each case into a test; `make` gets a clock and returns an empty store and whatever must
//! live as long as the store does.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::FutureExt;
use segno_core::checkpoint::Manifest;
use segno_core::digest::Digest;
use segno_core::error::{Diagnose, Kind};
use segno_core::id::{Name, SessionId};
use segno_core::journal::{Head, Run, Seq, StopMode, StopRequested};
use segno_core::ports::Clock as _;
use segno_core::preview::{Preview, StepPreview};
use segno_core::session::Status;
use segno_core::step::Path;
use segno_core::store::{
    CachedState, Changed, Error, Filter, InboxMessage, LeaseUpdate, Store, Swept, TrashedSession,
    Watch,
};
use segno_core::time::Timestamp;

use crate::clock::ManualClock;
use crate::journal::{
    JournalBuilder, TTL, checkpoint, owner, run_ended, session_moved, step_finished, step_started,
};

/// Makes a test of each case, for the store that `$make` returns.
#[macro_export]
macro_rules! conformance {
    ($make:expr) => {
        $crate::conformance!(
            @cases $make;
            appended_events_read_back,
            session_creation_is_atomic,
            names_are_unique,
            session_id_is_used_once,
            records_read_back_byte_for_byte,
            stale_run_cannot_append,
            stale_run_cannot_renew_or_release,
            append_with_wrong_head_is_refused,
            repeated_batch_changes_nothing,
            workspace_changes_with_the_move_event,
            step_cannot_finish_twice,
            one_of_many_acquires_wins,
            heartbeat_before_takeover_keeps_the_lease,
            release_clears_the_lease_owner,
            leases_expire_by_the_store_clock,
            messages_stay_pending_until_consumed,
            read_continues_from_any_head,
            read_from_a_false_head_is_detected,
            finished_step_is_found_by_path,
            latest_folded_state_is_stored,
            blobs_are_stored_by_content,
            watch_reports_what_changes,
            previews_are_replaced_and_removed,
            discarded_session_is_hidden_and_fenced,
            discarded_session_can_be_restored,
            changed_session_is_not_discarded,
            destroying_leaves_nothing,
            only_old_unreferenced_blobs_are_swept,
            checkpoints_are_stored_until_deleted,
            missing_session_or_blob_is_an_error,
            concurrent_sessions_do_not_interfere,
        );
    };
    (@cases $make:expr; $($case:ident,)*) => {
        $(
            #[tokio::test]
            async fn $case() {
                let clock = ::std::sync::Arc::new($crate::clock::ManualClock::default());
                let (store, _guard) = ($make)(clock.clone());
                $crate::conformance::$case(&store, clock).await;
            }
        )*
    };
}

type Clock = Arc<ManualClock>;

/// P1: every acknowledged event is there, in order.
pub async fn appended_events_read_back(store: &dyn Store, _: Clock) {
    let mut journal = JournalBuilder::new(1);
    store.create(journal.create("one")).await.unwrap();
    store
        .append(journal.batch([step_started("steps/0")]))
        .await
        .unwrap();
    store
        .append(journal.batch([step_finished("steps/0", "answer"), step_started("steps/1")]))
        .await
        .unwrap();
    let entries = store
        .read(journal.session, Head::genesis(journal.session), 100)
        .await
        .unwrap();
    let kinds: Vec<_> = entries.iter().map(|entry| entry.event.kind()).collect();
    assert_eq!(
        kinds,
        [
            "session_created",
            "run_started",
            "step_started",
            "step_finished",
            "step_started"
        ]
    );
    assert_eq!(entries[3].event, step_finished("steps/0", "answer"));
    assert_eq!(
        store.summary(journal.session).await.unwrap().head,
        journal.head
    );
    assert_eq!(
        store.event(journal.session, Seq(4)).await.unwrap(),
        entries[3]
    );
}

/// A refused creation changes nothing.
pub async fn session_creation_is_atomic(store: &dyn Store, _: Clock) {
    let mut journal = JournalBuilder::new(1);
    let mut new = journal.create("one");
    new.batch.expected = JournalBuilder::new(2).head;
    new.batch.records.push(new.batch.records[0].clone());
    new.batch.run = Run(1);
    let broken = JournalBuilder::new(1)
        .batch([step_finished("steps/0", "a"), step_finished("steps/0", "b")]);
    new.batch.records.extend(broken.records);
    assert!(store.create(new).await.is_err());
    assert_eq!(store.list(Filter::default()).await.unwrap(), []);
    assert_eq!(
        store.summary(journal.session).await,
        Err(Error::NoSession(journal.session))
    );
}

/// A name refers to one session.
pub async fn names_are_unique(store: &dyn Store, _: Clock) {
    store
        .create(JournalBuilder::new(1).create("one"))
        .await
        .unwrap();
    let new = JournalBuilder::new(2).create("one");
    let name = new.name.clone();
    assert_eq!(store.create(new).await, Err(Error::NameTaken(name)));
    assert_eq!(store.list(Filter::default()).await.unwrap().len(), 1);
}

/// Sessions in the trash count, too: they can be restored.
pub async fn session_id_is_used_once(store: &dyn Store, _: Clock) {
    let mut journal = JournalBuilder::new(1);
    let seen = store.create(journal.create("one")).await.unwrap();
    let exists = Error::Exists(journal.session);
    assert_eq!(
        store.create(JournalBuilder::new(1).create("two")).await,
        Err(exists.clone())
    );
    store.discard(journal.session, Some(seen)).await.unwrap();
    assert_eq!(
        store.create(JournalBuilder::new(1).create("two")).await,
        Err(exists)
    );
    store.destroy(journal.session).await.unwrap();
    store
        .create(JournalBuilder::new(1).create("two"))
        .await
        .unwrap();
}

/// Returns the same bytes that were hashed, and verifies them as `read` does.
pub async fn records_read_back_byte_for_byte(store: &dyn Store, _: Clock) {
    let mut journal = JournalBuilder::new(1);
    let new = journal.create("one");
    let mut written = new.batch.records.clone();
    store.create(new).await.unwrap();
    let batch = journal.batch([step_started("steps/0"), step_finished("steps/0", "a")]);
    written.extend(batch.records.clone());
    store.append(batch).await.unwrap();
    let genesis = Head::genesis(journal.session);
    assert_eq!(
        store.records(journal.session, genesis, 100).await.unwrap(),
        written
    );
    let after = written[0].head();
    assert_eq!(
        store.records(journal.session, after, 2).await.unwrap(),
        written[1..3]
    );
    let error = store
        .records(journal.session, journal.head, 1)
        .await
        .unwrap();
    assert_eq!(error, []);
    let mut false_head = after;
    false_head.hash = Digest::of(b"something else");
    let error = store
        .records(journal.session, false_head, 9)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Damaged);
}

/// P3, in its plainest form.
pub async fn stale_run_cannot_append(store: &dyn Store, _: Clock) {
    let mut old = JournalBuilder::new(1);
    let lease = store.create(old.create("one")).await.unwrap();
    let mut new = JournalBuilder {
        run: Run(2),
        ..old.clone()
    };
    assert_eq!(
        store.acquire(lease, owner(8), TTL).await.unwrap().run,
        Run(2)
    );
    let refused = store
        .append(old.clone().batch([step_started("steps/0")]))
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), Kind::Fenced);
    store
        .append(new.batch([step_started("steps/0")]))
        .await
        .unwrap();
    let refused = store
        .append(old.batch([step_started("steps/0")]))
        .await
        .unwrap_err();
    assert_eq!(
        refused,
        Error::Fenced {
            session: old.session,
            run: Run(1),
            newest: Run(2)
        }
    );
    let entries = store
        .read(new.session, Head::genesis(new.session), 100)
        .await
        .unwrap();
    assert_eq!(entries.len(), 3, "no write of the old run is visible");
}

/// A late heartbeat returns an error; a late release does nothing.
pub async fn stale_run_cannot_renew_or_release(store: &dyn Store, _: Clock) {
    let mut journal = JournalBuilder::new(1);
    let lease = store.create(journal.create("one")).await.unwrap();
    store.acquire(lease, owner(8), TTL).await.unwrap();
    let late = store
        .heartbeat(journal.session, Run(1), TTL)
        .await
        .unwrap_err();
    assert_eq!(late.kind(), Kind::Fenced);
    store.release(journal.session, Run(1)).await.unwrap();
    assert_eq!(
        store.lease(journal.session).await.unwrap().owner,
        Some(owner(8))
    );
}

/// A writer that expects another head is refused.
pub async fn append_with_wrong_head_is_refused(store: &dyn Store, _: Clock) {
    let mut journal = JournalBuilder::new(1);
    store.create(journal.create("one")).await.unwrap();
    let mut behind = journal.clone();
    store
        .append(journal.batch([step_started("steps/0")]))
        .await
        .unwrap();
    let refused = store
        .append(behind.batch([step_started("steps/1")]))
        .await
        .unwrap_err();
    assert!(
        matches!(refused, Error::WrongHead { found: Seq(3), .. }),
        "{refused}"
    );
}

/// A writer may repeat an append whose outcome it did not learn.
pub async fn repeated_batch_changes_nothing(store: &dyn Store, _: Clock) {
    let mut journal = JournalBuilder::new(1);
    store.create(journal.create("one")).await.unwrap();
    let batch = journal.batch([step_started("steps/0")]);
    store.append(batch.clone()).await.unwrap();
    store.append(batch).await.unwrap();
    assert_eq!(
        store.summary(journal.session).await.unwrap().head,
        journal.head
    );
    store
        .append(journal.batch([step_finished("steps/0", "answer")]))
        .await
        .unwrap();
}

/// The workspace changes in the same commit as the event that says so; readers see both or neither.
pub async fn workspace_changes_with_the_move_event(store: &dyn Store, _: Clock) {
    let mut journal = JournalBuilder::new(1);
    let seen = store.create(journal.create("one")).await.unwrap();
    store
        .create(JournalBuilder::new(2).create("two"))
        .await
        .unwrap();
    let folder = async || store.summary(journal.session).await.unwrap().workspace;
    let refused = journal.clone().batch([session_moved("/fenced")]);
    let lease = store.acquire(seen, owner(8), TTL).await.unwrap();
    let fenced = store.append(refused).await.unwrap_err();
    assert_eq!(fenced.kind(), Kind::Fenced);
    assert_eq!(folder().await, "/work");
    let mut next = JournalBuilder {
        run: lease.run,
        ..journal.clone()
    };
    let batch = next.batch([session_moved("/elsewhere")]);
    store.append(batch.clone()).await.unwrap();
    assert_eq!(folder().await, "/elsewhere");
    store.append(batch).await.unwrap();
    store
        .append(next.batch([step_started("steps/0")]))
        .await
        .unwrap();
    assert_eq!(folder().await, "/elsewhere");
    let listed = store.list(Filter::default()).await.unwrap().into_iter();
    let mut folders: Vec<String> = listed.map(|summary| summary.unwrap().workspace).collect();
    folders.sort();
    assert_eq!(folders, ["/elsewhere", "/work"]);
}

/// P7: the store itself refuses.
pub async fn step_cannot_finish_twice(store: &dyn Store, _: Clock) {
    let mut journal = JournalBuilder::new(1);
    store.create(journal.create("one")).await.unwrap();
    store
        .append(journal.batch([step_started("steps/0"), step_finished("steps/0", "a")]))
        .await
        .unwrap();
    let before = journal.clone();
    let refused = store
        .append(journal.batch([step_finished("steps/0", "b")]))
        .await;
    assert_eq!(refused, Err(Error::FinishedTwice(journal.session)));
    journal = before;
    store
        .append(journal.batch([step_finished("steps/1", "c")]))
        .await
        .unwrap();
}

/// P3: acquiring a lease is one compare-and-set.
pub async fn one_of_many_acquires_wins(store: &dyn Store, clock: Clock) {
    let mut journal = JournalBuilder::new(1);
    let seen = store.create(journal.create("one")).await.unwrap();
    clock.advance(60_000);
    let mut granted = 0;
    for asker in 0..20 {
        match store.acquire(seen.clone(), owner(asker), TTL).await {
            Ok(lease) => granted += u32::from(lease.run == Run(2)),
            Err(error) => assert_eq!(error, Error::LeaseChanged(journal.session)),
        }
    }
    assert_eq!(granted, 1);
}

/// A late heartbeat before the takeover cancels the takeover.
pub async fn heartbeat_before_takeover_keeps_the_lease(store: &dyn Store, clock: Clock) {
    let mut journal = JournalBuilder::new(1);
    store.create(journal.create("one")).await.unwrap();
    clock.advance(60_000);
    let seen = store.lease(journal.session).await.unwrap();
    assert!(seen.remaining.is_zero());
    store.heartbeat(journal.session, Run(1), TTL).await.unwrap();
    let refused = store.acquire(seen, owner(8), TTL).await;
    assert_eq!(refused, Err(Error::LeaseChanged(journal.session)));
    store
        .append(journal.batch([step_started("steps/0")]))
        .await
        .unwrap();
}

/// One commit contains the last event of a run and the release of its lease.
pub async fn release_clears_the_lease_owner(store: &dyn Store, _: Clock) {
    let mut journal = JournalBuilder::new(1);
    store.create(journal.create("one")).await.unwrap();
    let mut batch = journal.batch([run_ended(Status::Paused)]);
    batch.lease = LeaseUpdate::Release;
    store.append(batch).await.unwrap();
    let lease = store.lease(journal.session).await.unwrap();
    assert_eq!((lease.owner, lease.run), (None, Run(1)));
    assert_eq!(
        store.summary(journal.session).await.unwrap().status,
        Status::Paused
    );
}

/// Only the store's clock counts the remaining time.
pub async fn leases_expire_by_the_store_clock(store: &dyn Store, clock: Clock) {
    let mut journal = JournalBuilder::new(1);
    store.create(journal.create("one")).await.unwrap();
    assert_eq!(store.lease(journal.session).await.unwrap().remaining, TTL);
    clock.advance(29_000);
    assert_eq!(
        store
            .lease(journal.session)
            .await
            .unwrap()
            .remaining
            .as_secs(),
        1
    );
    store
        .append(journal.batch([step_started("steps/0")]))
        .await
        .unwrap();
    assert_eq!(
        store.lease(journal.session).await.unwrap().remaining,
        TTL,
        "an append renews"
    );
    clock.advance(31_000);
    assert!(
        store
            .lease(journal.session)
            .await
            .unwrap()
            .remaining
            .is_zero()
    );
    store
        .append(journal.batch([step_finished("steps/0", "late")]))
        .await
        .unwrap();
}

fn stop(mode: StopMode) -> InboxMessage {
    InboxMessage::Stop(StopRequested {
        by: "a person".into(),
        mode,
        status: Status::Cancelled,
        reason: None,
        checkpoint: None,
    })
}

/// A message is consumed in the transaction that answers it.
pub async fn messages_stay_pending_until_consumed(store: &dyn Store, _: Clock) {
    let mut journal = JournalBuilder::new(1);
    store.create(journal.create("one")).await.unwrap();
    let message = stop(StopMode::Now);
    store
        .post(journal.session, Timestamp(1), message.clone())
        .await
        .unwrap();
    let pending = store.pending(journal.session).await.unwrap();
    assert_eq!(
        pending
            .iter()
            .map(|(_, message)| message)
            .collect::<Vec<_>>(),
        [&message]
    );
    let mut batch = journal.batch([run_ended(Status::Cancelled)]);
    batch.handled_messages = vec![pending[0].0];
    store.append(batch).await.unwrap();
    assert_eq!(store.pending(journal.session).await.unwrap(), []);
}

/// A reader that has the first events continues behind them.
pub async fn read_continues_from_any_head(store: &dyn Store, _: Clock) {
    let mut journal = JournalBuilder::new(1);
    store.create(journal.create("one")).await.unwrap();
    for step in 0..10 {
        let path = format!("steps/{step}");
        store
            .append(journal.batch([step_started(&path), step_finished(&path, "x")]))
            .await
            .unwrap();
    }
    let (mut head, mut read) = (Head::genesis(journal.session), 0);
    loop {
        let entries = store.read(journal.session, head, 4).await.unwrap();
        read += entries.len();
        match entries.last() {
            Some(last) if entries.len() == 4 => head = last.head(),
            _ => break,
        }
    }
    assert_eq!(read, 22);
    assert_eq!(
        store.read(journal.session, journal.head, 4).await.unwrap(),
        []
    );
}

/// P9: the store also compares the head that the reader gives.
pub async fn read_from_a_false_head_is_detected(store: &dyn Store, _: Clock) {
    let mut journal = JournalBuilder::new(1);
    store.create(journal.create("one")).await.unwrap();
    store
        .append(journal.batch([step_started("steps/0")]))
        .await
        .unwrap();
    let entries = store
        .read(journal.session, Head::genesis(journal.session), 2)
        .await
        .unwrap();
    let mut false_head = entries[1].head();
    false_head.hash = Digest::of(b"something else");
    let error = store
        .read(journal.session, false_head, 10)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Damaged);
    assert!(
        error.to_string().contains(&journal.session.to_string()),
        "{error}"
    );
}

/// A watch reports what was appended after it started, by whom ever, and only then.
pub async fn watch_reports_what_changes(store: &dyn Store, _: Clock) {
    async fn changed(watch: &mut dyn Watch) -> BTreeSet<SessionId> {
        match watch.changed().await {
            Changed::Sessions(sessions) => sessions,
            Changed::Any => panic!("reports were lost"),
        }
    }
    let (mut one, mut two) = (JournalBuilder::new(1), JournalBuilder::new(2));
    store.create(one.create("one")).await.unwrap();
    let mut watch = store.watch().unwrap();
    assert!(watch.changed().now_or_never().is_none());
    store.create(two.create("two")).await.unwrap();
    assert_eq!(changed(&mut *watch).await, [two.session].into());
    for journal in [&mut one, &mut two] {
        store
            .append(journal.batch([step_started("steps/0")]))
            .await
            .unwrap();
    }
    let mut seen = changed(&mut *watch).await;
    if seen.len() == 1 {
        seen.extend(changed(&mut *watch).await);
    }
    assert_eq!(seen, [one.session, two.session].into());
    store.discard(one.session, None).await.unwrap();
    assert!(changed(&mut *watch).await.contains(&one.session));
}

/// A preview is replaced as a whole, and its watch reports that and nothing else.
pub async fn previews_are_replaced_and_removed(store: &dyn Store, _: Clock) {
    let mut journal = JournalBuilder::new(1);
    let session = journal.session;
    store.create(journal.create("one")).await.unwrap();
    let preview = |text: &str| Preview {
        v: Preview::VERSION,
        run: Run(1),
        steps: vec![StepPreview {
            path: Path::root("steps").join(0),
            attempt: 1,
            since: Seq(2),
            text: text.to_owned(),
        }],
    };
    store.remove_preview(session).await.unwrap();
    assert_eq!(store.preview(session).await.unwrap(), None);
    let mut watch = store.watch_previews().unwrap();
    let mut journals = store.watch().unwrap();
    assert!(watch.changed().now_or_never().is_none());
    for text in ["one\n", "one\ntwo\n", "1\n"] {
        store.put_preview(session, preview(text)).await.unwrap();
        assert_eq!(watch.changed().await, Changed::Sessions([session].into()));
        assert_eq!(store.preview(session).await.unwrap(), Some(preview(text)));
    }
    store.remove_preview(session).await.unwrap();
    assert_eq!(watch.changed().await, Changed::Sessions([session].into()));
    assert_eq!(store.preview(session).await.unwrap(), None);
    assert!(journals.changed().now_or_never().is_none());
}

/// The answer of a step can be read without reading the whole journal.
pub async fn finished_step_is_found_by_path(store: &dyn Store, _: Clock) {
    let mut journal = JournalBuilder::new(1);
    store.create(journal.create("one")).await.unwrap();
    let events = [step_finished("steps/0", "a"), step_finished("steps/1", "b")];
    store.append(journal.batch(events)).await.unwrap();
    let path = |path| Path::new(path).unwrap();
    let entry = store
        .finished_event(journal.session, path("steps/1"), 0)
        .await
        .unwrap();
    assert_eq!(entry.event, step_finished("steps/1", "b"));
    for (path, revision) in [(path("steps/2"), 0), (path("steps/1"), 1)] {
        let missing = store
            .finished_event(journal.session, path, revision)
            .await
            .unwrap_err();
        assert_eq!(missing.kind(), Kind::Damaged);
    }
}

/// The store returns the latest one.
pub async fn latest_folded_state_is_stored(store: &dyn Store, _: Clock) {
    let mut journal = JournalBuilder::new(1);
    store.create(journal.create("one")).await.unwrap();
    assert_eq!(store.cached_state(journal.session).await.unwrap(), None);
    for body in ["{}", "{\"n\":1}"] {
        let mut batch = journal.batch([step_started("steps/0")]);
        let folded = CachedState {
            head: batch.head(),
            version: 1,
            body: body.into(),
        };
        batch.cached_state = Some(folded.clone());
        store.append(batch).await.unwrap();
        assert_eq!(
            store.cached_state(journal.session).await.unwrap(),
            Some(folded)
        );
    }
    store
        .append(journal.batch([step_started("steps/1")]))
        .await
        .unwrap();
    assert_eq!(
        store
            .cached_state(journal.session)
            .await
            .unwrap()
            .unwrap()
            .body,
        "{\"n\":1}"
    );
}

/// The same bytes are the same blob.
pub async fn blobs_are_stored_by_content(store: &dyn Store, _: Clock) {
    let digest = store.put(b"some long value".to_vec()).await.unwrap();
    assert_eq!(
        store.put(b"some long value".to_vec()).await.unwrap(),
        digest
    );
    assert_eq!(digest, Digest::of(b"some long value"));
    assert_eq!(store.get(digest).await.unwrap(), b"some long value");
    assert_eq!(store.digests().await.unwrap(), [digest]);
    let empty = store.put(Vec::new()).await.unwrap();
    assert_eq!(store.get(empty).await.unwrap(), b"");
}

/// P8: it cannot be listed, appended to or resumed, but it can still be read.
pub async fn discarded_session_is_hidden_and_fenced(store: &dyn Store, clock: Clock) {
    let (mut journal, mut other) = (JournalBuilder::new(1), JournalBuilder::new(2));
    store.create(journal.create("one")).await.unwrap();
    store.create(other.create("two")).await.unwrap();
    clock.advance(5000);
    let seen = store.lease(journal.session).await.unwrap();
    store.discard(journal.session, Some(seen)).await.unwrap();
    let gone = Error::NoSession(journal.session);
    let listed = store.list(Filter::default()).await.unwrap();
    let listed: Vec<_> = listed.into_iter().map(|found| found.unwrap().id).collect();
    assert_eq!(listed, [other.session]);
    let refused = store
        .append(journal.clone().batch([step_started("steps/0")]))
        .await;
    assert_eq!(refused.unwrap_err().kind(), Kind::Fenced);
    let seen = store.lease(journal.session).await.unwrap();
    assert_eq!(seen.owner, None);
    assert_eq!(store.acquire(seen, owner(8), TTL).await, Err(gone.clone()));
    let message = stop(StopMode::Now);
    assert_eq!(
        store.post(journal.session, Timestamp(1), message).await,
        Err(gone.clone())
    );
    assert_eq!(store.discard(journal.session, None).await, Err(gone));
    let read = store
        .read(journal.session, Head::genesis(journal.session), 10)
        .await
        .unwrap();
    assert_eq!(read.len(), 2);
    let discarded = TrashedSession {
        session: journal.session,
        name: Some(Name::new("one").unwrap()),
        at: clock.now(),
    };
    assert_eq!(store.list_trash().await.unwrap(), [Ok(discarded)]);
    assert_eq!(store.examine().await.unwrap(), []);
}

/// Under its old name, or under another one if the old name was assigned in the meantime.
pub async fn discarded_session_can_be_restored(store: &dyn Store, _: Clock) {
    let (mut journal, mut other) = (JournalBuilder::new(1), JournalBuilder::new(2));
    let seen = store.create(journal.create("one")).await.unwrap();
    store.discard(journal.session, Some(seen)).await.unwrap();
    store.restore(journal.session, None).await.unwrap();
    assert_eq!(store.list_trash().await.unwrap(), []);
    assert_eq!(
        store.restore(journal.session, None).await,
        Err(Error::NoSession(journal.session))
    );
    let seen = store.lease(journal.session).await.unwrap();
    store.discard(journal.session, Some(seen)).await.unwrap();
    let name = |name| Name::new(name).unwrap();
    store.create(other.create("one")).await.unwrap();
    assert_eq!(
        store.restore(journal.session, None).await,
        Err(Error::NameTaken(name("one")))
    );
    store
        .restore(journal.session, Some(name("one-2")))
        .await
        .unwrap();
    let summary = store.summary(journal.session).await.unwrap();
    assert_eq!((summary.name, summary.head), (name("one-2"), journal.head));
    let seen = store.lease(journal.session).await.unwrap();
    journal.run = store.acquire(seen, owner(8), TTL).await.unwrap().run;
    store
        .append(journal.batch([step_started("steps/0")]))
        .await
        .unwrap();
    assert_eq!(store.list(Filter::default()).await.unwrap().len(), 2);
}

/// A caller whose lease is out of date must read it again.
pub async fn changed_session_is_not_discarded(store: &dyn Store, clock: Clock) {
    let mut journal = JournalBuilder::new(1);
    let seen = store.create(journal.create("one")).await.unwrap();
    clock.advance(60_000);
    store.acquire(seen.clone(), owner(8), TTL).await.unwrap();
    let refused = store.discard(journal.session, Some(seen)).await;
    assert_eq!(refused, Err(Error::LeaseChanged(journal.session)));
    assert_eq!(store.list(Filter::default()).await.unwrap().len(), 1);
    let unknown = JournalBuilder::new(9).session;
    assert_eq!(
        store.discard(unknown, None).await,
        Err(Error::NoSession(unknown))
    );
}

/// P8: only a session in the trash can be destroyed.
pub async fn destroying_leaves_nothing(store: &dyn Store, _: Clock) {
    let (mut journal, mut other) = (JournalBuilder::new(1), JournalBuilder::new(2));
    let seen = store.create(journal.create("one")).await.unwrap();
    store.create(other.create("two")).await.unwrap();
    let gone = Error::NoSession(journal.session);
    assert_eq!(store.destroy(journal.session).await, Err(gone.clone()));
    assert_eq!(store.list(Filter::default()).await.unwrap().len(), 2);
    store.discard(journal.session, Some(seen)).await.unwrap();
    store.destroy(journal.session).await.unwrap();
    assert_eq!(store.summary(journal.session).await, Err(gone.clone()));
    assert_eq!(
        store.append(journal.batch([step_started("steps/1")])).await,
        Err(gone.clone())
    );
    assert_eq!(store.restore(journal.session, None).await, Err(gone));
    assert_eq!(store.list_trash().await.unwrap(), []);
    assert_eq!(store.list(Filter::default()).await.unwrap().len(), 1);
    assert_eq!(store.examine().await.unwrap(), []);
    store
        .create(JournalBuilder::new(3).create("one"))
        .await
        .unwrap();
}

/// P8: keeps blobs that are referenced, and young ones that may be referenced soon.
pub async fn only_old_unreferenced_blobs_are_swept(store: &dyn Store, clock: Clock) {
    let stored = store.put(b"referred to".to_vec()).await.unwrap();
    let old = store.put(b"forgotten".to_vec()).await.unwrap();
    let again = store.put(b"put again".to_vec()).await.unwrap();
    clock.advance(5000);
    let before = clock.now();
    store.put(b"put again".to_vec()).await.unwrap();
    let young = store.put(b"just put".to_vec()).await.unwrap();
    let swept = store.sweep([stored].into(), before).await.unwrap();
    assert_eq!(swept, Swept { blobs: 1, bytes: 9 });
    assert_eq!(store.get(old).await, Err(Error::NoBlob(old)));
    for digest in [stored, again, young] {
        store.get(digest).await.unwrap();
    }
}

/// Oldest first, by session, and unchanged.
pub async fn checkpoints_are_stored_until_deleted(store: &dyn Store, clock: Clock) {
    let sessions = [
        JournalBuilder::new(1).session,
        JournalBuilder::new(2).session,
    ];
    let mut stored = Vec::new();
    for (n, session) in [(1, sessions[0]), (2, sessions[1]), (3, sessions[0])] {
        clock.advance(1000);
        let manifest = checkpoint(session, clock.now());
        // The first call creates the key; the keys of later calls are ignored.
        store
            .put_checkpoint(manifest.clone(), [n; 32])
            .await
            .unwrap();
        stored.push(manifest);
    }
    let all = |found: Vec<Result<Manifest, Error>>| -> Vec<Manifest> {
        found.into_iter().map(Result::unwrap).collect()
    };
    assert_eq!(all(store.list_checkpoints(None).await.unwrap()), stored);
    let of_one = store.list_checkpoints(Some(sessions[0])).await.unwrap();
    assert_eq!(all(of_one), [stored[0].clone(), stored[2].clone()]);
    let name = |manifest: &Manifest| (manifest.session, manifest.id);
    let names: Vec<_> = stored.iter().map(name).collect();
    assert_eq!(store.list_checkpoint_ids(None).await.unwrap(), names);
    let of_one = store.list_checkpoint_ids(Some(sessions[0])).await.unwrap();
    assert_eq!(of_one, [names[0], names[2]]);
    let one = |manifest: &Manifest| store.get_checkpoint(manifest.session, manifest.id);
    assert_eq!(one(&stored[2]).await.unwrap().as_ref(), Some(&stored[2]));
    for _ in 0..2 {
        store
            .delete_checkpoint(sessions[0], stored[0].id)
            .await
            .unwrap();
    }
    assert_eq!(
        all(store.list_checkpoints(None).await.unwrap()),
        stored[1..]
    );
    assert_eq!(store.list_checkpoint_ids(None).await.unwrap(), names[1..]);
    assert_eq!(one(&stored[0]).await.unwrap(), None);
    assert_eq!(
        store
            .get_checkpoint(sessions[1], stored[2].id)
            .await
            .unwrap(),
        None
    );
}

/// The store returns an error, not an empty answer.
pub async fn missing_session_or_blob_is_an_error(store: &dyn Store, _: Clock) {
    let mut journal = JournalBuilder::new(1);
    let missing = Error::NoSession(journal.session);
    assert_eq!(store.summary(journal.session).await, Err(missing.clone()));
    assert_eq!(store.lease(journal.session).await, Err(missing.clone()));
    assert_eq!(
        store.read(journal.session, journal.head, 1).await,
        Err(missing.clone())
    );
    assert_eq!(
        store.append(journal.batch([step_started("steps/0")])).await,
        Err(missing.clone())
    );
    assert_eq!(
        store.heartbeat(journal.session, Run(1), TTL).await,
        Err(missing.clone())
    );
    let message = stop(StopMode::Boundary);
    assert_eq!(
        store.post(journal.session, Timestamp(1), message).await,
        Err(missing)
    );
    let digest = Digest::of(b"nothing");
    assert_eq!(store.get(digest).await, Err(Error::NoBlob(digest)));
}

/// Group commit mixes the batches of several writers, not their journals; refusing one batch does
/// not undo the others.
pub async fn concurrent_sessions_do_not_interfere(store: &dyn Store, _: Clock) {
    let mut journals: Vec<JournalBuilder> = (0..16).map(JournalBuilder::new).collect();
    for (n, journal) in journals.iter_mut().enumerate() {
        store
            .create(journal.create(&format!("session-{n}")))
            .await
            .unwrap();
    }
    for round in 0..5 {
        let mut writes = Vec::new();
        for (n, journal) in journals.iter_mut().enumerate() {
            let mut batch = journal
                .clone()
                .batch([step_started(&format!("steps/{round}"))]);
            if n % 4 == 3 {
                batch.run = Run(9);
            } else {
                journal.head = batch.head();
            }
            writes.push(store.append(batch));
        }
        let mut fenced = 0;
        for outcome in join_all(writes).await {
            fenced += u32::from(outcome.is_err_and(|error| error.kind() == Kind::Fenced));
        }
        assert_eq!(fenced, 4);
    }
    for journal in &journals {
        let entries = store
            .read(journal.session, Head::genesis(journal.session), 100)
            .await
            .unwrap();
        assert_eq!(entries.last().unwrap().head(), journal.head);
    }
}

/// Polls all futures together, so that their appends are queued at the same time.
async fn join_all<F: Future + Unpin>(mut futures: Vec<F>) -> Vec<F::Output> {
    let mut done: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (slot, future) in done.iter_mut().zip(&mut futures) {
            if slot.is_none()
                && let std::task::Poll::Ready(output) = std::pin::Pin::new(future).poll(context)
            {
                *slot = Some(output);
            }
        }
        if done.iter().all(Option::is_some) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    done.into_iter().flatten().collect()
}
