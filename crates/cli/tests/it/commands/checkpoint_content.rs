//! What checkpoints show: plan, notes, git and usage as they were, and when they are taken.

use std::path::Path;

use segno_testkit::sandbox::{Sandbox, run_to_end, wait_until};
use serde_json::{Value, json};

use super::checkpoint::{create_checkpoint, id, list};
use super::{edit, scripted, start_waiting, waiting_chain};
use crate::sandbox;

/// `checkpoint show --json`, of one section if there is one.
#[track_caller]
fn show(sandbox: &Sandbox, checkpoint: &Value, section: &[&str]) -> Value {
    let words = [&["checkpoint", "show", id(checkpoint), "--json"], section].concat();
    let mut lines = sandbox.segno(&words).expect_success().json();
    assert_eq!(lines.len(), 1);
    lines.remove(0)
}

#[track_caller]
fn show_text(sandbox: &Sandbox, checkpoint: &Value, section: &[&str]) -> String {
    let words = [&["checkpoint", "show", id(checkpoint)], section].concat();
    sandbox.segno(&words).expect_success().stdout
}

/// Three steps, with a pause after each.
fn pausing_chain(sandbox: &Sandbox) {
    scripted(
        sandbox,
        &["input: one", "input: two", "input: three"],
        "default: {text: fine, usage: {input_tokens: 10, output_tokens: 5, cost_usd: 0.25}}",
    );
    edit(
        sandbox,
        "pattern:",
        "continuity: {pause: {after_steps: 1}, checkpoint: {on: [complete]}}\npattern:",
    );
}

fn note(sandbox: &Sandbox, words: &[&str]) {
    let words = [&["note"], words].concat();
    sandbox.segno(&words).expect_success();
}

/// A session of three runs, with notes after each pause; its checkpoints, oldest first.
fn three_runs(sandbox: &Sandbox) -> Vec<Value> {
    pausing_chain(sandbox);
    sandbox.segno(&["run", "chain.yaml"]).refused(130, &[]);
    note(sandbox, &["decision", "Use SQLite", "--why", "one file"]);
    note(sandbox, &["error", "cannot link", "--type", "build"]);
    note(sandbox, &["feedback", "security", "--comment", "escape it"]);
    note(
        sandbox,
        &["tests", "make test", "--phase", "red", "--failing", "a::b"],
    );
    sandbox.segno(&["resume"]).refused(130, &[]);
    note(sandbox, &["correct", "e1", "--resolution", "fixed"]);
    note(sandbox, &["decision", "Use Rust"]);
    sandbox.segno(&["resume"]).expect_success();
    let mut checkpoints = list(sandbox);
    checkpoints.reverse();
    assert_eq!(checkpoints.len(), 3, "{checkpoints:#?}");
    checkpoints
}

#[test]
fn list_shows_how_far_the_session_was() {
    let sandbox = sandbox();
    let checkpoints = three_runs(&sandbox);
    let facts = |line: &Value| {
        json!([
            line["session_number"],
            line["trigger"],
            line["reason"],
            line["tasks_done"],
            line["tasks_remaining"],
            line["next"],
        ])
    };
    let facts: Vec<Value> = checkpoints.iter().map(facts).collect();
    assert_eq!(
        facts,
        [
            json!([1, "task_complete", "1 step finished", 1, 2, "steps/1"]),
            json!([2, "task_complete", "1 step finished", 2, 1, "steps/2"]),
            json!([3, "complete", null, 3, 0, null]),
        ]
    );
    let text = sandbox.segno(&["checkpoint", "list"]).expect_success();
    let line = text.stdout.lines().nth(2).unwrap();
    let columns: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(columns[1..4], ["chain", "2", "task_complete"], "{line}");
    assert!(line.contains("1 step finished"), "{line}");
    let status = sandbox.segno(&["status", "chain"]).expect_success().stdout;
    let newest = format!("checkpoint {} ", id(&checkpoints[2]));
    assert!(status.contains(&newest), "{status}");
    assert!(
        status.contains("session number 2: 2 steps done, 1 remaining"),
        "{status}"
    );
    let status = sandbox.segno(&["status", "chain", "--json"]);
    let status = status.expect_success().json().remove(0);
    assert_eq!(status["checkpoints"][2]["tasks_done"], 1);
}

#[test]
fn notes_of_a_checkpoint_are_those_of_its_time() {
    let sandbox = sandbox();
    let [first, second, third] = <[Value; 3]>::try_from(three_runs(&sandbox)).unwrap();
    let texts = |checkpoint: &Value| -> Vec<String> {
        let shown = show(&sandbox, checkpoint, &["--decisions"]);
        let decisions = shown["decisions"].as_array().unwrap();
        let texts = decisions.iter().map(|note| note["note"]["text"].as_str());
        texts.map(|text| text.unwrap().to_owned()).collect()
    };
    assert_eq!(texts(&first), Vec::<String>::new());
    assert_eq!(texts(&second), ["Use SQLite"]);
    assert_eq!(texts(&third), ["Use SQLite", "Use Rust"]);
    let error = |checkpoint: &Value| {
        let shown = show(&sandbox, checkpoint, &["--errors"]);
        assert!(shown.get("decisions").is_none(), "{shown}");
        shown["errors"][0]["note"]["resolution"].clone()
    };
    assert_eq!(error(&second), "unresolved");
    assert_eq!(error(&third), "fixed");
    let shown = show(&sandbox, &second, &[]);
    let feedback = &shown["feedback"][0]["note"];
    assert_eq!(feedback["persona"], "security");
    assert_eq!(feedback["comments"], json!(["escape it"]));
    assert_eq!(shown["tests"]["note"]["phase"], "red");
    let logs = sandbox.segno(&["logs", "--json"]).expect_success().json();
    let is_tests = |line: &&Value| line["memos"][0]["memo"].get("tests").is_some();
    let recorded = logs.iter().find(is_tests).unwrap();
    assert_eq!(shown["tests"]["at"], recorded["at"]);
    assert_eq!(shown["tests"]["note"]["failing"], json!(["a::b"]));
    assert_eq!(show(&sandbox, &first, &[])["tests"], Value::Null);
    let text = show_text(&sandbox, &second, &[]);
    for words in [
        "number     2",
        "reason     1 step finished",
        "done       2 steps done, 1 remaining",
        "next       steps/2",
        "- [x] steps/1",
        "- [ ] steps/2",
        "decision   Use SQLite",
        "reason     one file",
        "resolution unresolved",
        "comment    escape it",
        "phase red: make test",
        "- fails: a::b",
    ] {
        let words = words.replace("reason     one file", "why        one file");
        assert!(text.contains(&words), "{words}: {text}");
    }
    assert!(!text.contains("Use Rust"), "{text}");
    assert_eq!(show_text(&sandbox, &first, &["--decisions"]), "none\n");
    let errors = show_text(&sandbox, &third, &["--errors"]);
    assert!(
        errors.contains("cannot link") && errors.contains("resolution fixed"),
        "{errors}"
    );
}

#[test]
fn usage_of_a_checkpoint_counts_calls_and_time() {
    let sandbox = sandbox();
    let checkpoints = three_runs(&sandbox);
    for (done, checkpoint) in (1..).zip(&checkpoints) {
        let usage = &show(&sandbox, checkpoint, &["--usage"])["usage"];
        assert_eq!(usage["input_tokens"], 10 * done);
        assert_eq!(usage["output_tokens"], 5 * done);
        assert_eq!(usage["model_calls"], done);
        assert_eq!(usage["tool_calls"], 0);
        assert!(usage["active_ms"].is_u64(), "{usage}");
    }
    let text = show_text(&sandbox, &checkpoints[1], &["--usage"]);
    for words in [
        "20 tokens read, 10 written, $0.50",
        "2 model calls, 0 tool calls",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

/// Runs git in a folder, without the user's configuration.
fn git(sandbox: &Sandbox, folder: &Path, words: &[&str]) {
    let mut command = std::process::Command::new("git");
    sandbox.set_env(&mut command);
    command.args(["-c", "user.name=x", "-c", "user.email=x@y"]);
    command.arg("-C").arg(folder).args(words);
    run_to_end(command).expect_success();
}

#[test]
fn git_of_a_checkpoint_names_changed_files() {
    let sandbox = sandbox();
    pausing_chain(&sandbox);
    sandbox.write("src/main.rs", "fn main() {}\n");
    let work = sandbox.work();
    git(&sandbox, &work, &["init", "-q"]);
    git(&sandbox, &work, &["add", "."]);
    git(&sandbox, &work, &["commit", "-q", "-m", "Begin"]);
    sandbox.segno(&["run", "chain.yaml"]).refused(130, &[]);
    sandbox.write("committed.txt", "1\n");
    git(&sandbox, &work, &["add", "committed.txt"]);
    git(&sandbox, &work, &["commit", "-q", "-m", "More"]);
    sandbox.write("staged.txt", "1\n");
    git(&sandbox, &work, &["add", "staged.txt"]);
    sandbox.write("src/main.rs", "fn main() { todo!() }\n");
    sandbox.write("new.txt", "1\n");
    let checkpoint = create_checkpoint(&sandbox);
    // What changes later is not in the checkpoint.
    sandbox.write("later.txt", "1\n");
    let shown = show(&sandbox, &checkpoint, &["--git"]);
    let repository = &shown["git"][0];
    assert_eq!(repository["names"]["staged"], json!(["staged.txt"]));
    assert_eq!(repository["names"]["modified"], json!(["src/main.rs"]));
    let untracked = repository["names"]["untracked"].to_string();
    assert!(untracked.contains("new.txt"), "{untracked}");
    let uncommitted = repository["uncommitted"].to_string();
    for name in ["staged.txt", "src/main.rs", "new.txt"] {
        assert!(uncommitted.contains(name), "{name}: {uncommitted}");
    }
    assert!(!uncommitted.contains("committed.txt"), "{uncommitted}");
    let since = repository["since"]["names"].to_string();
    for name in ["committed.txt", "staged.txt", "src/main.rs", "new.txt"] {
        assert!(since.contains(name), "{name}: {since}");
    }
    assert!(!shown.to_string().contains("later.txt"), "{shown}");
    let text = show_text(&sandbox, &checkpoint, &["--git"]);
    for words in [
        "staged: staged.txt",
        "modified: src/main.rs",
        "since the start: ",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn end_is_a_checkpoint_if_agents_may_change_files() {
    let by_program = sandbox();
    by_program.command_chain(1, "true");
    by_program.segno(&["run", "chain.yaml"]).expect_success();
    let taken = list(&by_program);
    assert_eq!(taken.len(), 1, "{taken:?}");
    assert_eq!(taken[0]["trigger"], "complete");
    let failing = sandbox();
    failing.command_chain(1, "exit 3");
    edit(
        &failing,
        "{provider: command,",
        "{failure_policy: {retries: 0}, provider: command,",
    );
    failing.segno(&["run", "chain.yaml"]).refused(10, &[]);
    let taken = list(&failing);
    assert_eq!(taken.len(), 1, "{taken:?}");
    assert_eq!(taken[0]["trigger"], "error");
    assert!(
        taken[0]["reason"].as_str().unwrap().contains("steps/0"),
        "{taken:?}"
    );
    let scripted = sandbox();
    scripted.scripted_chain(1, 0);
    scripted.segno(&["run", "chain.yaml"]).expect_success();
    assert_eq!(list(&scripted), Vec::<Value>::new());
    let unwanted = sandbox();
    unwanted.command_chain(1, "true");
    edit(
        &unwanted,
        "pattern:",
        "continuity: {checkpoint: {on: []}}\npattern:",
    );
    unwanted.segno(&["run", "chain.yaml"]).expect_success();
    assert_eq!(list(&unwanted), Vec::<Value>::new());
}

#[test]
fn exhausted_budget_is_a_checkpoint_without_being_asked_for() {
    let sandbox = sandbox();
    sandbox.scripted_chain(3, 0);
    edit(
        &sandbox,
        "{provider:",
        "{budgets: {max_steps: 1}, provider:",
    );
    sandbox.segno(&["run", "chain.yaml"]).refused(20, &[]);
    let taken = list(&sandbox);
    assert_eq!(taken.len(), 1, "{taken:?}");
    assert_eq!(taken[0]["trigger"], "exhaustion");
    assert_eq!(taken[0]["status"], "paused");
    assert!(
        taken[0]["reason"].as_str().unwrap().contains("max_steps"),
        "{taken:?}"
    );
}

#[test]
fn interval_takes_checkpoints_while_a_step_runs() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 1, 0);
    edit(
        &sandbox,
        "pattern:",
        "continuity: {checkpoint: {on: [], every_s: 1}}\npattern:",
    );
    let (live, _) = start_waiting(&sandbox, &[]);
    wait_until("two checkpoints are taken", || list(&sandbox).len() >= 2);
    sandbox.write("go", "");
    live.finish().expect_success();
    for line in list(&sandbox) {
        assert_eq!(line["trigger"], "periodic", "{line}");
        assert_eq!(line["reason"], Value::Null, "{line}");
    }
}

#[test]
fn create_prunes_but_keeps_the_end() {
    let sandbox = sandbox();
    sandbox.command_chain(1, "true");
    sandbox.configure("[checkpoints]\nkeep = 2\n");
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let end = list(&sandbox).remove(0);
    let created: Vec<Value> = (0..4).map(|_| create_checkpoint(&sandbox)).collect();
    let kept: Vec<String> = list(&sandbox)
        .iter()
        .map(|line| id(line).to_owned())
        .collect();
    // The checkpoint of the end does not count towards the two.
    assert_eq!(kept, [id(&created[3]), id(&created[2]), id(&end)]);
}

#[test]
fn checkpoint_without_its_journal_shows_its_files() {
    let sandbox = sandbox();
    let checkpoints = three_runs(&sandbox);
    sandbox
        .segno(&["sessions", "delete", "chain", "--permanent", "--yes"])
        .expect_success();
    let shown = show(&sandbox, &checkpoints[1], &[]);
    assert_eq!(shown["session_number"], Value::Null);
    assert_eq!(shown["decisions"], Value::Null);
    assert_eq!(shown["steps_finished"], 2);
    assert_eq!(shown["usage"]["input_tokens"], 20);
    let text = show_text(&sandbox, &checkpoints[1], &[]);
    assert!(text.contains("which does not exist here"), "{text}");
}
