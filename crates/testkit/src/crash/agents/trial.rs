//! One strike: work is begun, struck, gone on with, and looked at.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::thread;
use std::time::Duration;

use super::scene::{Run, Scene, send};
use super::strike::{Again, Blow, COMMANDS, Moment, Strike, Victim};
use crate::crash::tally::{Counted, go_through};
use crate::crash::trial::{Hit, Wrong};
use crate::model::{Ending, Purpose, drafts, files, standard};

/// How often it may take a resume to get to the end.
pub const RESUMES: usize = 3;

/// The pause between the pieces of an answer that is sent slowly.
const SLOWLY: Duration = Duration::from_millis(15);

/// How a strike went.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What was done at last, to repeat it.
    pub strike: Strike,
    /// What became of it.
    pub hit: Hit,
    /// How often somebody was hit.
    pub struck: u64,
    /// By which rungs the work went on, in order.
    pub rungs: Vec<String>,
    /// Turns that were on their way when it struck, and were paid for again.
    pub in_flight: u64,
    /// Last turns that had been said, by a program that had not ended, and were paid for again.
    pub last_again: u64,
    /// Commands that were cut off and begun again.
    pub begun_again: u64,
    /// Turns whose calls the model had to look after, since their outcome was unknown.
    pub mended: u64,
    /// Conversations that were given up because their program died before it said anything.
    pub gave_up: u64,
    /// Files that the program was about to put in the place of others, and left behind.
    pub drafts: u64,
    /// What is wrong. Nothing, if the promises hold.
    pub wrongs: Vec<Wrong>,
}

impl Outcome {
    fn new(strike: &Strike) -> Self {
        Self {
            strike: *strike,
            hit: Hit::Missed,
            struck: 0,
            rungs: Vec::new(),
            in_flight: 0,
            last_again: 0,
            begun_again: 0,
            mended: 0,
            gave_up: 0,
            drafts: 0,
            wrongs: Vec::new(),
        }
    }

    /// Whether every promise held.
    pub fn is_good(&self) -> bool {
        self.wrongs.is_empty()
    }
}

impl Counted for Outcome {
    const COLUMNS: &'static [&'static str] = &[
        "struck again",
        "completed",
        "natively",
        "repaired",
        "compiled",
        "otherwise",
        "turns in flight paid again",
        "last words said again",
        "commands cut off and begun again",
        "turns looked after",
        "conversations given up",
        "drafts of files left",
    ];

    fn sort(&self) -> String {
        let Strike {
            agent, blow, again, ..
        } = self.strike;
        let what = again.map_or(blow.name(), |_| "struck twice");
        format!("agents: {} {what}", agent.word())
    }

    fn words(&self) -> String {
        self.strike.to_string()
    }

    fn hit(&self) -> Hit {
        self.hit
    }

    fn wrongs(&self) -> &[Wrong] {
        &self.wrongs
    }

    fn count(&self, add: &mut dyn FnMut(&'static str, u64)) {
        let is_stuck = |wrong: &Wrong| matches!(wrong, Wrong::Stuck(_));
        add("struck again", self.struck.saturating_sub(1));
        add("completed", u64::from(!self.wrongs.iter().any(is_stuck)));
        for rung in &self.rungs {
            let column = match rung.as_str() {
                "native" => "natively",
                "repaired" => "repaired",
                "compiled" => "compiled",
                _ => "otherwise",
            };
            add(column, 1);
        }
        add("turns in flight paid again", self.in_flight);
        add("last words said again", self.last_again);
        add("commands cut off and begun again", self.begun_again);
        add("turns looked after", self.mended);
        add("conversations given up", self.gave_up);
        add("drafts of files left", self.drafts);
    }
}

/// Goes through every strike, `workers` at a time, and tells `heard` of each as it is done.
pub fn attempt_all(
    segno: &Path,
    strikes: &[Strike],
    workers: usize,
    heard: impl Fn(&Outcome) + Sync,
) -> Vec<Outcome> {
    let attempt = |(): &mut (), strike: &Strike| attempt(segno, strike);
    go_through(strikes, workers, || (), attempt, heard)
}

/// Strikes as told, on a scene of its own, and lets the work go on. A strike that comes when all is done
/// is tried again in half the time.
pub fn attempt(segno: &Path, strike: &Strike) -> Outcome {
    let mut strike = *strike;
    loop {
        let outcome = once(segno, &strike);
        let sooner = strike.moment.sooner();
        if !outcome.is_vain() || sooner == strike.moment {
            return outcome;
        }
        strike.moment = sooner;
    }
}

fn once(segno: &Path, strike: &Strike) -> Outcome {
    let script = match strike.moment {
        Moment::Stream { .. } => standard().slowly(SLOWLY),
        _ => standard(),
    };
    let scene = Scene::new(segno, strike.agent, script);
    let mut trial = Trial {
        scene: &scene,
        outcome: Outcome::new(strike),
    };
    let seen = vec![trial.strike(&mut scene.begin(), strike.first())];
    let seen = trial.go_on(seen);
    trial.look(&seen);
    trial.outcome
}

/// What commands had come to when it struck.
pub(super) struct Seen {
    /// Those that were done.
    pub(super) done: BTreeSet<String>,
    /// Those that had begun, each as often as it had.
    pub(super) begun: Vec<String>,
}

pub(super) struct Trial<'a> {
    pub(super) scene: &'a Scene,
    pub(super) outcome: Outcome,
}

impl Trial<'_> {
    pub(super) fn wrong(&mut self, wrong: Wrong) {
        self.outcome.wrongs.push(wrong);
    }

    /// Waits for the moment, strikes, and waits until segno has ended. Returns what was seen just
    /// before.
    fn strike(&mut self, run: &mut Run, with: Again) -> Seen {
        let Again {
            victim,
            blow,
            moment,
        } = with;
        let struck = self.wait_for(run, moment);
        let seen = Seen {
            done: self.done(),
            begun: self.scene.stage.signs(),
        };
        let struck = struck
            && match victim {
                Victim::Segno => !run.is_over() && send(run.id(), blow.signal()),
                Victim::Program => {
                    let program = self.scene.program();
                    program.is_some_and(|pid| send(pid, blow.signal()))
                }
            };
        if struck && (victim, blow) == (Victim::Segno, Blow::Interrupt) {
            let heard = |run: &Run| run.told().contains("stopping after this step");
            if self.scene.until(run, heard) {
                send(run.id(), blow.signal());
            }
        }
        let ended = run.end();
        if struck {
            self.judge_end(ended, run, with);
        } else if !ended.success() {
            let what = format!("nobody was struck, and it failed: {ended} {}", run.told());
            self.wrong(Wrong::Stuck(what));
        }
        self.count_orphans();
        seen
    }

    fn wait_for(&self, run: &mut Run, moment: Moment) -> bool {
        let scene = self.scene;
        let turn_is = |turn: usize, is: fn(Ending) -> bool| {
            let answers = scene.server.answers();
            answers.iter().any(|answer| {
                matches!(&answer.purpose, Purpose::Turn { turn: at, .. } if *at == turn)
                    && is(answer.ending)
            })
        };
        let (come, ms) = match moment {
            Moment::Stream { turn, ms } => (scene.until(run, |_| turn_is(turn, |_| true)), ms),
            Moment::Between { turn, ms } => {
                let whole = |ending| ending == Ending::Whole;
                (scene.until(run, |_| turn_is(turn, whole)), ms)
            }
            Moment::Tool { command, ms } => {
                let sign = COMMANDS[command].to_owned();
                (
                    scene.until(run, |_| scene.stage.signs().contains(&sign)),
                    ms,
                )
            }
            Moment::Opened { ms } => {
                let opened = |run: &Run| run.said().contains("\"agent_opened\"");
                (scene.until(run, opened), ms)
            }
            Moment::Random { ms } => (scene.until(run, |_| scene.program().is_some()), ms),
        };
        thread::sleep(Duration::from_millis(ms));
        come
    }

    /// Whether segno ended as it should after this.
    fn judge_end(&mut self, ended: ExitStatus, run: &Run, with: Again) {
        let Again { victim, blow, .. } = with;
        let status = self.scene.status();
        let (hit, fine) = match victim {
            // The work was done before it struck.
            Victim::Segno if status == "completed" => (Hit::Missed, true),
            Victim::Segno => {
                let signal = Some(blow.signal().as_raw());
                // A signal that comes before segno listens ends it as it ends any program.
                let unheard = ended.signal() == signal && status == "interrupted";
                let orderly = match blow {
                    Blow::Kill => false,
                    Blow::Terminate => ended.code() == Some(143) && status == "interrupted",
                    Blow::Interrupt => ended.code() == Some(130) && status == "paused",
                };
                (Hit::Segno, unheard || orderly)
            }
            Victim::Program => {
                let ends = ["completed", "failed"];
                (Hit::Below, ends.contains(&status.as_str()))
            }
        };
        if with == self.outcome.strike.first() && self.outcome.struck == 0 {
            self.outcome.hit = hit;
        }
        self.outcome.struck += u64::from(hit != Hit::Missed);
        if !fine {
            let what = format!("segno ended with {ended}, {status}: {}", run.told());
            self.wrong(Wrong::Stuck(what));
        }
    }

    /// Resumes until it is completed. The first resume may be struck as well.
    fn go_on(&mut self, mut seen: Vec<Seen>) -> Vec<Seen> {
        let mut told = String::new();
        if let Some(again) = self.outcome.strike.again
            && self.scene.status() != "completed"
        {
            let mut run = self.scene.start(&["resume", "task", "--json"]);
            seen.push(self.strike(&mut run, again));
        }
        for _ in 0..RESUMES {
            if self.scene.status() == "completed" {
                return seen;
            }
            let mut run = self.scene.start(&["resume", "task"]);
            let ended = run.end();
            told = format!("{ended}: {}", run.told());
        }
        let status = self.scene.status();
        if status != "completed" {
            let what = format!("after {RESUMES} resumes it is {status}; {told}");
            self.wrong(Wrong::Stuck(what));
        }
        seen
    }

    /// Compares with what an undisturbed run leaves.
    fn look(&mut self, seen: &[Seen]) {
        let work = self.scene.stage.work();
        let left = files(&work);
        self.outcome.drafts = drafts(&work) as u64;
        if !self.is_whole(&left) {
            self.wrong(Wrong::Damage(format!("the workspace is {left:?}")));
        }
        self.count_orphans();
        let doctor = self.scene.segno(&["doctor"]);
        if !doctor.status.success() {
            let what = format!("doctor: {}{}", doctor.stdout, doctor.stderr);
            self.wrong(Wrong::Damage(what));
        }
        let journal = self.scene.journal();
        let finished = journal.iter().filter(|(kind, _)| kind == "step_finished");
        let finished = finished.count();
        if finished != 1 {
            self.wrong(Wrong::Loss(format!("{finished} steps are finished")));
        }
        let opened = journal.iter().filter(|(kind, _)| kind == "agent_opened");
        let rungs = opened.filter_map(|(_, body)| body["rung"].as_str().map(str::to_owned));
        self.outcome.rungs = rungs.collect();
        // A program that has answered and is about to end may not care any more.
        if self.outcome.hit == Hit::Below && self.outcome.rungs.is_empty() {
            self.outcome.hit = Hit::Missed;
        }
        self.count_rungs(&journal);
        self.count_turns(&journal);
        self.count_commands(seen);
        self.outcome.mended = self.scene.server.mended("standard").len() as u64;
    }

    fn count_orphans(&mut self) {
        for pid in self.scene.orphans() {
            self.wrong(Wrong::Orphan(pid));
        }
    }

    /// The commands that are done. Nothing else is looked at: the program is still at work, and files
    /// come and go under it.
    fn done(&self) -> BTreeSet<String> {
        let log = std::fs::read_to_string(self.scene.stage.work().join("log.txt"));
        let log = log.unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }
}
