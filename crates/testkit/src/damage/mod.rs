//! Damages a small store in one place at a time, and judges the effect.
//!
//! The real binary creates the store: one session that was completed, and one that was killed in
//! the middle of a chain. A copy gets one [`Damage`]; then every read command and a resume are run
//! on it. Each answer must be the undamaged one or a refusal that names the damage (P9): never a
//! different answer, never a shorter one, and a finished step is never executed again (P2, P7).

pub mod checkpoints;
mod copy;
mod env;
mod judge;
mod kind;
mod specimen;

pub use copy::StoreCopy;
pub use judge::Verdict;
pub use kind::{Damage, Depth};
pub use specimen::{AfterKill, Specimen};
