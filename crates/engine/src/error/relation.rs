//! How an imported session relates to the one here.

/// How the local session relates to the one in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    Same,
    /// The file continues where the local journal ends.
    Behind,
    /// The local journal continues where the file ends.
    Ahead,
    /// The journals have diverged.
    Diverged,
    /// The local session is in the trash.
    InTrash,
}
