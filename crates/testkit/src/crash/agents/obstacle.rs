//! What stands in the way of the first resume after a strike. None of it is a reason to give the agent's
//! conversation up.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::scene::StepFixture;
use super::trial::Trial;
use crate::crash::trial::Violation;

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
}

impl Obstacle {
    pub const ALL: [Self; 4] = [Self::NoProgram, Self::NoKey, Self::Held, Self::HomeRenamed];

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::NoProgram => "no-program",
            Self::NoKey => "no-key",
            Self::Held => "held",
            Self::HomeRenamed => "home-renamed",
        }
    }
}

impl Trial<'_> {
    /// Resumes with the obstacle in the way.
    pub(super) fn resume_against(&mut self, obstacle: Obstacle) {
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
        let taken = self.scene.conversations("task");
        let taken = taken.get(opened).map(|(_, strategy)| strategy.clone());
        if let (Some(announced), Some(taken)) = (announced, taken) {
            if announced == taken {
                self.outcome.as_announced += 1;
            } else {
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

    /// The strategy that a plan announces; none if no step is in progress.
    fn announced(&self) -> Option<String> {
        let plan = self.scene.segno(&["resume", "task", "--dry-run", "--json"]);
        let plan: Value = serde_json::from_str(plan.stdout.lines().next()?).ok()?;
        Some(plan["steps"][0]["strategy"].as_str()?.to_owned())
    }
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
