//! Kills around everything that git does: each task gets exactly one commit.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use segno_testkit::sandbox::{ProcessOutput, run_to_end};

use super::{WorkFixture, git};
use crate::commands::{root, session_statuses};

/// A git wrapper that kills its parent after the command whose number is in the file `kill`.
const GIT: &str = r#"#!/bin/sh
root=ROOT
echo $(echo "$*") >> "$root/git.log"
number=$(wc -l < "$root/git.log")
PATH=/usr/local/bin:/usr/bin:/bin git "$@"
code=$?
if [ "$(cat "$root/kill")" = "$number" ]; then kill -9 $PPID; fi
exit $code
"#;

impl WorkFixture {
    /// Runs segno with that wrapper first on PATH; it kills as `kill` says.
    fn run_with_killing_git(&self, words: &[&str], kill: &str) -> ProcessOutput {
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
        run_to_end(command)
    }

    fn git_command_count(&self) -> usize {
        let log = fs::read_to_string(root(&self.sandbox).join("git.log")).unwrap();
        log.lines().count()
    }

    /// Continues after a kill, from whatever is left.
    fn resume_after_kill(&self) {
        let output = match session_statuses(&self.sandbox).pop() {
            None => self.work("../roles/PLAN.md", &["--no-review"]),
            Some((_, status)) if status == "completed" => return,
            Some(_) => self.segno(&["resume", "job"]),
        };
        output.expect_success();
    }

    #[track_caller]
    fn assert_done_once(&self, killed: &str) {
        assert_eq!(self.commits(), ["T1: Write a", "T2: Write b"], "{killed}");
        assert_eq!(self.changed_files(1), ["T1.txt"], "{killed}");
        assert_eq!(self.changed_files(2), ["T2.txt"], "{killed}");
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
fn kill_after_any_git_command_commits_each_task_once() {
    let words = WorkFixture::args("../roles/PLAN.md", &["--no-review"]);
    let fixture = WorkFixture::new();
    fixture.run_with_killing_git(&words, "").expect_success();
    fixture.assert_done_once("never");
    let commands = fixture.git_command_count();
    assert!(commands > 15, "{commands}");
    // The next test kills at what is written between two commands.
    for number in 1..=commands {
        let (fixture, killed) = (WorkFixture::new(), format!("{number}"));
        let output = fixture.run_with_killing_git(&words, &killed);
        assert!(output.crashed(), "{killed}: {output:?}");
        fixture.resume_after_kill();
        fixture.assert_done_once(&killed);
    }
}

#[test]
#[cfg(feature = "failpoints")]
fn kill_around_any_effect_commits_each_task_once() {
    let words = WorkFixture::args("../roles/PLAN.md", &["--no-review"]);
    for point in [
        "step.before_effect",
        "step.after_effect",
        "journal.after_commit",
    ] {
        for visit in 1.. {
            let fixture = WorkFixture::new();
            let mut command = fixture.sandbox.command(&words);
            command.env("SEGNO_FAILPOINT", format!("{point}:{visit}"));
            if !run_to_end(command).crashed() {
                // The start, two tasks and their commits.
                assert!(visit > 5, "{point}: {visit}");
                break;
            }
            fixture.resume_after_kill();
            assert_eq!(
                fixture.commits(),
                ["T1: Write a", "T2: Write b"],
                "{point}:{visit}"
            );
            let listed = git(&fixture.sandbox.work(), &["worktree", "list"]);
            assert_eq!(listed.lines().count(), 2, "{point}:{visit}");
        }
    }
}

#[test]
fn commit_in_flight_needs_no_user_decision() {
    let fixture = WorkFixture::new();
    let spec = format!("{}continuity: {{in_flight: stop}}\n", super::SPEC);
    fixture.write_file("roles.yaml", &spec);
    let words = WorkFixture::args("../roles/PLAN.md", &["--no-review"]);
    fixture.run_with_killing_git(&words, "").expect_success();
    let log = fs::read_to_string(root(&fixture.sandbox).join("git.log")).unwrap();
    let moved = log
        .lines()
        .position(|line| line.contains("update-ref -m"))
        .unwrap()
        + 1;
    let fixture = WorkFixture::new();
    fixture.write_file("roles.yaml", &spec);
    let output = fixture.run_with_killing_git(&words, &moved.to_string());
    assert!(output.crashed(), "{output:?}");
    assert_eq!(fixture.commits(), ["T1: Write a"]);
    fixture.resume_after_kill();
    fixture.assert_done_once("after the branch was moved");
}

#[test]
fn half_created_worktree_is_completed_on_resume() {
    let fixture = WorkFixture::new();
    let words = WorkFixture::args("../roles/PLAN.md", &["--no-review"]);
    let output = fixture.run_with_killing_git(&words, "");
    output.expect_success();
    let log = fs::read_to_string(root(&fixture.sandbox).join("git.log")).unwrap();
    let add = log
        .lines()
        .position(|line| line.contains("worktree add"))
        .unwrap()
        + 1;
    // What a power cut leaves: git knows the worktree, and the worktree refers to a git folder that
    // is incomplete.
    let fixture = WorkFixture::new();
    let output = fixture.run_with_killing_git(&words, &add.to_string());
    assert!(output.crashed(), "{output:?}");
    let git_folder = fixture.sandbox.work().join(".git/worktrees/work-job");
    fs::remove_file(git_folder.join("HEAD")).unwrap();
    fs::write(git_folder.join("locked"), "initializing").unwrap();
    fixture.resume_after_kill();
    fixture.assert_done_once("in the middle");
}

#[test]
#[cfg(feature = "failpoints")]
fn task_in_flight_can_be_resolved() {
    let words = WorkFixture::args("../roles/PLAN.md", &["--no-review"]);
    let fixture = WorkFixture::new();
    let mut command = fixture.sandbox.command(&words);
    // The start of the plan is the first effect, the first task the second.
    command.env("SEGNO_FAILPOINT", "step.after_effect:2");
    assert!(run_to_end(command).crashed());
    assert_eq!(fixture.calls(), ["tasks/T1/1/work"]);
    let name = fixture.segno(&["status", "--json"]).json()[0]["name"].clone();
    let name = name.as_str().unwrap();
    let done = [
        "--in-flight",
        "done",
        "--result",
        "I wrote a.",
        "--on-drift",
        "accept",
    ];
    let output = fixture.segno(&[&["resume", name][..], &done].concat());
    output.expect_success();
    assert_eq!(fixture.calls(), ["tasks/T1/1/work", "tasks/T2/1/work"]);
    assert_eq!(fixture.commits(), ["T1: Write a", "T2: Write b"]);
}
