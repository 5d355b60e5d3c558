//! Hooks under the same faults: `hooks install` and `hooks uninstall` are killed at every
//! write-like system call. The settings belong to the user: they must be in the old or the new
//! state, complete, with the hooks of others in them; the command can be repeated; and uninstalling
//! restores every byte.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{fmt, fs};

use super::kill::Fault;
use super::tally::{Counted, run_jobs};
use super::trace::{self, Profile};
use super::trial::{Hit, SYSTEM_CALLS, Violation};
use crate::programs::Agent;
use crate::sandbox::{Sandbox, run_to_end};

/// Foreign settings, in a layout that no serializer would reproduce.
const THEIRS: &str = "{\n\t\"model\": \"opus\",\n  \"hooks\" : { \"Stop\": [ {\"hooks\": [{\"type\":\"command\",\"command\":\"echo theirs\"}]} ] },\n   \"x\": [1,\n2]\n}";

/// A hook command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Install,
    Uninstall,
}

impl Operation {
    pub const ALL: [Self; 2] = [Self::Install, Self::Uninstall];

    const fn word(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Uninstall => "uninstall",
        }
    }
}

/// One kill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// Whose settings.
    pub agent: Agent,
    pub operation: Operation,
    pub fault: Fault,
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (agent, operation) = (self.agent.cli_name(), self.operation.word());
        write!(f, "hooks/{agent}/{operation}/{}", self.fault)
    }
}

impl FromStr for Trial {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("`{text}` is not hooks/claude|codex/install|uninstall/FAULT");
        let words: Vec<&str> = text.splitn(4, '/').collect();
        let ["hooks", agent, operation, fault] = words[..] else {
            return Err(unknown());
        };
        let agent = Agent::ALL
            .into_iter()
            .find(|known| known.cli_name() == agent);
        let operation = Operation::ALL
            .into_iter()
            .find(|known| known.word() == operation);
        Ok(Self {
            agent: agent.ok_or_else(unknown)?,
            operation: operation.ok_or_else(unknown)?,
            fault: fault.parse().map_err(|_| unknown())?,
        })
    }
}

/// The result of a trial.
#[derive(Debug, Clone)]
pub struct Outcome {
    trial: Trial,
    hit: Hit,
    violations: Vec<Violation>,
}

impl Counted for Outcome {
    const COLUMNS: &'static [&'static str] = &[SYSTEM_CALLS];

    fn group(&self) -> String {
        "hooks".to_owned()
    }

    fn notation(&self) -> String {
        self.trial.to_string()
    }

    fn hit(&self) -> Hit {
        self.hit
    }

    fn violations(&self) -> &[Violation] {
        &self.violations
    }

    fn count(&self, add: &mut dyn FnMut(&'static str, u64)) {
        add(SYSTEM_CALLS, 1);
    }
}

/// The settings of an agent, and the binary.
struct Fixture {
    sandbox: Sandbox,
    agent: Agent,
}

impl Fixture {
    fn new(segno: &Path, agent: Agent, operation: Operation) -> Self {
        let sandbox = Sandbox::in_memory(segno);
        let fixture = Self { sandbox, agent };
        fs::create_dir(fixture.folder()).unwrap();
        fs::write(fixture.file(), THEIRS).unwrap();
        if operation == Operation::Uninstall {
            fixture
                .sandbox
                .segno(&fixture.args(Operation::Install))
                .expect_success();
        }
        fixture
    }

    fn folder(&self) -> PathBuf {
        let home = self.sandbox.work().parent().unwrap().to_owned();
        home.join(format!(".{}", self.agent.cli_name()))
    }

    fn file(&self) -> PathBuf {
        self.folder().join(match self.agent {
            Agent::Claude => "settings.json",
            Agent::Codex => "hooks.json",
        })
    }

    fn args(&self, operation: Operation) -> [&'static str; 4] {
        ["agents", "hooks", operation.word(), self.agent.cli_name()]
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap_or_default()
    }
}

/// A kill at every write-like system call of the hook commands.
pub fn trials(segno: &Path) -> Vec<Trial> {
    let mut trials = Vec::new();
    for agent in Agent::ALL {
        for operation in Operation::ALL {
            let fixture = Fixture::new(segno, agent, operation);
            let profile = Profile::trace(&fixture.sandbox, &fixture.args(operation));
            let (faults, _) = profile.faults();
            trials.extend(faults.into_iter().map(|fault| Trial {
                agent,
                operation,
                fault,
            }));
        }
    }
    trials
}

/// Executes every kill, `workers` at a time, and passes each outcome to `report`.
pub fn attempt_all(
    segno: &Path,
    trials: &[Trial],
    workers: usize,
    report: impl Fn(&Outcome) + Sync,
) -> Vec<Outcome> {
    let attempt = |(): &mut (), trial: &Trial| attempt(segno, trial);
    run_jobs(trials, workers, || (), attempt, report)
}

/// Kills a command, checks the settings, repeats it, and uninstalls the hooks.
pub fn attempt(segno: &Path, trial: &Trial) -> Outcome {
    let Trial {
        agent,
        operation,
        fault,
    } = trial;
    let fixture = Fixture::new(segno, *agent, *operation);
    let before = fixture.text();
    let words = fixture.args(*operation);
    let said = run_to_end(trace::command_with_fault(&fixture.sandbox, fault, &words));
    let hit = if said.crashed() {
        Hit::Segno
    } else {
        Hit::Missed
    };
    let mut wrongs = Vec::new();
    let left = fixture.text();
    let again = fixture.sandbox.segno(&words);
    if !again.status.success() {
        wrongs.push(Violation::Stuck(format!(
            "the command cannot be repeated: {again:?}"
        )));
    }
    let after = fixture.text();
    if left != before && left != after {
        wrongs.push(Violation::Damage(format!("the settings were {left:?}")));
    }
    if !after.contains("echo theirs") || !left.contains("echo theirs") {
        wrongs.push(Violation::Loss(
            "hooks of other programs were lost".to_owned(),
        ));
    }
    let is_in = after.contains("__hook");
    if is_in != (*operation == Operation::Install) {
        wrongs.push(Violation::Stuck(format!("the settings are {after:?}")));
    }
    let out = fixture.sandbox.segno(&fixture.args(Operation::Uninstall));
    if !out.status.success() || fixture.text() != THEIRS {
        let text = fixture.text();
        wrongs.push(Violation::Damage(format!(
            "after the uninstall the settings are {text:?}"
        )));
    }
    let others = fs::read_dir(fixture.folder()).unwrap().flatten();
    let others: Vec<PathBuf> = others.map(|entry| entry.path()).collect();
    if others != [fixture.file()] {
        wrongs.push(Violation::Damage(format!("{others:?} are left")));
    }
    Outcome {
        trial: trial.clone(),
        hit,
        violations: wrongs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kill_notation_round_trips() {
        let words = "hooks/codex/uninstall/main.rename:1";
        assert_eq!(words.parse::<Trial>().unwrap().to_string(), words);
        "hooks/gemini/install/main.rename:1"
            .parse::<Trial>()
            .unwrap_err();
    }
}
