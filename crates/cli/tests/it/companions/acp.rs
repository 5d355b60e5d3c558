//! Agents that speak the Agent Client Protocol: the real adapters of Claude Code and Codex.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use segno_testkit::model::{
    ModelServer, Part, Role, Script, conversation, files, standard, standard_files,
};
use segno_testkit::programs::{Program, Stage};
use segno_testkit::sandbox::{Said, Sandbox, finish, until, wait};
use serde_json::Value;

use crate::sandbox;

/// The adapters that are driven.
pub(super) const ADAPTERS: [Program; 2] = [Program::ClaudeAcp, Program::CodexAcp];

/// The binary, agents and their models.
pub(super) struct Ground {
    pub(super) server: ModelServer,
    pub(super) stage: Stage,
    sandbox: Sandbox,
    spec: PathBuf,
}

/// The words that start an adapter, as a list in a spec.
pub(super) fn argv(adapter: Program) -> String {
    let words = adapter.words();
    let words = words
        .iter()
        .map(|word| format!("{:?}", word.display().to_string()));
    format!("[{}]", words.collect::<Vec<_>>().join(", "))
}

impl Ground {
    /// A workflow called `task`; the spec is told where the models are.
    pub(super) fn new(
        scripts: impl IntoIterator<Item = Script>,
        permissions: &str,
        spec: impl Fn(&str) -> String,
    ) -> Self {
        let server = ModelServer::scripted(scripts);
        let sandbox = sandbox();
        let spec = sandbox.write("task.yaml", &spec(&server.host()));
        let section = |name: &str| format!("[{name}]\npermissions = \"{permissions}\"\n");
        let sections = ["claude-code", "codex", "acp"].map(section);
        sandbox.configure(&sections.concat());
        Self {
            stage: Stage::new(&server),
            server,
            sandbox,
            spec,
        }
    }

    /// One step, asked of an adapter, with the standard script.
    fn standard(adapter: Program, permissions: &str) -> Self {
        let script = standard();
        let marker = script.marker();
        Self::new([script], permissions, |_| {
            let argv = argv(adapter);
            format!(
                "version: 0\nname: task\nruntime: {{provider: acp, command: {argv}}}\nagents: {{worker: {{prompt: You do tasks.}}}}\npattern: {{type: chain, config: {{steps: [{{agent: worker, input: \"Do the task. {marker}\"}}]}}}}\n"
            )
        })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.sandbox.command(words);
        for (name, value) in self.stage.environment() {
            command.env(name, value);
        }
        command.current_dir(self.stage.work());
        command
    }

    pub(super) fn segno(&self, words: &[&str]) -> Said {
        finish(self.command(words))
    }

    /// The spec, to be run.
    pub(super) fn spec(&self) -> &str {
        self.spec.to_str().unwrap()
    }

    pub(super) fn start(&self, words: &[&str]) -> Child {
        let mut command = self.command(words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Kills a run, and waits until nothing of it is left.
    pub(super) fn kill(&self, mut child: Child) {
        child.kill().unwrap();
        wait(child);
        until("the wardens ended everything", || {
            self.stage.processes().is_empty()
        });
    }

    /// What the journal has of one kind.
    pub(super) fn journal(&self, kind: &str) -> Vec<Value> {
        let bundle = self.segno(&["sessions", "export", "task", "-o", "-"]);
        let records = bundle
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let records = records.filter(|record: &Value| record["kind"] == kind);
        let body = |record: Value| serde_json::from_str(record["body"].as_str().unwrap()).unwrap();
        records.map(body).collect()
    }

    /// The agents' names for their conversations, and how they came to them.
    pub(super) fn opened(&self) -> Vec<(String, String)> {
        let opened = self.journal("agent_opened");
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        opened
            .iter()
            .map(|entry| (text(&entry["native"]), text(&entry["rung"])))
            .collect()
    }

    /// All that was said, as the journal has it.
    fn said(&self) -> String {
        let said = self.journal("agent_said");
        said.iter()
            .map(|entry| entry["entries"].to_string())
            .collect()
    }

    /// One whose run was killed in the middle of a command.
    fn killed(adapter: Program) -> Self {
        let ground = Self::standard(adapter, "all");
        let child = ground.start(&["run", ground.spec(), "--json"]);
        until("the slow command runs and is written down", || {
            ground.stage.signs().contains(&"slow".to_owned()) && ground.said().contains("sleep 1")
        });
        ground.kill(child);
        ground
    }

    /// What people said to the model, as it was sent for its last turn.
    fn told(&self) -> String {
        let sent = conversation(&self.server.request("standard", 8).unwrap());
        let words = sent.into_iter().filter_map(|part| match part {
            Part::Text(Role::User, text) => Some(text),
            _ => None,
        });
        words.collect::<Vec<_>>().join("\n")
    }

    /// Everything is as an undisturbed run leaves it, each turn was paid once, and nothing runs.
    fn is_done(&self) {
        assert_eq!(files(&self.stage.work()), standard_files());
        assert_eq!(self.server.paid("standard"), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        until("nothing runs", || self.stage.processes().is_empty());
    }
}

#[test]
fn an_agent_of_the_protocol_does_its_task_and_what_it_says_is_in_the_journal() {
    for adapter in ADAPTERS {
        let ground = Ground::standard(adapter, "all");
        let said = ground.segno(&["run", ground.spec()]).good();
        let words = "Done: the plan, three files and a count.";
        assert!(said.stdout.contains(words), "{said:?}");
        ground.is_done();
        let opened = ground.opened();
        assert_eq!(opened.len(), 1, "{opened:?}");
        assert_eq!(opened[0].1, "-");
        let said = ground.said();
        for words in ["A place to work in. [standard:1]", "mkdir -p src", "delta"] {
            assert!(said.contains(words), "{adapter:?} {words}: {said}");
        }
        let finished = &ground.journal("step_finished")[0];
        let usage = &finished["usage"];
        let spent: u64 = ground
            .journal("agent_said")
            .iter()
            .chain([finished])
            .map(|entry| entry["usage"]["input_tokens"].as_u64().unwrap_or(0))
            .sum();
        assert_eq!(spent, 12_600, "{adapter:?} {usage}");
    }
}

#[test]
fn an_agent_of_the_protocol_goes_on_with_its_own_session_after_a_kill() {
    for adapter in ADAPTERS {
        let ground = Ground::killed(adapter);
        ground.segno(&["resume", "task"]).good();
        ground.is_done();
        let opened = ground.opened();
        assert_eq!(opened.len(), 2, "{adapter:?} {opened:?}");
        assert_eq!(opened[1].1, "native", "{adapter:?}");
        assert_eq!(opened[0].0, opened[1].0, "the same session");
        let told = ground.told();
        assert!(
            told.contains("was broken off") && told.contains("sleep 1"),
            "{adapter:?} {told}"
        );
        // What was replayed is not in the journal twice.
        let said = ground.said();
        assert_eq!(
            said.matches("A place to work in.").count(),
            1,
            "{adapter:?}"
        );
    }
}

#[test]
fn an_agent_of_the_protocol_that_lost_its_session_is_told_what_was_done() {
    for adapter in ADAPTERS {
        let ground = Ground::killed(adapter);
        ground.segno(&["checkpoint", "create", "task"]).good();
        let kept = match adapter {
            Program::ClaudeAcp => ground.stage.home().join(".claude"),
            _ => ground.stage.codex_home().join("sessions"),
        };
        std::fs::remove_dir_all(kept).unwrap();
        let said = ground.segno(&["resume", "task"]).good();
        ground.is_done();
        let opened = ground.opened();
        assert_eq!(opened.last().unwrap().1, "compiled", "{adapter:?} {said:?}");
        assert_ne!(opened[0].0, opened.last().unwrap().0, "another session");
        let told = ground.told();
        for words in ["A place to work in. [standard:1]", "mkdir -p src"] {
            assert!(told.contains(words), "{adapter:?} {words}: {told}");
        }
    }
}

#[test]
fn without_leave_an_agent_of_the_protocol_changes_nothing() {
    let ground = Ground::standard(Program::ClaudeAcp, "read");
    let said = ground.segno(&["run", ground.spec()]);
    assert!(said.stderr.contains("was denied leave to use"), "{said:?}");
    assert!(files(&ground.stage.work()).is_empty(), "{said:?}");
    assert!(ground.stage.signs().is_empty());
}
