//! Pauses, Ctrl-C, failures and forks between the tasks of a plan.

use std::fs;

use rustix::process::Signal;
use segno_testkit::sandbox::wait_until;
use serde_json::{Value, json};

use super::{WorkFixture, git};
use crate::commands::{Live, root};

const FOUR: &str = "- [ ] T1: one\n- [ ] T2: two\n- [ ] T3: three\n- [ ] T4: four\n";

#[test]
fn three_pauses_and_resumes_do_every_task_once() {
    let fixture = WorkFixture::new();
    fixture.write_file("PLAN.md", FOUR);
    fixture.set_answer(
        "tasks/T2/1/review",
        r#"{"approved": false, "severity": "minor", "comments": ["more"]}"#,
    );
    fixture
        .work("../roles/PLAN.md", &["--pause-after", "1"])
        .refused(130, &["segno resume job"]);
    for done in 1..=3 {
        assert_eq!(fixture.commits().len(), done);
        let plan = fixture.plan();
        assert_eq!(plan["done"], done);
        assert_eq!(plan["remaining"], 4 - done);
        assert_eq!(plan["next"], format!("T{}", done + 1));
        let output = fixture.segno(&["resume", "job"]);
        if done < 3 {
            output.refused(130, &["R0102"]);
        }
    }
    let shown = fixture.segno(&["status", "job"]).expect_success().stdout;
    assert!(
        shown.contains("4 of 4 tasks done on branch segno/job"),
        "{shown}"
    );
    assert_eq!(
        fixture.commits(),
        ["T1: one", "T2: two", "T3: three", "T4: four"]
    );
    let mut calls = fixture.calls();
    assert_eq!(calls.len(), 10);
    calls.sort();
    calls.dedup();
    assert_eq!(calls.len(), 10);
}

#[test]
fn pause_in_a_task_waits_for_its_commit() {
    let fixture = WorkFixture::new();
    fixture.write_file("wait.tasks.T1.1.work", "");
    let live = Live::start(
        &fixture.sandbox,
        &WorkFixture::args("../roles/PLAN.md", &[]),
    );
    wait_until("the worker waits", || {
        fixture.agents_folder().join("waits").exists()
    });
    assert_eq!(
        fixture.task_statuses()[0],
        ("T1".to_owned(), "in_progress".to_owned())
    );
    let pause = Live::start(&fixture.sandbox, &["pause", "job", "-r", "lunch"]);
    wait_until("it was told", || {
        pause.stderr().contains("stopping after task T1")
            && live
                .stderr()
                .contains("a pause was requested; stopping after this task")
    });
    fixture.write_file("go", "");
    pause.finish().expect_success();
    live.finish().refused(130, &["R0102"]);
    assert_eq!(fixture.calls(), ["tasks/T1/1/work", "tasks/T1/1/review"]);
    assert_eq!(fixture.commits(), ["T1: Write a"]);
    assert_eq!(fixture.plan()["next"], "T2");
    fixture.segno(&["resume", "job"]).expect_success();
    assert_eq!(
        fixture.calls()[2..],
        ["tasks/T2/1/work", "tasks/T2/1/review"]
    );
    assert_eq!(fixture.commits(), ["T1: Write a", "T2: Write b"]);
}

#[test]
fn ctrl_c_in_a_task_stops_after_its_commit() {
    let fixture = WorkFixture::new();
    fixture.write_file("wait.tasks.T1.1.work", "");
    let live = Live::start(
        &fixture.sandbox,
        &WorkFixture::args("../roles/PLAN.md", &[]),
    );
    wait_until("the worker waits", || {
        fixture.agents_folder().join("waits").exists()
    });
    live.signal(Signal::INT);
    wait_until("it was heard", || {
        live.stderr()
            .contains("stopping after this task; Ctrl-C again stops immediately")
    });
    fixture.write_file("go", "");
    live.finish().refused(130, &["R0102"]);
    assert_eq!(fixture.commits(), ["T1: Write a"]);
    assert_eq!(fixture.plan()["next"], "T2");
}

#[test]
fn checkpoint_in_a_task_shows_the_task_in_progress() {
    let fixture = WorkFixture::new();
    fixture.write_file("wait.tasks.T1.1.work", "");
    let live = Live::start(
        &fixture.sandbox,
        &WorkFixture::args("../roles/PLAN.md", &[]),
    );
    wait_until("the worker waits", || {
        fixture.agents_folder().join("waits").exists()
    });
    let words = ["checkpoint", "create", "job", "--json"];
    let taken = fixture.segno(&words).expect_success().json();
    let id = taken[0]["checkpoint"].as_str().unwrap();
    fixture.write_file("go", "");
    live.finish().expect_success();
    let shown = fixture.segno(&["checkpoint", "show", id, "--json"]);
    let shown = shown.expect_success().json().remove(0);
    assert_eq!(shown["current"], "T1", "{shown:#}");
    assert_eq!(shown["plan"]["tasks"][0]["status"], "in_progress");
    let text = fixture.segno(&["checkpoint", "show", id]).expect_success();
    let line = text.stdout.lines().find(|line| line.starts_with("current"));
    assert!(line.is_some_and(|line| line.contains("T1")), "{text:?}");
}

#[test]
fn pause_now_leaves_the_task_to_be_repeated() {
    let fixture = WorkFixture::new();
    fixture.write_file("wait.tasks.T1.1.work", "");
    let live = Live::start(
        &fixture.sandbox,
        &WorkFixture::args("../roles/PLAN.md", &[]),
    );
    wait_until("the worker waits", || {
        fixture.agents_folder().join("waits").exists()
    });
    fixture.segno(&["pause", "job", "--force"]).expect_success();
    live.finish().refused(130, &["R0102"]);
    assert_eq!(fixture.commits(), Vec::<String>::new());
    fixture.write_file("go", "");
    fixture.segno(&["resume", "job"]).expect_success();
    assert_eq!(fixture.commits(), ["T1: Write a", "T2: Write b"]);
}

#[test]
fn failed_task_blocks_its_dependents_until_it_is_fixed() {
    let fixture = WorkFixture::new();
    fixture.write_file("fail.tasks.T1.1.work", "");
    fixture.write_file(
        "PLAN.md",
        "- [ ] T1: a\n- [ ] T2: b (after T1)\n- [ ] T3: c (after T2)\n- [ ] T4: d\n",
    );
    fixture
        .work("../roles/PLAN.md", &[])
        .refused(10, &["tasks/T1/1/work"]);
    let words: Vec<String> = fixture
        .task_statuses()
        .into_iter()
        .map(|(_, word)| word)
        .collect();
    assert_eq!(words, ["failed", "blocked", "blocked", "pending"]);
    assert_eq!(fixture.plan()["current"], "T1");
    assert_eq!(fixture.calls(), ["tasks/T1/1/work"]);
    fs::remove_file(fixture.agents_folder().join("fail.tasks.T1.1.work")).unwrap();
    fixture.segno(&["resume", "job"]).expect_success();
    assert_eq!(fixture.commits(), ["T1: a", "T2: b", "T3: c", "T4: d"]);
}

#[test]
fn fork_of_a_checkpoint_continues_with_the_next_task() {
    let fixture = WorkFixture::new();
    fixture
        .work("../roles/PLAN.md", &["--pause-after", "1"])
        .refused(130, &["R0102"]);
    let listed = fixture
        .segno(&["checkpoint", "list", "job", "--json"])
        .expect_success();
    let checkpoint = listed.json()[0]["checkpoint"].as_str().unwrap().to_owned();
    fixture.segno(&["resume", "job"]).expect_success();
    let forked = ["fork", "job", "--from", &checkpoint, "--name", "other"];
    fixture.segno(&forked).expect_success();
    fixture.segno(&["resume", "other"]).expect_success();
    let copy = root(&fixture.sandbox).join("work-job-other");
    let log = git(&copy, &["log", "--format=%s"]);
    assert_eq!(log, "T2: Write b\nT1: Write a\nBegin\n");
    assert_eq!(fixture.commits(), ["T1: Write a", "T2: Write b"]);
    let work: Vec<String> = fixture.calls();
    let second = work
        .iter()
        .filter(|call| *call == "tasks/T2/1/work")
        .count();
    assert_eq!((work.len(), second), (6, 2));
}

#[test]
fn checkpoint_of_a_pause_shows_the_plan_as_it_was() {
    let fixture = WorkFixture::new();
    fixture.write_file("PLAN.md", FOUR);
    fixture.set_answer(
        "tasks/T1/1/review",
        r#"{"approved": false, "severity": "minor", "comments": ["more"]}"#,
    );
    let more = ["--pause-after", "1"];
    fixture.work("../roles/PLAN.md", &more).refused(130, &[]);
    let resumed = fixture.segno(&["resume", "job"]).refused(130, &[]);
    assert!(
        resumed
            .stderr
            .contains("1 task done, 3 remaining; this is session number 2"),
        "{}",
        resumed.stderr
    );
    let listed = fixture.segno(&["checkpoint", "list", "job", "--json"]);
    let listed = listed.expect_success().json();
    let facts = listed.iter().map(|line| {
        let facts = ["session_number", "tasks_done", "tasks_remaining", "next"];
        json!(facts.map(|fact| &line[fact]))
    });
    let facts: Vec<Value> = facts.collect();
    assert_eq!(facts, [json!([2, 2, 2, "T3"]), json!([1, 1, 3, "T2"])]);
    let first = listed[1]["checkpoint"].as_str().unwrap();
    let shown = fixture.segno(&["checkpoint", "show", first, "--json"]);
    let shown = shown.expect_success().json().remove(0);
    let tasks = shown["plan"]["tasks"].as_array().unwrap();
    let statuses: Vec<&Value> = tasks.iter().map(|task| &task["status"]).collect();
    assert_eq!(statuses, ["done", "pending", "pending", "pending"]);
    assert_eq!(shown["feedback"][0]["note"]["comments"][0], "more");
    // The branch starts at a commit that is known when the session is created.
    let since = &shown["git"][0]["since"];
    assert_eq!(since["commit"], shown["plan"]["start"]);
    assert!(since["files"].as_u64() >= Some(1), "{since}");
    let text = fixture.segno(&["checkpoint", "show", first, "--plan"]);
    let text = text.expect_success().stdout;
    for words in [
        "1 of 4 tasks done",
        "- [x] T1: one",
        "- [ ] T2: two",
        "next: T2",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}
