//! One strike: work is begun, struck, gone on with, and looked at.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::thread;
use std::time::Duration;

use super::ledger::said_first;
use super::scene::{Run, Scene, send};
use super::strike::{Blow, COMMANDS, Moment, Strike, Victim};
use crate::crash::trial::{Hit, Wrong};
use crate::model::{Ending, Purpose, drafts, files, standard, standard_files};

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
    /// Files that the program was about to put in the place of others, and left behind.
    pub drafts: u64,
    /// Processes that were left running.
    pub orphans: u64,
    /// What is wrong. Nothing, if the promises hold.
    pub wrongs: Vec<Wrong>,
}

impl Outcome {
    fn new(strike: &Strike) -> Self {
        Self {
            strike: *strike,
            hit: Hit::Missed,
            rungs: Vec::new(),
            in_flight: 0,
            last_again: 0,
            begun_again: 0,
            mended: 0,
            drafts: 0,
            orphans: 0,
            wrongs: Vec::new(),
        }
    }

    /// Whether every promise held.
    pub fn is_good(&self) -> bool {
        self.wrongs.is_empty() && self.orphans == 0
    }
}

/// Strikes as told, on a scene of its own, and lets the work go on. A strike that comes when all is done
/// is tried again in half the time.
pub fn attempt(segno: &Path, strike: &Strike) -> Outcome {
    let mut strike = *strike;
    loop {
        let outcome = once(segno, &strike);
        let sooner = strike.moment.sooner();
        if outcome.hit != Hit::Missed || !outcome.is_good() || sooner == strike.moment {
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
    let mut run = scene.begin();
    let done = trial.strike(&mut run);
    trial.go_on();
    trial.look(&done);
    trial.outcome
}

pub(super) struct Trial<'a> {
    pub(super) scene: &'a Scene,
    pub(super) outcome: Outcome,
}

impl Trial<'_> {
    pub(super) fn wrong(&mut self, wrong: Wrong) {
        self.outcome.wrongs.push(wrong);
    }

    /// Waits for the moment, strikes, and waits until segno has ended. Returns the commands that were
    /// done before.
    fn strike(&mut self, run: &mut Run) -> BTreeSet<String> {
        let strike = self.outcome.strike;
        let struck = self.wait_for(run, strike.moment);
        let done = self.done();
        let struck = struck
            && match strike.victim {
                Victim::Segno => !run.is_over() && send(run.id(), strike.blow.signal()),
                Victim::Program => {
                    let program = self.scene.program();
                    program.is_some_and(|pid| send(pid, strike.blow.signal()))
                }
            };
        if struck && (strike.victim, strike.blow) == (Victim::Segno, Blow::Interrupt) {
            let heard = |run: &Run| run.told().contains("stopping after this step");
            if self.scene.until(run, heard) {
                send(run.id(), strike.blow.signal());
            }
        }
        let ended = run.end();
        if struck {
            self.judge_end(ended, run);
        } else if !ended.success() {
            let what = format!("nobody was struck, and it failed: {ended} {}", run.told());
            self.wrong(Wrong::Stuck(what));
        }
        let left = self.scene.orphans();
        self.outcome.orphans += left.len() as u64;
        done
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
    fn judge_end(&mut self, ended: ExitStatus, run: &Run) {
        let Strike { victim, blow, .. } = self.outcome.strike;
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
        self.outcome.hit = hit;
        if !fine {
            let what = format!("segno ended with {ended}, {status}: {}", run.told());
            self.wrong(Wrong::Stuck(what));
        }
    }

    /// Resumes until it is completed.
    fn go_on(&mut self) {
        let mut told = String::new();
        for _ in 0..RESUMES {
            if self.scene.status() == "completed" {
                return;
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
    }

    /// Compares with what an undisturbed run leaves.
    fn look(&mut self, done: &BTreeSet<String>) {
        let work = self.scene.stage.work();
        let left = files(&work);
        self.outcome.drafts = drafts(&work) as u64;
        if left != standard_files() {
            self.wrong(Wrong::Damage(format!("the workspace is {left:?}")));
        }
        let left = self.scene.orphans();
        self.outcome.orphans += left.len() as u64;
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
        let known = said_first(&journal);
        self.count_rungs(&known);
        self.count_turns(&known);
        self.count_commands(done);
        self.outcome.mended = self.scene.server.mended("standard").len() as u64;
    }

    /// The commands that are done.
    fn done(&self) -> BTreeSet<String> {
        let log = files(&self.scene.stage.work()).remove("log.txt");
        let log = log.unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }
}
