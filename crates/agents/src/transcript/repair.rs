//! Makes a transcript that the agent takes whole out of one that was broken.
//!
//! Lines that nobody can read are left out, calls without an answer are answered with the sentence
//! that their outcome is unknown, and where a record's parent was in a broken line a note takes its
//! place. Every other byte of every other line stays as it is, so that a healthy transcript comes out
//! unchanged, and so does a repaired one. What is too long or too deep to be looked into, or is not as
//! it should be, stays too; since it may hold answers, calls before it are left as they are.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Read, Seek, Write};

use segno_core::conversation::{Branch, Entry, Said, Utterance};
use segno_core::digest::Digest;
use serde::Serialize;

use super::damage::Severity;
use super::{Content, Damage, Found, Item, Limits, Lines, Native, Object, Reason, text};
use crate::claude_code::transcript::Newest;
use crate::{claude_code, codex};

/// How many of a sort are listed; more are only counted.
const LISTED: usize = 1000;
/// How many unanswered calls are closed at most.
const CLOSED: usize = 1 << 16;
/// How many answers are remembered, at 32 bytes each.
const ANSWERED: usize = 1 << 16;
/// The longest id or name of a call that is closed.
const NAME: usize = 1024;

/// What was done to a transcript.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Repair {
    /// Lines that were left out.
    pub dropped: Vec<Damage>,
    /// How many more were left out.
    pub dropped_unlisted: u64,
    /// Calls that were answered with an unknown outcome.
    pub closed: Vec<Closed>,
    /// How many more were.
    pub closed_unlisted: u64,
    /// Calls without an answer that were left so: a line that cannot be looked into may have it, or
    /// the branch would end elsewhere, or there are too many.
    pub left_open: u64,
    /// Records of broken lines in whose place a note stands, since others follow them.
    pub bridged: u64,
    /// Whether the last line was given its missing end.
    pub ended: bool,
}

/// A call that was answered with an unknown outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Closed {
    /// The call.
    pub id: String,
    /// The tool.
    pub name: String,
}

impl Repair {
    /// Whether the transcript was whole, and came out byte for byte the same.
    pub fn is_nothing(&self) -> bool {
        let open = Self {
            left_open: self.left_open,
            ..Self::default()
        };
        *self == open
    }
}

/// The calls of a record that are to be answered.
#[derive(Debug)]
pub(crate) struct Closing {
    pub(crate) calls: Vec<Closed>,
    pub(crate) newest: Newest,
}

/// How one agent's records are made.
pub(crate) trait Mend {
    /// What must stand before a record: a note in the place of its lost parent, which follows
    /// `parent`.
    fn bridge(&mut self, record: &Object, parent: &str) -> Option<Vec<u8>>;

    /// Hears of every record, before it is copied.
    fn hear(&mut self, record: &Object);

    /// The answers that must stand right after a record, for its calls of unknown outcome.
    fn close(&mut self, record: &Object, closing: &Closing) -> Vec<Vec<u8>>;

    /// The records that must stand at the end.
    fn end(&mut self) -> Vec<Vec<u8>>;
}

impl Native {
    /// Writes a transcript that the agent takes whole.
    pub fn repair<R: Read + Seek>(self, source: R, to: &mut dyn Write) -> io::Result<Repair> {
        self.repair_within(source, to, Limits::default())
    }

    /// The same within other limits.
    pub fn repair_within<R: Read + Seek>(
        self,
        mut source: R,
        to: &mut dyn Write,
        limits: Limits,
    ) -> io::Result<Repair> {
        let plan = Plan::make(self, &mut source, limits)?;
        let mut mender: Box<dyn Mend> = match self {
            Self::ClaudeCode => Box::new(claude_code::transcript::Mender::default()),
            Self::Codex => Box::new(codex::transcript::Mender::default()),
        };
        let mut lines = Lines::new(source, limits.line)?;
        let mut anchors: HashMap<u64, String> = HashMap::new();
        let mut repair = Repair {
            left_open: plan.left_open,
            ..Repair::default()
        };
        while let Some(found) = lines.next()? {
            let record = match lines.content(found) {
                Content::Unreadable(reason) if reason.severity() == Severity::Broken => {
                    repair.drop(Damage {
                        at: found.at,
                        reason,
                    });
                    continue;
                }
                Content::Record(record) => Some(record),
                Content::Unreadable(_) | Content::Blank => None,
            };
            if let Some(record) = &record {
                let line = found.at.line;
                if let Some(before) = plan.bridges.get(&line)
                    && let Some(parent) = anchors.get(before)
                    && let Some(note) = mender.bridge(record, parent)
                {
                    put(to, &note)?;
                    repair.bridged += 1;
                }
                if plan.anchors.contains(&line)
                    && let Some(id) = text(record, "uuid")
                {
                    anchors.insert(line, id.to_owned());
                }
                mender.hear(record);
            }
            repair.ended |= copy(&mut lines, found, to)?;
            if let (Some(record), Some(closing)) = (&record, plan.closing.get(&found.at.line)) {
                repair.close(&closing.calls);
                for answer in mender.close(record, closing) {
                    put(to, &answer)?;
                }
            }
        }
        for answer in mender.end() {
            put(to, &answer)?;
        }
        to.flush()?;
        Ok(repair)
    }
}

impl Repair {
    fn drop(&mut self, damage: Damage) {
        if self.dropped.len() < LISTED {
            self.dropped.push(damage);
        } else {
            self.dropped_unlisted += 1;
        }
    }

    fn close(&mut self, calls: &[Closed]) {
        for call in calls {
            if self.closed.len() < LISTED {
                self.closed.push(call.clone());
            } else {
                self.closed_unlisted += 1;
            }
        }
    }
}

fn put(to: &mut dyn Write, record: &[u8]) -> io::Result<()> {
    to.write_all(record)?;
    to.write_all(b"\n")
}

/// Copies a line with its end; whether the end was missing.
fn copy<R: Read + Seek>(
    lines: &mut Lines<R>,
    found: Found,
    to: &mut dyn Write,
) -> io::Result<bool> {
    lines.copy(found, to)?;
    let missing = !found.ended && !matches!(lines.content(found), Content::Blank);
    if found.ended || missing {
        to.write_all(b"\n")?;
    }
    Ok(missing)
}

/// What is to be done, by line.
#[derive(Debug, Default)]
struct Plan {
    closing: BTreeMap<u64, Closing>,
    /// The records whose lost parent is replaced, each with the record that comes before.
    bridges: HashMap<u64, u64>,
    anchors: HashSet<u64>,
    left_open: u64,
}

/// Calls without an answer so far, and what was answered: a record may stand twice in a file, and
/// an answer before its call.
#[derive(Debug, Default)]
struct Open {
    calls: BTreeMap<String, Call>,
    answered: HashSet<Digest>,
}

/// A call without an answer so far.
#[derive(Debug)]
struct Call {
    line: u64,
    /// Which one in its record.
    order: usize,
    name: String,
    /// The record's own name.
    record: Option<String>,
}

impl Plan {
    fn make<R: Read + Seek>(native: Native, source: &mut R, limits: Limits) -> io::Result<Self> {
        let mut plan = Self::default();
        let mut open = Open::default();
        let (mut broken, mut opaque, mut odd) = (None, None, None);
        let mut lost = Vec::new();
        let mut reader = native.read_within(source, limits)?;
        for item in reader.by_ref() {
            match item? {
                Item::Damage(damage) => match damage.reason.severity() {
                    Severity::Broken => broken = Some(damage.at.line),
                    Severity::Opaque => opaque = Some(damage.at.line),
                    // Only what a broken line took away is put back: a transcript from which
                    // records were left out on purpose has lost parents and is taken whole.
                    Severity::Odd => match damage.reason {
                        Reason::LostParent if broken.is_some() => lost.push(damage.at.line),
                        Reason::Shape(_) => odd = Some(damage.at.line),
                        _ => {}
                    },
                },
                Item::Entry { entry, at } => plan.left_open += open.hear(&entry, at.line),
            }
        }
        // A line that cannot be looked into may be the parent.
        if opaque.is_none() {
            let instead = |line| Some((line, reader.instead(line)?));
            plan.bridges = lost.into_iter().filter_map(instead).collect();
            plan.anchors = plan.bridges.values().copied().collect();
        }
        // The last line that may answer anything.
        let unclear = opaque.max(odd);
        let mut calls: Vec<_> = open.calls.into_iter().collect();
        calls.sort_by_key(|(_, call)| (call.line, call.order));
        for (id, call) in calls {
            let Call { line, name, .. } = call;
            // What has no name cannot be followed by an answer.
            let followed = native == Native::Codex || call.record.is_some();
            let newest = reader.newest(line).filter(|_| followed);
            let (Some(newest), false) = (newest, unclear.is_some_and(|unclear| unclear > line))
            else {
                plan.left_open += 1;
                continue;
            };
            let closing = plan.closing.entry(line).or_insert_with(|| Closing {
                calls: Vec::new(),
                newest,
            });
            closing.calls.push(Closed { id, name });
        }
        Ok(plan)
    }
}

impl Open {
    /// Opens and closes calls; how many could not be opened.
    fn hear(&mut self, entry: &Entry, line: u64) -> u64 {
        if entry.branch == Branch::Side {
            return 0;
        }
        let mut over = 0;
        match &entry.said {
            Said::Assistant { parts, .. } => {
                for (order, part) in parts.iter().enumerate() {
                    let Utterance::Call(call) = part else {
                        continue;
                    };
                    let long = call.id.len().max(call.name.len()) > NAME;
                    if self.answered.contains(&Digest::of(call.id.as_bytes())) {
                        continue;
                    }
                    if long || self.calls.len() == CLOSED {
                        over += 1;
                        continue;
                    }
                    let opened = Call {
                        line,
                        order,
                        name: call.name.clone(),
                        record: entry.id.clone(),
                    };
                    self.calls.insert(call.id.clone(), opened);
                }
            }
            Said::Result(answer) => {
                self.calls.remove(&answer.id);
                if self.answered.len() < ANSWERED {
                    self.answered.insert(Digest::of(answer.id.as_bytes()));
                }
            }
            _ => {}
        }
        over
    }
}
