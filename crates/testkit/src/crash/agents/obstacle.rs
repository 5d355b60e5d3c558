//! What stands in the way of the first resume after a strike. None of it is a reason to give the agent's
//! conversation up.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::scene::StepFixture;
use super::strike::Driver;
use super::trial::Trial;
use crate::crash::trial::Violation;
use crate::programs::Agent;

/// An obstacle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Obstacle {
    /// The agent's program is not on `PATH`.
    NoProgram,
    /// The agent's key is missing.
    NoKey,
    /// Another process has the agent's transcript open for writing.
    Held,
    /// The homes of the agents were renamed: this one stays.
    HomeRenamed,
    /// The agent's own variable names another, empty folder: this one stays.
    VariableChanged,
}

impl Obstacle {
    pub const ALL: [Self; 5] = [
        Self::NoProgram,
        Self::NoKey,
        Self::Held,
        Self::HomeRenamed,
        Self::VariableChanged,
    ];

    /// Segno does not read the transcripts behind the Agent Client Protocol, so that it finds none that
    /// the agent itself does not find: in another folder, or, for Codex, below a renamed home.
    pub(super) fn can_be_met_with(self, agent: Agent, driver: Driver) -> bool {
        let is_found = match self {
            Self::VariableChanged => false,
            Self::HomeRenamed => agent != Agent::Codex,
            Self::NoProgram | Self::NoKey | Self::Held => true,
        };
        driver == Driver::Own || is_found
    }

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::NoProgram => "no-program",
            Self::NoKey => "no-key",
            Self::Held => "held",
            Self::HomeRenamed => "home-renamed",
            Self::VariableChanged => "variable-changed",
        }
    }
}

impl Trial<'_> {
    /// Resumes with the obstacle in the way.
    pub(super) fn resume_against(&mut self, obstacle: Obstacle) {
        // The strike may have come after the answer was stored: then the resume starts no agent.
        let journal = self.scene.journal();
        if journal.iter().any(|(kind, _)| kind == "step_finished") {
            return;
        }
        let open = self.scene.conversations("task").pop();
        let transcript = open.and_then(|(id, _)| {
            let sandbox = &self.scene.agent_sandbox;
            self.scene.agent.transcript_path(sandbox, &id)
        });
        match obstacle {
            Obstacle::NoProgram => self.fail_without(|command| {
                command.env("PATH", "/usr/bin:/bin");
            }),
            Obstacle::NoKey => self.fail_without(|command| {
                command.env_remove("ANTHROPIC_API_KEY");
                command.env_remove("CODEX_TEST_KEY");
            }),
            Obstacle::Held => {
                // The agent may have been struck before it had a transcript.
                let Some(transcript) = transcript else { return };
                let mut holder = hold(&transcript.to_string_lossy());
                let pid = format!("process {}", holder.id());
                let refused = self.scene.segno(&["resume", "task"]);
                let _ = holder.kill();
                let _ = holder.wait();
                let named = refused.stderr.contains("[R0124]") && refused.stderr.contains(&pid);
                if !named {
                    let what = format!("a held conversation was resumed: {refused:?}");
                    self.outcome.two_agents += 1;
                    self.wrong(Violation::Repeat(what));
                }
            }
            Obstacle::HomeRenamed => {
                self.scene.agent_sandbox.rename_homes();
            }
            Obstacle::VariableChanged => {
                self.scene.agent_sandbox.change_variables();
            }
        }
        self.outcome.obstacles += 1;
    }

    /// Resumes without something that the agent needs, which must fail.
    fn fail_without(&mut self, take: impl Fn(&mut Command)) {
        let mut command = self.scene.command(&["resume", "task"]);
        take(&mut command);
        let output = crate::sandbox::run_to_end(command);
        if output.status.success() {
            let what = format!("the agent cannot start, but the resume succeeded: {output:?}");
            self.wrong(Violation::Damage(what));
        }
    }

    /// Resumes, and compares what happens with what the plan says. No agent of before may be alive when
    /// another one works.
    pub(super) fn resume_as_announced(&mut self) -> String {
        let announced = self.announced();
        let opened = self.scene.conversations("task").len();
        let earlier: BTreeSet<u32> = self.programs();
        let mut run = self.scene.start(&["resume", "task"]);
        let mut together = BTreeSet::new();
        while !run.has_ended() {
            let now = self.programs();
            if now.difference(&earlier).next().is_some() {
                together.extend(now.intersection(&earlier).copied());
            }
            StepFixture::pause();
        }
        let ended = run.wait();
        if !together.is_empty() {
            self.outcome.two_agents += 1;
            let what = format!("agents of before worked beside another one: {together:?}");
            self.wrong(Violation::Repeat(what));
        }
        // Within an attempt, an agent may refuse what was announced, and continue by a later strategy.
        let taken = self.scene.conversations("task").into_iter();
        let attempts = self.scene.events("task", "agent_opened").into_iter();
        let attempts = attempts.map(|event| event["attempt"].clone());
        let taken: Vec<_> = taken.zip(attempts).skip(opened).collect();
        let first = taken.first().map(|(_, attempt)| attempt.clone());
        let taken = taken.iter().filter(|(_, of)| Some(of) == first.as_ref());
        let taken: Vec<&str> = taken.map(|((_, it), _)| it.as_str()).collect();
        let taken = (!taken.is_empty()).then(|| taken.join(", then "));
        if let (Some(announced), Some(taken)) = (announced, taken) {
            if announced.strategy == taken {
                self.outcome.as_announced += 1;
            } else if announced.is_unexamined {
                self.outcome.announced_unexamined += 1;
            } else {
                let announced = announced.strategy;
                self.outcome.otherwise_announced += 1;
                let what = format!("announced {announced}, taken {taken}");
                self.wrong(Violation::Damage(what));
            }
        }
        format!("{ended}: {}", run.stderr())
    }

    fn programs(&self) -> BTreeSet<u32> {
        let sandbox = &self.scene.agent_sandbox;
        sandbox.programs(self.scene.agent).into_iter().collect()
    }

    /// What a plan announces; nothing if no step is in progress.
    fn announced(&self) -> Option<Announced> {
        let plan = self.scene.segno(&["resume", "task", "--dry-run", "--json"]);
        let plan: Value = serde_json::from_str(plan.stdout.lines().next()?).ok()?;
        let step = &plan["steps"][0];
        Some(Announced {
            strategy: step["strategy"].as_str()?.to_owned(),
            is_unexamined: step["unknown"]
                .to_string()
                .contains("only the agent can tell"),
        })
    }
}

/// What a plan says about the step in progress.
struct Announced {
    strategy: String,
    /// Whether it adds that the agent decides, since nothing but the agent can read its transcript.
    is_unexamined: bool,
}

/// A process that has a file open for appending.
fn hold(path: &str) -> Child {
    let ready = Command::new("sh")
        .args(["-c", "exec 3>>\"$0\"; echo ready; exec sleep 1000", path])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let mut holder = ready.unwrap();
    let mut line = String::new();
    let stdout = holder.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
    assert_eq!(line, "ready\n");
    assert!(fs::metadata(path).is_ok());
    holder
}
