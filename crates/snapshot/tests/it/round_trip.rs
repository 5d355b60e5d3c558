//! Everything that is captured can be restored.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use proptest::prelude::*;

use crate::fixture::{Fixture, assert_same, noise, tree_state};

/// A change of a folder.
#[derive(Debug, Clone)]
enum FsChange {
    Write {
        path: Vec<usize>,
        size: usize,
        seed: u64,
        mode: u32,
    },
    Folder {
        path: Vec<usize>,
        mode: u32,
    },
    Link {
        path: Vec<usize>,
        target: String,
    },
    HardLink {
        from: Vec<usize>,
        to: Vec<usize>,
    },
    Remove {
        path: Vec<usize>,
    },
    Insert {
        path: Vec<usize>,
        at: usize,
    },
}

/// Names that are short, long, odd, with common prefixes, and not UTF-8.
const NAMES: [&[u8]; 10] = [
    b"a",
    b"a b",
    b"a!",
    b"ab",
    b".hidden",
    b"new\nline",
    b"\xff\xfe",
    "\u{e9}".as_bytes(),
    b"-rf",
    &[b'x'; 255],
];

fn at(root: &Path, path: &[usize]) -> PathBuf {
    let names = path
        .iter()
        .map(|name| OsStr::from_bytes(NAMES[name % NAMES.len()]));
    names.fold(root.to_owned(), |path, name| path.join(name))
}

fn clear(path: &Path) {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

/// Creates the folders above a path and replaces whatever was there.
fn create_parents(root: &Path, path: &[usize]) {
    for length in 1..path.len() {
        let above = at(root, &path[..length]);
        if !fs::symlink_metadata(&above).is_ok_and(|metadata| metadata.is_dir()) {
            clear(&above);
            fs::create_dir(&above).unwrap();
        }
        fs::set_permissions(&above, fs::Permissions::from_mode(0o755)).unwrap();
    }
    clear(&at(root, path));
}

impl FsChange {
    fn run(&self, root: &Path) {
        match self {
            FsChange::Write {
                path,
                size,
                seed,
                mode,
            } => {
                create_parents(root, path);
                let file = at(root, path);
                fs::write(&file, noise(*size, *seed)).unwrap();
                let stamp =
                    SystemTime::UNIX_EPOCH + Duration::new(*seed % 2_000_000_000, 123_456_789);
                fs::File::options()
                    .write(true)
                    .open(&file)
                    .unwrap()
                    .set_modified(stamp)
                    .unwrap();
                fs::set_permissions(&file, fs::Permissions::from_mode(*mode)).unwrap();
            }
            FsChange::Folder { path, mode } => {
                create_parents(root, path);
                fs::create_dir(at(root, path)).unwrap();
                fs::set_permissions(at(root, path), fs::Permissions::from_mode(*mode)).unwrap();
            }
            FsChange::Link { path, target } => {
                create_parents(root, path);
                symlink(target, at(root, path)).unwrap();
            }
            FsChange::HardLink { from, to } => {
                let is_file = |path: &Path| {
                    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
                };
                if is_file(&at(root, from)) && !to.starts_with(from) {
                    create_parents(root, to);
                    if is_file(&at(root, from)) {
                        fs::hard_link(at(root, from), at(root, to)).unwrap();
                    }
                }
            }
            FsChange::Remove { path } => clear(&at(root, path)),
            FsChange::Insert { path, at: place } => {
                if let Ok(mut content) = fs::read(at(root, path)) {
                    let place = place % (content.len() + 1);
                    content.insert(place, 7);
                    let _ = fs::write(at(root, path), content);
                }
            }
        }
    }
}

fn path() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0..NAMES.len(), 1..4)
}

/// Sizes around the limits of chunks and blocks, and small ones.
fn size() -> impl Strategy<Value = usize> {
    const MIB: usize = 1024 * 1024;
    prop_oneof![
        6 => 0_usize..5000,
        1 => prop::sample::select(vec![MIB - 1, MIB, MIB + 1, 64 * 1024, 3 * MIB + 17, 2 * MIB]),
    ]
}

fn mode() -> impl Strategy<Value = u32> {
    prop::sample::select(vec![
        0o644, 0o755, 0o600, 0o440, 0o000, 0o4755, 0o2755, 0o1777,
    ])
}

fn change() -> impl Strategy<Value = FsChange> {
    prop_oneof![
        5 => (path(), size(), any::<u64>(), mode())
            .prop_map(|(path, size, seed, mode)| FsChange::Write { path, size, seed, mode }),
        1 => (path(), mode()).prop_map(|(path, mode)| FsChange::Folder { path, mode }),
        1 => (path(), prop::sample::select(vec!["/etc/passwd", "..", "a", "nowhere", "../../x"]))
            .prop_map(|(path, target)| FsChange::Link { path, target: target.into() }),
        1 => (path(), path()).prop_map(|(from, to)| FsChange::HardLink { from, to }),
        1 => path().prop_map(|path| FsChange::Remove { path }),
        1 => (path(), any::<usize>()).prop_map(|(path, at)| FsChange::Insert { path, at }),
    ]
}

#[test]
fn every_file_mode_is_restored() {
    let fixture = Fixture::new();
    let special = [0o1644, 0o2755, 0o4711, 0o7777];
    for mode in (0o400..=0o777).chain(special) {
        let name = format!("{mode:o}");
        fixture.write(&name, &name);
        fs::set_permissions(fixture.at(&name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let captured = fixture.capture();
    fixture.restore(captured.snapshot, &fixture.target());
    assert_same(&tree_state(&fixture.target()), &tree_state(&fixture.work()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// A chain of snapshots, each with a few changes: every one is restored into an empty folder,
    /// and into one that contains another of them.
    #[test]
    fn every_snapshot_of_a_changing_folder_restores(
        chapters in prop::collection::vec(prop::collection::vec(change(), 1..12), 1..5),
        order in prop::collection::vec(any::<prop::sample::Index>(), 1..4),
    ) {
        let fixture = Fixture::new();
        let mut taken = Vec::new();
        for changes in &chapters {
            changes.iter().for_each(|change| change.run(&fixture.work()));
            let captured = fixture.capture();
            prop_assert!(captured.skipped.is_empty(), "{:?}", captured.skipped);
            prop_assert!(captured.unstable.is_empty());
            taken.push((captured.snapshot, tree_state(&fixture.work())));
        }
        for turn in order {
            let (snapshot, expected) = &taken[turn.index(taken.len())];
            fixture.restore(*snapshot, &fixture.target());
            assert_same(&tree_state(&fixture.target()), expected);
        }
        for (number, (snapshot, expected)) in taken.iter().enumerate() {
            let fresh = fixture.folder.path().join(format!("fresh-{number}"));
            fixture.restore(*snapshot, &fresh);
            assert_same(&tree_state(&fresh), expected);
        }
    }
}
