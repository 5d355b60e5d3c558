//! A model server on a port of its own: it answers from a script, can fail in every way that real
//! ones do, and counts what it was asked, outside of segno.
//!
//! There are two ways to say what it answers. [`ModelServer::start`] asks the test at every call.
//! [`ModelServer::scripted`] plays [`Script`]s to real agents: a marker in the prompt names the
//! script, and what the agent sends as its history decides which turn comes next. So an agent may
//! be killed, resumed, forked, moved or replaced by another vendor's, and still gets the right
//! next answer; and the server may be another one, too.

mod claude;
mod codex;
mod history;
mod http;
mod performance;
mod place;
mod play;
mod script;
mod server;
mod standard;

pub use history::{Outcome, Part, Role, conversation};
pub use http::Asked;
pub use place::{Manner, Purpose};
pub use play::Play;
pub use script::{Call, Fault, Often, Pace, Script, Turn, Usage};
pub use server::{Answer, Ending, ModelServer};
pub use standard::{drafts, files, standard, standard_files};
