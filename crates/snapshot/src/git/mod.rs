//! Git repositories in a workspace: how they stand, and how they are made usable elsewhere.
//!
//! What is in a repository is kept as files, like everything else. This room asks git how it
//! stands, for people; finds git folders that lie outside of the workspace, so that they are kept,
//! too; and mends the paths that git writes down, once files are in another place.
//!
//! Asking never writes: git runs with a folder of its own (a [`shadow`]) in the place of the
//! repository's, so that locks and refreshed indexes land there. A repository's settings are not
//! trusted: only those that cannot start a program are in the shadow. [`work`] alone writes: branches,
//! folders and commits that a person asked for, with that person's settings ([`own`]).

mod config;
mod error;
mod files;
mod head;
mod kept;
mod outside;
mod own;
pub(crate) mod place;
mod program;
mod rehome;
mod settings;
pub(crate) mod shadow;
mod standing;
mod status;
pub mod work;

pub use error::Error;
pub use head::head;
pub(crate) use outside::left_by_git;
pub(crate) use settings::harmless;
pub use standing::sight;
