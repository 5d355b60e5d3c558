//! Damaged lines of a transcript: position and reason.

use std::fmt;

use serde::Serialize;

/// The position of a line in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Span {
    /// Counted from 1.
    pub line: u64,
    /// In bytes.
    pub offset: u64,
    /// In bytes, without the newline.
    pub length: u64,
}

/// A line that could not be read as expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Damage {
    pub at: Span,
    pub reason: Reason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The last line is incomplete.
    Torn,
    NotJson,
    /// It contains NUL bytes, as a power cut leaves them.
    Nul,
    NotUtf8,
    NotAnObject,
    /// It is nested too deep to be parsed.
    TooDeep,
    /// An object in it has the same key twice.
    DuplicateKey,
    /// It is too long to be parsed.
    TooLong,
    /// A record of a known type has an unexpected value in this field.
    Shape(&'static str),
    /// Its parent record is missing; it is read as following the record before it.
    LostParent,
    /// The last line is complete but has no newline, so that the next record would be glued to it.
    NoNewline,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    /// No program can read it.
    Broken,
    /// The agent may be able to read it, and it may contain anything.
    Opaque,
    /// It was read.
    Odd,
}

impl Damage {
    /// Whether the CLI agent loses something by this damage when it resumes: what it cannot read,
    /// what precedes a gap, or what it would append to an unfinished line.
    pub(crate) fn breaks_a_resume(&self) -> bool {
        self.reason.severity() == Severity::Broken
            || matches!(self.reason, Reason::LostParent | Reason::NoNewline)
    }

    /// Whether this damage may hide a record, here or before it.
    pub(crate) fn hides_something(&self) -> bool {
        self.reason.severity() == Severity::Broken || self.reason == Reason::LostParent
    }
}

impl Reason {
    pub(crate) fn severity(self) -> Severity {
        match self {
            Self::Torn | Self::NotJson | Self::Nul | Self::NotUtf8 | Self::NotAnObject => {
                Severity::Broken
            }
            Self::TooDeep | Self::DuplicateKey | Self::TooLong => Severity::Opaque,
            Self::Shape(_) | Self::LostParent | Self::NoNewline => Severity::Odd,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Torn => f.write_str("the last line is incomplete"),
            Self::NotJson => f.write_str("not JSON"),
            Self::Nul => f.write_str("contains NUL bytes"),
            Self::NotUtf8 => f.write_str("not UTF-8"),
            Self::NotAnObject => f.write_str("not a JSON object"),
            Self::TooDeep => f.write_str("nested too deeply"),
            Self::DuplicateKey => f.write_str("an object has a duplicate key"),
            Self::TooLong => f.write_str("too long to be parsed"),
            Self::Shape(field) => write!(f, "`{field}` has an unexpected value"),
            Self::LostParent => f.write_str("its parent record is missing"),
            Self::NoNewline => f.write_str("the last line has no newline"),
        }
    }
}

/// `line 7, byte 5120: not JSON`.
impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Span { line, offset, .. } = self.at;
        write!(f, "line {line}, byte {offset}: {}", self.reason)
    }
}
