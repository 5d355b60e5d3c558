//! Transfers of snapshots from one store to another.

use std::fs;

use segno_core::snapshot::transfer::{Part, PartKind};
use segno_core::time::Timestamp;
use segno_snapshot::Error;
use std::time::Duration;

use crate::fixture::{Fixture, noise, tree_state};

/// Writes bytes into a draft and adopts it.
fn import_part(fixture: &Fixture, part: &Part, bytes: &[u8]) -> Result<(), Error> {
    let draft = fixture.store.new_draft().unwrap();
    fs::write(&draft.path, bytes).unwrap();
    fixture.store.import_part(part, &draft)
}

/// The number of drafts left behind.
fn drafts(fixture: &Fixture) -> usize {
    let drafts = fixture.folder.path().join("store/drafts");
    fs::read_dir(drafts).unwrap().count()
}

#[test]
fn transferred_snapshot_restores_elsewhere() {
    let here = Fixture::new();
    for number in 0..40 {
        here.write(&format!("src/{number}.rs"), format!("fn f{number}() {{}}"));
    }
    here.write("long", noise(3_000_000, 1));
    here.capture();
    here.write("src/7.rs", "changed");
    let snapshot = here.capture().snapshot;
    let load = here.store.collect_parts(&[snapshot]).unwrap();
    let sorts: Vec<PartKind> = load.parts.iter().map(|(part, _)| part.kind).collect();
    assert_eq!(
        sorts[..2],
        [PartKind::Manifest, PartKind::Manifest],
        "the second builds on the first"
    );
    let there = Fixture::new();
    let parts: Vec<Part> = load.parts.iter().map(|(part, _)| *part).collect();
    assert_eq!(there.store.missing_parts(&parts).unwrap(), parts);
    for (part, path) in &load.parts {
        assert!(
            there.store.register_snapshots(&[snapshot]).is_err(),
            "before {part}"
        );
        import_part(&there, part, &fs::read(path).unwrap()).unwrap();
    }
    assert!(
        there.store.snapshots().unwrap().is_empty(),
        "not listed yet"
    );
    there.store.register_snapshots(&[snapshot]).unwrap();
    assert_eq!(there.store.missing_parts(&parts).unwrap(), []);
    assert_eq!(there.store.snapshots().unwrap(), [snapshot]);
    there.restore(snapshot, &there.target());
    assert_eq!(tree_state(&there.target()), tree_state(&here.work()));
    assert_eq!(drafts(&there), 0);
}

#[test]
fn damaged_transfer_parts_are_refused() {
    let here = Fixture::new();
    here.write("a", "alpha");
    here.write("b", "alphabet".repeat(50));
    let snapshot = here.capture().snapshot;
    let load = here.store.collect_parts(&[snapshot]).unwrap();
    let there = Fixture::new();
    let mut harmless = 0;
    for (part, path) in &load.parts {
        let good = fs::read(path).unwrap();
        for place in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[place] ^= 1 << bit;
                match import_part(&there, part, &bad) {
                    Err(Error::Damaged { .. }) => {}
                    // A bit that zstd ignores: the unpacked content is the same.
                    Ok(()) if part.kind == PartKind::Pack => {
                        harmless += 1;
                        let pack = format!("store/packs/{}", part.name);
                        fs::remove_file(there.folder.path().join(pack)).unwrap();
                    }
                    other => panic!("{part} {place} {bit}: {other:?}"),
                }
            }
            assert!(
                import_part(&there, part, &good[..place]).is_err(),
                "{part} {place}"
            );
        }
        assert_eq!(there.store.missing_parts(&[*part]).unwrap(), [*part]);
        assert_eq!(drafts(&there), 0);
        import_part(&there, part, &good).unwrap();
    }
    there.store.register_snapshots(&[snapshot]).unwrap();
    assert!(harmless <= 4, "{harmless}");
}

#[test]
fn damaged_encrypted_parts_are_refused() {
    let here = Fixture::sealed();
    // Long enough for blocks and table to be encrypted apart.
    here.write("a", noise(300_000, 1));
    let snapshot = here.capture().snapshot;
    let load = here.store.collect_parts(&[snapshot]).unwrap();
    let there = Fixture::sealed();
    for (part, path) in &load.parts {
        let good = fs::read(path).unwrap();
        for place in (0..good.len()).step_by(1 + good.len() / 200) {
            let mut bad = good.clone();
            bad[place] ^= 1;
            let refused = import_part(&there, part, &bad);
            // A flipped bit in the name of the key makes it another key.
            let is_refused = match &refused {
                Err(Error::Damaged { .. }) => true,
                Err(Error::CannotDecrypt { .. }) => place < 64,
                _ => false,
            };
            assert!(is_refused, "{part} {place}: {refused:?}");
        }
        import_part(&there, part, &good).unwrap();
    }
    there.store.register_snapshots(&[snapshot]).unwrap();
}

#[test]
fn patches_of_patches_are_received() {
    for [here, there] in [
        [Fixture::new(), Fixture::new()],
        [Fixture::sealed(), Fixture::sealed()],
    ] {
        let mut content = noise(5000, 1);
        here.write("a", &content);
        let mut snapshot = here.capture().snapshot;
        // In which order they are verified depends on their random names.
        for place in [100, 200, 300, 400, 500, 600] {
            content[place] ^= 1;
            here.write("a", &content);
            snapshot = here.capture().snapshot;
        }
        let load = here.store.collect_parts(&[snapshot]).unwrap();
        let packs = load.parts.iter().map(|(part, _)| part);
        let packs: Vec<u64> = packs
            .filter(|part| part.kind == PartKind::Pack)
            .map(|part| part.bytes)
            .collect();
        let patches = packs.iter().filter(|bytes| **bytes < 1000).count();
        assert_eq!((packs.len(), patches), (7, 6));
        for (part, path) in &load.parts {
            import_part(&there, part, &fs::read(path).unwrap()).unwrap();
        }
        there.store.register_snapshots(&[snapshot]).unwrap();
        there.restore(snapshot, &there.target());
        assert_eq!(tree_state(&there.target()), tree_state(&here.work()));
    }
}

#[test]
fn damaged_patches_are_refused_when_their_base_is_here() {
    let here = Fixture::new();
    let mut content = noise(5000, 1);
    here.write("a", &content);
    here.capture();
    content[100] ^= 1;
    here.write("a", &content);
    let snapshot = here.capture().snapshot;
    let load = here.store.collect_parts(&[snapshot]).unwrap();
    let read = |path: &std::path::Path| fs::read(path).unwrap();
    let mut parts: Vec<_> = load.parts.iter().collect();
    parts.sort_by_key(|(part, _)| std::cmp::Reverse((part.kind == PartKind::Pack, part.bytes)));
    let (base, patch) = (parts[0], parts[1]);
    assert!(base.0.bytes > 5000 && patch.0.bytes < 500);
    let there = Fixture::new();
    for (part, path) in load.parts.iter().filter(|it| *it != patch) {
        import_part(&there, part, &read(path)).unwrap();
    }
    let missing = there.store.register_snapshots(&[snapshot]);
    assert!(matches!(missing, Err(Error::Damaged { .. })), "{missing:?}");
    let (part, path) = patch;
    let packs = there.folder.path().join("store/packs");
    let good = read(path);
    let (mut refused, mut harmless) = (0, 0);
    for place in 0..good.len() {
        let mut bad = good.clone();
        bad[place] ^= 1;
        if let Err(error) = import_part(&there, part, &bad) {
            assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
            continue;
        }
        match there.store.register_snapshots(&[snapshot]) {
            Err(Error::Damaged { object, reason }) => {
                assert_eq!(object, format!("block 0 of pack {}", part.name));
                let expected = "its patch does not produce the content of its digest";
                assert_eq!(reason, expected);
                refused += 1;
            }
            // A bit that zstd ignores.
            Ok(()) => {
                there.store.remove(snapshot).unwrap();
                fs::remove_file(packs.join(part.name.to_string())).unwrap();
                harmless += 1;
            }
            other => panic!("{place}: {other:?}"),
        }
        assert_eq!(fs::read_dir(&packs).unwrap().count(), 1, "it stays nowhere");
        assert!(there.store.snapshots().unwrap().is_empty());
    }
    assert!(refused > 10 && harmless < 5, "{refused} and {harmless}");
    import_part(&there, part, &good).unwrap();
    there.store.register_snapshots(&[snapshot]).unwrap();
    there.restore(snapshot, &there.target());
    assert_eq!(tree_state(&there.target()), tree_state(&here.work()));
}

#[test]
fn gc_waits_for_a_transfer() {
    let here = Fixture::new();
    here.write("a", "alpha");
    let snapshot = here.capture().snapshot;
    let load = here.store.collect_parts(&[snapshot]).unwrap();
    here.store.remove(snapshot).unwrap();
    let sweep = || here.store.gc(Timestamp(1), Duration::ZERO).unwrap();
    assert!(sweep().busy);
    assert!(load.parts.iter().all(|(_, path)| path.exists()));
    drop(load);
    assert!(!sweep().busy);
}

#[test]
fn existing_manifest_form_is_kept() {
    let here = Fixture::new();
    for number in 0..40 {
        here.write(&format!("{number}"), format!("{number}"));
    }
    let first = here.capture().snapshot;
    here.write("7", "changed");
    let second = here.capture().snapshot;
    let there = Fixture::new();
    for (part, path) in &here.store.collect_parts(&[second]).unwrap().parts {
        import_part(&there, part, &fs::read(path).unwrap()).unwrap();
    }
    there.store.register_snapshots(&[second]).unwrap();
    // The first snapshot is unlisted here, so the second is rewritten as a whole manifest.
    here.store.remove(first).unwrap();
    here.store
        .gc(Timestamp(1), Duration::from_hours(1))
        .unwrap();
    let load = here.store.collect_parts(&[second]).unwrap();
    let manifests = load
        .parts
        .iter()
        .filter(|(part, _)| part.kind == PartKind::Manifest);
    assert_eq!(manifests.count(), 1);
    let parts: Vec<Part> = load.parts.iter().map(|(part, _)| *part).collect();
    assert_eq!(there.store.missing_parts(&parts).unwrap(), []);
}
