//! A store with an index of a folder and one without come to the same snapshot, whatever was done
//! to the folder in between.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::prelude::*;
use segno_core::digest::Digest;
use segno_snapshot::scope::{Evidence, Rules};
use segno_snapshot::{CaptureReport, Error, Request, Restore, RestoreReport, SnapshotStore};

use crate::fixture::{
    FROZEN_CLOCK, FileState, Fixture, assert_same, noise, tree_state, wait_until_old,
};

/// Names that sort around the separator, and one that evidence can exclude.
const NAMES: [&str; 7] = ["a", "a-b", "a.b", "b", "c.pyc", ".git", "node_modules"];

/// A change of a folder. Impossible ones are skipped.
#[derive(Debug, Clone)]
enum FsChange {
    Write(PathBuf, u64),
    Edit(PathBuf),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    Make(PathBuf),
    Link(PathBuf, PathBuf),
    HardLink(PathBuf, PathBuf),
    Mode(PathBuf, u32),
}

fn path() -> impl Strategy<Value = PathBuf> {
    prop::collection::vec(prop::sample::select(&NAMES[..]), 1..4)
        .prop_map(|names| names.into_iter().collect())
}

fn change() -> impl Strategy<Value = FsChange> {
    prop_oneof![
        6 => (path(), any::<u64>()).prop_map(|(path, seed)| FsChange::Write(path, seed)),
        3 => path().prop_map(FsChange::Edit),
        2 => (path(), path()).prop_map(|(from, to)| FsChange::Rename(from, to)),
        2 => path().prop_map(FsChange::Remove),
        3 => path().prop_map(FsChange::Make),
        1 => (path(), path()).prop_map(|(to, from)| FsChange::Link(to, from)),
        2 => (path(), path()).prop_map(|(of, path)| FsChange::HardLink(of, path)),
        1 => (path(), prop::sample::select(&[0o755, 0o700, 0o640][..]))
            .prop_map(|(path, mode)| FsChange::Mode(path, mode)),
    ]
}

fn run(change: &FsChange, work: &Path) {
    let at = |path: &PathBuf| work.join(path);
    let done = match change {
        FsChange::Write(path, seed) => fs::create_dir_all(at(path).parent().unwrap())
            .and_then(|()| fs::write(at(path), noise(300, *seed))),
        FsChange::Edit(path) => fs::read(at(path)).and_then(|mut content| {
            content.reverse();
            fs::write(at(path), content)
        }),
        FsChange::Rename(from, to) => fs::rename(at(from), at(to)),
        FsChange::Remove(path) if at(path).is_dir() => fs::remove_dir_all(at(path)),
        FsChange::Remove(path) => fs::remove_file(at(path)),
        FsChange::Make(path) => fs::create_dir_all(at(path)),
        FsChange::Link(to, from) => std::os::unix::fs::symlink(to, at(from)),
        FsChange::HardLink(of, path) => fs::hard_link(at(of), at(path)),
        FsChange::Mode(path, mode) if at(path).symlink_metadata().is_ok_and(|it| it.is_dir()) => {
            fs::set_permissions(at(path), fs::Permissions::from_mode(mode | 0o700))
        }
        FsChange::Mode(path, mode) => {
            fs::set_permissions(at(path), fs::Permissions::from_mode(*mode))
        }
    };
    if let Err(error) = done {
        let impossible = [
            ErrorKind::NotFound,
            ErrorKind::NotADirectory,
            ErrorKind::IsADirectory,
            ErrorKind::AlreadyExists,
            ErrorKind::DirectoryNotEmpty,
            ErrorKind::InvalidInput,
            ErrorKind::PermissionDenied,
        ];
        let circle = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
        assert!(
            circle || impossible.contains(&error.kind()),
            "{change:?}: {error}"
        );
    }
}

fn capture(store: &SnapshotStore, work: &Path, recheck_per_mille: u32) -> CaptureReport {
    let scope = Evidence::new(work, Rules::default());
    let request = Request {
        scope: &scope,
        recheck_per_mille,
        ..Request::new(work, &FROZEN_CLOCK)
    };
    store.capture(&request, &|_| {}).unwrap()
}

/// Restores into a folder, with or without a snapshot of it that was just taken.
fn restore(
    fixture: &Fixture,
    snapshot: Digest,
    into: &Path,
    exact: bool,
    seen: Option<Digest>,
) -> Option<RestoreReport> {
    let scope = Evidence::new(into, Rules::default());
    let options = Restore {
        exact,
        scope: &scope,
        target_snapshot: seen,
        durable: false,
        ..Restore::default()
    };
    let restored = fixture.store.restore(snapshot, into, &options, &|_| {});
    match restored {
        Ok(restored) => Some(restored),
        Err(Error::Blocked { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn restore_diff_gives_the_same_result(
        begun in prop::collection::vec(change(), 10..40),
        since in prop::collection::vec(change(), 0..8),
        exact: bool,
    ) {
        let fixture = Fixture::new();
        fixture.write("package.json", "{}");
        begun.iter().for_each(|change| run(change, &fixture.work()));
        let wanted = capture(&fixture.store, &fixture.work(), 0).snapshot;
        since.iter().for_each(|change| run(change, &fixture.work()));
        let seen = capture(&fixture.store, &fixture.work(), 0).snapshot;
        let copy = Command::new("cp").arg("-a").args([fixture.work(), fixture.target()]).status();
        prop_assert!(copy.unwrap().success());
        let short = restore(&fixture, wanted, &fixture.work(), exact, Some(seen));
        let long = restore(&fixture, wanted, &fixture.target(), exact, None);
        prop_assert_eq!(short.is_some(), long.is_some());
        if let (Some(short), Some(long)) = (short, long) {
            prop_assert_eq!((short.removed, &short.skipped), (long.removed, &long.skipped));
            let [mut work, mut target] = [fixture.work(), fixture.target()].map(|place| tree_state(&place));
            // A file that is as it should be and has a name outside of the snapshot may keep that
            // name.
            if !long.skipped.is_empty() {
                work.values_mut().chain(target.values_mut()).for_each(FileState::alone);
            }
            assert_same(&work, &target);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn index_changes_no_snapshot(
        begun in prop::collection::vec(change(), 20..40),
        turns in prop::collection::vec((prop::collection::vec(change(), 0..4), any::<bool>()), 1..6),
    ) {
        let fixture = Fixture::new();
        fixture.write("package.json", "{}");
        begun.iter().for_each(|change| run(change, &fixture.work()));
        for (number, (changes, doubts)) in turns.into_iter().enumerate() {
            wait_until_old(&fixture);
            capture(&fixture.store, &fixture.work(), 0);
            changes.iter().for_each(|change| run(change, &fixture.work()));
            let recheck_per_mille = if doubts { 1000 } else { 0 };
            let taken = capture(&fixture.store, &fixture.work(), recheck_per_mille);
            let fresh = SnapshotStore::open(&fixture.folder.path().join(format!("store-{number}"))).unwrap();
            let truth = capture(&fresh, &fixture.work(), 0);
            let read = |captured: CaptureReport| CaptureReport { read_files: 0, stored_bytes: 0, ..captured };
            prop_assert_eq!(read(taken.clone()), read(truth));
            prop_assert_eq!(fixture.store.verify(taken.snapshot, &|_| {}).unwrap(), []);
        }
        let last = capture(&fixture.store, &fixture.work(), 0);
        fixture.restore(last.snapshot, &fixture.target());
        if last.skipped.is_empty() {
            assert_same(&tree_state(&fixture.target()), &tree_state(&fixture.work()));
        }
    }
}
