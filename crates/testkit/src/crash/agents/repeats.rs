//! Counts what was done again after a strike. Independent of segno.

use std::collections::BTreeMap;

use serde_json::Value;

use super::strike::{COMMAND_TURNS, COMMANDS};
use super::trial::{CommandState, Trial};
use crate::crash::trial::Violation;
use crate::model::{standard, standard_files};

/// How many turns may have been in flight when the strike came: the latest, and on a busy machine
/// one that was answered but not yet written by either side.
const MAX_IN_FLIGHT: usize = 2;

impl Trial<'_> {
    /// Checks whether turns were paid for again although the journal had them.
    pub(super) fn check_turns(&mut self, journal: &[(String, Value)]) {
        let paid = self.scene.server.paid_turns("standard");
        let processes = processes(journal);
        let last = standard().turns() - 1;
        for turn in 0..=last {
            let times = paid.iter().filter(|one| **one == turn).count();
            if times == 0 {
                self.wrong(Violation::Loss(format!("turn {turn} was never requested")));
                continue;
            }
            // Each process before the one that reported the turn may have had it in flight.
            let mark = format!("[standard:{turn}]");
            let known = processes.iter().position(|said| said.contains(&mark));
            let allowed = known.map_or(processes.len().max(2), |process| process + 1);
            let at = |index: &usize| paid[*index] == turn;
            let indices: Vec<usize> = (0..paid.len()).filter(at).collect();
            let were_newest = indices
                .windows(2)
                .all(|two| two[1] - two[0] <= MAX_IN_FLIGHT);
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
                    "turn {turn} was requested {times} times (known to process {known:?}): {paid:?}"
                );
                self.wrong(Violation::Repeat(what));
            }
        }
    }

    /// Checks that a conversation that had got far enough is continued from the agent's own
    /// transcript.
    pub(super) fn check_strategies(&mut self, journal: &[(String, Value)]) {
        let first = processes(journal).into_iter().next().unwrap_or_default();
        let far = first.contains("[standard:3]");
        let strategies = &self.outcome.strategies;
        if far && strategies.iter().any(|strategy| strategy == "summarized") {
            self.outcome.gave_up += 1;
            let what = format!("the agent's own conversation was given up: {strategies:?}");
            self.wrong(Violation::Loss(what));
        }
    }

    /// Whether the workspace is as an undisturbed run leaves it. A command may have run once more
    /// for each time that its turn was paid for again: an agent acts on an answer before it writes
    /// the answer to its transcript, so its last actions may be unknown, and the model is asked
    /// again.
    pub(super) fn is_whole(&self, left: &BTreeMap<String, String>) -> bool {
        let paid = self.scene.server.paid_turns("standard");
        let mut left = left.clone();
        let log = left.get("log.txt").cloned().unwrap_or_default();
        let mut log: Vec<&str> = log.lines().collect();
        for (command, turn) in COMMANDS.into_iter().zip(COMMAND_TURNS) {
            let again = paid.iter().filter(|one| **one == turn).skip(1);
            for _ in again {
                let mut indices = (0..log.len()).filter(|at| log[*at] == command);
                if let (Some(first), Some(_)) = (indices.next(), indices.next()) {
                    log.remove(first);
                }
            }
        }
        let log: String = log.into_iter().flat_map(|line| [line, "\n"]).collect();
        left.insert("log.txt".to_owned(), log);
        left == standard_files()
    }

    /// Checks whether commands were started again although they were done.
    pub(super) fn check_commands(&mut self, seen: &[CommandState]) {
        let signs = self.scene.agent_sandbox.started_commands();
        let begun =
            |signs: &[String], command: &str| signs.iter().filter(|sign| *sign == command).count();
        for command in COMMANDS {
            let times = begun(&signs, command);
            let repeated = seen
                .iter()
                .any(|seen| seen.done.contains(command) && begun(&seen.begun, command) < times);
            if times == 0 {
                self.wrong(Violation::Loss(format!("command {command} never started")));
            } else if repeated {
                let what = format!("command {command} finished, but was started {times} times");
                self.wrong(Violation::Repeat(what));
            } else {
                self.outcome.begun_again += times as u64 - 1;
            }
        }
    }
}

/// Everything that agents said, according to the journal, by process: the first process that did
/// the step, the second, and so on. One attempt can have several, if one resume strategy fails and
/// the next one is tried; a process that never named its conversation is known only by its attempt.
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
