//! Agents whose programs keep their conversations: the real Claude Code and the real Codex, started
//! by the real binary, against models that answer from a script.

#![expect(
    clippy::disallowed_methods,
    reason = "a test damages the records of programs as anything might"
)]

mod acp;
mod context;
mod forks;
mod limits;
mod memos;
mod mixed;
mod moving;
mod taken_over;
mod told;
mod work;

use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use segno_testkit::model::{Part, Script, conversation, files, standard, standard_files};
use segno_testkit::programs::{Agent, Workshop};
use segno_testkit::sandbox::{until, wait};
use serde_json::Value;

use crate::{sandbox, segno};

/// A workflow of one step, which is asked of an agent.
struct Set {
    agent: Agent,
    workshop: Workshop,
    spec: PathBuf,
}

impl Deref for Set {
    type Target = Workshop;

    fn deref(&self) -> &Workshop {
        &self.workshop
    }
}

impl Set {
    /// One step, asked of the agent, with the standard script.
    fn new(agent: Agent) -> Self {
        Self::with(agent, standard())
    }

    fn with(agent: Agent, script: Script) -> Self {
        let marker = script.marker();
        let workshop = Workshop::new(segno(), [script], "all");
        let runtime = format!("provider: {}", agent.provider());
        Self {
            agent,
            spec: workshop.task(&runtime, &marker),
            workshop,
        }
    }

    fn start(&self) -> Child {
        let words = ["run", self.spec.to_str().unwrap(), "--json"];
        self.workshop.start(&words)
    }

    /// What the journal has of one kind.
    fn journal(&self, kind: &str) -> Vec<Value> {
        self.entries("task", kind)
    }

    /// The program's names for its conversations, and how it came to them.
    fn opened(&self) -> Vec<(String, String)> {
        self.workshop.opened("task")
    }

    /// The program's record of its conversation.
    fn record(&self) -> PathBuf {
        let (id, _) = self.opened().pop().unwrap();
        self.agent.record(&self.stage, &id).unwrap()
    }

    /// Does something to the record, and returns what it is then.
    fn damage(&self, change: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
        let path = self.record();
        let damaged = change(&std::fs::read(&path).unwrap());
        std::fs::write(&path, &damaged).unwrap();
        damaged
    }

    /// A set whose run was killed in the middle of a command.
    fn killed(agent: Agent) -> Self {
        Self::new(agent).struck()
    }

    /// Starts a run, and kills it in the middle of a command.
    fn struck(self) -> Self {
        let set = self;
        let child = set.start();
        until("the slow command runs and is written down", || {
            set.stage.signs().contains(&"slow".to_owned()) && set.written_down("task", "sleep 1")
        });
        set.kill(child);
        set
    }

    /// Resumes by this rung, as the plan says before, to the end.
    fn goes_on(&self, rung: &str) {
        let plan = self.segno(&["resume", "task", "--plan", "--json"]).good();
        assert_eq!(plan.json()[0]["steps"][0]["rung"], rung, "{plan:?}");
        self.segno(&["resume", "task"]).good();
        self.is_done();
        let opened = self.opened();
        assert_eq!(
            opened.last().unwrap().1,
            rung,
            "{:?} {opened:?}",
            self.agent
        );
        let (paid, mended) = (self.server.paid("standard"), self.server.mended("standard"));
        assert_eq!(
            paid,
            [0, 1, 2, 3, 4, 5, 6, 7, 8],
            "{:?} mended {mended:?}",
            self.agent
        );
    }

    /// Everything is as an undisturbed run leaves it, and nothing is left running.
    fn is_done(&self) {
        assert_eq!(files(&self.stage.work()), standard_files());
        self.is_quiet();
    }
}

#[test]
fn an_agent_does_its_task_and_what_it_says_is_in_the_journal() {
    for agent in [Agent::Claude, Agent::Codex] {
        let set = Set::new(agent);
        let said = set.segno(&["run", set.spec.to_str().unwrap()]).good();
        assert!(
            said.stdout
                .contains("Done: the plan, three files and a count."),
            "{said:?}"
        );
        set.is_done();
        assert_eq!(set.server.paid("standard"), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        let opened = set.opened();
        assert_eq!(opened.len(), 1, "{opened:?}");
        assert_eq!(opened[0].1, "-");
        assert!(agent.record(&set.stage, &opened[0].0).is_some());
        let said = set.journal("agent_said");
        let said: String = said
            .iter()
            .map(|entry| entry["entries"].to_string())
            .collect();
        for words in ["A place to work in.", "mkdir -p src", "The plan is done."] {
            assert!(said.contains(words), "{agent:?} {words}: {said}");
        }
    }
}

#[test]
fn an_agent_whose_run_is_killed_goes_on_with_its_own_conversation() {
    for agent in [Agent::Claude, Agent::Codex] {
        let set = Set::killed(agent);
        set.goes_on("native");
        let opened = set.opened();
        assert_eq!(opened.len(), 2, "{opened:?}");
        assert_eq!(opened[0].0, opened[1].0, "the same conversation");
        let told = set.told();
        assert!(
            told.contains("was broken off") && told.contains("sleep 1"),
            "{agent:?} {told}"
        );
    }
}

#[test]
fn a_record_that_is_torn_or_broken_is_put_in_order_first() {
    for agent in [Agent::Claude, Agent::Codex] {
        for damage in [torn, broken] {
            let set = Set::killed(agent);
            let damaged = set.damage(damage);
            set.goes_on("repaired");
            let path = set.record();
            let kept = path.with_extension("jsonl.before-repair-1");
            assert!(
                std::fs::read(kept).unwrap() == damaged,
                "what it was is kept"
            );
        }
    }
}

/// The last line without its end.
fn torn(record: &[u8]) -> Vec<u8> {
    record[..record.len() - 20].to_vec()
}

/// A line in the middle that nobody can read: the first in which the model speaks.
fn broken(record: &[u8]) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = record.split_inclusive(|byte| *byte == b'\n').collect();
    let spoken = lines.iter().position(|line| {
        let text = String::from_utf8_lossy(line);
        text.contains("[standard:1]")
    });
    lines[spoken.unwrap()] = b"{\"type\":\"ass\0\0\0\n";
    lines.concat()
}

#[test]
fn without_a_record_a_fresh_conversation_is_told_what_was_done() {
    for agent in [Agent::Claude, Agent::Codex] {
        for damage in [Some(Vec::new()), None] {
            let set = Set::killed(agent);
            match damage {
                Some(bytes) => std::fs::write(set.record(), bytes).unwrap(),
                None => std::fs::remove_file(set.record()).unwrap(),
            }
            set.goes_on("compiled");
            let opened = set.opened();
            assert_ne!(opened[0].0, opened[1].0, "another conversation");
            let told = set.told();
            for words in ["A place to work in. [standard:1]", "mkdir -p src"] {
                assert!(told.contains(words), "{agent:?} {words}: {told}");
            }
        }
    }
}

#[test]
fn a_record_that_is_gone_comes_back_from_a_checkpoint() {
    for agent in [Agent::Claude, Agent::Codex] {
        let set = Set::killed(agent);
        set.segno(&["checkpoint", "create", "task"]).good();
        let path = set.record();
        let before = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        set.goes_on("rehomed");
        let opened = set.opened();
        assert_eq!(opened[0].0, opened[1].0, "the same conversation");
        let after = std::fs::read(set.record()).unwrap();
        let first = before.split(|byte| *byte == b'\n').next().unwrap();
        assert!(after.starts_with(first), "{agent:?}");
    }
}

#[test]
fn a_session_is_handed_from_one_agent_to_the_other_and_back() {
    for (first, second) in [("claude", "codex"), ("codex", "claude")] {
        let agent = if first == "claude" {
            Agent::Claude
        } else {
            Agent::Codex
        };
        let set = Set::with(agent, standard());
        let mut child = set.start();
        until("the first command runs", || {
            set.stage.signs().contains(&"place".to_owned())
        });
        // What is not yet written down may be begun again.
        until("the third turn is written down", || {
            let said = set.journal("agent_said");
            let said = said.iter().map(|entry| entry["entries"].to_string());
            said.collect::<String>().contains("[standard:2]")
        });
        child.kill().unwrap();
        wait(child);
        until("nothing runs", || set.stage.processes().is_empty());
        let mut command = set.command(&["handoff", "task", "--to", second]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        until("the slow command runs", || {
            set.stage.signs().contains(&"slow".to_owned())
        });
        child.kill().unwrap();
        wait(child);
        until("nothing runs", || set.stage.processes().is_empty());
        let sent = conversation(&set.server.request("standard", 4).unwrap());
        let calls = sent.iter().filter(|part| matches!(part, Part::Call(..)));
        assert!(calls.count() >= 3, "calls stay calls: {sent:#?}");
        set.segno(&["handoff", "task", "--to", first]).good();
        set.is_done();
        let rungs: Vec<String> = set.opened().into_iter().map(|(_, rung)| rung).collect();
        assert_eq!(rungs, ["-", "other", "other"], "{first}");
        for asked in set.server.asked() {
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
fn a_conversation_of_a_session_is_not_adopted_as_another() {
    for agent in [Agent::Claude, Agent::Codex] {
        let set = Set::killed(agent);
        let name = match agent {
            Agent::Claude => "claude",
            Agent::Codex => "codex",
        };
        let said = set.segno(&["import", name, "--all", "--json"]);
        assert!(
            said.stdout.contains("it is a conversation of session task"),
            "{said:?}"
        );
        let listed = set.segno(&["sessions", "list", "--all", "--json"]).good();
        assert_eq!(listed.json().len(), 1, "{listed:?}");
    }
}

/// A program in Claude Code's place that writes down how it is started and what it reads, and fails the
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
fn no_word_becomes_a_flag_and_permissions_are_those_of_today() {
    let sandbox = sandbox();
    let program = sandbox.script("recorder", RECORDER);
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
        .refused(10, &["exit code 1"]);
    sandbox.segno(&["resume", "task"]).good();
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
