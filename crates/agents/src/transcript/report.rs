//! A summary of a transcript, made in bounded memory.

use std::io::{self, Read, Seek};

use segno_core::conversation::Branch;
use segno_core::conversation::analysis::{Analysis, Summary};
use serde::Serialize;

use super::damage::Severity;
use super::{Damage, Facts, Item, Limits, Reason, TranscriptFormat, VersionSupport};

/// How many damaged lines are listed; more are only counted.
const MAX_LISTED: usize = 1000;

/// A summary of a transcript.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    pub agent: TranscriptFormat,
    /// The number of records that could be read.
    pub records: u64,
    /// The length of the file.
    pub bytes: u64,
    /// How well its version is known.
    pub adapted: VersionSupport,
    /// Whether the current branch could be determined.
    pub branches: BranchStatus,
    #[serde(flatten)]
    pub facts: Facts,
    pub summary: Summary,
    /// Damaged lines, in the order of the file.
    pub damage: Vec<Damage>,
    /// How many more damaged lines there are.
    pub damage_unlisted: u64,
}

/// Whether the current branch of a transcript could be determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BranchStatus {
    /// Yes, or there are no branches.
    Yes,
    /// No: there are too many records.
    TooMany,
}

impl Report {
    /// Whether the last line is incomplete.
    pub fn is_torn(&self) -> bool {
        self.damage
            .last()
            .is_some_and(|last| matches!(last.reason, Reason::Torn | Reason::NoNewline))
    }

    /// The listed lines that no program can read.
    pub fn broken(&self) -> impl Iterator<Item = &Damage> {
        self.damage
            .iter()
            .filter(|damage| damage.reason.severity() == Severity::Broken)
    }
}

impl TranscriptFormat {
    /// Summarizes a transcript, in memory that does not grow with it.
    pub fn examine<R: Read + Seek>(self, source: R) -> io::Result<Report> {
        self.examine_within(source, Limits::default())
    }

    pub fn examine_within<R: Read + Seek>(self, source: R, limits: Limits) -> io::Result<Report> {
        let mut reader = self.read_within(source, limits)?;
        let mut analysis = Analysis::new();
        let mut branches = BranchStatus::Yes;
        let (mut damage, mut damage_unlisted) = (Vec::new(), 0);
        for item in reader.by_ref() {
            match item? {
                Item::Entry { entry, .. } => {
                    if entry.branch == Branch::Unknown {
                        branches = BranchStatus::TooMany;
                    }
                    analysis.add(&entry);
                }
                Item::Damage(found) if damage.len() < MAX_LISTED => damage.push(found),
                Item::Damage(found) => {
                    // The last damage says whether the file is torn, however many came before.
                    damage_unlisted += 1;
                    damage.pop();
                    damage.push(found);
                }
            }
        }
        let summary = analysis.finish();
        let mut facts = reader.facts().clone();
        facts.model = summary.model.clone().or(facts.model);
        Ok(Report {
            agent: self,
            records: reader.records(),
            bytes: reader.bytes(),
            adapted: reader.adapted(),
            branches,
            facts,
            summary,
            damage,
            damage_unlisted,
        })
    }
}
