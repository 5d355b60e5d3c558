//! Mends what git has written down about where things lie, once files are in another place.

use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use crate::scope::peek;

use super::error::Error;
use super::files;
use super::program::Git;
use super::shadow::{PATIENCE, home, scratch};

/// The longest file with a path in it.
const LIMIT: u64 = 16 * 1024;

/// What only says where a further worktree is.
const LINKS: [&str; 3] = ["commondir", "gitdir", "locked"];

/// The folder at `path` of `root`, if it lies there and not behind a link that leads away (P5).
pub(super) fn within(root: &Path, path: &Path) -> Option<PathBuf> {
    let root = fs::canonicalize(root).ok()?;
    let place = fs::canonicalize(root.join(path)).ok()?;
    place.starts_with(&root).then_some(place)
}

/// A further worktree and its repository know each other by full paths. Where both lie in a
/// workspace that was at `from` and is now in `into`, these are mended for the worktree at `path`.
pub(super) fn rehome(from: &Path, into: &Path, path: &Path) -> Result<(), Error> {
    let real = |path: &Path| fs::canonicalize(path).ok();
    let Some(folder) = within(into, path).filter(|_| real(from) != real(into)) else {
        return Ok(());
    };
    let link = folder.join(".git");
    let git_dir = leads_to(&link, b"gitdir: ", from).and_then(|rest| within(into, &rest));
    let Some(git_dir) = git_dir.filter(|git_dir| git_dir.is_dir()) else {
        return Ok(());
    };
    point(&link, b"gitdir: ", &git_dir)?;
    let back = git_dir.join("gitdir");
    if leads_to(&back, b"", from).is_some() {
        point(&back, b"", &link)?;
    }
    Ok(())
}

/// Where a file of one path leads, from the folder `from` that it lies in.
fn leads_to(file: &Path, prefix: &[u8], from: &Path) -> Option<PathBuf> {
    let content = peek::read(file, LIMIT).ok()?;
    let path = content.strip_prefix(prefix)?.trim_ascii_end();
    let path = PathBuf::from(std::ffi::OsString::from_vec(path.to_vec()));
    path.strip_prefix(from).ok().map(Path::to_owned)
}

fn point(file: &Path, prefix: &[u8], to: &Path) -> Result<(), Error> {
    let line = [prefix, to.as_os_str().as_bytes(), b"\n"].concat();
    let folder = file.parent().unwrap_or(Path::new("/"));
    let trouble = |error: io::Error| Error::file(file, &error);
    let mut draft = tempfile::NamedTempFile::new_in(folder).map_err(trouble)?;
    draft.write_all(&line).map_err(trouble)?;
    let kept = draft.persist(file).map_err(|error| trouble(error.error));
    kept.map(drop)
}

/// Makes `git_folder`, a copy of a git folder that lay outside of the workspace, the git folder of
/// the repository at `folder`, in the place of the file that said where it was.
pub(super) fn stand_alone(
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
            move_into(&own, git_folder, &LINKS)?;
        }
    }
    // What the repository knew of its other worktrees is nothing that git would find here.
    let others = git_folder.join("worktrees");
    if others.is_dir() {
        files::put(&others, &git_folder.join("worktrees.segno-elsewhere"))?;
    }
    let scratch = scratch()?;
    let git = Git::alone(&home(scratch.path()), PATIENCE);
    let config = git_folder.join("config");
    let set = ["config", "--file"].map(AsRef::as_ref);
    let file = [config.as_os_str()];
    let not_bare = ["core.bare", "false"].map(AsRef::as_ref);
    git.ask(&[&set[..], &file, &not_bare].concat())?;
    let nowhere = ["--unset-all", "core.worktree"].map(AsRef::as_ref);
    // Git answers with 5 if there is none.
    let _ = git.ask_maybe(&[&set[..], &file, &nowhere].concat());
    let there = folder.join(".git");
    // A folder takes the place of a file only where there is none.
    crate::files::remove(&there).map_err(|error| Error::file(&there, &error))?;
    files::put(git_folder, &there)
}

/// Moves everything in `from` into `to`, in the place of what has the same name.
fn move_into(from: &Path, to: &Path, but: &[&str]) -> Result<(), Error> {
    for (name, is_folder) in peek::entries(from, usize::MAX).unwrap_or_default() {
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
