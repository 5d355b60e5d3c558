//! `segno work`, in real git repositories. Agents are programs that write what they were asked and change
//! files, so that tests see both.

mod killed;
mod pausing;
mod plans;
mod refused;
mod reviews;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use segno_testkit::sandbox::{Said, Sandbox, finish};
use serde_json::Value;

use crate::commands::root;
use crate::sandbox;

/// Three agents in one program. It notes every call and what was asked; answers from the file
/// `answers/STEP`, with dots for slashes, if there is one; and otherwise plans two tasks, approves, or adds
/// a line to `TASK.txt`.
const AGENT: &str = r#"#!/bin/sh
crew=$(dirname "$0")
step=$(echo "$SEGNO_STEP" | tr / .)
echo "$SEGNO_RUN $SEGNO_ATTEMPT $SEGNO_STEP $SEGNO_STEP_ID a" >> "$crew/calls.log"
cat > "$crew/asked.$step"
case $SEGNO_STEP in
*/work)
  task=$(echo "$SEGNO_STEP" | cut -d/ -f2)
  echo "$SEGNO_STEP" >> "$task.txt" ;;
esac
if [ -e "$crew/wait.$step" ]; then
  echo $$ > "$crew/waits"
  while [ ! -e "$crew/go" ]; do sleep 0.01; done
fi
if [ -e "$crew/fail.$step" ]; then exit 3; fi
if [ -e "$crew/answers/$step" ]; then cat "$crew/answers/$step"; exit; fi
case $SEGNO_STEP in
*/planner*) printf -- '- [ ] T1: Write a\n- [ ] T2: Write b (after T1)\n' ;;
*/review*) echo '{"approved": true, "severity": "none", "comments": []}' ;;
*) echo "I did $SEGNO_STEP." ;;
esac
"#;

const CREW: &str = "\
version: 0
name: crew
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

/// A repository with one commit, and a crew beside it.
pub(super) struct Shop {
    pub(super) sandbox: Sandbox,
}

impl Shop {
    pub(super) fn new() -> Self {
        let sandbox = sandbox();
        let shop = Self { sandbox };
        fs::create_dir_all(shop.crew().join("answers")).unwrap();
        shop.put("crew.yaml", CREW);
        shop.put("PLAN.md", PLAN);
        shop.put("agent.sh", AGENT);
        let mode = Command::new("chmod")
            .arg("+x")
            .arg(shop.crew().join("agent.sh"))
            .status();
        assert!(mode.unwrap().success());
        let repository = shop.sandbox.work();
        git(&repository, &["init", "-q", "-b", "main"]);
        git(&repository, &["config", "user.name", "Ada"]);
        git(&repository, &["config", "user.email", "ada@example.org"]);
        shop.sandbox.write("first.txt", "first\n");
        git(&repository, &["add", "."]);
        git(&repository, &["commit", "-q", "-m", "Begin"]);
        shop
    }

    pub(super) fn crew(&self) -> PathBuf {
        root(&self.sandbox).join("crew")
    }

    /// Writes a file of the crew's.
    pub(super) fn put(&self, name: &str, content: &str) {
        fs::write(self.crew().join(name), content).unwrap();
    }

    /// Makes a step answer this.
    pub(super) fn answers(&self, step: &str, text: &str) {
        self.put(&format!("answers/{}", step.replace('/', ".")), text);
    }

    /// What a step was asked.
    #[track_caller]
    pub(super) fn asked(&self, step: &str) -> String {
        let file = self
            .crew()
            .join(format!("asked.{}", step.replace('/', ".")));
        fs::read_to_string(&file).unwrap_or_else(|error| panic!("{step}: {error}"))
    }

    /// The steps that were asked, in order.
    pub(super) fn calls(&self) -> Vec<String> {
        let log = fs::read_to_string(self.crew().join("calls.log")).unwrap_or_default();
        let step = |line: &str| line.split(' ').nth(2).unwrap_or_default().to_owned();
        log.lines().map(step).collect()
    }

    /// `segno work` with the crew, under the name `job`.
    pub(super) fn words<'a>(what: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let words = ["work", what, "--spec", "../crew/crew.yaml", "--name", "job"];
        [&words[..], more].concat()
    }

    pub(super) fn work(&self, what: &str, more: &[&str]) -> Said {
        self.sandbox.segno(&Self::words(what, more))
    }

    pub(super) fn segno(&self, words: &[&str]) -> Said {
        self.sandbox.segno(words)
    }

    /// The folder that the work is done in.
    pub(super) fn folder(&self) -> PathBuf {
        root(&self.sandbox).join("work-job")
    }

    /// The first lines of the commits of the session's branch, oldest first, without the first of all.
    pub(super) fn commits(&self) -> Vec<String> {
        let log = git(
            &self.sandbox.work(),
            &["log", "--reverse", "--format=%s", "main..segno/job"],
        );
        log.lines().map(str::to_owned).collect()
    }

    /// The files that a commit of the session's branch touches: 1 is the first.
    pub(super) fn touched(&self, number: usize) -> Vec<String> {
        let back = self.commits().len() - number;
        let commit = format!("segno/job~{back}");
        let work = self.sandbox.work();
        let names = git(&work, &["show", "--format=", "--name-only", &commit]);
        names.lines().map(str::to_owned).collect()
    }

    /// The plan of the session, as `status --json` has it.
    #[track_caller]
    pub(super) fn plan(&self) -> Value {
        let said = self.segno(&["status", "job", "--json"]).good();
        said.json().remove(0)["plan"].take()
    }

    /// The tasks of it and where they stand.
    #[track_caller]
    pub(super) fn standings(&self) -> Vec<(String, String)> {
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        let plan = self.plan();
        let tasks = plan["tasks"].as_array().unwrap().iter();
        tasks
            .map(|task| (word(&task["id"]), word(&task["status"])))
            .collect()
    }
}

/// What git answers in a folder.
#[track_caller]
pub(super) fn git(folder: &Path, words: &[&str]) -> String {
    let mut command = Command::new("git");
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", "/nonexistent")
        .current_dir(folder)
        .args(words);
    finish(command).good().stdout
}
