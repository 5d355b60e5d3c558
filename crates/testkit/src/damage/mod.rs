//! Damage to a small store, one at a time, and a judge of what becomes of it.
//!
//! The store is made by the real binary: one session that was completed, and one that was killed in
//! the middle of a chain. A copy gets one [`Damage`]; then everything that can be asked is asked of
//! it. Each answer must be the undamaged one or a refusal that names the damage (P9): never another
//! answer, never a shorter one, and a finished step is never run again (P2, P7).

mod copy;
mod judge;
pub mod kept;
mod kind;
mod specimen;
mod world;

pub use copy::Copy;
pub use judge::Verdict;
pub use kind::{Damage, Depth};
pub use specimen::{Leaves, Specimen};
