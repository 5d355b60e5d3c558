//! Sessions out of transcripts that agent programs left behind.
//!
//! A transcript becomes a session of one step, whose agent can go on with the conversation. What was
//! said stands in its journal, and the file itself is kept byte for byte. The same transcript is
//! always the same session: one that was adopted before is brought up to date.

use std::path::PathBuf;
use std::sync::Arc;

use segno_core::companion::Program;
use segno_core::id::{Name, SessionId};

use crate::error::Error;
use crate::world::World;

/// What is to be adopted.
#[derive(Clone)]
pub struct Request {
    /// Whose transcript it is.
    pub program: Program,
    /// Its file.
    pub file: PathBuf,
    /// The folder to go on in; otherwise the one that the conversation is about.
    pub folder: Option<PathBuf>,
    /// Whether anything is written.
    pub effect: Effect,
    /// Told how many bytes were read, of how many.
    pub progress: Arc<dyn Fn(u64, u64) + Send + Sync>,
}

/// Whether anything is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The session is made, or brought up to date.
    Keep,
    /// Only what would be done is told.
    Foresee,
}

/// What became of a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    /// Its session.
    pub session: SessionId,
    /// What the session is called; without one if it was only foreseen.
    pub name: Option<Name>,
    /// The program's name for the conversation.
    pub native: String,
    /// The folder that the session works in.
    pub folder: String,
    /// What was done.
    pub outcome: Outcome,
    /// How many things that were said were added.
    pub entries: u64,
    /// How far the file was read, in bytes.
    pub bytes: u64,
    /// What could not be read, in words.
    pub damage: Vec<String>,
    /// How many more such things there are.
    pub damage_unlisted: u64,
}

/// What was done about a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A session was made of it.
    New,
    /// Its session was brought up to date.
    Updated,
    /// Its session has all of it.
    Unchanged,
    /// Its session was left as it is: why.
    Left(String),
}

/// Makes a session of a transcript, or brings the session up to date that was made of it. May be
/// called again at any time, also after a kill, and by several at once: what a transcript says comes
/// into its session once.
pub async fn adopt(world: &World, request: Request) -> Result<Adopted, Error> {
    let _ = world;
    Err(Error::Unreadable {
        path: request.file,
        reason: "transcripts are not adopted yet".to_owned(),
    })
}
