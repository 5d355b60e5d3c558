//! A vault with a key.

use std::fs;
use std::path::Path;
use std::time::Duration;

use segno_core::cipher::{Cipher, Shut};
use segno_core::time::Timestamp;
use segno_snapshot::{Error, Request, Restore, Vault};

use crate::world::{STILL, World, assert_same, noise, picture};

const NAME: &str = "a-name-that-nobody-should-read";
const TEXT: &str = "a text that nobody should read\n";

fn vault(world: &World, key: Option<u8>) -> Vault {
    let cipher = key.map(|key| Cipher::new([key; 32]));
    Vault::open_with(&world.folder.path().join("vault"), cipher).unwrap()
}

fn fill(world: &World) {
    world.write(NAME, TEXT.repeat(3));
    world.write("large", noise(3_000_000, 1));
    world.write("many/small", "x");
}

fn take(world: &World, vault: &Vault) -> segno_core::digest::Digest {
    let captured = vault.capture(&Request::new(&world.work(), &STILL), &|_| {});
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

/// Whether a name or a text can be found anywhere in the vault, compressed or not.
fn is_legible(world: &World) -> bool {
    let has = |bytes: &[u8], text: &str| {
        bytes
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    };
    files(&world.folder.path().join("vault"))
        .iter()
        .any(|file| {
            let magic = ["SEGNOPK", "SEGNOMF", "SEGNOIX"];
            has(file, NAME) || has(file, TEXT) || magic.iter().any(|magic| has(file, magic))
        })
}

#[test]
fn what_is_kept_with_a_key_comes_back_with_it_and_says_nothing_without() {
    let world = World::new();
    fill(&world);
    let kept = take(&world, &vault(&world, Some(1)));
    assert!(!is_legible(&world));
    let before = picture(&world.work());
    let same = vault(&world, Some(1));
    assert_eq!(same.verify(kept, &|_| {}).unwrap(), []);
    let restored = same.restore(kept, &world.target(), &Restore::default(), &|_| {});
    restored.unwrap();
    assert_same(&picture(&world.target()), &before);
    for (key, expected) in [(None, Shut::NoKey), (Some(2), Shut::OtherKey)] {
        let other = vault(&world, key);
        let into = world.folder.path().join("other");
        let refused = other.restore(kept, &into, &Restore::default(), &|_| {});
        assert!(
            matches!(refused, Err(Error::Shut { shut, .. }) if shut == expected),
            "{refused:?}"
        );
        assert!(!into.exists());
        let swept = other.gc(Timestamp(0), Duration::ZERO);
        assert!(matches!(swept, Err(Error::Shut { .. })), "{swept:?}");
    }
    // Nothing was lost by trying.
    assert_eq!(same.verify(kept, &|_| {}).unwrap(), []);
}

#[test]
fn an_unchanged_folder_is_recognised_with_a_key_too() {
    let world = World::new();
    fill(&world);
    let vault = vault(&world, Some(1));
    let first = take(&world, &vault);
    let work = world.work();
    let request = Request {
        doubt: 0,
        ..Request::new(&work, &STILL)
    };
    // Files are young at first, and read again while they are.
    let mut captures = (0..1000).map(|_| vault.capture(&request, &|_| {}).unwrap());
    let known = captures.find(|captured| captured.read_files == 0).unwrap();
    assert_eq!(known.snapshot, first);
}

#[test]
fn what_was_kept_before_there_was_a_key_is_encrypted_by_a_sweep() {
    let world = World::new();
    fill(&world);
    let plain = take(&world, &vault(&world, None));
    assert!(is_legible(&world));
    let with_key = vault(&world, Some(1));
    world.write("many/small", "y");
    let sealed = take(&world, &with_key);
    for turn in 0..3 {
        with_key
            .gc(Timestamp(1_000_000_000 + turn), Duration::ZERO)
            .unwrap();
    }
    assert!(!is_legible(&world));
    for snapshot in [plain, sealed] {
        assert_eq!(with_key.verify(snapshot, &|_| {}).unwrap(), []);
    }
}

#[test]
fn a_flipped_bit_of_an_encrypted_vault_is_named_and_nothing_wrong_comes_back() {
    let world = World::new();
    world.write(NAME, TEXT);
    let with_key = vault(&world, Some(1));
    let kept = take(&world, &with_key);
    let before = picture(&world.work());
    let (mut named, mut harmless) = (0, 0);
    for folder in ["packs", "manifests"] {
        let folder = world.folder.path().join("vault").join(folder);
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let sound = fs::read(&path).unwrap();
            for at in 0..sound.len() {
                let mut flipped = sound.clone();
                flipped[at] ^= 1 << (at % 8);
                fs::write(&path, &flipped).unwrap();
                let damage = with_key.verify(kept, &|_| {});
                let into = world.folder.path().join(format!("into {at}"));
                let restored = with_key.restore(kept, &into, &Restore::default(), &|_| {});
                if restored.is_ok() {
                    assert_same(&picture(&into), &before);
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
