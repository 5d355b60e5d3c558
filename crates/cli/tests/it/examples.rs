//! Every example runs unchanged and offline.

use std::fs;
use std::path::{Path, PathBuf};

use segno_testkit::model::{ModelResponse, ModelServer};

use crate::sandbox;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

fn specs() -> Vec<PathBuf> {
    let files = fs::read_dir(folder()).unwrap();
    let mut specs: Vec<PathBuf> = files
        .map(|file| file.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.ends_with(".yaml") && !name.ends_with(".answers.yaml")
        })
        .collect();
    specs.sort();
    specs
}

#[test]
fn every_pattern_has_an_example_that_runs_offline() {
    let sandbox = sandbox();
    let mut patterns = Vec::new();
    for spec in specs() {
        let spec = spec.to_str().unwrap();
        let valid = sandbox
            .segno(&["validate", spec, "--json"])
            .expect_success();
        let shown = valid.json().remove(0);
        patterns.push(shown["pattern"].as_str().unwrap().to_owned());
        let name = shown["name"].as_str().unwrap();
        let output = sandbox.segno(&["run", spec]);
        if output.status.code() == Some(19) {
            sandbox
                .segno(&["answer", name, "yes", "--resume"])
                .expect_success();
        } else {
            output.expect_success();
        }
        let session = sandbox.segno(&["show", name, "--json"]).expect_success();
        assert_eq!(session.json()[0]["pattern"], shown["pattern"], "{name}");
    }
    patterns.sort();
    assert_eq!(
        patterns,
        [
            "chain",
            "evaluator_optimizer",
            "graph",
            "orchestrator_workers",
            "parallel",
            "routing",
            "workflow"
        ]
    );
    let artifacts = fs::read_dir(sandbox.work().join("artifacts")).unwrap();
    assert_eq!(artifacts.count(), 7);
}

/// The answer of a model that accepts everything: it contains every shape that a spec can require.
const ANYTHING: &str = "OK: {\"route\": \"billing\", \"score\": 90} [{\"task\": \"look\"}]";

#[test]
fn every_example_runs_with_a_model_after_one_line_changes() {
    let server = ModelServer::start(|_, _| ModelResponse::Text(ANYTHING.into()));
    for spec in specs() {
        let sandbox = sandbox();
        let text = sandbox.read(spec.to_str().unwrap());
        let is_runtime = |line: &&str| line.starts_with("runtime:");
        let line = text.lines().find(is_runtime).unwrap();
        let other = format!("runtime: {{provider: openai, host: \"{}\"}}", server.host());
        sandbox.write("spec.yaml", &text.replace(line, &other));
        let mut output = sandbox.segno(&["run", "spec.yaml"]);
        if output.status.code() == Some(19) {
            output = sandbox.segno(&["answer", "release-notes", "yes", "--resume"]);
        }
        output.expect_success();
    }
    assert!(server.requests().len() >= 20);
}
