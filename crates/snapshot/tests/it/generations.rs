//! Many generations of edited files, with snapshots removed in between: each remaining one is
//! restored byte for byte.

use std::fs;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use segno_core::time::Timestamp;

use crate::fixture::{Fixture, assert_same, noise, tree_state};

const FILES: usize = 4;

/// An edit of a file: where, and with how many bytes.
#[derive(Debug, Clone)]
enum Edit {
    Insert(Index, usize, u64),
    Delete(Index, usize),
    Overwrite(Index, usize, u64),
    Append(usize, u64),
    Truncate(Index),
}

impl Edit {
    fn run(&self, content: &mut Vec<u8>) {
        let at = |index: &Index, content: &[u8]| index.index(content.len() + 1);
        match self {
            Edit::Insert(index, length, seed) => {
                let at = at(index, content);
                content.splice(at..at, noise(*length, *seed));
            }
            Edit::Delete(index, length) => {
                let at = at(index, content);
                let to = content.len().min(at + length);
                content.drain(at..to);
            }
            Edit::Overwrite(index, length, seed) => {
                let at = at(index, content);
                let to = content.len().min(at + length);
                content[at..to].copy_from_slice(&noise(to - at, *seed));
            }
            Edit::Append(length, seed) => content.extend(noise(*length, *seed)),
            Edit::Truncate(index) => content.truncate(at(index, content)),
        }
    }
}

fn edit() -> impl Strategy<Value = Edit> {
    let length = prop_oneof![8 => 0_usize..200, 1 => 0_usize..300_000];
    let spot = (any::<Index>(), length, any::<u64>());
    prop_oneof![
        4 => spot.clone().prop_map(|(at, length, seed)| Edit::Insert(at, length, seed)),
        3 => spot.clone().prop_map(|(at, length, _)| Edit::Delete(at, length)),
        4 => spot.clone().prop_map(|(at, length, seed)| Edit::Overwrite(at, length, seed)),
        3 => spot.prop_map(|(_, length, seed)| Edit::Append(length, seed)),
        1 => any::<Index>().prop_map(Edit::Truncate),
    ]
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0_usize..60_000, 1 => 1_000_000_usize..5_000_000]
}

/// Edits, each of one of the files; then perhaps the removal of a snapshot, and a garbage
/// collection.
type Generation = (Vec<(usize, Edit)>, Option<Index>, bool);

fn generation() -> impl Strategy<Value = Generation> {
    (
        prop::collection::vec((0..FILES, edit()), 1..5),
        prop::option::weighted(0.5, any::<Index>()),
        any::<bool>(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn every_listed_generation_is_restored(
        sizes in prop::collection::vec(size(), FILES),
        generations in prop::collection::vec(generation(), 8..24),
    ) {
        let fixture = Fixture::new();
        let mut contents: Vec<_> = (0_u64..).zip(sizes).map(|(seed, size)| noise(size, seed)).collect();
        let (mut taken, mut hour) = (Vec::new(), 0);
        for (edits, leaves, sweeps) in generations {
            for (file, edit) in edits {
                edit.run(&mut contents[file]);
            }
            for (file, content) in contents.iter().enumerate() {
                let path = fixture.at(file.to_string());
                if fs::read(&path).ok().as_ref() != Some(content) {
                    fs::write(path, content).unwrap();
                }
            }
            let snapshot = fixture.capture().snapshot;
            taken.retain(|(other, _)| *other != snapshot);
            taken.push((snapshot, tree_state(&fixture.work())));
            if let Some(leaves) = leaves {
                let (gone, _) = taken.remove(leaves.index(taken.len()));
                fixture.store.remove(gone).unwrap();
            }
            if sweeps {
                hour += 2;
                fixture.store.gc(Timestamp(hour * 3_600_000), Duration::from_hours(1)).unwrap();
            }
        }
        for (number, (snapshot, expected)) in taken.iter().enumerate() {
            prop_assert_eq!(fixture.store.verify(*snapshot, &|_| {}).unwrap(), []);
            let target = fixture.folder.path().join(format!("target-{number}"));
            fixture.restore(*snapshot, &target);
            assert_same(&tree_state(&target), expected);
        }
    }
}
