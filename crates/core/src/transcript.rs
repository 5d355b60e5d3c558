//! What it is to read the transcripts that agent programs leave behind.
//!
//! A transcript comes from outside: it may be torn, wrong, huge, and somebody may be writing it.
//! Whoever reads one holds a portion of it at a time (P10), is told what could not be read, and sees
//! the file as long as it was when it was opened.

use std::path::PathBuf;

use crate::agent::Error;
use crate::companion::Program;
use crate::conversation::Entry;
use crate::digest::Digest;
use crate::ports::Boxed;

/// Finds and reads the transcripts of one program. Nothing here changes them.
pub trait Transcripts: Send + Sync {
    /// Whose they are.
    fn program(&self) -> Program;

    /// All that the program has in its home, or all below `folder`, in the order of their paths.
    /// Those of sub-agents belong to others and are not among them.
    fn all(&self, folder: Option<PathBuf>) -> Boxed<'_, Result<Vec<PathBuf>, Error>>;

    /// Where the program has the transcript of a conversation, if it has it.
    fn find<'a>(&'a self, id: &'a str) -> Boxed<'a, Result<Option<PathBuf>, Error>>;

    /// Opens a transcript from its beginning. What is appended later is not read.
    fn open(&self, path: PathBuf) -> Boxed<'_, Result<Box<dyn Transcript>, Error>>;
}

/// A transcript that is being read.
pub trait Transcript: Send {
    /// What it is about.
    fn about(&self) -> &About;

    /// The next portion; `None` after the last.
    fn next(&mut self) -> Boxed<'_, Result<Option<Portion>, Error>>;

    /// The digest of its first `bytes` bytes. May be asked again for as many or more.
    fn digest(&mut self, bytes: u64) -> Boxed<'_, Result<Digest, Error>>;
}

/// What a transcript is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Where it is.
    pub path: PathBuf,
    /// How long it was when it was opened, in bytes.
    pub length: u64,
    /// The program's name for the conversation, if the file or its name tells one.
    pub id: Option<String>,
    /// The folder that the conversation is about.
    pub folder: Option<String>,
    /// What a person said first, or the beginning of it; `None` if that is not there.
    pub prompt: Option<String>,
    /// Whether anything was said, by whomever.
    pub anything: bool,
}

/// Something of a transcript.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Portion {
    /// What was said, each with the place of its line in the file.
    pub entries: Vec<(u64, Entry)>,
    /// What could not be read as it should, in words, each with the place of its line.
    pub damage: Vec<(u64, String)>,
    /// How far the file was read with it, but for a last line that is not all there.
    pub bytes: u64,
}
