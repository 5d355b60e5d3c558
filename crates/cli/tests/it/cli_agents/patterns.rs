//! The resume context in every pattern, observed in what agents of every kind are sent.

use segno_testkit::model::{Script, Turn};
use segno_testkit::programs::{AgentFixture, Program};
use segno_testkit::sandbox::run_to_end;
use serde_json::Value;

use super::acp::argv;
use crate::segno;

/// Every pattern with at least three steps. WORK is what a step asks.
const PATTERNS: [(&str, &str); 8] = [
    (
        "chain",
        "{type: chain, config: {steps: [{agent: worker, WORK}, {agent: worker, WORK}, {agent: worker, WORK}]}}",
    ),
    (
        "workflow",
        "{type: workflow, config: {tasks: [{id: a, agent: worker, WORK}, {id: b, agent: worker, WORK, deps: [a]}, {id: c, agent: worker, WORK, deps: [b]}]}}",
    ),
    (
        "routing",
        "{type: routing, config: {router: {agent: worker, input: \"Choose. [script:route]\"}, routes: {only: {then: [{agent: worker, WORK}, {agent: worker, WORK}]}}}}",
    ),
    (
        "parallel",
        "{type: parallel, config: {branches: [{id: a, steps: [{agent: worker, WORK}]}, {id: b, steps: [{agent: worker, WORK}]}], reduce: {agent: worker, WORK}}}",
    ),
    (
        "evaluator",
        "{type: evaluator_optimizer, config: {producer: producer, evaluator: {agent: judge, input: \"Judge it. [script:judge]\"}, accept: {min_score: 80, max_iters: 2}, revise_prompt: \"Continue. [script:work]\"}}",
    ),
    (
        "orchestrator",
        "{type: orchestrator_workers, config: {orchestrator: {agent: worker, input: \"Split it. [script:split]\", limits: {max_workers: 1}}, worker_template: {agent: worker}, reduce: {agent: worker, WORK}}}",
    ),
    (
        "graph",
        "{type: graph, config: {nodes: {a: {agent: worker, WORK}, b: {agent: worker, WORK}, c: {agent: worker, WORK}}, edges: [{from: a, to: [b]}, {from: b, to: [c]}]}}",
    ),
    (
        "plan",
        "{type: plan, config: {agent: worker, tasks: [{id: T1, title: Begin, description: \"[script:work]\"}, {id: T2, title: Continue, description: \"[script:work]\"}, {id: T3, title: End, description: \"[script:work]\"}]}}",
    ),
];

const ROUTE: &str = r#"{"route": "only"}"#;
const SPLIT: &str = r#"[{"task": "Do one. [script:work]"}, {"task": "Do two. [script:work]"}]"#;
const VERDICT: &str = r#"{"score": 10, "issues": ["short"]}"#;

/// Who executes the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Executor {
    Model,
    ClaudeCode,
    Codex,
    Acp,
    Command,
}

/// A workflow that pauses after each step.
struct PatternFixture {
    executor: Executor,
    workshop: AgentFixture,
    spec: String,
}

impl PatternFixture {
    fn new(executor: Executor, pattern: &str) -> Self {
        let script = |name: &str, text: &str| Script::new(name, [Turn::say(text)]);
        let scripts = [
            script("work", "Done."),
            script("route", ROUTE),
            script("split", SPLIT),
            script("judge", VERDICT),
        ];
        let workshop = AgentFixture::new(segno(), scripts, "all");
        let runtime = match executor {
            Executor::Model => format!("provider: anthropic, host: \"{}\"", workshop.server.host()),
            Executor::ClaudeCode => "provider: claude-code".to_owned(),
            Executor::Codex => "provider: codex".to_owned(),
            Executor::Acp => format!("provider: acp, command: {}", argv(Program::ClaudeAcp)),
            Executor::Command => {
                let program = workshop.sandbox.write_script("worker.sh", &Self::program());
                format!(
                    "provider: command, command: [{:?}]",
                    program.display().to_string()
                )
            }
        };
        let pattern = pattern.replace("WORK", "input: \"Continue. [script:work]\"");
        let spec = format!(
            "version: 0
name: task
description: Count the coins.
runtime: {{{runtime}, max_parallel: 1, failure_policy: {{retries: 0}}}}
agents:
  worker: {{prompt: You do tasks.}}
  producer: {{prompt: \"You write. [script:work]\"}}
  judge: {{prompt: You judge.}}
pattern: {pattern}
continuity: {{pause: {{after_steps: 1}}}}
"
        );
        let spec = workshop.sandbox.write("task.yaml", &spec);
        if pattern.contains("type: plan") {
            super::work::repository(&workshop);
        }
        Self {
            executor,
            spec: spec.display().to_string(),
            workshop,
        }
    }

    /// A program that records what it reads and answers as the models do.
    fn program() -> String {
        format!(
            "#!/bin/sh
folder=$(dirname \"$0\")/heard
mkdir -p \"$folder\"
cat > \"$folder/$(ls \"$folder\" | wc -l)\"
case $SEGNO_STEP in
  router) echo '{ROUTE}';;
  */orchestrator) echo '{SPLIT}';;
  */evaluator) echo '{VERDICT}';;
  *) echo done;;
esac
"
        )
    }

    /// All texts that were sent to the agents so far, one for each call.
    fn sent(&self) -> Vec<String> {
        if self.executor != Executor::Command {
            let requests = self.workshop.server.requests();
            let texts = |body: &Value| {
                let mut text = String::new();
                collect_texts(body, &mut text);
                text
            };
            return requests.iter().map(|asked| texts(&asked.body)).collect();
        }
        let folder = self.workshop.sandbox.work().join("heard");
        let count = std::fs::read_dir(&folder).map_or(0, Iterator::count);
        let read = |number| std::fs::read_to_string(folder.join(format!("{number}"))).unwrap();
        (0..count).map(read).collect()
    }

    /// Resumes up to the next pause, and returns the resume context that the agent was sent.
    fn told_on_resume(&self) -> String {
        let before = self.sent().len();
        let output = self.workshop.segno(&["resume", "task"]);
        assert!([0, 130].contains(&output.code()), "{output:?}");
        self.workshop.wait_until_idle();
        let sent = self.sent().split_off(before);
        let told = sent.iter().find_map(|text| {
            let (_, rest) = text.split_once("----- begin context ")?;
            let (mark, rest) = rest.split_once('\n')?;
            let (context, _) = rest.split_once(&format!("\n----- end context {mark}"))?;
            Some(context.to_owned())
        });
        told.unwrap_or_else(|| panic!("{:?} {sent:#?}", self.executor))
    }

    /// Crashes the next run before its first agent is called.
    fn crash(&self) {
        let mut command = self.workshop.command(&["resume", "task"]);
        command.env("SEGNO_FAILPOINT", "step.before_effect:1");
        let output = run_to_end(command);
        assert!(output.crashed(), "{output:?}");
        self.workshop.wait_until_idle();
    }
}

/// Appends every text in a value.
fn collect_texts(value: &Value, into: &mut String) {
    match value {
        Value::String(text) => {
            into.push_str(text);
            into.push('\n');
        }
        Value::Array(items) => items.iter().for_each(|item| collect_texts(item, into)),
        Value::Object(fields) => fields.values().for_each(|field| collect_texts(field, into)),
        _ => {}
    }
}

fn assert_told_after_pause_and_crash(executor: Executor, patterns: &[(&str, &str)]) {
    for (name, pattern) in patterns {
        let fixture = PatternFixture::new(executor, pattern);
        let segno = |words: &[&str]| fixture.workshop.segno(words);
        segno(&["run", &fixture.spec]).refused(130, &["R0102"]);
        let first_run = fixture.sent().concat();
        assert!(!first_run.contains("begin context"), "{executor:?} {name}");
        let note = ["note", "decision", "Use SQLite", "--session", "task"];
        segno(&note).expect_success();
        for (crashes, session, ended) in [
            (false, "task, session number 2", "after_steps: 1 "),
            (true, "task, session number 4", "the process"),
        ] {
            if crashes {
                fixture.crash();
            }
            let told = fixture.told_on_resume();
            for words in [
                session,
                "> Count the coins.",
                "- [x] ",
                "- d1 [approach] Use SQLite",
                "next: ",
                "reason for the stop: ",
                ended,
                "`segno note list task`",
            ] {
                assert!(told.contains(words), "{executor:?} {name} {words}\n{told}");
            }
        }
        let started = fixture.workshop.events("task", "step_started");
        let told = started
            .iter()
            .filter(|event| event["resume_context"].is_string());
        assert!(told.count() >= 1, "{executor:?} {name} {started:#?}");
    }
}

#[test]
fn model_is_told_in_every_pattern() {
    assert_told_after_pause_and_crash(Executor::Model, &PATTERNS);
}

#[test]
fn command_is_told_in_every_pattern() {
    assert_told_after_pause_and_crash(Executor::Command, &PATTERNS);
}

#[test]
fn claude_code_is_told_in_sequential_patterns() {
    assert_told_after_pause_and_crash(Executor::ClaudeCode, &PATTERNS[..4]);
}

#[test]
fn claude_code_is_told_in_other_patterns() {
    assert_told_after_pause_and_crash(Executor::ClaudeCode, &PATTERNS[4..]);
}

#[test]
fn codex_is_told_in_sequential_patterns() {
    assert_told_after_pause_and_crash(Executor::Codex, &PATTERNS[..4]);
}

#[test]
fn codex_is_told_in_other_patterns() {
    assert_told_after_pause_and_crash(Executor::Codex, &PATTERNS[4..]);
}

#[test]
fn acp_agent_is_told_in_sequential_patterns() {
    assert_told_after_pause_and_crash(Executor::Acp, &PATTERNS[..4]);
}

#[test]
fn acp_agent_is_told_in_other_patterns() {
    assert_told_after_pause_and_crash(Executor::Acp, &PATTERNS[4..]);
}
