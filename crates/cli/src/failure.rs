//! What goes wrong, as people see it, and the exit code it leads to.

use segno_core::error::{Diagnose, Kind};
use segno_core::redact::Redactor;
use segno_core::session::Status;
use serde_json::json;

use crate::output::{data, plain, say};

/// An error on its way to the person.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    causes: Vec<String>,
    hint: Option<String>,
    code: &'static str,
    pub(crate) exit: u8,
}

impl Failure {
    fn of(error: &dyn Diagnose, exit: u8) -> Self {
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

    /// A fault in how the command was called.
    pub(crate) fn usage(message: impl Into<String>, hint: Option<String>) -> Self {
        Self {
            message: message.into(),
            causes: Vec::new(),
            hint,
            code: "C0103",
            exit: 2,
        }
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

    /// Says it: in a few lines on stderr, and as one line of JSON where a program listens.
    pub(crate) fn report(&self, json: bool, redactor: &Redactor) {
        let clean = |text: &str| plain::lines(&redactor.redact(text));
        if json {
            let line = json!({
                "v": 1, "kind": "error", "code": self.code, "exit": self.exit,
                "message": clean(&self.message),
                "causes": self.causes.iter().map(|cause| clean(cause)).collect::<Vec<_>>(),
                "hint": self.hint,
            });
            data(&line.to_string());
        }
        say(&format!("error: {} [{}]", clean(&self.message), self.code));
        for cause in &self.causes {
            say(&format!(
                "  cause: {}",
                clean(cause).replace('\n', "\n         ")
            ));
        }
        if let Some(hint) = &self.hint {
            say(&format!("  hint: {}", clean(hint)));
        }
    }
}

impl From<segno_engine::Error> for Failure {
    fn from(error: segno_engine::Error) -> Self {
        use segno_engine::Error as E;
        let exit = match &error {
            E::Store(error) => return Self::from(error.clone()),
            E::Spec { .. } if error.code() == "W0102" => 18,
            E::Spec { .. } | E::Variables { .. } | E::Driver { .. } => 3,
            E::NoSuchSession { .. }
            | E::Ambiguous { .. }
            | E::NothingToResume { .. }
            | E::Over { .. }
            | E::InUse { .. }
            | E::Senseless { .. }
            | E::Pinned { .. } => 17,
            E::Held { .. } => 21,
            E::Stopped {
                status: Status::Paused,
                ..
            } => 130,
            E::Stopped {
                status: Status::Interrupted,
                ..
            } => 143,
            E::Template { .. } | E::Step { .. } | E::Stopped { .. } => 10,
            E::Unknown { .. } => 19,
            E::Changed { .. } => 22,
            E::NoRoom { .. }
            | E::Unreadable { .. }
            | E::ArtifactExists { .. }
            | E::Artifact { .. } => 12,
        };
        Self::of(&error, exit)
    }
}

impl From<segno_core::store::Error> for Failure {
    fn from(error: segno_core::store::Error) -> Self {
        let exit = match error.kind() {
            Kind::NotFound | Kind::Damaged => 17,
            Kind::Conflict | Kind::Fenced => 21,
            Kind::Internal => 70,
            Kind::Unavailable | Kind::Invalid | Kind::Forbidden => 12,
        };
        Self::of(&error, exit)
    }
}

impl From<crate::config::Error> for Failure {
    fn from(error: crate::config::Error) -> Self {
        Self::of(&error, 2)
    }
}
