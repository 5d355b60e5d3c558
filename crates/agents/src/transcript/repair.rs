//! Repairs a damaged transcript, so that the agent accepts all of it.
//!
//! The repair drops lines that no program can read, answers calls without a result with the
//! sentence that their outcome is unknown, and inserts a record where a record's parent was in a
//! broken line. Every other byte of every other line stays as it is, so that a healthy transcript
//! comes out unchanged, and so does a repaired one. Lines that are too long or too deep to be
//! parsed, or have an unexpected shape, stay too; since they may hold results, calls before them
//! stay open.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Read, Seek, Write};

use segno_core::conversation::{AssistantPart, Branch, ConversationItem, ItemContent};
use segno_core::digest::Digest;
use serde::Serialize;

use super::claude_code::LatestResultTime;
use super::damage::Severity;
use super::{Content, Damage, Found, Item, Limits, Lines, Object, Reason, TranscriptFormat, text};
use super::{claude_code, codex};

/// How many of each kind are listed; more are only counted.
const MAX_LISTED: usize = 1000;
/// How many open calls are closed at most.
const MAX_CLOSED: usize = 1 << 16;
/// How many results are remembered, at 32 bytes each.
const MAX_ANSWERED: usize = 1 << 16;
/// The longest id or name of a call that is closed, in bytes.
const MAX_NAME: usize = 1024;

/// What a repair changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Repair {
    /// Lines that were dropped.
    pub dropped: Vec<Damage>,
    /// How many more lines were dropped.
    pub dropped_unlisted: u64,
    /// Calls that got a result of unknown outcome.
    pub closed: Vec<Closed>,
    /// How many more calls were closed.
    pub closed_unlisted: u64,
    /// Calls without a result that stay open: a line that cannot be parsed may hold the result, or
    /// closing would change where the branch ends, or there are too many.
    pub left_open: u64,
    /// Broken records that were replaced by an inserted one, since others follow them.
    pub bridged: u64,
    /// Whether the last line got its missing newline.
    pub ended: bool,
}

/// A call that got a result of unknown outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Closed {
    pub id: String,
    /// The tool.
    pub name: String,
}

impl Repair {
    /// Whether the transcript was healthy and came out byte for byte the same.
    pub fn is_unchanged(&self) -> bool {
        let open = Self {
            left_open: self.left_open,
            ..Self::default()
        };
        *self == open
    }
}

/// The calls of a record that get a result of unknown outcome.
#[derive(Debug)]
pub(crate) struct Closing {
    pub(crate) calls: Vec<Closed>,
    pub(crate) latest: LatestResultTime,
}

/// Makes the records that a repair inserts, for one agent's format.
pub(crate) trait Repairer {
    /// The record that must precede `record`: it replaces the lost parent and itself follows
    /// `parent`.
    fn bridge(&mut self, record: &Object, parent: &str) -> Option<Vec<u8>>;

    /// Is called with every record before it is copied.
    fn observe(&mut self, record: &Object);

    /// The results that must directly follow a record, for its calls of unknown outcome.
    fn close(&mut self, record: &Object, closing: &Closing) -> Vec<Vec<u8>>;

    /// The records that must be at the end of the file.
    fn end(&mut self) -> Vec<Vec<u8>>;
}

impl TranscriptFormat {
    /// Writes a repaired copy of the transcript.
    pub fn repair<R: Read + Seek>(self, source: R, to: &mut dyn Write) -> io::Result<Repair> {
        self.repair_within(source, to, Limits::default())
    }

    pub fn repair_within<R: Read + Seek>(
        self,
        mut source: R,
        to: &mut dyn Write,
        limits: Limits,
    ) -> io::Result<Repair> {
        let plan = Plan::build(self, &mut source, limits)?;
        let mut repairer: Box<dyn Repairer> = match self {
            Self::ClaudeCode => Box::new(claude_code::ClaudeCodeRepairer::default()),
            Self::Codex => Box::new(codex::CodexRepairer::default()),
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
                    && let Some(inserted) = repairer.bridge(record, parent)
                {
                    write_record(to, &inserted)?;
                    repair.bridged += 1;
                }
                if plan.anchors.contains(&line)
                    && let Some(id) = text(record, "uuid")
                {
                    anchors.insert(line, id.to_owned());
                }
                repairer.observe(record);
            }
            repair.ended |= copy(&mut lines, found, to)?;
            if let (Some(record), Some(closing)) = (&record, plan.closing.get(&found.at.line)) {
                repair.close(&closing.calls);
                for answer in repairer.close(record, closing) {
                    write_record(to, &answer)?;
                }
            }
        }
        for answer in repairer.end() {
            write_record(to, &answer)?;
        }
        to.flush()?;
        Ok(repair)
    }
}

impl Repair {
    fn drop(&mut self, damage: Damage) {
        if self.dropped.len() < MAX_LISTED {
            self.dropped.push(damage);
        } else {
            self.dropped_unlisted += 1;
        }
    }

    fn close(&mut self, calls: &[Closed]) {
        for call in calls {
            if self.closed.len() < MAX_LISTED {
                self.closed.push(call.clone());
            } else {
                self.closed_unlisted += 1;
            }
        }
    }
}

fn write_record(to: &mut dyn Write, record: &[u8]) -> io::Result<()> {
    to.write_all(record)?;
    to.write_all(b"\n")
}

/// Copies a line with its newline; returns whether the newline was missing.
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

/// The changes to make, by line.
#[derive(Debug, Default)]
struct Plan {
    closing: BTreeMap<u64, Closing>,
    /// The records whose lost parent is replaced, each with the record that precedes it.
    bridges: HashMap<u64, u64>,
    anchors: HashSet<u64>,
    left_open: u64,
}

/// Calls without a result so far, and calls with one: a record may occur twice in a file, and a
/// result before its call.
#[derive(Debug, Default)]
struct OpenCalls {
    calls: BTreeMap<String, Call>,
    answered: HashSet<Digest>,
}

#[derive(Debug)]
struct Call {
    line: u64,
    /// Its index in its record.
    order: usize,
    name: String,
    /// The record's own id.
    record: Option<String>,
}

impl Plan {
    fn build<R: Read + Seek>(
        native: TranscriptFormat,
        source: &mut R,
        limits: Limits,
    ) -> io::Result<Self> {
        let mut plan = Self::default();
        let mut open = OpenCalls::default();
        let (mut broken, mut opaque, mut odd) = (None, None, None);
        let mut lost = Vec::new();
        let mut reader = native.read_within(source, limits)?;
        for item in reader.by_ref() {
            match item? {
                Item::Damage(damage) => match damage.reason.severity() {
                    Severity::Broken => broken = Some(damage.at.line),
                    Severity::Opaque => opaque = Some(damage.at.line),
                    // Only the parents in broken lines are replaced. A transcript from which
                    // records were removed on purpose has lost parents, too, and the agent accepts
                    // it.
                    Severity::Odd => match damage.reason {
                        Reason::LostParent if broken.is_some() => lost.push(damage.at.line),
                        Reason::Shape(_) => odd = Some(damage.at.line),
                        _ => {}
                    },
                },
                Item::Entry { entry, at } => plan.left_open += open.observe(&entry, at.line),
            }
        }
        // A line that cannot be parsed may be the parent.
        if opaque.is_none() {
            let replacement = |line| Some((line, reader.replacement_parent(line)?));
            plan.bridges = lost.into_iter().filter_map(replacement).collect();
            plan.anchors = plan.bridges.values().copied().collect();
        }
        // The last line that may hold any result.
        let unclear = opaque.max(odd);
        let mut calls: Vec<_> = open.calls.into_iter().collect();
        calls.sort_by_key(|(_, call)| (call.line, call.order));
        for (id, call) in calls {
            let Call { line, name, .. } = call;
            // A result cannot follow a record without an id.
            let followed = native == TranscriptFormat::Codex || call.record.is_some();
            let latest = reader.latest_result_time(line).filter(|_| followed);
            let (Some(latest), false) = (latest, unclear.is_some_and(|unclear| unclear > line))
            else {
                plan.left_open += 1;
                continue;
            };
            let closing = plan.closing.entry(line).or_insert_with(|| Closing {
                calls: Vec::new(),
                latest,
            });
            closing.calls.push(Closed { id, name });
        }
        Ok(plan)
    }
}

impl OpenCalls {
    /// Opens and closes calls; returns how many could not be opened.
    fn observe(&mut self, entry: &ConversationItem, line: u64) -> u64 {
        if entry.branch == Branch::Side {
            return 0;
        }
        let mut unopened = 0;
        match &entry.content {
            ItemContent::Assistant { parts, .. } => {
                for (order, part) in parts.iter().enumerate() {
                    let AssistantPart::Call(call) = part else {
                        continue;
                    };
                    let long = call.id.len().max(call.name.len()) > MAX_NAME;
                    if self.answered.contains(&Digest::of(call.id.as_bytes())) {
                        continue;
                    }
                    if long || self.calls.len() == MAX_CLOSED {
                        unopened += 1;
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
            ItemContent::Result(answer) => {
                self.calls.remove(&answer.id);
                if self.answered.len() < MAX_ANSWERED {
                    self.answered.insert(Digest::of(answer.id.as_bytes()));
                }
            }
            _ => {}
        }
        unopened
    }
}
