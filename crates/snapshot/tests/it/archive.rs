//! Snapshots as archives: there and back, with GNU tar on either side.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::prelude::*;
use segno_core::digest::Digest;
use segno_snapshot::archive::Measure;
use segno_snapshot::{Archive, Captured, Error, Keeping, Limits, Restore, Vault};

use crate::world::{World, assert_same, noise, picture};

fn archive(from: &Path) -> Archive<'_> {
    Archive {
        from,
        digest: None,
        snapshot: None,
        limits: Limits::default(),
        keeping: Keeping::Keep,
    }
}

/// A vault that knows nothing.
fn other(world: &World) -> Vault {
    Vault::open(&world.folder.path().join("other")).unwrap()
}

fn take(vault: &Vault, file: &Path) -> Result<Captured, Error> {
    vault.take(&archive(file), &|_| {})
}

fn write(world: &World, snapshot: Digest, name: &str) -> PathBuf {
    let file = world.folder.path().join(name);
    world.vault.write(snapshot, &file, &|_| {}).unwrap();
    file
}

fn restore(vault: &Vault, snapshot: Digest, into: &Path) {
    let options = Restore {
        privileges: true,
        durable: false,
        ..Restore::default()
    };
    vault.restore(snapshot, into, &options, &|_| {}).unwrap();
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

/// Everything that is hard to keep.
fn fill(world: &World) {
    world.write("plain.txt", "text\n");
    world.write("empty", "");
    world.write("large.bin", noise(3_000_000, 7));
    world.write("sub/tool", "#!/bin/sh\n");
    world.write("sub-b", "sorts between sub and what is in it\n");
    world.write(
        &format!("{}/deep", "folder-with-a-name/".repeat(40)),
        "deep\n",
    );
    world.write("\u{e9}\u{1f980}.txt", "not ascii\n");
    let odd = std::ffi::OsStr::from_bytes(b"not-\xff-utf8\n and a line");
    fs::write(world.at(odd), "odd\n").unwrap();
    let long = [&[0xfe; 120][..], b"-long"].concat();
    fs::write(world.at(std::ffi::OsStr::from_bytes(&long)), "long\n").unwrap();
    fs::create_dir(world.at("nothing-in-it")).unwrap();
    fs::hard_link(world.at("sub/tool"), world.at("another-name")).unwrap();
    fs::hard_link(world.at("sub/tool"), world.at("sub/third")).unwrap();
    std::os::unix::fs::symlink("../outside", world.at("link")).unwrap();
    std::os::unix::fs::symlink("x".repeat(3000), world.at("long-link")).unwrap();
    let mode = |path: &str, mode| {
        fs::set_permissions(world.at(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("sub/tool", 0o4750);
    mode("plain.txt", 0o400);
    mode("nothing-in-it", 0o1777);
    let touch = |path: &str, time: &str| {
        let status = Command::new("touch")
            .args(["-h", "-d", time])
            .arg(world.at(path))
            .status();
        assert!(status.unwrap().success());
    };
    touch("empty", "2001-02-03 04:05:06.123456789 UTC");
    touch("link", "1969-12-31 23:59:58.5 UTC");
    touch("nothing-in-it", "2500-01-01 00:00:00 UTC");
}

#[test]
fn the_same_snapshot_comes_back_from_an_archive() {
    let world = World::new();
    fill(&world);
    let captured = world.capture();
    let file = write(&world, captured.snapshot, "a.tar.zst");
    let vault = other(&world);
    let taken = take(&vault, &file).unwrap();
    assert_eq!(taken.snapshot, captured.snapshot);
    assert_eq!((taken.files, taken.bytes), (captured.files, captured.bytes));
    assert_eq!(vault.verify(taken.snapshot, &|_| {}).unwrap(), []);
    restore(&vault, taken.snapshot, &world.target());
    assert_same(&picture(&world.target()), &picture(&world.work()));
}

#[test]
fn the_same_snapshot_is_the_same_archive() {
    let world = World::new();
    fill(&world);
    let snapshot = world.capture().snapshot;
    let one = fs::read(write(&world, snapshot, "one")).unwrap();
    let vault = other(&world);
    take(&vault, &world.folder.path().join("one")).unwrap();
    let two = world.folder.path().join("two");
    let written = vault.write(snapshot, &two, &|_| {}).unwrap();
    assert_eq!(fs::read(&two).unwrap(), one);
    assert_eq!(written.digest, Digest::of(&one));
    assert_eq!(written.bytes, one.len() as u64);
    // What is there is not replaced.
    assert!(vault.write(snapshot, &two, &|_| {}).is_err());
}

#[test]
fn gnu_tar_unpacks_what_was_written() {
    let world = World::new();
    fill(&world);
    let file = write(&world, world.capture().snapshot, "a.tar.zst");
    fs::create_dir(world.target()).unwrap();
    let file = file.to_str().unwrap();
    tar(&["--zstd", "-xpf", file, "--xattrs"], &world.target());
    assert_same(&picture(&world.target()), &picture(&world.work()));
}

#[test]
fn what_gnu_tar_packed_is_read_in_each_of_its_forms() {
    for form in ["gnu", "posix", "oldgnu"] {
        let world = World::new();
        fill(&world);
        let file = world.folder.path().join("a.tar.zst");
        let form = format!("--format={form}");
        let words = ["--zstd", &form, "-cf", file.to_str().unwrap(), "."];
        tar(&words, &world.work());
        let taken = take(&world.vault, &file).unwrap();
        restore(&world.vault, taken.snapshot, &world.target());
        // GNU's own forms keep seconds only.
        let (mut left, mut right) = (picture(&world.target()), picture(&world.work()));
        if form != "--format=posix" {
            for look in left.values_mut().chain(right.values_mut()) {
                look.whole_seconds();
            }
        }
        assert_same(&left, &right);
        if form == "--format=posix" {
            assert_eq!(taken.snapshot, world.capture().snapshot);
        }
    }
}

#[test]
fn folders_that_an_archive_does_not_mention_are_made() {
    let world = World::new();
    world.write("a/b/c", "deep\n");
    world.write("a/d", "less\n");
    let file = world.folder.path().join("a.tar.zst");
    let words = ["--zstd", "-cf", file.to_str().unwrap(), "a/d", "a/b/c"];
    tar(&words, &world.work());
    let taken = take(&world.vault, &file).unwrap();
    restore(&world.vault, taken.snapshot, &world.target());
    assert_eq!(fs::read(world.target().join("a/b/c")).unwrap(), b"deep\n");
    assert_eq!(fs::read(world.target().join("a/d")).unwrap(), b"less\n");
}

#[test]
fn attributes_come_along_and_back() {
    let world = World::new();
    world.write("a", "x");
    let value: Vec<u8> = (0..=255).collect();
    let names = ["user.plain", "user.with=sign", "user.with%25"];
    for name in names {
        let flags = rustix::fs::XattrFlags::empty();
        if rustix::fs::setxattr(world.at("a"), name, &value, flags).is_err() {
            eprintln!("this file system keeps no attributes");
            return;
        }
    }
    let captured = world.capture();
    let file = write(&world, captured.snapshot, "a.tar.zst");
    let vault = other(&world);
    assert_eq!(take(&vault, &file).unwrap().snapshot, captured.snapshot);
    fs::create_dir(world.target()).unwrap();
    let words = ["--zstd", "--xattrs", "-xf", file.to_str().unwrap()];
    tar(&words, &world.target());
    let packed = world.folder.path().join("b.tar.zst");
    let words = [
        "--zstd",
        "--xattrs",
        "--format=posix",
        "-cf",
        packed.to_str().unwrap(),
        ".",
    ];
    tar(&words, &world.work());
    assert_eq!(take(&vault, &packed).unwrap().snapshot, captured.snapshot);
    for name in names {
        let mut read = vec![0; 300];
        let length = rustix::fs::getxattr(world.target().join("a"), name, &mut read[..]).unwrap();
        assert_eq!(read[..length], value[..]);
    }
}

#[test]
fn what_a_snapshot_left_out_is_known_on_the_other_side() {
    let world = World::new();
    world.write("a", "x");
    let status = Command::new("mkfifo").arg(world.at("p\u{e9}pe%")).status();
    assert!(status.unwrap().success());
    let captured = world.capture();
    assert_eq!(captured.skipped.len(), 1);
    let file = write(&world, captured.snapshot, "a.tar.zst");
    let taken = take(&other(&world), &file).unwrap();
    assert_eq!(taken.skipped, captured.skipped);
    assert_eq!(taken.snapshot, captured.snapshot);
    // GNU tar has nothing to say about the remark.
    fs::create_dir(world.target()).unwrap();
    let said = Command::new("tar")
        .args(["--zstd", "-xf"])
        .arg(&file)
        .current_dir(world.target())
        .output();
    assert_eq!(String::from_utf8_lossy(&said.unwrap().stderr), "");
}

#[test]
fn looking_at_an_archive_keeps_nothing() {
    let world = World::new();
    fill(&world);
    let captured = world.capture();
    let file = write(&world, captured.snapshot, "a.tar.zst");
    let vault = other(&world);
    let request = Archive {
        keeping: Keeping::Look,
        ..archive(&file)
    };
    let taken = vault.take(&request, &|_| {}).unwrap();
    assert_eq!(taken.snapshot, captured.snapshot);
    assert_eq!(vault.snapshots().unwrap(), []);
    let packs = fs::read_dir(world.folder.path().join("other/packs")).unwrap();
    assert_eq!(packs.count(), 0);
}

#[test]
fn another_archive_than_the_one_announced_is_refused() {
    let world = World::new();
    world.write("a", "x");
    let snapshot = world.capture().snapshot;
    let file = write(&world, snapshot, "a.tar.zst");
    let vault = other(&world);
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
        let refused = vault.take(&request, &|_| {}).unwrap_err();
        assert!(matches!(refused, Error::BrokenArchive { .. }), "{refused}");
        assert_eq!(vault.snapshots().unwrap(), []);
    }
}

#[test]
fn an_archive_that_has_too_much_is_refused() {
    let world = World::new();
    for number in 0..50 {
        world.write(&format!("{number}"), noise(1000, number));
    }
    let file = write(&world, world.capture().snapshot, "a.tar.zst");
    let vault = other(&world);
    let with = |bytes, entries| {
        let request = Archive {
            limits: Limits { bytes, entries },
            ..archive(&file)
        };
        vault.take(&request, &|_| {})
    };
    let measure = |result: Result<Captured, Error>| match result {
        Err(Error::TooMuch { what, .. }) => Some(what),
        _ => None,
    };
    assert_eq!(measure(with(40_000, 1000)), Some(Measure::Bytes));
    assert_eq!(measure(with(1_000_000, 49)), Some(Measure::Entries));
    assert_eq!(vault.snapshots().unwrap(), []);
    with(1_000_000, 50).unwrap();
}

#[derive(Debug, Clone)]
enum Thing {
    Folder,
    File(usize),
    Link(String),
    Twin,
}

fn thing() -> impl Strategy<Value = Thing> {
    prop_oneof![
        Just(Thing::Folder),
        (0_usize..3000).prop_map(Thing::File),
        (1_000_000_usize..1_400_000).prop_map(Thing::File),
        "[a-z./]{1,150}".prop_map(Thing::Link),
        Just(Thing::Twin),
    ]
}

type Facts = (Thing, u16, i64, u32);

/// A path, what is there, its mode, and when it was changed.
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
    let facts = (thing(), 0_u16..0o10000, time, 0_u32..1_000_000_000);
    prop::collection::vec((path, facts), 0..12)
}

/// Makes the tree as far as it can be made.
fn plant(world: &World, tree: &[(Vec<Vec<u8>>, Facts)]) {
    let mut made: Vec<(PathBuf, &Facts)> = Vec::new();
    let mut file: Option<PathBuf> = None;
    for (names, facts) in tree {
        let names = names.iter().map(|name| std::ffi::OsStr::from_bytes(name));
        let path = world.at(names.collect::<PathBuf>());
        let above = path.parent().unwrap();
        if fs::symlink_metadata(&path).is_ok() || fs::create_dir_all(above).is_err() {
            continue;
        }
        let inside = above.canonicalize().unwrap();
        if !inside.starts_with(world.work().canonicalize().unwrap()) {
            continue;
        }
        match &facts.0 {
            Thing::Folder => fs::create_dir(&path).unwrap(),
            Thing::File(size) => {
                fs::write(&path, noise(*size, *size as u64)).unwrap();
                file.get_or_insert(path.clone());
            }
            Thing::Link(target) => std::os::unix::fs::symlink(target, &path).unwrap(),
            Thing::Twin => match &file {
                Some(file) => fs::hard_link(file, &path).unwrap(),
                None => continue,
            },
        }
        made.push((path, facts));
    }
    for (path, (thing, mode, seconds, nanos)) in made.into_iter().rev() {
        if !matches!(thing, Thing::Link(_)) {
            // Whoever captures must be able to read it.
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
    fn any_tree_survives_an_archive(tree in tree()) {
        let world = World::new();
        plant(&world, &tree);
        let captured = world.capture();
        let file = write(&world, captured.snapshot, "a.tar.zst");
        let vault = other(&world);
        let taken = take(&vault, &file).unwrap();
        prop_assert_eq!(taken.snapshot, captured.snapshot);
        restore(&vault, taken.snapshot, &world.target());
        assert_same(&picture(&world.target()), &picture(&world.work()));
        // And GNU tar finds the same in it.
        let unpacked = world.folder.path().join("unpacked");
        fs::create_dir(&unpacked).unwrap();
        tar(&["--zstd", "-xpf", file.to_str().unwrap()], &unpacked);
        assert_same(&picture(&unpacked), &picture(&world.work()));
    }
}
