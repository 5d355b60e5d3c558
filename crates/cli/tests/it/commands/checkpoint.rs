//! Checkpoints of a workspace: create, compare, restore, prune.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use segno_testkit::sandbox::{Sandbox, run_to_end};
use serde_json::Value;

use crate::sandbox;

/// Writes some files and a chain of two steps.
pub(super) fn write_workspace(sandbox: &Sandbox, more: &str) {
    sandbox.write("src/main.rs", "fn main() {}\n");
    sandbox.write("src/.hidden", "kept too\n");
    sandbox.write(".env", "not in git, and kept\n");
    sandbox.scripted_chain(2, 0);
    let spec = sandbox.read("chain.yaml") + more;
    sandbox.write("chain.yaml", &spec);
}

pub(super) fn run(sandbox: &Sandbox) {
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
}

pub(super) fn create_checkpoint(sandbox: &Sandbox) -> Value {
    let output = sandbox
        .segno(&["checkpoint", "create", "--json"])
        .expect_success();
    output.json().remove(0)
}

pub(super) fn id(checkpoint: &Value) -> &str {
    checkpoint["checkpoint"].as_str().unwrap()
}

pub(super) fn list(sandbox: &Sandbox) -> Vec<Value> {
    let words = ["checkpoint", "list", "--all", "--json"];
    sandbox.segno(&words).expect_success().json()
}

fn triggers(sandbox: &Sandbox) -> Vec<String> {
    let mut triggers: Vec<String> = list(sandbox)
        .iter()
        .map(|line| line["trigger"].as_str().unwrap().to_owned())
        .collect();
    triggers.reverse();
    triggers
}

/// Every file below a folder, with its mode and content; symlinks with their target.
pub(super) fn tree(root: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for file in fs::read_dir(&folder).unwrap() {
            let path = file.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let mode = metadata.permissions().mode();
            let content = if metadata.is_symlink() {
                let leads_to = fs::read_link(&path).unwrap();
                leads_to.to_str().unwrap().as_bytes().to_vec()
            } else if metadata.is_dir() {
                folders.push(path.clone());
                Vec::new()
            } else {
                bytes(&path)
            };
            found.push((path.strip_prefix(root).unwrap().to_owned(), mode, content));
        }
    }
    found.sort();
    found
}

#[expect(clippy::disallowed_methods, reason = "the test's own files")]
pub(super) fn bytes(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "the test's own files")]
pub(super) fn remove(path: &Path) {
    fs::remove_file(path).unwrap();
}

#[test]
fn restore_brings_files_back_unchanged() {
    let sandbox = sandbox();
    write_workspace(&sandbox, "");
    run(&sandbox);
    let work = sandbox.work();
    std::os::unix::fs::symlink("src/main.rs", work.join("link")).unwrap();
    fs::set_permissions(work.join("src/main.rs"), fs::Permissions::from_mode(0o755)).unwrap();
    let before = tree(&work);
    let checkpoint = create_checkpoint(&sandbox);
    assert_eq!(checkpoint["trigger"], "manual");
    assert_eq!(checkpoint["steps_finished"], 2);
    // One file is changed, one deleted, one new.
    sandbox.write("src/main.rs", "fn main() { panic!() }\n");
    remove(&work.join(".env"));
    sandbox.write("new.txt", "mine\n");
    let output = sandbox
        .segno(&["checkpoint", "restore", id(&checkpoint)])
        .expect_success();
    assert!(output.stdout.contains("wrote 2 files"), "{}", output.stdout);
    assert_eq!(
        sandbox.read("new.txt"),
        "mine\n",
        "what it does not know stays"
    );
    remove(&work.join("new.txt"));
    assert_eq!(tree(&work), before);
    // The replaced files can be restored.
    let rescue = list(&sandbox).remove(0);
    assert!(rescue["note"].as_str().unwrap().starts_with("before "));
    sandbox
        .segno(&["checkpoint", "restore", id(&rescue), "--exact"])
        .expect_success();
    assert_eq!(sandbox.read("src/main.rs"), "fn main() { panic!() }\n");
    assert!(!work.join(".env").exists());
    assert_eq!(sandbox.read("new.txt"), "mine\n");
}

#[test]
fn restore_elsewhere_does_not_touch_the_workspace() {
    let sandbox = sandbox();
    write_workspace(&sandbox, "");
    run(&sandbox);
    let checkpoint = create_checkpoint(&sandbox);
    let before = tree(&sandbox.work());
    let into = sandbox.work().parent().unwrap().join("elsewhere");
    let path = into.to_str().unwrap();
    let words = ["checkpoint", "restore", id(&checkpoint), "--into", path];
    let output = sandbox
        .segno(&[&words[..], &["--dry-run"]].concat())
        .expect_success();
    assert!(
        output.stdout.starts_with("would write"),
        "{}",
        output.stdout
    );
    assert!(!into.exists());
    sandbox.segno(&words).expect_success();
    assert_eq!(tree(&into), before);
    assert_eq!(tree(&sandbox.work()), before);
    assert_eq!(
        list(&sandbox).len(),
        1,
        "nothing was replaced, so nothing was kept"
    );
}

/// Runs git in a folder, without the user's configuration.
fn git(sandbox: &Sandbox, folder: &Path, words: &[&str]) -> String {
    let mut command = std::process::Command::new("git");
    sandbox.set_env(&mut command);
    command.args(["-c", "user.name=x", "-c", "user.email=x@y"]);
    command
        .args(["-c", "init.defaultBranch=main", "-C"])
        .arg(folder);
    run_to_end({
        command.args(words);
        command
    })
    .expect_success()
    .stdout
}

#[test]
fn checkpoint_shows_git_status_and_restores_unpushed_work() {
    let sandbox = sandbox();
    write_workspace(&sandbox, "");
    let work = sandbox.work();
    git(&sandbox, &work, &["init", "-q"]);
    git(&sandbox, &work, &["add", "."]);
    git(&sandbox, &work, &["commit", "-q", "-m", "never pushed"]);
    sandbox.write("src/main.rs", "fn main() { stashed() }\n");
    git(&sandbox, &work, &["stash", "-q"]);
    run(&sandbox);
    sandbox.write("staged.txt", "1\n");
    git(&sandbox, &work, &["add", "staged.txt"]);
    sandbox.write(".env", "changed\n");
    let checkpoint = create_checkpoint(&sandbox);
    let shown = sandbox
        .segno(&["checkpoint", "show", id(&checkpoint)])
        .expect_success();
    let line = shown
        .stdout
        .lines()
        .find(|line| line.starts_with("git "))
        .unwrap();
    for fact in [
        "main at ",
        "1 not pushed",
        "1 staged",
        "1 modified",
        "1 stashed",
    ] {
        assert!(line.contains(fact), "{fact}: {line}");
    }
    let into = work.parent().unwrap().join("elsewhere");
    let path = into.to_str().unwrap();
    sandbox
        .segno(&["checkpoint", "restore", id(&checkpoint), "--into", path])
        .expect_success();
    for question in [
        &["status", "--porcelain=v2", "--branch"][..],
        &["log", "--format=%H %s"],
        &["stash", "list"],
        &["fsck", "--full"],
    ] {
        let (before, after) = (
            git(&sandbox, &work, question),
            git(&sandbox, &into, question),
        );
        assert_eq!(before, after, "{question:?}");
    }
}

#[test]
fn checkpoint_names_the_files_changed_since_session_start() {
    let sandbox = sandbox();
    write_workspace(&sandbox, "");
    let work = sandbox.work();
    git(&sandbox, &work, &["init", "-q"]);
    git(&sandbox, &work, &["add", "."]);
    git(&sandbox, &work, &["commit", "-q", "-m", "before"]);
    let began = git(&sandbox, &work, &["rev-parse", "HEAD"]);
    run(&sandbox);
    sandbox.write("src/main.rs", "fn main() { committed() }\n");
    git(
        &sandbox,
        &work,
        &["commit", "-q", "-a", "-m", "by the agent"],
    );
    sandbox.write(".env", "changed\n");
    sandbox.write("sk-ant-api03-abcdefghijklmnopqrstuvwxyz012345", "new\n");
    let checkpoint = create_checkpoint(&sandbox);
    let words = ["checkpoint", "show", id(&checkpoint), "--json"];
    let shown = sandbox.segno(&words).expect_success().json().remove(0);
    let since = &shown["repositories"][0]["since"];
    assert_eq!(since["commit"], began.trim());
    assert_eq!(since["files"], 5, "{since}");
    let names: Vec<&str> = since["names"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    // The files that the run itself wrote are among them.
    assert_eq!(names[..3], [".env", "artifacts/", "calls.log"]);
    assert!(!names[3].contains("abcdef"), "{names:?}");
    assert_eq!(names[4], "src/main.rs");
    let shown = sandbox
        .segno(&["checkpoint", "show", id(&checkpoint)])
        .expect_success();
    let line = format!(
        "5 files changed since the session began at {}",
        &began[..10]
    );
    assert!(shown.stdout.contains(&line), "{}", shown.stdout);
    // A fork has the same start commit as its session.
    let words = ["fork", "chain", "--name", "copy"];
    sandbox.segno(&words).expect_success();
    let copied = sandbox
        .segno(&["logs", "copy", "--json"])
        .expect_success()
        .json()
        .remove(0);
    assert_eq!(copied["commit"], began.trim(), "{copied}");
}

#[test]
fn pruned_checkpoint_can_be_restored_until_gc() {
    let sandbox = sandbox();
    write_workspace(&sandbox, "");
    run(&sandbox);
    let old = create_checkpoint(&sandbox);
    sandbox.write("src/main.rs", "fn main() { new() }\n");
    create_checkpoint(&sandbox);
    let prune = ["checkpoint", "prune", "--keep", "1"];
    sandbox
        .segno(&[&prune[..], &["--dry-run"]].concat())
        .expect_success();
    assert_eq!(list(&sandbox).len(), 2);
    let output = sandbox.segno(&prune).expect_success();
    assert!(
        output
            .stdout
            .contains("pruned 1 of 2 checkpoints; `--undo`"),
        "{}",
        output.stdout
    );
    assert_eq!(list(&sandbox).len(), 1);
    let pruned = ["checkpoint", "list", "--pruned", "--json"];
    assert_eq!(
        sandbox.segno(&pruned).expect_success().json()[0]["checkpoint"],
        old["checkpoint"]
    );
    // Other commands do not see it, and its files stay.
    sandbox
        .segno(&["checkpoint", "show", id(&old)])
        .refused(17, &["K0201"]);
    sandbox
        .segno(&["doctor", "--gc", "--grace-hours", "0"])
        .expect_success();
    sandbox
        .segno(&["checkpoint", "prune", "--undo", "0000"])
        .refused(17, &["K0201"]);
    let output = sandbox
        .segno(&["checkpoint", "prune", "--undo", id(&old)])
        .expect_success();
    assert!(
        output.stdout.contains("restored 1 of 1"),
        "{}",
        output.stdout
    );
    sandbox
        .segno(&["checkpoint", "restore", id(&old)])
        .expect_success();
    assert_eq!(sandbox.read("src/main.rs"), "fn main() {}\n");
    // Without time to undo, gc deletes it.
    sandbox.segno(&prune).expect_success();
    sandbox.configure("[trash]\nkeep_days = 0\n");
    let text = sandbox
        .segno(&["doctor", "--gc", "--dry-run"])
        .expect_success()
        .stdout;
    assert!(
        text.contains(&format!("would delete checkpoint {}", id(&old))),
        "{text}"
    );
    // Both are still there: this one, and the one that its restore created.
    assert_eq!(sandbox.segno(&pruned).expect_success().json().len(), 2);
    sandbox
        .segno(&["doctor", "--gc", "--grace-hours", "0"])
        .expect_success();
    assert_eq!(
        sandbox.segno(&pruned).expect_success().json(),
        Vec::<Value>::new()
    );
    sandbox.segno(&["doctor"]).expect_success();
}

#[test]
fn config_and_spec_patterns_select_the_files() {
    let sandbox = sandbox();
    sandbox.write("app/package.json", "{}\n");
    sandbox.write("app/node_modules/one/index.js", "1\n");
    sandbox.write("app/node_modules/two/index.js", "2\n");
    sandbox.write("big.iso", "x\n");
    sandbox.write("notes.tmp", "y\n");
    write_workspace(
        &sandbox,
        "continuity:\n  checkpoint: {exclude: [\"*.iso\"], include: [\"/app/node_modules/one/\"]}\n",
    );
    sandbox.configure("[checkpoints]\nexclude = [\"*.tmp\"]\n");
    run(&sandbox);
    let checkpoint = create_checkpoint(&sandbox);
    let excluded: Vec<&str> = checkpoint["excluded_files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|excluded| excluded["path"].as_str().unwrap())
        .collect();
    assert_eq!(excluded, ["app/node_modules/two", "big.iso", "notes.tmp"]);
    sandbox.configure("[checkpoints]\nexclude = [\"/\"]\n");
    let words = ["checkpoint", "create"];
    sandbox
        .segno(&words)
        .refused(2, &["checkpoints.exclude", "matches nothing"]);
    let spec = sandbox.read("chain.yaml").replace("*.iso", "!");
    sandbox.write("chain.yaml", &spec);
    sandbox.configure("");
    sandbox
        .segno(&["validate", "chain.yaml"])
        .refused(3, &["W0101", "exclude/0", "a pattern must not be empty"]);
}

#[test]
fn run_that_prunes_reports_too_much_disk_usage() {
    let sandbox = sandbox();
    write_workspace(
        &sandbox,
        "continuity:\n  pause: {after_steps: 1}\n  checkpoint: {on: [task_complete]}\n",
    );
    sandbox.configure("[checkpoints]\nkeep = 1\nmax_mb = 1\n");
    let mut noise = 1_u64;
    let text: String = std::iter::repeat_with(|| {
        noise = noise
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        char::from(b'a' + u8::try_from(noise >> 33 & 15).unwrap())
    })
    .take(4_000_000)
    .collect();
    sandbox.write("large.txt", &text);
    sandbox.segno(&["run", "chain.yaml"]).refused(130, &[]);
    let output = sandbox.segno(&["resume"]).expect_success();
    let text = format!("{}{}", output.stdout, output.stderr);
    assert!(text.contains("checkpoints take"), "{text}");
}

#[test]
fn detach_and_exhaustion_create_checkpoints() {
    let sandbox = sandbox();
    let policy = "continuity:\n  checkpoint: {on: [detach, exhaustion, pause, shutdown]}\n";
    sandbox.write("src/main.rs", "fn main() {}\n");
    sandbox.command_chain(3, "while [ -e wait ]; do sleep 0.05; done; echo done");
    let spec = sandbox.read("chain.yaml") + policy;
    sandbox.write("chain.yaml", &spec);
    sandbox.write("wait", "");
    let child = sandbox.start(&["run", "chain.yaml"]);
    segno_testkit::sandbox::wait_until("a call", || !sandbox.calls().is_empty());
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    segno_testkit::sandbox::wait_for_output(child);
    assert_eq!(triggers(&sandbox), ["detach"]);
    remove(&sandbox.work().join("wait"));
    let limited = spec.replace(
        "{provider: command,",
        "{budgets: {max_steps: 1}, provider: command,",
    );
    sandbox.write("limited.yaml", &limited);
    let output = sandbox.segno(&["run", "limited.yaml"]);
    assert_eq!(output.code(), 20, "{output:?}");
    assert_eq!(triggers(&sandbox), ["detach", "exhaustion"]);
}

#[test]
fn expiry_can_create_a_checkpoint_before_cleanup() {
    let sandbox = sandbox();
    write_workspace(&sandbox, "continuity:\n  checkpoint: {on: [expiry]}\n");
    run(&sandbox);
    let cleanup = ["sessions", "cleanup", "--max-age-days", "0", "--completed"];
    sandbox.segno(&cleanup).expect_success();
    assert_eq!(triggers(&sandbox), ["expiry"]);
}

#[test]
fn diff_lists_changed_files() {
    let sandbox = sandbox();
    write_workspace(&sandbox, "");
    run(&sandbox);
    let one = create_checkpoint(&sandbox);
    sandbox.write("src/main.rs", "fn main() { todo() }\n");
    sandbox.write("more.txt", "");
    remove(&sandbox.work().join(".env"));
    let two = create_checkpoint(&sandbox);
    let output = sandbox
        .segno(&["checkpoint", "diff", id(&one), id(&two)])
        .expect_success();
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(
        lines,
        [
            "- .env",
            "+ more.txt",
            "~ src/main.rs",
            "3 files changed; +0 steps"
        ]
    );
    let output = sandbox
        .segno(&["checkpoint", "diff", id(&one), id(&two), "--patch"])
        .expect_success();
    assert!(
        output.stdout.contains("--- a/src/main.rs\n+++ b/src/main.rs\n@@ -1 +1 @@\n-fn main() {}\n+fn main() { todo() }\n"),
        "{}",
        output.stdout
    );
    let shown = sandbox
        .segno(&["checkpoint", "show", &id(&two)[20..]])
        .expect_success();
    assert!(
        shown.stdout.contains(id(&one)),
        "its parent: {}",
        shown.stdout
    );
}

#[test]
fn diff_lists_changed_notes_and_steps() {
    let sandbox = sandbox();
    sandbox.scripted_chain(3, 0);
    let spec = sandbox.read("chain.yaml");
    let pausing = spec.replace(
        "pattern:",
        "continuity: {pause: {after_steps: 1}}\npattern:",
    );
    sandbox.write("chain.yaml", &pausing);
    assert_eq!(sandbox.segno(&["run", "chain.yaml"]).code(), 130);
    for words in [
        &["note", "decision", "Use SQLite"][..],
        &["note", "decision", "Use Rust"],
        &["note", "error", "cannot link"],
    ] {
        sandbox.segno(words).expect_success();
    }
    let one = create_checkpoint(&sandbox);
    assert_eq!(sandbox.segno(&["resume"]).code(), 130);
    for words in [
        &["note", "withdraw", "d1"][..],
        &["note", "correct", "e1", "--resolution", "fixed"],
        &["note", "todo", "write the docs"],
    ] {
        sandbox.segno(words).expect_success();
    }
    let two = create_checkpoint(&sandbox);
    let words = ["checkpoint", "diff", id(&one), id(&two)];
    let output = sandbox.segno(&words).expect_success().stdout;
    for line in [
        "- d1 decision: Use SQLite",
        "~ e1 error (fixed): cannot link",
        "+ t1 todo (pending): write the docs",
        "[x] steps/1",
    ] {
        assert!(
            output.lines().any(|known| known == line),
            "{line}\n{output}"
        );
    }
    let words = ["checkpoint", "diff", id(&two), id(&one), "--json"];
    let lines = sandbox.segno(&words).expect_success().json();
    let notes: Vec<String> = lines
        .iter()
        .filter(|line| line["kind"] == "note")
        .map(|line| format!("{} {}", line["change"], line["id"]))
        .collect();
    assert_eq!(
        notes,
        [
            "\"added\" \"d1\"",
            "\"changed\" \"e1\"",
            "\"removed\" \"t1\""
        ]
    );
    let difference = lines.last().unwrap();
    assert_eq!(difference["undone"], serde_json::json!(["steps/1"]));
    assert_eq!(difference["journals"], true);
}

#[test]
fn workflow_creates_checkpoints_at_its_triggers() {
    let sandbox = sandbox();
    let policy = "continuity: {checkpoint: {on: [complete, crash, error]}}\n";
    write_workspace(&sandbox, policy);
    let mut command = sandbox.command(&["run", "chain.yaml"]);
    command.env("SEGNO_FAILPOINT", "step.before_effect:2");
    assert!(run_to_end(command).crashed());
    assert!(list(&sandbox).is_empty());
    sandbox.segno(&["resume"]).expect_success();
    assert_eq!(triggers(&sandbox), ["crash", "complete"]);
    let finished: Vec<u64> = list(&sandbox)
        .iter()
        .map(|line| line["steps_finished"].as_u64().unwrap())
        .collect();
    assert_eq!(finished, [2, 1], "newest first");
    let newest = &list(&sandbox)[0];
    assert!(newest["bytes"].as_u64() > Some(0), "{newest}");
    let verified = newest["verified"].as_str().unwrap();
    assert!(verified >= newest["at"].as_str().unwrap(), "{newest}");
    let output = sandbox.segno(&["checkpoint", "list"]).expect_success();
    let mut lines = output.stdout.lines();
    let (head, row) = (lines.next().unwrap(), lines.next().unwrap());
    let cell = |name: &str| row[head.find(name).unwrap()..].trim_start();
    assert!(cell("TRIGGER").starts_with("complete"), "{output:?}");
    for name in ["TAKEN", "VERIFIED"] {
        let words: Vec<&str> = cell(name).split_whitespace().take(4).collect();
        assert!(words.contains(&"ago"), "{name}: {output:?}");
    }
    let digits = |c: char| c.is_ascii_digit();
    assert!(cell("SIZE").starts_with(digits), "{output:?}");
}

#[test]
fn finished_step_and_error_create_checkpoints() {
    let sandbox = sandbox();
    write_workspace(
        &sandbox,
        "continuity: {checkpoint: {on: [task_complete, error]}}\n",
    );
    let script = "answers:\n  - {step: steps/0, text: one, delay_ms: 50}\n  - {step: steps/1, fail: {kind: auth, message: no}}\n";
    sandbox.write("answers.yaml", script);
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    let found = triggers(&sandbox);
    assert_eq!(found.last().map(String::as_str), Some("error"), "{found:?}");
    assert!(found.len() <= 2, "{found:?}");
}

#[test]
fn running_session_is_captured_but_not_restored_over() {
    let sandbox = sandbox();
    write_workspace(&sandbox, "");
    sandbox.scripted_chain(2, 60_000);
    let mut child = sandbox.start(&["run", "chain.yaml"]);
    segno_testkit::sandbox::wait_until("it runs", || !sandbox.calls().is_empty());
    let checkpoint = create_checkpoint(&sandbox);
    sandbox
        .segno(&["checkpoint", "restore", id(&checkpoint)])
        .refused(17, &["is running", "--into", "[K0203]"]);
    sandbox
        .segno(&["checkpoint", "restore", id(&checkpoint), "--into", "."])
        .refused(17, &["is running"]);
    sandbox
        .segno(&[
            "checkpoint",
            "restore",
            id(&checkpoint),
            "--into",
            "../other",
        ])
        .expect_success();
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn unknown_checkpoint_is_named() {
    let sandbox = sandbox();
    write_workspace(&sandbox, "");
    sandbox
        .segno(&["checkpoint", "create"])
        .refused(17, &["no session was started in"]);
    run(&sandbox);
    let output = sandbox.segno(&["checkpoint", "list"]).expect_success();
    assert!(
        output.stdout.contains("no checkpoints"),
        "{}",
        output.stdout
    );
    sandbox
        .segno(&["checkpoint", "show", "01ABCDEFGH"])
        .refused(17, &["no checkpoint matches `01ABCDEFGH`", "[K0201]"]);
}

#[test]
fn damaged_checkpoint_is_named_and_others_stay_usable() {
    let sandbox = sandbox();
    write_workspace(&sandbox, "");
    run(&sandbox);
    let one = create_checkpoint(&sandbox);
    sandbox.write("src/main.rs", "fn main() { loop {} }\n");
    let two = create_checkpoint(&sandbox);
    let verified = sandbox.segno(&["checkpoint", "verify"]).expect_success();
    assert!(
        verified.stdout.contains("2 checkpoints verified"),
        "{}",
        verified.stdout
    );
    let session = two["session"].as_str().unwrap();
    let path = sandbox.home().join("checkpoints").join(session);
    let file = path.join(format!("{}.json", id(&two)));
    let text = String::from_utf8(bytes(&file)).unwrap();
    sandbox.write(file.to_str().unwrap(), &text.replace("manual", "crash"));
    sandbox
        .segno(&["checkpoint", "verify"])
        .refused(23, &["1 problem in 1 checkpoint"]);
    let output = sandbox.segno(&["checkpoint", "list"]).expect_success();
    assert!(
        output
            .stderr
            .contains("it was changed after it was written"),
        "{}",
        output.stderr
    );
    assert!(output.stdout.contains(id(&one)));
    sandbox
        .segno(&["checkpoint", "restore", id(&one)])
        .expect_success();
    // gc deletes no snapshot while it does not know which are needed.
    let words = ["doctor", "--gc", "--grace-hours", "0", "--json"];
    let swept = sandbox.segno(&words).expect_success().json().remove(0);
    assert_eq!(
        (&swept["unreadable"], &swept["snapshots"]),
        (&1.into(), &0.into())
    );
}

#[test]
fn prune_and_gc_keep_the_remaining_checkpoints_whole() {
    let sandbox = sandbox();
    write_workspace(&sandbox, "");
    run(&sandbox);
    for round in 0..4 {
        sandbox.write("big.bin", &format!("{round}").repeat(100_000));
        create_checkpoint(&sandbox);
    }
    let words = ["checkpoint", "prune", "--keep", "2"];
    let output = sandbox
        .segno(&[&words[..], &["--dry-run"]].concat())
        .expect_success();
    assert!(
        output.stdout.contains("would prune 2 of 4 checkpoints"),
        "{}",
        output.stdout
    );
    assert_eq!(list(&sandbox).len(), 4);
    sandbox.segno(&words).expect_success();
    let remaining = list(&sandbox);
    assert_eq!(remaining.len(), 2);
    let run_gc = |hours: &str| -> Value {
        let output = sandbox.segno(&["doctor", "--gc", "--grace-hours", hours, "--json"]);
        output.expect_success().json().remove(0)
    };
    let waits = run_gc("24");
    assert_eq!(waits["freed_bytes"], 0, "{waits}");
    run_gc("0");
    run_gc("0");
    for checkpoint in &remaining {
        sandbox
            .segno(&["checkpoint", "verify", id(checkpoint)])
            .expect_success();
    }
}

#[test]
fn restore_saves_what_it_replaces() {
    let sandbox = sandbox();
    write_workspace(&sandbox, "");
    run(&sandbox);
    let checkpoint = create_checkpoint(&sandbox);
    // Another folder with its own files; and the session is deleted.
    sandbox.write("../other/src/main.rs", "somebody's work\n");
    sandbox
        .segno(&["sessions", "delete", "chain", "--permanent", "--yes"])
        .expect_success();
    let words = [
        "checkpoint",
        "restore",
        id(&checkpoint),
        "--into",
        "../other",
        "--json",
    ];
    let output = sandbox.segno(&words).expect_success().json().remove(0);
    assert_eq!(sandbox.read("../other/src/main.rs"), "fn main() {}\n");
    let rescue = output["rescue"].as_str().unwrap();
    sandbox
        .segno(&["checkpoint", "restore", rescue])
        .expect_success();
    assert_eq!(sandbox.read("../other/src/main.rs"), "somebody's work\n");
}

#[test]
fn killed_checkpoint_is_listed_whole_or_not_at_all() {
    segno_testkit::crash::require_strace();
    let sandbox = sandbox();
    write_workspace(&sandbox, "");
    run(&sandbox);
    let mut kills = 0;
    for call in ["rename", "renameat", "fsync", "mkdir"] {
        for nth in (1..).step_by(3) {
            sandbox.write("src/main.rs", &format!("// {call} {nth}\n"));
            let mut command = std::process::Command::new("strace");
            command.args([
                "-f",
                "-qq",
                "-o",
                "/dev/null",
                "-e",
                &format!("trace={call}"),
            ]);
            command.args(["-e", &format!("inject={call}:signal=SIGKILL:when={nth}")]);
            command.arg(sandbox.binary()).args(["checkpoint", "create"]);
            sandbox.set_env(&mut command);
            let before = list(&sandbox).len();
            let killed = !run_to_end(command).status.success();
            let after = list(&sandbox).len();
            assert!(after == before || after == before + 1, "{call} {nth}");
            sandbox.segno(&["checkpoint", "verify"]).expect_success();
            sandbox.segno(&["doctor"]).expect_success();
            if !killed {
                break;
            }
            kills += 1;
        }
    }
    assert!(kills >= 5, "{kills}");
    create_checkpoint(&sandbox);
}

#[test]
fn dry_run_refuses_to_scan_the_home_folder() {
    let sandbox = sandbox();
    write_workspace(&sandbox, "");
    run(&sandbox);
    let checkpoint = create_checkpoint(&sandbox);
    let home = sandbox.work().parent().unwrap().join("person");
    fs::create_dir(&home).unwrap();
    let words = [
        "checkpoint",
        "restore",
        id(&checkpoint),
        "--dry-run",
        "--into",
    ];
    let words = [&words[..], &[home.to_str().unwrap()]].concat();
    let mut command = sandbox.command(&words);
    command.env("HOME", &home);
    run_to_end(command).refused(12, &["K0105", "your home folder"]);
}
