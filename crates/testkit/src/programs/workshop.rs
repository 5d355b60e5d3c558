//! Segno, CLI agents and their model server, isolated from everything else.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use segno_core::resume::Strategy;
use serde_json::Value;

use super::{Agent, AgentSandbox};
use crate::model::{ModelServer, Part, Role, Script, conversation};
use crate::sandbox::{ProcessOutput, Sandbox, run_to_end, wait_for_output, wait_until};

/// The binary, the agents that it starts, and their model server.
pub struct AgentFixture {
    /// Answers the agents' requests.
    pub server: ModelServer,
    /// Where the agents run.
    pub agent_sandbox: AgentSandbox,
    /// The binary's home and its own workspace.
    pub sandbox: Sandbox,
}

impl AgentFixture {
    /// The binary at `segno`, and agents whose models answer from scripts. Every agent may do what
    /// `permissions` says without approval.
    pub fn new(segno: &Path, scripts: impl IntoIterator<Item = Script>, permissions: &str) -> Self {
        let server = ModelServer::scripted(scripts);
        Self::with_agents(segno, AgentSandbox::new(&server), server, permissions)
    }

    /// The same around agents that are already running.
    pub fn with_agents(
        segno: &Path,
        agent_sandbox: AgentSandbox,
        server: ModelServer,
        permissions: &str,
    ) -> Self {
        let sandbox = Sandbox::new(segno);
        let section = |name: &str| format!("[{name}]\npermissions = \"{permissions}\"\n");
        let sections = ["claude-code", "codex", "acp"].map(section);
        sandbox.configure(&sections.concat());
        Self {
            server,
            agent_sandbox,
            sandbox,
        }
    }

    /// Writes a workflow called `task` with one step for an agent. `runtime` says which agent.
    pub fn write_task(&self, runtime: &str, marker: &str) -> PathBuf {
        self.sandbox.write(
            "task.yaml",
            &format!(
                "version: 0\nname: task\nruntime: {{{runtime}}}\nagents: {{worker: {{prompt: You do tasks.}}}}\npattern: {{type: chain, config: {{steps: [{{agent: worker, input: \"Do the task. {marker}\"}}]}}}}\n"
            ),
        )
    }

    /// A command that starts segno in the agents' workspace.
    pub fn command(&self, words: &[&str]) -> Command {
        self.command_on(&self.agent_sandbox, words)
    }

    /// A command that starts segno on another stage.
    pub fn command_on(&self, stage: &AgentSandbox, words: &[&str]) -> Command {
        let mut command = self.sandbox.command(words);
        set_agent_env(stage, &mut command);
        command
    }

    /// Runs segno to its end.
    pub fn segno(&self, words: &[&str]) -> ProcessOutput {
        run_to_end(self.command(words))
    }

    /// Starts segno with its output piped.
    pub fn start(&self, words: &[&str]) -> Child {
        let mut command = self.command(words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Kills a segno, and waits until no process that it started is left.
    pub fn kill(&self, mut child: Child) {
        child.kill().unwrap();
        wait_for_output(child);
        self.wait_until_idle();
    }

    /// Waits until nothing runs on the stage.
    pub fn wait_until_idle(&self) {
        wait_until("the process guards have killed all processes", || {
            self.agent_sandbox.processes().is_empty()
        });
    }

    /// The journal of a session: kinds and bodies; empty if there is no such session.
    pub fn journal_records(&self, session: &str) -> Vec<(String, Value)> {
        let bundle = self.segno(&["sessions", "export", session, "-o", "-"]);
        let lines = bundle.stdout.lines();
        let records = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let read = |record: Value| {
            let body = serde_json::from_str(record["body"].as_str()?).ok()?;
            Some((record["kind"].as_str()?.to_owned(), body))
        };
        records.filter_map(read).collect()
    }

    /// The events of one kind in the journal of a session.
    pub fn events(&self, session: &str, kind: &str) -> Vec<Value> {
        let records = self.journal_records(session).into_iter();
        let own = records.filter(|(known, _)| known == kind);
        own.map(|(_, body)| body).collect()
    }

    /// The agents' ids of the conversations of a session, with their resume strategies.
    pub fn conversations(&self, session: &str) -> Vec<(String, String)> {
        let opened = self.events(session, "agent_opened");
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        // The journal keeps the spelling of 0.1.0; users see the strategy's name.
        let strategy = |value: &Value| match serde_json::from_value::<Strategy>(value.clone()) {
            Ok(strategy) => strategy.to_string(),
            Err(_) => "-".to_owned(),
        };
        opened
            .iter()
            .map(|entry| (text(&entry["native"]), strategy(&entry["rung"])))
            .collect()
    }

    /// Whether these words are in the journal of a session and in the transcript of its current
    /// agent: agents write their transcripts later than they print.
    pub fn is_persisted(&self, session: &str, words: &str) -> bool {
        let said = self.events(session, "agent_said");
        let in_journal = said
            .iter()
            .any(|said| said["entries"].to_string().contains(words));
        let opened = self.conversations(session).pop();
        let in_transcript = opened.is_some_and(|(native, _)| {
            let mut agents = Agent::ALL.into_iter();
            agents.any(|agent| {
                agent
                    .read_transcript(&self.agent_sandbox, &native)
                    .contains(words)
            })
        });
        in_journal && in_transcript
    }

    /// The user's messages to the model, as they were sent for the last turn of the standard
    /// script.
    pub fn user_messages(&self) -> String {
        let sent = conversation(&self.server.request("standard", 8).unwrap());
        let words = sent.into_iter().filter_map(|part| match part {
            Part::Text(Role::User, text) => Some(text),
            _ => None,
        });
        words.collect::<Vec<_>>().join("\n")
    }
}

/// Sets the agents' environment and workspace on a command.
pub(crate) fn set_agent_env(stage: &AgentSandbox, command: &mut Command) {
    for (name, value) in stage.environment() {
        command.env(name, value);
    }
    command.env("HOME", stage.home());
    command.env("CODEX_HOME", stage.codex_home());
    if let Some(folder) = stage.claude_config_dir() {
        command.env("CLAUDE_CONFIG_DIR", folder);
    }
    // The workspace may have been moved away.
    let work = stage.work();
    command.current_dir(if work.exists() { &work } else { stage.root() });
}

impl Agent {
    /// Its name in specs.
    pub const fn provider(self) -> &'static str {
        match self {
            Self::Claude => "claude-code",
            Self::Codex => "codex",
        }
    }

    /// Its adapter of the Agent Client Protocol, on the `PATH` of the stage.
    pub const fn adapter(self) -> &'static str {
        match self {
            Self::Claude => "claude-agent-acp",
            Self::Codex => "codex-acp",
        }
    }

    /// Its name in commands.
    pub const fn cli_name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
        }
    }
}
