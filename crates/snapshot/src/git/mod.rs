//! Git repositories in a workspace: reads their status and repairs them at another path.
//!
//! The content of a repository is captured as files, like everything else. This module asks git for
//! the status, for the user; finds git folders outside of the workspace, so that they are captured,
//! too; and rewrites the paths that git has stored, once files are at another path.
//!
//! Reading never writes: git runs with a folder of its own (a [`shadow`]) in place of the
//! repository's, so that locks and refreshed indexes land there. A repository's configuration is
//! not trusted: the shadow has only those settings that cannot start a program. Only [`worktree`]
//! writes: branches, worktrees and commits that a user asked for, with that user's configuration
//! ([`user_git`]).

mod config;
mod error;
mod files;
pub(crate) mod git_paths;
mod head;
pub(crate) mod outside;
mod program;
pub(crate) mod relocate;
mod repository_status;
mod safe_config;
pub(crate) mod shadow;
mod status;
mod user_git;
pub mod worktree;

pub use error::Error;
pub use head::head;
pub(crate) use outside::git_temporary_rule;
pub(crate) use repository_status::repository_status;
pub use repository_status::workspace_status;
pub(crate) use safe_config::safe_config;
