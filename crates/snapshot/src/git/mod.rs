//! Git's own truth of the repositories in a workspace, and how it comes back.
//!
//! Capture reads and never writes: git runs with a folder of its own (a [`shadow`]) in the place of
//! the repository's, so that locks, refreshed indexes and new objects land there. A repository's
//! settings are not trusted: only those that cannot start a program are in the shadow, and only
//! those come back. The rest is listed for a person to decide about.

mod bring;
mod capture;
mod config;
mod error;
mod files;
mod find;
mod inert;
mod join;
mod kept;
mod objects;
pub(crate) mod place;
mod program;
mod restore;
mod settle;
pub(crate) mod shadow;
mod status;
mod survey;
mod tables;
mod truth;

pub use capture::{Reach, Wish, capture};
pub use error::Error;
pub use find::find;
pub use restore::{Missing, Restored, finish, restore};
pub use truth::{
    Activity, Format, Head, Inert, InertKind, Kept, Link, Need, Oid, OidError, Pack, Paths, Raw,
    Reference, Remote, Setting, Stash, Status, Submodule, Truth, Upstream,
};
