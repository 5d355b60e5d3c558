//! The contract of an agent's driver.
//!
//! A driver takes one request and returns one answer, and reports events on the way. It keeps no state
//! between requests: what must survive is in the journal.

use std::path::Path as FilePath;
use std::time::Duration;

use crate::conversation::ConversationItem;
use crate::digest::Digest;
use crate::id::{Run, SessionId};
use crate::ports::Boxed;
use crate::step::Path;
use crate::usage::{ContextUsage, Cost, RunReport, Usage};
use crate::words::words;

/// A request to an agent.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub session: SessionId,
    pub run: Run,
    pub path: &'a Path,
    pub attempt: u32,
    /// The idempotency key: the same for every attempt with the same input, so that the other side can
    /// recognize a repeat.
    pub key: Digest,
    /// The agent's name in the spec.
    pub agent: &'a str,
    /// The agent's system prompt.
    pub system: &'a str,
    pub input: &'a str,
    pub workspace: &'a FilePath,
    /// The size of the context window of the agent's model in tokens, if it was reported before.
    pub window: Option<u64>,
    /// What the conversation to resume had cost before, as its agent reported it last. `None` if that
    /// is unknown.
    pub conversation_cost: Option<Cost>,
    /// Names of environment variables that the spec passes to programs; a name may end in `*`.
    pub pass_env: &'a [String],
    /// Whether the agent may change the workspace.
    pub access: AccessMode,
}

/// The access mode of a request. It restricts what the user allows and never extends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessMode {
    /// The agent may change files.
    ReadWrite,
    /// The agent reads and changes no files.
    ReadOnly,
    /// The agent answers from its input. It gets no tools where it can be started without them, and
    /// keeps no conversation where it can be told not to.
    InputOnly,
}

/// An agent's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub text: String,
    pub usage: Usage,
}

/// An event that a driver reports while it works.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    /// A chunk of the answer.
    Text(&'a str),
    /// The usage so far, whether or not an answer follows.
    Usage(Usage),
    /// The CLI agent's own id of its conversation.
    ConversationId(&'a str),
    /// A message of the conversation, from any side.
    Item(&'a ConversationItem),
    /// The usage of the model's context window.
    Context(ContextUsage),
    /// What the agent's program reports at the end of a run, or of a part of it, after its usage.
    Report(RunReport),
    /// The agent was refused a tool.
    Refused(Refusal<'a>),
    /// A message for a user who watches.
    Notice(&'a str),
}

/// A tool that an agent wanted to use and may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal<'a> {
    /// The tool's name, as the agent calls it.
    pub tool: &'a str,
    pub reason: RefusalReason,
}

words! {
    /// Why an agent was refused a tool. It decides which setting allows it.
    RefusalReason {
        /// Its permissions in the settings do not include it.
        Permissions = "permissions",
        /// The step may only read: agents that plan or review do not change files.
        ReadOnly = "read_only",
        /// The spec does not allow it.
        Spec = "spec",
        /// A user said no.
        User = "user",
    }
}

/// Receives a driver's events.
pub trait Listener: Send + Sync {
    /// Called for each event, in order.
    fn on_event(&self, event: Event<'_>);

    /// Returns when the listener has room for more events. A driver awaits it before it reads the
    /// next message of its agent, so that an agent that writes faster than the disk waits (P10).
    fn ready(&self) -> Boxed<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// The adapter for one kind of agent.
pub trait Driver: Send + Sync {
    /// Sends the request and returns the answer. Dropping the future kills the agent and every process
    /// that it started.
    fn ask<'a>(
        &'a self,
        request: Request<'a>,
        listener: &'a dyn Listener,
    ) -> Boxed<'a, Result<Answer, Error>>;
}

/// Why an agent gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    pub kind: ErrorKind,
    pub message: String,
    /// What the user can do about it, if more than the kind says.
    pub hint: Option<&'static str>,
}

/// The kind of a failure. It decides whether another attempt makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Too many requests; how long to wait, if the provider said so.
    RateLimited(Option<Duration>),
    /// The credentials were rejected.
    Auth,
    /// The conversation no longer fits into the model's context window.
    ContextFull,
    /// The model does not exist, or the program cannot be executed.
    NotFound,
    /// The CLI agent has no conversation of the requested id, or uses another one.
    NoConversation,
    /// Another process has the conversation open.
    ConversationInUse,
    /// The agent's program does not exist.
    NoProgram,
    /// The request itself is invalid.
    Invalid,
    Network,
    /// The provider failed.
    Server,
    /// The CLI agent's process failed.
    Crashed,
    /// The request exceeded its time limit.
    Timeout,
    /// It fits no other kind.
    Unknown,
}

impl ErrorKind {
    /// The failure kind's name in the journal.
    pub const fn as_str(self) -> &'static str {
        match self {
            ErrorKind::RateLimited(_) => "rate_limited",
            ErrorKind::Auth => "auth",
            ErrorKind::ContextFull => "context_full",
            ErrorKind::NotFound | ErrorKind::NoConversation | ErrorKind::NoProgram => "not_found",
            ErrorKind::ConversationInUse => "in_use",
            ErrorKind::Invalid => "invalid",
            ErrorKind::Network => "network",
            ErrorKind::Server => "server",
            ErrorKind::Crashed => "crashed",
            ErrorKind::Timeout => "timeout",
            ErrorKind::Unknown => "unknown",
        }
    }

    /// Whether a retry of the same request may succeed.
    pub const fn is_transient(self) -> bool {
        match self {
            ErrorKind::RateLimited(_)
            | ErrorKind::Network
            | ErrorKind::Server
            | ErrorKind::Crashed
            | ErrorKind::Timeout
            | ErrorKind::Unknown => true,
            ErrorKind::Auth
            | ErrorKind::ContextFull
            | ErrorKind::NotFound
            | ErrorKind::NoConversation
            | ErrorKind::ConversationInUse
            | ErrorKind::NoProgram
            | ErrorKind::Invalid => false,
        }
    }
}

impl Error {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
        }
    }

    #[must_use]
    pub fn with_hint(self, hint: &'static str) -> Self {
        Self {
            hint: Some(hint),
            ..self
        }
    }
}
