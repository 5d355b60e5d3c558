//! Maps each error to its kind, which decides the exit code, and to the code of its documentation
//! page.

use segno_core::error::{Diagnose, Kind};

use super::{Error, hint};

impl Diagnose for Error {
    fn kind(&self) -> Kind {
        match self {
            Error::Store(error) => error.kind(),
            Error::Snapshot(error) => error.kind(),
            Error::Worktree(error) => error.kind(),
            Error::Depot(error) => error.kind(),
            Error::Chat(error) => error.kind(),
            Error::Spec { problems, .. } => problems.kind(),
            Error::Variables { problems, .. } => problems.kind(),
            Error::Template { error, .. } => error.kind(),
            Error::Step { error, .. } => error.kind.sort(),
            Error::NoSuchSession { .. }
            | Error::NoSuchCheckpoint { .. }
            | Error::NotStored { .. }
            | Error::NothingToResume { .. }
            | Error::NothingHere { .. }
            | Error::NothingRuns { .. }
            | Error::InTrash { .. }
            | Error::NotInTrash { .. }
            | Error::NoSuchStep { .. }
            | Error::NoSuchMemo { .. }
            | Error::NotAsked { .. } => Kind::NotFound,
            Error::Ambiguous { .. }
            | Error::BadPlan { .. }
            | Error::WhichCheckpoint { .. }
            | Error::FromElsewhere { .. }
            | Error::NoStorage
            | Error::Unexportable { .. }
            | Error::Unusable { .. }
            | Error::WrongInput { .. }
            | Error::BelowScore { .. }
            | Error::Loop { .. }
            | Error::NoPrice { .. }
            | Error::NotAnAnswer { .. }
            | Error::NoStandIn { .. }
            | Error::NothingBegun { .. }
            | Error::UnusableMemo { .. }
            | Error::LongBrief { .. }
            | Error::NotItsCheckpoint { .. }
            | Error::NoFolder { .. }
            | Error::FolderGone { .. }
            | Error::WhichQuestion { .. } => Kind::Invalid,
            Error::Held { .. }
            | Error::NotRunning { .. }
            | Error::Exists { .. }
            | Error::Over { .. }
            | Error::InUse { .. }
            | Error::Busy { .. }
            | Error::Beside
            | Error::Stopped { .. }
            | Error::Unknown { .. }
            | Error::Changed { .. }
            | Error::Drifted { .. }
            | Error::FolderTaken { .. }
            | Error::ArtifactExists { .. } => Kind::Conflict,
            Error::NoKey { .. }
            | Error::NoSecret { .. }
            | Error::NotYourMemo { .. }
            | Error::OutOfReach { .. } => Kind::Forbidden,
            Error::NoRoom { .. }
            | Error::NoClient { .. }
            | Error::NoServer { .. }
            | Error::Unreadable { .. }
            | Error::Unwritten { .. }
            | Error::Artifact { .. }
            | Error::Waiting { .. }
            | Error::Unanswered { .. }
            | Error::Budget { .. }
            | Error::ContextFull { .. }
            | Error::Suspended { .. } => Kind::Unavailable,
            Error::Unimportable { .. }
            | Error::Unpackable { .. }
            | Error::Senseless { .. }
            | Error::Pinned { .. } => Kind::Damaged,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Error::Store(error) => error.code(),
            Error::Snapshot(error) => error.code(),
            Error::Worktree(error) => error.code(),
            Error::BadPlan { .. } => "R0136",
            Error::Depot(error) => error.code(),
            Error::Chat(error) => error.code(),
            Error::NoStorage => "K0309",
            Error::NotStored { .. } => "K0310",
            Error::NoSuchCheckpoint { .. } => "K0201",
            Error::WhichCheckpoint { .. } => "K0202",
            Error::Busy { .. } => "K0203",
            Error::FromElsewhere { .. } => "K0205",
            Error::Spec { problems, .. } => problems.code(),
            Error::Variables { problems, .. } => problems.code(),
            Error::Template { error, .. } => error.code(),
            Error::NoSuchSession { .. } => "S0101",
            Error::Ambiguous { .. } => "S0105",
            Error::NothingToResume { .. } => "S0106",
            Error::NothingHere { .. } => "S0110",
            Error::NothingRuns { .. } => "S0115",
            Error::NotRunning { .. } => "S0116",
            Error::Held { .. } => "S0107",
            Error::Over { .. } => "S0108",
            Error::InUse { .. } => "S0109",
            Error::InTrash { .. } => "S0111",
            Error::Exists { .. } => "S0113",
            Error::NoSuchStep { .. } => "S0114",
            Error::Unpackable { .. } => "K0404",
            Error::Unimportable { .. } => "F0204",
            Error::Unexportable { .. } | Error::Unwritten { .. } => "F0205",
            Error::NotInTrash { .. } => "S0112",
            Error::NoKey { .. } => "A0101",
            Error::NoClient { .. } => "A0102",
            Error::NoSecret { .. } => "A0103",
            Error::NoServer { .. } => "A0104",
            Error::NoPrice { .. } => "A0105",
            Error::OutOfReach { .. } => "A0106",
            Error::Step { .. } | Error::Beside => "R0101",
            Error::Stopped { .. } => "R0102",
            Error::Unknown { .. } => "R0103",
            Error::Changed { .. } => "R0104",
            Error::Unusable { .. } => "R0105",
            Error::WrongInput { .. } => "R0113",
            Error::Drifted { .. } => "R0114",
            Error::ContextFull { .. } => "R0116",
            Error::Suspended { .. } => "R0123",
            Error::NoStandIn { .. } => "R0115",
            Error::NothingBegun { .. } => "R0127",
            Error::NoSuchMemo { .. } => "R0150",
            Error::NotYourMemo { .. } => "R0151",
            Error::UnusableMemo { .. } => "R0152",
            Error::LongBrief { .. } => "R0157",
            Error::NotItsCheckpoint { .. } => "R0120",
            Error::FolderTaken { .. } => "R0121",
            Error::NoFolder { .. } => "R0117",
            Error::FolderGone { .. } => "R0118",
            Error::BelowScore { .. } => "R0106",
            Error::Loop { .. } => "R0107",
            Error::Waiting { .. } => "R0108",
            Error::Unanswered { .. } => "R0109",
            Error::NotAnAnswer { .. } => "R0110",
            Error::NotAsked { .. } | Error::WhichQuestion { .. } => "R0111",
            Error::Budget { .. } => "R0112",
            Error::NoRoom { .. } => "F0101",
            Error::Unreadable { .. } => "F0201",
            Error::ArtifactExists { .. } => "F0202",
            Error::Artifact { .. } => "F0203",
            Error::Senseless { .. } | Error::Pinned { .. } => "J0104",
        }
    }

    fn hint(&self) -> Option<String> {
        hint::hint_for(self)
    }
}
