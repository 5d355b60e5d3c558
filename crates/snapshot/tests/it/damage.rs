//! Damage is named, and never becomes content.

use std::fs;
use std::path::{Path, PathBuf};

use segno_core::digest::Digest;
use segno_snapshot::{Error, Restore, Vault};

use crate::world::{World, assert_same, noise, picture};

/// A small vault with two snapshots, the second stored as changes, and so is one of its files.
fn small() -> (World, Digest, Digest) {
    let world = World::new();
    for number in 0..8 {
        world.write(
            &format!("folder/{number}"),
            format!("content {number}\n").repeat(3),
        );
    }
    world.write("noise", noise(300, 1));
    let first = world.capture().snapshot;
    world.write("folder/3", "edited");
    let mut edited = noise(300, 1);
    edited[100] ^= 1;
    world.write("noise", edited);
    let second = world.capture().snapshot;
    let own = world.vault.size(second).unwrap().own;
    assert!(own < 100, "{own} bytes: the edit was stored by itself");
    (world, first, second)
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

/// Judges a vault with one damage: what verify finds clean restores to the right bytes, and what
/// it does not find clean is refused or restores to the right bytes. Returns whether it was named.
fn judge(world: &World, snapshots: &[(Digest, PathBuf)], what: &str) -> bool {
    let root = world.folder.path().join("vault");
    let vault = match Vault::open(&root) {
        Err(Error::NotAVault { .. }) => return true,
        other => other.unwrap(),
    };
    let mut named = false;
    for (snapshot, expected) in snapshots {
        let found = match vault.verify(*snapshot, &|_| {}) {
            Err(Error::NoSnapshot(_)) => {
                named = true;
                continue;
            }
            other => other.unwrap(),
        };
        named |= !found.is_empty();
        let target = tempfile::tempdir().unwrap();
        let options = Restore {
            exact: true,
            privileges: true,
            durable: false,
            ..Restore::default()
        };
        match vault.restore(*snapshot, target.path(), &options, &|_| {}) {
            Ok(_) => {
                assert!(
                    found.is_empty(),
                    "{what}: restored, but verify said {found:?}"
                );
                assert_same(&picture(target.path()), &picture(expected));
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
    named
}

#[test]
fn every_flipped_bit_is_named_or_harmless_and_never_changes_what_is_restored() {
    let (world, first, second) = small();
    let keep = [
        (first, world.folder.path().join("one")),
        (second, world.folder.path().join("two")),
    ];
    for (snapshot, place) in &keep {
        world.restore(*snapshot, place);
    }
    let mut found = Vec::new();
    files(&world.folder.path().join("vault"), &mut found);
    let (mut tried, mut named) = (0, 0);
    for path in found {
        let whole = fs::read(&path).unwrap();
        let is_content = ["packs", "manifests"]
            .iter()
            .any(|name| path.parent().unwrap().ends_with(name));
        for at in 0..whole.len() {
            // Every byte, and every bit over every eight bytes.
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            fs::write(&path, &damaged).unwrap();
            let what = format!("{} byte {at}", path.display());
            let was_named = judge(&world, &keep, &what);
            tried += 1;
            named += usize::from(was_named);
            assert!(
                was_named || !is_content || harmless(&path, at, &whole),
                "{what} was not noticed"
            );
        }
        fs::write(&path, &whole).unwrap();
    }
    assert!(!judge(&world, &keep, "nothing"));
    assert!(tried > 500 && named > tried / 2, "{named} of {tried}");
}

/// Nothing is: each byte of a pack or a manifest is covered by a digest. (zstd frames have bits
/// that mean nothing; a block whose content still has its digest is whole.)
fn harmless(path: &Path, at: usize, whole: &[u8]) -> bool {
    path.parent().unwrap().ends_with("packs") && at >= 8 && at < whole.len() - 56
}

#[test]
fn every_cut_is_named_or_harmless_and_never_changes_what_is_restored() {
    let (world, first, second) = small();
    let keep = [
        (first, world.folder.path().join("one")),
        (second, world.folder.path().join("two")),
    ];
    for (snapshot, place) in &keep {
        world.restore(*snapshot, place);
    }
    let mut found = Vec::new();
    files(&world.folder.path().join("vault"), &mut found);
    for path in found {
        let whole = fs::read(&path).unwrap();
        let is_content = ["packs", "manifests"]
            .iter()
            .any(|name| path.parent().unwrap().ends_with(name));
        for length in (0..whole.len()).step_by(7) {
            fs::write(&path, &whole[..length]).unwrap();
            let what = format!("{} cut to {length}", path.display());
            assert!(
                judge(&world, &keep, &what) || !is_content,
                "{what} was not noticed"
            );
        }
        fs::remove_file(&path).unwrap();
        let what = format!("{} removed", path.display());
        let named = judge(&world, &keep, &what);
        assert!(named || !is_content, "{what} was not noticed");
        fs::write(&path, &whole).unwrap();
    }
}

#[test]
fn damage_names_the_files_it_affects_and_spares_other_snapshots() {
    let world = World::new();
    world.write("a", noise(5000, 1));
    let first = world.capture().snapshot;
    let mut packs = Vec::new();
    files(&world.folder.path().join("vault/packs"), &mut packs);
    world.write("b", noise(5000, 2));
    let second = world.capture().snapshot;
    fs::remove_file(world.at("a")).unwrap();
    let third = world.capture().snapshot;
    let mut bytes = fs::read(&packs[0]).unwrap();
    bytes[100] ^= 1;
    fs::write(&packs[0], bytes).unwrap();
    let damage = world.vault.verify(second, &|_| {}).unwrap();
    assert_eq!(damage.len(), 1);
    assert!(
        damage[0].object.starts_with("block 0 of pack"),
        "{damage:?}"
    );
    assert_eq!(damage[0].paths, [PathBuf::from("a")]);
    assert_eq!(world.vault.verify(third, &|_| {}).unwrap(), []);
    world.restore(third, &world.target());
    assert_same(&picture(&world.target()), &picture(&world.work()));
    // A file that is there is not touched by a restore that cannot be done.
    let before = picture(&world.target());
    let refused = world.vault.restore(
        first,
        &world.target(),
        &Restore {
            exact: true,
            ..Restore::default()
        },
        &|_| {},
    );
    assert!(matches!(refused, Err(Error::Damaged { .. })));
    assert_same(&picture(&world.target()), &before);
    // What is not damaged can still be read by itself.
    assert_eq!(
        world.vault.read(second, Path::new("b")).unwrap(),
        noise(5000, 2)
    );
}

#[test]
fn a_folder_of_something_else_is_not_made_a_vault() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("thesis.txt"), "x").unwrap();
    assert!(matches!(
        Vault::open(folder.path()),
        Err(Error::NotAVault { .. })
    ));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn what_is_not_there_is_told_apart_from_what_cannot_be_used() {
    use segno_core::error::{Diagnose, Kind};
    let world = World::new();
    world.write("a", "a");
    let snapshot = world.capture().snapshot;
    let unknown = Digest::of(b"unknown");
    let gone = world.vault.list(unknown).unwrap_err();
    assert_eq!((gone.code(), gone.kind()), ("K0101", Kind::NotFound));
    let gone = world.vault.read(snapshot, Path::new("b")).unwrap_err();
    assert_eq!((gone.code(), gone.kind()), ("K0102", Kind::NotFound));
    let missing = world.folder.path().join("missing");
    let request = segno_snapshot::Request::new(&missing, &crate::world::STILL);
    let unusable = world.vault.capture(&request, &|_| {}).unwrap_err();
    assert_eq!(
        (unusable.code(), unusable.kind()),
        ("K0109", Kind::Unavailable)
    );
    let file = world.at("a");
    let request = segno_snapshot::Request::new(&file, &crate::world::STILL);
    let unusable = world.vault.capture(&request, &|_| {}).unwrap_err();
    assert_eq!(unusable.code(), "K0109");
}

#[test]
fn a_full_disk_lists_nothing_new_and_loses_nothing() {
    // A small file system in memory, in a mount namespace of its own.
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
    let root = Path::new(&disk).join("vault");
    let world = World::new();
    world.write("a", noise(500_000, 1));
    let vault = Vault::open(&root).unwrap();
    let work = world.work();
    let request = segno_snapshot::Request::new(&work, &crate::world::STILL);
    let first = vault.capture(&request, &|_| {}).unwrap().snapshot;
    world.write("b", noise(3_000_000, 2));
    let full = vault.capture(&request, &|_| {});
    assert!(matches!(full, Err(Error::Full { .. })), "{full:?}");
    assert_eq!(vault.snapshots().unwrap(), [first]);
    assert_eq!(vault.verify(first, &|_| {}).unwrap(), []);
    assert_eq!(fs::read_dir(root.join("drafts")).unwrap().count(), 0);
    // It goes on when there is room.
    world.write("b", noise(100_000, 3));
    let second = vault.capture(&request, &|_| {}).unwrap().snapshot;
    assert_eq!(vault.verify(second, &|_| {}).unwrap(), []);
    // A restore that does not fit changes nothing.
    let target = Path::new(&disk).join("target");
    fs::create_dir(&target).unwrap();
    fs::write(target.join("a"), "old").unwrap();
    fs::write(Path::new(&disk).join("filler"), noise(1_000_000, 4)).unwrap();
    let before = picture(&target);
    let full = vault.restore(second, &target, &Restore::default(), &|_| {});
    assert!(matches!(full, Err(Error::Full { .. })), "{full:?}");
    assert_same(&picture(&target), &before);
}
