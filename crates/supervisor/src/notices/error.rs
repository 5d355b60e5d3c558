//! Why notices cannot be sent.

use std::io;
use std::path::PathBuf;

use segno_core::error::{Diagnose, Diagnosis, Kind, join_shown};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no target of notices is set")]
    NoTargets,
    #[error("there is no target `{name}`; the targets are {}", join_shown(.known))]
    UnknownTarget { name: String, known: Vec<String> },
    #[error("the test notice did not reach {}", join_shown(.targets))]
    NotDelivered { targets: Vec<String> },
    #[error("{} cannot be used: {reason}", .path.display())]
    Outbox { path: PathBuf, reason: io::Error },
    #[error("the HTTP client cannot be created: {reason}")]
    Client { reason: String },
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::NoTargets => Diagnosis::new(Kind::Invalid, "N0130")
                .hint("add `[[notices]]` with `to = \"desktop\"` to config.toml"),
            Self::UnknownTarget { .. } => Diagnosis::new(Kind::NotFound, "N0131")
                .hint("`segno notice list` lists the targets"),
            Self::NotDelivered { .. } => Diagnosis::new(Kind::Unavailable, "N0132")
                .hint("correct the target in config.toml, then `segno notice test`"),
            Self::Outbox { .. } => Diagnosis::new(Kind::Unavailable, "N0133"),
            Self::Client { .. } => Diagnosis::new(Kind::Invalid, "A0102"),
        }
    }
}
