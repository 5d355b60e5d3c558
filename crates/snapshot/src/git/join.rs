//! Joins a further worktree to its repository.

use std::fs;
use std::path::{Path, PathBuf};

use crate::scope::peek;

use super::error::Error;
use super::objects::present;
use super::program::Git;
use super::restore::Missing;
use super::settle::{missing, set_head, set_refs};
use super::shadow::PATIENCE;
use super::survey::is_own;
use super::truth::{Link, Oid, Raw, Truth};
use super::{bring, files, place};

/// The folder of the repository that this is a further worktree of, if it is there.
pub(super) fn main_of<'a>(truth: &'a Truth, into: &Path) -> Option<(PathBuf, &'a Link)> {
    let link = truth.link.as_ref()?;
    let plain = |path: &Path| {
        let mut parts = path.components();
        parts.all(|part| matches!(part, std::path::Component::Normal(_)))
    };
    let (path, main, name) = (
        truth.path.as_path(),
        link.main.as_path(),
        link.name.as_path(),
    );
    let single = name.components().count() == 1;
    if !plain(path) || !plain(main) || !plain(name) || !single || !into.ends_with(path) {
        return None;
    }
    let root = into.ancestors().nth(path.components().count())?;
    let place = place::at(&root.join(main))?;
    let whole = !place.is_linked() && place.git_dir.file_name().is_some_and(|name| name == ".git");
    whole.then_some((place.git_dir, link))
}

/// Makes the worktree at `into` a further one of the repository whose git folder is `main`.
pub(super) fn join(
    home: &Path,
    made: &Path,
    main: &Path,
    link: &Link,
    truth: &Truth,
    into: &Path,
) -> Result<Vec<Missing>, Error> {
    let own = main.join("worktrees").join(link.name.as_path());
    if fs::symlink_metadata(&own).is_ok() {
        let place = own.display().to_string();
        return Err(Error::Exists { place });
    }
    move_packs(&made.join("objects/pack"), &main.join("objects/pack"))?;
    let into = fs::canonicalize(into).map_err(|error| Error::file(into, &error))?;
    let line = |path: &Path| [path.as_os_str().as_encoded_bytes(), b"\n"].concat();
    files::write(&made.join("commondir"), b"../..\n")?;
    files::write(&made.join("gitdir"), &line(&into.join(".git")))?;
    let staging = made.with_file_name("own");
    files::make_folder(&staging)?;
    let entries = peek::entries(made, usize::MAX).unwrap_or_default();
    let shared = ["objects", "refs", "config", "shallow"];
    for (name, _) in entries {
        if !shared.iter().any(|shared| name == *shared) {
            files::put(&made.join(&name), &staging.join(&name))?;
        }
    }
    files::make_folder(&main.join("worktrees"))?;
    files::put(&staging, &own)?;
    let git = Git::within(home, &own, None, PATIENCE);
    let all: Vec<Oid> = truth.refs.iter().map(|one| one.oid.clone()).collect();
    let there = present(&git, all.iter().chain(&truth.head.commit))?;
    set_refs(&git, truth, &there, is_own)?;
    set_head(&git, truth, &there)?;
    bring::logs(&git, &own, truth)?;
    let path = [b"gitdir: ".as_slice(), &line(&own)].concat();
    files::write(&into.join(".git"), &path)?;
    let head = Raw::from(b"HEAD".as_slice());
    let commit = truth.head.commit.iter().map(|oid| (&head, oid));
    let wanted = truth
        .refs
        .iter()
        .map(|one| (&one.name, &one.oid))
        .chain(commit);
    Ok(missing(truth, &wanted.collect::<Vec<_>>(), &there))
}

/// Moves packs, the index of each last: what has an index is taken for whole.
fn move_packs(from: &Path, to: &Path) -> Result<(), Error> {
    let mut entries = peek::entries(from, usize::MAX).unwrap_or_default();
    entries.sort_by_key(|(name, _)| name.to_string_lossy().ends_with(".idx"));
    for (name, _) in entries {
        files::put(&from.join(&name), &to.join(&name))?;
    }
    Ok(())
}
