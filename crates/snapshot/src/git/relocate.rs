//! Rewrites the absolute paths that git stores, once a repository is at another path.

use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use crate::bounded_read;

use super::error::Error;
use super::files;
use super::program::Git;
use super::shadow::{TIMEOUT, home, scratch};

/// The longest file with a path in it.
const LIMIT: u64 = 16 * 1024;

/// Files that only say where a linked worktree is.
const WORKTREE_FILES: [&str; 3] = ["commondir", "gitdir", "locked"];

/// The folder at `path` of `root`, if it is inside and not behind a link that leads out (P5).
pub(crate) fn within(root: &Path, path: &Path) -> Option<PathBuf> {
    let root = fs::canonicalize(root).ok()?;
    let place = fs::canonicalize(root.join(path)).ok()?;
    place.starts_with(&root).then_some(place)
}

/// A linked worktree and its repository reference each other by absolute paths. If both lie in a
/// workspace that was at `from` and is now in `into`, rewrites them for the worktree at `path`.
pub(crate) fn relocate(from: &Path, into: &Path, path: &Path) -> Result<(), Error> {
    let real = |path: &Path| fs::canonicalize(path).ok();
    let Some(folder) = within(into, path).filter(|_| real(from) != real(into)) else {
        return Ok(());
    };
    let link = folder.join(".git");
    let git_dir = read_pointer(&link, b"gitdir: ", from).and_then(|rest| within(into, &rest));
    let Some(git_dir) = git_dir.filter(|git_dir| git_dir.is_dir()) else {
        return Ok(());
    };
    write_pointer(&link, b"gitdir: ", &git_dir)?;
    let back = git_dir.join("gitdir");
    if read_pointer(&back, b"", from).is_some() {
        write_pointer(&back, b"", &link)?;
    }
    Ok(())
}

/// The path in a one-line file, relative to `from`.
fn read_pointer(file: &Path, prefix: &[u8], from: &Path) -> Option<PathBuf> {
    let content = bounded_read::read(file, LIMIT).ok()?;
    let path = content.strip_prefix(prefix)?.trim_ascii_end();
    let path = PathBuf::from(std::ffi::OsString::from_vec(path.to_vec()));
    path.strip_prefix(from).ok().map(Path::to_owned)
}

fn write_pointer(file: &Path, prefix: &[u8], to: &Path) -> Result<(), Error> {
    let line = [prefix, to.as_os_str().as_bytes(), b"\n"].concat();
    let folder = file.parent().unwrap_or(Path::new("/"));
    let to_error = |error: io::Error| Error::file(file, &error);
    let mut draft = tempfile::NamedTempFile::new_in(folder).map_err(to_error)?;
    draft.write_all(&line).map_err(to_error)?;
    let kept = draft.persist(file).map_err(|error| to_error(error.error));
    kept.map(drop)
}

/// Makes `git_folder`, a copy of a git folder outside of the workspace, the git folder of the
/// repository at `folder`. It replaces the `.git` file that pointed to the original.
pub(crate) fn make_standalone(
    folder: &Path,
    git_folder: &Path,
    worktree: Option<&str>,
) -> Result<(), Error> {
    if let Some(name) = worktree {
        let mut parts = Path::new(name).components();
        let plain = matches!(
            (parts.next(), parts.next()),
            (Some(Component::Normal(_)), None)
        );
        if plain {
            let own = git_folder.join("worktrees").join(name);
            move_into(&own, git_folder, &WORKTREE_FILES)?;
        }
    }
    // The repository's data about its other worktrees would not be valid here.
    let others = git_folder.join("worktrees");
    if others.is_dir() {
        files::put(&others, &git_folder.join("worktrees.segno-elsewhere"))?;
    }
    let scratch = scratch()?;
    let git = Git::without_repository(&home(scratch.path()), TIMEOUT);
    let config = git_folder.join("config");
    let set = ["config", "--file"].map(AsRef::as_ref);
    let file = [config.as_os_str()];
    let not_bare = ["core.bare", "false"].map(AsRef::as_ref);
    git.run(&[&set[..], &file, &not_bare].concat())?;
    let nowhere = ["--unset-all", "core.worktree"].map(AsRef::as_ref);
    // Git exits with 5 if there is none.
    let _ = git.run_optional(&[&set[..], &file, &nowhere].concat());
    let there = folder.join(".git");
    // A folder cannot be renamed over a file.
    crate::files::remove(&there).map_err(|error| Error::file(&there, &error))?;
    files::put(git_folder, &there)
}

/// Moves everything in `from` into `to` and replaces what has the same name.
fn move_into(from: &Path, to: &Path, but: &[&str]) -> Result<(), Error> {
    for (name, is_folder) in bounded_read::entries(from, usize::MAX).unwrap_or_default() {
        let there = to.join(&name);
        if but.iter().any(|but| name == *but) {
        } else if is_folder && there.is_dir() {
            move_into(&from.join(&name), &there, &[])?;
        } else {
            files::put(&from.join(&name), &there)?;
        }
    }
    Ok(())
}
