//! Checkpoints as folders, for transfer to another machine: writes them, and reads them with
//! everything verified before it is used.
//!
//! `docs/formats/checkpoint-folder.md` describes the layout. The files for humans and other
//! programs are derived. An import uses the archive of the files, the session as `sessions export`
//! writes it, and the checkpoint's manifest.

mod conversation;
mod draft;
mod error;
mod export;
mod foreign;
mod import;
mod import_session;
mod incoming;
mod manifest_json;
mod session_state;

pub use error::Error;
pub use export::{Exported, export};
pub use import::{CheckpointOutcome, Imported, Request, SessionOutcome, import};
pub use import_session::{ImportedSession, SessionImport, import_session};

/// The newest layout version that this program knows.
const VERSION: u32 = 2;

/// The names of the files in the folder.
pub mod names {
    use segno_core::checkpoint::attachments;

    /// Describes the folder, and has the digests of all other files.
    pub const MANIFEST: &str = "manifest.json";
    /// The messages of the session.
    pub const CONVERSATION: &str = "conversation.json";
    pub const STATE: &str = "session_state.json";
    /// Environment variables that are not secret.
    pub const ENVIRONMENT: &str = "environment.json";
    pub const WORKSPACE: &str = "workspace.tar.zst";
    /// The journal up to the checkpoint.
    pub const SESSION: &str = "session.jsonl";
    pub const TERMINAL: &str = "tmux_state.txt";
    /// The folder with the state of MCP servers.
    pub const MCP: &str = "mcp_state";
    /// The folder with the transcripts of CLI agents.
    pub const CONVERSATIONS: &str = "conversations";

    /// Whether a file name in [`MCP`] is valid.
    pub(super) fn is_server(name: &str) -> bool {
        let is_plain = |name: &str| !name.starts_with('.') && !name.contains(['/', '\0']);
        name.strip_suffix(".json").is_some_and(is_plain)
    }

    /// The attachment name of a transcript file, if it is one.
    pub(super) fn conversation(name: &str) -> Option<String> {
        let rest = name.strip_prefix(CONVERSATIONS)?;
        let paper = format!("{}{rest}", attachments::AGENTS);
        attachments::piece(&paper).is_some().then_some(paper)
    }

    /// The file name of a transcript attachment.
    pub(super) fn of_conversation(paper: &str) -> Option<String> {
        attachments::piece(paper)?;
        let rest = paper.strip_prefix(attachments::AGENTS)?;
        Some(format!("{CONVERSATIONS}{rest}"))
    }
}

/// The error for a folder that is not a valid checkpoint.
fn refuse(place: &std::path::Path, reason: impl Into<String>) -> Error {
    Error::InvalidFolder {
        place: place.to_owned(),
        reason: reason.into(),
    }
}
