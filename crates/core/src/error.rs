//! What every error of Segno says about itself.
//!
//! Each module returns its own small enum. All of them implement [`Diagnose`]: the [`Kind`] alone
//! decides retry, exit code and HTTP status, and no caller ever parses a message.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// The class of an error: what a caller does next. Every kind has one exit code; the command line
/// has the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The named object does not exist.
    NotFound,
    /// The object's state does not allow the operation, its name or folder is taken, or several
    /// objects match.
    Conflict,
    /// Another process holds the lease or the lock.
    Locked,
    /// A newer run was granted; this writer must stop permanently.
    Fenced,
    /// A retry may succeed: busy, disk full, unreachable.
    Unavailable,
    /// A file, folder or store cannot be used as it is; a retry does not help.
    Unusable,
    /// A session's stored data is not what was written.
    Damaged,
    /// A snapshot, an object of a remote or an imported file fails its verification.
    FailedVerification,
    /// The request, the settings or the environment cannot be used; repeating the call will not
    /// help.
    Invalid,
    /// The spec, its inputs or the plan are invalid.
    InvalidSpec,
    /// The spec asks for something that this version does not support.
    Unsupported,
    Forbidden,
    /// The run failed or was cancelled.
    RunFailed,
    /// A user must answer a question or make a decision.
    NeedsUser,
    /// A budget, an agent's context window or a provider's rate limit is used up.
    LimitReached,
    /// The spec or the workspace was changed, and the policy is to refuse.
    Changed,
    /// The run was paused on request; it can be resumed.
    Paused,
    /// The run was stopped by a signal; it can be resumed.
    Interrupted,
    /// A bug in Segno.
    Internal,
}

/// What a user can know about an error besides its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    pub kind: Kind,
    /// The code under which `docs/errors/` explains it.
    pub code: &'static str,
    /// A suggestion that the user can follow, preferably a command to type.
    pub hint: Option<String>,
}

impl Diagnosis {
    /// A diagnosis without a hint.
    pub const fn new(kind: Kind, code: &'static str) -> Self {
        Self {
            kind,
            code,
            hint: None,
        }
    }

    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }
}

/// A code that came from elsewhere, such as `S0107`; `None` if it is none. Each code is kept once, for
/// as long as the process lives.
pub fn known_code(text: &str) -> Option<&'static str> {
    static CODES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let is_code = text.len() == 5
        && text.starts_with(|first: char| first.is_ascii_uppercase())
        && text[1..].bytes().all(|byte| byte.is_ascii_digit());
    if !is_code {
        return None;
    }
    let mut codes = CODES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = codes.get(text) {
        return Some(known);
    }
    let kept: &'static str = Box::leak(text.to_owned().into_boxed_str());
    codes.insert(kept);
    Some(kept)
}

/// An error that a user can act on.
pub trait Diagnose: std::error::Error {
    /// The kind, the code and the hint. An error that wraps another one returns the other's.
    fn diagnosis(&self) -> Diagnosis;

    fn kind(&self) -> Kind {
        self.diagnosis().kind
    }

    fn code(&self) -> &'static str {
        self.diagnosis().code
    }

    fn hint(&self) -> Option<String> {
        self.diagnosis().hint
    }
}

/// The first eight items, separated by commas, and how many more there are.
pub fn join_shown(items: impl IntoIterator<Item = impl ToString>) -> String {
    let mut items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    let more = items.len().saturating_sub(8);
    items.truncate(8);
    let shown = items.join(", ");
    if more == 0 {
        shown
    } else {
        format!("{shown} and {more} more")
    }
}
