//! Plans from files, stdin, issues and specs.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use segno_testkit::sandbox::{run_to_end, wait_for_output};

use super::{WorkFixture, git};

#[test]
fn plan_file_becomes_one_commit_per_task() {
    let fixture = WorkFixture::new();
    let work = fixture.sandbox.work();
    fixture
        .sandbox
        .write("first.txt", "what the person is at\n");
    let output = fixture.work("../roles/PLAN.md", &[]).expect_success();
    assert_eq!(fixture.commits(), ["T1: Write a", "T2: Write b"]);
    assert_eq!(fixture.changed_files(1), ["T1.txt"]);
    assert_eq!(fixture.changed_files(2), ["T2.txt"]);
    let message = git(&work, &["log", "-1", "--format=%an <%ae>%n%B", "segno/job"]);
    assert!(
        message.starts_with("Ada <ada@example.org>\nT2: Write b\n\nI did tasks/T2/1/work.\n\n"),
        "{message}"
    );
    assert!(message.contains("\nSegno-Task: T2\n"), "{message}");
    let id = git(
        &work,
        &[
            "log",
            "-1",
            "--format=%(trailers:key=Segno-Session,valueonly)",
            "segno/job",
        ],
    );
    assert!(output.stderr.contains(id.trim()), "{}", output.stderr);
    assert!(output.stderr.contains("has uncommitted changes"));
    assert!(
        output.stdout.starts_with("- [x] T1: Write a ["),
        "{}",
        output.stdout
    );
    // The user's files are unchanged.
    assert_eq!(fixture.sandbox.read("first.txt"), "what the person is at\n");
    assert_eq!(git(&work, &["status", "--porcelain"]), " M first.txt\n");
    assert_eq!(git(&work, &["branch", "--show-current"]), "main\n");
    let start = git(&work, &["rev-parse", "main"]);
    assert_eq!(fixture.plan()["start"], start.trim());
    assert_eq!(git(&fixture.folder(), &["status", "--porcelain"]), "");
    assert_eq!(
        fs::read_to_string(fixture.folder().join("first.txt")).unwrap(),
        "first\n"
    );
    let asked = fixture.asked("tasks/T2/1/work");
    for words in [
        "Do task T2",
        "They are missing.",
        "- [x] T1: Write a\n- [ ] T2: Write b (after T1)\n",
        "T2: Write b\n\nIt comes after a.\n",
        "Do not commit:",
    ] {
        assert!(asked.contains(words), "{words:?} is not in:\n{asked}");
    }
}

#[test]
fn tasks_follow_their_dependencies_and_skip_done_ones() {
    let fixture = WorkFixture::new();
    fixture.write_file(
        "PLAN.md",
        "- [ ] last: Close (after b1, a1)\n- [ ] **b1** Second (depends on: a1)\n- [x] a0: Was done\n- [ ] a1: First (after a0)\n",
    );
    // A bare word without a digit is not an id, so the first task is called by its number.
    let refused = fixture
        .work("../roles/PLAN.md", &["--plan-only"])
        .expect_success();
    assert!(
        refused
            .stdout
            .starts_with("- [ ] T1: last: Close (after b1, a1)\n")
    );
    fixture
        .work("../roles/PLAN.md", &["--no-review"])
        .expect_success();
    let work: Vec<String> = fixture.calls();
    assert_eq!(
        work,
        ["tasks/a1/1/work", "tasks/b1/1/work", "tasks/T1/1/work"]
    );
    assert_eq!(
        fixture.commits(),
        ["a1: First", "b1: Second", "T1: last: Close"]
    );
    let statuses = fixture.task_statuses();
    let statuses: Vec<&str> = statuses.iter().map(|(_, word)| word.as_str()).collect();
    assert_eq!(statuses, ["done", "done", "skipped", "done"]);
}

#[test]
fn issue_is_planned_and_started_after_approval() {
    let fixture = WorkFixture::new();
    let issue = "Two files are missing. Write them.";
    fixture
        .work(issue, &[])
        .refused(19, &["Approve this plan?", "segno answer job"]);
    assert!(fixture.asked("plan/1/planner").contains(issue));
    let asked = fixture.segno(&["answer", "job"]).expect_success().stdout;
    assert!(asked.contains("- [ ] T2: Write b (after T1)"), "{asked}");
    assert_eq!(fixture.plan()["final"], false);
    assert_eq!(fixture.calls(), ["plan/1/planner"]);
    fixture
        .segno(&["answer", "job", "perhaps"])
        .refused(2, &["R0110"]);
    fixture
        .segno(&["answer", "job", "approve", "--resume"])
        .expect_success();
    assert_eq!(fixture.commits(), ["T1: Write a", "T2: Write b"]);
    assert!(fixture.asked("tasks/T1/1/work").contains(issue));
}

#[test]
fn long_issue_is_whole_for_the_planner_and_cut_for_tasks() {
    let fixture = WorkFixture::new();
    let issue = format!("Make it {}.", "é".repeat(2_000));
    fixture.write_file("issue.txt", &issue);
    fixture
        .work("../roles/issue.txt", &["--yes", "--no-review"])
        .expect_success();
    assert!(fixture.asked("plan/1/planner").contains(&issue));
    let part: String = issue.chars().take(500).collect();
    let asked = fixture.asked("tasks/T1/1/work");
    assert!(asked.contains(&format!("\n{part}…\n")), "{asked}");
}

#[test]
fn rejected_plan_is_remade_with_the_reason() {
    let fixture = WorkFixture::new();
    fixture.set_answer("plan/2/planner", "Here it is:\n\n- [ ] T1: Write both\n");
    fixture.work("Two files", &[]).refused(19, &["R0108"]);
    fixture
        .segno(&["answer", "job", "reject: one task is enough", "--resume"])
        .refused(19, &["Approve this plan?"]);
    let asked = fixture.asked("plan/2/planner");
    assert!(asked.contains("one task is enough"), "{asked}");
    assert!(asked.contains("- [ ] T2: Write b (after T1)"), "{asked}");
    fixture
        .segno(&["answer", "job", "yes", "--resume"])
        .expect_success();
    assert_eq!(fixture.commits(), ["T1: Write both"]);
}

#[test]
fn valid_plan_of_the_user_replaces_the_planners() {
    let fixture = WorkFixture::new();
    fixture.work("Two files", &[]).refused(19, &["R0108"]);
    let round = "- [ ] A1: one (after A2)\n- [ ] A2: two (after A1)";
    fixture
        .segno(&["answer", "job", round, "--resume"])
        .refused(19, &["depends on itself: A1 → A2 → A1"]);
    let mine = "My plan:\n\n- [ ] A1: one\n- [ ] A2: two (after A1)";
    fixture
        .segno(&["answer", "job", mine, "--resume"])
        .expect_success();
    assert_eq!(fixture.commits(), ["A1: one", "A2: two"]);
    assert_eq!(fixture.calls()[0], "plan/1/planner");
    assert!(!fixture.calls().contains(&"plan/2/planner".to_owned()));
}

#[test]
fn planner_without_a_valid_plan_is_asked_again() {
    let fixture = WorkFixture::new();
    fixture.set_answer("plan/1/planner", "I would rather not.");
    fixture.set_answer("plan/1/planner#2", "- [ ] T1: a (after T9)");
    fixture.work("Two files", &["--yes"]).expect_success();
    assert!(
        fixture
            .asked("plan/1/planner#2")
            .contains("there is no task: write")
    );
    assert!(
        fixture
            .asked("plan/1/planner#3")
            .contains("`after` names an unknown task `T9`")
    );
    assert_eq!(fixture.commits(), ["T1: Write a", "T2: Write b"]);
}

#[test]
fn plan_only_stops_after_the_plan() {
    let fixture = WorkFixture::new();
    let output = fixture.work("Two files", &["--plan-only"]).expect_success();
    assert_eq!(
        output.stdout,
        "- [ ] T1: Write a\n- [ ] T2: Write b (after T1)\n"
    );
    assert_eq!(fixture.calls(), ["plan/1/planner"]);
    assert!(!fixture.folder().exists());
    assert_eq!(
        git(&fixture.sandbox.work(), &["branch", "--list", "segno/*"]),
        ""
    );
}

#[test]
fn a_plan_is_read_from_stdin() {
    let fixture = WorkFixture::new();
    let mut command = fixture
        .sandbox
        .command(&WorkFixture::args("-", &["--no-review"]));
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"1. [ ] Write it\n")
        .unwrap();
    wait_for_output(child).expect_success();
    assert_eq!(fixture.commits(), ["T1: Write it"]);
}

#[test]
fn a_task_that_changes_nothing_has_no_commit() {
    let fixture = WorkFixture::new();
    fixture.write_file(
        "roles.yaml",
        "version: 0\nname: roles\nruntime: {provider: scripted, script: script.yaml}\nagents: {one: {prompt: You.}}\npattern: {type: chain, config: {steps: [{agent: one}]}}\n",
    );
    fixture.write_file(
        "script.yaml",
        "ledger: calls.log\nanswers: [{contains: Review the changes, text: '{\"approved\": true}'}]\ndefault: {text: I looked.}\n",
    );
    let output = fixture.work("../roles/PLAN.md", &[]).expect_success();
    assert!(
        output
            .stdout
            .contains("- [x] T1: Write a [nothing to commit]")
    );
    assert_eq!(fixture.commits(), Vec::<String>::new());
    assert_eq!(
        fixture.plan()["tasks"][0]["commit"],
        serde_json::Value::Null
    );
    assert_eq!(fixture.task_statuses()[1].1, "done");
    assert_eq!(fixture.calls().len(), 4);
}

#[test]
fn in_place_commits_to_the_current_branch() {
    let fixture = WorkFixture::new();
    fixture
        .work("../roles/PLAN.md", &["--in-place"])
        .expect_success();
    let work = fixture.sandbox.work();
    let log = git(&work, &["log", "--format=%s", "main"]);
    assert_eq!(log, "T2: Write b\nT1: Write a\nBegin\n");
    assert_eq!(git(&work, &["status", "--porcelain"]), "");
    assert_eq!(
        git(&work, &["branch", "--format=%(refname:short)"]),
        "main\n"
    );
}

#[test]
fn commits_of_the_agent_are_kept_and_reviewed() {
    let fixture = WorkFixture::new();
    let agent = super::AGENT.replace(
        "if [ -e \"$roles/fail.$step\" ]",
        "case $SEGNO_STEP in tasks/T1/1/work) git add . && git commit -qm mine;; esac\nif [ -e \"$roles/fail.$step\" ]",
    );
    fixture.write_file("agent.sh", &agent);
    fixture.work("../roles/PLAN.md", &[]).expect_success();
    assert_eq!(fixture.commits(), ["mine", "T2: Write b"]);
    assert!(
        fixture
            .asked("tasks/T1/1/review")
            .contains("+tasks/T1/1/work")
    );
    assert!(
        !fixture
            .asked("tasks/T2/1/review")
            .contains("+tasks/T1/1/work")
    );
}

/// A user's own spec, with the same agents.
const OWN: &str = "\
version: 0
name: job
runtime: {provider: command, command: [./agent.sh]}
agents: {worker: {prompt: You work.}, critic: {prompt: You review.}}
pattern:
  type: plan
  config:
    agent: worker
    reviewer: critic
    tasks: [{id: T1, title: Write a}, {id: T2, title: Write b, depends_on: [T1]}]
continuity: {pause: {after_steps: 1}}
outputs: {artifacts: [{path: plan.md, from: \"{{ plan }}\"}]}
";

#[test]
fn edited_plan_spec_keeps_its_commits() {
    let fixture = WorkFixture::new();
    fixture.write_file("own.yaml", OWN);
    let work = fixture.sandbox.work();
    let explained = fixture
        .segno(&["plan", "../roles/own.yaml", "--explain"])
        .expect_success()
        .stdout;
    assert!(explained.contains("tasks/T2/review: critic"), "{explained}");
    let words = ["run", "../roles/own.yaml", "--out", "../out"];
    fixture.segno(&words).refused(130, &["R0102"]);
    // A rerun repeats every edited step, except those whose work is committed.
    fixture.write_file("own.yaml", &OWN.replace("You work.", "You work hard."));
    fixture
        .segno(&["resume", "job", "--on-change", "rerun"])
        .expect_success();
    assert_eq!(
        git(&work, &["log", "--format=%s", "main"]),
        "T2: Write b\nT1: Write a\nBegin\n"
    );
    assert_eq!(
        fixture.calls(),
        [
            "tasks/T1/1/work",
            "tasks/T1/1/review",
            "tasks/T2/1/work",
            "tasks/T2/1/review"
        ]
    );
    let written = fs::read_to_string(work.join("../out/plan.md")).unwrap();
    assert!(written.starts_with("- [x] T1: Write a ["), "{written}");
}

#[test]
fn secret_in_an_issue_is_redacted() {
    let fixture = WorkFixture::new();
    let secret = "hunter2-Xq9vLr4TzWk8";
    let issue = format!("The key {secret} is in the code. Take it out.");
    let mut command = fixture
        .sandbox
        .command(&WorkFixture::args(&issue, &["--yes"]));
    command.env("SERVICE_API_KEY", secret);
    run_to_end(command).expect_success();
    assert!(fixture.asked("plan/1/planner").contains("is in the code"));
    for step in ["plan/1/planner", "tasks/T1/1/work"] {
        assert!(!fixture.asked(step).contains(secret), "{step}");
    }
    let exported = fixture
        .segno(&["sessions", "export", "job", "-o", "-"])
        .expect_success();
    assert!(!exported.stdout.contains(secret));
    let log = git(
        &fixture.sandbox.work(),
        &["log", "--format=%B", "segno/job"],
    );
    assert!(!log.contains(secret));
}
