//! Forks from a checkpoint: a copy of the session as it was then.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use segno_testkit::sandbox::Sandbox;
use serde_json::Value;

use crate::commands::{
    failing_chain, fix_answers, normalize, root, session_statuses, shown, start_waiting, tree,
    waiting_chain,
};
use crate::sandbox;

/// A session `chain` that failed in its third step, was resumed, and is complete. Returns a
/// checkpoint from before the resume, and the content of the folder at that time.
fn completed_session(sandbox: &Sandbox) -> (String, FolderContent) {
    failing_chain(sandbox);
    sandbox.write("notes/kept.txt", "as it was\n");
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    let created = create_checkpoint(sandbox);
    let folder_content = folder_content(&sandbox.work());
    fix_answers(sandbox);
    sandbox.write("notes/kept.txt", "as it became\n");
    sandbox.write("notes/later.txt", "later\n");
    sandbox.segno(&["resume", "chain"]).expect_success();
    (created, folder_content)
}

fn create_checkpoint(sandbox: &Sandbox) -> String {
    let output = sandbox.segno(&["checkpoint", "create", "chain", "--json"]);
    let created = output.expect_success().json().remove(0);
    created["checkpoint"].as_str().unwrap().to_owned()
}

/// Everything in a folder, with its mode and, for a file, its content.
type FolderContent = BTreeMap<PathBuf, (u32, Option<Vec<u8>>)>;

fn folder_content(folder: &Path) -> FolderContent {
    let read = |path: PathBuf| {
        let mode = path.metadata().unwrap().permissions().mode();
        let content = fs::read(&path).ok();
        let path = path.strip_prefix(folder).unwrap().to_owned();
        (path, (mode, content))
    };
    tree(folder).into_iter().map(read).collect()
}

fn logs(sandbox: &Sandbox, session: &str) -> Vec<Value> {
    sandbox
        .segno(&["logs", session, "--json"])
        .expect_success()
        .json()
}

#[test]
fn fork_of_a_checkpoint_gets_its_own_folder() {
    let sandbox = sandbox();
    let (checkpoint, then) = completed_session(&sandbox);
    let (now, journal) = (folder_content(&sandbox.work()), logs(&sandbox, "chain"));
    let output = sandbox
        .segno(&["fork", "chain", "--from", &checkpoint])
        .expect_success();
    insta::assert_snapshot!(normalize(&sandbox, &output.stdout), @r"
    forked chain into chain-fork ([ID]), paused: 2 steps done
    restored the files of checkpoint [ID] to [ROOT]/work-chain-fork
    resume it with `segno resume chain-fork`
    ");
    let folder = root(&sandbox).join("work-chain-fork");
    assert_eq!(folder_content(&folder), then);
    let copy = shown(&sandbox, "chain-fork");
    assert_eq!(copy["workspace"], folder.to_str().unwrap());
    assert_eq!(copy["forked_from"]["checkpoint"], checkpoint.as_str());
    assert_eq!(copy["steps_finished"], 2);
    // Its own script fails as it did then: the other one was fixed later.
    sandbox
        .segno(&["resume", "chain-fork"])
        .refused(10, &["no key"]);
    fs::write(
        folder.join("answers.yaml"),
        "ledger: calls.log\ndefault: {text: another}\n",
    )
    .unwrap();
    let output = sandbox.segno(&["resume", "chain-fork"]).expect_success();
    assert!(output.stdout.ends_with("another\n"), "{}", output.stdout);
    let calls = fs::read_to_string(folder.join("calls.log")).unwrap();
    assert_eq!(calls.matches("steps/0").count(), 1, "{calls}");
    assert_eq!(folder_content(&sandbox.work()), now);
    assert_eq!(logs(&sandbox, "chain"), journal);
    sandbox.segno(&["doctor"]).expect_success();
}

#[test]
fn resume_from_a_checkpoint_restores_the_folder_undoably() {
    let sandbox = sandbox();
    let (checkpoint, then) = completed_session(&sandbox);
    let (now, journal) = (folder_content(&sandbox.work()), logs(&sandbox, "chain"));
    let back = ["resume", "--from", &checkpoint];
    let plan = sandbox
        .segno(&[&back[..], &["--dry-run"]].concat())
        .expect_success();
    insta::assert_snapshot!(normalize(&sandbox, &plan.stdout), @r"
    session chain ([ID]) would be forked into chain-fork, which would be resumed; the session itself stays unchanged
    2 steps finished, not run again
    the files of checkpoint [ID] would be restored to [ROOT]/work: 3 written, 1 removed; the current files are saved in a checkpoint first
    no step is in progress; the next one starts
    ");
    assert_eq!(folder_content(&sandbox.work()), now, "a plan does nothing");
    assert_eq!(session_statuses(&sandbox).len(), 1);
    // The files are those of the checkpoint, so the third step fails again.
    let output = sandbox.segno(&[&back[..], &["--json"]].concat());
    let lines = output.refused(10, &["no key"]).json();
    assert_eq!(lines[0]["kind"], "forked");
    assert_eq!(lines[0]["name"], "chain-fork");
    assert_eq!(sandbox.read("notes/kept.txt"), "as it was\n");
    assert!(!sandbox.work().join("notes/later.txt").exists());
    assert_eq!(folder_content(&sandbox.work()).len(), then.len());
    assert_eq!(logs(&sandbox, "chain"), journal);
    let rescue = lines[0]["rescue"].as_str().unwrap();
    sandbox
        .segno(&["checkpoint", "restore", rescue, "--exact"])
        .expect_success();
    assert_eq!(folder_content(&sandbox.work()), now);
}

#[test]
fn fork_without_a_checkpoint_has_the_current_files() {
    let sandbox = sandbox();
    completed_session(&sandbox);
    let now = folder_content(&sandbox.work());
    let fork = ["fork", "chain", "--into", "../apart"];
    sandbox.segno(&fork).expect_success();
    let folder = root(&sandbox).join("apart");
    assert_eq!(folder_content(&folder), now);
    assert_eq!(shown(&sandbox, "chain-fork")["steps_finished"], 3);
    let plan = [
        "resume",
        "chain",
        "--fork",
        "--into",
        "../third",
        "--dry-run",
    ];
    let output = sandbox.segno(&plan).expect_success();
    assert!(
        output.stdout.contains("a checkpoint would be taken"),
        "{}",
        output.stdout
    );
    assert!(!root(&sandbox).join("third").exists());
    assert_eq!(session_statuses(&sandbox).len(), 2);
}

#[test]
fn fork_of_a_repository_is_a_whole_repository() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    let git = |folder: &Path, words: &[&str]| {
        let mut command = Command::new("git");
        sandbox.set_env(&mut command);
        let identity = ["-c", "user.name=Me", "-c", "user.email=me@example.com"];
        command.current_dir(folder).args(identity).args(words);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let work = sandbox.work();
    git(&work, &["init", "-q", "-b", "main"]);
    git(&work, &["add", "chain.yaml"]);
    git(&work, &["commit", "-q", "-m", "first"]);
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    let (checkpoint, then) = (
        create_checkpoint(&sandbox),
        git(&work, &["rev-parse", "HEAD"]),
    );
    git(&work, &["add", "answers.yaml"]);
    git(&work, &["commit", "-q", "-m", "second"]);
    sandbox
        .segno(&["fork", "chain", "--from", &checkpoint])
        .expect_success();
    let folder = root(&sandbox).join("work-chain-fork");
    assert_eq!(git(&folder, &["rev-parse", "HEAD"]), then);
    git(
        &folder,
        &["commit", "-q", "--allow-empty", "-m", "elsewhere"],
    );
    let log = git(&work, &["log", "--format=%s"]);
    assert_eq!(log, "second\nfirst\n");
}

#[test]
fn impossible_forks_are_refused() {
    let sandbox = sandbox();
    let (checkpoint, _) = completed_session(&sandbox);
    sandbox
        .segno(&["run", "chain.yaml", "--name", "other"])
        .expect_success();
    let fork = |session: &str, more: &[&str]| {
        let words = [&["fork", session], more].concat();
        sandbox.segno(&words)
    };
    fork("chain", &["--from", "NOTHING"]).refused(17, &["no checkpoint matches", "[K0201]"]);
    fork("chain", &["--from", "steps/1"]).refused(17, &["use `--before` to name a step"]);
    fork("other", &["--from", &checkpoint]).refused(
        17,
        &[
            "it belongs to session `chain`",
            "segno checkpoint list other",
            "[R0120]",
        ],
    );
    sandbox.write("../full/mine.txt", "mine\n");
    let from = checkpoint.as_str();
    fork("chain", &["--from", from, "--into", "../full"]).refused(
        17,
        &[
            "full cannot be the workspace of a fork",
            "mine.txt",
            "[R0121]",
        ],
    );
    fork("chain", &["--from", from, "--into", "."]).refused(17, &["session `chain`", "[R0121]"]);
    fork("chain", &["--from", from, "--into", "notes/sub"]).refused(17, &["[R0121]"]);
    fork("chain", &["--from", from, "--into", "chain.yaml/x"]).refused(17, &["[R0121]"]);
    fork("chain", &["--from", from, "--name", "other"]).refused(17, &["other", "[S0102]"]);
    fork("chain", &["--from", from, "--before", "steps/1"]).refused(2, &["--before"]);
    assert_eq!(sandbox.read("../full/mine.txt"), "mine\n");
    assert_eq!(session_statuses(&sandbox).len(), 2);
    // Where one fork works already, no other one can.
    fork("chain", &["--from", from]).expect_success();
    let folder = root(&sandbox).join("work-chain-fork");
    fork(
        "chain",
        &["--from", from, "--into", folder.to_str().unwrap()],
    )
    .refused(
        17,
        &["it is the workspace of session `chain-fork`", "[R0121]"],
    );
    fork("chain", &["--from", from]).expect_success();
    assert!(root(&sandbox).join("work-chain-fork-2").is_dir());
}

#[test]
fn files_are_not_restored_under_a_running_session() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    let checkpoint = create_checkpoint(&sandbox);
    let back = ["resume", "chain", "--from", &checkpoint];
    sandbox.segno(&back).refused(17, &["chain", "[K0203]"]);
    let plan = sandbox
        .segno(&[&back[..], &["--dry-run"]].concat())
        .expect_success();
    assert!(
        plan.stdout.contains("this would be refused"),
        "{}",
        plan.stdout
    );
    assert_eq!(session_statuses(&sandbox).len(), 1);
    // In another folder they can: the session is only read.
    sandbox
        .segno(&["fork", "chain", "--from", &checkpoint])
        .expect_success();
    sandbox.write("go", "");
    live.finish().expect_success();
    sandbox.segno(&["doctor"]).expect_success();
}
