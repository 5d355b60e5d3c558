//! Snapshots of a folder: capture, store, compare, restore.
//!
//! A snapshot contains everything in a folder as it was read: bytes, modes, links, times. The
//! digest of its manifest is its name, and it is listed only when all of it is durable (P4). A
//! restore checks every byte, stays inside the target and touches only what differs (P5).
//! Unreferenced data is deleted late and only after it was marked for deletion (P8); damage is
//! reported by name (P9).
//!
//! [`SnapshotStore`] blocks and uses threads of its own; [`local`] implements the contracts of
//! `segno_core` with it. A [`Scope`] decides which files belong to a snapshot.

pub mod archive;
mod attachments;
mod bounded_read;
pub mod browse;
mod capture;
mod chunk;
mod delta;
mod encrypted_file;
pub mod entry;
pub mod error;
mod examine;
mod files;
mod gc;
pub mod git;
mod index;
pub mod local;
mod machine;
mod manifest;
mod manifest_cursor;
mod named_digests;
mod openat;
mod own_folders;
mod pack;
mod read;
mod recheck;
mod repair;
mod repositories;
pub mod request;
mod restore;
pub mod scope;
mod snapshot_store;
mod transfer;
mod trash;
pub mod verify;
mod walk;
mod wire;

pub use archive::{Archive, ImportMode, Limits, WrittenArchive};
pub use browse::{Difference, EntryChange};
pub use entry::{Chunk, Entry, FileTime, Kind, Skipped, Why};
pub use error::Error;
pub use local::{FileWork, FindKey, LocalSnapshots, LocalWorktrees};
pub use request::{
    Budget, CaptureReport, Everything, Progress, Reach, Request, Restore, RestoreReport, Trust,
};
pub use scope::Scope;
pub use snapshot_store::SnapshotStore;
pub use verify::Damage;
