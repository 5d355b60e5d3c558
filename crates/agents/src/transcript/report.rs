//! What a transcript is, told without holding it.

use std::io::{self, Read, Seek};

use segno_core::conversation::Branch;
use segno_core::conversation::analysis::{Analysis, Summary};
use serde::Serialize;

use super::damage::Severity;
use super::{Adapted, Damage, Facts, Item, Limits, Native, Reason};

/// How many lines that could not be read are listed; more are only counted.
const LISTED: usize = 1000;

/// What a transcript is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Whose it is.
    pub agent: Native,
    /// Records that could be read.
    pub records: u64,
    /// The length of the file.
    pub bytes: u64,
    /// How well its version is known.
    pub adapted: Adapted,
    /// Whether the current branch could be told.
    pub branches: Followed,
    /// What it says about its session.
    #[serde(flatten)]
    pub facts: Facts,
    /// What was said, added up.
    pub summary: Summary,
    /// Lines that could not be read as they should, in the order of the file.
    pub damage: Vec<Damage>,
    /// How many more there are.
    pub damage_unlisted: u64,
}

/// Whether the current branch of a transcript could be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Followed {
    /// Yes, or there are no branches.
    Yes,
    /// No: there are too many records.
    TooMany,
}

impl Report {
    /// Whether the last line ends in its middle.
    pub fn is_torn(&self) -> bool {
        self.damage
            .last()
            .is_some_and(|last| matches!(last.reason, Reason::Torn | Reason::NoNewline))
    }

    /// Lines that nobody can read, as far as they are listed.
    pub fn broken(&self) -> impl Iterator<Item = &Damage> {
        self.damage
            .iter()
            .filter(|damage| damage.reason.severity() == Severity::Broken)
    }
}

impl Native {
    /// Tells what a transcript is, in memory that does not grow with it.
    pub fn examine<R: Read + Seek>(self, source: R) -> io::Result<Report> {
        self.examine_within(source, Limits::default())
    }

    /// The same within other limits.
    pub fn examine_within<R: Read + Seek>(self, source: R, limits: Limits) -> io::Result<Report> {
        let mut reader = self.read_within(source, limits)?;
        let mut analysis = Analysis::new();
        let mut branches = Followed::Yes;
        let (mut damage, mut damage_unlisted) = (Vec::new(), 0);
        for item in reader.by_ref() {
            match item? {
                Item::Entry { entry, .. } => {
                    if entry.branch == Branch::Unknown {
                        branches = Followed::TooMany;
                    }
                    analysis.add(&entry);
                }
                Item::Damage(found) if damage.len() < LISTED => damage.push(found),
                Item::Damage(found) => {
                    // The last one says whether the file is torn, however many came before.
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
