//! Stores for sessions, journals, blobs and checkpoints, and clients for remotes.
//!
//! The contracts are in `segno_core::store`; this crate implements them in SQLite ([`sqlite`]) and
//! in memory ([`memory`]). Every store passes the conformance suite of `segno-testkit`.

mod ack_marker;
pub mod blobs;
mod checkpoint_files;
mod checkpoint_repair;
pub mod disk;
pub mod home;
pub mod memory;
mod preview_files;
pub mod remote;
mod seal_key;
pub mod sqlite;

pub use checkpoint_files::CheckpointFiles;
pub use checkpoint_repair::CheckpointRepair;
pub use disk::LocalDisk;
pub use home::Home;
pub use memory::Memory;
pub use remote::{EncryptedRemote, FindKey, ObjectRemote};
pub use sqlite::Sqlite;
