//! Executes one run of a session: each step finishes once, and a killed run leaves a journal from
//! which the next run continues.
//!
//! [`run::execute`] is the entry. It starts the [`journal`] writer and keeps the [`lease`], the
//! [`patterns`] call [`steps`], and [`resume`] decides how an unfinished step continues. Which
//! session runs, and everything that happens between runs, is left to the crate `sessions`.

pub mod agent_state;
mod answers;
pub mod artifact_files;
mod artifacts;
mod auto_pause;
pub mod between_runs;
mod budget;
pub mod checkpoint;
pub mod checkpointer;
pub mod env;
pub mod error;
pub mod export;
mod extraction;
pub mod history;
pub mod journal;
pub mod lease;
mod memory;
pub mod note_events;
pub mod note_rules;
pub mod observe;
pub mod patterns;
mod previews;
pub mod remote;
pub mod resume;
pub mod retention;
pub mod run;
mod scope;
pub mod secrets;
pub mod steps;
pub mod stop;
mod trace;
pub mod workspace;

pub use env::{AgentDriver, Drivers, Env, Exporter, Human, ToolsetRequest};
pub use error::Error;
pub use observe::Observer;
pub use run::Outcome;
pub use steps::Saved;
pub use stop::{Stop, StopToken};
