//! How a model is spoken to, turn by turn.
//!
//! Unlike an agent's [`Driver`](crate::agent::Driver), a model keeps nothing and does nothing: whoever
//! speaks to it sends the whole conversation, runs the tools that it asks for, and keeps both. That
//! is why a crash costs at most the one call that was in flight.

use serde::{Deserialize, Serialize};

use crate::agent::{Error, Listener};
use crate::digest::Digest;
use crate::ports::Boxed;
use crate::usage::Usage;

/// One call.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The same for every attempt at one call, so that the other side can recognise a repeat.
    pub key: Digest,
    /// Who the model is.
    pub system: &'a str,
    /// What was said so far, oldest first.
    pub messages: &'a [Message],
    /// What it may ask for.
    pub tools: &'a [Tool],
}

/// What was said by one side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case", deny_unknown_fields)]
pub enum Message {
    /// By the one who asks.
    User {
        /// The words.
        text: String,
    },
    /// By the model.
    Assistant {
        /// What it said, in order.
        parts: Vec<Part>,
    },
    /// By the tools that the model asked for.
    Tools {
        /// One for each call in the message before.
        results: Vec<ToolResult>,
    },
}

/// A piece of what a model says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Part {
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// A tool is asked for.
    Call(ToolCall),
    /// Something that only its vendor understands, and wants to see again.
    Raw {
        /// As it came.
        value: serde_json::Value,
    },
}

/// A tool that is asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The call's own name.
    pub id: String,
    /// The tool.
    pub name: String,
    /// What it is given.
    pub input: serde_json::Value,
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolResult {
    /// The call.
    pub id: String,
    /// The answer.
    pub output: String,
    /// Whether it went wrong.
    pub is_error: bool,
}

/// A tool that a model may ask for.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What it takes: a JSON schema.
    pub schema: serde_json::Value,
}

/// What a model answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// What it said, in order.
    pub parts: Vec<Part>,
    /// Why it stopped.
    pub stop: Stop,
    /// What it took.
    pub usage: Usage,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It said what it had to say.
    End,
    /// It waits for tools.
    Tools,
    /// It may not say more.
    Length,
    /// It does not want to answer.
    Refused,
}

impl Reply {
    /// The words of the answer.
    pub fn text(&self) -> String {
        let words = self.parts.iter().filter_map(|part| match part {
            Part::Text { text } => Some(text.as_str()),
            _ => None,
        });
        words.collect()
    }

    /// The tools that are asked for.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(call),
            _ => None,
        })
    }
}

/// Speaks to one model.
pub trait Model: Send + Sync {
    /// Calls it once. Dropping the future gives the call up.
    fn reply<'a>(
        &'a self,
        call: Call<'a>,
        listener: &'a dyn Listener,
    ) -> Boxed<'a, Result<Reply, Error>>;
}
