//! Segno, agents and their models, each in a place of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::{Agent, Stage};
use crate::model::{ModelServer, Part, Role, Script, conversation};
use crate::sandbox::{Said, Sandbox, finish, until, wait};

/// The binary, the agents that it starts, and what their models answer.
pub struct Workshop {
    /// The models.
    pub server: ModelServer,
    /// Where the agents work.
    pub stage: Stage,
    /// Where the binary keeps its own things.
    pub sandbox: Sandbox,
}

impl Workshop {
    /// The binary at `segno`, and agents whose models answer from scripts. Every agent may do
    /// unasked what `permissions` says.
    pub fn new(segno: &Path, scripts: impl IntoIterator<Item = Script>, permissions: &str) -> Self {
        let server = ModelServer::scripted(scripts);
        Self::around(segno, Stage::new(&server), server, permissions)
    }

    /// The same around agents that are at work already.
    pub fn around(segno: &Path, stage: Stage, server: ModelServer, permissions: &str) -> Self {
        let sandbox = Sandbox::new(segno);
        let section = |name: &str| format!("[{name}]\npermissions = \"{permissions}\"\n");
        let sections = ["claude-code", "codex", "acp"].map(section);
        sandbox.configure(&sections.concat());
        Self {
            server,
            stage,
            sandbox,
        }
    }

    /// Writes a workflow called `task`: one step, which an agent is asked to do. `runtime` says which.
    pub fn task(&self, runtime: &str, marker: &str) -> PathBuf {
        self.sandbox.write(
            "task.yaml",
            &format!(
                "version: 0\nname: task\nruntime: {{{runtime}}}\nagents: {{worker: {{prompt: You do tasks.}}}}\npattern: {{type: chain, config: {{steps: [{{agent: worker, input: \"Do the task. {marker}\"}}]}}}}\n"
            ),
        )
    }

    /// Segno, ready to be started where the agents work.
    pub fn command(&self, words: &[&str]) -> Command {
        self.command_on(&self.stage, words)
    }

    /// Segno, ready to be started on another stage.
    pub fn command_on(&self, stage: &Stage, words: &[&str]) -> Command {
        let mut command = self.sandbox.command(words);
        furnish(stage, &mut command);
        command
    }

    /// Runs segno to its end.
    pub fn segno(&self, words: &[&str]) -> Said {
        finish(self.command(words))
    }

    /// Starts segno with its output piped.
    pub fn start(&self, words: &[&str]) -> Child {
        let mut command = self.command(words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Kills a segno, and waits until nothing of what it started is left.
    pub fn kill(&self, mut child: Child) {
        child.kill().unwrap();
        wait(child);
        self.is_quiet();
    }

    /// Waits until nothing runs on the stage.
    pub fn is_quiet(&self) {
        until("the wardens ended everything", || {
            self.stage.processes().is_empty()
        });
    }

    /// The journal of a session: kinds and bodies; nothing if there is no such session.
    pub fn records(&self, session: &str) -> Vec<(String, Value)> {
        let bundle = self.segno(&["sessions", "export", session, "-o", "-"]);
        let lines = bundle.stdout.lines();
        let records = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let read = |record: Value| {
            let body = serde_json::from_str(record["body"].as_str()?).ok()?;
            Some((record["kind"].as_str()?.to_owned(), body))
        };
        records.filter_map(read).collect()
    }

    /// What the journal of a session has of one kind.
    pub fn entries(&self, session: &str, kind: &str) -> Vec<Value> {
        let records = self.records(session).into_iter();
        let own = records.filter(|(known, _)| known == kind);
        own.map(|(_, body)| body).collect()
    }

    /// The programs' names for the conversations of a session, and how they came to them.
    pub fn opened(&self, session: &str) -> Vec<(String, String)> {
        let opened = self.entries(session, "agent_opened");
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        opened
            .iter()
            .map(|entry| (text(&entry["native"]), text(&entry["rung"])))
            .collect()
    }

    /// Whether the journal of a session has these words, and so has the record of the program that is
    /// at work on it: programs write down later than they speak.
    pub fn written_down(&self, session: &str, words: &str) -> bool {
        let said = self.entries(session, "agent_said");
        let in_journal = said
            .iter()
            .any(|said| said["entries"].to_string().contains(words));
        let opened = self.opened(session).pop();
        let in_record = opened.is_some_and(|(native, _)| {
            let mut agents = Agent::ALL.into_iter();
            agents.any(|agent| agent.kept(&self.stage, &native).contains(words))
        });
        in_journal && in_record
    }

    /// What people said to the model, as it was sent for the last turn of the standard script.
    pub fn told(&self) -> String {
        let sent = conversation(&self.server.request("standard", 8).unwrap());
        let words = sent.into_iter().filter_map(|part| match part {
            Part::Text(Role::User, text) => Some(text),
            _ => None,
        });
        words.collect::<Vec<_>>().join("\n")
    }
}

/// Puts a process among the agents: their environment, and the folder that they work in.
pub(crate) fn furnish(stage: &Stage, command: &mut Command) {
    for (name, value) in stage.environment() {
        command.env(name, value);
    }
    // It may have been moved away.
    let work = stage.work();
    command.current_dir(if work.exists() { &work } else { stage.root() });
}

impl Agent {
    /// What a spec calls it.
    pub const fn provider(self) -> &'static str {
        match self {
            Self::Claude => "claude-code",
            Self::Codex => "codex",
        }
    }

    /// What commands call it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
        }
    }
}
