//! Damage is reported, and never becomes content.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use segno_core::digest::Digest;
use segno_snapshot::{Error, Progress, Restore, SnapshotStore};

use crate::fixture::{Fixture, assert_same, noise, tree_state};

/// A small store with two snapshots; the second is stored as changes, and one of its files as a
/// patch.
fn small() -> (Fixture, Digest, Digest) {
    let fixture = Fixture::new();
    for number in 0..8 {
        fixture.write(
            &format!("folder/{number}"),
            format!("content {number}\n").repeat(3),
        );
    }
    fixture.write("noise", noise(300, 1));
    let first = fixture.capture().snapshot;
    fixture.write("folder/3", "edited");
    let mut edited = noise(300, 1);
    edited[100] ^= 1;
    fixture.write("noise", edited);
    let second = fixture.capture().snapshot;
    let own = fixture.store.size(second).unwrap().own;
    assert!(own < 100, "{own} bytes: the edit was stored by itself");
    (fixture, first, second)
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// Checks a store with one damage: a snapshot that `verify` finds clean restores to the right
/// bytes; any other is refused or restores to the right bytes. Returns whether the damage was
/// reported.
fn check_damaged_store(fixture: &Fixture, snapshots: &[(Digest, PathBuf)], what: &str) -> bool {
    let root = fixture.folder.path().join("store");
    let store = match SnapshotStore::open(&root) {
        Err(Error::NotASnapshotStore { .. }) => return true,
        other => other.unwrap(),
    };
    let mut reported = false;
    for (snapshot, expected) in snapshots {
        let found = match store.verify(*snapshot, &|_| {}) {
            Err(Error::NoSnapshot(_)) => {
                reported = true;
                continue;
            }
            other => other.unwrap(),
        };
        reported |= !found.is_empty();
        let target = tempfile::tempdir().unwrap();
        let options = Restore {
            exact: true,
            privileges: true,
            durable: false,
            ..Restore::default()
        };
        match store.restore(*snapshot, target.path(), &options, &|_| {}) {
            Ok(_) => {
                assert!(
                    found.is_empty(),
                    "{what}: restored, but verify said {found:?}"
                );
                assert_same(&tree_state(target.path()), &tree_state(expected));
            }
            Err(Error::Damaged { .. }) => {
                assert!(
                    !found.is_empty(),
                    "{what}: not restored, but verify found nothing"
                );
                assert_eq!(fs::read_dir(target.path()).unwrap().count(), 0, "{what}");
            }
            Err(other) => panic!("{what}: {other}"),
        }
    }
    reported
}

#[test]
fn flipped_store_bits_are_reported_or_harmless() {
    let (fixture, first, second) = small();
    let keep = [
        (first, fixture.folder.path().join("one")),
        (second, fixture.folder.path().join("two")),
    ];
    for (snapshot, place) in &keep {
        fixture.restore(*snapshot, place);
    }
    let mut found = Vec::new();
    files(&fixture.folder.path().join("store"), &mut found);
    let (mut tried, mut reported) = (0, 0);
    for path in found {
        let whole = fs::read(&path).unwrap();
        let is_content = ["packs", "manifests"]
            .iter()
            .any(|name| path.parent().unwrap().ends_with(name));
        for at in 0..whole.len() {
            // Every byte, and every bit position once in every eight bytes.
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            fs::write(&path, &damaged).unwrap();
            let what = format!("{} byte {at}", path.display());
            let was_reported = check_damaged_store(&fixture, &keep, &what);
            tried += 1;
            reported += usize::from(was_reported);
            assert!(
                was_reported || !is_content || harmless(&path, at, &whole),
                "{what} was not noticed"
            );
        }
        fs::write(&path, &whole).unwrap();
    }
    assert!(!check_damaged_store(&fixture, &keep, "nothing"));
    assert!(tried > 500 && reported > tried / 2, "{reported} of {tried}");
}

/// Only bits in the blocks of packs can be: each byte of a pack or a manifest is covered by a
/// digest. (zstd frames have bits without a meaning; a block whose content still has its digest is
/// intact.)
fn harmless(path: &Path, at: usize, whole: &[u8]) -> bool {
    path.parent().unwrap().ends_with("packs") && at >= 8 && at < whole.len() - 56
}

#[test]
fn truncated_store_files_are_reported_or_harmless() {
    let (fixture, first, second) = small();
    let keep = [
        (first, fixture.folder.path().join("one")),
        (second, fixture.folder.path().join("two")),
    ];
    for (snapshot, place) in &keep {
        fixture.restore(*snapshot, place);
    }
    let mut found = Vec::new();
    files(&fixture.folder.path().join("store"), &mut found);
    for path in found {
        let whole = fs::read(&path).unwrap();
        let is_content = ["packs", "manifests"]
            .iter()
            .any(|name| path.parent().unwrap().ends_with(name));
        for length in (0..whole.len()).step_by(7) {
            fs::write(&path, &whole[..length]).unwrap();
            let what = format!("{} cut to {length}", path.display());
            assert!(
                check_damaged_store(&fixture, &keep, &what) || !is_content,
                "{what} was not noticed"
            );
        }
        fs::remove_file(&path).unwrap();
        let what = format!("{} removed", path.display());
        let reported = check_damaged_store(&fixture, &keep, &what);
        assert!(reported || !is_content, "{what} was not noticed");
        fs::write(&path, &whole).unwrap();
    }
}

#[test]
fn damage_names_affected_files_only() {
    let fixture = Fixture::new();
    fixture.write("a", noise(5000, 1));
    let first = fixture.capture().snapshot;
    let mut packs = Vec::new();
    files(&fixture.folder.path().join("store/packs"), &mut packs);
    fixture.write("b", noise(5000, 2));
    let second = fixture.capture().snapshot;
    fs::remove_file(fixture.at("a")).unwrap();
    let third = fixture.capture().snapshot;
    let mut bytes = fs::read(&packs[0]).unwrap();
    bytes[100] ^= 1;
    fs::write(&packs[0], bytes).unwrap();
    let damage = fixture.store.verify(second, &|_| {}).unwrap();
    assert_eq!(damage.len(), 1);
    assert!(
        damage[0].object.starts_with("block 0 of pack"),
        "{damage:?}"
    );
    assert_eq!(damage[0].paths, [PathBuf::from("a")]);
    assert_eq!(fixture.store.verify(third, &|_| {}).unwrap(), []);
    fixture.restore(third, &fixture.target());
    assert_same(&tree_state(&fixture.target()), &tree_state(&fixture.work()));
    // A restore that fails does not touch existing files.
    let before = tree_state(&fixture.target());
    let refused = fixture.store.restore(
        first,
        &fixture.target(),
        &Restore {
            exact: true,
            ..Restore::default()
        },
        &|_| {},
    );
    assert!(matches!(refused, Err(Error::Damaged { .. })));
    assert_same(&tree_state(&fixture.target()), &before);
    // Undamaged files can still be read one by one.
    assert_eq!(
        fixture.store.read(second, Path::new("b")).unwrap(),
        noise(5000, 2)
    );
}

#[test]
fn verification_reports_what_it_has_read() {
    let fixture = Fixture::new();
    for number in 0..40 {
        fixture.write(&format!("{number}"), noise(30_000, number));
    }
    let snapshot = fixture.capture().snapshot;
    let reports = Mutex::new(Vec::new());
    let report = |progress: Progress| {
        assert_eq!(progress.of, 40);
        reports
            .lock()
            .unwrap()
            .push((progress.files, progress.bytes));
    };
    assert_eq!(fixture.store.verify(snapshot, &report).unwrap(), []);
    let mut reports = reports.into_inner().unwrap();
    reports.sort_unstable();
    assert!(reports[0].0 > 0, "{reports:?}");
    assert_eq!(reports.last(), Some(&(40, 40 * 30_000)));
}

#[test]
fn foreign_folder_is_not_made_a_snapshot_store() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("thesis.txt"), "x").unwrap();
    assert!(matches!(
        SnapshotStore::open(folder.path()),
        Err(Error::NotASnapshotStore { .. })
    ));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn format_file_decides_whether_a_folder_is_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    SnapshotStore::open(root).unwrap();
    let format = root.join("format");
    let current = fs::read(&format).unwrap();
    assert_eq!(current, b"segno vault 3\n");
    for (content, expected) in [
        (
            "segno vault 4\n",
            "its file `format` has an unknown version",
        ),
        ("segno\n", "its file `format` has unknown content"),
        ("", "its file `format` has unknown content"),
    ] {
        fs::write(&format, content).unwrap();
        match SnapshotStore::open(root) {
            Err(Error::NotASnapshotStore { reason, .. }) => assert_eq!(reason, expected),
            other => panic!("{content:?}: {other:?}"),
        }
    }
    fs::remove_file(&format).unwrap();
    fs::create_dir(&format).unwrap();
    let unreadable = SnapshotStore::open(root);
    let is_foreign = matches!(unreadable, Err(Error::NotASnapshotStore { .. }));
    assert!(unreadable.is_err() && !is_foreign, "{unreadable:?}");
    fs::remove_dir(&format).unwrap();
    // A store without the file is not empty.
    match SnapshotStore::open(root) {
        Err(Error::NotASnapshotStore { reason, .. }) => {
            assert_eq!(reason, "it is not empty and has no file `format`");
        }
        other => panic!("{other:?}"),
    }
    fs::write(&format, current).unwrap();
    // Folders that a killed process did not make yet are made.
    fs::remove_dir(root.join("heads")).unwrap();
    assert_eq!(SnapshotStore::open(root).unwrap().snapshots().unwrap(), []);
}

#[test]
fn missing_and_unusable_have_different_errors() {
    use segno_core::error::{Diagnose, Kind};
    let fixture = Fixture::new();
    fixture.write("a", "a");
    let snapshot = fixture.capture().snapshot;
    let unknown = Digest::of(b"unknown");
    let gone = fixture.store.list(unknown).unwrap_err();
    assert_eq!((gone.code(), gone.kind()), ("K0101", Kind::NotFound));
    let gone = fixture.store.read(snapshot, Path::new("b")).unwrap_err();
    assert_eq!((gone.code(), gone.kind()), ("K0102", Kind::NotFound));
    let missing = fixture.folder.path().join("missing");
    let request = segno_snapshot::Request::new(&missing, &crate::fixture::FROZEN_CLOCK);
    let unusable = fixture.store.capture(&request, &|_| {}).unwrap_err();
    assert_eq!(
        (unusable.code(), unusable.kind()),
        ("K0109", Kind::Unavailable)
    );
    let file = fixture.at("a");
    let request = segno_snapshot::Request::new(&file, &crate::fixture::FROZEN_CLOCK);
    let unusable = fixture.store.capture(&request, &|_| {}).unwrap_err();
    assert_eq!(unusable.code(), "K0109");
}

#[test]
fn full_disk_lists_nothing_and_loses_nothing() {
    // A small tmpfs, in a mount namespace of its own.
    let folder = tempfile::tempdir().unwrap();
    let is_root = std::os::unix::fs::MetadataExt::uid(&fs::metadata("/proc/self").unwrap()) == 0;
    let script = r#"mount -t tmpfs -o size=2m,mode=700 tmpfs "$SEGNO_SNAPSHOT_DISK"
                    exec "$0" --exact damage::on_a_small_disk --ignored"#;
    let output = std::process::Command::new("unshare")
        .args([
            if is_root { "-m" } else { "-Urm" },
            "sh",
            "-eu",
            "-c",
            script,
        ])
        .arg(std::env::current_exe().unwrap())
        .env("SEGNO_SNAPSHOT_DISK", folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

#[test]
#[ignore = "a part of the test above"]
fn on_a_small_disk() {
    let disk = std::env::var_os("SEGNO_SNAPSHOT_DISK").expect("run by another test");
    let root = Path::new(&disk).join("store");
    let fixture = Fixture::new();
    fixture.write("a", noise(500_000, 1));
    let store = SnapshotStore::open(&root).unwrap();
    let work = fixture.work();
    let request = segno_snapshot::Request::new(&work, &crate::fixture::FROZEN_CLOCK);
    let first = store.capture(&request, &|_| {}).unwrap().snapshot;
    fixture.write("b", noise(3_000_000, 2));
    let full = store.capture(&request, &|_| {});
    assert!(matches!(full, Err(Error::Full { .. })), "{full:?}");
    assert_eq!(store.snapshots().unwrap(), [first]);
    assert_eq!(store.verify(first, &|_| {}).unwrap(), []);
    assert_eq!(fs::read_dir(root.join("drafts")).unwrap().count(), 0);
    // Captures work again once there is space.
    fixture.write("b", noise(100_000, 3));
    let second = store.capture(&request, &|_| {}).unwrap().snapshot;
    assert_eq!(store.verify(second, &|_| {}).unwrap(), []);
    // A restore that does not fit changes nothing.
    let target = Path::new(&disk).join("target");
    fs::create_dir(&target).unwrap();
    fs::write(target.join("a"), "old").unwrap();
    fs::write(Path::new(&disk).join("filler"), noise(1_000_000, 4)).unwrap();
    let before = tree_state(&target);
    let full = store.restore(second, &target, &Restore::default(), &|_| {});
    assert!(matches!(full, Err(Error::Full { .. })), "{full:?}");
    assert_same(&tree_state(&target), &before);
}
