//!
//! Every store passes the conformance suite of `segno-testkit`. The contracts are in
//! `segno_core::store`; here is how they are kept.

pub mod blobs;
pub mod depot;
pub mod disk;
pub mod home;
pub mod memory;
mod shelf;
pub mod sqlite;
mod witness;

pub use depot::{FindKey, Sealed, Warehouse};
pub use disk::LocalDisk;
pub use home::Home;
pub use memory::Memory;
pub use sqlite::Sqlite;
