//! Deleting: nothing that is needed, nothing at once, nothing under a writer.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use segno_core::time::Timestamp;
use segno_snapshot::{Difference, Error, Request, Swept, Vault};

use crate::world::{STILL, World, assert_same, noise, picture};

const HOUR: Duration = Duration::from_hours(1);

fn packs(world: &World) -> usize {
    fs::read_dir(world.folder.path().join("vault/packs"))
        .unwrap()
        .count()
}

fn gc(world: &World, hour: i64) -> Swept {
    world.vault.gc(Timestamp(hour * 3_600_000), HOUR).unwrap()
}

#[test]
fn what_nobody_needs_goes_after_the_grace_and_what_is_needed_stays() {
    let world = World::new();
    world.write("a", noise(5000, 1));
    let first = world.capture().snapshot;
    world.write("a", noise(5000, 2));
    let second = world.capture().snapshot;
    assert_eq!(gc(&world, 1), Swept::default());
    world.vault.remove(first).unwrap();
    assert!(matches!(
        world.vault.remove(first),
        Err(Error::NoSnapshot(_))
    ));
    let thrown = gc(&world, 2);
    assert_eq!((thrown.thrown, thrown.deleted), (2, 0));
    assert_eq!(gc(&world, 2).deleted, 0);
    assert_eq!(packs(&world), 2);
    let deleted = gc(&world, 3);
    assert_eq!(deleted.deleted, 2);
    assert!(deleted.bytes > 5000);
    assert_eq!(packs(&world), 1);
    assert_eq!(world.vault.verify(second, &|_| {}).unwrap(), []);
    assert_eq!(
        world.vault.read(second, Path::new("a")).unwrap(),
        noise(5000, 2)
    );
}

#[test]
fn content_in_the_trash_is_written_anew() {
    let world = World::new();
    world.write("a", noise(5000, 1));
    let first = world.capture().snapshot;
    world.vault.remove(first).unwrap();
    gc(&world, 1);
    let again = world.capture();
    assert_eq!(again.snapshot, first);
    assert!(again.stored_bytes > 5000, "{again:?}");
    gc(&world, 5);
    gc(&world, 9);
    assert_eq!(packs(&world), 1);
    assert_eq!(world.vault.verify(first, &|_| {}).unwrap(), []);
}

#[test]
fn a_clock_that_goes_backwards_deletes_nothing() {
    let world = World::new();
    world.write("a", "a");
    let first = world.capture().snapshot;
    world.vault.remove(first).unwrap();
    gc(&world, 100);
    assert_eq!(gc(&world, 1).deleted, 0);
}

#[test]
fn a_pack_that_is_mostly_dead_is_written_anew() {
    let world = World::new();
    for number in 0..10 {
        world.write(&format!("{number}"), noise(20_000, number));
    }
    let first = world.capture().snapshot;
    for number in 1..10 {
        fs::remove_file(world.at(format!("{number}"))).unwrap();
    }
    let second = world.capture().snapshot;
    world.vault.remove(first).unwrap();
    assert_eq!(gc(&world, 1).compacted, 1);
    assert_eq!(gc(&world, 2).compacted, 0);
    let left: u64 = fs::read_dir(world.folder.path().join("vault/packs"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(left < 25_000, "{left}");
    assert_eq!(world.vault.verify(second, &|_| {}).unwrap(), []);
    assert_eq!(
        world.vault.read(second, Path::new("0")).unwrap(),
        noise(20_000, 0)
    );
}

#[test]
fn small_packs_are_joined_when_there_are_many() {
    let world = World::new();
    let mut taken = Vec::new();
    for number in 0..70 {
        world.write(&format!("{number}"), noise(300, number));
        taken.push(world.capture().snapshot);
    }
    assert_eq!(packs(&world), 70);
    assert_eq!(gc(&world, 1).compacted, 70);
    gc(&world, 2);
    assert_eq!(packs(&world), 1);
    for snapshot in taken {
        assert_eq!(world.vault.verify(snapshot, &|_| {}).unwrap(), []);
    }
}

#[test]
fn snapshots_outlive_the_ones_they_were_stored_as_changes_of() {
    let world = World::new();
    for number in 0..40 {
        world.write(&format!("{number}"), noise(100, number));
    }
    let mut taken = Vec::new();
    // More than a chain may be long.
    for round in 0..70_u64 {
        world.write("changing", noise(100, 1000 + round));
        taken.push((world.capture().snapshot, round));
    }
    for (snapshot, _) in taken.iter().filter(|(_, round)| round % 3 != 0) {
        world.vault.remove(*snapshot).unwrap();
    }
    gc(&world, 1);
    gc(&world, 3);
    for (snapshot, round) in taken.iter().filter(|(_, round)| round % 3 == 0) {
        assert_eq!(world.vault.verify(*snapshot, &|_| {}).unwrap(), []);
        assert_eq!(
            world.vault.read(*snapshot, Path::new("changing")).unwrap(),
            noise(100, 1000 + round)
        );
    }
}

#[test]
fn nothing_is_deleted_while_a_manifest_cannot_be_read() {
    let world = World::new();
    world.write("a", noise(500, 1));
    let first = world.capture().snapshot;
    world.write("a", noise(500, 2));
    let second = world.capture().snapshot;
    world.vault.remove(first).unwrap();
    let path = world
        .folder
        .path()
        .join(format!("vault/manifests/{second}"));
    let whole = fs::read(&path).unwrap();
    fs::write(&path, b"broken").unwrap();
    for hour in 1..4 {
        let refused = world.vault.gc(Timestamp(hour * 3_600_000), HOUR);
        assert!(matches!(refused, Err(Error::Damaged { .. })));
    }
    fs::write(&path, whole).unwrap();
    assert_eq!(packs(&world), 2);
}

#[test]
fn captures_and_sweeps_at_the_same_time_lose_nothing() {
    let world = World::new();
    let root = world.folder.path().to_owned();
    let stop = AtomicBool::new(false);
    let taken = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2_u64)
            .map(|writer| {
                let root = root.clone();
                scope.spawn(move || {
                    // As another process would: a vault of its own.
                    let vault = Vault::open(&root.join("vault")).unwrap();
                    let work = root.join(format!("work-{writer}"));
                    fs::create_dir(&work).unwrap();
                    let mut taken = Vec::new();
                    for round in 0..15_u64 {
                        // Content that comes back, shared by both writers.
                        for file in 0..5 {
                            fs::write(
                                work.join(format!("{file}")),
                                noise(4000, (round + file) % 6),
                            )
                            .unwrap();
                        }
                        let captured = vault
                            .capture(&Request::new(&work, &STILL), &|_| {})
                            .unwrap();
                        if let Some(last) = taken
                            .last()
                            .filter(|last| **last != captured.snapshot && round % 2 == 0)
                        {
                            let _ = vault.remove(*last);
                        }
                        taken.push(captured.snapshot);
                    }
                    (work, taken)
                })
            })
            .collect();
        let sweeper = scope.spawn(|| {
            let vault = Vault::open(&root.join("vault")).unwrap();
            let (mut hour, mut swept) = (0, 0);
            while !stop.load(Ordering::Relaxed) {
                hour += 2;
                let result = vault.gc(Timestamp(hour * 3_600_000), HOUR).unwrap();
                swept += u64::from(!result.busy);
            }
            swept
        });
        let taken: Vec<_> = writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .collect();
        stop.store(true, Ordering::Relaxed);
        assert!(sweeper.join().unwrap() > 0);
        taken
    });
    gc(&world, 1_000_000);
    gc(&world, 2_000_000);
    let kept = world.vault.snapshots().unwrap();
    assert!(!kept.is_empty());
    for snapshot in &kept {
        assert_eq!(world.vault.verify(*snapshot, &|_| {}).unwrap(), []);
    }
    for (number, (work, taken)) in taken.iter().enumerate() {
        let last = taken.last().unwrap();
        if kept.contains(last) {
            let target = world.folder.path().join(format!("target-{number}"));
            world.restore(*last, &target);
            assert_same(&picture(&target), &picture(work));
        }
    }
}

#[test]
fn a_sweep_beside_a_capture_does_nothing() {
    let world = World::new();
    world.write("a", noise(5000, 1));
    let first = world.capture().snapshot;
    world.vault.remove(first).unwrap();
    world.write("b", noise(5000, 2));
    let work = world.work();
    let asked = AtomicBool::new(false);
    let sweep = |_| {
        let vault = Vault::open(&world.folder.path().join("vault")).unwrap();
        let swept = vault.gc(Timestamp(1), Duration::ZERO).unwrap();
        assert_eq!(
            swept,
            Swept {
                busy: true,
                ..Swept::default()
            }
        );
        asked.store(true, Ordering::Relaxed);
    };
    let request = Request::new(&work, &STILL);
    let captured = world.vault.capture(&request, &sweep).unwrap();
    assert!(asked.load(Ordering::Relaxed));
    assert!(!gc(&world, 1).busy);
    asked.store(false, Ordering::Relaxed);
    let options = segno_snapshot::Restore::default();
    world
        .vault
        .restore(captured.snapshot, &world.target(), &options, &sweep)
        .unwrap();
    assert!(asked.load(Ordering::Relaxed));
}

#[test]
fn drafts_of_the_dead_are_swept_and_those_of_the_living_are_not() {
    let world = World::new();
    let drafts = world.folder.path().join("vault/drafts");
    let dead = drafts.join("tmp.2147483646.00");
    let alive = drafts.join(format!("tmp.{}.00", std::process::id()));
    fs::write(&dead, "x").unwrap();
    fs::write(&alive, "x").unwrap();
    Vault::open(&world.folder.path().join("vault")).unwrap();
    assert!(!dead.exists() && alive.exists());
}

#[test]
fn differences_and_sizes_are_told() {
    let world = World::new();
    world.write("same", noise(5000, 1));
    world.write("edited", "1");
    world.write("gone", "gone");
    world.write("becomes", "a file");
    world.write("mode", "mode");
    let first = world.capture().snapshot;
    world.write("edited", "2");
    fs::remove_file(world.at("gone")).unwrap();
    fs::remove_file(world.at("becomes")).unwrap();
    world.write("becomes/folder", "x");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(world.at("mode"), mode).unwrap();
    let second = world.capture().snapshot;
    let changes = world.vault.diff(first, second).unwrap();
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
    let size = world.vault.size(second).unwrap();
    assert_eq!((size.files, size.logical), (4, 5000 + 1 + 4 + 1));
    assert!(
        size.shared >= 5000 && size.own > 0 && size.own < 100,
        "{size:?}"
    );
    assert!(matches!(
        world.vault.read(second, Path::new("becomes")),
        Err(Error::NoFile { .. })
    ));
    assert!(matches!(
        world.vault.read(second, Path::new("gone")),
        Err(Error::NoFile { .. })
    ));
}

#[test]
fn a_snapshot_that_is_taken_again_is_young_again() {
    let world = World::new();
    world.write("a", "1");
    let snapshot = world.capture().snapshot;
    let papers = [("paper".to_owned(), b"x".to_vec())];
    let paper = world.vault.keep(&papers).unwrap();
    let long_ago = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let age = || {
        for name in [snapshot, paper] {
            let head = world
                .folder
                .path()
                .join("vault/heads")
                .join(name.to_string());
            let head = fs::File::options().write(true).open(head).unwrap();
            head.set_modified(long_ago).unwrap();
        }
    };
    // The first repetition reads the file again, a later one knows everything.
    for _ in 0..3 {
        age();
        assert_eq!(world.capture().snapshot, snapshot);
        assert_eq!(world.vault.keep(&papers).unwrap(), paper);
        let before = Timestamp(1_500_000_000_000);
        assert_eq!(world.vault.keep_only(&[], before).unwrap(), 0);
    }
    age();
    let before = Timestamp(1_500_000_000_000);
    assert_eq!(world.vault.keep_only(&[], before).unwrap(), 2);
}
