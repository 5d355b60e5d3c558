//! What is kept beside the files of a folder.

use std::path::Path;

use crate::world::{World, noise};

fn papers(length: usize) -> Vec<(String, Vec<u8>)> {
    let mut long = noise(9_000_000, 1);
    long.truncate(length);
    vec![
        ("session.jsonl".into(), long),
        ("mcp/one.json".into(), b"{}".to_vec()),
    ]
}

#[test]
fn papers_are_read_back_by_their_names() {
    let world = World::new();
    let kept = world.vault.keep(&papers(3_000_000)).unwrap();
    for (name, bytes) in papers(3_000_000) {
        assert_eq!(world.vault.read(kept, Path::new(&name)).unwrap(), bytes);
    }
    assert_eq!(world.vault.keep(&papers(3_000_000)).unwrap(), kept);
    assert!(world.vault.verify(kept, &|_| {}).unwrap().is_empty());
}

#[test]
fn a_paper_that_grows_costs_what_it_grew_by() {
    let world = World::new();
    world.vault.keep(&papers(8_000_000)).unwrap();
    let longer = world.vault.keep(&papers(8_100_000)).unwrap();
    let size = world.vault.size(longer).unwrap();
    assert!(size.own < 2_000_000, "{size:?}");
    assert!(size.shared > 2_000_000, "{size:?}");
}

#[test]
fn papers_with_names_that_lead_away_are_refused() {
    let world = World::new();
    for name in ["../up", "/etc/passwd", "a/../b", ""] {
        let papers = [(name.to_owned(), b"x".to_vec())];
        assert!(world.vault.keep(&papers).is_err(), "{name}");
    }
    assert!(world.vault.snapshots().unwrap().is_empty());
}
