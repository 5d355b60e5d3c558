//! The contract of a CLI agent: an agent that stores its conversations itself.
//!
//! Claude Code, Codex and similar CLI agents write transcripts and can resume from them. Transcripts
//! belong to the vendor: Segno reads them, stores copies and, where one is damaged or missing, writes a
//! replacement. Segno itself relies only on its journal.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::agent::{Answer, Error, Listener, Request};
use crate::conversation::analysis::Unanswered;
use crate::conversation::contents::Content;
use crate::conversation::{ConversationItem, Tokens};
use crate::ports::{Boxed, Random};
use crate::usage::Usage;
use crate::words::words;

words! {
    /// Which CLI agent it is.
    CliAgentKind {
        #[serde(rename = "claude-code")]
        ClaudeCode = "claude-code",
        Codex = "codex",
        /// An agent that speaks the Agent Client Protocol.
        Acp = "acp",
    }
}

/// Whether a CLI agent starts or resumes a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConversationMode<'a> {
    /// Starts a conversation, under this id if the CLI agent accepts one.
    Start { id: &'a str },
    /// Resumes a conversation.
    Resume { id: &'a str },
}

/// A new conversation id: a random UUID, the format that CLI agents accept.
pub fn new_conversation_id(random: &dyn Random) -> String {
    let mut bytes = [0; 16];
    random.fill(&mut bytes);
    // The version and variant bits of a random UUID.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = format!("{:032x}", u128::from_be_bytes(bytes));
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    parts.join("-")
}

/// The state of a CLI agent's transcript.
#[derive(Debug, Clone, PartialEq)]
pub struct TranscriptState {
    /// The transcript's size.
    pub bytes: u64,
    pub health: Health,
    /// Tool calls without a known outcome; `None` if only the CLI agent can read the transcript.
    pub unanswered: Option<Vec<Unanswered>>,
    /// The newest items of the transcript, to compare with what the CLI agent reported while it
    /// worked; `None` if they are not known. What was reported and is not here did not reach the
    /// transcript.
    pub known: Option<KnownItems>,
    /// The newest messages in the transcript that quote items which it lacked before
    /// ([`MISSING_ITEMS`](crate::conversation::MISSING_ITEMS)).
    pub announced: Vec<String>,
    /// The final usage of the newest messages by id, oldest first, if the CLI agent reports the same
    /// ids while it works and the final usage only at its end.
    pub message_usage: Vec<(String, Tokens)>,
    /// The usage of the whole conversation, if the transcript has it while the CLI agent works.
    pub total_usage: Option<Usage>,
}

/// How the items of a transcript are recognized.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KnownItems {
    /// By the ids of messages, calls and results
    /// ([`ItemContent::ids`](crate::conversation::ItemContent::ids)): the CLI agent reports the same ids.
    Ids(Vec<String>),
    /// By their content: the CLI agent reports other ids. [`TranscriptFiles::contents`] gives the
    /// contents of reported items.
    Contents(Vec<Content>),
}

/// Whether a transcript can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// The CLI agent can resume from it.
    Intact,
    /// Parts of it cannot be parsed: which, as text.
    Damaged(String),
    /// None of it can be parsed: why.
    Unreadable(String),
    /// It contains no messages.
    Empty,
    /// Only the CLI agent can tell, when it loads the conversation, and it was not started.
    Unexamined,
}

/// How the state of a transcript is found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Examination {
    /// From files only: no program is started, and nothing changes.
    FilesOnly,
    /// Also by starting the CLI agent, where only that can read its transcripts.
    StartProgram,
}

/// A living process that has a conversation open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub pid: u32,
    /// When the process started, in kernel ticks since boot: with the pid, this names one process.
    pub started: u64,
    /// The program's name.
    pub program: String,
    /// The session that started it, if Segno did.
    pub session: Option<String>,
    /// Whether it has ended, except that the kernel still closes its files.
    pub is_ending: bool,
}

/// The stored copy of a transcript.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TranscriptCopy {
    /// The transcript's bytes.
    pub transcript: Vec<u8>,
    /// Files that the CLI agent stores beside it, by name: transcripts of sub-agents.
    pub sidecars: BTreeMap<String, Vec<u8>>,
}

impl TranscriptCopy {
    /// The maximum size of a transcript copy in bytes; also that of all files beside it together.
    pub const MAX_BYTES: u64 = 256 << 20;
    /// The maximum number of files beside it.
    pub const MAX_FILES: usize = 1000;
}

/// The adapter for a CLI agent that stores its conversations itself.
///
/// This trait does not prevent two processes from resuming the same conversation at once: the caller
/// holds a lease, and asks for [`holders`](Self::holders) before it resumes (the CLI agents themselves
/// do not always check).
pub trait CliAgent: Send + Sync {
    fn kind(&self) -> CliAgentKind;

    /// Whether the CLI agent starts a conversation under the given id, rather than under an id of its
    /// own.
    fn accepts_id(&self) -> bool;

    /// Whether the CLI agent has a system prompt, which every call sets anew. For others it precedes
    /// the first message of a conversation.
    fn has_system_prompt(&self) -> bool;

    /// Sends the request and returns the answer when the CLI agent and every process that it started
    /// have ended. The driver reports the conversation's id before any of its messages; an id other than
    /// the requested one is an error, and everything after it is ignored. Dropping the future kills the
    /// CLI agent and every process that it started.
    fn ask<'a>(
        &'a self,
        request: Request<'a>,
        way: ConversationMode<'a>,
        listener: &'a dyn Listener,
    ) -> Boxed<'a, Result<Answer, Error>>;

    /// The state of the transcript of a conversation that is to be resumed in `folder`; `None` if there
    /// is none. An error says nothing about the transcript: it could not be examined.
    fn transcript_state<'a>(
        &'a self,
        id: &'a str,
        folder: &'a Path,
        examination: Examination,
    ) -> Boxed<'a, Result<Option<TranscriptState>, Error>>;

    /// The living processes, other than this one, that have a conversation open. `earlier` is the
    /// folder in which the CLI agent kept its transcripts before, if that is known. Starts no program.
    /// It may miss processes of other users and of other containers.
    fn holders<'a>(&'a self, id: &'a str, earlier: Option<&'a Path>) -> Boxed<'a, Vec<Holder>>;

    /// Whether the CLI agent finds a transcript by its id after the folder of its transcripts was
    /// renamed, rather than only where it was.
    fn finds_moved_transcripts(&self) -> bool;

    /// The folder in which the CLI agent keeps its transcripts, where Segno knows it.
    fn home(&self) -> Option<&Path>;

    /// Access to its transcripts; `None` if only the CLI agent can read and write them.
    fn transcript_files(&self) -> Option<&dyn TranscriptFiles>;
}

/// Operations on transcripts whose format is known.
pub trait TranscriptFiles: Send + Sync {
    /// Repairs a damaged transcript: drops what cannot be parsed, and stores the original beside it.
    /// Returns a description of the repair.
    fn repair<'a>(&'a self, id: &'a str) -> Boxed<'a, Result<String, Error>>;

    /// The bytes of a transcript, to be stored. Files beside it that exceed the limits are excluded.
    fn copy<'a>(&'a self, id: &'a str) -> Boxed<'a, Result<TranscriptCopy, Error>>;

    /// The bytes of a transcript that is not in the CLI agent's folder, and the folder that has it:
    /// `earlier`, in which the CLI agent kept its transcripts before, or that folder below the user's
    /// present home, if the home was renamed. `None` if no such folder has it.
    fn copy_from_elsewhere<'a>(
        &'a self,
        earlier: &'a Path,
        id: &'a str,
    ) -> Boxed<'a, Result<Option<(PathBuf, TranscriptCopy)>, Error>>;

    /// The contents of items that the CLI agent reported in its stream, one for each item, in the form
    /// in which a transcript has them ([`KnownItems::Contents`]); `None` for items that cannot be
    /// compared.
    fn contents(&self, items: &[ConversationItem]) -> Vec<Option<Content>>;

    /// The state of a stored copy.
    fn inspect_copy<'a>(&'a self, kept: &'a [u8]) -> Boxed<'a, Result<TranscriptState, Error>>;

    /// Writes a stored copy to the CLI agent's own location, as a transcript of `folder` with the id
    /// `id`, whatever its id was before. If the transcript already exists, it stays unchanged and the
    /// call fails; files beside it that already exist stay unchanged, too, without an error.
    fn install<'a>(
        &'a self,
        id: &'a str,
        kept: &'a TranscriptCopy,
        folder: &'a Path,
    ) -> Boxed<'a, Result<(), Error>>;

    /// Writes a transcript of a conversation that happened elsewhere, for `folder` and under an unused
    /// id, so that the CLI agent can resume from it. Returns what is missing in it, as text.
    fn write_transcript<'a>(
        &'a self,
        id: &'a str,
        entries: &'a [ConversationItem],
        folder: &'a Path,
    ) -> Boxed<'a, Result<Vec<String>, Error>>;
}
