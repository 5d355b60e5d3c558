//! Hooks under the same faults: `hooks install` and `hooks uninstall` are killed at every write-like
//! system call. The settings are a person's: they are what they were or what they should become, whole,
//! with the hooks of others in them; the command can be repeated; and taking the hooks out gives back
//! every byte.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::kill::Fault;
use super::tally::{Counted, go_through};
use super::trace::{self, Profile};
use super::trial::{Hit, SYSTEM_CALLS, Wrong};
use crate::programs::Agent;
use crate::sandbox::{Sandbox, finish};

/// What somebody else has in the settings, laid out as nobody would write it again.
const THEIRS: &str = "{\n\t\"model\": \"opus\",\n  \"hooks\" : { \"Stop\": [ {\"hooks\": [{\"type\":\"command\",\"command\":\"echo theirs\"}]} ] },\n   \"x\": [1,\n2]\n}";

/// A command about hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// They are put in.
    Install,
    /// They are taken out.
    Uninstall,
}

impl Deed {
    /// Both.
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
    /// What is done to them.
    pub deed: Deed,
    /// Where it is killed.
    pub fault: Fault,
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (agent, deed) = (self.agent.word(), self.deed.word());
        write!(f, "hooks/{agent}/{deed}/{}", self.fault)
    }
}

impl FromStr for Trial {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("`{text}` is not hooks/claude|codex/install|uninstall/FAULT");
        let words: Vec<&str> = text.splitn(4, '/').collect();
        let ["hooks", agent, deed, fault] = words[..] else {
            return Err(unknown());
        };
        let agent = Agent::ALL.into_iter().find(|known| known.word() == agent);
        let deed = Deed::ALL.into_iter().find(|known| known.word() == deed);
        Ok(Self {
            agent: agent.ok_or_else(unknown)?,
            deed: deed.ok_or_else(unknown)?,
            fault: fault.parse().map_err(|_| unknown())?,
        })
    }
}

/// How it went.
#[derive(Debug, Clone)]
pub struct Outcome {
    trial: Trial,
    hit: Hit,
    wrongs: Vec<Wrong>,
}

impl Counted for Outcome {
    const COLUMNS: &'static [&'static str] = &[SYSTEM_CALLS];

    fn sort(&self) -> String {
        "hooks".to_owned()
    }

    fn words(&self) -> String {
        self.trial.to_string()
    }

    fn hit(&self) -> Hit {
        self.hit
    }

    fn wrongs(&self) -> &[Wrong] {
        &self.wrongs
    }

    fn count(&self, add: &mut dyn FnMut(&'static str, u64)) {
        add(SYSTEM_CALLS, 1);
    }
}

/// The settings of an agent, and the binary.
struct Ground {
    sandbox: Sandbox,
    agent: Agent,
}

impl Ground {
    fn new(segno: &Path, agent: Agent, deed: Deed) -> Self {
        let sandbox = Sandbox::in_memory(segno);
        let ground = Self { sandbox, agent };
        fs::create_dir(ground.folder()).unwrap();
        fs::write(ground.file(), THEIRS).unwrap();
        if deed == Deed::Uninstall {
            ground.sandbox.segno(&ground.words(Deed::Install)).good();
        }
        ground
    }

    fn folder(&self) -> PathBuf {
        let home = self.sandbox.work().parent().unwrap().to_owned();
        home.join(format!(".{}", self.agent.word()))
    }

    fn file(&self) -> PathBuf {
        self.folder().join(match self.agent {
            Agent::Claude => "settings.json",
            Agent::Codex => "hooks.json",
        })
    }

    fn words(&self, deed: Deed) -> [&'static str; 3] {
        ["hooks", deed.word(), self.agent.word()]
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap_or_default()
    }
}

/// A kill at every write-like system call of a command about hooks.
pub fn trials(segno: &Path) -> Vec<Trial> {
    let mut trials = Vec::new();
    for agent in Agent::ALL {
        for deed in Deed::ALL {
            let ground = Ground::new(segno, agent, deed);
            let profile = Profile::trace(&ground.sandbox, &ground.words(deed));
            let (faults, _) = profile.faults();
            trials.extend(faults.into_iter().map(|fault| Trial { agent, deed, fault }));
        }
    }
    trials
}

/// Tries every kill, `workers` at a time, and tells `heard` of each as it is done.
pub fn attempt_all(
    segno: &Path,
    trials: &[Trial],
    workers: usize,
    heard: impl Fn(&Outcome) + Sync,
) -> Vec<Outcome> {
    let attempt = |(): &mut (), trial: &Trial| attempt(segno, trial);
    go_through(trials, workers, || (), attempt, heard)
}

/// Kills a command, looks at the settings, repeats it, and takes everything out again.
pub fn attempt(segno: &Path, trial: &Trial) -> Outcome {
    let Trial { agent, deed, fault } = trial;
    let ground = Ground::new(segno, *agent, *deed);
    let before = ground.text();
    let words = ground.words(*deed);
    let said = finish(trace::armed(&ground.sandbox, fault, &words));
    let hit = if said.crashed() {
        Hit::Segno
    } else {
        Hit::Missed
    };
    let mut wrongs = Vec::new();
    let left = ground.text();
    let again = ground.sandbox.segno(&words);
    if !again.status.success() {
        wrongs.push(Wrong::Stuck(format!("cannot be repeated: {again:?}")));
    }
    let after = ground.text();
    if left != before && left != after {
        wrongs.push(Wrong::Damage(format!("the settings were {left:?}")));
    }
    if !after.contains("echo theirs") || !left.contains("echo theirs") {
        wrongs.push(Wrong::Loss("the hooks of others are gone".to_owned()));
    }
    let is_in = after.contains("__hook");
    if is_in != (*deed == Deed::Install) {
        wrongs.push(Wrong::Stuck(format!("the settings are {after:?}")));
    }
    let out = ground.sandbox.segno(&ground.words(Deed::Uninstall));
    if !out.status.success() || ground.text() != THEIRS {
        let text = ground.text();
        wrongs.push(Wrong::Damage(format!("taken out they are {text:?}")));
    }
    let others = fs::read_dir(ground.folder()).unwrap().flatten();
    let others: Vec<PathBuf> = others.map(|entry| entry.path()).collect();
    if others != [ground.file()] {
        wrongs.push(Wrong::Damage(format!("{others:?} are left")));
    }
    Outcome {
        trial: trial.clone(),
        hit,
        wrongs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_is_read_back_from_its_words() {
        let words = "hooks/codex/uninstall/main.rename:1";
        assert_eq!(words.parse::<Trial>().unwrap().to_string(), words);
        "hooks/gemini/install/main.rename:1"
            .parse::<Trial>()
            .unwrap_err();
    }
}
