//! Implements the contracts of `segno_core` on this machine: [`Snapshots`], [`Archives`] and
//! [`Transfer`] by [`LocalSnapshots`], [`Worktrees`] by [`LocalWorktrees`].
//!
//! The rest of this crate blocks. Here its work moves to a blocking thread, so that the caller's
//! task stays responsive, and its results become what callers show: paths as text, errors with a
//! kind, a code and a hint.
//!
//! [`Snapshots`]: segno_core::snapshot::Snapshots
//! [`Archives`]: segno_core::snapshot::archive::Archives
//! [`Transfer`]: segno_core::snapshot::transfer::Transfer
//! [`Worktrees`]: segno_core::worktree::Worktrees

mod archives;
mod snapshots;
mod transfer;
mod worktrees;

pub use snapshots::{FileWork, FindKey, LocalSnapshots};
pub use worktrees::LocalWorktrees;
