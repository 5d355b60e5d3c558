//! What is wrong with a line, and where it is.

use std::fmt;

use serde::Serialize;

/// Where a line is in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Span {
    /// Its number, from 1.
    pub line: u64,
    /// Where it begins, in bytes.
    pub offset: u64,
    /// Its length in bytes, without its end.
    pub length: u64,
}

/// A line that could not be read as it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// Where.
    pub at: Span,
    /// Why.
    pub reason: Reason,
}

/// Why a line could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The last line ends in its middle.
    Torn,
    /// It is not JSON.
    NotJson,
    /// It holds bytes of zero, as a power cut leaves them.
    Nul,
    /// It is not UTF-8.
    NotUtf8,
    /// It is JSON, but not an object.
    NotAnObject,
    /// It is nested too deep to be looked into.
    TooDeep,
    /// An object in it says the same thing twice.
    DuplicateKey,
    /// It is too long to be looked into.
    TooLong,
    /// A record of a known type has something else in this field than it should.
    Shape(&'static str),
    /// It follows a record that is not there; it is read as following the one before it.
    LostParent,
    /// The last line is whole but has no end, so that the next record would be glued to it.
    NoNewline,
}

/// What can be done about a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    /// Nobody can read it.
    Broken,
    /// The agent may be able to read it, and it may say anything.
    Opaque,
    /// It was read.
    Odd,
}

impl Damage {
    /// Whether the agent's own program loses something by it when it goes on: what it cannot read, what
    /// stands before a gap, or what it would write onto the end of an open line.
    pub(crate) fn breaks_a_resume(&self) -> bool {
        self.reason.severity() == Severity::Broken
            || matches!(self.reason, Reason::LostParent | Reason::NoNewline)
    }

    /// Whether something may have stood there, or before it, that is not known now.
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
            Self::Torn => f.write_str("the last line ends in its middle"),
            Self::NotJson => f.write_str("not JSON"),
            Self::Nul => f.write_str("holds bytes of zero"),
            Self::NotUtf8 => f.write_str("not UTF-8"),
            Self::NotAnObject => f.write_str("not a JSON object"),
            Self::TooDeep => f.write_str("nested too deep"),
            Self::DuplicateKey => f.write_str("a key occurs twice in an object"),
            Self::TooLong => f.write_str("too long to be looked into"),
            Self::Shape(field) => write!(f, "`{field}` is not what it should be"),
            Self::LostParent => f.write_str("follows a record that is not there"),
            Self::NoNewline => f.write_str("the last line has no end"),
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
