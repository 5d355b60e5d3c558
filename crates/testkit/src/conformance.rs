//! The suite that every store passes, the one in memory included. `conformance!(make)` turns each
//! case into a test; `make` gets a clock and returns an empty
//! store, with whatever must live as long as the store does.

use std::sync::Arc;

use segno_core::checkpoint::Manifest;
use segno_core::digest::Digest;
use segno_core::error::{Diagnose, Kind};
use segno_core::id::Name;
use segno_core::journal::{Head, Run, Seq, StopMode, StopRequested};
use segno_core::ports::Clock as _;
use segno_core::session::Status;
use segno_core::step::Path;
use segno_core::store::{Discarded, Error, Folded, Hold, Message, Store, Swept};
use segno_core::time::Timestamp;

use crate::clock::HandClock;
use crate::journal::{Pen, TTL, checkpoint, ended, finished, moved, owner, started};

/// Makes one test out of each case, for the store that `$make` returns.
#[macro_export]
macro_rules! conformance {
    ($make:expr) => {
        $crate::conformance!(
            @cases $make;
            what_is_appended_is_read_back,
            a_session_is_made_whole_or_not_at_all,
            names_are_unique,
            an_id_is_used_once,
            records_are_read_as_they_were_written,
            an_old_run_cannot_write,
            an_old_run_cannot_renew_or_release,
            a_wrong_head_is_refused,
            the_same_batch_again_changes_nothing,
            a_session_that_is_moved_has_its_folder_with_the_entry,
            a_step_is_never_finished_twice,
            one_of_many_askers_is_granted,
            a_heartbeat_after_the_look_keeps_the_lease,
            a_release_ends_the_hold,
            leases_run_out_by_the_clock_of_the_store,
            messages_wait_until_they_are_taken,
            reading_goes_on_from_any_head,
            reading_from_a_false_head_is_noticed,
            a_finished_step_is_found_by_its_path,
            a_folded_state_is_kept,
            blobs_are_kept_by_content,
            what_is_thrown_away_is_hidden_and_fenced,
            what_is_thrown_away_can_be_had_back,
            a_session_that_changed_is_not_thrown_away,
            destroying_leaves_nothing,
            only_old_blobs_that_nobody_keeps_are_swept,
            checkpoints_are_kept_until_they_are_let_go,
            what_does_not_exist_is_said_to_be_missing,
            many_sessions_do_not_disturb_each_other,
        );
    };
    (@cases $make:expr; $($case:ident,)*) => {
        $(
            #[tokio::test]
            async fn $case() {
                let clock = ::std::sync::Arc::new($crate::clock::HandClock::default());
                let (store, _kept) = ($make)(clock.clone());
                $crate::conformance::$case(&store, clock).await;
            }
        )*
    };
}

type Clock = Arc<HandClock>;

/// P1: an entry that was acknowledged is there, in order.
pub async fn what_is_appended_is_read_back(store: &dyn Store, _: Clock) {
    let mut pen = Pen::new(1);
    store.create(pen.create("one")).await.unwrap();
    store.append(pen.batch([started("steps/0")])).await.unwrap();
    store
        .append(pen.batch([finished("steps/0", "answer"), started("steps/1")]))
        .await
        .unwrap();
    let entries = store
        .read(pen.session, Head::genesis(pen.session), 100)
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
    assert_eq!(entries[3].event, finished("steps/0", "answer"));
    assert_eq!(store.summary(pen.session).await.unwrap().head, pen.head);
    assert_eq!(store.entry(pen.session, Seq(4)).await.unwrap(), entries[3]);
}

/// A refused creation leaves no trace.
pub async fn a_session_is_made_whole_or_not_at_all(store: &dyn Store, _: Clock) {
    let mut pen = Pen::new(1);
    let mut new = pen.create("one");
    new.batch.expected = Pen::new(2).head;
    new.batch.records.push(new.batch.records[0].clone());
    new.batch.run = Run(1);
    let broken = Pen::new(1).batch([finished("steps/0", "a"), finished("steps/0", "b")]);
    new.batch.records.extend(broken.records);
    assert!(store.create(new).await.is_err());
    assert_eq!(store.list().await.unwrap(), []);
    assert_eq!(
        store.summary(pen.session).await,
        Err(Error::NoSession(pen.session))
    );
}

/// A name leads to one session.
pub async fn names_are_unique(store: &dyn Store, _: Clock) {
    store.create(Pen::new(1).create("one")).await.unwrap();
    let new = Pen::new(2).create("one");
    let name = new.name.clone();
    assert_eq!(store.create(new).await, Err(Error::NameTaken(name)));
    assert_eq!(store.list().await.unwrap().len(), 1);
}

/// Also by what is in the trash: it may come back.
pub async fn an_id_is_used_once(store: &dyn Store, _: Clock) {
    let mut pen = Pen::new(1);
    let seen = store.create(pen.create("one")).await.unwrap();
    let exists = Error::Exists(pen.session);
    assert_eq!(
        store.create(Pen::new(1).create("two")).await,
        Err(exists.clone())
    );
    store.discard(pen.session, Some(seen)).await.unwrap();
    assert_eq!(store.create(Pen::new(1).create("two")).await, Err(exists));
    store.destroy(pen.session).await.unwrap();
    store.create(Pen::new(1).create("two")).await.unwrap();
}

/// The very bytes that the hashes are over, verified like the entries.
pub async fn records_are_read_as_they_were_written(store: &dyn Store, _: Clock) {
    let mut pen = Pen::new(1);
    let new = pen.create("one");
    let mut written = new.batch.records.clone();
    store.create(new).await.unwrap();
    let batch = pen.batch([started("steps/0"), finished("steps/0", "a")]);
    written.extend(batch.records.clone());
    store.append(batch).await.unwrap();
    let genesis = Head::genesis(pen.session);
    assert_eq!(
        store.records(pen.session, genesis, 100).await.unwrap(),
        written
    );
    let after = written[0].head();
    assert_eq!(
        store.records(pen.session, after, 2).await.unwrap(),
        written[1..3]
    );
    let error = store.records(pen.session, pen.head, 1).await.unwrap();
    assert_eq!(error, []);
    let mut false_head = after;
    false_head.hash = Digest::of(b"something else");
    let error = store.records(pen.session, false_head, 9).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Damaged);
}

/// P3, in its plainest form.
pub async fn an_old_run_cannot_write(store: &dyn Store, _: Clock) {
    let mut old = Pen::new(1);
    let lease = store.create(old.create("one")).await.unwrap();
    let mut new = Pen {
        run: Run(2),
        ..old.clone()
    };
    assert_eq!(
        store.acquire(lease, owner(8), TTL).await.unwrap().run,
        Run(2)
    );
    let refused = store
        .append(old.clone().batch([started("steps/0")]))
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), Kind::Fenced);
    store.append(new.batch([started("steps/0")])).await.unwrap();
    let refused = store
        .append(old.batch([started("steps/0")]))
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
    assert_eq!(entries.len(), 3, "nothing of the old run's writes is there");
}

/// A heartbeat that comes too late says so; a release that comes too late does nothing.
pub async fn an_old_run_cannot_renew_or_release(store: &dyn Store, _: Clock) {
    let mut pen = Pen::new(1);
    let lease = store.create(pen.create("one")).await.unwrap();
    store.acquire(lease, owner(8), TTL).await.unwrap();
    let late = store.heartbeat(pen.session, Run(1), TTL).await.unwrap_err();
    assert_eq!(late.kind(), Kind::Fenced);
    store.release(pen.session, Run(1)).await.unwrap();
    assert_eq!(
        store.lease(pen.session).await.unwrap().owner,
        Some(owner(8))
    );
}

/// A writer that lost count is stopped.
pub async fn a_wrong_head_is_refused(store: &dyn Store, _: Clock) {
    let mut pen = Pen::new(1);
    store.create(pen.create("one")).await.unwrap();
    let mut behind = pen.clone();
    store.append(pen.batch([started("steps/0")])).await.unwrap();
    let refused = store
        .append(behind.batch([started("steps/1")]))
        .await
        .unwrap_err();
    assert!(
        matches!(refused, Error::WrongHead { found: Seq(3), .. }),
        "{refused}"
    );
}

/// An append whose outcome its writer did not learn may be repeated.
pub async fn the_same_batch_again_changes_nothing(store: &dyn Store, _: Clock) {
    let mut pen = Pen::new(1);
    store.create(pen.create("one")).await.unwrap();
    let batch = pen.batch([started("steps/0")]);
    store.append(batch.clone()).await.unwrap();
    store.append(batch).await.unwrap();
    assert_eq!(store.summary(pen.session).await.unwrap().head, pen.head);
    store
        .append(pen.batch([finished("steps/0", "answer")]))
        .await
        .unwrap();
}

/// The folder changes with the entry that says so, or not at all; whoever asks sees both or neither.
pub async fn a_session_that_is_moved_has_its_folder_with_the_entry(store: &dyn Store, _: Clock) {
    let mut pen = Pen::new(1);
    let seen = store.create(pen.create("one")).await.unwrap();
    store.create(Pen::new(2).create("two")).await.unwrap();
    let folder = async || store.summary(pen.session).await.unwrap().workspace;
    let refused = pen.clone().batch([moved("/fenced")]);
    let lease = store.acquire(seen, owner(8), TTL).await.unwrap();
    let fenced = store.append(refused).await.unwrap_err();
    assert_eq!(fenced.kind(), Kind::Fenced);
    assert_eq!(folder().await, "/work");
    let mut next = Pen {
        run: lease.run,
        ..pen.clone()
    };
    let batch = next.batch([moved("/elsewhere")]);
    store.append(batch.clone()).await.unwrap();
    assert_eq!(folder().await, "/elsewhere");
    store.append(batch).await.unwrap();
    store
        .append(next.batch([started("steps/0")]))
        .await
        .unwrap();
    assert_eq!(folder().await, "/elsewhere");
    let listed = store.list().await.unwrap().into_iter();
    let mut folders: Vec<String> = listed.map(|summary| summary.unwrap().workspace).collect();
    folders.sort();
    assert_eq!(folders, ["/elsewhere", "/work"]);
}

/// P7: the store itself refuses.
pub async fn a_step_is_never_finished_twice(store: &dyn Store, _: Clock) {
    let mut pen = Pen::new(1);
    store.create(pen.create("one")).await.unwrap();
    store
        .append(pen.batch([started("steps/0"), finished("steps/0", "a")]))
        .await
        .unwrap();
    let before = pen.clone();
    let refused = store.append(pen.batch([finished("steps/0", "b")])).await;
    assert_eq!(refused, Err(Error::FinishedTwice(pen.session)));
    pen = before;
    store
        .append(pen.batch([finished("steps/1", "c")]))
        .await
        .unwrap();
}

/// P3: comparing and setting is one act.
pub async fn one_of_many_askers_is_granted(store: &dyn Store, clock: Clock) {
    let mut pen = Pen::new(1);
    let seen = store.create(pen.create("one")).await.unwrap();
    clock.turn(60_000);
    let mut granted = 0;
    for asker in 0..20 {
        match store.acquire(seen.clone(), owner(asker), TTL).await {
            Ok(lease) => granted += u32::from(lease.run == Run(2)),
            Err(error) => assert_eq!(error, Error::Outrun(pen.session)),
        }
    }
    assert_eq!(granted, 1);
}

/// A late sign of life before the takeover cancels it.
pub async fn a_heartbeat_after_the_look_keeps_the_lease(store: &dyn Store, clock: Clock) {
    let mut pen = Pen::new(1);
    store.create(pen.create("one")).await.unwrap();
    clock.turn(60_000);
    let seen = store.lease(pen.session).await.unwrap();
    assert!(seen.remaining.is_zero());
    store.heartbeat(pen.session, Run(1), TTL).await.unwrap();
    let refused = store.acquire(seen, owner(8), TTL).await;
    assert_eq!(refused, Err(Error::Outrun(pen.session)));
    store.append(pen.batch([started("steps/0")])).await.unwrap();
}

/// The last entry of a run and its release are one act.
pub async fn a_release_ends_the_hold(store: &dyn Store, _: Clock) {
    let mut pen = Pen::new(1);
    store.create(pen.create("one")).await.unwrap();
    let mut batch = pen.batch([ended(Status::Paused)]);
    batch.lease = Hold::Release;
    store.append(batch).await.unwrap();
    let lease = store.lease(pen.session).await.unwrap();
    assert_eq!((lease.owner, lease.run), (None, Run(1)));
    assert_eq!(
        store.summary(pen.session).await.unwrap().status,
        Status::Paused
    );
}

/// What remains is counted by one clock.
pub async fn leases_run_out_by_the_clock_of_the_store(store: &dyn Store, clock: Clock) {
    let mut pen = Pen::new(1);
    store.create(pen.create("one")).await.unwrap();
    assert_eq!(store.lease(pen.session).await.unwrap().remaining, TTL);
    clock.turn(29_000);
    assert_eq!(
        store.lease(pen.session).await.unwrap().remaining.as_secs(),
        1
    );
    store.append(pen.batch([started("steps/0")])).await.unwrap();
    assert_eq!(
        store.lease(pen.session).await.unwrap().remaining,
        TTL,
        "an append renews"
    );
    clock.turn(31_000);
    assert!(store.lease(pen.session).await.unwrap().remaining.is_zero());
    store
        .append(pen.batch([finished("steps/0", "late")]))
        .await
        .unwrap();
}

fn stop(mode: StopMode) -> Message {
    Message::Stop(StopRequested {
        by: "a person".into(),
        mode,
        status: Status::Cancelled,
        reason: None,
        checkpoint: None,
    })
}

/// A wish is taken in the transaction that answers it.
pub async fn messages_wait_until_they_are_taken(store: &dyn Store, _: Clock) {
    let mut pen = Pen::new(1);
    store.create(pen.create("one")).await.unwrap();
    let wish = stop(StopMode::Now);
    store
        .post(pen.session, Timestamp(1), wish.clone())
        .await
        .unwrap();
    let pending = store.pending(pen.session).await.unwrap();
    assert_eq!(
        pending.iter().map(|(_, wish)| wish).collect::<Vec<_>>(),
        [&wish]
    );
    let mut batch = pen.batch([ended(Status::Cancelled)]);
    batch.taken = vec![pending[0].0];
    store.append(batch).await.unwrap();
    assert_eq!(store.pending(pen.session).await.unwrap(), []);
}

/// A reader that has some goes on from there.
pub async fn reading_goes_on_from_any_head(store: &dyn Store, _: Clock) {
    let mut pen = Pen::new(1);
    store.create(pen.create("one")).await.unwrap();
    for step in 0..10 {
        let path = format!("steps/{step}");
        store
            .append(pen.batch([started(&path), finished(&path, "x")]))
            .await
            .unwrap();
    }
    let (mut head, mut read) = (Head::genesis(pen.session), 0);
    loop {
        let entries = store.read(pen.session, head, 4).await.unwrap();
        read += entries.len();
        match entries.last() {
            Some(last) if entries.len() == 4 => head = last.head(),
            _ => break,
        }
    }
    assert_eq!(read, 22);
    assert_eq!(store.read(pen.session, pen.head, 4).await.unwrap(), []);
}

/// P9: what a reader believes is compared, too.
pub async fn reading_from_a_false_head_is_noticed(store: &dyn Store, _: Clock) {
    let mut pen = Pen::new(1);
    store.create(pen.create("one")).await.unwrap();
    store.append(pen.batch([started("steps/0")])).await.unwrap();
    let entries = store
        .read(pen.session, Head::genesis(pen.session), 2)
        .await
        .unwrap();
    let mut false_head = entries[1].head();
    false_head.hash = Digest::of(b"something else");
    let error = store.read(pen.session, false_head, 10).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Damaged);
    assert!(
        error.to_string().contains(&pen.session.to_string()),
        "{error}"
    );
}

/// The answer of a step can be had without reading the whole journal.
pub async fn a_finished_step_is_found_by_its_path(store: &dyn Store, _: Clock) {
    let mut pen = Pen::new(1);
    store.create(pen.create("one")).await.unwrap();
    let events = [finished("steps/0", "a"), finished("steps/1", "b")];
    store.append(pen.batch(events)).await.unwrap();
    let path = |path| Path::new(path).unwrap();
    let entry = store
        .finished(pen.session, path("steps/1"), 0)
        .await
        .unwrap();
    assert_eq!(entry.event, finished("steps/1", "b"));
    for (path, revision) in [(path("steps/2"), 0), (path("steps/1"), 1)] {
        let missing = store
            .finished(pen.session, path, revision)
            .await
            .unwrap_err();
        assert_eq!(missing.kind(), Kind::Damaged);
    }
}

/// The newest one is returned.
pub async fn a_folded_state_is_kept(store: &dyn Store, _: Clock) {
    let mut pen = Pen::new(1);
    store.create(pen.create("one")).await.unwrap();
    assert_eq!(store.folded(pen.session).await.unwrap(), None);
    for body in ["{}", "{\"n\":1}"] {
        let mut batch = pen.batch([started("steps/0")]);
        let folded = Folded {
            head: batch.head(),
            version: 1,
            body: body.into(),
        };
        batch.folded = Some(folded.clone());
        store.append(batch).await.unwrap();
        assert_eq!(store.folded(pen.session).await.unwrap(), Some(folded));
    }
    store.append(pen.batch([started("steps/1")])).await.unwrap();
    assert_eq!(
        store.folded(pen.session).await.unwrap().unwrap().body,
        "{\"n\":1}"
    );
}

/// The same bytes are the same blob.
pub async fn blobs_are_kept_by_content(store: &dyn Store, _: Clock) {
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

/// P8: gone for everyone who lists, writes or resumes, and still there to be read.
pub async fn what_is_thrown_away_is_hidden_and_fenced(store: &dyn Store, clock: Clock) {
    let (mut pen, mut other) = (Pen::new(1), Pen::new(2));
    store.create(pen.create("one")).await.unwrap();
    store.create(other.create("two")).await.unwrap();
    clock.turn(5000);
    let seen = store.lease(pen.session).await.unwrap();
    store.discard(pen.session, Some(seen)).await.unwrap();
    let gone = Error::NoSession(pen.session);
    let listed = store.list().await.unwrap();
    let listed: Vec<_> = listed.into_iter().map(|found| found.unwrap().id).collect();
    assert_eq!(listed, [other.session]);
    let refused = store.append(pen.clone().batch([started("steps/0")])).await;
    assert_eq!(refused.unwrap_err().kind(), Kind::Fenced);
    let seen = store.lease(pen.session).await.unwrap();
    assert_eq!(seen.owner, None);
    assert_eq!(store.acquire(seen, owner(8), TTL).await, Err(gone.clone()));
    let wish = stop(StopMode::Now);
    assert_eq!(
        store.post(pen.session, Timestamp(1), wish).await,
        Err(gone.clone())
    );
    assert_eq!(store.discard(pen.session, None).await, Err(gone));
    let read = store
        .read(pen.session, Head::genesis(pen.session), 10)
        .await
        .unwrap();
    assert_eq!(read.len(), 2);
    let discarded = Discarded {
        session: pen.session,
        name: Some(Name::new("one").unwrap()),
        at: clock.now(),
    };
    assert_eq!(store.discarded().await.unwrap(), [Ok(discarded)]);
    assert_eq!(store.examine().await.unwrap(), []);
}

/// Under its name, or under another if that was given away meanwhile.
pub async fn what_is_thrown_away_can_be_had_back(store: &dyn Store, _: Clock) {
    let (mut pen, mut other) = (Pen::new(1), Pen::new(2));
    let seen = store.create(pen.create("one")).await.unwrap();
    store.discard(pen.session, Some(seen)).await.unwrap();
    store.restore(pen.session, None).await.unwrap();
    assert_eq!(store.discarded().await.unwrap(), []);
    assert_eq!(
        store.restore(pen.session, None).await,
        Err(Error::NoSession(pen.session))
    );
    let seen = store.lease(pen.session).await.unwrap();
    store.discard(pen.session, Some(seen)).await.unwrap();
    let name = |name| Name::new(name).unwrap();
    store.create(other.create("one")).await.unwrap();
    assert_eq!(
        store.restore(pen.session, None).await,
        Err(Error::NameTaken(name("one")))
    );
    store
        .restore(pen.session, Some(name("one-2")))
        .await
        .unwrap();
    let summary = store.summary(pen.session).await.unwrap();
    assert_eq!((summary.name, summary.head), (name("one-2"), pen.head));
    let seen = store.lease(pen.session).await.unwrap();
    pen.run = store.acquire(seen, owner(8), TTL).await.unwrap().run;
    store.append(pen.batch([started("steps/0")])).await.unwrap();
    assert_eq!(store.list().await.unwrap().len(), 2);
}

/// Whoever looked before someone else came must look again.
pub async fn a_session_that_changed_is_not_thrown_away(store: &dyn Store, clock: Clock) {
    let mut pen = Pen::new(1);
    let seen = store.create(pen.create("one")).await.unwrap();
    clock.turn(60_000);
    store.acquire(seen.clone(), owner(8), TTL).await.unwrap();
    let refused = store.discard(pen.session, Some(seen)).await;
    assert_eq!(refused, Err(Error::Outrun(pen.session)));
    assert_eq!(store.list().await.unwrap().len(), 1);
    let nobody = Pen::new(9).session;
    assert_eq!(
        store.discard(nobody, None).await,
        Err(Error::NoSession(nobody))
    );
}

/// P8: only what is in the trash can be destroyed.
pub async fn destroying_leaves_nothing(store: &dyn Store, _: Clock) {
    let (mut pen, mut other) = (Pen::new(1), Pen::new(2));
    let seen = store.create(pen.create("one")).await.unwrap();
    store.create(other.create("two")).await.unwrap();
    let gone = Error::NoSession(pen.session);
    assert_eq!(store.destroy(pen.session).await, Err(gone.clone()));
    assert_eq!(store.list().await.unwrap().len(), 2);
    store.discard(pen.session, Some(seen)).await.unwrap();
    store.destroy(pen.session).await.unwrap();
    assert_eq!(store.summary(pen.session).await, Err(gone.clone()));
    assert_eq!(
        store.append(pen.batch([started("steps/1")])).await,
        Err(gone.clone())
    );
    assert_eq!(store.restore(pen.session, None).await, Err(gone));
    assert_eq!(store.discarded().await.unwrap(), []);
    assert_eq!(store.list().await.unwrap().len(), 1);
    assert_eq!(store.examine().await.unwrap(), []);
    store.create(Pen::new(3).create("one")).await.unwrap();
}

/// P8: what someone refers to stays, and what someone may be about to refer to.
pub async fn only_old_blobs_that_nobody_keeps_are_swept(store: &dyn Store, clock: Clock) {
    let kept = store.put(b"referred to".to_vec()).await.unwrap();
    let old = store.put(b"forgotten".to_vec()).await.unwrap();
    let again = store.put(b"put again".to_vec()).await.unwrap();
    clock.turn(5000);
    let before = clock.now();
    store.put(b"put again".to_vec()).await.unwrap();
    let young = store.put(b"just put".to_vec()).await.unwrap();
    let swept = store.sweep([kept].into(), before).await.unwrap();
    assert_eq!(swept, Swept { blobs: 1, bytes: 9 });
    assert_eq!(store.get(old).await, Err(Error::NoBlob(old)));
    for digest in [kept, again, young] {
        store.get(digest).await.unwrap();
    }
}

/// Oldest first, by session, and as they were.
pub async fn checkpoints_are_kept_until_they_are_let_go(store: &dyn Store, clock: Clock) {
    let sessions = [Pen::new(1).session, Pen::new(2).session];
    let mut kept = Vec::new();
    for (n, session) in [(1, sessions[0]), (2, sessions[1]), (3, sessions[0])] {
        clock.turn(1000);
        let manifest = checkpoint(session, clock.now());
        // Whoever comes first makes the key; the others' keys count for nothing.
        store.keep(manifest.clone(), [n; 32]).await.unwrap();
        kept.push(manifest);
    }
    let all = |found: Vec<Result<Manifest, Error>>| -> Vec<Manifest> {
        found.into_iter().map(Result::unwrap).collect()
    };
    assert_eq!(all(store.kept(None).await.unwrap()), kept);
    let of_one = store.kept(Some(sessions[0])).await.unwrap();
    assert_eq!(all(of_one), [kept[0].clone(), kept[2].clone()]);
    let name = |manifest: &Manifest| (manifest.session, manifest.id);
    let names: Vec<_> = kept.iter().map(name).collect();
    assert_eq!(store.names(None).await.unwrap(), names);
    let of_one = store.names(Some(sessions[0])).await.unwrap();
    assert_eq!(of_one, [names[0], names[2]]);
    let one = |manifest: &Manifest| store.one(manifest.session, manifest.id);
    assert_eq!(one(&kept[2]).await.unwrap().as_ref(), Some(&kept[2]));
    for _ in 0..2 {
        store.forget(sessions[0], kept[0].id).await.unwrap();
    }
    assert_eq!(all(store.kept(None).await.unwrap()), kept[1..]);
    assert_eq!(store.names(None).await.unwrap(), names[1..]);
    assert_eq!(one(&kept[0]).await.unwrap(), None);
    assert_eq!(store.one(sessions[1], kept[2].id).await.unwrap(), None);
}

/// No guess, no empty answer.
pub async fn what_does_not_exist_is_said_to_be_missing(store: &dyn Store, _: Clock) {
    let mut pen = Pen::new(1);
    let missing = Error::NoSession(pen.session);
    assert_eq!(store.summary(pen.session).await, Err(missing.clone()));
    assert_eq!(store.lease(pen.session).await, Err(missing.clone()));
    assert_eq!(
        store.read(pen.session, pen.head, 1).await,
        Err(missing.clone())
    );
    assert_eq!(
        store.append(pen.batch([started("steps/0")])).await,
        Err(missing.clone())
    );
    assert_eq!(
        store.heartbeat(pen.session, Run(1), TTL).await,
        Err(missing.clone())
    );
    let wish = stop(StopMode::Boundary);
    assert_eq!(
        store.post(pen.session, Timestamp(1), wish).await,
        Err(missing)
    );
    let digest = Digest::of(b"nothing");
    assert_eq!(store.get(digest).await, Err(Error::NoBlob(digest)));
}

/// Group commit mixes writers, not their journals; one refusal does not undo the others.
pub async fn many_sessions_do_not_disturb_each_other(store: &dyn Store, _: Clock) {
    let mut pens: Vec<Pen> = (0..16).map(Pen::new).collect();
    for (n, pen) in pens.iter_mut().enumerate() {
        store
            .create(pen.create(&format!("session-{n}")))
            .await
            .unwrap();
    }
    for round in 0..5 {
        let mut writes = Vec::new();
        for (n, pen) in pens.iter_mut().enumerate() {
            let mut batch = pen.clone().batch([started(&format!("steps/{round}"))]);
            if n % 4 == 3 {
                batch.run = Run(9);
            } else {
                pen.head = batch.head();
            }
            writes.push(store.append(batch));
        }
        let mut fenced = 0;
        for outcome in join_all(writes).await {
            fenced += u32::from(outcome.is_err_and(|error| error.kind() == Kind::Fenced));
        }
        assert_eq!(fenced, 4);
    }
    for pen in &pens {
        let entries = store
            .read(pen.session, Head::genesis(pen.session), 100)
            .await
            .unwrap();
        assert_eq!(entries.last().unwrap().head(), pen.head);
    }
}

/// Polls all of them together, so that their writes are waiting at the same time.
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
