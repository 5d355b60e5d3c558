//! Why a message was refused, or its answer failed.

use std::path::{Path, PathBuf};

use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::id::Name;
use segno_core::session::Kind as SessionKind;
use segno_core::store::Error as StoreError;
use segno_engine::steps::PrepareError;
use segno_engine::workspace::NotUtf8;
use segno_engine::{history, lease};

use crate::next_run::{self, SessionEnded};
use crate::start::SpecError;

/// The longest message, in bytes.
pub const MAX_MESSAGE_BYTES: u64 = 1 << 20;

/// Why a message was refused, or its answer failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    History(#[from] history::Error),
    #[error(transparent)]
    Lease(#[from] lease::Error),
    #[error(transparent)]
    Ended(#[from] SessionEnded),
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    #[error(transparent)]
    NotUtf8(#[from] NotUtf8),
    #[error(transparent)]
    NextRun(#[from] next_run::Error),
    #[error(transparent)]
    Run(#[from] segno_engine::Error),
    /// No agent was named.
    #[error("no agent is set for the chat")]
    NoAgent,
    /// The named agent is unknown.
    #[error("unknown agent `{agent}`{}", among(.place.as_deref(), .known))]
    UnknownAgent {
        agent: String,
        /// The spec, if one names the agents.
        place: Option<PathBuf>,
        /// The agents of the spec.
        known: Vec<String>,
    },
    /// The spec has several agents, and none was named.
    #[error("{} has several agents: {}", .place.display(), .agents.join(", "))]
    AmbiguousAgent { place: PathBuf, agents: Vec<String> },
    #[error("the message is empty")]
    Empty,
    /// The next message of the chat was handed to a worker.
    #[error("session `{name}` has a message that waits for a worker")]
    MessageWaits { name: Name },
    #[error("the message has {bytes} bytes; the limit is {}", MAX_MESSAGE_BYTES)]
    TooLong { bytes: u64 },
    /// The session is no chat.
    #[error("session `{name}` is not a chat; its kind is {kind}")]
    NotAChat { name: Name, kind: SessionKind },
    /// There is no chat to resume.
    #[error("no chat in {} can be resumed", .workspace.display())]
    NoChatHere { workspace: PathBuf },
}

fn among(place: Option<&Path>, agents: &[String]) -> String {
    place.map_or(String::new(), |place| {
        format!(" in {}; it has {}", place.display(), agents.join(", "))
    })
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::History(error) => error.diagnosis(),
            Self::Lease(error) => error.diagnosis(),
            Self::Ended(error) => error.diagnosis(),
            Self::Spec(error) => error.diagnosis(),
            Self::Prepare(error) => error.diagnosis(),
            Self::NotUtf8(error) => error.diagnosis(),
            Self::NextRun(error) => error.diagnosis(),
            Self::Run(error) => error.diagnosis(),
            Self::NoAgent => Diagnosis::new(Kind::Invalid, "R0140").hint("use `--agent claude`, `--agent codex`, or `--spec FILE` with your own agents; set `agent` or `spec` in section `[chat]` of config.toml for a default"),
            Self::UnknownAgent { known, .. } if known.is_empty() => {
                Diagnosis::new(Kind::Invalid, "R0141").hint("`--agent claude` and `--agent codex` need no spec; define other agents in one and use `--spec FILE`")
            }
            Self::UnknownAgent { .. } | Self::AmbiguousAgent { .. } => {
                Diagnosis::new(Kind::Invalid, "R0141").hint("choose one with `--agent NAME`")
            }
            Self::Empty => Diagnosis::new(Kind::Invalid, "R0142")
                .hint("write a message: `segno chat \"...\"`"),
            Self::MessageWaits { name } => Diagnosis::new(Kind::Locked, "R0146").hint(format!(
                "`segno resume {name}` sends it now; `segno pause {name}` withdraws it"
            )),
            Self::TooLong { .. } => Diagnosis::new(Kind::Invalid, "R0143")
                .hint("put the text into a file in this folder, and refer to the file"),
            Self::NotAChat { name, .. } => Diagnosis::new(Kind::Conflict, "R0144")
                .hint(format!("`segno resume {name}` continues it")),
            Self::NoChatHere { .. } => Diagnosis::new(Kind::NotFound, "R0145").hint(
                "`segno sessions list --all` also lists the chats of other folders and expired ones",
            ),
        }
    }
}
