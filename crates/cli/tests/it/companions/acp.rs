//! Agents that speak the Agent Client Protocol: the real adapters of Claude Code and Codex.

use std::ops::Deref;
use std::path::PathBuf;

use segno_testkit::model::{Script, files, standard, standard_files};
use segno_testkit::programs::{Program, Workshop};
use segno_testkit::sandbox::until;
use serde_json::Value;

use crate::segno;

/// The adapters that are driven.
pub(super) const ADAPTERS: [Program; 2] = [Program::ClaudeAcp, Program::CodexAcp];

/// A workflow, and the agents that it asks.
pub(super) struct Ground {
    workshop: Workshop,
    spec: PathBuf,
}

impl Deref for Ground {
    type Target = Workshop;

    fn deref(&self) -> &Workshop {
        &self.workshop
    }
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
        let workshop = Workshop::new(segno(), scripts, permissions);
        let spec = spec(&workshop.server.host());
        Self {
            spec: workshop.sandbox.write("task.yaml", &spec),
            workshop,
        }
    }

    /// One step, asked of an adapter, with the standard script.
    fn standard(adapter: Program, permissions: &str) -> Self {
        let script = standard();
        let marker = script.marker();
        let workshop = Workshop::new(segno(), [script], permissions);
        let runtime = format!("provider: acp, command: {}", argv(adapter));
        Self {
            spec: workshop.task(&runtime, &marker),
            workshop,
        }
    }

    /// The spec, to be run.
    pub(super) fn spec(&self) -> &str {
        self.spec.to_str().unwrap()
    }

    /// What the journal has of one kind.
    pub(super) fn journal(&self, kind: &str) -> Vec<Value> {
        self.entries("task", kind)
    }

    /// The agents' names for their conversations, and how they came to them.
    pub(super) fn opened(&self) -> Vec<(String, String)> {
        self.workshop.opened("task")
    }

    /// All that was said, as the journal has it.
    fn said(&self) -> String {
        let said = self.journal("agent_said");
        said.iter()
            .map(|entry| entry["entries"].to_string())
            .collect()
    }

    /// The words among it. A message may come in pieces, with what a tool answers between them.
    fn spoken(&self) -> String {
        let said = self.journal("agent_said");
        let entries = said.iter().flat_map(|entry| {
            let entries = entry["entries"].as_str().unwrap();
            serde_json::from_str::<Vec<Value>>(entries).unwrap()
        });
        let parts = entries.flat_map(|entry| {
            let parts = entry["said"]["parts"].as_array().cloned();
            parts.unwrap_or_default()
        });
        let words = parts.filter_map(|part| Some(part["text"].as_str()?.to_owned()));
        words.collect()
    }

    /// One whose run was killed in the middle of a command.
    fn killed(adapter: Program) -> Self {
        let ground = Self::standard(adapter, "all");
        let child = ground.start(&["run", ground.spec(), "--json"]);
        until("the slow command runs and is written down", || {
            ground.stage.signs().contains(&"slow".to_owned())
                && ground.written_down("task", "sleep 1")
                && ground.spoken().contains("[standard:4]")
        });
        ground.kill(child);
        ground
    }

    /// Everything is as an undisturbed run leaves it, each turn was paid once, and nothing runs.
    fn is_done(&self) {
        assert_eq!(files(&self.stage.work()), standard_files());
        assert_eq!(self.server.paid("standard"), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        self.is_quiet();
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
        let (said, spoken) = (ground.said(), ground.spoken());
        assert!(
            spoken.contains("A place to work in. [standard:1]"),
            "{adapter:?} {spoken}"
        );
        for words in ["mkdir -p src", "delta"] {
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
        let said = ground.spoken();
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
