//! Decides which files of a workspace are excluded from a snapshot.
//!
//! The decision needs evidence, never just a name: a folder is excluded only if something beside it
//! or in it proves that a tool regenerates it. What git tracks is included, and so is everything
//! that could be data.

use std::ffi::OsStr;
use std::path::Path;

mod evidence;
mod ignored;
mod index;
mod pattern;
#[cfg(feature = "probe")]
pub mod probe;
mod regenerable;
mod tracked;

pub use evidence::{Evidence, Rules};
pub use pattern::{Pattern, PatternError};

/// Decides what is excluded.
pub trait Scope: Sync {
    /// The rule that excludes an entry, for the user; `None` if it is included. `folder` is
    /// relative to the workspace's root. Entries below an excluded folder are not asked for.
    fn excludes(&self, folder: &Path, name: &OsStr, is_folder: bool) -> Option<String>;

    /// The rule that excludes a folder because of its content, once that is known.
    fn excludes_for_content(&self, _folder: &Path, _names: &[&OsStr]) -> Option<String> {
        None
    }
}
