//! Snapshots of a folder: taken, kept in a vault, compared, restored.
//!
//! A snapshot is everything that is in a folder, as it was read: bytes, modes, links, times. It is
//! named by the digest of its manifest, and listed only when all of it is durable (P4). What is
//! restored is checked byte by byte, stays inside the target, and touches only what differs (P5).
//! What nobody needs is deleted late and after an announcement (P8); damage is named (P9).
//!
//! Blocking code with threads of its own. Which files belong to a snapshot is up to a [`Scope`].

pub mod archive;
mod beneath;
pub mod browse;
mod capture;
mod carry;
mod chunk;
mod delta;
pub mod entry;
pub mod error;
mod files;
pub mod gc;
pub mod git;
mod index;
mod lot;
mod machine;
mod manifest;
mod pack;
mod papers;
mod read;
pub mod request;
mod restore;
mod safe;
pub mod scope;
mod scroll;
mod trash;
mod vault;
pub mod verify;
mod walk;
mod wire;

pub use archive::{Archive, Keeping, Limits, Written};
pub use browse::{Change, Difference, Size};
pub use entry::{Chunk, Entry, Kind, Moment, Skipped, Why};
pub use error::Error;
pub use gc::Swept;
pub use request::{
    Budget, Captured, Everything, Progress, Reach, Request, Restore, Restored, Trust,
};
pub use scope::Scope;
pub use vault::Vault;
pub use verify::Damage;
