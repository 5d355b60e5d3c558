//! Durable runs of workflows: each step finishes once, and a killed run resumes where it stopped.
//!
//! The public modules are the use cases, with the names that users know ([`start`], [`resume`],
//! [`cancel`], [`sessions`], [`doctor`]); the command line only calls them. Internally, [`flow`]
//! executes steps, and the [`patterns`] are plain functions over it.

pub mod adopt;
pub mod answer;
pub mod answers;
pub mod archive;
mod artifacts;
mod auto_pause;
pub mod brief;
mod budget;
pub mod cancel;
pub mod chat;
pub mod checkpoint;
mod checkpointer;
pub mod claim;
mod context;
pub mod details;
pub mod doctor;
pub mod drift;
pub mod error;
mod evidence;
pub mod export;
mod extraction;
pub mod flow;
pub mod fork;
mod gleaning;
pub mod history;
pub mod import;
mod interlude;
mod memory;
pub mod memos;
mod notes_file;
pub mod observe;
pub mod patterns;
pub mod pause;
pub mod pen;
pub mod plan;
pub mod reconcile;
pub mod recover;
pub mod relocate;
pub mod remote;
pub mod resume;
pub mod retention;
pub mod run;
pub mod scope;
pub mod search;
mod secrets;
pub mod sessions;
pub mod spec;
pub mod start;
pub mod stop;
pub mod talk;
pub mod template;
mod trace;
pub mod trash;
mod utterances;
pub mod work;
pub mod world;

pub use error::Error;
pub use flow::Saved;
pub use observe::Observer;
pub use run::Outcome;
pub use stop::{Brake, Stop};
pub use world::{Drivers, Exporter, Nobody, Order, People, Speaker, Untold, World};
