use std::fs;

use super::{Shop, git};
use crate::commands::{root, standings};

/// Nothing was begun: no session, no branch, no folder.
#[track_caller]
fn nothing_is_left(shop: &Shop) {
    assert_eq!(standings(&shop.sandbox), []);
    assert_eq!(shop.calls(), Vec::<String>::new());
    assert!(!shop.folder().exists());
}

#[test]
fn a_folder_that_is_no_repository_is_refused() {
    let shop = Shop::new();
    fs::rename(shop.sandbox.work().join(".git"), shop.crew().join("git")).unwrap();
    shop.work("../crew/PLAN.md", &[])
        .refused(2, &["R0130", "git init"]);
    nothing_is_left(&shop);
}

#[test]
fn a_repository_without_a_commit_is_refused() {
    let shop = Shop::new();
    git(&shop.sandbox.work(), &["update-ref", "-d", "HEAD"]);
    shop.work("../crew/PLAN.md", &[]).refused(2, &["R0131"]);
    nothing_is_left(&shop);
}

#[test]
fn without_a_name_to_commit_under_nothing_is_begun() {
    let shop = Shop::new();
    git(&shop.sandbox.work(), &["config", "--unset", "user.email"]);
    shop.work("../crew/PLAN.md", &[])
        .refused(2, &["R0132", "git config user.email ADDRESS"]);
    nothing_is_left(&shop);
}

#[test]
fn a_branch_that_is_there_is_left_alone() {
    let shop = Shop::new();
    let work = shop.sandbox.work();
    git(&work, &["branch", "segno/job"]);
    shop.work("../crew/PLAN.md", &[])
        .refused(17, &["R0133", "--name NAME"]);
    nothing_is_left(&shop);
    // Where nobody chose the name, the next is taken.
    git(&work, &["branch", "segno/two-files"]);
    let words = ["work", "../crew/PLAN.md", "--spec", "../crew/crew.yaml"];
    shop.segno(&words).good();
    let log = git(&work, &["log", "--format=%s", "main..segno/two-files-2"]);
    assert_eq!(log, "T2: Write b\nT1: Write a\n");
    assert_eq!(
        git(&work, &["log", "--format=%s", "segno/two-files"]),
        "Begin\n"
    );
}

#[test]
fn changes_of_a_person_get_into_no_commit() {
    let shop = Shop::new();
    shop.sandbox.write("mine.txt", "mine\n");
    shop.work("../crew/PLAN.md", &["--in-place"])
        .refused(17, &["R0134", "mine.txt", "--in-place"]);
    nothing_is_left(&shop);
}

#[test]
fn a_folder_with_files_is_not_worked_in() {
    let shop = Shop::new();
    shop.work("../crew/PLAN.md", &["--into", "../crew"])
        .refused(17, &["R0137"]);
    shop.work("../crew/PLAN.md", &["--into", "inside"])
        .refused(17, &["R0137", "it lies in the repository"]);
    nothing_is_left(&shop);
    shop.work("../crew/PLAN.md", &["--into", "../elsewhere/deep"])
        .good();
    assert!(root(&shop.sandbox).join("elsewhere/deep/T2.txt").exists());
}

#[test]
fn a_plan_that_does_not_hold_together_is_refused_with_its_lines() {
    let shop = Shop::new();
    shop.put(
        "PLAN.md",
        "# Plan\n- [ ] T1: a (after T2)\n- [ ] T2: b (after T1)\n- [ ] T2: c\n",
    );
    shop.work("../crew/PLAN.md", &[]).refused(
        3,
        &[
            "R0136",
            "../crew/PLAN.md",
            "line 4: there is a task `T2` already, in line 3",
        ],
    );
    nothing_is_left(&shop);
}

#[test]
fn what_cannot_be_read_or_is_unknown_is_refused() {
    let shop = Shop::new();
    shop.work("nowhere.md", &[])
        .refused(2, &["nowhere.md cannot be read"]);
    shop.work(" ", &[]).refused(2, &["the text is empty"]);
    shop.work("../crew/PLAN.md", &["--agent", "nobody"])
        .refused(2, &["R0115", "nobody"]);
    shop.work("../crew/PLAN.md", &["--reviewer", "nobody"])
        .refused(2, &["R0115"]);
    nothing_is_left(&shop);
}

#[test]
fn git_that_refuses_in_the_middle_fails_the_run_and_a_resume_goes_on() {
    let shop = Shop::new();
    shop.work("../crew/PLAN.md", &["--pause-after", "1"])
        .refused(130, &["R0102"]);
    let lock = shop.sandbox.work().join(".git/refs/heads/segno/job.lock");
    fs::write(&lock, "").unwrap();
    shop.segno(&["resume", "job"])
        .refused(12, &["R0135", "job.lock"]);
    assert_eq!(shop.commits(), ["T1: Write a"]);
    fs::remove_file(&lock).unwrap();
    shop.segno(&["resume", "job"]).good();
    assert_eq!(shop.commits(), ["T1: Write a", "T2: Write b"]);
    assert_eq!(shop.calls().len(), 4);
}
