//! Agents that use the Agent Client Protocol: the real adapters of Claude Code and Codex.

use std::ops::Deref;
use std::path::PathBuf;

use segno_testkit::model::{Script, files, standard, standard_files};
use segno_testkit::programs::{AgentFixture, Program};
use segno_testkit::sandbox::{run_to_end, wait_until};
use serde_json::Value;

use crate::segno;

pub(super) const ADAPTERS: [Program; 2] = [Program::ClaudeAcp, Program::CodexAcp];

/// A workflow and the agents that execute it.
pub(super) struct WorkflowFixture {
    workshop: AgentFixture,
    spec: PathBuf,
}

impl Deref for WorkflowFixture {
    type Target = AgentFixture;

    fn deref(&self) -> &AgentFixture {
        &self.workshop
    }
}

/// The command of an adapter, as a list in a spec.
pub(super) fn argv(adapter: Program) -> String {
    let words = adapter.words();
    let words = words
        .iter()
        .map(|word| format!("{:?}", word.display().to_string()));
    format!("[{}]", words.collect::<Vec<_>>().join(", "))
}

impl WorkflowFixture {
    /// A workflow called `task`; `spec` receives the address of the model server.
    pub(super) fn new(
        scripts: impl IntoIterator<Item = Script>,
        permissions: &str,
        spec: impl Fn(&str) -> String,
    ) -> Self {
        let workshop = AgentFixture::new(segno(), scripts, permissions);
        let spec = spec(&workshop.server.host());
        Self {
            spec: workshop.sandbox.write("task.yaml", &spec),
            workshop,
        }
    }

    /// One step, which an adapter executes, with the standard script.
    fn standard(adapter: Program, permissions: &str) -> Self {
        let script = standard();
        let marker = script.marker();
        let workshop = AgentFixture::new(segno(), [script], permissions);
        let runtime = format!("provider: acp, command: {}", argv(adapter));
        Self {
            spec: workshop.write_task(&runtime, &marker),
            workshop,
        }
    }

    pub(super) fn spec(&self) -> &str {
        self.spec.to_str().unwrap()
    }

    /// The journal's events of one kind.
    pub(super) fn events(&self, kind: &str) -> Vec<Value> {
        self.workshop.events("task", kind)
    }

    /// The agents' ids of their conversations, each with its resume strategy.
    pub(super) fn opened(&self) -> Vec<(String, String)> {
        self.workshop.conversations("task")
    }

    /// All messages in the journal, as JSON.
    fn messages_json(&self) -> String {
        let messages = self.events("agent_said");
        messages
            .iter()
            .map(|event| event["entries"].to_string())
            .collect()
    }

    /// The text of these messages. A message may come in pieces, with tool results between them.
    fn message_text(&self) -> String {
        let messages = self.events("agent_said");
        let entries = messages.iter().flat_map(|event| {
            let entries = event["entries"].as_str().unwrap();
            serde_json::from_str::<Vec<Value>>(entries).unwrap()
        });
        let parts = entries.flat_map(|event| {
            let parts = event["said"]["parts"].as_array().cloned();
            parts.unwrap_or_default()
        });
        let words = parts.filter_map(|part| Some(part["text"].as_str()?.to_owned()));
        words.collect()
    }

    /// A workflow whose run was killed in the middle of a command.
    fn killed(adapter: Program) -> Self {
        Self::standard(adapter, "all").kill_mid_command()
    }

    /// The agents' own transcripts, with their sizes.
    fn transcripts(&self) -> Vec<(PathBuf, u64)> {
        let home = self.agent_sandbox.home().join(".claude/projects");
        let folders = [home, self.agent_sandbox.codex_home().join("sessions")];
        let mut found = Vec::new();
        let mut folders = Vec::from(folders);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let facts = entry.metadata().unwrap();
                if facts.is_dir() {
                    folders.push(entry.path());
                } else {
                    found.push((entry.path(), facts.len()));
                }
            }
        }
        found.sort();
        assert!(!found.is_empty());
        found
    }

    /// Starts a run and kills it in the middle of a command.
    fn kill_mid_command(self) -> Self {
        let fixture = self;
        let child = fixture.start(&["run", fixture.spec(), "--json"]);
        wait_until("the slow command runs and is written down", || {
            fixture
                .agent_sandbox
                .started_commands()
                .contains(&"slow".to_owned())
                && fixture.is_persisted("task", "sleep 1")
                && fixture.message_text().contains("[standard:4]")
        });
        fixture.kill(child);
        fixture
    }

    /// Asserts that the files are those of an undisturbed run, that each turn was paid once, and
    /// that no process is left.
    fn assert_done(&self) {
        assert_eq!(files(&self.agent_sandbox.work()), standard_files());
        assert_eq!(
            self.server.paid_turns("standard"),
            [0, 1, 2, 3, 4, 5, 6, 7, 8]
        );
        self.wait_until_idle();
    }
}

#[test]
fn acp_agent_messages_are_in_the_journal() {
    for adapter in ADAPTERS {
        let fixture = WorkflowFixture::standard(adapter, "all");
        let output = fixture.segno(&["run", fixture.spec()]).expect_success();
        let words = "Done: the plan, three files and a count.";
        assert!(output.stdout.contains(words), "{output:?}");
        fixture.assert_done();
        let opened = fixture.opened();
        assert_eq!(opened.len(), 1, "{opened:?}");
        assert_eq!(opened[0].1, "-");
        let (messages, spoken) = (fixture.messages_json(), fixture.message_text());
        assert!(
            spoken.contains("A place to work in. [standard:1]"),
            "{adapter:?} {spoken}"
        );
        for words in ["mkdir -p src", "delta"] {
            assert!(messages.contains(words), "{adapter:?} {words}: {messages}");
        }
        let finished = &fixture.events("step_finished")[0];
        let usage = &finished["usage"];
        let spent: u64 = fixture
            .events("agent_said")
            .iter()
            .chain([finished])
            .map(|event| event["usage"]["input_tokens"].as_u64().unwrap_or(0))
            .sum();
        assert_eq!(spent, 12_600, "{adapter:?} {usage}");
    }
}

#[test]
fn acp_agent_resumes_its_session_after_a_kill() {
    for adapter in ADAPTERS {
        let fixture = WorkflowFixture::killed(adapter);
        fixture.segno(&["resume", "task"]).expect_success();
        fixture.assert_done();
        let opened = fixture.opened();
        assert_eq!(opened.len(), 2, "{adapter:?} {opened:?}");
        assert_eq!(opened[1].1, "native", "{adapter:?}");
        assert_eq!(opened[0].0, opened[1].0, "the same session");
        let prompt = fixture.user_messages();
        assert!(
            prompt.contains("was interrupted") && prompt.contains("sleep 1"),
            "{adapter:?} {prompt}"
        );
        // The journal does not hold replayed messages twice.
        let messages = fixture.message_text();
        assert_eq!(
            messages.matches("A place to work in.").count(),
            1,
            "{adapter:?}"
        );
    }
}

/// The adapter of Codex says why it fails in a text, and ends its turn like any other.
#[test]
fn adapter_without_its_key_answers_nothing() {
    for adapter in ADAPTERS {
        let fixture = WorkflowFixture::killed(adapter);
        let mut command = fixture.command(&["resume", "task"]);
        command.env_remove("ANTHROPIC_API_KEY");
        command.env_remove("CODEX_TEST_KEY");
        let output = run_to_end(command);
        assert_ne!(output.code(), 0, "{adapter:?} {output:?}");
        assert_eq!(fixture.events("step_finished").len(), 0, "{adapter:?}");
        fixture.segno(&["resume", "task"]).expect_success();
        fixture.assert_done();
        assert_eq!(fixture.opened().pop().unwrap().1, "native", "{adapter:?}");
    }
}

#[test]
fn dry_run_starts_no_acp_agent() {
    for adapter in ADAPTERS {
        let mut fixture = WorkflowFixture::standard(adapter, "all");
        let starts = fixture.agent_sandbox.root().join("starts");
        let words = adapter.words().into_iter();
        let words: Vec<String> = words.map(|word| word.display().to_string()).collect();
        let recorder = fixture.sandbox.write_script(
            "recorder",
            &format!(
                "#!/bin/sh\necho start >>'{}'\nexec '{}'\n",
                starts.display(),
                words.join("' '")
            ),
        );
        let runtime = format!(
            "provider: acp, command: [{:?}]",
            recorder.display().to_string()
        );
        fixture.spec = fixture.write_task(&runtime, &standard().marker());
        let fixture = fixture.kill_mid_command();
        let started = || std::fs::read_to_string(&starts).unwrap();
        assert_eq!(started(), "start\n");
        let before = (fixture.server.requests().len(), fixture.transcripts());
        let plan = fixture.segno(&["resume", "task", "--dry-run", "--json"]);
        let step = plan.expect_success().json()[0]["steps"][0].clone();
        assert_eq!(step["strategy"], "native", "{step}");
        let unknown = step["unknown"][0].as_str().unwrap();
        assert!(unknown.contains("only the agent can tell"), "{unknown}");
        assert_eq!(started(), "start\n", "{adapter:?}");
        assert_eq!(
            before,
            (fixture.server.requests().len(), fixture.transcripts())
        );
        fixture.segno(&["resume", "task"]).expect_success();
        assert_eq!(fixture.opened().pop().unwrap().1, "native");
        fixture.assert_done();
    }
}

#[test]
fn acp_agent_that_cannot_start_keeps_its_session() {
    let mut fixture = WorkflowFixture::standard(Program::ClaudeAcp, "all");
    let words = Program::ClaudeAcp.words().into_iter();
    let words: Vec<String> = words.map(|word| format!("'{}'", word.display())).collect();
    let working = format!("#!/bin/sh\nexec {}\n", words.join(" "));
    let program = fixture.sandbox.write_script("adapter", &working);
    let runtime = format!(
        "provider: acp, command: [{:?}]",
        program.display().to_string()
    );
    fixture.spec = fixture.write_task(&runtime, &standard().marker());
    let fixture = fixture.kill_mid_command();
    for broken in [
        "#!/bin/sh\nexit 1\n",
        "#!/bin/sh\nkill -9 $$\n",
        "#!/no/such/shell\n",
    ] {
        fixture.sandbox.write_script("adapter", broken);
        let output = fixture.segno(&["resume", "task"]);
        assert_ne!(output.code(), 0, "{broken} {output:?}");
    }
    fixture.sandbox.write_script("adapter", &working);
    fixture.segno(&["resume", "task"]).expect_success();
    fixture.assert_done();
    let opened = fixture.opened();
    assert!(
        opened[1..]
            .iter()
            .all(|(id, it)| *id == opened[0].0 && it == "native"),
        "{opened:?}"
    );
}

#[test]
fn acp_agent_that_lost_its_session_gets_resume_context() {
    for adapter in ADAPTERS {
        let fixture = WorkflowFixture::killed(adapter);
        fixture
            .segno(&["checkpoint", "create", "task"])
            .expect_success();
        let session_folder = match adapter {
            Program::ClaudeAcp => fixture.agent_sandbox.home().join(".claude"),
            _ => fixture.agent_sandbox.codex_home().join("sessions"),
        };
        std::fs::remove_dir_all(session_folder).unwrap();
        let output = fixture.segno(&["resume", "task"]).expect_success();
        fixture.assert_done();
        let opened = fixture.opened();
        assert_eq!(
            opened.last().unwrap().1,
            "summarized",
            "{adapter:?} {output:?}"
        );
        assert_ne!(opened[0].0, opened.last().unwrap().0, "another session");
        let prompt = fixture.user_messages();
        for words in ["A place to work in. [standard:1]", "mkdir -p src"] {
            assert!(prompt.contains(words), "{adapter:?} {words}: {prompt}");
        }
    }
}

#[test]
fn acp_agent_without_approval_changes_nothing() {
    let fixture = WorkflowFixture::standard(Program::ClaudeAcp, "read");
    let output = fixture.segno(&["run", fixture.spec()]);
    assert!(
        output.stderr.contains("refused: worker may not use")
            && output.stderr.contains("`acp.permissions` in config.toml"),
        "{output:?}"
    );
    assert!(
        files(&fixture.agent_sandbox.work()).is_empty(),
        "{output:?}"
    );
    assert!(fixture.agent_sandbox.started_commands().is_empty());
}
