//! One disturbed deed: done, disturbed, looked at, repeated, looked at again.

use std::path::Path;

use super::deed::{Deed, Trial};
use super::ground::Ground;
use super::watch::{Watch, told};
use super::{changing, full, together};
use crate::crash::kill::Fault;
use crate::crash::tally::{Counted, go_through};
use crate::crash::trace;
use crate::crash::trial::{FAILPOINTS, Hit, SYSTEM_CALLS, Wrong};
use crate::picture::Picture;
use crate::sandbox::{Said, finish};

/// How a trial went.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What was done, to repeat it.
    pub trial: Trial,
    /// What became of the fault.
    pub hit: Hit,
    /// What is wrong. Nothing, if the promises hold.
    pub wrongs: Vec<Wrong>,
}

impl Counted for Outcome {
    const COLUMNS: &'static [&'static str] = &[
        FAILPOINTS,
        SYSTEM_CALLS,
        "full disks",
        "changing files",
        "at once",
    ];

    fn sort(&self) -> String {
        "checkpoints".to_owned()
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
        let column = match &self.trial {
            Trial::Killed { fault, .. } => match fault {
                Fault::Point { .. } => FAILPOINTS,
                Fault::Syscall { .. } => SYSTEM_CALLS,
            },
            Trial::Full { .. } => "full disks",
            Trial::Changing { .. } => "changing files",
            Trial::Together { .. } => "at once",
        };
        add(column, 1);
    }

    fn point(&self) -> Option<&'static str> {
        match (self.hit, &self.trial) {
            (
                Hit::Segno,
                Trial::Killed {
                    fault: Fault::Point { name, .. },
                    ..
                },
            ) => Some(name),
            _ => None,
        }
    }
}

/// Goes through every trial, `workers` at a time, and tells `heard` of each as it is done.
pub fn attempt_all(
    binary: &Path,
    trials: &[Trial],
    workers: usize,
    heard: impl Fn(&Outcome) + Sync,
) -> Vec<Outcome> {
    // Those of one deed after each other: the ground is made once for all of them.
    let mut trials: Vec<&Trial> = trials.iter().collect();
    trials.sort_by_key(|trial| trial.deed());
    let attempt = |ground: &mut Option<Ground>, trial: &&Trial| {
        let made = ground.take().filter(|made| made.deed == trial.deed());
        let made = made.unwrap_or_else(|| Ground::new(binary, trial.deed()));
        attempt(ground.insert(made), trial)
    };
    go_through(&trials, workers, || None, attempt, heard)
}

/// Disturbs a deed on ground that was made for it; sooner, if that comes too late.
pub fn attempt(ground: &Ground, trial: &Trial) -> Outcome {
    let outcome = once(ground, trial);
    match trial.sooner() {
        Some(sooner) if outcome.is_vain() => attempt(ground, &sooner),
        _ => outcome,
    }
}

fn once(ground: &Ground, trial: &Trial) -> Outcome {
    ground.reset();
    let (hit, mut wrongs) = match trial {
        Trial::Killed { fault, .. } => kill(ground, fault),
        Trial::Full { kib, .. } => full::attempt(ground, *kib),
        Trial::Changing { seed } => (Hit::Segno, changing::attempt(ground, *seed)),
        Trial::Together { seed } => (Hit::Segno, together::attempt(ground, *seed)),
    };
    wrongs.dedup();
    Outcome {
        trial: trial.clone(),
        hit,
        wrongs,
    }
}

fn kill(ground: &Ground, fault: &Fault) -> (Hit, Vec<Wrong>) {
    let sandbox = &ground.sandbox;
    let said = finish(trace::armed(sandbox, fault, &ground.words()));
    let hit = if said.crashed() {
        Hit::Segno
    } else if trace::has_killed(sandbox) {
        Hit::Below
    } else {
        Hit::Missed
    };
    let mut watch = Watch::new(ground);
    if hit != Hit::Segno && !said.status.success() {
        watch.stuck(format!("segno was not killed, and failed: {}", told(&said)));
    }
    settle(&mut watch, &said);
    (hit, watch.wrongs)
}

/// Looks at what a disturbed deed has left behind, repeats it, and looks again.
pub(super) fn settle(watch: &mut Watch<'_>, said: &Said) {
    let ground = watch.ground;
    watch.look(&newcomer(ground, true));
    watch.look_at_target();
    acknowledged(watch, said);
    let newcomer = newcomer(ground, false);
    let before = watch.seen.clone();
    let said = ground.sandbox.segno(&ground.words());
    if !said.status.success() {
        watch.stuck(format!("cannot be repeated: {}", told(&said)));
        return;
    }
    watch.look(&newcomer);
    acknowledged(watch, &said);
    let taken = watch.seen.listed.difference(&before.listed).count();
    if matches!(ground.deed, Deed::First | Deed::Create) && taken != 1 {
        watch.stuck(format!("{taken} checkpoints were taken instead of one"));
    }
    end(watch);
    watch.have_back(&newcomer);
}

/// What a checkpoint that comes with the deed is of: of the workspace, or of what a restore replaces.
fn newcomer(ground: &Ground, is_first: bool) -> Picture {
    match ground.aim() {
        None => ground.folders["work"].clone(),
        Some((_, old, _)) if is_first => old,
        Some((place, ..)) => Picture::of(&place),
    }
}

/// P14: a checkpoint that was told of is there.
fn acknowledged(watch: &mut Watch<'_>, said: &Said) {
    for line in said.stdout.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
        if let Some(id) = line["checkpoint"].as_str()
            && !watch.seen.listed.contains(id)
        {
            watch.loss(format!("{id} was told of and is not listed"));
        }
    }
}

/// Whether the deed has come to what it should.
fn end(watch: &mut Watch<'_>) {
    let ground = watch.ground;
    if let Some((place, _, new)) = ground.aim()
        && let Some(differences) = Picture::of(&place).differences(new)
    {
        watch.damage(format!("the end is another one: {differences}"));
    }
    let taken: Vec<&String> = ground.taken.iter().collect();
    let (listed, pruned): (&[&String], &[&String]) = match ground.deed {
        Deed::Prune => (&taken[2..], &taken[..2]),
        Deed::Undo => (&taken, &[]),
        Deed::Gc => (&taken[4..], &taken[3..4]),
        _ => return,
    };
    let seen = &watch.seen;
    if !seen.listed.iter().eq(listed.iter().copied())
        || !seen.pruned.iter().eq(pruned.iter().copied())
    {
        let what = format!("the end is {seen:?}");
        watch.stuck(what);
    }
    if ground.deed == Deed::Gc {
        swept(watch);
    }
}

/// After two more sweeps nothing is left of what nobody needs, and everything of the rest.
fn swept(watch: &mut Watch<'_>) {
    let ground = watch.ground;
    for _ in 0..2 {
        let said = ground.sandbox.segno(&ground.words());
        if !said.status.success() {
            watch.stuck(format!("cannot be swept: {}", told(&said)));
        }
    }
    let heads = std::fs::read_dir(ground.vault().join("heads")).unwrap();
    let (heads, needed) = (heads.count(), watch.seen.all().len());
    if heads != needed {
        watch.stuck(format!("{heads} snapshots are kept, and {needed} needed"));
    }
}
