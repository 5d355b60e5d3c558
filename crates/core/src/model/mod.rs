//! The contract of an API model, which is called turn by turn.
//!
//! Unlike an agent's [`Driver`](crate::agent::Driver), a model has no state and no effects: the caller
//! sends the whole conversation, runs the requested tools and stores both. So a crash loses at most the
//! one call in flight.

pub mod messages;

use serde::{Deserialize, Serialize};

use crate::agent::{Error, Listener};
use crate::digest::Digest;
use crate::ports::Boxed;
use crate::tool::{Tool, ToolCall, ToolResult};
use crate::usage::Usage;

/// One call of a model.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The idempotency key: the same for every attempt at one call, so that the other side can recognize
    /// a repeat.
    pub key: Digest,
    /// The system prompt.
    pub system: &'a str,
    /// The conversation so far, oldest message first.
    pub messages: &'a [Message],
    /// The tools that the model may request.
    pub tools: &'a [Tool],
}

/// A message of a conversation with a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case", deny_unknown_fields)]
pub enum Message {
    /// From the user.
    User { text: String },
    /// From the model.
    Assistant {
        /// The message's parts, in order.
        parts: Vec<Part>,
    },
    /// From the tools that the model requested.
    Tools {
        /// One result per call in the message before.
        results: Vec<ToolResult>,
    },
}

/// A part of a model's message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Part {
    Text {
        text: String,
    },
    /// A tool call.
    Call(ToolCall),
    /// A vendor-specific part that must be sent back unchanged.
    Raw {
        /// The part as it was received.
        value: serde_json::Value,
    },
}

/// A model's reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The reply's parts, in order.
    pub parts: Vec<Part>,
    pub stop: Stop,
    pub usage: Usage,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The turn is complete.
    End,
    /// The model waits for tool results.
    Tools,
    /// The reply reached its maximum length.
    Length,
    /// The model refused to answer.
    Refused,
}

impl Reply {
    /// The text parts of the reply, concatenated.
    pub fn text(&self) -> String {
        let words = self.parts.iter().filter_map(|part| match part {
            Part::Text { text } => Some(text.as_str()),
            _ => None,
        });
        words.collect()
    }

    /// The requested tool calls.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(call),
            _ => None,
        })
    }
}

/// The adapter for one API model.
pub trait Model: Send + Sync {
    /// Calls the model once. Dropping the future cancels the call.
    fn reply<'a>(
        &'a self,
        call: Call<'a>,
        listener: &'a dyn Listener,
    ) -> Boxed<'a, Result<Reply, Error>>;
}
