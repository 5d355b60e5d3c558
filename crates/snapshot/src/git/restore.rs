//! Makes a repository from what was captured. What was captured may come from elsewhere, so it is
//! not trusted: names are checked, settings are chosen again, and nothing is started but git.

use std::fs;
use std::io::Read;
use std::path::Path;

use super::error::Error;
use super::program::{Git, Input};
use super::settle::{UNSETTLED, settle};
use super::shadow::{PATIENCE, home, scratch};
use super::truth::{Format, Inert, Oid, Raw, Truth, VERSION};
use super::{bring, files, join, kept, place};

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// What has to be fetched before refs can be set; empty if the repository is whole.
    pub missing: Vec<Missing>,
    /// What could start a program, and was not brought back. A person decides.
    pub inert: Vec<Inert>,
}

/// An object that is needed and not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The object.
    pub oid: Oid,
    /// The ref that needs it.
    pub name: Raw,
    /// The remote that had it, and its address.
    pub remote: Option<(String, String)>,
}

/// Makes the repository at `into`, the folder of its files, from its truth and its pack. A further
/// worktree is joined to its repository if that is in its place; otherwise it becomes a repository
/// of its own.
///
/// The git folder appears in one step, whole. If something is [missing](Restored::missing), no ref
/// is set yet: fetch it, then [`finish`].
pub fn restore(
    truth: &Truth,
    pack: &mut (dyn Read + Send),
    into: &Path,
) -> Result<Restored, Error> {
    check(truth)?;
    let there = into.join(".git");
    if fs::symlink_metadata(&there).is_ok() {
        let place = into.display().to_string();
        return Err(Error::Exists { place });
    }
    files::make_folder(into)?;
    let scratch = scratch()?;
    let home = home(scratch.path());
    let making = tempfile::Builder::new()
        .prefix(".segno-git-")
        .tempdir_in(into);
    let making = making.map_err(|error| Error::file(into, &error))?;
    let git_dir = making.path().join("git");
    init(&home, &git_dir, truth.format)?;
    let mut inert = truth.inert.clone();
    bring::settings(&git_dir, truth, &mut inert)?;
    let git = Git::within(&home, &git_dir, None, PATIENCE);
    bring::objects(&git, truth, pack)?;
    bring::files(&git, &git_dir, truth, &mut inert)?;
    if let Some((main, link)) = join::main_of(truth, into) {
        let missing = join::join(&home, &git_dir, &main, link, truth, into)?;
        return Ok(Restored { missing, inert });
    }
    let missing = settle(&git, &git_dir, truth)?;
    files::put(&git_dir, &there)?;
    Ok(Restored { missing, inert })
}

/// Sets the refs of a repository that [`restore`] made, once what they need has been fetched.
/// Does nothing if they are set, so it can be called again.
pub fn finish(truth: &Truth, into: &Path) -> Result<Vec<Missing>, Error> {
    check(truth)?;
    let place = place::at(into).ok_or_else(|| Error::NoRepository {
        place: into.display().to_string(),
    })?;
    let scratch = scratch()?;
    let git = Git::within(&home(scratch.path()), &place.git_dir, None, PATIENCE);
    settle(&git, &place.git_dir, truth)
}

fn check(truth: &Truth) -> Result<(), Error> {
    if truth.version != VERSION {
        let reason = format!("it has version {}, and {VERSION} is known", truth.version);
        return Err(Error::damaged("the truth of a repository", reason));
    }
    for kept in &truth.files {
        if !kept::allows(kept.path.as_path()) {
            let reason = "a file of that name does not belong into a git folder";
            return Err(Error::damaged(kept.path.to_string(), reason));
        }
    }
    Ok(())
}

fn init(home: &Path, git_dir: &Path, format: Format) -> Result<(), Error> {
    let format = match format {
        Format::Sha1 => "--object-format=sha1",
        Format::Sha256 => "--object-format=sha256",
    };
    let args = [
        "init",
        "-q",
        "--bare",
        "--template=",
        format,
        "-b",
        UNSETTLED,
    ];
    let args: Vec<_> = args
        .iter()
        .map(AsRef::as_ref)
        .chain([git_dir.as_os_str()])
        .collect();
    Git::alone(home, PATIENCE).ask(&args, Input::Nothing)?;
    Ok(())
}
