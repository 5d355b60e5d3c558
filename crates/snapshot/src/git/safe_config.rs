//! Filters an untrusted git configuration.

use super::config::{self, Storage};
use super::error::Error;
use super::files;
use super::program::Git;
use super::shadow::{TIMEOUT, home, scratch};

/// The part of a git folder's `config` that can start no program and send nothing anywhere.
pub(crate) fn safe_config(content: &[u8]) -> Result<Vec<u8>, Error> {
    let scratch = scratch()?;
    let copy = scratch.path().join("config");
    files::write(&copy, content)?;
    let git = Git::without_repository(&home(scratch.path()), TIMEOUT);
    let settings = config::read_file(&git, &copy)?;
    let safe = config::safe(&settings);
    Ok(config::write(&Storage::of(&settings), &safe).into_bytes())
}
