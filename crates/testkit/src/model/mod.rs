//! A model server on its own port: it answers from a script, can fail in every way that real ones
//! do, and counts its requests, outside of segno.
//!
//! There are two ways to specify its answers. [`ModelServer::start`] calls a function of the test
//! at every request. [`ModelServer::scripted`] plays [`Script`]s to real agents: a marker in the
//! prompt names the script, and the history that the agent sends determines the next turn. So an
//! agent may be killed, resumed, forked, moved or replaced by another vendor's, and still gets the
//! right next answer; and the server may be a different one, too.

mod claude;
mod codex;
mod history;
mod http;
mod position;
mod response;
mod script;
mod scripted;
mod server;
mod standard;

pub use history::{Outcome, Part, Role, conversation};
pub use http::ModelRequest;
pub use position::{Manner, Purpose};
pub use response::ModelResponse;
pub use script::{Call, Fault, FaultRepeat, Pace, Script, Turn, Usage};
pub use server::{Answer, Ending, ModelServer};
pub use standard::{drafts, files, standard, standard_files};
