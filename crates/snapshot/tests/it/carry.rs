//! Snapshots that are carried from one vault to another.

use std::fs;

use segno_core::carry::{Part, Sort};
use segno_core::time::Timestamp;
use segno_snapshot::Error;
use std::time::Duration;

use crate::world::{World, noise, picture};

/// Writes bytes into a draft, and has it taken in.
fn bring(world: &World, part: &Part, bytes: &[u8]) -> Result<(), Error> {
    let draft = world.vault.draft().unwrap();
    fs::write(&draft.path, bytes).unwrap();
    world.vault.adopt(part, &draft)
}

/// The drafts that were left behind.
fn drafts(world: &World) -> usize {
    let drafts = world.folder.path().join("vault/drafts");
    fs::read_dir(drafts).unwrap().count()
}

#[test]
fn what_is_carried_is_restored_elsewhere_as_it_was() {
    let here = World::new();
    for number in 0..40 {
        here.write(&format!("src/{number}.rs"), format!("fn f{number}() {{}}"));
    }
    here.write("long", noise(3_000_000, 1));
    here.capture();
    here.write("src/7.rs", "changed");
    let snapshot = here.capture().snapshot;
    let load = here.vault.load(&[snapshot]).unwrap();
    let sorts: Vec<Sort> = load.parts.iter().map(|(part, _)| part.sort).collect();
    assert_eq!(
        sorts[..2],
        [Sort::Manifest, Sort::Manifest],
        "the second builds on the first"
    );
    let there = World::new();
    let parts: Vec<Part> = load.parts.iter().map(|(part, _)| *part).collect();
    assert_eq!(there.vault.lacking(&parts).unwrap(), parts);
    for (part, path) in &load.parts {
        assert!(there.vault.enlist(&[snapshot]).is_err(), "before {part}");
        bring(&there, part, &fs::read(path).unwrap()).unwrap();
    }
    assert!(
        there.vault.snapshots().unwrap().is_empty(),
        "not listed yet"
    );
    there.vault.enlist(&[snapshot]).unwrap();
    assert_eq!(there.vault.lacking(&parts).unwrap(), []);
    assert_eq!(there.vault.snapshots().unwrap(), [snapshot]);
    there.restore(snapshot, &there.target());
    assert_eq!(picture(&there.target()), picture(&here.work()));
    assert_eq!(drafts(&there), 0);
}

#[test]
fn every_flipped_bit_and_every_cut_is_refused() {
    let here = World::new();
    here.write("a", "alpha");
    here.write("b", "alphabet".repeat(50));
    let snapshot = here.capture().snapshot;
    let load = here.vault.load(&[snapshot]).unwrap();
    let there = World::new();
    let mut harmless = 0;
    for (part, path) in &load.parts {
        let good = fs::read(path).unwrap();
        for place in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[place] ^= 1 << bit;
                match bring(&there, part, &bad) {
                    Err(Error::Damaged { .. }) => {}
                    // A bit that zstd does not look at: everything that is unpacked is the same.
                    Ok(()) if part.sort == Sort::Pack => {
                        harmless += 1;
                        let pack = format!("vault/packs/{}", part.name);
                        fs::remove_file(there.folder.path().join(pack)).unwrap();
                    }
                    other => panic!("{part} {place} {bit}: {other:?}"),
                }
            }
            assert!(
                bring(&there, part, &good[..place]).is_err(),
                "{part} {place}"
            );
        }
        assert_eq!(there.vault.lacking(&[*part]).unwrap(), [*part]);
        assert_eq!(drafts(&there), 0);
        bring(&there, part, &good).unwrap();
    }
    there.vault.enlist(&[snapshot]).unwrap();
    assert!(harmless <= 4, "{harmless}");
}

#[test]
fn nothing_is_deleted_while_it_is_carried() {
    let here = World::new();
    here.write("a", "alpha");
    let snapshot = here.capture().snapshot;
    let load = here.vault.load(&[snapshot]).unwrap();
    here.vault.remove(snapshot).unwrap();
    let sweep = || here.vault.gc(Timestamp(1), Duration::ZERO).unwrap();
    assert!(sweep().busy);
    assert!(load.parts.iter().all(|(_, path)| path.exists()));
    drop(load);
    assert!(!sweep().busy);
}

#[test]
fn a_manifest_that_is_here_in_another_form_stays_as_it_is() {
    let here = World::new();
    for number in 0..40 {
        here.write(&format!("{number}"), format!("{number}"));
    }
    let first = here.capture().snapshot;
    here.write("7", "changed");
    let second = here.capture().snapshot;
    let there = World::new();
    for (part, path) in &here.vault.load(&[second]).unwrap().parts {
        bring(&there, part, &fs::read(path).unwrap()).unwrap();
    }
    there.vault.enlist(&[second]).unwrap();
    // The first is let go here, so the second is written down whole.
    here.vault.remove(first).unwrap();
    here.vault
        .gc(Timestamp(1), Duration::from_hours(1))
        .unwrap();
    let load = here.vault.load(&[second]).unwrap();
    let manifests = load
        .parts
        .iter()
        .filter(|(part, _)| part.sort == Sort::Manifest);
    assert_eq!(manifests.count(), 1);
    let parts: Vec<Part> = load.parts.iter().map(|(part, _)| *part).collect();
    assert_eq!(there.vault.lacking(&parts).unwrap(), []);
}
