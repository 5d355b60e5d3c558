//! Garbage collection: deletes nothing that is referenced, nothing at once, nothing under a writer.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use segno_core::snapshot::Swept;
use segno_core::snapshot::transfer::PartKind;
use segno_core::time::Timestamp;
use segno_snapshot::{Difference, Error, Request, SnapshotStore};

use crate::fixture::{FROZEN_CLOCK, Fixture, assert_same, noise, tree_state};

const HOUR: Duration = Duration::from_hours(1);

fn packs(fixture: &Fixture) -> usize {
    fs::read_dir(fixture.folder.path().join("store/packs"))
        .unwrap()
        .count()
}

/// The bytes of all packs and manifests.
fn stored(fixture: &Fixture) -> u64 {
    let length = |folder: &str| {
        let folder = fs::read_dir(fixture.folder.path().join(folder)).unwrap();
        let lengths = folder.map(|entry| entry.unwrap().metadata().unwrap().len());
        lengths.sum::<u64>()
    };
    length("store/packs") + length("store/manifests")
}

fn gc(fixture: &Fixture, hour: i64) -> Swept {
    fixture.store.gc(Timestamp(hour * 3_600_000), HOUR).unwrap()
}

#[test]
fn gc_deletes_unreferenced_data_after_grace() {
    let fixture = Fixture::new();
    fixture.write("a", noise(5000, 1));
    let first = fixture.capture().snapshot;
    fixture.write("a", noise(5000, 2));
    let second = fixture.capture().snapshot;
    assert_eq!(gc(&fixture, 1), Swept::default());
    fixture.store.remove(first).unwrap();
    assert!(matches!(
        fixture.store.remove(first),
        Err(Error::NoSnapshot(_))
    ));
    let thrown = gc(&fixture, 2);
    assert_eq!((thrown.waiting, thrown.deleted), (2, 0));
    let early = Timestamp(3 * 3_600_000 - 1);
    assert_eq!(
        fixture.store.gc(early, HOUR).unwrap(),
        Swept::default(),
        "still in the grace period, and announced before"
    );
    assert_eq!(packs(&fixture), 2);
    let before = stored(&fixture);
    let deleted = gc(&fixture, 3);
    let expected = Swept {
        deleted: 2,
        freed: before - stored(&fixture),
        ..Swept::default()
    };
    assert_eq!(deleted, expected);
    assert!(deleted.freed > 5000);
    assert_eq!(packs(&fixture), 1);
    assert_eq!(fixture.store.verify(second, &|_| {}).unwrap(), []);
    assert_eq!(
        fixture.store.read(second, Path::new("a")).unwrap(),
        noise(5000, 2)
    );
}

#[test]
fn trashed_content_is_stored_again() {
    let fixture = Fixture::new();
    fixture.write("a", noise(5000, 1));
    let first = fixture.capture().snapshot;
    fixture.store.remove(first).unwrap();
    gc(&fixture, 1);
    let again = fixture.capture();
    assert_eq!(again.snapshot, first);
    assert!(again.stored_bytes > 5000, "{again:?}");
    gc(&fixture, 5);
    gc(&fixture, 9);
    assert_eq!(packs(&fixture), 1);
    assert_eq!(fixture.store.verify(first, &|_| {}).unwrap(), []);
}

#[test]
fn backward_clock_deletes_nothing() {
    let fixture = Fixture::new();
    fixture.write("a", "a");
    let first = fixture.capture().snapshot;
    fixture.store.remove(first).unwrap();
    gc(&fixture, 100);
    assert_eq!(gc(&fixture, 1).deleted, 0);
    let sweep = |hour: i64| {
        let now = Timestamp(hour * 3_600_000);
        fixture.store.gc(now, Duration::ZERO).unwrap().deleted
    };
    assert_eq!(sweep(99), 0, "without a grace period, too");
    assert_eq!(sweep(100), 2);
}

#[test]
fn pending_pack_is_removed_after_grace() {
    let here = Fixture::new();
    let mut content = noise(5000, 1);
    here.write("a", &content);
    here.capture();
    content[100] ^= 1;
    here.write("a", &content);
    let snapshot = here.capture().snapshot;
    let there = Fixture::new();
    let received = |fixture: &Fixture| {
        let names = fs::read_dir(fixture.folder.path().join("store/packs")).unwrap();
        let mut paths = names.map(|entry| entry.unwrap().path());
        paths.find(|path| path.extension().is_some())
    };
    // Of the two packs, only the one with a patch cannot be verified alone.
    for (part, path) in &here.store.collect_parts(&[snapshot]).unwrap().parts {
        if part.kind == PartKind::Pack {
            let draft = there.store.new_draft().unwrap();
            fs::copy(path, &draft.path).unwrap();
            there.store.import_part(part, &draft).unwrap();
        }
    }
    let pending = fs::File::open(received(&there).unwrap()).unwrap();
    let arrived = Duration::from_hours(100);
    pending
        .set_modified(std::time::UNIX_EPOCH + arrived)
        .unwrap();
    for (now, grace, is_removed) in [
        (arrived.saturating_sub(HOUR), Duration::ZERO, false),
        (arrived + Duration::from_millis(3_599_999), HOUR, false),
        (arrived + HOUR, HOUR, true),
    ] {
        let now = Timestamp(i64::try_from(now.as_millis()).unwrap());
        there.store.gc(now, grace).unwrap();
        assert_eq!(received(&there).is_none(), is_removed, "{now:?}");
    }
}

#[test]
fn mostly_unreferenced_pack_is_rewritten() {
    let fixture = Fixture::new();
    for number in 0..10 {
        fixture.write(&format!("{number}"), noise(20_000, number));
    }
    let first = fixture.capture().snapshot;
    for number in 1..10 {
        fs::remove_file(fixture.at(format!("{number}"))).unwrap();
    }
    let second = fixture.capture().snapshot;
    fixture.store.remove(first).unwrap();
    assert_eq!(gc(&fixture, 1).compacted, 1);
    assert_eq!(gc(&fixture, 2).compacted, 0);
    let left: u64 = fs::read_dir(fixture.folder.path().join("store/packs"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(left < 25_000, "{left}");
    assert_eq!(fixture.store.verify(second, &|_| {}).unwrap(), []);
    assert_eq!(
        fixture.store.read(second, Path::new("0")).unwrap(),
        noise(20_000, 0)
    );
}

#[test]
fn many_small_packs_are_merged() {
    let fixture = Fixture::new();
    let mut taken = Vec::new();
    fixture.write("not small", noise(1_100_000, 1));
    taken.push(fixture.capture().snapshot);
    let small = |number: u64| {
        fixture.write(&format!("{number}"), noise(300, number));
        fixture.capture().snapshot
    };
    taken.extend((0..64).map(small));
    assert_eq!(gc(&fixture, 1), Swept::default());
    // A pack that goes anyway does not count: this one and its manifest.
    fixture.store.remove(small(64)).unwrap();
    let thrown = gc(&fixture, 1);
    assert_eq!((thrown.waiting, thrown.compacted), (2, 0));
    taken.push(small(65));
    assert_eq!(packs(&fixture), 67);
    let merged = gc(&fixture, 1);
    assert_eq!((merged.waiting, merged.compacted), (65, 65));
    assert_eq!(gc(&fixture, 2).deleted, 67);
    assert_eq!(packs(&fixture), 2);
    for snapshot in taken {
        assert_eq!(fixture.store.verify(snapshot, &|_| {}).unwrap(), []);
    }
}

#[test]
fn snapshots_outlive_their_parents() {
    let fixture = Fixture::new();
    for number in 0..40 {
        fixture.write(&format!("{number}"), noise(100, number));
    }
    let mut taken = Vec::new();
    // More than the longest chain.
    for round in 0..70_u64 {
        fixture.write("changing", noise(100, 1000 + round));
        taken.push((fixture.capture().snapshot, round));
    }
    let (newest, _) = *taken.last().unwrap();
    assert_eq!(fixture.store.verify(newest, &|_| {}).unwrap(), []);
    for (snapshot, _) in taken.iter().filter(|(_, round)| round % 3 != 0) {
        fixture.store.remove(*snapshot).unwrap();
    }
    gc(&fixture, 1);
    gc(&fixture, 3);
    for (snapshot, round) in taken.iter().filter(|(_, round)| round % 3 == 0) {
        assert_eq!(fixture.store.verify(*snapshot, &|_| {}).unwrap(), []);
        assert_eq!(
            fixture
                .store
                .read(*snapshot, Path::new("changing"))
                .unwrap(),
            noise(100, 1000 + round)
        );
    }
}

#[test]
fn gc_leaves_manifests_as_they_are() {
    for fixture in [Fixture::new(), Fixture::sealed()] {
        for number in 0..40 {
            fixture.write(&format!("{number}"), noise(100, number));
        }
        fixture.capture();
        fixture.write("7", "edited");
        fixture.capture();
        let manifests = || {
            let folder = fs::read_dir(fixture.folder.path().join("store/manifests")).unwrap();
            let files = folder.map(|entry| fs::read(entry.unwrap().path()).unwrap());
            files.collect::<std::collections::BTreeSet<_>>()
        };
        let before = manifests();
        assert_eq!(gc(&fixture, 1), Swept::default());
        assert_eq!(before.len(), 2);
        assert!(manifests() == before, "a manifest was written again");
    }
}

#[test]
fn unreadable_manifest_blocks_gc() {
    let fixture = Fixture::new();
    fixture.write("a", noise(500, 1));
    let first = fixture.capture().snapshot;
    fixture.write("a", noise(500, 2));
    let second = fixture.capture().snapshot;
    fixture.store.remove(first).unwrap();
    let path = fixture
        .folder
        .path()
        .join(format!("store/manifests/{second}"));
    let whole = fs::read(&path).unwrap();
    fs::write(&path, b"broken").unwrap();
    for hour in 1..4 {
        let refused = fixture.store.gc(Timestamp(hour * 3_600_000), HOUR);
        assert!(matches!(refused, Err(Error::Damaged { .. })));
    }
    fs::write(&path, whole).unwrap();
    assert_eq!(packs(&fixture), 2);
}

#[test]
fn pack_that_became_unreadable_is_not_deleted() {
    let fixture = Fixture::new();
    for number in 1..3 {
        fixture.write("a", noise(500, number));
        let snapshot = fixture.capture().snapshot;
        fixture.store.remove(snapshot).unwrap();
    }
    assert_eq!(gc(&fixture, 1).waiting, 4);
    let folder = fs::read_dir(fixture.folder.path().join("store/packs")).unwrap();
    let pack = folder.map(|entry| entry.unwrap().path()).next().unwrap();
    let mut bytes = fs::read(&pack).unwrap();
    let end = bytes.len() - 1;
    bytes[end] ^= 1;
    fs::write(&pack, bytes).unwrap();
    assert_eq!(gc(&fixture, 2).deleted, 3);
    assert!(pack.exists());
}

#[test]
fn concurrent_capture_and_gc_lose_nothing() {
    let fixture = Fixture::new();
    let root = fixture.folder.path().to_owned();
    let stop = AtomicBool::new(false);
    let swept = AtomicU64::new(0);
    let taken = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2_u64)
            .map(|writer| {
                let (root, swept) = (root.clone(), &swept);
                scope.spawn(move || {
                    // A store of its own, as another process would have.
                    let store = SnapshotStore::open(&root.join("store")).unwrap();
                    let work = root.join(format!("work-{writer}"));
                    fs::create_dir(&work).unwrap();
                    let mut taken = Vec::new();
                    for round in 0..1000_u64 {
                        // On a fast disk the writers could end before the store is free once.
                        if round >= 15 && swept.load(Ordering::Relaxed) >= 3 {
                            break;
                        }
                        // Content that recurs, shared by both writers.
                        for file in 0..5 {
                            fs::write(
                                work.join(format!("{file}")),
                                noise(4000, (round + file) % 6),
                            )
                            .unwrap();
                        }
                        let captured = store
                            .capture(&Request::new(&work, &FROZEN_CLOCK), &|_| {})
                            .unwrap();
                        if let Some(last) = taken
                            .last()
                            .filter(|last| **last != captured.snapshot && round % 2 == 0)
                        {
                            let _ = store.remove(*last);
                        }
                        taken.push(captured.snapshot);
                    }
                    (work, taken)
                })
            })
            .collect();
        let sweeper = scope.spawn(|| {
            let store = SnapshotStore::open(&root.join("store")).unwrap();
            let mut hour = 0;
            while !stop.load(Ordering::Relaxed) {
                hour += 2;
                let result = store.gc(Timestamp(hour * 3_600_000), HOUR).unwrap();
                swept.fetch_add(u64::from(!result.busy), Ordering::Relaxed);
            }
        });
        let taken: Vec<_> = writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .collect();
        stop.store(true, Ordering::Relaxed);
        sweeper.join().unwrap();
        assert!(swept.load(Ordering::Relaxed) >= 3);
        taken
    });
    gc(&fixture, 1_000_000);
    gc(&fixture, 2_000_000);
    let kept = fixture.store.snapshots().unwrap();
    assert!(!kept.is_empty());
    for snapshot in &kept {
        assert_eq!(fixture.store.verify(*snapshot, &|_| {}).unwrap(), []);
    }
    for (number, (work, taken)) in taken.iter().enumerate() {
        let last = taken.last().unwrap();
        if kept.contains(last) {
            let target = fixture.folder.path().join(format!("target-{number}"));
            fixture.restore(*last, &target);
            assert_same(&tree_state(&target), &tree_state(work));
        }
    }
}

#[test]
fn gc_during_a_capture_does_nothing() {
    let fixture = Fixture::new();
    fixture.write("a", noise(5000, 1));
    let first = fixture.capture().snapshot;
    fixture.store.remove(first).unwrap();
    fixture.write("b", noise(5000, 2));
    let work = fixture.work();
    let asked = AtomicBool::new(false);
    let sweep = |_| {
        let store = SnapshotStore::open(&fixture.folder.path().join("store")).unwrap();
        let swept = store.gc(Timestamp(1), Duration::ZERO).unwrap();
        assert_eq!(
            swept,
            Swept {
                busy: true,
                ..Swept::default()
            }
        );
        asked.store(true, Ordering::Relaxed);
    };
    let request = Request::new(&work, &FROZEN_CLOCK);
    let captured = fixture.store.capture(&request, &sweep).unwrap();
    assert!(asked.load(Ordering::Relaxed));
    assert!(!gc(&fixture, 1).busy);
    asked.store(false, Ordering::Relaxed);
    let options = segno_snapshot::Restore::default();
    fixture
        .store
        .restore(captured.snapshot, &fixture.target(), &options, &sweep)
        .unwrap();
    assert!(asked.load(Ordering::Relaxed));
}

#[test]
fn only_drafts_of_dead_processes_are_removed() {
    let fixture = Fixture::new();
    let drafts = fixture.folder.path().join("store/drafts");
    let dead = drafts.join("tmp.2147483646.00");
    let alive = drafts.join(format!("tmp.{}.00", std::process::id()));
    fs::write(&dead, "x").unwrap();
    fs::write(&alive, "x").unwrap();
    SnapshotStore::open(&fixture.folder.path().join("store")).unwrap();
    assert!(!dead.exists() && alive.exists());
}

#[test]
fn diff_and_size_are_reported() {
    let fixture = Fixture::new();
    fixture.write("same", noise(5000, 1));
    fixture.write("edited", "1");
    fixture.write("gone", "gone");
    fixture.write("becomes", "a file");
    fixture.write("mode", "mode");
    let first = fixture.capture().snapshot;
    fixture.write("edited", "2");
    fs::remove_file(fixture.at("gone")).unwrap();
    fs::remove_file(fixture.at("becomes")).unwrap();
    fixture.write("becomes/folder", "x");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(fixture.at("mode"), mode).unwrap();
    let second = fixture.capture().snapshot;
    let changes = fixture.store.diff(first, second).unwrap();
    let changes: Vec<_> = changes
        .iter()
        .map(|change| (change.path.to_str().unwrap(), change.what))
        .collect();
    let expected = [
        ("becomes", Difference::Type),
        ("becomes/folder", Difference::Added),
        ("edited", Difference::Content),
        ("gone", Difference::Removed),
        ("mode", Difference::Mode),
    ];
    assert_eq!(changes, expected);
    let size = fixture.store.size(second).unwrap();
    assert_eq!((size.files, size.logical), (4, 5000 + 1 + 4 + 1));
    assert!(
        size.shared >= 5000 && size.own > 0 && size.own < 100,
        "{size:?}"
    );
    assert!(matches!(
        fixture.store.read(second, Path::new("becomes")),
        Err(Error::NoFile { .. })
    ));
    assert!(matches!(
        fixture.store.read(second, Path::new("gone")),
        Err(Error::NoFile { .. })
    ));
}

#[test]
fn recapture_refreshes_the_snapshot() {
    let fixture = Fixture::new();
    fixture.write("a", "1");
    let snapshot = fixture.capture().snapshot;
    let attachments = [("paper".to_owned(), b"x".to_vec())];
    let paper = fixture.store.put_files(&attachments).unwrap();
    let long_ago = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let age = || {
        for name in [snapshot, paper] {
            let head = fixture
                .folder
                .path()
                .join("store/heads")
                .join(name.to_string());
            let head = fs::File::options().write(true).open(head).unwrap();
            head.set_modified(long_ago).unwrap();
        }
    };
    // The first repetition reads the file again, a later one knows everything.
    for _ in 0..3 {
        age();
        assert_eq!(fixture.capture().snapshot, snapshot);
        assert_eq!(fixture.store.put_files(&attachments).unwrap(), paper);
        let before = Timestamp(1_500_000_000_000);
        assert_eq!(fixture.store.unlist_except(&[], before).unwrap(), 0);
    }
    age();
    let unlist = |kept: &[_], before: i64| {
        let gone = fixture.store.unlist_except(kept, Timestamp(before));
        (gone.unwrap(), fixture.store.snapshots().unwrap().len())
    };
    let listed = 1_000_000_000_000;
    assert_eq!(unlist(&[], listed), (0, 2), "not before");
    assert_eq!(unlist(&[snapshot, paper], listed + 1), (0, 2));
    assert_eq!(unlist(&[snapshot], listed + 1), (1, 1));
    assert_eq!(unlist(&[], listed + 1), (1, 0));
    fixture.capture();
    fixture.store.put_files(&attachments).unwrap();
    age();
    assert_eq!(unlist(&[], listed + 1), (2, 0));
}
