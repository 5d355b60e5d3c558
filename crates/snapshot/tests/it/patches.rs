//! An edited file costs its difference, and nothing that was built upon goes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use segno_core::digest::Digest;
use segno_core::time::Timestamp;
use segno_snapshot::Swept;

use crate::world::{World, assert_same, noise, picture};

fn gc(world: &World, hour: i64) -> Swept {
    let now = Timestamp(hour * 3_600_000);
    world.vault.gc(now, Duration::from_hours(1)).unwrap()
}

fn packs(world: &World) -> Vec<PathBuf> {
    let folder = fs::read_dir(world.folder.path().join("vault/packs")).unwrap();
    folder.map(|entry| entry.unwrap().path()).collect()
}

fn bytes_in_packs(world: &World) -> u64 {
    let length = |path: &PathBuf| fs::metadata(path).unwrap().len();
    packs(world).iter().map(length).sum()
}

/// What a file is in a generation: a few bytes differ from one to the next.
fn generation(size: usize, number: usize) -> Vec<u8> {
    let mut bytes = noise(size, 1);
    for edit in 0..=number {
        let at = (edit * 7919) % (size - 20);
        bytes[at..at + 11].copy_from_slice(format!("edit {edit:06}").as_bytes());
    }
    bytes
}

fn assert_reads(world: &World, snapshot: Digest, path: &str, expected: &[u8]) {
    assert_eq!(world.vault.verify(snapshot, &|_| {}).unwrap(), []);
    let content = world.vault.read(snapshot, Path::new(path)).unwrap();
    assert!(content == expected, "{path} of {snapshot} differs");
}

#[test]
fn an_edit_costs_its_difference_and_not_its_file() {
    let world = World::new();
    world.write("small", generation(40_000, 0));
    world.write("large", generation(5_000_000, 0));
    let first = world.capture().snapshot;
    world.write("small", generation(40_000, 1));
    world.write("large", generation(5_000_000, 1));
    let second = world.capture();
    assert!(second.stored_bytes < 4000, "{second:?}");
    // What is inserted moves the rest; what is appended makes the last piece longer.
    let mut longer = generation(5_000_000, 1);
    longer.splice(2_500_000..2_500_000, *b"inserted");
    longer.extend_from_slice(b"appended");
    world.write("large", &longer);
    let third = world.capture();
    assert!(third.stored_bytes < 6000, "{third:?}");
    assert_reads(&world, first, "small", &generation(40_000, 0));
    assert_reads(&world, first, "large", &generation(5_000_000, 0));
    assert_reads(&world, second.snapshot, "small", &generation(40_000, 1));
    assert_reads(&world, second.snapshot, "large", &generation(5_000_000, 1));
    assert_reads(&world, third.snapshot, "large", &longer);
}

#[test]
fn what_has_little_in_common_is_stored_by_itself() {
    let world = World::new();
    world.write("a", noise(40_000, 1));
    world.capture();
    let other = [&noise(20_000, 1)[..], &noise(20_000, 2)].concat();
    world.write("a", &other);
    let captured = world.capture();
    assert!(captured.stored_bytes > 40_000, "{captured:?}");
    assert_reads(&world, captured.snapshot, "a", &other);
}

#[test]
fn after_a_few_changes_a_file_is_stored_by_itself_again() {
    let world = World::new();
    let mut taken = Vec::new();
    for number in 0..30 {
        world.write("a", generation(40_000, number));
        let captured = world.capture();
        taken.push((captured.snapshot, captured.stored_bytes > 40_000));
    }
    let whole: Vec<usize> = (0..30).filter(|number| taken[*number].1).collect();
    assert_eq!(whole, [0, 9, 18, 27]);
    for (number, (snapshot, _)) in taken.iter().enumerate() {
        assert_reads(&world, *snapshot, "a", &generation(40_000, number));
    }
}

#[test]
fn what_is_built_upon_outlives_the_snapshots_that_had_it() {
    let world = World::new();
    let mut taken = Vec::new();
    for number in 0..12 {
        world.write("a", generation(40_000, number));
        taken.push(world.capture().snapshot);
    }
    for kept in [7, 11] {
        for (number, snapshot) in taken.iter().enumerate().take(kept) {
            if world.vault.snapshots().unwrap().contains(snapshot) && number != 7 {
                world.vault.remove(*snapshot).unwrap();
            }
        }
        for hour in 0..4 {
            gc(&world, 10 * i64::try_from(kept).unwrap() + 2 * hour);
        }
        for number in [7, 11] {
            assert_reads(&world, taken[number], "a", &generation(40_000, number));
        }
    }
}

#[test]
fn joined_packs_keep_what_was_stored_as_changes_as_changes() {
    let world = World::new();
    let mut taken = Vec::new();
    for number in 0..70 {
        world.write("a", generation(40_000, number));
        taken.push(world.capture().snapshot);
    }
    let before = bytes_in_packs(&world);
    assert_eq!(gc(&world, 1).compacted, 70);
    assert_eq!(gc(&world, 3).deleted, 70);
    let after = bytes_in_packs(&world);
    assert!(after < before, "{after} of {before}");
    assert_eq!(packs(&world).len(), 1);
    for (number, snapshot) in taken.iter().enumerate() {
        assert_reads(&world, *snapshot, "a", &generation(40_000, number));
    }
}

#[test]
fn joined_packs_let_go_of_what_was_only_built_upon() {
    let world = World::new();
    let mut taken = Vec::new();
    for number in 0..70 {
        world.write("a", generation(40_000, number));
        world.write("b", noise(300, 1000 + u64::try_from(number).unwrap()));
        taken.push((number, world.capture().snapshot));
    }
    taken.retain(|(number, snapshot)| {
        let kept = number % 20 == 5;
        if !kept {
            world.vault.remove(*snapshot).unwrap();
        }
        kept
    });
    for hour in 0..5 {
        gc(&world, 2 * hour);
    }
    for (number, snapshot) in &taken {
        assert_reads(&world, *snapshot, "a", &generation(40_000, *number));
    }
    // Four versions are kept; the others were needed as bases, at most eight patches for each.
    let left = bytes_in_packs(&world);
    assert!(left < 5 * 41_000, "{left}");
}

#[test]
fn a_patch_whose_base_is_in_the_trash_is_not_built_upon() {
    let world = World::new();
    world.write("a", generation(40_000, 0));
    let first = world.capture().snapshot;
    world.write("a", generation(40_000, 1));
    world.write("b", noise(50_000, 2));
    let second = world.capture().snapshot;
    fs::remove_file(world.at("a")).unwrap();
    let third = world.capture().snapshot;
    world.vault.remove(first).unwrap();
    world.vault.remove(second).unwrap();
    // The patch stays where it is, beside what is needed; what it is a patch of goes.
    gc(&world, 1);
    world.write("a", generation(40_000, 1));
    let again = world.capture();
    assert!(again.stored_bytes > 40_000, "{again:?}");
    gc(&world, 5);
    gc(&world, 9);
    assert_reads(&world, again.snapshot, "a", &generation(40_000, 1));
    assert_reads(&world, third, "b", &noise(50_000, 2));
}

#[test]
fn files_that_are_lost_through_a_damaged_base_are_named() {
    let world = World::new();
    world.write("a", generation(40_000, 0));
    world.write("calm", noise(400, 5));
    world.capture();
    let base = packs(&world).remove(0);
    world.write("a", generation(40_000, 1));
    let second = world.capture().snapshot;
    world.write("a", noise(40_000, 9));
    let third = world.capture().snapshot;
    let whole = fs::read(&base).unwrap();
    let mut bytes = whole.clone();
    bytes[100] ^= 1;
    fs::write(&base, &bytes).unwrap();
    let name = base.file_name().unwrap().to_str().unwrap();
    let damage = world.vault.verify(second, &|_| {}).unwrap();
    assert_eq!(damage.len(), 1, "{damage:?}");
    assert_eq!(damage[0].object, format!("block 0 of pack {name}"));
    assert_eq!(damage[0].paths, [PathBuf::from("a")]);
    // Without the table nobody can know what the pack had, but who misses it.
    bytes = whole;
    let end = bytes.len() - 1;
    bytes[end] ^= 1;
    fs::write(&base, bytes).unwrap();
    let damage = world.vault.verify(second, &|_| {}).unwrap();
    let names = |path: &str| {
        damage
            .iter()
            .any(|damage| damage.paths == [PathBuf::from(path)])
    };
    assert!(names("a") && names("calm"), "{damage:?}");
    assert!(
        damage
            .iter()
            .any(|damage| damage.object == format!("pack {name}"))
    );
    assert!(!world.vault.verify(third, &|_| {}).unwrap().is_empty());
    let content = world.vault.read(third, Path::new("a")).unwrap();
    assert!(content == noise(40_000, 9));
    // What is lost is written again by the next capture that finds it.
    world.write("a", generation(40_000, 1));
    let again = world.capture();
    assert_eq!(again.unstable, Vec::<PathBuf>::new());
    assert_reads(&world, again.snapshot, "a", &generation(40_000, 1));
}

#[test]
fn a_size_counts_what_is_built_upon_once_and_as_shared_if_others_need_it() {
    let world = World::new();
    world.write("a", generation(40_000, 0));
    let first = world.capture().snapshot;
    world.write("a", generation(40_000, 1));
    let second = world.capture().snapshot;
    let size = world.vault.size(second).unwrap();
    assert!(size.own > 0 && size.own < 1000, "{size:?}");
    assert!(size.shared >= 39_000 && size.shared < 41_000, "{size:?}");
    // The first alone needs nothing that the second does not.
    let size = world.vault.size(first).unwrap();
    assert!(size.own == 0 && size.shared >= 39_000, "{size:?}");
    world.vault.remove(first).unwrap();
    let size = world.vault.size(second).unwrap();
    assert!(size.own >= 39_000 && size.shared == 0, "{size:?}");
}

#[test]
fn many_edited_files_come_back() {
    let world = World::new();
    let write = |number: usize| {
        for file in 0..200 {
            let size = 500 + file * 97;
            world.write(
                &format!("{}/{file}", file % 7),
                generation(size, number + file),
            );
        }
    };
    let mut taken = Vec::new();
    for number in 0..4 {
        write(number);
        taken.push((world.capture().snapshot, picture(&world.work())));
    }
    for (snapshot, expected) in &taken {
        world.restore(*snapshot, &world.target());
        assert_same(&picture(&world.target()), expected);
    }
}
