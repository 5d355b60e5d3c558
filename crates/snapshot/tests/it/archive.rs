//! Archives: export and import, with GNU tar on either side.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::prelude::*;
use segno_core::digest::Digest;
use segno_snapshot::archive::Measure;
use segno_snapshot::{Archive, CaptureReport, Error, ImportMode, Limits, Restore, SnapshotStore};

use crate::fixture::{Fixture, assert_same, noise, tree_state};

fn archive(from: &Path) -> Archive<'_> {
    Archive {
        from,
        digest: None,
        snapshot: None,
        limits: Limits::default(),
        mode: ImportMode::Store,
    }
}

/// An empty snapshot store.
fn empty_store(fixture: &Fixture) -> SnapshotStore {
    SnapshotStore::open(&fixture.folder.path().join("other")).unwrap()
}

fn import(store: &SnapshotStore, file: &Path) -> Result<CaptureReport, Error> {
    store.import_archive(&archive(file), &|_| {})
}

fn write(fixture: &Fixture, snapshot: Digest, name: &str) -> PathBuf {
    let file = fixture.folder.path().join(name);
    fixture
        .store
        .write_archive(snapshot, &file, &|_| {})
        .unwrap();
    file
}

fn restore(store: &SnapshotStore, snapshot: Digest, into: &Path) {
    let options = Restore {
        privileges: true,
        durable: false,
        ..Restore::default()
    };
    store.restore(snapshot, into, &options, &|_| {}).unwrap();
}

fn tar(words: &[&str], folder: &Path) {
    let status = Command::new("tar")
        .args(words)
        .current_dir(folder)
        .env("LC_ALL", "C")
        .status()
        .unwrap();
    assert!(status.success(), "tar {words:?}");
}

/// Everything that is hard to store.
fn fill(fixture: &Fixture) {
    fixture.write("plain.txt", "text\n");
    fixture.write("empty", "");
    fixture.write("large.bin", noise(3_000_000, 7));
    fixture.write("sub/tool", "#!/bin/sh\n");
    fixture.write("sub-b", "sorts between sub and what is in it\n");
    fixture.write(
        &format!("{}/deep", "folder-with-a-name/".repeat(40)),
        "deep\n",
    );
    fixture.write("\u{e9}\u{1f980}.txt", "not ascii\n");
    let odd = std::ffi::OsStr::from_bytes(b"not-\xff-utf8\n and a line");
    fs::write(fixture.at(odd), "odd\n").unwrap();
    let long = [&[0xfe; 120][..], b"-long"].concat();
    fs::write(fixture.at(std::ffi::OsStr::from_bytes(&long)), "long\n").unwrap();
    fs::create_dir(fixture.at("nothing-in-it")).unwrap();
    fs::hard_link(fixture.at("sub/tool"), fixture.at("another-name")).unwrap();
    fs::hard_link(fixture.at("sub/tool"), fixture.at("sub/third")).unwrap();
    std::os::unix::fs::symlink("../outside", fixture.at("link")).unwrap();
    std::os::unix::fs::symlink("x".repeat(3000), fixture.at("long-link")).unwrap();
    let mode = |path: &str, mode| {
        fs::set_permissions(fixture.at(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("sub/tool", 0o4750);
    mode("plain.txt", 0o400);
    mode("nothing-in-it", 0o1777);
    let touch = |path: &str, time: &str| {
        let status = Command::new("touch")
            .args(["-h", "-d", time])
            .arg(fixture.at(path))
            .status();
        assert!(status.unwrap().success());
    };
    touch("empty", "2001-02-03 04:05:06.123456789 UTC");
    touch("link", "1969-12-31 23:59:58.5 UTC");
    touch("nothing-in-it", "2500-01-01 00:00:00 UTC");
}

#[test]
fn archive_round_trips_a_snapshot() {
    let fixture = Fixture::new();
    fill(&fixture);
    let captured = fixture.capture();
    let file = write(&fixture, captured.snapshot, "a.tar.zst");
    let store = empty_store(&fixture);
    let taken = import(&store, &file).unwrap();
    assert_eq!(taken.snapshot, captured.snapshot);
    assert_eq!((taken.files, taken.bytes), (captured.files, captured.bytes));
    assert_eq!(store.verify(taken.snapshot, &|_| {}).unwrap(), []);
    restore(&store, taken.snapshot, &fixture.target());
    assert_same(&tree_state(&fixture.target()), &tree_state(&fixture.work()));
}

#[test]
fn same_snapshot_gives_the_same_archive() {
    let fixture = Fixture::new();
    fill(&fixture);
    let snapshot = fixture.capture().snapshot;
    let one = fs::read(write(&fixture, snapshot, "one")).unwrap();
    let store = empty_store(&fixture);
    import(&store, &fixture.folder.path().join("one")).unwrap();
    let two = fixture.folder.path().join("two");
    let written = store.write_archive(snapshot, &two, &|_| {}).unwrap();
    assert_eq!(fs::read(&two).unwrap(), one);
    assert_eq!(written.digest, Digest::of(&one));
    assert_eq!(written.bytes, one.len() as u64);
    // An existing file is not replaced.
    assert!(store.write_archive(snapshot, &two, &|_| {}).is_err());
}

#[test]
fn gnu_tar_unpacks_our_archives() {
    let fixture = Fixture::new();
    fill(&fixture);
    let file = write(&fixture, fixture.capture().snapshot, "a.tar.zst");
    fs::create_dir(fixture.target()).unwrap();
    let file = file.to_str().unwrap();
    tar(&["--zstd", "-xpf", file, "--xattrs"], &fixture.target());
    assert_same(&tree_state(&fixture.target()), &tree_state(&fixture.work()));
}

#[test]
fn gnu_tar_formats_are_imported() {
    for form in ["gnu", "posix", "oldgnu"] {
        let fixture = Fixture::new();
        fill(&fixture);
        let file = fixture.folder.path().join("a.tar.zst");
        let form = format!("--format={form}");
        let words = ["--zstd", &form, "-cf", file.to_str().unwrap(), "."];
        tar(&words, &fixture.work());
        let taken = import(&fixture.store, &file).unwrap();
        restore(&fixture.store, taken.snapshot, &fixture.target());
        // GNU's own formats store whole seconds only.
        let (mut left, mut right) = (tree_state(&fixture.target()), tree_state(&fixture.work()));
        if form != "--format=posix" {
            for state in left.values_mut().chain(right.values_mut()) {
                state.whole_seconds();
            }
        }
        assert_same(&left, &right);
        if form == "--format=posix" {
            assert_eq!(taken.snapshot, fixture.capture().snapshot);
        }
    }
}

#[test]
fn implied_folders_are_created() {
    let fixture = Fixture::new();
    fixture.write("a/b/c", "deep\n");
    fixture.write("a/d", "less\n");
    let file = fixture.folder.path().join("a.tar.zst");
    let words = ["--zstd", "-cf", file.to_str().unwrap(), "a/d", "a/b/c"];
    tar(&words, &fixture.work());
    let taken = import(&fixture.store, &file).unwrap();
    restore(&fixture.store, taken.snapshot, &fixture.target());
    assert_eq!(fs::read(fixture.target().join("a/b/c")).unwrap(), b"deep\n");
    assert_eq!(fs::read(fixture.target().join("a/d")).unwrap(), b"less\n");
}

#[test]
fn archive_keeps_extended_attributes() {
    let fixture = Fixture::new();
    fixture.write("a", "x");
    let value: Vec<u8> = (0..=255).collect();
    let names = ["user.plain", "user.with=sign", "user.with%25"];
    for name in names {
        let flags = rustix::fs::XattrFlags::empty();
        if rustix::fs::setxattr(fixture.at("a"), name, &value, flags).is_err() {
            eprintln!("this file system keeps no attributes");
            return;
        }
    }
    let captured = fixture.capture();
    let file = write(&fixture, captured.snapshot, "a.tar.zst");
    let store = empty_store(&fixture);
    assert_eq!(import(&store, &file).unwrap().snapshot, captured.snapshot);
    fs::create_dir(fixture.target()).unwrap();
    let words = ["--zstd", "--xattrs", "-xf", file.to_str().unwrap()];
    tar(&words, &fixture.target());
    let packed = fixture.folder.path().join("b.tar.zst");
    let words = [
        "--zstd",
        "--xattrs",
        "--format=posix",
        "-cf",
        packed.to_str().unwrap(),
        ".",
    ];
    tar(&words, &fixture.work());
    assert_eq!(import(&store, &packed).unwrap().snapshot, captured.snapshot);
    for name in names {
        let mut read = vec![0; 300];
        let length = rustix::fs::getxattr(fixture.target().join("a"), name, &mut read[..]).unwrap();
        assert_eq!(read[..length], value[..]);
    }
}

#[test]
fn archive_keeps_excluded_paths() {
    let fixture = Fixture::new();
    fixture.write("a", "x");
    let status = Command::new("mkfifo")
        .arg(fixture.at("p\u{e9}pe%"))
        .status();
    assert!(status.unwrap().success());
    let captured = fixture.capture();
    assert_eq!(captured.skipped.len(), 1);
    let file = write(&fixture, captured.snapshot, "a.tar.zst");
    let taken = import(&empty_store(&fixture), &file).unwrap();
    assert_eq!(taken.skipped, captured.skipped);
    assert_eq!(taken.snapshot, captured.snapshot);
    // GNU tar prints nothing about the comment.
    fs::create_dir(fixture.target()).unwrap();
    let said = Command::new("tar")
        .args(["--zstd", "-xf"])
        .arg(&file)
        .current_dir(fixture.target())
        .output();
    assert_eq!(String::from_utf8_lossy(&said.unwrap().stderr), "");
}

#[test]
fn checking_an_archive_stores_nothing() {
    let fixture = Fixture::new();
    fill(&fixture);
    let captured = fixture.capture();
    let file = write(&fixture, captured.snapshot, "a.tar.zst");
    let store = empty_store(&fixture);
    let request = Archive {
        mode: ImportMode::VerifyOnly,
        ..archive(&file)
    };
    let taken = store.import_archive(&request, &|_| {}).unwrap();
    assert_eq!(taken.snapshot, captured.snapshot);
    assert_eq!(store.snapshots().unwrap(), []);
    let packs = fs::read_dir(fixture.folder.path().join("other/packs")).unwrap();
    assert_eq!(packs.count(), 0);
}

#[test]
fn archive_with_wrong_digest_is_refused() {
    let fixture = Fixture::new();
    fixture.write("a", "x");
    let snapshot = fixture.capture().snapshot;
    let file = write(&fixture, snapshot, "a.tar.zst");
    let store = empty_store(&fixture);
    let wrong = Some(Digest::of(b"another"));
    let digest = Archive {
        digest: wrong,
        ..archive(&file)
    };
    let files = Archive {
        snapshot: wrong,
        ..archive(&file)
    };
    for request in [digest, files] {
        let refused = store.import_archive(&request, &|_| {}).unwrap_err();
        assert!(matches!(refused, Error::BrokenArchive { .. }), "{refused}");
        assert_eq!(store.snapshots().unwrap(), []);
    }
}

#[test]
fn archive_over_its_limits_is_refused() {
    let fixture = Fixture::new();
    for number in 0..50 {
        fixture.write(&format!("{number}"), noise(1000, number));
    }
    let file = write(&fixture, fixture.capture().snapshot, "a.tar.zst");
    let store = empty_store(&fixture);
    let with = |bytes, entries| {
        let request = Archive {
            limits: Limits { bytes, entries },
            ..archive(&file)
        };
        store.import_archive(&request, &|_| {})
    };
    let measure = |result: Result<CaptureReport, Error>| match result {
        Err(Error::TooMuch { what, .. }) => Some(what),
        _ => None,
    };
    assert_eq!(measure(with(40_000, 1000)), Some(Measure::Bytes));
    assert_eq!(measure(with(1_000_000, 49)), Some(Measure::Entries));
    assert_eq!(store.snapshots().unwrap(), []);
    with(1_000_000, 50).unwrap();
}

#[derive(Debug, Clone)]
enum Node {
    Folder,
    File(usize),
    Link(String),
    HardLink,
}

fn node() -> impl Strategy<Value = Node> {
    prop_oneof![
        Just(Node::Folder),
        (0_usize..3000).prop_map(Node::File),
        (1_000_000_usize..1_400_000).prop_map(Node::File),
        "[a-z./]{1,150}".prop_map(Node::Link),
        Just(Node::HardLink),
    ]
}

type Facts = (Node, u16, i64, u32);

/// A path, what is there, its mode, and its modification time.
fn tree() -> impl Strategy<Value = Vec<(Vec<Vec<u8>>, Facts)>> {
    let name = prop_oneof![
        "[a-c]{1,2}".prop_map(String::into_bytes),
        prop::collection::vec(1_u8..=255, 1..130)
            .prop_filter("a name", |name| !name.contains(&b'/')
                && name != b"."
                && name != b".."),
    ];
    let path = prop::collection::vec(name, 1..4);
    let time = -4_000_000_000_i64..12_000_000_000;
    let facts = (node(), 0_u16..0o10000, time, 0_u32..1_000_000_000);
    prop::collection::vec((path, facts), 0..12)
}

/// Creates the tree as far as possible.
fn create_tree(fixture: &Fixture, tree: &[(Vec<Vec<u8>>, Facts)]) {
    let mut made: Vec<(PathBuf, &Facts)> = Vec::new();
    let mut file: Option<PathBuf> = None;
    for (names, facts) in tree {
        let names = names.iter().map(|name| std::ffi::OsStr::from_bytes(name));
        let path = fixture.at(names.collect::<PathBuf>());
        let above = path.parent().unwrap();
        if fs::symlink_metadata(&path).is_ok() || fs::create_dir_all(above).is_err() {
            continue;
        }
        let inside = above.canonicalize().unwrap();
        if !inside.starts_with(fixture.work().canonicalize().unwrap()) {
            continue;
        }
        match &facts.0 {
            Node::Folder => fs::create_dir(&path).unwrap(),
            Node::File(size) => {
                fs::write(&path, noise(*size, *size as u64)).unwrap();
                file.get_or_insert(path.clone());
            }
            Node::Link(target) => std::os::unix::fs::symlink(target, &path).unwrap(),
            Node::HardLink => match &file {
                Some(file) => fs::hard_link(file, &path).unwrap(),
                None => continue,
            },
        }
        made.push((path, facts));
    }
    for (path, (node, mode, seconds, nanos)) in made.into_iter().rev() {
        if !matches!(node, Node::Link(_)) {
            // The capture must be able to read it.
            let mode = u32::from(*mode) | 0o700;
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let time = |seconds, nanos| rustix::fs::Timespec {
            tv_sec: seconds,
            tv_nsec: nanos,
        };
        let times = rustix::fs::Timestamps {
            last_access: time(0, 0),
            last_modification: time(*seconds, i64::from(*nanos)),
        };
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::utimensat(rustix::fs::CWD, &path, &times, flags).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn any_tree_round_trips_through_an_archive(tree in tree()) {
        let fixture = Fixture::new();
        create_tree(&fixture, &tree);
        let captured = fixture.capture();
        let file = write(&fixture, captured.snapshot, "a.tar.zst");
        let store = empty_store(&fixture);
        let taken = import(&store, &file).unwrap();
        prop_assert_eq!(taken.snapshot, captured.snapshot);
        restore(&store, taken.snapshot, &fixture.target());
        assert_same(&tree_state(&fixture.target()), &tree_state(&fixture.work()));
        // GNU tar finds the same in it.
        let unpacked = fixture.folder.path().join("unpacked");
        fs::create_dir(&unpacked).unwrap();
        tar(&["--zstd", "-xpf", file.to_str().unwrap()], &unpacked);
        assert_same(&tree_state(&unpacked), &tree_state(&fixture.work()));
    }
}
