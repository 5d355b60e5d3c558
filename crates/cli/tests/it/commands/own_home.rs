//! Segno's home is never captured, restored over or removed.

use std::path::{Path, PathBuf};
use std::process::Command;

use segno_testkit::sandbox::{ProcessOutput, Sandbox, run_to_end};
use serde_json::Value;

use super::checkpoint::{bytes, create_checkpoint, id, list, run, tree, write_workspace};
use super::root;
use crate::sandbox;

/// A sandbox whose home is inside the workspace.
struct Nested(Sandbox);

impl Nested {
    fn new() -> Self {
        let sandbox = sandbox();
        write_workspace(&sandbox, "");
        Self(sandbox)
    }

    fn home(&self) -> PathBuf {
        self.0.work().join("own/segno")
    }

    fn segno(&self, words: &[&str]) -> ProcessOutput {
        run_to_end(self.command(words))
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.0.command(words);
        command.env("SEGNO_HOME", self.home());
        command
    }

    fn checkpoints(&self) -> Vec<Value> {
        let words = ["checkpoint", "list", "--all", "--json"];
        self.segno(&words).expect_success().json()
    }
}

#[test]
fn home_in_a_workspace_survives_an_exact_restore() {
    let nested = Nested::new();
    std::fs::create_dir(nested.0.work().join("own")).unwrap();
    nested.segno(&["run", "chain.yaml"]).expect_success();
    let words = ["checkpoint", "create", "--json"];
    let first = nested.segno(&words).expect_success().json().remove(0);
    nested.0.write("src/main.rs", "fn main() { changed() }\n");
    nested.0.write("own/new.txt", "new\n");
    nested.segno(&words).expect_success();
    let key = bytes(&nested.home().join("seal.key"));
    let before = nested.checkpoints();
    nested
        .segno(&["checkpoint", "restore", id(&first), "--exact"])
        .expect_success();
    assert_eq!(nested.0.read("src/main.rs"), "fn main() {}\n");
    assert!(!nested.0.work().join("own/new.txt").exists());
    assert_eq!(bytes(&nested.home().join("seal.key")), key);
    let mut after = nested.checkpoints();
    assert_eq!(after.len(), before.len() + 1);
    // The undo works.
    let rescue = after.remove(0);
    nested
        .segno(&["checkpoint", "restore", id(&rescue), "--exact"])
        .expect_success();
    assert_eq!(nested.0.read("src/main.rs"), "fn main() { changed() }\n");
    assert_eq!(nested.0.read("own/new.txt"), "new\n");
    // No checkpoint contains the home.
    let into = root(&nested.0).join("elsewhere");
    let words = ["--into", into.to_str().unwrap()];
    nested
        .segno(&[&["checkpoint", "restore", id(&rescue)], &words[..]].concat())
        .expect_success();
    assert!(into.join("own/new.txt").exists());
    assert!(!into.join("own/segno").exists());
}

#[test]
fn restore_into_the_home_is_refused() {
    let sandbox = sandbox();
    write_workspace(&sandbox, "");
    run(&sandbox);
    let checkpoint = create_checkpoint(&sandbox);
    let outside = root(&sandbox).join("link");
    std::os::unix::fs::symlink(sandbox.home(), &outside).unwrap();
    let before = list(&sandbox);
    let snapshots = tree(&sandbox.home().join("snapshots/heads"));
    for (into, reason) in [
        (sandbox.home(), "it is Segno's home folder"),
        (sandbox.home().join("checkpoints"), "or a part of it"),
        (sandbox.home().join("new/folder"), "Segno's home folder"),
        (outside.join("new"), "Segno's home folder"),
        (outside.clone(), "Segno's home folder"),
        (root(&sandbox), "it contains Segno's home folder"),
    ] {
        for more in [&["--exact"][..], &["--dry-run"], &["--trust"]] {
            let path = into.to_str().unwrap();
            let words = ["checkpoint", "restore", id(&checkpoint), "--into", path];
            sandbox
                .segno(&[&words[..], more].concat())
                .refused(12, &["K0105", reason]);
        }
    }
    assert_eq!(list(&sandbox), before);
    assert_eq!(tree(&sandbox.home().join("snapshots/heads")), snapshots);
    assert!(!sandbox.home().join("new").exists());
}

#[test]
fn home_itself_is_not_captured() {
    let sandbox = sandbox();
    write_workspace(&sandbox, "");
    run(&sandbox);
    let spec = sandbox.work().join("chain.yaml");
    let in_home = |words: &[&str]| {
        let mut command = sandbox.command(words);
        command.current_dir(sandbox.home());
        run_to_end(command)
    };
    in_home(&["run", spec.to_str().unwrap(), "--name", "inside"]).expect_success();
    in_home(&["checkpoint", "create", "inside"]).refused(12, &["K0105", "Segno's home folder"]);
    assert_eq!(list(&sandbox), Vec::<Value>::new());
}

/// A restore into a folder that contains the home is only possible if it is the session's own.
#[test]
fn restore_into_a_parent_of_the_home_is_refused() {
    let sandbox = sandbox();
    write_workspace(&sandbox, "");
    let parent = root(&sandbox).join("all");
    let home = parent.join("state/segno");
    std::fs::create_dir_all(parent.join("state")).unwrap();
    let segno = |words: &[&str]| {
        let mut command = sandbox.command(words);
        command.env("SEGNO_HOME", &home);
        run_to_end(command)
    };
    segno(&["run", "chain.yaml"]).expect_success();
    let words = ["checkpoint", "create", "--json"];
    let checkpoint = segno(&words).expect_success().json().remove(0);
    let count = || {
        segno(&["checkpoint", "list", "--all", "--json"])
            .json()
            .len()
    };
    let before = count();
    for into in [parent.clone(), parent.join("state")] {
        let path = into.to_str().unwrap();
        for words in [
            [
                "checkpoint",
                "restore",
                id(&checkpoint),
                "--into",
                path,
                "--exact",
            ],
            ["fork", "chain", "--from", id(&checkpoint), "--into", path],
        ] {
            segno(&words).refused(12, &["K0105", "it contains Segno's home folder"]);
        }
    }
    assert_eq!(count(), before);
    assert_eq!(std::fs::read_dir(&parent).unwrap().count(), 1);
}

#[test]
fn session_cannot_move_into_the_home() {
    let sandbox = sandbox();
    write_workspace(&sandbox, "");
    run(&sandbox);
    let file = root(&sandbox).join("chain.segno");
    let bundle = root(&sandbox).join("bundle");
    let (file, bundle) = (file.to_str().unwrap(), bundle.to_str().unwrap());
    let export = ["sessions", "export", "chain"];
    for to in [&["-o", file][..], &["--bundle", "-o", bundle]] {
        sandbox.segno(&[&export[..], to].concat()).expect_success();
    }
    let other = Sandbox::new(sandbox.binary());
    other.segno(&["status"]).expect_success();
    for path in [other.home(), other.home().join("checkpoints")] {
        let path = path.to_str().unwrap();
        for from in [file, bundle] {
            other
                .segno(&["sessions", "import", from, "--into", path])
                .refused(12, &["K0105", "Segno's home folder"]);
        }
    }
    assert_eq!(other.segno(&["status", "--json"]).json().len(), 0);
    let inside = sandbox.home().join("checkpoints");
    sandbox
        .segno(&["sessions", "move", "chain", inside.to_str().unwrap()])
        .refused(12, &["K0105", "Segno's home folder"]);
}

/// A bind mount shows the home under a path that does not lead to it.
#[test]
fn home_behind_a_bind_mount_is_recognized() {
    let sandbox = sandbox();
    write_workspace(&sandbox, "");
    run(&sandbox);
    let mounted = sandbox.work().join("mounted");
    std::fs::create_dir(&mounted).unwrap();
    // The mount exists only in the namespace of this shell.
    let script = "mount --bind \"$SEGNO_HOME\" mounted && exec \"$0\" checkpoint create --json";
    let mut command = Command::new("unshare");
    sandbox.set_env(&mut command);
    command
        .args(["-rm", "sh", "-c", script])
        .arg(sandbox.binary());
    let output = run_to_end(command);
    if !can_mount(&sandbox, &mounted) {
        return;
    }
    let checkpoint = output.expect_success().json().remove(0);
    let into = root(&sandbox).join("elsewhere");
    let path = into.to_str().unwrap();
    sandbox
        .segno(&["checkpoint", "restore", id(&checkpoint), "--into", path])
        .expect_success();
    assert!(into.join("src/main.rs").exists());
    assert!(!into.join("mounted").exists(), "the home was captured");
}

/// Whether this machine allows a mount in a namespace of its own.
fn can_mount(sandbox: &Sandbox, folder: &Path) -> bool {
    let mut command = Command::new("unshare");
    sandbox.set_env(&mut command);
    command.args(["-rm", "mount", "--bind"]);
    command.arg(folder).arg(folder);
    run_to_end(command).status.success()
}
