//! Durable runs of workflows: each step finishes once, and a killed run resumes where it stopped.
//!
//! The public modules are the use cases, with the names that users know ([`start`], [`resume`],
//! [`cancel`], [`sessions`], [`doctor`]); the command line only calls them. Internally, [`steps`]
//! executes steps, and the [`patterns`] are plain functions over it.

pub mod adopt;
pub mod answer;
pub mod answers;
pub mod archive;
mod artifacts;
mod auto_pause;
mod between_runs;
mod budget;
pub mod cancel;
pub mod chat;
pub mod checkpoint;
mod checkpointer;
mod context;
pub mod conversations;
pub mod details;
pub mod doctor;
pub mod drift;
pub mod env;
pub mod error;
mod evidence;
pub mod export;
mod extraction;
pub mod fork;
pub mod history;
pub mod import;
pub mod journal;
pub mod lease;
mod memory;
mod messages;
pub mod note_rules;
pub mod notes;
mod notes_file;
pub mod observe;
pub mod patterns;
pub mod pause;
pub mod plan;
pub mod reconcile;
pub mod recover;
pub mod relocate;
pub mod remote;
pub mod resume;
pub mod resume_context;
pub mod retention;
pub mod run;
pub mod scope;
pub mod search;
mod secrets;
pub mod sessions;
pub mod start;
pub mod steps;
pub mod stop;
mod trace;
pub mod trash;
pub mod work;

pub use env::{AgentDriver, Drivers, Env, Exporter, Human, ToolsetRequest};
pub use error::Error;
pub use observe::Observer;
pub use run::Outcome;
pub use steps::Saved;
pub use stop::{Stop, StopToken};
