//! What was done again after a strike, counted outside of segno.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::strike::COMMANDS;
use super::trial::Trial;
use crate::crash::trial::Wrong;
use crate::model::standard;

impl Trial<'_> {
    /// Whether turns were paid for again that were known.
    pub(super) fn count_turns(&mut self, known: &str) {
        let paid = self.scene.server.paid("standard");
        let mut times: BTreeMap<usize, u64> = BTreeMap::new();
        for turn in &paid {
            *times.entry(*turn).or_default() += 1;
        }
        let last = standard().turns() - 1;
        for turn in 0..=last {
            let again = match times.get(&turn) {
                None => {
                    self.wrong(Wrong::Loss(format!("turn {turn} was never asked for")));
                    continue;
                }
                Some(times) => times - 1,
            };
            // Nothing else was asked for in between, so it was the newest when it struck.
            let was_newest = paid.windows(2).any(|pair| pair == [turn, turn]);
            let is_known = known.contains(&format!("[standard:{turn}]"));
            match (again, is_known) {
                (0, _) => {}
                (1, _) if turn == last && is_known => self.outcome.last_again += 1,
                (1, false) if was_newest => self.outcome.in_flight += 1,
                _ => {
                    let what = format!(
                        "turn {turn} was paid for {} times (known: {is_known}): {paid:?}",
                        again + 1
                    );
                    self.wrong(Wrong::Repeat(what));
                }
            }
        }
    }

    /// A conversation that had got that far is in the program's record, and is gone on with.
    pub(super) fn count_rungs(&mut self, known: &str) {
        let far = known.contains("[standard:3]");
        let rungs = &self.outcome.rungs;
        if far && rungs.iter().any(|rung| rung == "compiled") {
            let what = format!("the program's own conversation was given up: {rungs:?}");
            self.wrong(Wrong::Loss(what));
        }
    }

    /// Whether commands were begun again that were done.
    pub(super) fn count_commands(&mut self, done: &BTreeSet<String>) {
        let signs = self.scene.stage.signs();
        for command in COMMANDS {
            let begun = signs.iter().filter(|sign| *sign == command).count() as u64;
            let again = begun.saturating_sub(1);
            if begun == 0 {
                self.wrong(Wrong::Loss(format!("command {command} never began")));
            } else if again > 0 && done.contains(command) {
                let what = format!("command {command} was done, and began {begun} times");
                self.wrong(Wrong::Repeat(what));
            } else {
                self.outcome.begun_again += again;
            }
        }
    }
}

/// Everything that the journal has of what was said before the work went on.
pub(super) fn said_first(journal: &[(String, Value)]) -> String {
    let said = journal
        .iter()
        .filter(|(kind, body)| kind == "agent_said" && body["attempt"] == 1);
    said.map(|(_, body)| body["entries"].to_string()).collect()
}
