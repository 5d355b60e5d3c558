//! What the server needs of the process that it runs in.

use std::path::PathBuf;

use segno_core::error::{Diagnose, Diagnosis};
use segno_engine::Env;
use segno_secrets::redact::Redactor;

/// Opens what the server works with. The process that runs the server composes it from the
/// settings, the store and the drivers.
pub trait Opener {
    /// Opens the sessions of this process. Called when a request first needs the session, and again
    /// by the next request if that failed.
    fn open(&self) -> Result<Env, OpenError>;

    /// The folder whose newest session is served if none was named. Called after
    /// [`open`](Self::open), under the same conditions.
    fn folder(&self) -> Result<PathBuf, OpenError>;

    /// The environment variables of this process. Their values may be secrets (P12).
    fn variables(&self) -> Vec<(String, String)>;

    /// Removes secrets from errors, also before anything is open.
    fn redactor(&self) -> &Redactor;
}

/// Why something could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct OpenError {
    pub message: String,
    pub diagnosis: Diagnosis,
}

impl Diagnose for OpenError {
    fn diagnosis(&self) -> Diagnosis {
        self.diagnosis.clone()
    }
}
