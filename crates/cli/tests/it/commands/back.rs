//! Going back to a checkpoint, which makes a copy of the session as it was then.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use segno_testkit::sandbox::Sandbox;
use serde_json::Value;

use crate::commands::{
    failing_chain, mend, root, shown, standings, start_waiting, tidy, tree, waiting_chain,
};
use crate::sandbox;

/// A session `chain` that failed in its third step, went on, and is done. Returns the checkpoint from
/// before that, and how the folder looked at it.
fn done(sandbox: &Sandbox) -> (String, Picture) {
    failing_chain(sandbox);
    sandbox.write("notes/kept.txt", "as it was\n");
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    let taken = take(sandbox);
    let picture = picture(&sandbox.work());
    mend(sandbox);
    sandbox.write("notes/kept.txt", "as it became\n");
    sandbox.write("notes/later.txt", "later\n");
    sandbox.segno(&["resume", "chain"]).good();
    (taken, picture)
}

fn take(sandbox: &Sandbox) -> String {
    let said = sandbox.segno(&["checkpoint", "create", "chain", "--json"]);
    let taken = said.good().json().remove(0);
    taken["checkpoint"].as_str().unwrap().to_owned()
}

/// Everything in a folder, with its mode and, if it is a file, what is in it.
type Picture = BTreeMap<PathBuf, (u32, Option<Vec<u8>>)>;

fn picture(folder: &Path) -> Picture {
    let look = |path: PathBuf| {
        let mode = path.metadata().unwrap().permissions().mode();
        let content = fs::read(&path).ok();
        let path = path.strip_prefix(folder).unwrap().to_owned();
        (path, (mode, content))
    };
    tree(folder).into_iter().map(look).collect()
}

fn logs(sandbox: &Sandbox, session: &str) -> Vec<Value> {
    sandbox.segno(&["logs", session, "--json"]).good().json()
}

#[test]
fn a_copy_of_a_checkpoint_works_in_a_folder_of_its_own() {
    let sandbox = sandbox();
    let (checkpoint, then) = done(&sandbox);
    let (now, journal) = (picture(&sandbox.work()), logs(&sandbox, "chain"));
    let said = sandbox
        .segno(&["sessions", "fork", "chain", "--from", &checkpoint])
        .good();
    insta::assert_snapshot!(tidy(&sandbox, &said.stdout), @r"
    forked chain into chain-fork ([ID]), paused: 2 steps done
    its files are those of checkpoint [ID], in [ROOT]/work-chain-fork
    `segno resume chain-fork` goes on
    ");
    let folder = root(&sandbox).join("work-chain-fork");
    assert_eq!(picture(&folder), then);
    let copy = shown(&sandbox, "chain-fork");
    assert_eq!(copy["workspace"], folder.to_str().unwrap());
    assert_eq!(copy["forked_from"]["checkpoint"], checkpoint.as_str());
    assert_eq!(copy["steps_finished"], 2);
    // Its own script fails, as it did then: the other was mended later.
    sandbox
        .segno(&["resume", "chain-fork"])
        .refused(10, &["no key"]);
    fs::write(
        folder.join("answers.yaml"),
        "ledger: calls.log\ndefault: {text: another}\n",
    )
    .unwrap();
    let said = sandbox.segno(&["resume", "chain-fork"]).good();
    assert!(said.stdout.ends_with("another\n"), "{}", said.stdout);
    let calls = fs::read_to_string(folder.join("calls.log")).unwrap();
    assert_eq!(calls.matches("steps/0").count(), 1, "{calls}");
    assert_eq!(picture(&sandbox.work()), now);
    assert_eq!(logs(&sandbox, "chain"), journal);
    sandbox.segno(&["doctor"]).good();
}

#[test]
fn a_resume_from_a_checkpoint_takes_the_folder_back_and_says_how_to_undo_it() {
    let sandbox = sandbox();
    let (checkpoint, then) = done(&sandbox);
    let (now, journal) = (picture(&sandbox.work()), logs(&sandbox, "chain"));
    let back = ["resume", "--from", &checkpoint];
    let plan = sandbox.segno(&[&back[..], &["--plan"]].concat()).good();
    insta::assert_snapshot!(tidy(&sandbox, &plan.stdout), @r"
    session chain ([ID]) would be copied into chain-fork, which would go on; it stays as it is
    2 steps done, not done again
    the files of checkpoint [ID] would come back in [ROOT]/work: 3 written, 1 removed; what is there is kept in a checkpoint first
    no step is in the middle of anything; the next one begins
    ");
    assert_eq!(picture(&sandbox.work()), now, "a plan does nothing");
    assert_eq!(standings(&sandbox).len(), 1);
    // The files are those of then, so the third step fails again.
    let said = sandbox.segno(&[&back[..], &["--json"]].concat());
    let lines = said.refused(10, &["no key"]).json();
    assert_eq!(lines[0]["kind"], "forked");
    assert_eq!(lines[0]["name"], "chain-fork");
    assert_eq!(sandbox.read("notes/kept.txt"), "as it was\n");
    assert!(!sandbox.work().join("notes/later.txt").exists());
    assert_eq!(picture(&sandbox.work()).len(), then.len());
    assert_eq!(logs(&sandbox, "chain"), journal);
    let rescue = lines[0]["rescue"].as_str().unwrap();
    sandbox
        .segno(&["checkpoint", "restore", rescue, "--exact"])
        .good();
    assert_eq!(picture(&sandbox.work()), now);
}

#[test]
fn a_copy_of_now_has_the_files_as_they_are() {
    let sandbox = sandbox();
    done(&sandbox);
    let now = picture(&sandbox.work());
    let fork = ["sessions", "fork", "chain", "--into", "../apart"];
    sandbox.segno(&fork).good();
    let folder = root(&sandbox).join("apart");
    assert_eq!(picture(&folder), now);
    assert_eq!(shown(&sandbox, "chain-fork")["steps_finished"], 3);
    let plan = ["resume", "chain", "--fork", "--into", "../third", "--plan"];
    let said = sandbox.segno(&plan).good();
    assert!(
        said.stdout.contains("a checkpoint would be taken"),
        "{}",
        said.stdout
    );
    assert!(!root(&sandbox).join("third").exists());
    assert_eq!(standings(&sandbox).len(), 2);
}

#[test]
fn a_copy_of_a_repository_is_a_whole_repository() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    let git = |folder: &Path, words: &[&str]| {
        let mut command = Command::new("git");
        sandbox.furnish(&mut command);
        let person = ["-c", "user.name=Me", "-c", "user.email=me@example.com"];
        command.current_dir(folder).args(person).args(words);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let work = sandbox.work();
    git(&work, &["init", "-q", "-b", "main"]);
    git(&work, &["add", "chain.yaml"]);
    git(&work, &["commit", "-q", "-m", "first"]);
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    let (checkpoint, then) = (take(&sandbox), git(&work, &["rev-parse", "HEAD"]));
    git(&work, &["add", "answers.yaml"]);
    git(&work, &["commit", "-q", "-m", "second"]);
    sandbox
        .segno(&["sessions", "fork", "chain", "--from", &checkpoint])
        .good();
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
fn what_cannot_be_gone_back_to_is_told() {
    let sandbox = sandbox();
    let (checkpoint, _) = done(&sandbox);
    sandbox
        .segno(&["run", "chain.yaml", "--name", "other"])
        .good();
    let fork = |session: &str, more: &[&str]| {
        let words = [&["sessions", "fork", session], more].concat();
        sandbox.segno(&words)
    };
    fork("chain", &["--from", "NOTHING"]).refused(17, &["there is no checkpoint", "[K0201]"]);
    fork("chain", &["--from", "steps/1"]).refused(17, &["`--before` names a step"]);
    fork("other", &["--from", &checkpoint]).refused(
        17,
        &[
            "it is one of session chain",
            "segno checkpoint list other",
            "[R0120]",
        ],
    );
    sandbox.write("../full/mine.txt", "mine\n");
    let from = checkpoint.as_str();
    fork("chain", &["--from", from, "--into", "../full"]).refused(
        17,
        &["full cannot be the folder of a copy", "mine.txt", "[R0121]"],
    );
    fork("chain", &["--from", from, "--into", "."]).refused(17, &["session chain", "[R0121]"]);
    fork("chain", &["--from", from, "--into", "notes/sub"]).refused(17, &["[R0121]"]);
    fork("chain", &["--from", from, "--into", "chain.yaml/x"]).refused(17, &["[R0121]"]);
    fork("chain", &["--from", from, "--name", "other"]).refused(17, &["other", "[S0102]"]);
    fork("chain", &["--from", from, "--before", "steps/1"]).refused(2, &["--before"]);
    assert_eq!(sandbox.read("../full/mine.txt"), "mine\n");
    assert_eq!(standings(&sandbox).len(), 2);
    // Where a copy works already, no other one can.
    fork("chain", &["--from", from]).good();
    let folder = root(&sandbox).join("work-chain-fork");
    fork(
        "chain",
        &["--from", from, "--into", folder.to_str().unwrap()],
    )
    .refused(17, &["session chain-fork works in it", "[R0121]"]);
    fork("chain", &["--from", from]).good();
    assert!(root(&sandbox).join("work-chain-fork-2").is_dir());
}

#[test]
fn files_do_not_come_back_under_a_session_that_is_being_run() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    let checkpoint = take(&sandbox);
    let back = ["resume", "chain", "--from", &checkpoint];
    sandbox.segno(&back).refused(17, &["chain", "[K0203]"]);
    let plan = sandbox.segno(&[&back[..], &["--plan"]].concat()).good();
    assert!(
        plan.stdout.contains("this would be refused"),
        "{}",
        plan.stdout
    );
    assert_eq!(standings(&sandbox).len(), 1);
    // Elsewhere they can: the session is only read.
    sandbox
        .segno(&["sessions", "fork", "chain", "--from", &checkpoint])
        .good();
    sandbox.write("go", "");
    live.finish().good();
    sandbox.segno(&["doctor"]).good();
}
