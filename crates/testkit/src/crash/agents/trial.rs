//! Executes one strike: starts the work, strikes, resumes, and checks the result.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::thread;
use std::time::Duration;

use super::scene::{Run, StepFixture, send};
use super::strike::{Again, COMMANDS, Strike, StrikeSignal, StrikeTime, Victim};
use crate::crash::tally::{Counted, run_jobs};
use crate::crash::trial::{Hit, Violation};
use crate::model::{Ending, Purpose, drafts, files, standard};

/// How many resumes it may take to complete the session.
pub const RESUMES: usize = 3;

/// The pause between the pieces of an answer that is sent slowly.
const CHUNK_PAUSE: Duration = Duration::from_millis(15);

/// The result of a strike.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The strike that was executed last, to repeat it.
    pub strike: Strike,
    /// What the strike hit.
    pub hit: Hit,
    /// How many strikes hit a process.
    pub struck: u64,
    /// The resume strategies that were used, in order.
    pub strategies: Vec<String>,
    /// Turns that were in flight when the strike came, and were paid for again.
    pub in_flight: u64,
    /// Last turns of a process that had not ended, which were paid for again.
    pub last_again: u64,
    /// Commands that were cut off and started again.
    pub begun_again: u64,
    /// Turns whose calls the model had to check, since their outcome was unknown.
    pub repaired_turns: u64,
    /// Intact conversations that were given up.
    pub gave_up: u64,
    /// Obstacles that a resume met.
    pub obstacles: u64,
    /// Resumes that used the strategy that the plan before had announced, and those that did not.
    pub as_announced: u64,
    pub otherwise_announced: u64,
    /// Resumes that used another strategy where the plan had said that only the agent can tell.
    pub announced_unexamined: u64,
    /// How often two agents worked at once.
    pub two_agents: u64,
    /// Temporary files that the agent was about to rename, and left behind.
    pub drafts: u64,
    /// The violations found; empty if all guarantees hold.
    pub violations: Vec<Violation>,
}

impl Outcome {
    fn new(strike: &Strike) -> Self {
        Self {
            strike: *strike,
            hit: Hit::Missed,
            struck: 0,
            strategies: Vec::new(),
            in_flight: 0,
            last_again: 0,
            begun_again: 0,
            repaired_turns: 0,
            gave_up: 0,
            obstacles: 0,
            as_announced: 0,
            otherwise_announced: 0,
            announced_unexamined: 0,
            two_agents: 0,
            drafts: 0,
            violations: Vec::new(),
        }
    }

    /// Whether all guarantees hold.
    pub fn is_good(&self) -> bool {
        self.violations.is_empty()
    }
}

impl Counted for Outcome {
    const COLUMNS: &'static [&'static str] = &[
        "struck again",
        "completed",
        "natively",
        "repaired",
        "restored",
        "summarized",
        "otherwise",
        "turns in flight repeated",
        "last messages repeated",
        "interrupted commands restarted",
        "turns repaired",
        "intact conversations given up",
        "obstacles met",
        "strategies as announced",
        "strategies otherwise",
        "only the agent could tell",
        "two agents at once",
        "file drafts left",
    ];

    fn group(&self) -> String {
        let Strike {
            strike_signal,
            again,
            obstacle,
            victim,
            ..
        } = self.strike;
        let guard = matches!(victim, Victim::Guard | Victim::SegnoAndGuard);
        let what = match again {
            Some(_) => "struck twice",
            None if obstacle.is_some() || guard => "with obstacles",
            None => strike_signal.name(),
        };
        format!("agents: {} {what}", self.strike.agent_name())
    }

    fn notation(&self) -> String {
        self.strike.to_string()
    }

    fn hit(&self) -> Hit {
        self.hit
    }

    fn violations(&self) -> &[Violation] {
        &self.violations
    }

    fn count(&self, add: &mut dyn FnMut(&'static str, u64)) {
        let is_stuck = |wrong: &Violation| matches!(wrong, Violation::Stuck(_));
        add("struck again", self.struck.saturating_sub(1));
        add(
            "completed",
            u64::from(!self.violations.iter().any(is_stuck)),
        );
        for strategy in &self.strategies {
            let column = match strategy.as_str() {
                "native" => "natively",
                "repaired" => "repaired",
                "restored" => "restored",
                "summarized" => "summarized",
                _ => "otherwise",
            };
            add(column, 1);
        }
        add("turns in flight repeated", self.in_flight);
        add("last messages repeated", self.last_again);
        add("interrupted commands restarted", self.begun_again);
        add("turns repaired", self.repaired_turns);
        add("intact conversations given up", self.gave_up);
        add("obstacles met", self.obstacles);
        add("strategies as announced", self.as_announced);
        add("strategies otherwise", self.otherwise_announced);
        add("only the agent could tell", self.announced_unexamined);
        add("two agents at once", self.two_agents);
        add("file drafts left", self.drafts);
    }
}

/// Executes every strike, `workers` at a time, and passes each outcome to `report`.
pub fn attempt_all(
    segno: &Path,
    strikes: &[Strike],
    workers: usize,
    report: impl Fn(&Outcome) + Sync,
) -> Vec<Outcome> {
    let attempt = |(): &mut (), strike: &Strike| attempt(segno, strike);
    run_jobs(strikes, workers, || (), attempt, report)
}

/// Executes a strike in a scene of its own, and resumes. A strike that comes when all is done is
/// tried again with half the delay.
pub fn attempt(segno: &Path, strike: &Strike) -> Outcome {
    let mut strike = *strike;
    loop {
        let outcome = attempt_once(segno, &strike);
        let earlier = strike.time.earlier();
        if !outcome.is_miss() || earlier == strike.time {
            return outcome;
        }
        strike.time = earlier;
    }
}

fn attempt_once(segno: &Path, strike: &Strike) -> Outcome {
    let script = match strike.time {
        StrikeTime::Stream { .. } => standard().slowly(CHUNK_PAUSE),
        _ => standard(),
    };
    let scene = StepFixture::driven_by(segno, strike.agent, strike.driver, script);
    let mut trial = Trial {
        scene: &scene,
        outcome: Outcome::new(strike),
    };
    let seen = vec![trial.strike(&mut scene.start_task(), strike.first())];
    let seen = trial.resume(seen);
    trial.check(&seen);
    trial.outcome
}

/// The state of the commands when the strike came.
pub(super) struct CommandState {
    pub(super) done: BTreeSet<String>,
    /// Those that had started, one item per start.
    pub(super) begun: Vec<String>,
}

pub(super) struct Trial<'a> {
    pub(super) scene: &'a StepFixture,
    pub(super) outcome: Outcome,
}

impl Trial<'_> {
    pub(super) fn wrong(&mut self, wrong: Violation) {
        self.outcome.violations.push(wrong);
    }

    /// Waits for the instant, strikes, and waits until segno has ended. Returns the state just
    /// before the strike.
    fn strike(&mut self, run: &mut Run, with: Again) -> CommandState {
        let Again {
            victim,
            strike_signal,
            time,
        } = with;
        let struck = self.wait_for(run, time);
        let seen = CommandState {
            done: self.done(),
            begun: self.scene.agent_sandbox.started_commands(),
        };
        let struck = struck
            && match victim {
                Victim::Segno => !run.has_ended() && send(run.id(), strike_signal.signal()),
                Victim::Program => {
                    let program = self.scene.program();
                    program.is_some_and(|pid| send(pid, strike_signal.signal()))
                }
                Victim::Guard => {
                    let sandbox = &self.scene.agent_sandbox;
                    let guards = sandbox.guards();
                    sandbox.kill_guards();
                    !guards.is_empty()
                }
                Victim::SegnoAndGuard => {
                    !run.has_ended() && {
                        self.scene.agent_sandbox.kill_guards_after(run.child());
                        true
                    }
                }
            };
        if struck && (victim, strike_signal) == (Victim::Segno, StrikeSignal::Interrupt) {
            let announced = |run: &Run| run.stderr().contains("stopping after this step");
            if self.scene.wait_until(run, announced) {
                send(run.id(), strike_signal.signal());
            }
        }
        let ended = run.wait();
        if struck {
            self.judge_end(ended, run, with);
        } else if !ended.success() {
            let what = format!(
                "no process was struck, but the run failed: {ended} {}",
                run.stderr()
            );
            self.wrong(Violation::Stuck(what));
        }
        match victim {
            // The kernel ends the agent. Its commands run until the next run ends them.
            Victim::SegnoAndGuard => self.check_agent_is_gone(),
            Victim::Segno | Victim::Program | Victim::Guard => self.check_orphans(),
        }
        seen
    }

    fn wait_for(&self, run: &mut Run, time: StrikeTime) -> bool {
        let scene = self.scene;
        let turn_is = |turn: usize, is: fn(Ending) -> bool| {
            let answers = scene.server.answers();
            answers.iter().any(|answer| {
                matches!(&answer.purpose, Purpose::Turn { turn: at, .. } if *at == turn)
                    && is(answer.ending)
            })
        };
        let (come, ms) = match time {
            StrikeTime::Stream { turn, ms } => {
                (scene.wait_until(run, |_| turn_is(turn, |_| true)), ms)
            }
            StrikeTime::Between { turn, ms } => {
                let whole = |ending| ending == Ending::Whole;
                (scene.wait_until(run, |_| turn_is(turn, whole)), ms)
            }
            StrikeTime::Tool { command, ms } => {
                let sign = COMMANDS[command].to_owned();
                (
                    scene.wait_until(run, |_| {
                        scene.agent_sandbox.started_commands().contains(&sign)
                    }),
                    ms,
                )
            }
            StrikeTime::Opened { ms } => {
                let opened = |run: &Run| run.stdout().contains("\"agent_opened\"");
                (scene.wait_until(run, opened), ms)
            }
            StrikeTime::Random { ms } => (scene.wait_until(run, |_| scene.program().is_some()), ms),
        };
        thread::sleep(Duration::from_millis(ms));
        come
    }

    /// Checks whether segno ended as it should after this strike.
    fn judge_end(&mut self, ended: ExitStatus, run: &Run, with: Again) {
        let Again {
            victim,
            strike_signal,
            ..
        } = with;
        let status = self.scene.status();
        let (hit, fine) = match victim {
            // The work was done before the strike came.
            Victim::Segno | Victim::SegnoAndGuard if status == "completed" => (Hit::Missed, true),
            // Killed before there was a session.
            Victim::SegnoAndGuard => (Hit::Segno, ["", "interrupted"].contains(&status.as_str())),
            Victim::Segno => {
                let signal = Some(strike_signal.signal().as_raw());
                // A signal that comes before segno installs its handler ends it like any program.
                let unheard = ended.signal() == signal && status == "interrupted";
                let orderly = match strike_signal {
                    StrikeSignal::Kill => false,
                    StrikeSignal::Terminate => ended.code() == Some(143) && status == "interrupted",
                    StrikeSignal::Interrupt => ended.code() == Some(130) && status == "paused",
                };
                (Hit::Segno, unheard || orderly)
            }
            Victim::Program | Victim::Guard => {
                let ends = ["completed", "failed"];
                (Hit::Below, ends.contains(&status.as_str()))
            }
        };
        if with == self.outcome.strike.first() && self.outcome.struck == 0 {
            self.outcome.hit = hit;
        }
        self.outcome.struck += u64::from(hit != Hit::Missed);
        if !fine {
            let what = format!("segno exited with {ended}, {status}: {}", run.stderr());
            self.wrong(Violation::Stuck(what));
        }
    }

    /// Resumes until the session is completed. The first resume may be struck as well.
    fn resume(&mut self, mut seen: Vec<CommandState>) -> Vec<CommandState> {
        let mut last_error = String::new();
        if let Some(again) = self.outcome.strike.again
            && self.scene.status() != "completed"
        {
            let mut run = self.scene.start(&["resume", "task", "--json"]);
            seen.push(self.strike(&mut run, again));
        }
        if let Some(obstacle) = self.outcome.strike.obstacle
            && self.scene.status() != "completed"
        {
            self.resume_against(obstacle);
        }
        for _ in 0..RESUMES {
            if self.scene.status() == "completed" {
                return seen;
            }
            last_error = self.resume_as_announced();
        }
        let status = self.scene.status();
        if status != "completed" {
            let what = format!("after {RESUMES} resumes the session is {status}; {last_error}");
            self.wrong(Violation::Stuck(what));
        }
        seen
    }

    /// Compares the result with what an undisturbed run leaves.
    fn check(&mut self, seen: &[CommandState]) {
        let work = self.scene.agent_sandbox.work();
        let left = files(&work);
        self.outcome.drafts = drafts(&work) as u64;
        if !self.is_whole(&left) {
            self.wrong(Violation::Damage(format!("the workspace is {left:?}")));
        }
        self.check_orphans();
        let doctor = self.scene.segno(&["doctor"]);
        if !doctor.status.success() {
            let what = format!("doctor: {}{}", doctor.stdout, doctor.stderr);
            self.wrong(Violation::Damage(what));
        }
        let journal = self.scene.journal();
        let finished = journal.iter().filter(|(kind, _)| kind == "step_finished");
        let finished = finished.count();
        if finished != 1 {
            self.wrong(Violation::Loss(format!(
                "{finished} steps are finished instead of 1"
            )));
        }
        let opened = self.scene.conversations("task").into_iter();
        let strategies = opened.map(|(_, strategy)| strategy);
        // A conversation that was started has none.
        self.outcome.strategies = strategies.filter(|strategy| strategy != "-").collect();
        // An agent that has answered and is about to end may survive the signal.
        if self.outcome.hit == Hit::Below && self.outcome.strategies.is_empty() {
            self.outcome.hit = Hit::Missed;
        }
        self.check_strategies(&journal);
        self.check_turns(&journal);
        self.check_commands(seen);
        self.outcome.repaired_turns = self.scene.server.repaired_turns("standard").len() as u64;
    }

    fn check_agent_is_gone(&mut self) {
        for pid in self.scene.programs_left() {
            self.wrong(Violation::Orphan(pid));
        }
    }

    fn check_orphans(&mut self) {
        for pid in self.scene.orphans() {
            self.wrong(Violation::Orphan(pid));
        }
    }

    /// The commands that are done. Only their log is read: the agent is still running, and other
    /// files come and go.
    fn done(&self) -> BTreeSet<String> {
        let log = std::fs::read_to_string(self.scene.agent_sandbox.work().join("log.txt"));
        let log = log.unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }
}
