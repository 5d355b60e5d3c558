//! Killed anywhere around what git does: each task has one commit.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use segno_testkit::sandbox::{Said, finish};

use super::{Shop, git};
use crate::commands::{root, standings};

/// Git that kills whoever started it, after the command whose number is in the file `kill`.
const GIT: &str = r#"#!/bin/sh
root=ROOT
echo $(echo "$*") >> "$root/git.log"
number=$(wc -l < "$root/git.log")
PATH=/usr/local/bin:/usr/bin:/bin git "$@"
code=$?
if [ "$(cat "$root/kill")" = "$number" ]; then kill -9 $PPID; fi
exit $code
"#;

impl Shop {
    /// Lets segno find that git first, which kills as `kill` says.
    fn with_git(&self, words: &[&str], kill: &str) -> Said {
        let root = root(&self.sandbox);
        let bin = root.join("bin");
        let _ = fs::create_dir(&bin);
        let wrapper = bin.join("git");
        fs::write(&wrapper, GIT.replace("ROOT", root.to_str().unwrap())).unwrap();
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(root.join("kill"), kill).unwrap();
        fs::write(root.join("git.log"), "").unwrap();
        let mut command: Command = self.sandbox.command(words);
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display());
        command.env("PATH", path);
        finish(command)
    }

    fn commands_of_git(&self) -> usize {
        let log = fs::read_to_string(root(&self.sandbox).join("git.log")).unwrap();
        log.lines().count()
    }

    /// Goes on after a kill, whatever is there to go on with.
    fn go_on(&self) {
        let said = match standings(&self.sandbox).pop() {
            None => self.work("../crew/PLAN.md", &["--no-review"]),
            Some((_, status)) if status == "completed" => return,
            Some(_) => self.segno(&["resume", "job"]),
        };
        said.good();
    }

    #[track_caller]
    fn is_done_once(&self, killed: &str) {
        assert_eq!(self.commits(), ["T1: Write a", "T2: Write b"], "{killed}");
        assert_eq!(self.touched(1), ["T1.txt"], "{killed}");
        assert_eq!(self.touched(2), ["T2.txt"], "{killed}");
        assert_eq!(
            git(&self.folder(), &["status", "--porcelain"]),
            "",
            "{killed}"
        );
        let log = self.calls();
        assert_eq!(log, ["tasks/T1/1/work", "tasks/T2/1/work"], "{killed}");
        let listed = git(&self.sandbox.work(), &["worktree", "list", "--porcelain"]);
        assert_eq!(listed.matches("worktree ").count(), 2, "{killed}: {listed}");
    }
}

#[test]
fn a_run_killed_after_any_command_of_git_makes_each_commit_once() {
    let words = Shop::words("../crew/PLAN.md", &["--no-review"]);
    let shop = Shop::new();
    shop.with_git(&words, "").good();
    shop.is_done_once("never");
    let commands = shop.commands_of_git();
    assert!(commands > 15, "{commands}");
    // What is written down between two commands is what the test below kills at.
    for number in 1..=commands {
        let (shop, killed) = (Shop::new(), format!("{number}"));
        let said = shop.with_git(&words, &killed);
        assert!(said.crashed(), "{killed}: {said:?}");
        shop.go_on();
        shop.is_done_once(&killed);
    }
}

#[test]
#[cfg(feature = "failpoints")]
fn a_run_killed_around_any_effect_makes_each_commit_once() {
    let words = Shop::words("../crew/PLAN.md", &["--no-review"]);
    for point in [
        "step.before_effect",
        "step.after_effect",
        "journal.after_commit",
    ] {
        for visit in 1.. {
            let shop = Shop::new();
            let mut command = shop.sandbox.command(&words);
            command.env("SEGNO_FAILPOINT", format!("{point}:{visit}"));
            if !finish(command).crashed() {
                // Begin, two tasks and their commits.
                assert!(visit > 5, "{point}: {visit}");
                break;
            }
            shop.go_on();
            assert_eq!(
                shop.commits(),
                ["T1: Write a", "T2: Write b"],
                "{point}:{visit}"
            );
            let listed = git(&shop.sandbox.work(), &["worktree", "list"]);
            assert_eq!(listed.lines().count(), 2, "{point}:{visit}");
        }
    }
}

#[test]
fn nobody_has_to_decide_about_a_commit_that_was_in_flight() {
    let shop = Shop::new();
    let crew = format!("{}continuity: {{in_flight: stop}}\n", super::CREW);
    shop.put("crew.yaml", &crew);
    let words = Shop::words("../crew/PLAN.md", &["--no-review"]);
    shop.with_git(&words, "").good();
    let log = fs::read_to_string(root(&shop.sandbox).join("git.log")).unwrap();
    let moved = log
        .lines()
        .position(|line| line.contains("update-ref -m"))
        .unwrap()
        + 1;
    let shop = Shop::new();
    shop.put("crew.yaml", &crew);
    let said = shop.with_git(&words, &moved.to_string());
    assert!(said.crashed(), "{said:?}");
    assert_eq!(shop.commits(), ["T1: Write a"]);
    shop.go_on();
    shop.is_done_once("after the branch was moved");
}

#[test]
fn a_folder_that_was_being_made_is_gone_on_with() {
    let shop = Shop::new();
    let words = Shop::words("../crew/PLAN.md", &["--no-review"]);
    let said = shop.with_git(&words, "");
    said.good();
    let log = fs::read_to_string(root(&shop.sandbox).join("git.log")).unwrap();
    let add = log
        .lines()
        .position(|line| line.contains("worktree add"))
        .unwrap()
        + 1;
    // As a power cut leaves it: git knows of the folder, and the folder of a git folder that is not whole.
    let shop = Shop::new();
    let said = shop.with_git(&words, &add.to_string());
    assert!(said.crashed(), "{said:?}");
    let kept = shop.sandbox.work().join(".git/worktrees/work-job");
    fs::remove_file(kept.join("HEAD")).unwrap();
    fs::write(kept.join("locked"), "initializing").unwrap();
    shop.go_on();
    shop.is_done_once("in the middle");
}
