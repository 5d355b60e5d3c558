//! Errors of reading and changing the settings of CLI agents.

use std::path::PathBuf;

use segno_core::error::{Diagnose, Diagnosis, Kind};

use super::Agent;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{} has no place for hooks: neither {} nor HOME is an absolute path", .0.name(), .0.variable())]
    NoRoot(Agent),
    #[error("{} cannot be used: {reason}", .path.display())]
    Unusable { path: PathBuf, reason: String },
    #[error("{} was left as it is: {reason}", .path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error("the path of this program cannot be put into a hook: {0}")]
    Unnameable(String),
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::NoRoot(_) | Self::Unnameable(_) => Diagnosis::new(Kind::Invalid, "H0101"),
            Self::Unusable { .. } => Diagnosis::new(Kind::Forbidden, "H0101"),
            Self::Unreadable { .. } => {
                Diagnosis::new(Kind::Unusable, "H0102").hint("mend it first; it was left as it is")
            }
        }
    }
}
