//! How an agent is spoken to.
//!
//! A driver takes one request and returns one answer, reporting on the way. It keeps nothing
//! between requests: what must survive is in the journal.

use std::path::Path as FilePath;
use std::time::Duration;

use crate::companion::Gauge;
use crate::conversation::Entry;
use crate::digest::Digest;
use crate::error::Kind as Sort;
use crate::id::SessionId;
use crate::journal::Run;
use crate::ports::Boxed;
use crate::step::Path;
use crate::usage::Usage;

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The session that asks.
    pub session: SessionId,
    /// Its run.
    pub run: Run,
    /// The step that asks.
    pub path: &'a Path,
    /// Which attempt this is.
    pub attempt: u32,
    /// The same for every attempt at one question, so that the other side can recognise a repeat.
    pub key: Digest,
    /// The agent's name in the spec.
    pub agent: &'a str,
    /// Who the agent is: its prompt.
    pub system: &'a str,
    /// What it is asked.
    pub input: &'a str,
    /// The folder it works in.
    pub workspace: &'a FilePath,
    /// How many tokens fit into the context of the agent's model, if that was told before.
    pub window: Option<u64>,
    /// What it is asked to do to the workspace.
    pub conduct: Conduct,
}

/// What an agent is asked to do to the workspace. It takes from what the person allows, and never adds
/// to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conduct {
    /// Work in it.
    Work,
    /// Look, and change no files.
    Look,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The text.
    pub text: String,
    /// What it took.
    pub usage: Usage,
}

/// What a driver reports while it works.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    /// A piece of the answer.
    Text(&'a str),
    /// What was used up to here, whether or not an answer follows.
    Usage(Usage),
    /// The name that an agent's program gives to its conversation.
    Native(&'a str),
    /// Something was said, by whomever.
    Said(&'a Entry),
    /// How full the model's context is.
    Context(Gauge),
    /// Something that a person who watches should know.
    Notice(&'a str),
}

/// Hears what a driver reports.
pub trait Listener: Send + Sync {
    /// Called for each report, in order.
    fn hear(&self, event: Event<'_>);
}

/// Speaks to one sort of agent.
pub trait Driver: Send + Sync {
    /// Asks, and returns the answer. Dropping the future ends the agent with everything it started.
    fn ask<'a>(
        &'a self,
        request: Request<'a>,
        listener: &'a dyn Listener,
    ) -> Boxed<'a, Result<Answer, Error>>;
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// What sort of failure it is.
    pub kind: ErrorKind,
    /// What happened.
    pub message: String,
}

/// What sort of failure it is. It decides whether another attempt makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Too many requests; how long to wait, if that was said.
    RateLimited(Option<Duration>),
    /// The credentials were refused.
    Auth,
    /// The conversation no longer fits the model.
    ContextFull,
    /// The program, model or native session does not exist.
    NotFound,
    /// The request itself cannot be used.
    Invalid,
    /// The network failed.
    Network,
    /// The other side failed.
    Server,
    /// The agent's program ended badly.
    Crashed,
    /// It took longer than it was given.
    Timeout,
}

impl ErrorKind {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            ErrorKind::RateLimited(_) => "rate_limited",
            ErrorKind::Auth => "auth",
            ErrorKind::ContextFull => "context_full",
            ErrorKind::NotFound => "not_found",
            ErrorKind::Invalid => "invalid",
            ErrorKind::Network => "network",
            ErrorKind::Server => "server",
            ErrorKind::Crashed => "crashed",
            ErrorKind::Timeout => "timeout",
        }
    }

    /// Whether the same question may find an answer later.
    pub const fn is_passing(self) -> bool {
        match self {
            ErrorKind::RateLimited(_)
            | ErrorKind::Network
            | ErrorKind::Server
            | ErrorKind::Crashed
            | ErrorKind::Timeout => true,
            ErrorKind::Auth | ErrorKind::ContextFull | ErrorKind::NotFound | ErrorKind::Invalid => {
                false
            }
        }
    }

    /// The kind that all of Segno's errors share.
    pub const fn sort(self) -> Sort {
        match self {
            ErrorKind::Auth => Sort::Forbidden,
            ErrorKind::NotFound => Sort::NotFound,
            ErrorKind::Invalid | ErrorKind::ContextFull => Sort::Invalid,
            _ => Sort::Unavailable,
        }
    }
}

impl Error {
    /// An error of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}
