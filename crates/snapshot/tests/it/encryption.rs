//! Encrypted snapshot stores.

use std::fs;
use std::path::Path;
use std::time::Duration;

use segno_core::time::Timestamp;
use segno_secrets::cipher::{Cipher, DecryptError};
use segno_snapshot::{Error, Request, Restore, SnapshotStore};

use crate::fixture::{FROZEN_CLOCK, Fixture, assert_same, noise, tree_state};

const NAME: &str = "a-name-that-nobody-should-read";
const TEXT: &str = "a text that nobody should read\n";

fn store(fixture: &Fixture, key: Option<u8>) -> SnapshotStore {
    let cipher = key.map(|key| Cipher::new(&[key; 32]));
    SnapshotStore::open_with(&fixture.folder.path().join("store"), cipher).unwrap()
}

fn fill(fixture: &Fixture) {
    fixture.write(NAME, TEXT.repeat(3));
    fixture.write("large", noise(3_000_000, 1));
    fixture.write("many/small", "x");
}

fn capture(fixture: &Fixture, store: &SnapshotStore) -> segno_core::digest::Digest {
    let captured = store.capture(&Request::new(&fixture.work(), &FROZEN_CLOCK), &|_| {});
    captured.unwrap().snapshot
}

fn files(folder: &Path) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(fs::read(path).unwrap());
        }
    }
    found
}

/// Whether a name or a text can be found anywhere in the store, compressed or not.
fn is_plaintext(fixture: &Fixture) -> bool {
    let has = |bytes: &[u8], text: &str| {
        bytes
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    };
    files(&fixture.folder.path().join("store"))
        .iter()
        .any(|file| {
            let magic = ["SEGNOPK", "SEGNOMF", "SEGNOIX"];
            has(file, NAME) || has(file, TEXT) || magic.iter().any(|magic| has(file, magic))
        })
}

#[test]
fn encrypted_snapshot_restores_only_with_its_key() {
    let fixture = Fixture::new();
    fill(&fixture);
    let kept = capture(&fixture, &store(&fixture, Some(1)));
    assert!(!is_plaintext(&fixture));
    let before = tree_state(&fixture.work());
    let same = store(&fixture, Some(1));
    assert_eq!(same.verify(kept, &|_| {}).unwrap(), []);
    let restored = same.restore(kept, &fixture.target(), &Restore::default(), &|_| {});
    restored.unwrap();
    assert_same(&tree_state(&fixture.target()), &before);
    for (key, expected) in [
        (None, DecryptError::NoKey),
        (Some(2), DecryptError::OtherKey),
    ] {
        let other = store(&fixture, key);
        let into = fixture.folder.path().join("other");
        let refused = other.restore(kept, &into, &Restore::default(), &|_| {});
        assert!(
            matches!(refused, Err(Error::CannotDecrypt { shut, .. }) if shut == expected),
            "{refused:?}"
        );
        assert!(!into.exists());
        let swept = other.gc(Timestamp(0), Duration::ZERO);
        assert!(
            matches!(swept, Err(Error::CannotDecrypt { .. })),
            "{swept:?}"
        );
    }
    // The attempts lost nothing.
    assert_eq!(same.verify(kept, &|_| {}).unwrap(), []);
}

#[test]
fn encrypted_index_recognizes_unchanged_files() {
    let fixture = Fixture::new();
    fill(&fixture);
    let store = store(&fixture, Some(1));
    let first = capture(&fixture, &store);
    let work = fixture.work();
    let request = Request {
        recheck_per_mille: 0,
        ..Request::new(&work, &FROZEN_CLOCK)
    };
    // Files are too young at first, and are read again until they are not.
    let mut captures = (0..1000).map(|_| store.capture(&request, &|_| {}).unwrap());
    let known = captures.find(|captured| captured.read_files == 0).unwrap();
    assert_eq!(known.snapshot, first);
}

#[test]
fn gc_encrypts_older_plaintext_data() {
    let fixture = Fixture::new();
    fill(&fixture);
    let plain = capture(&fixture, &store(&fixture, None));
    assert!(is_plaintext(&fixture));
    let with_key = store(&fixture, Some(1));
    fixture.write("many/small", "y");
    let sealed = capture(&fixture, &with_key);
    for turn in 0..3 {
        with_key
            .gc(Timestamp(1_000_000_000 + turn), Duration::ZERO)
            .unwrap();
    }
    assert!(!is_plaintext(&fixture));
    for snapshot in [plain, sealed] {
        assert_eq!(with_key.verify(snapshot, &|_| {}).unwrap(), []);
    }
}

#[test]
fn damaged_encrypted_manifest_is_named() {
    let fixture = Fixture::sealed();
    fill(&fixture);
    let snapshot = fixture.capture().snapshot;
    let path = fixture
        .folder
        .path()
        .join(format!("store/manifests/{snapshot}"));
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    let damage = fixture.store.verify(snapshot, &|_| {}).unwrap();
    assert_eq!(damage.len(), 1);
    assert_eq!(damage[0].object, format!("manifest {snapshot}"));
}

#[test]
fn flipped_encrypted_bits_are_reported() {
    let fixture = Fixture::new();
    fixture.write(NAME, TEXT);
    let with_key = store(&fixture, Some(1));
    let kept = capture(&fixture, &with_key);
    let before = tree_state(&fixture.work());
    let (mut named, mut harmless) = (0, 0);
    for folder in ["packs", "manifests"] {
        let folder = fixture.folder.path().join("store").join(folder);
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let sound = fs::read(&path).unwrap();
            for at in 0..sound.len() {
                let mut flipped = sound.clone();
                flipped[at] ^= 1 << (at % 8);
                fs::write(&path, &flipped).unwrap();
                let damage = with_key.verify(kept, &|_| {});
                let into = fixture.folder.path().join(format!("into {at}"));
                let restored = with_key.restore(kept, &into, &Restore::default(), &|_| {});
                if restored.is_ok() {
                    assert_same(&tree_state(&into), &before);
                    harmless += 1;
                } else {
                    assert!(!matches!(damage, Ok(damage) if damage.is_empty()), "{at}");
                    named += 1;
                }
            }
            fs::write(&path, &sound).unwrap();
        }
    }
    assert_eq!(harmless, 0);
    assert!(named > 300, "{named}");
}
