//! The use cases around runs, with the names that users know: start, resume, list, show, fork,
//! export, import, cancel.
//!
//! A use case reads or changes a session between its runs, or prepares a run and hands it to
//! [`segno_engine::run`].

pub mod agent_state;
pub mod answer;
pub mod archive;
pub mod artifacts;
pub mod background;
pub mod cancel;
pub mod chat;
pub mod checkpoint;
pub mod control;
pub mod conversation;
pub mod conversations;
pub mod details;
pub mod doctor;
pub mod fork;
pub mod import;
pub mod json;
pub mod last_run;
pub mod listing;
mod messages;
mod naming;
pub mod next_run;
pub mod notes;
pub mod pause;
pub mod progress;
pub mod recover;
pub mod refusals;
pub mod relocate;
pub mod remote;
mod reported;
pub mod resume;
pub mod resume_context;
pub mod search;
mod show;
pub mod spec_edit;
pub mod start;
pub mod stored;
pub mod trash;
pub mod unknown;
pub mod work;

pub use listing::{
    ListedSession, find, find_newest_in, in_folder, list, newest_in, outdated, suspensions,
};
pub use show::{OutputError, SessionDetails, StepDetails, StepStatus, output, show};
