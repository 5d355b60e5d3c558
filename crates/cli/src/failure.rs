//! Errors as users see them, and the exit code of each.

use segno_core::error::{Diagnose, Kind};
use segno_core::session::Status;
use segno_secrets::redact::Redactor;
use segno_sessions::chat;
use serde_json::json;

use crate::output::{json_line, stderr_line, text};

/// An error that is reported to the user.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    causes: Vec<String>,
    hint: Option<String>,
    code: &'static str,
    pub(crate) exit: u8,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} [{}]", text::sanitize(&self.message), self.code)
    }
}

impl Failure {
    fn from_diagnose(error: &dyn Diagnose, exit: u8) -> Self {
        let mut causes = Vec::new();
        let mut source = error.source();
        while let Some(cause) = source {
            causes.push(cause.to_string());
            source = cause.source();
        }
        Self {
            message: error.to_string(),
            causes,
            hint: error.hint(),
            code: error.code(),
            exit,
        }
    }

    /// A usage error: the command was called wrongly.
    pub(crate) fn usage(message: impl Into<String>, hint: Option<String>) -> Self {
        Self {
            message: message.into(),
            causes: Vec::new(),
            hint,
            code: "C0103",
            exit: 2,
        }
    }

    /// An internal error of this program or the machine.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            causes: Vec::new(),
            hint: None,
            code: "C0104",
            exit: 70,
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
            exit: 12,
        }
    }

    /// A file for the user could not be written.
    pub(crate) fn file_write(message: impl Into<String>, hint: Option<String>) -> Self {
        Self {
            message: message.into(),
            causes: Vec::new(),
            hint,
            code: "F0205",
            exit: 12,
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
            exit: 23,
        }
    }

    /// Renders the error as one redacted text, for readers other than a terminal (MCP clients).
    pub(crate) fn to_text(&self, redactor: &Redactor) -> String {
        let hint = self.hint.as_deref().map(|hint| format!("; {hint}"));
        let text = format!(
            "{} [{}]{}",
            self.message,
            self.code,
            hint.unwrap_or_default()
        );
        text::sanitize_lines(&redactor.redact(&text))
    }

    /// Prints the error: a few lines on stderr, and with `json` also one JSON line on stdout.
    pub(crate) fn report(&self, json: bool, redactor: &Redactor) {
        let clean = |text: &str| text::sanitize_lines(&redactor.redact(text));
        if json {
            let line = json!({
                "v": 1, "kind": "error", "code": self.code, "exit": self.exit,
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

impl From<segno_engine::Error> for Failure {
    fn from(error: segno_engine::Error) -> Self {
        use segno_engine::Error as E;
        let exit = match &error {
            E::Store(error) => return Self::from(error.clone()),
            E::Chat(error) => return Self::from(error),
            E::Spec { .. } if error.code() == "W0102" => 18,
            E::Spec { .. } | E::Variables { .. } | E::InvalidPlan { .. } => 3,
            E::Worktree(error) => match error.kind() {
                Kind::Invalid => 2,
                Kind::Conflict => 17,
                _ => 12,
            },
            E::NoSuchSession { .. }
            | E::Ambiguous { .. }
            | E::NothingToResume { .. }
            | E::NoSessionInFolder { .. }
            | E::NoRunningSession { .. }
            | E::NotRunning { .. }
            | E::SessionEnded { .. }
            | E::DeleteWhileRunning { .. }
            | E::InTrash { .. }
            | E::NotInTrash { .. }
            | E::SessionExists { .. }
            | E::NoSuchStep { .. }
            | E::NoSuchCheckpoint { .. }
            | E::NotInRemote { .. }
            | E::AmbiguousCheckpoint { .. }
            | E::RestoreWhileRunning { .. }
            | E::CheckpointOfOtherSession { .. }
            | E::FolderTaken { .. }
            | E::InvalidJournal { .. }
            | E::InvalidStoredSpec { .. } => 17,
            E::InvalidSessionFile { .. } | E::InvalidCheckpointFolder { .. } => 23,
            E::Snapshot(error) => match error.kind() {
                Kind::NotFound | Kind::Conflict => 17,
                Kind::Damaged => 23,
                Kind::Internal => 70,
                _ => 12,
            },
            E::Remote(error) => match error.kind() {
                Kind::NotFound => 17,
                Kind::Damaged => 23,
                Kind::Invalid => 2,
                Kind::Internal => 70,
                _ => 12,
            },
            E::LeaseHeld { .. } => 21,
            E::Stopped {
                status: Status::Paused,
                ..
            } => 130,
            E::Stopped {
                status: Status::Interrupted,
                ..
            } => 143,
            E::Template { .. }
            | E::Step { .. }
            | E::ConcurrentStepFailed
            | E::UnusableAnswer { .. }
            | E::InvalidInput { .. }
            | E::BelowScore { .. }
            | E::TooManyVisits { .. }
            | E::AnswerTimeout { .. }
            | E::Stopped { .. } => 10,
            E::UntrustedTarget { .. }
            | E::InvalidAnswer { .. }
            | E::NoOpenQuestion { .. }
            | E::AmbiguousQuestion { .. }
            | E::NoRemote
            | E::NoKey { .. }
            | E::NoSecret { .. }
            | E::McpServerFailed { .. }
            | E::ServiceBlocked { .. }
            | E::ClientUnavailable { .. }
            | E::NoSuchAgent { .. }
            | E::OptionWithoutEffect { .. }
            | E::NoSuchNote { .. }
            | E::NoteNotEditable { .. }
            | E::InvalidNote { .. }
            | E::ResumeContextTooLong { .. }
            | E::InvalidFolder { .. }
            | E::WorkspaceMissing { .. } => 2,
            E::UnknownOutcome { .. } | E::WaitingForHuman { .. } => 19,
            E::NoPrice { .. } => 18,
            E::Budget { .. } | E::ContextFull { .. } | E::Suspended { .. } => 20,
            E::SpecChanged { .. } | E::WorkspaceDrifted { .. } => 22,
            E::DiskFull { .. }
            | E::Unreadable { .. }
            | E::ArtifactExists { .. }
            | E::ExportFailed { .. }
            | E::WriteFailed { .. }
            | E::Artifact { .. } => 12,
        };
        Self::from_diagnose(&error, exit)
    }
}

impl From<&chat::Error> for Failure {
    fn from(error: &chat::Error) -> Self {
        let exit = match error {
            chat::Error::NotAChat { .. } | chat::Error::NoChatHere { .. } => 17,
            _ => 2,
        };
        Self::from_diagnose(error, exit)
    }
}

impl From<segno_core::store::Error> for Failure {
    fn from(error: segno_core::store::Error) -> Self {
        let exit = match error.kind() {
            Kind::NotFound | Kind::Damaged => 17,
            Kind::Conflict if matches!(error.code(), "S0102" | "S0113") => 17,
            Kind::Conflict | Kind::Fenced => 21,
            Kind::Internal => 70,
            Kind::Unavailable | Kind::Invalid | Kind::Forbidden => 12,
        };
        Self::from_diagnose(&error, exit)
    }
}

impl From<crate::config::Error> for Failure {
    fn from(error: crate::config::Error) -> Self {
        Self::from_diagnose(&error, 2)
    }
}

impl From<segno_integrations::hooks::Error> for Failure {
    fn from(error: segno_integrations::hooks::Error) -> Self {
        let exit = match error.kind() {
            Kind::Invalid => 2,
            _ => 12,
        };
        Self::from_diagnose(&error, exit)
    }
}

impl From<segno_integrations::watch::LockError> for Failure {
    fn from(error: segno_integrations::watch::LockError) -> Self {
        Self::from_diagnose(&error, 21)
    }
}
