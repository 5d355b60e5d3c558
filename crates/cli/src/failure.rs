//! Errors as users see them, and the exit code of each.

use std::io;
use std::path::Path;

use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_secrets::redact::Redactor;
use serde_json::json;

use crate::output::{json_line, stderr_line, text};

/// An error that is reported to the user.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) message: String,
    causes: Vec<String>,
    hint: Option<String>,
    code: &'static str,
    kind: Kind,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} [{}]", text::sanitize(&self.message), self.code)
    }
}

impl Failure {
    /// A usage error: the command was called wrongly.
    pub(crate) fn usage(message: impl Into<String>, hint: Option<String>) -> Self {
        Self {
            message: message.into(),
            causes: Vec::new(),
            hint,
            code: "C0103",
            kind: Kind::Invalid,
        }
    }

    /// An internal error of this program or the machine.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            causes: Vec::new(),
            hint: None,
            code: "C0104",
            kind: Kind::Internal,
        }
    }

    /// Output could not be written to stdout.
    pub(crate) fn stdout_write(message: &str) -> Self {
        let message = format!("the output cannot be written: {message}");
        Self {
            message,
            causes: Vec::new(),
            hint: None,
            code: "C0105",
            kind: Kind::Unavailable,
        }
    }

    /// The server cannot listen on an address.
    pub(crate) fn listen(message: String, hint: &str) -> Self {
        Self {
            message,
            causes: Vec::new(),
            hint: Some(hint.to_owned()),
            code: "N0110",
            kind: Kind::Unavailable,
        }
    }

    /// A file of the user could not be read.
    pub(crate) fn unreadable(file: &Path, error: &io::Error) -> Self {
        Self {
            message: format!("{} cannot be read: {error}", file.display()),
            causes: Vec::new(),
            hint: None,
            code: "F0201",
            kind: Kind::Unavailable,
        }
    }

    /// A file for the user could not be written.
    pub(crate) fn file_write(message: impl Into<String>, hint: Option<String>) -> Self {
        Self {
            message: message.into(),
            causes: Vec::new(),
            hint,
            code: "F0205",
            kind: Kind::Unavailable,
        }
    }

    /// A run elsewhere did not complete.
    pub(crate) fn of_run(
        message: impl Into<String>,
        kind: Kind,
        code: &'static str,
        hint: Option<String>,
    ) -> Self {
        Self {
            message: message.into(),
            causes: Vec::new(),
            hint,
            code,
            kind,
        }
    }

    /// Prefixes the message with what succeeded before the error.
    pub(crate) fn with_prefix(self, before: &str) -> Self {
        let message = format!("{before}: {}", self.message);
        Self { message, ..self }
    }

    /// Removes the hint, where it does not apply.
    pub(crate) fn without_hint(self) -> Self {
        Self { hint: None, ..self }
    }

    /// Verification found damage.
    pub(crate) fn verification(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            causes: Vec::new(),
            hint: None,
            code: "J0105",
            kind: Kind::FailedVerification,
        }
    }

    /// What a receiver other than the user can know about the error.
    pub(crate) fn diagnosis(&self) -> Diagnosis {
        Diagnosis {
            kind: self.kind,
            code: self.code,
            hint: self.hint.clone(),
        }
    }

    /// The exit code of the process that fails with this error.
    pub(crate) const fn exit(&self) -> u8 {
        exit_code(self.kind)
    }

    /// Prints the error: a few lines on stderr, and with `json` also one JSON line on stdout.
    pub(crate) fn report(&self, json: bool, redactor: &Redactor) {
        let clean = |text: &str| text::sanitize_lines(&redactor.redact(text));
        if json {
            let line = json!({
                "v": 1, "kind": "error", "code": self.code, "exit": self.exit(),
                "message": clean(&self.message),
                "causes": self.causes.iter().map(|cause| clean(cause)).collect::<Vec<_>>(),
                "hint": self.hint.as_deref().map(clean),
            });
            json_line(&line);
        }
        // A stop that someone requested is not called an error.
        let word = match self.code {
            "R0102" | "R0112" => "stopped",
            "R0123" => "suspended",
            "R0108" => "waiting",
            _ => "error",
        };
        let message = clean(&self.message);
        let (first, rest) = message.split_once('\n').unwrap_or((&message, ""));
        stderr_line(&format!("{word}: {first} [{}]", self.code));
        rest.lines()
            .for_each(|line| stderr_line(&format!("  {line}")));
        for cause in &self.causes {
            stderr_line(&format!(
                "  cause: {}",
                clean(cause).replace('\n', "\n         ")
            ));
        }
        if let Some(hint) = &self.hint {
            stderr_line(&format!("  hint: {}", clean(hint)));
        }
    }
}

impl<E: Diagnose + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut causes = Vec::new();
        let mut source = error.source();
        while let Some(cause) = source {
            causes.push(cause.to_string());
            source = cause.source();
        }
        let Diagnosis { kind, code, hint } = error.diagnosis();
        Self {
            message: error.to_string(),
            causes,
            hint,
            code,
            kind,
        }
    }
}

/// The exit code of a kind of error, as the README documents it.
const fn exit_code(kind: Kind) -> u8 {
    match kind {
        Kind::Invalid => 2,
        Kind::InvalidSpec => 3,
        Kind::RunFailed => 10,
        Kind::Unavailable | Kind::Unusable | Kind::Forbidden => 12,
        Kind::NotFound | Kind::Conflict | Kind::Damaged => 17,
        Kind::Unsupported => 18,
        Kind::NeedsUser => 19,
        Kind::LimitReached => 20,
        Kind::Locked | Kind::Fenced => 21,
        Kind::Changed => 22,
        Kind::FailedVerification => 23,
        Kind::Internal => 70,
        Kind::Paused => 130,
        Kind::Interrupted => 143,
    }
}
