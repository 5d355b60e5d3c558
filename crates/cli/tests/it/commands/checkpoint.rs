//! Keeping the files of a workspace, comparing them, bringing them back.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use segno_testkit::sandbox::{Sandbox, finish};
use serde_json::Value;

use crate::sandbox;

/// A session that is done, in a folder with some files.
pub(super) fn session(sandbox: &Sandbox, more: &str) {
    sandbox.write("src/main.rs", "fn main() {}\n");
    sandbox.write("src/.hidden", "kept too\n");
    sandbox.write(".env", "not in git, and kept\n");
    sandbox.scripted_chain(2, 0);
    let spec = sandbox.read("chain.yaml") + more;
    sandbox.write("chain.yaml", &spec);
}

pub(super) fn run(sandbox: &Sandbox) {
    sandbox.segno(&["run", "chain.yaml"]).good();
}

pub(super) fn take(sandbox: &Sandbox) -> Value {
    let said = sandbox.segno(&["checkpoint", "create", "--json"]).good();
    said.json().remove(0)
}

pub(super) fn id(checkpoint: &Value) -> &str {
    checkpoint["checkpoint"].as_str().unwrap()
}

pub(super) fn list(sandbox: &Sandbox) -> Vec<Value> {
    let words = ["checkpoint", "list", "--all", "--json"];
    sandbox.segno(&words).good().json()
}

fn triggers(sandbox: &Sandbox) -> Vec<String> {
    let mut triggers: Vec<String> = list(sandbox)
        .iter()
        .map(|line| line["trigger"].as_str().unwrap().to_owned())
        .collect();
    triggers.reverse();
    triggers
}

/// Every file below a folder, with its mode and content; links with where they lead.
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
fn files_are_kept_and_come_back_as_they_were() {
    let sandbox = sandbox();
    session(&sandbox, "");
    run(&sandbox);
    let work = sandbox.work();
    std::os::unix::fs::symlink("src/main.rs", work.join("link")).unwrap();
    fs::set_permissions(work.join("src/main.rs"), fs::Permissions::from_mode(0o755)).unwrap();
    let before = tree(&work);
    let kept = take(&sandbox);
    assert_eq!(kept["trigger"], "manual");
    assert_eq!(kept["steps_finished"], 2);
    // Changed, gone, and new.
    sandbox.write("src/main.rs", "fn main() { panic!() }\n");
    remove(&work.join(".env"));
    sandbox.write("new.txt", "mine\n");
    let said = sandbox.segno(&["checkpoint", "restore", id(&kept)]).good();
    assert!(said.stdout.contains("wrote 2 files"), "{}", said.stdout);
    assert_eq!(
        sandbox.read("new.txt"),
        "mine\n",
        "what it does not know stays"
    );
    remove(&work.join("new.txt"));
    assert_eq!(tree(&work), before);
    // What was replaced can be had back.
    let rescue = list(&sandbox).remove(0);
    assert!(rescue["note"].as_str().unwrap().starts_with("before "));
    sandbox
        .segno(&["checkpoint", "restore", id(&rescue), "--exact"])
        .good();
    assert_eq!(sandbox.read("src/main.rs"), "fn main() { panic!() }\n");
    assert!(!work.join(".env").exists());
    assert_eq!(sandbox.read("new.txt"), "mine\n");
}

#[test]
fn files_come_back_elsewhere_without_touching_the_workspace() {
    let sandbox = sandbox();
    session(&sandbox, "");
    run(&sandbox);
    let kept = take(&sandbox);
    let before = tree(&sandbox.work());
    let into = sandbox.work().parent().unwrap().join("elsewhere");
    let place = into.to_str().unwrap();
    let words = ["checkpoint", "restore", id(&kept), "--into", place];
    let said = sandbox.segno(&[&words[..], &["--dry-run"]].concat()).good();
    assert!(said.stdout.starts_with("would write"), "{}", said.stdout);
    assert!(!into.exists());
    sandbox.segno(&words).good();
    assert_eq!(tree(&into), before);
    assert_eq!(tree(&sandbox.work()), before);
    assert_eq!(
        list(&sandbox).len(),
        1,
        "nothing was replaced, so nothing was kept"
    );
}

/// Git in some folder, with nothing of the person's.
fn git(sandbox: &Sandbox, folder: &Path, words: &[&str]) -> String {
    let mut command = std::process::Command::new("git");
    sandbox.furnish(&mut command);
    command.args(["-c", "user.name=x", "-c", "user.email=x@y"]);
    command
        .args(["-c", "init.defaultBranch=main", "-C"])
        .arg(folder);
    finish({
        command.args(words);
        command
    })
    .good()
    .stdout
}

#[test]
fn a_checkpoint_tells_how_git_stood_and_brings_unpushed_work_back() {
    let sandbox = sandbox();
    session(&sandbox, "");
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
    let kept = take(&sandbox);
    let shown = sandbox.segno(&["checkpoint", "show", id(&kept)]).good();
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
    let place = into.to_str().unwrap();
    sandbox
        .segno(&["checkpoint", "restore", id(&kept), "--into", place])
        .good();
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
fn a_checkpoint_names_what_changed_since_the_session_began() {
    let sandbox = sandbox();
    session(&sandbox, "");
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
    let kept = take(&sandbox);
    let words = ["checkpoint", "show", id(&kept), "--json"];
    let shown = sandbox.segno(&words).good().json().remove(0);
    let since = &shown["repositories"][0]["since"];
    assert_eq!(since["commit"], began.trim());
    assert_eq!(since["files"], 5, "{since}");
    let names: Vec<&str> = since["names"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    // What the run itself wrote is among them.
    assert_eq!(names[..3], [".env", "artifacts/", "calls.log"]);
    assert!(!names[3].contains("abcdef"), "{names:?}");
    assert_eq!(names[4], "src/main.rs");
    let shown = sandbox.segno(&["checkpoint", "show", id(&kept)]).good();
    let line = format!(
        "5 files changed since the session began at {}",
        &began[..10]
    );
    assert!(shown.stdout.contains(&line), "{}", shown.stdout);
    // A copy of the session began where the session did.
    let words = ["sessions", "fork", "chain", "--name", "copy"];
    sandbox.segno(&words).good();
    let copied = sandbox
        .segno(&["logs", "copy", "--json"])
        .good()
        .json()
        .remove(0);
    assert_eq!(copied["commit"], began.trim(), "{copied}");
}

#[test]
fn what_was_let_go_of_can_be_had_back_until_it_is_erased() {
    let sandbox = sandbox();
    session(&sandbox, "");
    run(&sandbox);
    let old = take(&sandbox);
    sandbox.write("src/main.rs", "fn main() { new() }\n");
    take(&sandbox);
    let prune = ["checkpoint", "prune", "--keep", "1"];
    sandbox.segno(&[&prune[..], &["--dry-run"]].concat()).good();
    assert_eq!(list(&sandbox).len(), 2);
    let said = sandbox.segno(&prune).good();
    assert!(
        said.stdout
            .contains("let go of 1 of 2 checkpoints; `--undo`"),
        "{}",
        said.stdout
    );
    assert_eq!(list(&sandbox).len(), 1);
    let pruned = ["checkpoint", "list", "--pruned", "--json"];
    assert_eq!(
        sandbox.segno(&pruned).good().json()[0]["checkpoint"],
        old["checkpoint"]
    );
    // It is not there for anyone else, and its files stay.
    sandbox
        .segno(&["checkpoint", "show", id(&old)])
        .refused(17, &["K0201"]);
    sandbox.segno(&["gc", "--grace-hours", "0"]).good();
    sandbox
        .segno(&["checkpoint", "prune", "--undo", "0000"])
        .refused(17, &["K0201"]);
    let said = sandbox
        .segno(&["checkpoint", "prune", "--undo", id(&old)])
        .good();
    assert!(said.stdout.contains("had back 1 of 1"), "{}", said.stdout);
    sandbox.segno(&["checkpoint", "restore", id(&old)]).good();
    assert_eq!(sandbox.read("src/main.rs"), "fn main() {}\n");
    // Without time to undo, a sweep erases it.
    sandbox.segno(&prune).good();
    sandbox.configure("[trash]\nkeep_days = 0\n");
    let told = sandbox.segno(&["gc", "--dry-run"]).good().stdout;
    assert!(
        told.contains(&format!("would erase {} for good", id(&old))),
        "{told}"
    );
    // Both are still there: it, and what its restore replaced.
    assert_eq!(sandbox.segno(&pruned).good().json().len(), 2);
    sandbox.segno(&["gc", "--grace-hours", "0"]).good();
    assert_eq!(sandbox.segno(&pruned).good().json(), Vec::<Value>::new());
    sandbox.segno(&["doctor"]).good();
}

#[test]
fn patterns_of_a_person_and_of_a_spec_say_what_belongs_to_a_checkpoint() {
    let sandbox = sandbox();
    sandbox.write("app/package.json", "{}\n");
    sandbox.write("app/node_modules/one/index.js", "1\n");
    sandbox.write("app/node_modules/two/index.js", "2\n");
    sandbox.write("big.iso", "x\n");
    sandbox.write("notes.tmp", "y\n");
    session(
        &sandbox,
        "continuity:\n  checkpoint: {exclude: [\"*.iso\"], include: [\"/app/node_modules/one/\"]}\n",
    );
    sandbox.configure("[checkpoints]\nexclude = [\"*.tmp\"]\n");
    run(&sandbox);
    let kept = take(&sandbox);
    let left: Vec<&str> = kept["left_out_files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|left| left["path"].as_str().unwrap())
        .collect();
    assert_eq!(left, ["app/node_modules/two", "big.iso", "notes.tmp"]);
    sandbox.configure("[checkpoints]\nexclude = [\"/\"]\n");
    let words = ["checkpoint", "create"];
    sandbox
        .segno(&words)
        .refused(2, &["checkpoints.exclude", "names nothing"]);
    let spec = sandbox.read("chain.yaml").replace("*.iso", "!");
    sandbox.write("chain.yaml", &spec);
    sandbox.configure("");
    sandbox
        .segno(&["validate", "chain.yaml"])
        .refused(3, &["W0101", "exclude/0", "a pattern must name something"]);
}

#[test]
fn too_much_room_is_told_by_a_run_that_lets_go_of_checkpoints() {
    let sandbox = sandbox();
    session(
        &sandbox,
        "continuity:\n  checkpoint: {on: [task_complete, complete]}\n",
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
    let said = sandbox.segno(&["run", "chain.yaml"]).good();
    let told = format!("{}{}", said.stdout, said.stderr);
    assert!(told.contains("checkpoints take"), "{told}");
}

#[test]
fn a_terminal_that_goes_away_and_a_budget_that_is_used_up_are_boundaries() {
    let sandbox = sandbox();
    let policy = "continuity:\n  checkpoint: {on: [detach, exhaustion, pause, shutdown]}\n";
    sandbox.write("src/main.rs", "fn main() {}\n");
    sandbox.command_chain(3, "while [ -e wait ]; do sleep 0.05; done; echo done");
    let spec = sandbox.read("chain.yaml") + policy;
    sandbox.write("chain.yaml", &spec);
    sandbox.write("wait", "");
    let child = sandbox.start(&["run", "chain.yaml"]);
    segno_testkit::sandbox::until("a call", || !sandbox.calls().is_empty());
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    segno_testkit::sandbox::wait(child);
    assert_eq!(triggers(&sandbox), ["detach"]);
    remove(&sandbox.work().join("wait"));
    let limited = spec.replace(
        "{provider: command,",
        "{budgets: {max_steps: 1}, provider: command,",
    );
    sandbox.write("limited.yaml", &limited);
    let said = sandbox.segno(&["run", "limited.yaml"]);
    assert_eq!(said.code(), 20, "{said:?}");
    assert_eq!(triggers(&sandbox), ["detach", "exhaustion"]);
}

#[test]
fn a_session_that_goes_because_it_is_old_is_kept_first_if_it_asks_for_that() {
    let sandbox = sandbox();
    session(&sandbox, "continuity:\n  checkpoint: {on: [expiry]}\n");
    run(&sandbox);
    let cleanup = ["sessions", "cleanup", "--max-age-days", "0", "--completed"];
    sandbox.segno(&cleanup).good();
    assert_eq!(triggers(&sandbox), ["expiry"]);
}

#[test]
fn two_checkpoints_are_compared() {
    let sandbox = sandbox();
    session(&sandbox, "");
    run(&sandbox);
    let one = take(&sandbox);
    sandbox.write("src/main.rs", "fn main() { todo() }\n");
    sandbox.write("more.txt", "");
    remove(&sandbox.work().join(".env"));
    let two = take(&sandbox);
    let said = sandbox
        .segno(&["checkpoint", "diff", id(&one), id(&two)])
        .good();
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert_eq!(
        lines,
        [
            "- .env",
            "+ more.txt",
            "~ src/main.rs",
            "3 files changed; +0 steps"
        ]
    );
    let said = sandbox
        .segno(&["checkpoint", "diff", id(&one), id(&two), "--patch"])
        .good();
    assert!(
        said.stdout.contains("--- a/src/main.rs\n+++ b/src/main.rs\n@@ -1 +1 @@\n-fn main() {}\n+fn main() { todo() }\n"),
        "{}",
        said.stdout
    );
    let shown = sandbox
        .segno(&["checkpoint", "show", &id(&two)[20..]])
        .good();
    assert!(
        shown.stdout.contains(id(&one)),
        "its parent: {}",
        shown.stdout
    );
}

#[test]
fn two_checkpoints_are_compared_in_what_was_decided_what_went_wrong_and_what_is_done() {
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
        sandbox.segno(words).good();
    }
    let one = take(&sandbox);
    assert_eq!(sandbox.segno(&["resume"]).code(), 130);
    for words in [
        &["note", "withdraw", "d1"][..],
        &["note", "correct", "e1", "--resolution", "fixed"],
        &["note", "todo", "write the docs"],
    ] {
        sandbox.segno(words).good();
    }
    let two = take(&sandbox);
    let words = ["checkpoint", "diff", id(&one), id(&two)];
    let said = sandbox.segno(&words).good().stdout;
    for line in [
        "- d1 decision: Use SQLite",
        "~ e1 error (fixed): cannot link",
        "+ t1 todo (pending): write the docs",
        "[x] steps/1",
    ] {
        assert!(said.lines().any(|said| said == line), "{line}\n{said}");
    }
    let words = ["checkpoint", "diff", id(&two), id(&one), "--json"];
    let lines = sandbox.segno(&words).good().json();
    let memos: Vec<String> = lines
        .iter()
        .filter(|line| line["kind"] == "memo")
        .map(|line| format!("{} {}", line["change"], line["id"]))
        .collect();
    assert_eq!(
        memos,
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
fn a_workflow_keeps_its_files_at_the_boundaries_that_it_names() {
    let sandbox = sandbox();
    let policy = "continuity: {checkpoint: {on: [complete, crash, error]}}\n";
    session(&sandbox, policy);
    let mut command = sandbox.command(&["run", "chain.yaml"]);
    command.env("SEGNO_FAILPOINT", "step.before_effect:2");
    assert!(finish(command).crashed());
    assert!(list(&sandbox).is_empty());
    sandbox.segno(&["resume"]).good();
    assert_eq!(triggers(&sandbox), ["crash", "complete"]);
    let stood: Vec<u64> = list(&sandbox)
        .iter()
        .map(|line| line["steps_finished"].as_u64().unwrap())
        .collect();
    assert_eq!(stood, [2, 1], "newest first");
}

#[test]
fn a_step_that_is_done_is_a_boundary_and_a_failure_too() {
    let sandbox = sandbox();
    session(
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
fn the_files_of_a_session_that_runs_are_kept_and_not_replaced() {
    let sandbox = sandbox();
    session(&sandbox, "");
    sandbox.scripted_chain(2, 60_000);
    let mut child = sandbox.start(&["run", "chain.yaml"]);
    segno_testkit::sandbox::until("it runs", || !sandbox.calls().is_empty());
    let kept = take(&sandbox);
    sandbox
        .segno(&["checkpoint", "restore", id(&kept)])
        .refused(17, &["is being run", "--into", "[K0203]"]);
    sandbox
        .segno(&["checkpoint", "restore", id(&kept), "--into", "."])
        .refused(17, &["is being run"]);
    sandbox
        .segno(&["checkpoint", "restore", id(&kept), "--into", "../other"])
        .good();
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_checkpoint_that_is_not_there_is_named() {
    let sandbox = sandbox();
    session(&sandbox, "");
    sandbox
        .segno(&["checkpoint", "create"])
        .refused(17, &["no session was started in"]);
    run(&sandbox);
    let said = sandbox.segno(&["checkpoint", "list"]).good();
    assert!(said.stdout.contains("no checkpoints"), "{}", said.stdout);
    sandbox
        .segno(&["checkpoint", "show", "01ABCDEFGH"])
        .refused(17, &["there is no checkpoint `01ABCDEFGH`", "[K0201]"]);
}

#[test]
fn damage_is_named_and_what_is_sound_stays_usable() {
    let sandbox = sandbox();
    session(&sandbox, "");
    run(&sandbox);
    let one = take(&sandbox);
    sandbox.write("src/main.rs", "fn main() { loop {} }\n");
    let two = take(&sandbox);
    let verified = sandbox.segno(&["checkpoint", "verify"]).good();
    assert!(
        verified.stdout.contains("2 checkpoints verified"),
        "{}",
        verified.stdout
    );
    let session = two["session"].as_str().unwrap();
    let place = sandbox.home().join("checkpoints").join(session);
    let file = place.join(format!("{}.json", id(&two)));
    let text = String::from_utf8(bytes(&file)).unwrap();
    sandbox.write(file.to_str().unwrap(), &text.replace("manual", "crash"));
    sandbox
        .segno(&["checkpoint", "verify"])
        .refused(23, &["1 problem in 1 checkpoint"]);
    let said = sandbox.segno(&["checkpoint", "list"]).good();
    assert!(
        said.stderr.contains("it was changed after it was written"),
        "{}",
        said.stderr
    );
    assert!(said.stdout.contains(id(&one)));
    sandbox.segno(&["checkpoint", "restore", id(&one)]).good();
    // Nothing is swept while it is not known what is needed.
    sandbox.segno(&["gc"]).refused(17, &["is damaged"]);
}

#[test]
fn old_checkpoints_go_and_their_room_is_freed() {
    let sandbox = sandbox();
    session(&sandbox, "");
    run(&sandbox);
    for round in 0..4 {
        sandbox.write("big.bin", &format!("{round}").repeat(100_000));
        take(&sandbox);
    }
    let words = ["checkpoint", "prune", "--keep", "2"];
    let said = sandbox.segno(&[&words[..], &["--dry-run"]].concat()).good();
    assert!(
        said.stdout.contains("would let go of 2 of 4 checkpoints"),
        "{}",
        said.stdout
    );
    assert_eq!(list(&sandbox).len(), 4);
    sandbox.segno(&words).good();
    let left = list(&sandbox);
    assert_eq!(left.len(), 2);
    let swept = |hours: &str| -> Value {
        let said = sandbox.segno(&["gc", "--grace-hours", hours, "--json"]);
        said.good().json().remove(0)
    };
    let waits = swept("24");
    assert_eq!(waits["freed_bytes"], 0, "{waits}");
    swept("0");
    swept("0");
    for checkpoint in &left {
        sandbox
            .segno(&["checkpoint", "verify", id(checkpoint)])
            .good();
    }
}

#[test]
fn whatever_is_replaced_is_kept_first() {
    let sandbox = sandbox();
    session(&sandbox, "");
    run(&sandbox);
    let kept = take(&sandbox);
    // Another folder, with work of its own; and the session is gone.
    sandbox.write("../other/src/main.rs", "somebody's work\n");
    sandbox
        .segno(&["sessions", "delete", "chain", "--now", "--yes"])
        .good();
    let words = [
        "checkpoint",
        "restore",
        id(&kept),
        "--into",
        "../other",
        "--json",
    ];
    let said = sandbox.segno(&words).good().json().remove(0);
    assert_eq!(sandbox.read("../other/src/main.rs"), "fn main() {}\n");
    let rescue = said["rescue"].as_str().unwrap();
    sandbox.segno(&["checkpoint", "restore", rescue]).good();
    assert_eq!(sandbox.read("../other/src/main.rs"), "somebody's work\n");
}

#[test]
fn a_checkpoint_killed_at_a_system_call_is_listed_whole_or_not_at_all() {
    segno_testkit::crash::require_strace();
    let sandbox = sandbox();
    session(&sandbox, "");
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
            sandbox.furnish(&mut command);
            let before = list(&sandbox).len();
            let killed = !finish(command).status.success();
            let after = list(&sandbox).len();
            assert!(after == before || after == before + 1, "{call} {nth}");
            sandbox.segno(&["checkpoint", "verify"]).good();
            sandbox.segno(&["doctor"]).good();
            if !killed {
                break;
            }
            kills += 1;
        }
    }
    assert!(kills >= 5, "{kills}");
    take(&sandbox);
}

#[test]
fn a_dry_run_does_not_read_through_the_home_folder() {
    let sandbox = sandbox();
    session(&sandbox, "");
    run(&sandbox);
    let kept = take(&sandbox);
    let person = sandbox.work().parent().unwrap().join("person");
    fs::create_dir(&person).unwrap();
    let words = ["checkpoint", "restore", id(&kept), "--dry-run", "--into"];
    let words = [&words[..], &[person.to_str().unwrap()]].concat();
    let mut command = sandbox.command(&words);
    command.env("HOME", &person);
    finish(command).refused(12, &["K0105", "your home folder"]);
}
