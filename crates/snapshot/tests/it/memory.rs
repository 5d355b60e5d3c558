//! A vault that remembers how a folder looked and one that has never seen it come to the same
//! snapshot, whatever was done to the folder in between.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::prelude::*;
use segno_core::digest::Digest;
use segno_snapshot::scope::{Evidence, Rules};
use segno_snapshot::{Captured, Error, Request, Restore, Restored, Vault};

use crate::world::{Look, STILL, World, assert_same, noise, picture, settle};

/// Names that sort around the separator, and one that evidence can leave out.
const NAMES: [&str; 7] = ["a", "a-b", "a.b", "b", "c.pyc", ".git", "node_modules"];

/// What is done to a folder. Whatever is not possible is not done.
#[derive(Debug, Clone)]
enum Deed {
    Write(PathBuf, u64),
    Edit(PathBuf),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    Make(PathBuf),
    Link(PathBuf, PathBuf),
    Twin(PathBuf, PathBuf),
    Mode(PathBuf, u32),
}

fn path() -> impl Strategy<Value = PathBuf> {
    prop::collection::vec(prop::sample::select(&NAMES[..]), 1..4)
        .prop_map(|names| names.into_iter().collect())
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        6 => (path(), any::<u64>()).prop_map(|(path, seed)| Deed::Write(path, seed)),
        3 => path().prop_map(Deed::Edit),
        2 => (path(), path()).prop_map(|(from, to)| Deed::Rename(from, to)),
        2 => path().prop_map(Deed::Remove),
        3 => path().prop_map(Deed::Make),
        1 => (path(), path()).prop_map(|(to, from)| Deed::Link(to, from)),
        2 => (path(), path()).prop_map(|(of, path)| Deed::Twin(of, path)),
        1 => (path(), prop::sample::select(&[0o755, 0o700, 0o640][..]))
            .prop_map(|(path, mode)| Deed::Mode(path, mode)),
    ]
}

fn run(deed: &Deed, work: &Path) {
    let at = |path: &PathBuf| work.join(path);
    let done = match deed {
        Deed::Write(path, seed) => fs::create_dir_all(at(path).parent().unwrap())
            .and_then(|()| fs::write(at(path), noise(300, *seed))),
        Deed::Edit(path) => fs::read(at(path)).and_then(|mut content| {
            content.reverse();
            fs::write(at(path), content)
        }),
        Deed::Rename(from, to) => fs::rename(at(from), at(to)),
        Deed::Remove(path) if at(path).is_dir() => fs::remove_dir_all(at(path)),
        Deed::Remove(path) => fs::remove_file(at(path)),
        Deed::Make(path) => fs::create_dir_all(at(path)),
        Deed::Link(to, from) => std::os::unix::fs::symlink(to, at(from)),
        Deed::Twin(of, path) => fs::hard_link(at(of), at(path)),
        Deed::Mode(path, mode) if at(path).symlink_metadata().is_ok_and(|it| it.is_dir()) => {
            fs::set_permissions(at(path), fs::Permissions::from_mode(mode | 0o700))
        }
        Deed::Mode(path, mode) => fs::set_permissions(at(path), fs::Permissions::from_mode(*mode)),
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
            "{deed:?}: {error}"
        );
    }
}

fn capture(vault: &Vault, work: &Path, doubt: u32) -> Captured {
    let scope = Evidence::new(work, Rules::default());
    let request = Request {
        scope: &scope,
        doubt,
        ..Request::new(work, &STILL)
    };
    vault.capture(&request, &|_| {}).unwrap()
}

/// Restores into a folder, with or without a snapshot of it that was just taken.
fn restore(
    world: &World,
    snapshot: Digest,
    into: &Path,
    exact: bool,
    seen: Option<Digest>,
) -> Option<Restored> {
    let scope = Evidence::new(into, Rules::default());
    let options = Restore {
        exact,
        scope: &scope,
        seen,
        durable: false,
        ..Restore::default()
    };
    let restored = world.vault.restore(snapshot, into, &options, &|_| {});
    match restored {
        Ok(restored) => Some(restored),
        Err(Error::InTheWay { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_second_look_at_the_target_changes_no_restore(
        begun in prop::collection::vec(deed(), 10..40),
        since in prop::collection::vec(deed(), 0..8),
        exact: bool,
    ) {
        let world = World::new();
        world.write("package.json", "{}");
        begun.iter().for_each(|deed| run(deed, &world.work()));
        let wanted = capture(&world.vault, &world.work(), 0).snapshot;
        since.iter().for_each(|deed| run(deed, &world.work()));
        let seen = capture(&world.vault, &world.work(), 0).snapshot;
        let copy = Command::new("cp").arg("-a").args([world.work(), world.target()]).status();
        prop_assert!(copy.unwrap().success());
        let short = restore(&world, wanted, &world.work(), exact, Some(seen));
        let long = restore(&world, wanted, &world.target(), exact, None);
        prop_assert_eq!(short.is_some(), long.is_some());
        if let (Some(short), Some(long)) = (short, long) {
            prop_assert_eq!((short.removed, &short.skipped), (long.removed, &long.skipped));
            let [mut work, mut target] = [world.work(), world.target()].map(|place| picture(&place));
            // A file that is as it should be and has a name outside of the snapshot may keep it.
            if !long.skipped.is_empty() {
                work.values_mut().chain(target.values_mut()).for_each(Look::alone);
            }
            assert_same(&work, &target);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn what_is_remembered_changes_no_snapshot(
        begun in prop::collection::vec(deed(), 20..40),
        turns in prop::collection::vec((prop::collection::vec(deed(), 0..4), any::<bool>()), 1..6),
    ) {
        let world = World::new();
        world.write("package.json", "{}");
        begun.iter().for_each(|deed| run(deed, &world.work()));
        for (number, (deeds, doubts)) in turns.into_iter().enumerate() {
            settle(&world);
            capture(&world.vault, &world.work(), 0);
            deeds.iter().for_each(|deed| run(deed, &world.work()));
            let doubt = if doubts { 1000 } else { 0 };
            let taken = capture(&world.vault, &world.work(), doubt);
            let fresh = Vault::open(&world.folder.path().join(format!("vault-{number}"))).unwrap();
            let truth = capture(&fresh, &world.work(), 0);
            let read = |captured: Captured| Captured { read_files: 0, stored_bytes: 0, ..captured };
            prop_assert_eq!(read(taken.clone()), read(truth));
            prop_assert_eq!(world.vault.verify(taken.snapshot, &|_| {}).unwrap(), []);
        }
        let last = capture(&world.vault, &world.work(), 0);
        world.restore(last.snapshot, &world.target());
        if last.skipped.is_empty() {
            assert_same(&picture(&world.target()), &picture(&world.work()));
        }
    }
}
