//! The workloads, and what each comes to when nobody disturbs it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::kill::{Home, Workload};
use super::patterns;
use super::trace::RUN;
use crate::sandbox::{Sandbox, chain};

/// How many steps a chain has.
const STEPS: usize = 5;

/// Failing attempts are tried again at once: a fault may hit the agent instead of segno.
const PATIENCE: &str = "failure_policy: {retries: 2, backoff: constant, wait_min: 0, wait_max: 0}";

impl Workload {
    /// A place in which this workload is about to run for the first time.
    pub fn sandbox(self, binary: &Path, home: Home) -> Sandbox {
        let sandbox = Sandbox::new(binary);
        let scripted = format!("{{provider: scripted, script: answers.yaml, {PATIENCE}}}");
        let spec = match self {
            Self::Command => {
                sandbox.command_chain(STEPS, "");
                let runtime = format!("{{provider: command, command: [./agent.sh], {PATIENCE}}}");
                chain(&runtime, STEPS)
            }
            Self::Scripted | Self::Long => {
                sandbox.write("answers.yaml", &self.answers());
                chain(&scripted, STEPS)
            }
            other => {
                let (pattern, answers) = patterns::of(other);
                sandbox.write("answers.yaml", &answers);
                format!(
                    "version: 0\nname: flow\nruntime: {scripted}\nagents: {{a: {{prompt: Answer.}}, b: {{prompt: Judge.}}}}\npattern: {pattern}\noutputs: {{artifacts: [{{path: out.txt, from: \"{{{{ last_response }}}}\"}}]}}\n"
                )
            }
        };
        sandbox.write("chain.yaml", &spec);
        if home == Home::Used {
            sandbox.segno(&["doctor"]).good();
        }
        sandbox
    }

    /// How many steps it has.
    fn steps(self) -> usize {
        match self {
            Self::Scripted | Self::Long | Self::Command => STEPS,
            Self::Tasks => 40,
            Self::Routing => 4,
            Self::Parallel => 5 * 4 + 1,
            Self::Evaluator => 5 * 2,
            Self::Orchestrator => 3 + 3 * 4 + 2,
            Self::Graph => 4 * 2 + 1,
        }
    }

    /// Every step has an answer of its own, so that one in the place of another is noticed.
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

/// What a workload comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// What the last line says.
    pub output: String,
    /// What the journal keeps of each step's answer.
    pub answers: BTreeMap<String, Value>,
    /// The files in `artifacts/`.
    pub artifacts: BTreeMap<String, Vec<u8>>,
}

impl Model {
    /// Runs the workload without a fault.
    pub fn of(binary: &Path, workload: Workload) -> Self {
        let sandbox = workload.sandbox(binary, Home::Fresh);
        let said = sandbox.segno(RUN).good();
        let printed = said.json();
        let result = printed.iter().find_map(output);
        let journal = sandbox.segno(&["logs", "--json"]).good().json();
        let mut calls = sandbox.calls();
        calls.sort();
        let model = Self {
            output: result.expect("a good run has a result").to_owned(),
            answers: answers(&journal),
            artifacts: artifacts(&sandbox),
        };
        let steps: Vec<&String> = model.answers.keys().collect();
        assert_eq!(
            calls.iter().collect::<Vec<_>>(),
            steps,
            "each is asked once"
        );
        assert_eq!(steps.len(), workload.steps(), "{steps:?}");
        assert_eq!(model.artifacts.len(), 1);
        model
    }
}

/// What the journal keeps of each finished step.
pub(super) fn answers(journal: &[Value]) -> BTreeMap<String, Value> {
    let answer = |entry: &Value| {
        let path = finished(entry)?;
        Some((path.to_owned(), entry["output"].clone()))
    };
    journal.iter().filter_map(answer).collect()
}

/// The step that this entry says is finished.
pub(super) fn finished(entry: &Value) -> Option<&str> {
    (entry["kind"] == "step_finished").then(|| entry["path"].as_str())?
}

/// The workflow's result, if this line of `run --json` or `resume --json` has it.
pub(super) fn output(line: &Value) -> Option<&str> {
    (line["kind"] == "result").then(|| line["output"].as_str())?
}

/// Everything in `artifacts/`, drafts included.
pub(super) fn artifacts(sandbox: &Sandbox) -> BTreeMap<String, Vec<u8>> {
    let Ok(folder) = fs::read_dir(sandbox.work().join("artifacts")) else {
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
