//! What is lost, damaged, full or slow.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use segno_snapshot::git::{self, Error, Wish};
use segno_snapshot::scope::{Evidence, Rules};

use super::{capture, everything, restore, started};
use crate::sandbox::Sandbox;

#[test]
fn lost_objects_are_told_and_stop_nothing() {
    let sandbox = started();
    let blob = sandbox.git("", &["rev-parse", "HEAD:first"]);
    let path = format!(".git/objects/{}/{}", &blob[..2], &blob[2..]);
    fs::remove_file(sandbox.root().join(path)).unwrap();
    sandbox.git(
        "",
        &["update-ref", "--no-deref", "-d", "refs/heads/nothing"],
    );
    sandbox.write(".git/refs/heads/broken", "1".repeat(40) + "\n");
    let (truth, pack) = capture(&sandbox, "", &Wish::default());
    let missing: Vec<_> = truth
        .missing
        .first
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(missing.contains(&blob), "{missing:?}");
    let (_, restored) = restore(&sandbox, &truth, &pack);
    assert_eq!(restored.missing.len(), usize::from(truth.refs.len() > 1));
}

#[test]
fn a_changed_or_cut_pack_is_refused() {
    let sandbox = started();
    let (truth, pack) = capture(&sandbox, "", &Wish::default());
    let into = sandbox.path("into");
    let refused = |pack: &[u8]| {
        let error = git::restore(&truth, &mut &*pack, &into).unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
        assert_eq!(fs::read_dir(&into).unwrap().count(), 0);
    };
    for at in (0..pack.len()).step_by(7) {
        let mut flipped = pack.clone();
        flipped[at] ^= 1;
        refused(&flipped);
    }
    refused(&pack[..pack.len() - 1]);
    refused(&[]);
    refused(&[&*pack, b"more"].concat());
}

#[test]
fn a_repository_that_is_there_is_never_replaced() {
    let sandbox = started();
    let (truth, pack) = capture(&sandbox, "", &Wish::default());
    let before = everything(&sandbox.root());
    let error = git::restore(&truth, &mut &*pack, &sandbox.root()).unwrap_err();
    assert!(matches!(error, Error::Exists { .. }), "{error}");
    assert_eq!(everything(&sandbox.root()), before);
}

#[test]
fn a_pack_that_cannot_be_written_is_told() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let sandbox = started();
    let result = git::capture(&sandbox.root(), Path::new(""), &Wish::default(), &mut Full);
    assert!(
        matches!(result, Err(Error::Unavailable { .. })),
        "{result:?}"
    );
}

#[test]
fn git_that_takes_too_long_is_ended() {
    let sandbox = started();
    let wish = Wish {
        limit: Duration::ZERO,
        ..Wish::default()
    };
    let result = git::capture(&sandbox.root(), Path::new(""), &wish, &mut Vec::new());
    assert!(matches!(result, Err(Error::TooSlow { .. })), "{result:?}");
}

#[test]
fn what_is_no_repository_is_said_to_be_none() {
    let sandbox = Sandbox::new();
    sandbox.write(".git/x", "");
    let result = git::capture(
        &sandbox.root(),
        Path::new(""),
        &Wish::default(),
        &mut Vec::new(),
    );
    assert!(
        matches!(result, Err(Error::NoRepository { .. })),
        "{result:?}"
    );
    let scope = Evidence::new(sandbox.root(), Rules::default());
    assert_eq!(git::find(&sandbox.root(), &scope), Vec::<PathBuf>::new());
}

#[test]
fn a_repository_that_changes_meanwhile_is_captured_whole() {
    let sandbox = started();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0;
            while !done.load(Ordering::SeqCst) {
                sandbox.commit("", "first", &format!("{number}\n"));
                sandbox.git("", &["tag", &format!("tag-{number}")]);
                if number % 5 == 4 {
                    sandbox.git("", &["reset", "-q", "--hard", "HEAD~2"]);
                    sandbox.git("", &["repack", "-q", "-a", "-d"]);
                    sandbox.git("", &["pack-refs", "--all"]);
                }
                number += 1;
            }
        });
        let check = |round: usize| {
            let mut pack = Vec::new();
            let truth = git::capture(&sandbox.root(), Path::new(""), &Wish::default(), &mut pack);
            let truth = truth.map_err(|error| error.to_string())?;
            let into = sandbox.path(&format!("restored {round}"));
            let restored = git::restore(&truth, &mut &*pack, &into);
            let restored = restored.map_err(|error| error.to_string())?;
            let fsck = sandbox.try_git(&into, &["fsck", "--full", "--strict"]);
            let errors = String::from_utf8_lossy(&fsck.stderr).into_owned();
            let whole = restored.missing.is_empty() && fsck.status.success();
            whole.then_some(()).ok_or(errors)
        };
        let results: Vec<_> = (0..8).map(check).collect();
        done.store(true, Ordering::SeqCst);
        assert_eq!(results, vec![Ok(()); 8]);
    });
}
