//! How an agent program is spoken to that keeps its conversation itself.
//!
//! Claude Code, Codex and their like write down what was said, and can go on from there. That record
//! is theirs: Segno looks at it, keeps copies of it and, where it is damaged or missing, puts one in
//! its place. What Segno itself relies on is in the journal.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::agent::{Answer, Error, Listener, Request};
use crate::conversation::Entry;
use crate::conversation::analysis::Unanswered;
use crate::ports::{Boxed, Random};
use crate::session::words;

words! {
    /// Which program it is.
    Program {
        /// Claude Code.
        #[serde(rename = "claude-code")]
        ClaudeCode = "claude-code",
        /// Codex.
        Codex = "codex",
        /// An agent that speaks the Agent Client Protocol.
        Acp = "acp",
    }
}

/// How a program comes to its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way<'a> {
    /// It begins one, under this name if it lets others choose.
    Begin {
        /// The name.
        id: &'a str,
    },
    /// It goes on with one.
    Continue {
        /// The name.
        id: &'a str,
    },
}

/// A name for a conversation that nobody has: a random UUID, which is what programs take.
pub fn fresh(random: &dyn Random) -> String {
    let mut bytes = [0; 16];
    random.fill(&mut bytes);
    // The version and the variant that say how it was made.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = format!("{:032x}", u128::from_be_bytes(bytes));
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    parts.join("-")
}

/// How full a model's context is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gauge {
    /// Tokens that are in it.
    pub used: u64,
    /// Tokens that fit, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
}

impl Gauge {
    /// From how much on a person is told.
    pub const NEARLY_FULL: u64 = 80;
    /// From how much on a session's policy acts.
    pub const FULL: u64 = 85;

    /// How much of it is used, in hundredths; `None` if nobody knows how much fits.
    pub fn percent(&self) -> Option<u64> {
        let window = self.window.filter(|window| *window > 0)?;
        Some(self.used.saturating_mul(100) / window)
    }
}

/// What a program has of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// How long it is.
    pub bytes: u64,
    /// How it stands.
    pub health: Health,
    /// Calls in it whose outcome is unknown; `None` if nobody but the program can look into it.
    pub unanswered: Option<Vec<Unanswered>>,
    /// The names of the newest messages, calls and answers that are in it
    /// ([`Said::names`](crate::conversation::Said::names)), if the program reports the same names while
    /// it works. What was reported and is not here did not reach the record.
    pub named: Option<Vec<String>>,
}

/// How a record stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// The program can go on with it.
    Whole,
    /// Some of it cannot be read: what, in words.
    Damaged(String),
    /// None of it can be read: why.
    Unreadable(String),
    /// Nothing was said in it.
    Empty,
}

/// A record as it is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// Its bytes.
    pub record: Vec<u8>,
    /// What the program keeps beside it, by name: what sub-agents said.
    pub beside: BTreeMap<String, Vec<u8>>,
}

impl Kept {
    /// The longest record that is kept, in bytes; and all together that is beside it.
    pub const LONGEST: u64 = 256 << 20;
    /// The most files beside it.
    pub const MOST: usize = 1000;
}

/// Speaks to an agent program that keeps its conversation itself.
///
/// Nothing here keeps two from going on with one conversation at once: whoever calls holds a lease
/// (the programs themselves do not always care).
pub trait Companion: Send + Sync {
    /// Which program it is.
    fn program(&self) -> Program;

    /// Whether it begins a conversation under the name that it is given, rather than under one of its
    /// own.
    fn lets_choose(&self) -> bool;

    /// Asks, and returns the answer when the program and everything that it started is over. The name
    /// of the conversation is reported before anything that is said in it; another name than the one
    /// that was asked for is an error, and nothing that follows it counts. Dropping the future ends
    /// the program with everything it started.
    fn ask<'a>(
        &'a self,
        request: Request<'a>,
        way: Way<'a>,
        listener: &'a dyn Listener,
    ) -> Boxed<'a, Result<Answer, Error>>;

    /// What the program has of a conversation that is to go on in `folder`; `None` if nothing. Changes
    /// nothing.
    fn record<'a>(
        &'a self,
        id: &'a str,
        folder: &'a Path,
    ) -> Boxed<'a, Result<Option<Record>, Error>>;

    /// Its records, if others can work with them; `None` if they are its own affair.
    fn records(&self) -> Option<&dyn Records>;
}

/// What can be done with the records of a program that lie open.
pub trait Records: Send + Sync {
    /// Puts a record in order that is damaged: what cannot be read is left out, and what it was is
    /// kept beside it. Returns what was done, in words.
    fn repair<'a>(&'a self, id: &'a str) -> Boxed<'a, Result<String, Error>>;

    /// The bytes of a record, to be kept. Too much of what is beside it is left out.
    fn copy<'a>(&'a self, id: &'a str) -> Boxed<'a, Result<Kept, Error>>;

    /// What is in a kept record.
    fn look<'a>(&'a self, kept: &'a [u8]) -> Boxed<'a, Result<Record, Error>>;

    /// Puts a kept record where the program finds it, as one about `folder` that is called `id`, whatever
    /// it was called before. One that is there already is left alone, which is an error; so
    /// is what is there already beside it, which is none.
    fn settle<'a>(
        &'a self,
        id: &'a str,
        kept: &'a Kept,
        folder: &'a Path,
    ) -> Boxed<'a, Result<(), Error>>;

    /// Writes a record of what was said elsewhere, as one about `folder` under a name that nobody has,
    /// so that the program can go on with it. Returns what is not in it, in words.
    fn compose<'a>(
        &'a self,
        id: &'a str,
        entries: &'a [Entry],
        folder: &'a Path,
    ) -> Boxed<'a, Result<Vec<String>, Error>>;
}
