//! `segno work`, in real git repositories. The agents are programs that record their prompts and
//! change files, so that tests see both.

mod killed;
mod pausing;
mod plans;
mod refused;
mod reviews;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use segno_testkit::sandbox::{ProcessOutput, Sandbox, run_to_end};
use serde_json::Value;

use crate::commands::root;
use crate::sandbox;

/// Three agents in one program. It records every call and every prompt; answers from the file
/// `set_answer/STEP`, with dots for slashes, if that exists; and otherwise plans two tasks, approves,
/// or appends a line to `TASK.txt`.
const AGENT: &str = r#"#!/bin/sh
roles=$(dirname "$0")
step=$(echo "$SEGNO_STEP" | tr / .)
echo "$SEGNO_RUN $SEGNO_ATTEMPT $SEGNO_STEP $SEGNO_STEP_ID a" >> "$roles/calls.log"
cat > "$roles/asked.$step"
case $SEGNO_STEP in
*/work)
  task=$(echo "$SEGNO_STEP" | cut -d/ -f2)
  echo "$SEGNO_STEP" >> "$task.txt" ;;
esac
if [ -e "$roles/wait.$step" ]; then
  echo $$ > "$roles/waits"
  while [ ! -e "$roles/go" ]; do sleep 0.01; done
fi
if [ -e "$roles/fail.$step" ]; then exit 3; fi
if [ -e "$roles/answers/$step" ]; then cat "$roles/answers/$step"; exit; fi
case $SEGNO_STEP in
*/planner*) printf -- '- [ ] T1: Write a\n- [ ] T2: Write b (after T1)\n' ;;
*/review*) echo '{"approved": true, "severity": "none", "comments": []}' ;;
*) echo "I did $SEGNO_STEP." ;;
esac
"#;

const SPEC: &str = "\
version: 0
name: roles
runtime:
  provider: command
  command: [./agent.sh]
  failure_policy: {retries: 0}
agents:
  worker: {prompt: You work.}
  planner: {prompt: You plan.}
  reviewer: {prompt: You review.}
pattern: {type: chain, config: {steps: [{agent: worker}]}}
";

pub(super) const PLAN: &str = "\
# Two files

They are missing.

- [ ] T1: Write a
- [ ] T2: Write b (after T1)
  It comes after a.
";

/// A repository with one commit, and the agents' folder next to it.
pub(super) struct WorkFixture {
    pub(super) sandbox: Sandbox,
}

impl WorkFixture {
    pub(super) fn new() -> Self {
        let sandbox = sandbox();
        let fixture = Self { sandbox };
        fs::create_dir_all(fixture.agents_folder().join("answers")).unwrap();
        fixture.write_file("roles.yaml", SPEC);
        fixture.write_file("PLAN.md", PLAN);
        fixture.write_file("agent.sh", AGENT);
        let mode = Command::new("chmod")
            .arg("+x")
            .arg(fixture.agents_folder().join("agent.sh"))
            .status();
        assert!(mode.unwrap().success());
        let repository = fixture.sandbox.work();
        git(&repository, &["init", "-q", "-b", "main"]);
        git(&repository, &["config", "user.name", "Ada"]);
        git(&repository, &["config", "user.email", "ada@example.org"]);
        fixture.sandbox.write("first.txt", "first\n");
        git(&repository, &["add", "."]);
        git(&repository, &["commit", "-q", "-m", "Begin"]);
        fixture
    }

    pub(super) fn agents_folder(&self) -> PathBuf {
        root(&self.sandbox).join("roles")
    }

    /// Writes a file into the agents' folder.
    pub(super) fn write_file(&self, name: &str, content: &str) {
        fs::write(self.agents_folder().join(name), content).unwrap();
    }

    /// Sets the answer of a step.
    pub(super) fn set_answer(&self, step: &str, text: &str) {
        self.write_file(&format!("answers/{}", step.replace('/', ".")), text);
    }

    /// The prompt of a step.
    #[track_caller]
    pub(super) fn asked(&self, step: &str) -> String {
        let file = self
            .agents_folder()
            .join(format!("asked.{}", step.replace('/', ".")));
        fs::read_to_string(&file).unwrap_or_else(|error| panic!("{step}: {error}"))
    }

    /// The steps that were called, in order.
    pub(super) fn calls(&self) -> Vec<String> {
        let log = fs::read_to_string(self.agents_folder().join("calls.log")).unwrap_or_default();
        let step = |line: &str| line.split(' ').nth(2).unwrap_or_default().to_owned();
        log.lines().map(step).collect()
    }

    /// The arguments of `segno work` with these agents, under the name `job`.
    pub(super) fn args<'a>(what: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let words = [
            "work",
            what,
            "--spec",
            "../roles/roles.yaml",
            "--name",
            "job",
        ];
        [&words[..], more].concat()
    }

    pub(super) fn work(&self, what: &str, more: &[&str]) -> ProcessOutput {
        self.sandbox.segno(&Self::args(what, more))
    }

    pub(super) fn segno(&self, words: &[&str]) -> ProcessOutput {
        self.sandbox.segno(words)
    }

    /// The worktree of the session.
    pub(super) fn folder(&self) -> PathBuf {
        root(&self.sandbox).join("work-job")
    }

    /// The subjects of the commits on the session's branch, oldest first, without those of `main`.
    pub(super) fn commits(&self) -> Vec<String> {
        let log = git(
            &self.sandbox.work(),
            &["log", "--reverse", "--format=%s", "main..segno/job"],
        );
        log.lines().map(str::to_owned).collect()
    }

    /// The files that a commit of the session's branch changes; 1 is the first commit.
    pub(super) fn changed_files(&self, number: usize) -> Vec<String> {
        let back = self.commits().len() - number;
        let commit = format!("segno/job~{back}");
        let work = self.sandbox.work();
        let names = git(&work, &["show", "--format=", "--name-only", &commit]);
        names.lines().map(str::to_owned).collect()
    }

    /// The session's plan, from `status --json`.
    #[track_caller]
    pub(super) fn plan(&self) -> Value {
        let output = self.segno(&["status", "job", "--json"]).expect_success();
        output.json().remove(0)["plan"].take()
    }

    /// The tasks of the plan, with their statuses.
    #[track_caller]
    pub(super) fn task_statuses(&self) -> Vec<(String, String)> {
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        let plan = self.plan();
        let tasks = plan["tasks"].as_array().unwrap().iter();
        tasks
            .map(|task| (word(&task["id"]), word(&task["status"])))
            .collect()
    }
}

/// Runs git in a folder, and returns its stdout.
#[track_caller]
pub(super) fn git(folder: &Path, words: &[&str]) -> String {
    let mut command = Command::new("git");
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", "/nonexistent")
        .current_dir(folder)
        .args(words);
    run_to_end(command).expect_success().stdout
}
