use std::fs;

use rustix::process::Signal;
use segno_testkit::sandbox::until;

use super::{Shop, git};
use crate::commands::{Live, root};

const FOUR: &str = "- [ ] T1: one\n- [ ] T2: two\n- [ ] T3: three\n- [ ] T4: four\n";

#[test]
fn three_pauses_and_resumes_do_every_task_once() {
    let shop = Shop::new();
    shop.put("PLAN.md", FOUR);
    shop.answers(
        "tasks/T2/1/review",
        r#"{"approved": false, "severity": "minor", "comments": ["more"]}"#,
    );
    shop.work("../crew/PLAN.md", &["--pause-after", "1"])
        .refused(130, &["segno resume job"]);
    for done in 1..=3 {
        assert_eq!(shop.commits().len(), done);
        let plan = shop.plan();
        assert_eq!(plan["done"], done);
        assert_eq!(plan["remaining"], 4 - done);
        assert_eq!(plan["next"], format!("T{}", done + 1));
        let said = shop.segno(&["resume", "job"]);
        if done < 3 {
            said.refused(130, &["R0102"]);
        }
    }
    let shown = shop.segno(&["status", "job"]).good().stdout;
    assert!(
        shown.contains("4 of 4 tasks done on branch segno/job"),
        "{shown}"
    );
    assert_eq!(
        shop.commits(),
        ["T1: one", "T2: two", "T3: three", "T4: four"]
    );
    let mut calls = shop.calls();
    assert_eq!(calls.len(), 10);
    calls.sort();
    calls.dedup();
    assert_eq!(calls.len(), 10);
}

#[test]
fn a_pause_in_the_middle_of_a_task_waits_until_it_is_committed() {
    let shop = Shop::new();
    shop.put("wait.tasks.T1.1.work", "");
    let live = Live::start(&shop.sandbox, &Shop::words("../crew/PLAN.md", &[]));
    until("the worker waits", || shop.crew().join("waits").exists());
    assert_eq!(
        shop.standings()[0],
        ("T1".to_owned(), "in_progress".to_owned())
    );
    let pause = Live::start(&shop.sandbox, &["pause", "job", "-r", "lunch"]);
    until("it was told", || {
        pause.stderr().contains("it stops when task T1 has ended")
            && live
                .stderr()
                .contains("asked for a pause; stopping after this task")
    });
    shop.put("go", "");
    pause.finish().good();
    live.finish().refused(130, &["R0102"]);
    assert_eq!(shop.calls(), ["tasks/T1/1/work", "tasks/T1/1/review"]);
    assert_eq!(shop.commits(), ["T1: Write a"]);
    assert_eq!(shop.plan()["next"], "T2");
    shop.segno(&["resume", "job"]).good();
    assert_eq!(shop.calls()[2..], ["tasks/T2/1/work", "tasks/T2/1/review"]);
    assert_eq!(shop.commits(), ["T1: Write a", "T2: Write b"]);
}

#[test]
fn ctrl_c_in_the_middle_of_a_task_says_that_it_stops_after_the_task_and_does() {
    let shop = Shop::new();
    shop.put("wait.tasks.T1.1.work", "");
    let live = Live::start(&shop.sandbox, &Shop::words("../crew/PLAN.md", &[]));
    until("the worker waits", || shop.crew().join("waits").exists());
    live.signal(Signal::INT);
    until("it was heard", || {
        live.stderr()
            .contains("stopping after this task; Ctrl-C again stops at once")
    });
    shop.put("go", "");
    live.finish().refused(130, &["R0102"]);
    assert_eq!(shop.commits(), ["T1: Write a"]);
    assert_eq!(shop.plan()["next"], "T2");
}

#[test]
fn a_pause_at_once_leaves_the_task_to_be_done_again() {
    let shop = Shop::new();
    shop.put("wait.tasks.T1.1.work", "");
    let live = Live::start(&shop.sandbox, &Shop::words("../crew/PLAN.md", &[]));
    until("the worker waits", || shop.crew().join("waits").exists());
    shop.segno(&["pause", "job", "--now"]).good();
    live.finish().refused(130, &["R0102"]);
    assert_eq!(shop.commits(), Vec::<String>::new());
    shop.put("go", "");
    shop.segno(&["resume", "job"]).good();
    assert_eq!(shop.commits(), ["T1: Write a", "T2: Write b"]);
}

#[test]
fn a_task_that_fails_blocks_those_that_need_it_until_it_is_mended() {
    let shop = Shop::new();
    shop.put("fail.tasks.T1.1.work", "");
    shop.put(
        "PLAN.md",
        "- [ ] T1: a\n- [ ] T2: b (after T1)\n- [ ] T3: c (after T2)\n- [ ] T4: d\n",
    );
    shop.work("../crew/PLAN.md", &[])
        .refused(10, &["tasks/T1/1/work"]);
    let words: Vec<String> = shop.standings().into_iter().map(|(_, word)| word).collect();
    assert_eq!(words, ["failed", "blocked", "blocked", "pending"]);
    assert_eq!(shop.plan()["current"], "T1");
    assert_eq!(shop.calls(), ["tasks/T1/1/work"]);
    fs::remove_file(shop.crew().join("fail.tasks.T1.1.work")).unwrap();
    shop.segno(&["resume", "job"]).good();
    assert_eq!(shop.commits(), ["T1: a", "T2: b", "T3: c", "T4: d"]);
}

#[test]
fn a_copy_of_a_checkpoint_goes_on_with_the_next_task_in_a_folder_of_its_own() {
    let shop = Shop::new();
    shop.work("../crew/PLAN.md", &["--pause-after", "1"])
        .refused(130, &["R0102"]);
    let listed = shop.segno(&["checkpoint", "list", "job", "--json"]).good();
    let checkpoint = listed.json()[0]["checkpoint"].as_str().unwrap().to_owned();
    shop.segno(&["resume", "job"]).good();
    let forked = [
        "sessions",
        "fork",
        "job",
        "--from",
        &checkpoint,
        "--name",
        "other",
    ];
    shop.segno(&forked).good();
    shop.segno(&["resume", "other"]).good();
    let copy = root(&shop.sandbox).join("work-job-other");
    let log = git(&copy, &["log", "--format=%s"]);
    assert_eq!(log, "T2: Write b\nT1: Write a\nBegin\n");
    assert_eq!(shop.commits(), ["T1: Write a", "T2: Write b"]);
    let work: Vec<String> = shop.calls();
    let second = work
        .iter()
        .filter(|call| *call == "tasks/T2/1/work")
        .count();
    assert_eq!((work.len(), second), (6, 2));
}
