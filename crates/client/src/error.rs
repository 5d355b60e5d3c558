//! Why a server did not do what it was asked.

use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::store;

use crate::problem::Problem;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No answer came. A request that changes something may have had its effect.
    #[error("{address} does not answer: {reason}")]
    Unreachable { address: String, reason: String },
    /// What answers is not a server of Segno, or not of a version that this program understands.
    #[error("{address} answers, but not as a server of this version of Segno does: {reason}")]
    NotUnderstood { address: String, reason: String },
    /// The certificate is not the one of the fingerprint, or nobody vouches for it.
    #[error("{address} is not trusted: {reason}")]
    NotTrusted {
        address: String,
        reason: String,
        /// SHA-256 of the certificate that the server has.
        fingerprint: Option<String>,
    },
    #[error("{address} would receive the token over a network without encryption")]
    NotEncrypted { address: String },
    /// What the request asks for cannot be asked of a server.
    #[error("a server cannot do that: {reason}")]
    OnlyHere { reason: String },
    /// The server refused.
    #[error(transparent)]
    Refused(Problem),
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Unreachable { .. } => Diagnosis::new(Kind::Unavailable, "N0140")
                .hint("`segno serve` must be running there; try again when it is"),
            Self::NotUnderstood { .. } => Diagnosis::new(Kind::Unusable, "N0141")
                .hint("use the same version of Segno on both sides"),
            Self::NotTrusted {
                address,
                fingerprint,
                ..
            } => {
                let diagnosis = Diagnosis::new(Kind::Forbidden, "N0142");
                match fingerprint {
                    Some(fingerprint) => diagnosis.hint(format!(
                        "if `segno serve` printed the fingerprint {fingerprint}: `segno login {address} --fingerprint {fingerprint}`"
                    )),
                    None => diagnosis,
                }
            }
            Self::NotEncrypted { .. } => Diagnosis::new(Kind::Forbidden, "N0143")
                .hint("use https (`segno serve --tls self-signed`), or a tunnel with ssh"),
            Self::OnlyHere { .. } => {
                Diagnosis::new(Kind::Invalid, "N0144").hint("run it on the machine of the server")
            }
            Self::Refused(problem) => problem.diagnosis(),
        }
    }
}

impl From<Error> for store::Error {
    fn from(error: Error) -> Self {
        let diagnosis = error.diagnosis();
        Self::Elsewhere {
            message: error.to_string(),
            diagnosis: Box::new(diagnosis),
        }
    }
}
