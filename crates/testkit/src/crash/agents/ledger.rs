//! What was done again after a strike, counted outside of segno.

use std::collections::BTreeMap;

use serde_json::Value;

use super::strike::{ASKED, COMMANDS, Victim};
use super::trial::{Seen, Trial};
use crate::crash::trial::Wrong;
use crate::model::{standard, standard_files};

/// How many turns may have been under way when it struck: the newest, and on a busy machine one that
/// was answered and not yet written down by anyone.
const AHEAD: usize = 2;

impl Trial<'_> {
    /// Whether turns were paid for again that were known.
    pub(super) fn count_turns(&mut self, journal: &[(String, Value)]) {
        let paid = self.scene.server.paid("standard");
        let processes = processes(journal);
        let last = standard().turns() - 1;
        for turn in 0..=last {
            let times = paid.iter().filter(|one| **one == turn).count();
            if times == 0 {
                self.wrong(Wrong::Loss(format!("turn {turn} was never asked for")));
                continue;
            }
            // Each process before the one that is known to have said it may have had it in flight.
            let mark = format!("[standard:{turn}]");
            let known = processes.iter().position(|said| said.contains(&mark));
            let allowed = known.map_or(processes.len().max(2), |process| process + 1);
            let at = |place: &usize| paid[*place] == turn;
            let places: Vec<usize> = (0..paid.len()).filter(at).collect();
            let were_newest = places.windows(2).all(|two| two[1] - two[0] <= AHEAD);
            let again = times as u64 - 1;
            if times == 1 {
                continue;
            }
            if times <= allowed && were_newest {
                self.outcome.in_flight += again;
            } else if turn == last && again <= self.outcome.struck.max(1) {
                self.outcome.last_again += again;
            } else {
                let what = format!(
                    "turn {turn} was paid for {times} times (known to process {known:?}): {paid:?}"
                );
                self.wrong(Wrong::Repeat(what));
            }
        }
    }

    /// A conversation that had got that far is in the program's record, and is gone on with.
    pub(super) fn count_rungs(&mut self, journal: &[(String, Value)]) {
        let first = processes(journal).into_iter().next().unwrap_or_default();
        let far = first.contains("[standard:3]");
        let rungs = &self.outcome.rungs;
        let gave_up = far && rungs.iter().any(|rung| rung == "compiled");
        // A program that goes on and dies before it says anything is taken to have fallen over its own
        // record: it cannot be told from one that was struck.
        let struck = self.outcome.strike.again.is_some_and(|again| {
            again.victim == Victim::Program && rungs.first().is_some_and(|rung| rung == "native")
        });
        if gave_up && struck {
            self.outcome.gave_up += 1;
        } else if gave_up {
            let what = format!("the program's own conversation was given up: {rungs:?}");
            self.wrong(Wrong::Loss(what));
        }
    }

    /// Whether the workspace is as an undisturbed run leaves it. A command may have been done once more
    /// for each time that its turn was paid for again: a program acts on an answer before it writes the
    /// answer down, so of what it did in its last moment nobody may know, and the model is asked anew.
    pub(super) fn is_whole(&self, left: &BTreeMap<String, String>) -> bool {
        let paid = self.scene.server.paid("standard");
        let mut left = left.clone();
        let log = left.get("log.txt").cloned().unwrap_or_default();
        let mut log: Vec<&str> = log.lines().collect();
        for (command, turn) in COMMANDS.into_iter().zip(ASKED) {
            let again = paid.iter().filter(|one| **one == turn).skip(1);
            for _ in again {
                let mut places = (0..log.len()).filter(|at| log[*at] == command);
                if let (Some(first), Some(_)) = (places.next(), places.next()) {
                    log.remove(first);
                }
            }
        }
        let log: String = log.into_iter().flat_map(|line| [line, "\n"]).collect();
        left.insert("log.txt".to_owned(), log);
        left == standard_files()
    }

    /// Whether commands were begun again that were done.
    pub(super) fn count_commands(&mut self, seen: &[Seen]) {
        let signs = self.scene.stage.signs();
        let begun =
            |signs: &[String], command: &str| signs.iter().filter(|sign| *sign == command).count();
        for command in COMMANDS {
            let times = begun(&signs, command);
            let repeated = seen
                .iter()
                .any(|seen| seen.done.contains(command) && begun(&seen.begun, command) < times);
            if times == 0 {
                self.wrong(Wrong::Loss(format!("command {command} never began")));
            } else if repeated {
                let what = format!("command {command} was done, and began {times} times");
                self.wrong(Wrong::Repeat(what));
            } else {
                self.outcome.begun_again += times as u64 - 1;
            }
        }
    }
}

/// Everything that the journal has of what was said, by who said it: the first process that did the
/// step, the second, and so on. One attempt may have several, if one way to go on fails and the next
/// is taken; and a process that never named its conversation is known by the attempt alone.
fn processes(journal: &[(String, Value)]) -> Vec<String> {
    let mut processes: Vec<String> = Vec::new();
    let mut opened = 0;
    for (kind, body) in journal {
        opened += u64::from(kind == "agent_opened");
        if kind == "agent_said" {
            let number = body["attempt"].as_u64().unwrap_or(1).max(opened).max(1);
            let index = usize::try_from(number - 1).unwrap_or_default();
            processes.resize(processes.len().max(index + 1), String::new());
            processes[index] += &body["entries"].to_string();
        }
    }
    processes
}
