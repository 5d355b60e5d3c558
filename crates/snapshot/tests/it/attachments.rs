//! Attachments: files that are stored beside those of a folder.

use std::path::Path;

use crate::fixture::{Fixture, noise};

fn attachments(length: usize) -> Vec<(String, Vec<u8>)> {
    let mut long = noise(9_000_000, 1);
    long.truncate(length);
    vec![
        ("session.jsonl".into(), long),
        ("mcp/one.json".into(), b"{}".to_vec()),
    ]
}

#[test]
fn attachments_are_read_back_by_name() {
    let fixture = Fixture::new();
    let kept = fixture.store.put_files(&attachments(3_000_000)).unwrap();
    for (name, bytes) in attachments(3_000_000) {
        assert_eq!(fixture.store.read(kept, Path::new(&name)).unwrap(), bytes);
    }
    assert_eq!(
        fixture.store.put_files(&attachments(3_000_000)).unwrap(),
        kept
    );
    assert!(fixture.store.verify(kept, &|_| {}).unwrap().is_empty());
}

#[test]
fn growing_attachment_costs_its_growth() {
    let fixture = Fixture::new();
    fixture.store.put_files(&attachments(8_000_000)).unwrap();
    let longer = fixture.store.put_files(&attachments(8_100_000)).unwrap();
    let size = fixture.store.size(longer).unwrap();
    assert!(size.own < 2_000_000, "{size:?}");
    assert!(size.shared > 2_000_000, "{size:?}");
}

#[test]
fn attachment_names_leading_out_are_refused() {
    let fixture = Fixture::new();
    for name in ["../up", "/etc/passwd", "a/../b", ""] {
        let attachments = [(name.to_owned(), b"x".to_vec())];
        assert!(fixture.store.put_files(&attachments).is_err(), "{name}");
    }
    assert!(fixture.store.snapshots().unwrap().is_empty());
}
