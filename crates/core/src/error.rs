//! What every error can say about itself.
//!
//! Libraries return small enums of their own. Each of them answers the same three questions, so
//! that retry, exit code and (later) HTTP status follow from the answer and nothing ever parses a
//! message.

/// What sort of trouble it is. Few on purpose: the kind decides what a caller does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The named thing does not exist.
    NotFound,
    /// Someone else holds it, or it is not in a state that allows this.
    Conflict,
    /// A newer run was granted; this writer must stop for good.
    Fenced,
    /// It may work later: busy, disk full, unreachable.
    Unavailable,
    /// Stored data is not what was written.
    Damaged,
    /// What was given cannot be used; repeating it will not help.
    Invalid,
    /// Not allowed.
    Forbidden,
    /// A fault of ours.
    Internal,
}

/// An error that a person can act on.
pub trait Diagnose: std::error::Error {
    /// What sort of trouble it is.
    fn kind(&self) -> Kind;

    /// The code under which `docs/errors/` explains it.
    fn code(&self) -> &'static str;

    /// A way out that is true and can be typed, if there is one.
    fn hint(&self) -> Option<String> {
        None
    }
}
