use std::fs;
use std::io::Write;
use std::process::Stdio;

use segno_testkit::sandbox::{finish, wait};

use super::{Shop, git};

#[test]
fn a_plan_in_a_file_becomes_a_commit_for_each_task() {
    let shop = Shop::new();
    let work = shop.sandbox.work();
    shop.sandbox.write("first.txt", "what the person is at\n");
    let said = shop.work("../crew/PLAN.md", &[]).good();
    assert_eq!(shop.commits(), ["T1: Write a", "T2: Write b"]);
    assert_eq!(shop.touched(1), ["T1.txt"]);
    assert_eq!(shop.touched(2), ["T2.txt"]);
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
    assert!(said.stderr.contains(id.trim()), "{}", said.stderr);
    assert!(said.stderr.contains("has changes that are not committed"));
    assert!(
        said.stdout.starts_with("- [x] T1: Write a ["),
        "{}",
        said.stdout
    );
    // What the person has is as it was.
    assert_eq!(shop.sandbox.read("first.txt"), "what the person is at\n");
    assert_eq!(git(&work, &["status", "--porcelain"]), " M first.txt\n");
    assert_eq!(git(&work, &["branch", "--show-current"]), "main\n");
    let start = git(&work, &["rev-parse", "main"]);
    assert_eq!(shop.plan()["start"], start.trim());
    assert_eq!(git(&shop.folder(), &["status", "--porcelain"]), "");
    assert_eq!(
        fs::read_to_string(shop.folder().join("first.txt")).unwrap(),
        "first\n"
    );
    let asked = shop.asked("tasks/T2/1/work");
    for words in [
        "Do task T2",
        "They are missing.",
        "- [x] T1: Write a\n- [ ] T2: Write b (after T1)\n",
        "T2: Write b\n\nIt comes after a.\n",
        "Commit nothing yourself",
    ] {
        assert!(asked.contains(words), "{words:?} is not in:\n{asked}");
    }
}

#[test]
fn tasks_come_after_those_that_they_need_and_those_that_are_done_are_left_alone() {
    let shop = Shop::new();
    shop.put(
        "PLAN.md",
        "- [ ] last: Close (after b1, a1)\n- [ ] **b1** Second (depends on: a1)\n- [x] a0: Was done\n- [ ] a1: First (after a0)\n",
    );
    // A bare word without a digit is no name, so the first is called by its number.
    let refused = shop.work("../crew/PLAN.md", &["--plan-only"]).good();
    assert!(
        refused
            .stdout
            .starts_with("- [ ] T1: last: Close (after b1, a1)\n")
    );
    shop.work("../crew/PLAN.md", &["--no-review"]).good();
    let work: Vec<String> = shop.calls();
    assert_eq!(
        work,
        ["tasks/a1/1/work", "tasks/b1/1/work", "tasks/T1/1/work"]
    );
    assert_eq!(
        shop.commits(),
        ["a1: First", "b1: Second", "T1: last: Close"]
    );
    let standings = shop.standings();
    let standings: Vec<&str> = standings.iter().map(|(_, word)| word.as_str()).collect();
    assert_eq!(standings, ["done", "done", "skipped", "done"]);
}

#[test]
fn an_issue_is_planned_and_begun_when_the_plan_is_approved() {
    let shop = Shop::new();
    let issue = "Two files are missing. Write them.";
    shop.work(issue, &[])
        .refused(19, &["Approve this plan?", "segno answer job"]);
    assert!(shop.asked("plan/1/planner").contains(issue));
    let asked = shop.segno(&["answer", "job"]).good().stdout;
    assert!(asked.contains("- [ ] T2: Write b (after T1)"), "{asked}");
    assert_eq!(shop.plan()["settled"], false);
    assert_eq!(shop.calls(), ["plan/1/planner"]);
    shop.segno(&["answer", "job", "perhaps"])
        .refused(2, &["R0110"]);
    shop.segno(&["answer", "job", "approve", "--resume"]).good();
    assert_eq!(shop.commits(), ["T1: Write a", "T2: Write b"]);
    assert!(shop.asked("tasks/T1/1/work").contains(issue));
}

#[test]
fn a_long_issue_is_told_whole_to_the_planner_and_in_part_to_each_task() {
    let shop = Shop::new();
    let issue = format!("Make it {}.", "é".repeat(2_000));
    shop.put("issue.txt", &issue);
    shop.work("../crew/issue.txt", &["--yes", "--no-review"])
        .good();
    assert!(shop.asked("plan/1/planner").contains(&issue));
    let part: String = issue.chars().take(500).collect();
    let asked = shop.asked("tasks/T1/1/work");
    assert!(asked.contains(&format!("\n{part}…\n")), "{asked}");
}

#[test]
fn a_rejected_plan_is_made_again_for_the_reason_that_was_given() {
    let shop = Shop::new();
    shop.answers("plan/2/planner", "Here it is:\n\n- [ ] T1: Write both\n");
    shop.work("Two files", &[]).refused(19, &["R0108"]);
    shop.segno(&["answer", "job", "reject: one task is enough", "--resume"])
        .refused(19, &["Approve this plan?"]);
    let asked = shop.asked("plan/2/planner");
    assert!(asked.contains("one task is enough"), "{asked}");
    assert!(asked.contains("- [ ] T2: Write b (after T1)"), "{asked}");
    shop.segno(&["answer", "job", "yes", "--resume"]).good();
    assert_eq!(shop.commits(), ["T1: Write both"]);
}

#[test]
fn a_plan_that_a_person_sends_instead_counts_if_it_holds_together() {
    let shop = Shop::new();
    shop.work("Two files", &[]).refused(19, &["R0108"]);
    let round = "- [ ] A1: one (after A2)\n- [ ] A2: two (after A1)";
    shop.segno(&["answer", "job", round, "--resume"])
        .refused(19, &["waits for itself: A1 → A2 → A1"]);
    let mine = "My plan:\n\n- [ ] A1: one\n- [ ] A2: two (after A1)";
    shop.segno(&["answer", "job", mine, "--resume"]).good();
    assert_eq!(shop.commits(), ["A1: one", "A2: two"]);
    assert_eq!(shop.calls()[0], "plan/1/planner");
    assert!(!shop.calls().contains(&"plan/2/planner".to_owned()));
}

#[test]
fn a_planner_that_makes_no_plan_is_asked_again_and_told_why() {
    let shop = Shop::new();
    shop.answers("plan/1/planner", "I would rather not.");
    shop.answers("plan/1/planner#2", "- [ ] T1: a (after T9)");
    shop.work("Two files", &["--yes"]).good();
    assert!(
        shop.asked("plan/1/planner#2")
            .contains("there is no task: write")
    );
    assert!(
        shop.asked("plan/1/planner#3")
            .contains("there is no task `T9` to come after")
    );
    assert_eq!(shop.commits(), ["T1: Write a", "T2: Write b"]);
}

#[test]
fn only_the_plan_is_made_where_only_that_is_wanted() {
    let shop = Shop::new();
    let said = shop.work("Two files", &["--plan-only"]).good();
    assert_eq!(
        said.stdout,
        "- [ ] T1: Write a\n- [ ] T2: Write b (after T1)\n"
    );
    assert_eq!(shop.calls(), ["plan/1/planner"]);
    assert!(!shop.folder().exists());
    assert_eq!(
        git(&shop.sandbox.work(), &["branch", "--list", "segno/*"]),
        ""
    );
}

#[test]
fn a_plan_is_read_from_stdin() {
    let shop = Shop::new();
    let mut command = shop.sandbox.command(&Shop::words("-", &["--no-review"]));
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
    wait(child).good();
    assert_eq!(shop.commits(), ["T1: Write it"]);
}

#[test]
fn a_task_that_changes_nothing_has_no_commit() {
    let shop = Shop::new();
    shop.put(
        "crew.yaml",
        "version: 0\nname: crew\nruntime: {provider: scripted, script: script.yaml}\nagents: {one: {prompt: You.}}\npattern: {type: chain, config: {steps: [{agent: one}]}}\n",
    );
    shop.put(
        "script.yaml",
        "ledger: calls.log\nanswers: [{contains: Review what, text: '{\"approved\": true}'}]\ndefault: {text: I looked.}\n",
    );
    let said = shop.work("../crew/PLAN.md", &[]).good();
    assert!(
        said.stdout
            .contains("- [x] T1: Write a [nothing to commit]")
    );
    assert_eq!(shop.commits(), Vec::<String>::new());
    assert_eq!(shop.plan()["tasks"][0]["commit"], serde_json::Value::Null);
    assert_eq!(shop.standings()[1].1, "done");
    assert_eq!(shop.calls().len(), 4);
}

#[test]
fn work_in_place_is_committed_to_the_branch_that_is_checked_out() {
    let shop = Shop::new();
    shop.work("../crew/PLAN.md", &["--in-place"]).good();
    let work = shop.sandbox.work();
    let log = git(&work, &["log", "--format=%s", "main"]);
    assert_eq!(log, "T2: Write b\nT1: Write a\nBegin\n");
    assert_eq!(git(&work, &["status", "--porcelain"]), "");
    assert_eq!(
        git(&work, &["branch", "--format=%(refname:short)"]),
        "main\n"
    );
}

#[test]
fn commits_that_an_agent_makes_itself_are_kept_and_reviewed() {
    let shop = Shop::new();
    let agent = super::AGENT.replace(
        "if [ -e \"$crew/fail.$step\" ]",
        "case $SEGNO_STEP in tasks/T1/1/work) git add . && git commit -qm mine;; esac\nif [ -e \"$crew/fail.$step\" ]",
    );
    shop.put("agent.sh", &agent);
    shop.work("../crew/PLAN.md", &[]).good();
    assert_eq!(shop.commits(), ["mine", "T2: Write b"]);
    assert!(shop.asked("tasks/T1/1/review").contains("+tasks/T1/1/work"));
    assert!(!shop.asked("tasks/T2/1/review").contains("+tasks/T1/1/work"));
}

/// A spec of one's own, with the crew's agents.
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
fn a_spec_with_the_pattern_is_run_like_any_and_what_is_committed_stays_when_it_is_edited() {
    let shop = Shop::new();
    shop.put("own.yaml", OWN);
    let work = shop.sandbox.work();
    let explained = shop.segno(&["explain", "../crew/own.yaml"]).good().stdout;
    assert!(explained.contains("tasks/T2/review: critic"), "{explained}");
    let words = ["run", "../crew/own.yaml", "--out", "../out"];
    shop.segno(&words).refused(130, &["R0102"]);
    // Everything that is edited would be asked again, but for what is committed.
    shop.put("own.yaml", &OWN.replace("You work.", "You work hard."));
    shop.segno(&["resume", "job", "--on-change", "rerun"])
        .good();
    assert_eq!(
        git(&work, &["log", "--format=%s", "main"]),
        "T2: Write b\nT1: Write a\nBegin\n"
    );
    assert_eq!(
        shop.calls(),
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
fn a_secret_in_an_issue_is_neither_kept_nor_told() {
    let shop = Shop::new();
    let secret = "hunter2-Xq9vLr4TzWk8";
    let issue = format!("The key {secret} is in the code. Take it out.");
    let mut command = shop.sandbox.command(&Shop::words(&issue, &["--yes"]));
    command.env("SERVICE_API_KEY", secret);
    finish(command).good();
    assert!(shop.asked("plan/1/planner").contains("is in the code"));
    for step in ["plan/1/planner", "tasks/T1/1/work"] {
        assert!(!shop.asked(step).contains(secret), "{step}");
    }
    let kept = shop.segno(&["sessions", "export", "job", "-o", "-"]).good();
    assert!(!kept.stdout.contains(secret));
    let log = git(&shop.sandbox.work(), &["log", "--format=%B", "segno/job"]);
    assert!(!log.contains(secret));
}
