//! A checkpoint as a folder that can be carried elsewhere: written, and read back with nothing
//! believed before it is verified.
//!
//! `docs/formats/checkpoint-folder.md` describes what is in it. What it has that can be read by
//! people and other programs is derived from what is kept; what counts when it is read back is the
//! archive of the files, the session as `sessions export` writes it, and the checkpoint's manifest.

mod arrival;
mod conversation;
mod cover;
mod draft;
mod export;
mod foreign;
mod import;
mod parcel;
mod portrait;

pub use arrival::{Arrival, Arrived, arrive};
pub use export::{Exported, export};
pub use import::{Fate, Imported, Request, Standing, import};

use crate::error::Error;

/// The newest layout that this program knows.
const VERSION: u32 = 2;

/// What the files of the folder are called.
pub mod names {
    use segno_core::checkpoint::papers;

    /// What the folder is about, and the digests of everything else in it.
    pub const MANIFEST: &str = "manifest.json";
    /// What was said.
    pub const CONVERSATION: &str = "conversation.json";
    /// Where the session stood.
    pub const STATE: &str = "session_state.json";
    /// Of the environment, what is no secret.
    pub const ENVIRONMENT: &str = "environment.json";
    /// The files of the workspace.
    pub const WORKSPACE: &str = "workspace.tar.zst";
    /// The session itself, up to the checkpoint.
    pub const SESSION: &str = "session.jsonl";
    /// What the terminal showed.
    pub const TERMINAL: &str = "tmux_state.txt";
    /// The folder with what MCP servers had.
    pub const MCP: &str = "mcp_state";
    /// The folder with the records that agents' programs keep of their conversations.
    pub const CONVERSATIONS: &str = "conversations";

    /// Whether a file in that folder can be what a server had.
    pub(super) fn is_server(name: &str) -> bool {
        let is_plain = |name: &str| !name.starts_with('.') && !name.contains(['/', '\0']);
        name.strip_suffix(".json").is_some_and(is_plain)
    }

    /// What a file of the folder is called among a checkpoint's papers, if it is of a conversation.
    pub(super) fn conversation(name: &str) -> Option<String> {
        let rest = name.strip_prefix(CONVERSATIONS)?;
        let paper = format!("{}{rest}", papers::AGENTS);
        papers::piece(&paper).is_some().then_some(paper)
    }

    /// What such a paper is called in the folder.
    pub(super) fn of_conversation(paper: &str) -> Option<String> {
        papers::piece(paper)?;
        let rest = paper.strip_prefix(papers::AGENTS)?;
        Some(format!("{CONVERSATIONS}{rest}"))
    }
}

/// Why a folder is not a checkpoint.
fn refuse(place: &std::path::Path, reason: impl Into<String>) -> Error {
    Error::Unpackable {
        place: place.to_owned(),
        reason: reason.into(),
    }
}
