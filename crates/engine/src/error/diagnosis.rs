//! Maps each error to its kind, which decides the exit code, and to the code of its documentation
//! page.

use segno_core::agent::ErrorKind;
use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::session::Status;

use super::{Error, hint};

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        Diagnosis {
            kind: self.kind_of(),
            code: self.code_of(),
            hint: hint::hint_for(self),
        }
    }
}

impl Error {
    fn kind_of(&self) -> Kind {
        match self {
            Error::Store(error) => error.kind(),
            Error::Snapshot(error) => error.kind(),
            Error::Worktree(error) => error.kind(),
            Error::Remote(error) => error.kind(),
            Error::Chat(error) => error.kind(),
            Error::Spec { problems, .. } => problems.kind(),
            Error::Variables { problems, .. } => problems.kind(),
            Error::Template { error, .. } => error.kind(),
            Error::InvalidPlan { .. } => Kind::InvalidSpec,
            Error::NoPrice { .. } => Kind::Unsupported,
            Error::NoSuchSession { .. }
            | Error::NoSuchCheckpoint { .. }
            | Error::NotInRemote { .. }
            | Error::NothingToResume { .. }
            | Error::NoSessionInFolder { .. }
            | Error::NoRunningSession { .. }
            | Error::InTrash { .. }
            | Error::NotInTrash { .. }
            | Error::NoSuchStep { .. } => Kind::NotFound,
            Error::Ambiguous { .. }
            | Error::AmbiguousCheckpoint { .. }
            | Error::CheckpointOfOtherSession { .. }
            | Error::NotRunning { .. }
            | Error::SessionExists { .. }
            | Error::SessionEnded { .. }
            | Error::DeleteWhileRunning { .. }
            | Error::RestoreWhileRunning { .. }
            | Error::FolderTaken { .. } => Kind::Conflict,
            Error::LeaseHeld { .. } => Kind::Locked,
            Error::UntrustedTarget { .. }
            | Error::NoRemote
            | Error::InvalidAnswer { .. }
            | Error::NoSuchAgent { .. }
            | Error::OptionWithoutEffect { .. }
            | Error::NoSuchNote { .. }
            | Error::NoOpenQuestion { .. }
            | Error::InvalidNote { .. }
            | Error::ResumeContextTooLong { .. }
            | Error::InvalidFolder { .. }
            | Error::WorkspaceMissing { .. }
            | Error::NoKey { .. }
            | Error::NoSecret { .. }
            | Error::NoteNotEditable { .. }
            | Error::ServiceBlocked { .. }
            | Error::ClientUnavailable { .. }
            | Error::McpServerFailed { .. }
            | Error::AmbiguousQuestion { .. } => Kind::Invalid,
            Error::Stopped {
                status: Status::Paused,
                ..
            } => Kind::Paused,
            Error::Stopped {
                status: Status::Interrupted,
                ..
            } => Kind::Interrupted,
            Error::Step { .. }
            | Error::ConcurrentStepFailed
            | Error::UnusableAnswer { .. }
            | Error::InvalidInput { .. }
            | Error::BelowScore { .. }
            | Error::TooManyVisits { .. }
            | Error::AnswerTimeout { .. }
            | Error::Stopped { .. } => Kind::RunFailed,
            Error::UnknownOutcome { .. } | Error::WaitingForHuman { .. } => Kind::NeedsUser,
            Error::Budget { .. } | Error::ContextFull { .. } | Error::Suspended { .. } => {
                Kind::LimitReached
            }
            Error::SpecChanged { .. } | Error::WorkspaceDrifted { .. } => Kind::Changed,
            Error::ExportFailed { .. } | Error::ArtifactExists { .. } => Kind::Unusable,
            Error::DiskFull { .. }
            | Error::Unreadable { .. }
            | Error::WriteFailed { .. }
            | Error::Artifact { .. } => Kind::Unavailable,
            Error::InvalidSessionFile { .. } | Error::InvalidCheckpointFolder { .. } => {
                Kind::FailedVerification
            }
            Error::InvalidJournal { .. } | Error::InvalidStoredSpec { .. } => Kind::Damaged,
        }
    }

    fn code_of(&self) -> &'static str {
        match self {
            Error::Store(error) => error.code(),
            Error::Snapshot(error) => error.code(),
            Error::Worktree(error) => error.code(),
            Error::InvalidPlan { .. } => "R0136",
            Error::Remote(error) => error.code(),
            Error::Chat(error) => error.code(),
            Error::NoRemote => "K0309",
            Error::NotInRemote { .. } => "K0310",
            Error::NoSuchCheckpoint { .. } => "K0201",
            Error::AmbiguousCheckpoint { .. } => "K0202",
            Error::RestoreWhileRunning { .. } => "K0203",
            Error::UntrustedTarget { .. } => "K0205",
            Error::Spec { problems, .. } => problems.code(),
            Error::Variables { problems, .. } => problems.code(),
            Error::Template { error, .. } => error.code(),
            Error::NoSuchSession { .. } => "S0101",
            Error::Ambiguous { .. } => "S0105",
            Error::NothingToResume { .. } => "S0106",
            Error::NoSessionInFolder { .. } => "S0110",
            Error::NoRunningSession { .. } => "S0115",
            Error::NotRunning { .. } => "S0116",
            Error::LeaseHeld { .. } => "S0107",
            Error::SessionEnded { .. } => "S0108",
            Error::DeleteWhileRunning { .. } => "S0109",
            Error::InTrash { .. } => "S0111",
            Error::SessionExists { .. } => "S0113",
            Error::NoSuchStep { .. } => "S0114",
            Error::InvalidCheckpointFolder { .. } => "K0404",
            Error::InvalidSessionFile { .. } => "F0204",
            Error::ExportFailed { .. } | Error::WriteFailed { .. } => "F0205",
            Error::NotInTrash { .. } => "S0112",
            Error::NoKey { .. } => "A0101",
            Error::ClientUnavailable { .. } => "A0102",
            Error::NoSecret { .. } => "A0103",
            Error::McpServerFailed { .. } => "A0104",
            Error::NoPrice { .. } => "A0105",
            Error::ServiceBlocked { .. } => "A0106",
            Error::Step { error, .. } if error.kind == ErrorKind::NoProgram => "A0107",
            Error::Step { .. } | Error::ConcurrentStepFailed => "R0101",
            Error::Stopped { .. } => "R0102",
            Error::UnknownOutcome { .. } => "R0103",
            Error::SpecChanged { .. } => "R0104",
            Error::UnusableAnswer { .. } => "R0105",
            Error::InvalidInput { .. } => "R0113",
            Error::WorkspaceDrifted { .. } => "R0114",
            Error::ContextFull { .. } => "R0116",
            Error::Suspended { .. } => "R0123",
            Error::NoSuchAgent { .. } => "R0115",
            Error::OptionWithoutEffect { .. } => "R0127",
            Error::NoSuchNote { .. } => "R0150",
            Error::NoteNotEditable { .. } => "R0151",
            Error::InvalidNote { .. } => "R0152",
            Error::ResumeContextTooLong { .. } => "R0157",
            Error::CheckpointOfOtherSession { .. } => "R0120",
            Error::FolderTaken { .. } => "R0121",
            Error::InvalidFolder { .. } => "R0117",
            Error::WorkspaceMissing { .. } => "R0118",
            Error::BelowScore { .. } => "R0106",
            Error::TooManyVisits { .. } => "R0107",
            Error::WaitingForHuman { .. } => "R0108",
            Error::AnswerTimeout { .. } => "R0109",
            Error::InvalidAnswer { .. } => "R0110",
            Error::NoOpenQuestion { .. } | Error::AmbiguousQuestion { .. } => "R0111",
            Error::Budget { .. } => "R0112",
            Error::DiskFull { .. } => "F0101",
            Error::Unreadable { .. } => "F0201",
            Error::ArtifactExists { .. } => "F0202",
            Error::Artifact { .. } => "F0203",
            Error::InvalidJournal { .. } | Error::InvalidStoredSpec { .. } => "J0104",
        }
    }
}
