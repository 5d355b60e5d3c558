//! Plans and repositories that `segno work` refuses.

use std::fs;

use super::{WorkFixture, git};
use crate::commands::{root, session_statuses};

/// Asserts that nothing was started: no session, no call, no folder.
#[track_caller]
fn assert_nothing_started(fixture: &WorkFixture) {
    assert_eq!(session_statuses(&fixture.sandbox), []);
    assert_eq!(fixture.calls(), Vec::<String>::new());
    assert!(!fixture.folder().exists());
}

#[test]
fn folder_without_a_repository_is_refused() {
    let fixture = WorkFixture::new();
    fs::rename(
        fixture.sandbox.work().join(".git"),
        fixture.agents_folder().join("git"),
    )
    .unwrap();
    fixture
        .work("../roles/PLAN.md", &[])
        .refused(2, &["R0130", "git init"]);
    assert_nothing_started(&fixture);
}

#[test]
fn a_repository_without_a_commit_is_refused() {
    let fixture = WorkFixture::new();
    git(&fixture.sandbox.work(), &["update-ref", "-d", "HEAD"]);
    fixture.work("../roles/PLAN.md", &[]).refused(2, &["R0131"]);
    assert_nothing_started(&fixture);
}

#[test]
fn missing_git_identity_is_refused() {
    let fixture = WorkFixture::new();
    git(
        &fixture.sandbox.work(),
        &["config", "--unset", "user.email"],
    );
    fixture
        .work("../roles/PLAN.md", &[])
        .refused(2, &["R0132", "git config user.email ADDRESS"]);
    assert_nothing_started(&fixture);
}

#[test]
fn existing_branch_is_left_unchanged() {
    let fixture = WorkFixture::new();
    let work = fixture.sandbox.work();
    git(&work, &["branch", "segno/job"]);
    fixture
        .work("../roles/PLAN.md", &[])
        .refused(17, &["R0133", "--name NAME"]);
    assert_nothing_started(&fixture);
    // If the user did not choose the name, the next free one is used.
    git(&work, &["branch", "segno/two-files"]);
    let words = ["work", "../roles/PLAN.md", "--spec", "../roles/roles.yaml"];
    fixture.segno(&words).expect_success();
    let log = git(&work, &["log", "--format=%s", "main..segno/two-files-2"]);
    assert_eq!(log, "T2: Write b\nT1: Write a\n");
    assert_eq!(
        git(&work, &["log", "--format=%s", "segno/two-files"]),
        "Begin\n"
    );
}

#[test]
fn uncommitted_changes_block_in_place_work() {
    let fixture = WorkFixture::new();
    fixture.sandbox.write("mine.txt", "mine\n");
    fixture
        .work("../roles/PLAN.md", &["--in-place"])
        .refused(17, &["R0134", "mine.txt", "--in-place"]);
    assert_nothing_started(&fixture);
}

#[test]
fn folder_with_files_is_refused() {
    let fixture = WorkFixture::new();
    fixture
        .work("../roles/PLAN.md", &["--into", "../roles"])
        .refused(17, &["R0137"]);
    fixture
        .work("../roles/PLAN.md", &["--into", "inside"])
        .refused(17, &["R0137", "it is inside the repository"]);
    assert_nothing_started(&fixture);
    fixture
        .work("../roles/PLAN.md", &["--into", "../elsewhere/deep"])
        .expect_success();
    assert!(
        root(&fixture.sandbox)
            .join("elsewhere/deep/T2.txt")
            .exists()
    );
}

#[test]
fn inconsistent_plan_is_refused_with_its_lines() {
    let fixture = WorkFixture::new();
    fixture.write_file(
        "PLAN.md",
        "# Plan\n- [ ] T1: a (after T2)\n- [ ] T2: b (after T1)\n- [ ] T2: c\n",
    );
    fixture.work("../roles/PLAN.md", &[]).refused(
        3,
        &[
            "R0136",
            "../roles/PLAN.md",
            "line 4: duplicate task `T2`, first defined in line 3",
        ],
    );
    assert_nothing_started(&fixture);
}

#[test]
fn unreadable_plan_or_unknown_agent_is_refused() {
    let fixture = WorkFixture::new();
    fixture
        .work("nowhere.md", &[])
        .refused(2, &["nowhere.md cannot be read"]);
    fixture.work(" ", &[]).refused(2, &["the text is empty"]);
    fixture
        .work("../roles/PLAN.md", &["--agent", "nobody"])
        .refused(2, &["R0115", "nobody"]);
    fixture
        .work("../roles/PLAN.md", &["--reviewer", "nobody"])
        .refused(2, &["R0115"]);
    assert_nothing_started(&fixture);
}

#[test]
fn git_error_fails_the_run_and_resume_continues() {
    let fixture = WorkFixture::new();
    fixture
        .work("../roles/PLAN.md", &["--pause-after", "1"])
        .refused(130, &["R0102"]);
    let lock = fixture
        .sandbox
        .work()
        .join(".git/refs/heads/segno/job.lock");
    fs::write(&lock, "").unwrap();
    fixture
        .segno(&["resume", "job"])
        .refused(12, &["R0135", "job.lock"]);
    assert_eq!(fixture.commits(), ["T1: Write a"]);
    fs::remove_file(&lock).unwrap();
    fixture.segno(&["resume", "job"]).expect_success();
    assert_eq!(fixture.commits(), ["T1: Write a", "T2: Write b"]);
    assert_eq!(fixture.calls().len(), 4);
}
