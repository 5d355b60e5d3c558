//! CLI agents: the real binary starts the real Claude Code and the real Codex, against models that
//! answer from a script.

#![expect(
    clippy::disallowed_methods,
    reason = "a test damages the records of programs as anything might"
)]

mod acp;
mod context;
mod earlier_home;
mod failed_starts;
mod forks;
mod handoff;
mod held;
mod killed_guard;
mod limits;
mod missing;
mod mixed;
mod moving;
mod notes;
mod patterns;
mod reader;
mod resume_context;
mod usage;
mod work;

use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use segno_testkit::model::{Part, Script, conversation, files, standard, standard_files};
use segno_testkit::programs::{Agent, AgentFixture};
use segno_testkit::sandbox::{wait_for_output, wait_until};
use serde_json::Value;

use crate::{sandbox, segno};

/// A workflow with one step, which a CLI agent executes.
struct Fixture {
    agent: Agent,
    workshop: AgentFixture,
    spec: PathBuf,
}

impl Deref for Fixture {
    type Target = AgentFixture;

    fn deref(&self) -> &AgentFixture {
        &self.workshop
    }
}

impl Fixture {
    /// A fixture with the standard script.
    fn new(agent: Agent) -> Self {
        Self::with(agent, standard())
    }

    fn with(agent: Agent, script: Script) -> Self {
        let marker = script.marker();
        let workshop = AgentFixture::new(segno(), [script], "all");
        let runtime = format!("provider: {}", agent.provider());
        Self {
            agent,
            spec: workshop.write_task(&runtime, &marker),
            workshop,
        }
    }

    fn start(&self) -> Child {
        let words = ["run", self.spec.to_str().unwrap(), "--json"];
        self.workshop.start(&words)
    }

    /// The journal's events of one kind.
    fn events(&self, kind: &str) -> Vec<Value> {
        self.workshop.events("task", kind)
    }

    /// The agent's ids of its conversations, each with its resume strategy.
    fn opened(&self) -> Vec<(String, String)> {
        self.workshop.conversations("task")
    }

    /// The path of the agent's transcript of its conversation.
    fn transcript(&self) -> PathBuf {
        let (id, _) = self.opened().pop().unwrap();
        self.agent
            .transcript_path(&self.agent_sandbox, &id)
            .unwrap()
    }

    /// Changes the transcript and returns its new content.
    fn damage(&self, change: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
        let path = self.transcript();
        let damaged = change(&std::fs::read(&path).unwrap());
        std::fs::write(&path, &damaged).unwrap();
        damaged
    }

    /// A fixture whose run was killed in the middle of a command.
    fn killed(agent: Agent) -> Self {
        Self::new(agent).kill_mid_command()
    }

    /// Starts a run and kills it in the middle of a command.
    fn kill_mid_command(self) -> Self {
        let fixture = self;
        let child = fixture.start();
        wait_until("the slow command runs and is written down", || {
            fixture
                .agent_sandbox
                .started_commands()
                .contains(&"slow".to_owned())
                && fixture.is_persisted("task", "sleep 1")
        });
        fixture.kill(child);
        fixture
    }

    /// Resumes to the end with this strategy, after checking that the plan announces it.
    fn assert_resumes_with(&self, strategy: &str) {
        let plan = self
            .segno(&["resume", "task", "--dry-run", "--json"])
            .expect_success();
        assert_eq!(plan.json()[0]["steps"][0]["strategy"], strategy, "{plan:?}");
        self.segno(&["resume", "task"]).expect_success();
        self.assert_done();
        let opened = self.opened();
        assert_eq!(
            opened.last().unwrap().1,
            strategy,
            "{:?} {opened:?}",
            self.agent
        );
        let (paid, mended) = (
            self.server.paid_turns("standard"),
            self.server.repaired_turns("standard"),
        );
        assert_eq!(
            paid,
            [0, 1, 2, 3, 4, 5, 6, 7, 8],
            "{:?} mended {mended:?}",
            self.agent
        );
    }

    /// Asserts that the files are those of an undisturbed run and that no process is left.
    fn assert_done(&self) {
        assert_eq!(files(&self.agent_sandbox.work()), standard_files());
        self.wait_until_idle();
    }
}

#[test]
fn agent_messages_are_in_the_journal() {
    for agent in [Agent::Claude, Agent::Codex] {
        let fixture = Fixture::new(agent);
        let output = fixture
            .segno(&["run", fixture.spec.to_str().unwrap()])
            .expect_success();
        assert!(
            output
                .stdout
                .contains("Done: the plan, three files and a count."),
            "{output:?}"
        );
        fixture.assert_done();
        assert_eq!(
            fixture.server.paid_turns("standard"),
            [0, 1, 2, 3, 4, 5, 6, 7, 8]
        );
        let opened = fixture.opened();
        assert_eq!(opened.len(), 1, "{opened:?}");
        assert_eq!(opened[0].1, "-");
        assert!(
            agent
                .transcript_path(&fixture.agent_sandbox, &opened[0].0)
                .is_some()
        );
        let messages = fixture.events("agent_said");
        let messages: String = messages
            .iter()
            .map(|event| event["entries"].to_string())
            .collect();
        for words in ["A place to work in.", "mkdir -p src", "The plan is done."] {
            assert!(messages.contains(words), "{agent:?} {words}: {messages}");
        }
    }
}

#[test]
fn killed_agent_resumes_its_own_conversation() {
    for agent in [Agent::Claude, Agent::Codex] {
        let fixture = Fixture::killed(agent);
        fixture.assert_resumes_with("native");
        let opened = fixture.opened();
        assert_eq!(opened.len(), 2, "{opened:?}");
        assert_eq!(opened[0].0, opened[1].0, "the same conversation");
        let prompt = fixture.user_messages();
        assert!(
            prompt.contains("was interrupted") && prompt.contains("sleep 1"),
            "{agent:?} {prompt}"
        );
    }
}

#[test]
fn damaged_transcript_is_repaired_before_resume() {
    for agent in [Agent::Claude, Agent::Codex] {
        for damage in [torn, broken] {
            let fixture = Fixture::killed(agent);
            let damaged = fixture.damage(damage);
            fixture.assert_resumes_with("repaired");
            let path = fixture.transcript();
            let backup = path.with_extension("jsonl.before-repair-1");
            assert!(
                std::fs::read(backup).unwrap() == damaged,
                "what it was is kept"
            );
        }
    }
}

/// The transcript without the end of its last line.
fn torn(transcript: &[u8]) -> Vec<u8> {
    transcript[..transcript.len() - 20].to_vec()
}

/// The transcript with an unreadable line in the middle: the first one in which the model speaks.
fn broken(transcript: &[u8]) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = transcript.split_inclusive(|byte| *byte == b'\n').collect();
    let spoken = lines.iter().position(|line| {
        let text = String::from_utf8_lossy(line);
        text.contains("[standard:1]")
    });
    lines[spoken.unwrap()] = b"{\"type\":\"ass\0\0\0\n";
    lines.concat()
}

#[test]
fn lost_transcript_leads_to_a_summarized_conversation() {
    for agent in [Agent::Claude, Agent::Codex] {
        for damage in [Some(Vec::new()), None] {
            let fixture = Fixture::killed(agent);
            match damage {
                Some(bytes) => std::fs::write(fixture.transcript(), bytes).unwrap(),
                None => std::fs::remove_file(fixture.transcript()).unwrap(),
            }
            fixture.assert_resumes_with("summarized");
            let opened = fixture.opened();
            assert_ne!(opened[0].0, opened[1].0, "another conversation");
            let prompt = fixture.user_messages();
            for words in ["A place to work in. [standard:1]", "mkdir -p src"] {
                assert!(prompt.contains(words), "{agent:?} {words}: {prompt}");
            }
        }
    }
}

#[test]
fn lost_transcript_is_restored_from_a_checkpoint() {
    for agent in [Agent::Claude, Agent::Codex] {
        let fixture = Fixture::killed(agent);
        fixture
            .segno(&["checkpoint", "create", "task"])
            .expect_success();
        let path = fixture.transcript();
        let before = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        fixture.assert_resumes_with("restored");
        let opened = fixture.opened();
        assert_eq!(opened[0].0, opened[1].0, "the same conversation");
        let after = std::fs::read(fixture.transcript()).unwrap();
        let first = before.split(|byte| *byte == b'\n').next().unwrap();
        assert!(after.starts_with(first), "{agent:?}");
    }
}

#[test]
fn session_is_handed_to_another_agent_and_back() {
    for (first, second) in [("claude", "codex"), ("codex", "claude")] {
        let agent = if first == "claude" {
            Agent::Claude
        } else {
            Agent::Codex
        };
        let fixture = Fixture::with(agent, standard());
        let mut child = fixture.start();
        wait_until("the first command runs", || {
            fixture
                .agent_sandbox
                .started_commands()
                .contains(&"place".to_owned())
        });
        // The next agent may repeat a turn that is not in the journal yet.
        wait_until("the third turn is written down", || {
            let messages = fixture.events("agent_said");
            let messages = messages.iter().map(|event| event["entries"].to_string());
            messages.collect::<String>().contains("[standard:2]")
        });
        child.kill().unwrap();
        wait_for_output(child);
        wait_until("nothing runs", || {
            fixture.agent_sandbox.processes().is_empty()
        });
        let mut command = fixture.command(&["resume", "task", "--agent", second]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // On a busy machine the first agent may have started the slow command before it was killed.
        wait_until("the second agent runs the slow command", || {
            let started = fixture.agent_sandbox.started_commands();
            started.contains(&"slow".to_owned()) && fixture.opened().len() == 2
        });
        child.kill().unwrap();
        wait_for_output(child);
        wait_until("nothing runs", || {
            fixture.agent_sandbox.processes().is_empty()
        });
        let sent = conversation(&fixture.server.request("standard", 4).unwrap());
        let calls = sent.iter().filter(|part| matches!(part, Part::Call(..)));
        assert!(calls.count() >= 3, "calls stay calls: {sent:#?}");
        fixture
            .segno(&["resume", "task", "--agent", first])
            .expect_success();
        fixture.assert_done();
        let strategies: Vec<String> = fixture
            .opened()
            .into_iter()
            .map(|(_, strategy)| strategy)
            .collect();
        assert_eq!(strategies, ["-", "handoff", "handoff"], "{first}");
        for asked in fixture.server.requests() {
            let usual = if asked.path.contains("/responses") {
                "gpt-"
            } else {
                "claude-"
            };
            let model = asked.body["model"].as_str().unwrap_or(usual);
            assert!(
                model.starts_with(usual),
                "{} is asked for {model:?}",
                asked.path
            );
        }
    }
}

#[test]
fn import_skips_conversations_of_existing_sessions() {
    for agent in [Agent::Claude, Agent::Codex] {
        let fixture = Fixture::killed(agent);
        let name = match agent {
            Agent::Claude => "claude",
            Agent::Codex => "codex",
        };
        let output = fixture.segno(&["agents", "import", name, "--all", "--json"]);
        assert!(
            output
                .stdout
                .contains("it is a conversation of session `task`"),
            "{output:?}"
        );
        let listed = fixture
            .segno(&["sessions", "list", "--all", "--json"])
            .expect_success();
        assert_eq!(listed.json().len(), 1, "{listed:?}");
    }
}

/// A program in the place of Claude Code that records its arguments and its stdin, and fails the
/// first time.
const RECORDER: &str = r#"#!/bin/sh
for word in "$@"; do
  printf '%s\n' "$word" >> words
  case "$word" in --session-id=*|--resume=*) id=${word#*=} ;; esac
done
echo ---- >> words
cat >> read
printf '{"type":"system","subtype":"init","session_id":"%s"}\n' "$id"
test -e failed || { touch failed; exit 1; }
printf '{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"%s"}\n' "$id"
"#;

#[test]
fn prompts_cannot_inject_flags_and_permissions_are_current() {
    let sandbox = sandbox();
    let program = sandbox.write_script("recorder", RECORDER);
    sandbox.configure(&format!(
        "[claude-code]\nprogram = {:?}\n",
        program.display().to_string()
    ));
    let evil = "--dangerously-skip-permissions";
    sandbox.write(
        "task.yaml",
        &format!(
            "version: 0\nname: task\nruntime: {{provider: claude-code, model_id: \"{evil}\", failure_policy: {{retries: 0}}}}\nagents: {{worker: {{prompt: \"{evil}\"}}}}\npattern: {{type: chain, config: {{steps: [{{agent: worker, input: \"{evil}\"}}]}}}}\n"
        ),
    );
    sandbox
        .segno(&["run", "task.yaml", "--permissions", "all"])
        .refused(10, &["exited with code 1"]);
    sandbox.segno(&["resume", "task"]).expect_success();
    let words = sandbox.read("words");
    let mut starts = words
        .split("----\n")
        .map(|start| start.lines().collect::<Vec<_>>());
    let (first, second) = (starts.next().unwrap(), starts.next().unwrap());
    for (start, mode) in [(&first, "bypassPermissions"), (&second, "acceptEdits")] {
        assert!(
            start.contains(&format!("--permission-mode={mode}").as_str()),
            "{start:?}"
        );
        assert!(
            start.contains(&format!("--model={evil}").as_str()),
            "{start:?}"
        );
        assert!(
            start.contains(&format!("--append-system-prompt={evil}").as_str()),
            "{start:?}"
        );
        assert!(!start.contains(&evil), "{start:?}");
    }
    assert!(sandbox.read("read").starts_with(evil));
}

#[test]
fn agent_step_in_flight_can_be_resolved() {
    for agent in [Agent::Claude, Agent::Codex] {
        let fixture = Fixture::killed(agent);
        let paid = fixture.server.paid_turns("standard");
        let words = [
            "resume",
            "task",
            "--in-flight",
            "done",
            "--result",
            "by hand",
        ];
        let output = fixture.segno(&words).expect_success();
        assert_eq!(output.stdout, "by hand\n", "{agent:?}");
        // The agent was not called again.
        assert_eq!(fixture.server.paid_turns("standard"), paid, "{agent:?}");
        assert_eq!(fixture.events("step_finished")[0]["output"], "by hand");
        fixture.wait_until_idle();
    }
}
