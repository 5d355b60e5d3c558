//! The trait that every error type of Segno implements.
//!
//! Each library returns its own small enum. All of them implement [`Diagnose`], so that retry, exit code
//! and (later) HTTP status follow from the error's kind and no caller ever parses a message.

/// The class of an error. The set is small on purpose: the kind decides what a caller does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The named object does not exist.
    NotFound,
    /// Another process holds the object, or its state does not allow the operation.
    Conflict,
    /// A newer run was granted; this writer must stop permanently.
    Fenced,
    /// A retry may succeed: busy, disk full, unreachable.
    Unavailable,
    /// Stored data is not what was written.
    Damaged,
    /// The input cannot be used; repeating the call will not help.
    Invalid,
    Forbidden,
    /// A bug in Segno.
    Internal,
}

/// An error that a user can act on.
pub trait Diagnose: std::error::Error {
    fn kind(&self) -> Kind;

    /// The code under which `docs/errors/` explains it.
    fn code(&self) -> &'static str;

    /// A suggestion that the user can follow, preferably a command to type; `None` if there is none.
    fn hint(&self) -> Option<String> {
        None
    }
}
