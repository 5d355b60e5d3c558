//! A settings file that comes from elsewhere, without what could start a program.

use super::config::{self, Storage};
use super::error::Error;
use super::files;
use super::program::Git;
use super::shadow::{PATIENCE, home, scratch};

/// What of a git folder's `config` can start no program and send nothing anywhere.
pub(crate) fn harmless(content: &[u8]) -> Result<Vec<u8>, Error> {
    let scratch = scratch()?;
    let copy = scratch.path().join("config");
    files::write(&copy, content)?;
    let git = Git::alone(&home(scratch.path()), PATIENCE);
    let settings = config::read_file(&git, &copy)?;
    let safe = config::safe(&settings);
    Ok(config::write(&Storage::of(&settings), &safe).into_bytes())
}
