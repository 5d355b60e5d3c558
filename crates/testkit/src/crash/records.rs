//! Records of agents' programs under the same faults: while segno puts one in order, brings one back,
//! or writes one for another agent, it is killed at every failpoint on the way.
//!
//! The record is then what it was, or whole; nothing runs; `doctor` finds no damage; and the command,
//! repeated, completes the task: no turn is paid for twice, and the workspace is what an undisturbed run
//! leaves. What was put in order is kept as it was, beside it.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use segno_core::fault::Point;

use super::agents::Scene;
use super::tally::{Counted, go_through};
use super::trial::{FAILPOINTS, Hit, Wrong};
use crate::model::{files, standard, standard_files};
use crate::programs::Agent;
use crate::sandbox::finish;

/// What is done with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// Its last line is torn, and it is put in order.
    Repair,
    /// It is gone, and comes back from a checkpoint.
    Settle,
    /// It is written for the other agent.
    Compose,
}

impl Deed {
    /// Every one there is.
    pub const ALL: [Self; 3] = [Self::Repair, Self::Settle, Self::Compose];

    /// The failpoints on its way.
    const fn points(self) -> &'static [Point] {
        match self {
            Self::Repair => &[
                Point::RecordAfterDraft,
                Point::RecordBeforeSync,
                Point::RecordAfterKeep,
                Point::RecordBeforeRename,
                Point::RecordAfterRename,
            ],
            Self::Settle | Self::Compose => &[
                Point::RecordAfterDraft,
                Point::RecordBeforeSync,
                Point::RecordBeforeRename,
                Point::RecordAfterRename,
            ],
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Repair => "repair",
            Self::Settle => "settle",
            Self::Compose => "compose",
        }
    }
}

/// One kill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// Who was at work.
    pub agent: Agent,
    /// What is done with its record.
    pub deed: Deed,
    /// The failpoint.
    pub point: Point,
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (agent, deed) = (self.agent.word(), self.deed.word());
        write!(f, "record/{agent}/{deed}/{}", self.point.name())
    }
}

impl FromStr for Trial {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown =
            || format!("`{text}` is not record/claude|codex/repair|settle|compose/FAILPOINT");
        let words: Vec<&str> = text.split('/').collect();
        let ["record", agent, deed, point] = words[..] else {
            return Err(unknown());
        };
        let agent = Agent::ALL.into_iter().find(|known| known.word() == agent);
        let deed = Deed::ALL.into_iter().find(|known| known.word() == deed);
        let point = Point::ALL.iter().find(|known| known.name() == point);
        Ok(Self {
            agent: agent.ok_or_else(unknown)?,
            deed: deed.ok_or_else(unknown)?,
            point: point.copied().ok_or_else(unknown)?,
        })
    }
}

/// How it went.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What was done, to repeat it.
    pub trial: Trial,
    hit: Hit,
    replaced: bool,
    wrongs: Vec<Wrong>,
}

impl Counted for Outcome {
    const COLUMNS: &'static [&'static str] =
        &[FAILPOINTS, "left as they were", "replaced before it died"];

    fn sort(&self) -> String {
        format!("records: {}", self.trial.deed.word())
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
        add(FAILPOINTS, 1);
        let column = if self.replaced {
            "replaced before it died"
        } else {
            "left as they were"
        };
        add(column, 1);
    }

    fn point(&self) -> Option<&'static str> {
        (self.hit == Hit::Segno).then(|| self.trial.point.name())
    }
}

/// Every failpoint on the way of every deed with a record.
pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for agent in Agent::ALL {
        for deed in Deed::ALL {
            let trial = |point: &Point| Trial {
                agent,
                deed,
                point: *point,
            };
            trials.extend(deed.points().iter().map(trial));
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

/// An agent that was killed at work, and its record, about to be handled.
struct Ground {
    scene: Scene,
    deed: Deed,
    /// What the record was; none if there was none.
    before: Option<Vec<u8>>,
    /// Where it is.
    place: PathBuf,
}

impl Ground {
    fn new(segno: &Path, agent: Agent, deed: Deed) -> Self {
        let scene = Scene::new(segno, agent, standard());
        let mut run = scene.begin();
        let reached = scene.until(&mut run, |_| {
            scene.stage.signs().contains(&"slow".to_owned())
                && scene.written_down("task", "sleep 1")
        });
        assert!(reached, "the agent does not get to its slow command");
        drop(run);
        scene.is_quiet();
        let (id, _) = scene.opened("task").pop().unwrap();
        let place = agent.record(&scene.stage, &id).unwrap();
        let whole = fs::read(&place).unwrap();
        let before = match deed {
            Deed::Repair => {
                let torn = whole[..whole.len() - 20].to_vec();
                fs::write(&place, &torn).unwrap();
                Some(torn)
            }
            Deed::Settle => {
                scene.segno(&["checkpoint", "create", "task"]).good();
                fs::remove_file(&place).unwrap();
                None
            }
            Deed::Compose => Some(whole),
        };
        Self {
            scene,
            deed,
            before,
            place,
        }
    }

    fn words(&self) -> Vec<&'static str> {
        match (self.deed, self.scene.agent) {
            (Deed::Compose, Agent::Claude) => vec!["handoff", "task", "--to", "codex"],
            (Deed::Compose, Agent::Codex) => vec!["handoff", "task", "--to", "claude"],
            _ => vec!["resume", "task"],
        }
    }

    /// What the agent's record is now.
    fn record(&self) -> Option<Vec<u8>> {
        fs::read(&self.place).ok()
    }
}

/// Kills segno while it handles a record, looks, and lets the work go on.
pub fn attempt(segno: &Path, trial: &Trial) -> Outcome {
    let ground = Ground::new(segno, trial.agent, trial.deed);
    let scene = &ground.scene;
    let mut command = scene.command(&ground.words());
    command.env("SEGNO_FAILPOINT", trial.point.name());
    let said = finish(command);
    let hit = if said.crashed() {
        Hit::Segno
    } else {
        Hit::Missed
    };
    let mut outcome = Outcome {
        trial: trial.clone(),
        hit,
        replaced: false,
        wrongs: Vec::new(),
    };
    if hit == Hit::Missed {
        outcome
            .wrongs
            .push(Wrong::Stuck(format!("it was not killed: {said:?}")));
        return outcome;
    }
    scene.is_quiet();
    look(&ground, &mut outcome);
    go_on(&ground, &mut outcome);
    outcome
}

/// The record is what it was, or whole.
fn look(ground: &Ground, outcome: &mut Outcome) {
    let now = ground.record();
    outcome.replaced = now != ground.before;
    if outcome.replaced && !now.as_deref().is_some_and(is_whole) {
        let what = format!(
            "the record is neither old nor whole: {}",
            ground.place.display()
        );
        outcome.wrongs.push(Wrong::Damage(what));
    }
    if outcome.replaced && ground.deed == Deed::Repair && kept(ground) != ground.before {
        let what = "what the record was is not kept beside it".to_owned();
        outcome.wrongs.push(Wrong::Loss(what));
    }
    let doctor = ground.scene.segno(&["doctor"]);
    if !doctor.status.success() {
        let what = format!("doctor: {}{}", doctor.stdout, doctor.stderr);
        outcome.wrongs.push(Wrong::Damage(what));
    }
}

/// The same command, repeated, completes the task, and costs nothing twice.
fn go_on(ground: &Ground, outcome: &mut Outcome) {
    let scene = &ground.scene;
    let said = scene.segno(&ground.words());
    if !said.status.success() || scene.status() != "completed" {
        let what = format!("cannot be repeated: {said:?}");
        outcome.wrongs.push(Wrong::Stuck(what));
    }
    let left = files(&scene.stage.work());
    if left != standard_files() {
        let what = format!("the workspace is {left:?}");
        outcome.wrongs.push(Wrong::Damage(what));
    }
    let paid = scene.server.paid("standard");
    if !paid.iter().copied().eq(0..standard().turns()) {
        let what = format!("turns were paid for as {paid:?}");
        outcome.wrongs.push(Wrong::Repeat(what));
    }
    for pid in scene.orphans() {
        outcome.wrongs.push(Wrong::Orphan(pid));
    }
    let drafts = below(scene.stage.root(), &|path| {
        path.extension().is_some_and(|end| end == "segno-draft")
    });
    if let Some(draft) = drafts.first() {
        let what = format!("{} is left", draft.display());
        outcome.wrongs.push(Wrong::Damage(what));
    }
}

/// Whether every line is JSON, and ended.
fn is_whole(record: &[u8]) -> bool {
    let is_json = |line: &[u8]| serde_json::from_slice::<serde_json::Value>(line).is_ok();
    record
        .strip_suffix(b"\n")
        .is_some_and(|record| record.split(|byte| *byte == b'\n').all(is_json))
}

/// What a record was before it was put in order.
fn kept(ground: &Ground) -> Option<Vec<u8>> {
    fs::read(ground.place.with_extension("jsonl.before-repair-1")).ok()
}

/// The files below a folder that are wanted.
fn below(folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(below(&path, wanted));
        } else if wanted(&path) {
            found.push(path);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_is_read_back_from_its_words() {
        for trial in trials() {
            assert_eq!(trial.to_string().parse::<Trial>().unwrap(), trial);
        }
        "record/claude/repair/run.nowhere"
            .parse::<Trial>()
            .unwrap_err();
    }
}
