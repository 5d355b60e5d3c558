//! A conversation with an agent, in no vendor's words.
//!
//! Each vendor keeps its own transcript. What was said in one is a list of [`Entry`] here, so that it
//! can be shown, searched, counted and handed to another agent. Nothing is guessed: a record that is
//! not understood stays [`Said::Raw`] under its own name, and the native file, kept beside it byte for
//! byte, remains the truth.
//!
//! - [`analysis`] adds a stream of entries up without holding it.
//! - [`turns`] brings entries into the order that every model takes: each call with its answer.
//! - [`messages`] turns them into what an API model is sent, and back.

pub mod analysis;
pub mod messages;
pub mod turns;

use std::ops::{Add, AddAssign};

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::digest::Digest;
use crate::model::ToolCall;
use crate::time::Timestamp;
use crate::usage::{Cost, Usage};

/// What an unanswered call is answered with, wherever a transcript must not have one.
pub const UNKNOWN_OUTCOME: &str = "The outcome of this tool call is unknown: the session ended before \
its result was recorded. It may have run in full, in part or not at all. Look at the state of things \
before doing it again.";

/// The longest image (in characters of base64) that is kept inside an entry.
pub const INLINE_IMAGE: usize = 7 << 20;

/// A whole conversation, as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conversation {
    /// The version of this form; another one is refused.
    pub version: Version,
    /// Whose transcript it comes from.
    pub agent: String,
    /// The agent's own name for the session.
    pub session: Option<String>,
    /// The folder that it worked in.
    pub cwd: Option<String>,
    /// What was said, in the order of the transcript.
    pub entries: Vec<Entry>,
}

/// The one version that there is: 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(into = "u32")]
pub struct Version;

impl Version {
    /// As it is written.
    pub const NUMBER: u32 = 1;
}

impl From<Version> for u32 {
    fn from(_: Version) -> Self {
        Version::NUMBER
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u32::deserialize(deserializer)? {
            Self::NUMBER => Ok(Self),
            other => Err(de::Error::custom(format_args!(
                "a conversation of version {other}, and only version {} is known",
                Self::NUMBER
            ))),
        }
    }
}

/// One thing that was said or that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// When, if the transcript says so.
    pub when: Option<Timestamp>,
    /// The record's own name. A record that says several things gives several entries of one name.
    pub id: Option<String>,
    /// The record that it follows.
    pub parent: Option<String>,
    /// In which conversation.
    pub thread: Thread,
    /// Whether the agent would still know it after a resume.
    pub branch: Branch,
    /// What was said.
    pub said: Said,
}

impl Entry {
    /// Something said in the main thread, of which nothing else is known.
    pub fn new(said: Said) -> Self {
        Self {
            when: None,
            id: None,
            parent: None,
            thread: Thread::Main,
            branch: Branch::Current,
            said,
        }
    }
}

/// Who speaks with the model.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Thread {
    /// The person.
    Main,
    /// The agent itself, through a sub-agent of this name.
    Agent(String),
}

/// Where an entry stands in a transcript that may fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Branch {
    /// On the branch that a resume goes on with.
    Current,
    /// On a branch that was left behind.
    Side,
    /// The transcript has more records than branches are followed in.
    Unknown,
}

/// What was said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Said {
    /// To the agent.
    User {
        /// Who wrote it.
        origin: Origin,
        /// What it consists of.
        parts: Vec<Part>,
    },
    /// By the model.
    Assistant {
        /// The message. One message may come in several entries, each with its usage.
        message: Option<String>,
        /// Which model.
        model: Option<String>,
        /// What it consists of.
        parts: Vec<Utterance>,
        /// What the whole message took.
        usage: Option<Tokens>,
    },
    /// By a tool.
    Result(Answer),
    /// The history up to here was replaced by a summary.
    Compaction {
        /// The summary, if the record has it.
        summary: Option<String>,
        /// The size of the context before.
        before: Option<u64>,
        /// The size of the context after.
        after: Option<u64>,
    },
    /// What was used, where the transcript says it apart from what was said.
    Usage {
        /// Of one response.
        last: Tokens,
        /// Of the thread from its beginning.
        total: Option<Tokens>,
    },
    /// Something that the agent's program notes.
    Notice {
        /// What sort.
        notice: Notice,
        /// In its own words.
        text: String,
    },
    /// A record that says nothing that is known here. It is in the native transcript.
    Raw {
        /// What it calls itself.
        record: String,
    },
}

impl Said {
    /// The names by which it can be found again: of the message, of the calls in it, of the call that it
    /// answers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let (message, parts) = match self {
            Self::Assistant { message, parts, .. } => (message.as_deref(), parts.as_slice()),
            _ => (None, &[][..]),
        };
        let calls = parts.iter().filter_map(|part| match part {
            Utterance::Call(call) => Some(call.id.as_str()),
            _ => None,
        });
        let answer = match self {
            Self::Result(answer) => Some(answer.id.as_str()),
            _ => None,
        };
        message.into_iter().chain(calls).chain(answer)
    }
}

/// Who wrote what a model reads as the user's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A person, or whoever gives the agent its work.
    Person,
    /// The agent's program, on its own.
    Program,
}

/// What a program may note.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notice {
    /// The turn was broken off.
    Interrupted,
    /// Something went wrong.
    Error,
}

/// A piece of what a user says or a tool answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Part {
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// A picture.
    Image {
        /// Its type, such as `image/png`.
        media_type: String,
        /// What it shows.
        content: Image,
    },
    /// Something that only its vendor understands.
    Raw {
        /// As it came.
        value: serde_json::Value,
    },
}

/// The content of a picture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Image {
    /// In base64, at most [`INLINE_IMAGE`] characters.
    Inline(String),
    /// Too long to be kept here.
    Elsewhere {
        /// The digest of its base64.
        digest: Digest,
        /// The length of its base64.
        size: u64,
    },
    /// At an address.
    Url(String),
}

impl Image {
    /// From base64, inline if it is short enough.
    pub fn from_base64(data: String) -> Self {
        if data.len() <= INLINE_IMAGE {
            return Self::Inline(data);
        }
        Self::Elsewhere {
            digest: Digest::of(data.as_bytes()),
            size: data.len() as u64,
        }
    }
}

/// A piece of what a model says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Utterance {
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// What it thought. Only the model that thought it takes it back, and only with its seal.
    Thinking {
        /// What may be read of it.
        text: String,
        /// The vendor's signature or sealed content.
        seal: Option<String>,
    },
    /// A tool is asked for.
    Call(ToolCall),
    /// Something that only its vendor understands.
    Raw {
        /// As it came.
        value: serde_json::Value,
    },
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The call.
    pub id: String,
    /// What it consists of.
    pub parts: Vec<Part>,
    /// How the call went.
    pub outcome: Outcome,
}

/// How a call went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Well.
    Succeeded,
    /// Wrong.
    Failed,
    /// The transcript does not say.
    Unsaid,
}

/// Tokens, exactly as the vendor counted them, none counted twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tokens {
    /// Read, and not from a cache.
    pub input: u64,
    /// Read from a cache.
    pub cache_read: u64,
    /// Read, and put into a cache.
    pub cache_write: u64,
    /// Written.
    pub output: u64,
}

impl Tokens {
    /// All of them: after a response, the size of the context.
    pub fn sum(self) -> u64 {
        self.input
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
            .saturating_add(self.output)
    }
}

impl Add for Tokens {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            output: self.output.saturating_add(other.output),
        }
    }
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// Without a cost: that needs prices, which differ for what comes from a cache.
impl From<Tokens> for Usage {
    fn from(tokens: Tokens) -> Self {
        Self {
            input_tokens: tokens.sum().saturating_sub(tokens.output),
            output_tokens: tokens.output,
            cost: Cost::default(),
        }
    }
}

/// The words among some parts, in order, a line apart.
pub fn words(parts: &[Part]) -> String {
    let mut all = String::new();
    for part in parts {
        if let Part::Text { text } = part {
            if !all.is_empty() {
                all.push('\n');
            }
            all.push_str(text);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_refused() {
        let text = r#"{"version":1,"agent":"codex","session":null,"cwd":null,"entries":[]}"#;
        let kept: Conversation = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&kept).unwrap(), text);
        let newer = text.replace(":1,", ":2,");
        let error = serde_json::from_str::<Conversation>(&newer).unwrap_err();
        assert!(error.to_string().contains("version 2"), "{error}");
    }

    #[test]
    fn an_entry_is_the_same_after_being_kept() {
        let entry = Entry {
            when: Some(Timestamp(7)),
            thread: Thread::Agent("counter".into()),
            ..Entry::new(Said::Assistant {
                message: Some("m".into()),
                model: None,
                parts: vec![
                    Utterance::Thinking {
                        text: "hm".into(),
                        seal: Some("s".into()),
                    },
                    Utterance::Call(ToolCall {
                        id: "c".into(),
                        name: "Bash".into(),
                        input: serde_json::json!({"command": "ls"}),
                    }),
                ],
                usage: Some(Tokens {
                    input: 1,
                    ..Tokens::default()
                }),
            })
        };
        let text = serde_json::to_string(&entry).unwrap();
        assert_eq!(serde_json::from_str::<Entry>(&text).unwrap(), entry);
    }

    #[test]
    fn a_picture_that_is_too_long_is_named_and_not_kept() {
        let long = "A".repeat(INLINE_IMAGE + 4);
        let Image::Elsewhere { size, .. } = Image::from_base64(long.clone()) else {
            panic!("kept");
        };
        assert_eq!(size, long.len() as u64);
    }
}
