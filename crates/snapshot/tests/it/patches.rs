//! An edited file costs its difference, and bases of patches are not deleted.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use segno_core::digest::Digest;
use segno_core::snapshot::Swept;
use segno_core::time::Timestamp;

use crate::fixture::{Fixture, assert_same, noise, tree_state};

fn gc(fixture: &Fixture, hour: i64) -> Swept {
    let now = Timestamp(hour * 3_600_000);
    fixture.store.gc(now, Duration::from_hours(1)).unwrap()
}

fn packs(fixture: &Fixture) -> Vec<PathBuf> {
    let folder = fs::read_dir(fixture.folder.path().join("store/packs")).unwrap();
    folder.map(|entry| entry.unwrap().path()).collect()
}

fn bytes_in_packs(fixture: &Fixture) -> u64 {
    let length = |path: &PathBuf| fs::metadata(path).unwrap().len();
    packs(fixture).iter().map(length).sum()
}

/// The content of a file in a generation: a few bytes differ from one to the next.
fn generation(size: usize, number: usize) -> Vec<u8> {
    let mut bytes = noise(size, 1);
    for edit in 0..=number {
        let at = (edit * 7919) % (size - 20);
        bytes[at..at + 11].copy_from_slice(format!("edit {edit:06}").as_bytes());
    }
    bytes
}

fn assert_reads(fixture: &Fixture, snapshot: Digest, path: &str, expected: &[u8]) {
    assert_eq!(fixture.store.verify(snapshot, &|_| {}).unwrap(), []);
    let content = fixture.store.read(snapshot, Path::new(path)).unwrap();
    assert!(content == expected, "{path} of {snapshot} differs");
}

#[test]
fn edit_costs_its_difference() {
    let fixture = Fixture::new();
    fixture.write("small", generation(40_000, 0));
    fixture.write("large", generation(5_000_000, 0));
    let first = fixture.capture().snapshot;
    fixture.write("small", generation(40_000, 1));
    fixture.write("large", generation(5_000_000, 1));
    let second = fixture.capture();
    assert!(second.stored_bytes < 4000, "{second:?}");
    // An insertion moves the rest; appended bytes make the last chunk longer.
    let mut longer = generation(5_000_000, 1);
    longer.splice(2_500_000..2_500_000, *b"inserted");
    longer.extend_from_slice(b"appended");
    fixture.write("large", &longer);
    let third = fixture.capture();
    assert!(third.stored_bytes < 6000, "{third:?}");
    assert_reads(&fixture, first, "small", &generation(40_000, 0));
    assert_reads(&fixture, first, "large", &generation(5_000_000, 0));
    assert_reads(&fixture, second.snapshot, "small", &generation(40_000, 1));
    assert_reads(
        &fixture,
        second.snapshot,
        "large",
        &generation(5_000_000, 1),
    );
    assert_reads(&fixture, third.snapshot, "large", &longer);
}

#[test]
fn dissimilar_content_is_not_patched() {
    let fixture = Fixture::new();
    fixture.write("a", noise(40_000, 1));
    fixture.capture();
    let other = [&noise(20_000, 1)[..], &noise(20_000, 2)].concat();
    fixture.write("a", &other);
    let captured = fixture.capture();
    assert!(captured.stored_bytes > 40_000, "{captured:?}");
    assert_reads(&fixture, captured.snapshot, "a", &other);
}

#[test]
fn patch_chains_are_limited() {
    let fixture = Fixture::new();
    let mut taken = Vec::new();
    for number in 0..30 {
        fixture.write("a", generation(40_000, number));
        let captured = fixture.capture();
        taken.push((captured.snapshot, captured.stored_bytes > 40_000));
    }
    let whole: Vec<usize> = (0..30).filter(|number| taken[*number].1).collect();
    assert_eq!(whole, [0, 9, 18, 27]);
    for (number, (snapshot, _)) in taken.iter().enumerate() {
        assert_reads(&fixture, *snapshot, "a", &generation(40_000, number));
    }
}

#[test]
fn bases_outlive_their_snapshots() {
    let fixture = Fixture::new();
    let mut taken = Vec::new();
    for number in 0..12 {
        fixture.write("a", generation(40_000, number));
        taken.push(fixture.capture().snapshot);
    }
    for kept in [7, 11] {
        for (number, snapshot) in taken.iter().enumerate().take(kept) {
            if fixture.store.snapshots().unwrap().contains(snapshot) && number != 7 {
                fixture.store.remove(*snapshot).unwrap();
            }
        }
        for hour in 0..4 {
            gc(&fixture, 10 * i64::try_from(kept).unwrap() + 2 * hour);
        }
        for number in [7, 11] {
            assert_reads(&fixture, taken[number], "a", &generation(40_000, number));
        }
    }
}

#[test]
fn merged_packs_keep_patches() {
    let fixture = Fixture::new();
    let mut taken = Vec::new();
    for number in 0..70 {
        fixture.write("a", generation(40_000, number));
        taken.push(fixture.capture().snapshot);
    }
    let before = bytes_in_packs(&fixture);
    assert_eq!(gc(&fixture, 1).compacted, 70);
    assert_eq!(gc(&fixture, 3).deleted, 70);
    let after = bytes_in_packs(&fixture);
    assert!(after < before, "{after} of {before}");
    assert_eq!(packs(&fixture).len(), 1);
    for (number, snapshot) in taken.iter().enumerate() {
        assert_reads(&fixture, *snapshot, "a", &generation(40_000, number));
    }
}

#[test]
fn merged_packs_drop_unreferenced_bases() {
    let fixture = Fixture::new();
    let mut taken = Vec::new();
    for number in 0..70 {
        fixture.write("a", generation(40_000, number));
        fixture.write("b", noise(300, 1000 + u64::try_from(number).unwrap()));
        taken.push((number, fixture.capture().snapshot));
    }
    taken.retain(|(number, snapshot)| {
        let kept = number % 20 == 5;
        if !kept {
            fixture.store.remove(*snapshot).unwrap();
        }
        kept
    });
    for hour in 0..5 {
        gc(&fixture, 2 * hour);
    }
    for (number, snapshot) in &taken {
        assert_reads(&fixture, *snapshot, "a", &generation(40_000, *number));
    }
    // Four versions are kept; the others were needed as bases, at most eight patches for each.
    let left = bytes_in_packs(&fixture);
    assert!(left < 5 * 41_000, "{left}");
}

#[test]
fn patch_with_trashed_base_is_not_reused() {
    let fixture = Fixture::new();
    fixture.write("a", generation(40_000, 0));
    let first = fixture.capture().snapshot;
    fixture.write("a", generation(40_000, 1));
    fixture.write("b", noise(50_000, 2));
    let second = fixture.capture().snapshot;
    fs::remove_file(fixture.at("a")).unwrap();
    let third = fixture.capture().snapshot;
    fixture.store.remove(first).unwrap();
    fixture.store.remove(second).unwrap();
    // The patch stays where it is, beside referenced chunks; its base is deleted.
    gc(&fixture, 1);
    fixture.write("a", generation(40_000, 1));
    let again = fixture.capture();
    assert!(again.stored_bytes > 40_000, "{again:?}");
    gc(&fixture, 5);
    gc(&fixture, 9);
    assert_reads(&fixture, again.snapshot, "a", &generation(40_000, 1));
    assert_reads(&fixture, third, "b", &noise(50_000, 2));
}

#[test]
fn damaged_base_names_the_lost_files() {
    let fixture = Fixture::new();
    fixture.write("a", generation(40_000, 0));
    fixture.write("calm", noise(400, 5));
    fixture.capture();
    let base = packs(&fixture).remove(0);
    fixture.write("a", generation(40_000, 1));
    let second = fixture.capture().snapshot;
    fixture.write("a", noise(40_000, 9));
    let third = fixture.capture().snapshot;
    let whole = fs::read(&base).unwrap();
    let mut bytes = whole.clone();
    bytes[100] ^= 1;
    fs::write(&base, &bytes).unwrap();
    let name = base.file_name().unwrap().to_str().unwrap();
    let damage = fixture.store.verify(second, &|_| {}).unwrap();
    assert_eq!(damage.len(), 1, "{damage:?}");
    assert_eq!(damage[0].object, format!("block 0 of pack {name}"));
    assert_eq!(damage[0].paths, [PathBuf::from("a")]);
    // Without the table, it is unknown what the pack contained; only the missing chunks are known.
    bytes = whole;
    let end = bytes.len() - 1;
    bytes[end] ^= 1;
    fs::write(&base, bytes).unwrap();
    let damage = fixture.store.verify(second, &|_| {}).unwrap();
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
    assert!(!fixture.store.verify(third, &|_| {}).unwrap().is_empty());
    let content = fixture.store.read(third, Path::new("a")).unwrap();
    assert!(content == noise(40_000, 9));
    // Lost chunks are written again by the next capture that finds them.
    fixture.write("a", generation(40_000, 1));
    let again = fixture.capture();
    assert_eq!(again.unstable, Vec::<PathBuf>::new());
    assert_reads(&fixture, again.snapshot, "a", &generation(40_000, 1));
}

#[test]
fn size_counts_shared_bases_once() {
    let fixture = Fixture::new();
    fixture.write("a", generation(40_000, 0));
    let first = fixture.capture().snapshot;
    fixture.write("a", generation(40_000, 1));
    let second = fixture.capture().snapshot;
    let size = fixture.store.size(second).unwrap();
    assert!(size.own > 0 && size.own < 1000, "{size:?}");
    assert!(size.shared >= 39_000 && size.shared < 41_000, "{size:?}");
    // The first alone references nothing that the second does not.
    let size = fixture.store.size(first).unwrap();
    assert!(size.own == 0 && size.shared >= 39_000, "{size:?}");
    fixture.store.remove(first).unwrap();
    let size = fixture.store.size(second).unwrap();
    assert!(size.own >= 39_000 && size.shared == 0, "{size:?}");
}

#[test]
fn many_edited_files_are_restored() {
    let fixture = Fixture::new();
    let write = |number: usize| {
        for file in 0..200 {
            let size = 500 + file * 97;
            fixture.write(
                &format!("{}/{file}", file % 7),
                generation(size, number + file),
            );
        }
    };
    let mut taken = Vec::new();
    for number in 0..4 {
        write(number);
        taken.push((fixture.capture().snapshot, tree_state(&fixture.work())));
    }
    for (snapshot, expected) in &taken {
        fixture.restore(*snapshot, &fixture.target());
        assert_same(&tree_state(&fixture.target()), expected);
    }
}
