//! Every command, through the real binary.

#![expect(
    clippy::disallowed_methods,
    reason = "the machine is the subject: tests look at files and wait for processes"
)]

mod agent_environment;
mod answer;
mod archive;
mod bundle;
mod cancel;
mod checkpoint;
mod checkpoint_content;
mod config;
mod context;
mod defaults;
mod doctor;
mod drift;
mod export_import;
mod fork;
mod from_checkpoint;
mod handoff_reader;
mod help;
mod history;
mod key;
mod limits;
mod misc;
mod moving;
mod note;
mod notes_file;
mod own_home;
mod pause;
mod plan;
mod recover;
mod resume;
mod resume_context;
mod retries;
mod run;
mod secrets;
mod service;
mod session_number;
mod sessions;
mod signals;
mod spec_edits;
mod state;
mod trash;
mod unknown_outcome;
mod usage;
mod work;

pub(crate) use answer::write_asking_workflow;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use segno_testkit::sandbox::{ProcessOutput, Sandbox, wait_until};
use serde_json::Value;

/// A running command. Its output can be read while it runs; dropping it kills it.
pub(crate) struct Live {
    child: Child,
    output: PathBuf,
}

impl Live {
    pub(crate) fn start(sandbox: &Sandbox, words: &[&str]) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let output = root(sandbox).join(format!("said-{number}"));
        let file = |end: &str| File::create(output.with_extension(end)).unwrap();
        let child = sandbox
            .command(words)
            .stdout(Stdio::from(file("out")))
            .stderr(Stdio::from(file("err")))
            .spawn()
            .unwrap();
        Self { child, output }
    }

    pub(crate) fn stdout(&self) -> String {
        fs::read_to_string(self.output.with_extension("out")).unwrap()
    }

    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(self.output.with_extension("err")).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Kills the command with SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until the command has ended.
    pub(crate) fn finish(mut self) -> ProcessOutput {
        let mut status = None;
        wait_until("the command has ended", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        ProcessOutput {
            status: status.unwrap(),
            stdout: self.stdout(),
            stderr: self.stderr(),
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The folder that contains everything that a test touches.
pub(crate) fn root(sandbox: &Sandbox) -> PathBuf {
    sandbox.work().parent().unwrap().to_owned()
}

/// Writes a chain whose agent counts its calls, and at `step` writes its pid to `agent.pid` and
/// waits for the file `go`.
pub(crate) fn waiting_chain(sandbox: &Sandbox, steps: usize, step: usize) {
    sandbox.command_chain(
        steps,
        &format!(
            "if [ \"$SEGNO_STEP\" = steps/{step} ]; then\n  echo $$ > agent.pid\n  while [ ! -e go ]; do sleep 0.01; done\nfi"
        ),
    );
}

/// Starts `chain.yaml` of a [`waiting_chain`], and returns once its agent waits, with the agent's
/// pid.
pub(crate) fn start_waiting(sandbox: &Sandbox, more: &[&str]) -> (Live, String) {
    let live = Live::start(sandbox, &[&["run", "chain.yaml"], more].concat());
    wait_until("the agent waits", || {
        sandbox.read("agent.pid").ends_with('\n')
    });
    (live, sandbox.read("agent.pid").trim().to_owned())
}

/// Waits until a process has ended.
#[track_caller]
pub(crate) fn until_gone(pid: &str) {
    wait_until("the agent's process is gone", || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_none_or(|(_, rest)| rest.starts_with('Z'))
    });
}

/// Writes a chain with these steps (`agent: a` is added) whose agent answers as `answers` says.
/// `calls.log` counts the calls.
pub(crate) fn scripted(sandbox: &Sandbox, steps: &[&str], answers: &str) {
    sandbox.write("answers.yaml", &format!("ledger: calls.log\n{answers}\n"));
    let steps: Vec<_> = steps
        .iter()
        .map(|step| format!("      - {{agent: a, {step}}}\n"))
        .collect();
    let steps = steps.concat();
    sandbox.write(
        "chain.yaml",
        &format!(
            "version: 0\nname: chain\nruntime:\n  provider: scripted\n  script: answers.yaml\n  failure_policy: {{retries: 2, wait_min: 0.01, wait_max: 0.5, backoff: constant}}\nagents: {{a: {{prompt: Answer.}}}}\npattern:\n  type: chain\n  config:\n    steps:\n{steps}"
        ),
    );
}

/// Writes three steps, each of which uses the answer before it; the last one fails without a key.
pub(crate) fn failing_chain(sandbox: &Sandbox) {
    scripted(
        sandbox,
        &[
            "input: one",
            "input: \"two after {{ steps[0].response }}\"",
            "input: \"three after {{ steps[1].response }}\"",
        ],
        "answers: [{step: steps/2, fail: {kind: auth, message: no key}}]\ndefault: {text: fine}",
    );
}

/// Makes every step of a scripted chain succeed.
pub(crate) fn fix_answers(sandbox: &Sandbox) {
    sandbox.write("answers.yaml", "ledger: calls.log\ndefault: {text: fine}\n");
}

/// Replaces text in `chain.yaml`.
#[track_caller]
pub(crate) fn edit(sandbox: &Sandbox, from: &str, to: &str) {
    let spec = sandbox.read("chain.yaml");
    assert!(spec.contains(from), "{from:?} is not in:\n{spec}");
    sandbox.write("chain.yaml", &spec.replace(from, to));
}

/// `show --json` of one session.
#[track_caller]
pub(crate) fn shown(sandbox: &Sandbox, session: &str) -> Value {
    let output = sandbox.segno(&["show", session, "--json"]);
    output.expect_success().json().remove(0)
}

/// The names and statuses of all sessions, newest first.
#[track_caller]
pub(crate) fn session_statuses(sandbox: &Sandbox) -> Vec<(String, String)> {
    let output = sandbox.segno(&["sessions", "list", "--all", "--json"]);
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let lines = output.expect_success().json();
    lines
        .iter()
        .map(|line| (word(&line["name"]), word(&line["status"])))
        .collect()
}

/// The lines of one kind.
pub(crate) fn of_kind<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["kind"] == kind).collect()
}

/// The keys of an object, sorted.
pub(crate) fn keys(value: &Value) -> String {
    let keys: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
    keys.join(" ")
}

/// The files and folders below a folder.
pub(crate) fn tree(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(tree(&path));
        }
        found.push(path);
    }
    found
}

/// The text with placeholders for what differs between runs: paths, ids, timestamps, durations,
/// pids.
pub(crate) fn normalize(sandbox: &Sandbox, text: &str) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let text = text.replace(&root(sandbox).display().to_string(), "[ROOT]");
    let lines = text.lines().map(|line| {
        let (indent, rest) = line.split_at(line.len() - line.trim_start().len());
        format!("{indent}{}", normalize_line(rest, host.trim()))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn normalize_line(line: &str, host: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut given = line.split(' ').peekable();
    while let Some(word) = given.next() {
        // Column widths depend on the content, so several spaces become two.
        if word.is_empty() {
            if words.last().is_none_or(|last| !last.is_empty()) && given.peek().is_some() {
                words.push(String::new());
            }
            continue;
        }
        let core = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let next = given.peek().copied().unwrap_or_default();
        let unit = next.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let is_number = core.parse::<f64>().is_ok();
        if is_number && matches!(unit, "ms" | "s") {
            words.push(format!("[TOOK]{}", &next[unit.len()..]));
            given.next();
            continue;
        }
        let before = words.last().map_or("", String::as_str);
        let instead = if is_id(core) {
            "[ID]"
        } else if core.len() == 24 && core.ends_with('Z') && core.as_bytes()[10] == b'T' {
            "[TIME]"
        } else if is_number && before.ends_with("process") {
            "[PID]"
        } else if core == host && before == "on" {
            "[HOST]"
        } else {
            core
        };
        words.push(word.replace(core, instead));
    }
    words.join(" ").trim_end().to_owned()
}

fn is_id(word: &str) -> bool {
    let digit = |c: char| c.is_ascii_digit() || (c.is_ascii_uppercase() && !"ILOU".contains(c));
    word.len() == 26 && word.chars().all(digit)
}
