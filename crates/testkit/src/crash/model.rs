//! The workloads, and the result of each when it is not disturbed.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::ops::Deref;
use std::path::Path;

use serde_json::Value;

use super::kill::{Home, Workload};
use super::patterns;
use super::trace::RUN;
use crate::model::{ModelResponse, ModelServer};
use crate::sandbox::{Sandbox, chain_spec};

/// How many steps a chain has.
const STEPS: usize = 5;

/// Failing attempts are retried immediately: a fault may hit the agent instead of segno.
pub(super) const RETRY_POLICY: &str =
    "failure_policy: {retries: 2, backoff: constant, wait_min: 0, wait_max: 0}";

/// A sandbox for a workload, with a model server if the workload needs one.
pub struct WorkloadSandbox {
    sandbox: Sandbox,
    server: Option<ModelServer>,
}

impl Deref for WorkloadSandbox {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.sandbox
    }
}

impl WorkloadSandbox {
    /// The steps that were executed, one item per call, given the journal of the session. A model
    /// server sees questions, not steps; in these workloads no two steps ask the same question.
    pub(super) fn called_steps(&self, journal: &[Value]) -> Vec<String> {
        let Some(server) = &self.server else {
            return self.sandbox.calls();
        };
        let step = |question: String| {
            let asks = |entry: &&Value| {
                entry["kind"] == "step_started" && entry["input"].as_str() == Some(&question)
            };
            let entry = journal.iter().find(asks);
            let path = entry.and_then(|entry| entry["path"].as_str());
            path.map_or_else(|| format!("no step: {question}"), str::to_owned)
        };
        let asked = server.requests().into_iter();
        asked.map(|asked| step(asked.last_message())).collect()
    }

    /// Whether a model server counts the calls.
    pub(super) fn has_server(&self) -> bool {
        self.server.is_some()
    }
}

/// The spec of a pattern that a model server answers. The agents' prompts say the session's name.
pub(super) fn spec_of(workload: Workload, name: &str, host: &str) -> String {
    let pattern = patterns::pattern_of(workload);
    let runtime = format!("{{provider: openai, host: \"{host}\", {RETRY_POLICY}}}");
    format!(
        "version: 0\nname: {name}\nruntime: {runtime}\nagents: {{a: {{prompt: \"Answer for {name}.\"}}, b: {{prompt: \"Judge for {name}.\"}}}}\npattern: {pattern}\noutputs: {{artifacts: [{{path: out.txt, from: \"{{{{ last_response }}}}\"}}]}}\n"
    )
}

impl Workload {
    /// A new sandbox in which this workload can run.
    pub fn sandbox(self, binary: &Path, home: Home) -> WorkloadSandbox {
        let sandbox = Sandbox::new(binary);
        let mut server = None;
        let scripted = format!("{{provider: scripted, script: answers.yaml, {RETRY_POLICY}}}");
        let spec = match self {
            Self::Command => {
                sandbox.command_chain(STEPS, "");
                let runtime =
                    format!("{{provider: command, command: [./agent.sh], {RETRY_POLICY}}}");
                chain_spec(&runtime, STEPS)
            }
            Self::Scripted | Self::Long => {
                sandbox.write("answers.yaml", &self.answers());
                chain_spec(&scripted, STEPS)
            }
            other => {
                let model = server.insert(ModelServer::start(move |_, asked| {
                    ModelResponse::Text(patterns::answer(other, &asked.last_message()))
                }));
                spec_of(other, "flow", &model.host())
            }
        };
        sandbox.write("chain.yaml", &spec);
        if home == Home::Used {
            sandbox.segno(&["doctor"]).expect_success();
        }
        WorkloadSandbox { sandbox, server }
    }

    /// How many steps it has.
    pub(super) fn steps(self) -> usize {
        match self {
            Self::Scripted | Self::Long | Self::Command => STEPS,
            Self::Chain => 8,
            Self::Tasks => 40,
            Self::Routing => 4,
            Self::Parallel => 5 * 4 + 1,
            Self::Evaluator => 5 * 2,
            Self::Orchestrator => 3 + 3 * 4 + 2,
            Self::Graph => 4 * 2 + 1,
        }
    }

    /// A script with a different answer for every step, so that a swapped answer is detected.
    fn answers(self) -> String {
        let mut script = "ledger: calls.log\nanswers:\n".to_owned();
        for step in 0..STEPS {
            let is_long = self == Self::Long && (step % 2 == 1 || step == STEPS - 1);
            let bytes = if is_long { 300_000 } else { 2048 };
            writeln!(
                script,
                "  - {{step: steps/{step}, repeat: {{text: \"answer {step}, \", bytes: {bytes}}}, usage: {{input_tokens: 100, output_tokens: 20, cost_usd: 0.001}}}}"
            )
            .unwrap();
        }
        script
    }
}

/// The result of an undisturbed workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// The output in the last line.
    pub output: String,
    /// The answer of each step, as the journal has it.
    pub answers: BTreeMap<String, Value>,
    /// The files in `artifacts/`.
    pub artifacts: BTreeMap<String, Vec<u8>>,
}

impl Model {
    /// Runs the workload without a fault.
    pub fn of(binary: &Path, workload: Workload) -> Self {
        let sandbox = workload.sandbox(binary, Home::Fresh);
        let said = sandbox.segno(RUN).expect_success();
        let printed = said.json();
        let result = printed.iter().find_map(output);
        let journal = sandbox.segno(&["logs", "--json"]).expect_success().json();
        let mut calls = sandbox.called_steps(&journal);
        calls.sort();
        let model = Self {
            output: result.expect("a completed run has a result").to_owned(),
            answers: answers(&journal),
            artifacts: artifacts(&sandbox),
        };
        let steps: Vec<&String> = model.answers.keys().collect();
        assert_eq!(
            calls.iter().collect::<Vec<_>>(),
            steps,
            "each step is asked once"
        );
        assert_eq!(steps.len(), workload.steps(), "{steps:?}");
        assert_eq!(model.artifacts.len(), 1);
        model
    }
}

/// The answer of each finished step, as the journal has it.
pub(super) fn answers(journal: &[Value]) -> BTreeMap<String, Value> {
    let answer = |entry: &Value| {
        let path = finished(entry)?;
        Some((path.to_owned(), entry["output"].clone()))
    };
    journal.iter().filter_map(answer).collect()
}

/// The step that this event finishes.
pub(super) fn finished(entry: &Value) -> Option<&str> {
    (entry["kind"] == "step_finished").then(|| entry["path"].as_str())?
}

/// The workflow's result, if this line of `run --json` or `resume --json` contains it.
pub(super) fn output(line: &Value) -> Option<&str> {
    (line["kind"] == "result").then(|| line["output"].as_str())?
}

/// Everything in `artifacts/`, drafts included.
pub(super) fn artifacts(sandbox: &Sandbox) -> BTreeMap<String, Vec<u8>> {
    artifacts_in(&sandbox.work().join("artifacts"))
}

/// Everything in a folder of artifacts.
pub(super) fn artifacts_in(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let Ok(folder) = fs::read_dir(folder) else {
        return BTreeMap::new();
    };
    folder
        .map(|file| file.unwrap())
        .map(|file| {
            let name = file.file_name().to_string_lossy().into_owned();
            (name, fs::read(file.path()).unwrap())
        })
        .collect()
}
