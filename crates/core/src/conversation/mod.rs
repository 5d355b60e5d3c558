//! A vendor-neutral conversation with an agent.
//!
//! Each vendor has its own transcript format. Segno converts a transcript to a list of [`ConversationItem`], so
//! that it can be shown, searched, counted and passed to another agent. The conversion does not guess: a
//! record that it does not understand becomes [`ItemContent::Raw`] with the record's own type name, and the
//! native file, stored byte for byte, remains the source of truth.
//!
//! - [`analysis`] summarizes a stream of items without holding it in memory.
//! - [`contents`] finds the items that a transcript lacks, by what they contain.
//! - [`turns`] brings items into the order that every model accepts: each call with its result.
//! - [`crate::model::messages`] converts items to the messages of an API model, and back.

pub mod analysis;
pub mod contents;
pub mod turns;

use std::borrow::Cow;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::digest::Digest;
use crate::time::Timestamp;
use crate::tool::ToolCall;
use crate::usage::{Cost, Usage};

/// The result of a tool call without one, for formats that do not allow unanswered calls.
pub const UNKNOWN_OUTCOME: &str = "The outcome of this tool call is unknown: the session ended before \
its result was recorded. It may have run in full, in part or not at all. Check the actual state \
before repeating it.";

/// What precedes the items that a resumed transcript lacks, in the message that resumes it.
pub const MISSING_ITEMS: &str = "These messages and tool calls are missing in your transcript:";

/// The longest image (in characters of base64) that an item contains inline.
pub const INLINE_IMAGE: usize = 7 << 20;

/// A whole conversation, as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conversation {
    /// The version of this format; any other is refused.
    pub version: Version,
    /// The agent whose transcript it comes from.
    pub agent: String,
    /// The agent's own id of the conversation.
    pub session: Option<String>,
    /// The working directory.
    pub cwd: Option<String>,
    /// The items, in the order of the transcript.
    #[serde(rename = "entries")]
    pub items: Vec<ConversationItem>,
}

/// The only version: 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(into = "u32")]
pub struct Version;

impl Version {
    /// The number as it is stored.
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
                "the conversation has version {other}; only version {} is supported",
                Self::NUMBER
            ))),
        }
    }
}

/// One item of a conversation: a message, a tool result, or another event in a transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConversationItem {
    /// The timestamp, if the transcript has one.
    pub when: Option<Timestamp>,
    /// The transcript record's own id. A record with several parts gives several items with the same id.
    pub id: Option<String>,
    /// The id of the record before it.
    pub parent: Option<String>,
    pub thread: Thread,
    /// Whether the agent would still know the item after a resume.
    pub branch: Branch,
    #[serde(rename = "said")]
    pub content: ItemContent,
}

impl ConversationItem {
    /// An item of the main thread without metadata.
    pub fn new(content: ItemContent) -> Self {
        Self {
            when: None,
            id: None,
            parent: None,
            thread: Thread::Main,
            branch: Branch::Current,
            content,
        }
    }
}

/// The thread of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Thread {
    /// The conversation with the user.
    Main,
    /// The conversation between the agent and a sub-agent of this name.
    Agent(String),
}

/// The branch of an item, in a transcript that may fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Branch {
    /// The branch that a resume continues.
    Current,
    /// An abandoned branch.
    Side,
    /// The transcript is too long to follow its branches.
    Unknown,
}

/// The content of an item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ItemContent {
    /// A message to the agent.
    User { origin: Origin, parts: Vec<Part> },
    /// A message of the model.
    Assistant {
        /// The message's id. One message may be split into several items, each with the message's usage.
        message: Option<String>,
        model: Option<String>,
        parts: Vec<AssistantPart>,
        /// The usage of the whole message.
        usage: Option<Tokens>,
    },
    /// The result of a tool call.
    Result(Answer),
    /// The history up to here was replaced by a summary.
    Compaction {
        /// The summary, if the transcript contains it.
        summary: Option<String>,
        /// The size of the context before the compaction.
        before: Option<u64>,
        /// The size of the context after the compaction.
        after: Option<u64>,
    },
    /// Token usage, where the transcript reports it apart from messages.
    Usage {
        /// The usage of one response.
        last: Tokens,
        /// The usage of the thread since its beginning.
        total: Option<Tokens>,
    },
    /// A notice of the CLI agent.
    Notice {
        notice: Notice,
        /// The notice as the CLI agent wrote it.
        text: String,
    },
    /// A transcript record that is not understood. The native transcript contains it.
    Raw {
        /// The record's own type name.
        record: String,
    },
}

impl ItemContent {
    /// The ids by which the item can be found: the message's, those of its calls, and that of the call
    /// that it answers. A text has one of its own, because CLI agents write the parts of a message one
    /// by one, and only its thinking may be written.
    pub fn ids(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let (message, parts) = match self {
            Self::Assistant { message, parts, .. } => (message.as_deref(), parts.as_slice()),
            _ => (None, &[][..]),
        };
        let calls = parts.iter().filter_map(|part| match part {
            AssistantPart::Call(call) => Some(call.id.as_str()),
            _ => None,
        });
        let answer = match self {
            Self::Result(answer) => Some(answer.id.as_str()),
            _ => None,
        };
        let has_text = parts
            .iter()
            .any(|part| matches!(part, AssistantPart::Text { .. }));
        let text = message.filter(|_| has_text);
        let text = text.map(|message| Cow::Owned(format!("{message}/text")));
        let ids = message.into_iter().chain(calls).chain(answer);
        ids.map(Cow::Borrowed).chain(text)
    }
}

/// Who wrote a message that the model reads as the user's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A user, or another caller that gives the agent its task.
    #[serde(rename = "person")]
    User,
    /// The CLI agent itself.
    #[serde(rename = "program")]
    CliAgent,
}

/// The kind of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notice {
    /// The turn was interrupted.
    Interrupted,
    /// An error occurred.
    Error,
}

/// A part of a user's message or of a tool result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Part {
    Text {
        text: String,
    },
    Image {
        /// The media type, such as `image/png`.
        media_type: String,
        content: Image,
    },
    /// A vendor-specific part.
    Raw {
        /// The part as it was received.
        value: serde_json::Value,
    },
}

/// The content of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Image {
    /// In base64, at most [`INLINE_IMAGE`] characters.
    Inline(String),
    /// Too long to be stored inline.
    #[serde(rename = "elsewhere")]
    External {
        /// The digest of the base64 text.
        digest: Digest,
        /// The length of the base64 text.
        size: u64,
    },
    Url(String),
}

impl Image {
    /// Converts from base64; inline if it is short enough.
    pub fn from_base64(data: String) -> Self {
        if data.len() <= INLINE_IMAGE {
            return Self::Inline(data);
        }
        Self::External {
            digest: Digest::of(data.as_bytes()),
            size: data.len() as u64,
        }
    }
}

/// A part of a model's message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum AssistantPart {
    Text {
        text: String,
    },
    /// Thinking. Only the model that produced it accepts it back, and only with its signature.
    Thinking {
        /// The readable part.
        text: String,
        /// The vendor's signature or encrypted content.
        seal: Option<String>,
    },
    /// A tool call.
    Call(ToolCall),
    /// A vendor-specific part.
    Raw {
        /// The part as it was received.
        value: serde_json::Value,
    },
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The call's id.
    pub id: String,
    pub parts: Vec<Part>,
    pub outcome: Outcome,
}

/// The outcome of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Succeeded,
    Failed,
    /// The transcript does not say.
    #[serde(rename = "unsaid")]
    Unknown,
}

/// Token counts exactly as the vendor reports them; no token is counted twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tokens {
    /// Input tokens that did not come from a cache.
    pub input: u64,
    /// Input tokens read from a cache.
    pub cache_read: u64,
    /// Input tokens written to a cache.
    pub cache_write: u64,
    pub output: u64,
}

impl Tokens {
    /// All tokens: after a response, the size of the context.
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

/// Without a cost: that needs prices, which differ for cached tokens.
impl From<Tokens> for Usage {
    fn from(tokens: Tokens) -> Self {
        Self {
            input_tokens: tokens.sum().saturating_sub(tokens.output),
            output_tokens: tokens.output,
            cost: Cost::default(),
        }
    }
}

/// The text parts, joined by newlines.
pub fn plain_text(parts: &[Part]) -> String {
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
    fn conversation_item_round_trips_through_json() {
        let entry = ConversationItem {
            when: Some(Timestamp(7)),
            thread: Thread::Agent("counter".into()),
            ..ConversationItem::new(ItemContent::Assistant {
                message: Some("m".into()),
                model: None,
                parts: vec![
                    AssistantPart::Thinking {
                        text: "hm".into(),
                        seal: Some("s".into()),
                    },
                    AssistantPart::Call(ToolCall {
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
        assert_eq!(
            serde_json::from_str::<ConversationItem>(&text).unwrap(),
            entry
        );
    }

    #[test]
    fn oversized_image_is_referenced_by_digest() {
        let long = "A".repeat(INLINE_IMAGE + 4);
        let Image::External { size, .. } = Image::from_base64(long.clone()) else {
            panic!("kept");
        };
        assert_eq!(size, long.len() as u64);
    }
}
