//! What of a workspace is left out of a snapshot.
//!
//! Decided by evidence, never by a bare name: a folder goes only if something beside it or in it
//! says that a tool makes it again. What git tracks stays, and so does whatever could be data.

use std::ffi::OsStr;
use std::path::Path;

mod evidence;
mod ignored;
mod index;
mod pattern;
pub(crate) mod peek;
#[cfg(feature = "probe")]
pub mod probe;
mod regenerable;
mod tracked;

pub use evidence::{Evidence, Rules};
pub use pattern::{Pattern, PatternError};

/// Decides what is left out.
pub trait Scope: Sync {
    /// The rule by which an entry is left out, for people; `None` if it is kept. `folder` is
    /// relative to the workspace's root. What is below a folder that is left out is not asked for.
    fn leaves_out(&self, folder: &Path, name: &OsStr, is_folder: bool) -> Option<String>;

    /// The rule by which a folder is left out for what is in it, once that is known.
    fn leaves_out_holding(&self, _folder: &Path, _names: &[&OsStr]) -> Option<String> {
        None
    }
}
