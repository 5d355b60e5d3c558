//! Nothing that an agent started outlives its attempt.

use segno_core::agent::Driver;

use crate::fixture::{Fixture, TextLog, runtime, sh, until, write};

/// A process tree that tries to survive: it ignores every signal that can be ignored, runs in other
/// sessions and groups, is orphaned twice, and holds the pipes.
const STUBBORN: &str = "
    trap '' TERM HUP INT QUIT PIPE
    setsid sh -c 'trap \"\" TERM HUP; : >a; sleep 1000; :' &
    (setsid sh -c '(setsid sh -c \": >b; sleep 1000; :\" &) ; : >c; sleep 1000; :' &)
    (sleep 1000 &)
    while [ ! -e a ] || [ ! -e b ] || [ ! -e c ]; do sleep 0.01; done
";
/// The number of processes while the agent sleeps: the guard, four shells and a `sleep` for each of
/// them, and one `sleep` without a shell.
const FAMILY: usize = 10;

fn until_complete(fixture: &Fixture) {
    until("the family is complete", || {
        fixture.processes().len() >= FAMILY
    });
}

#[test]
fn dropped_attempt_leaves_no_process() {
    let fixture = Fixture::new();
    let (driver, log) = (sh(&format!("{STUBBORN} sleep 1000; :")), TextLog::default());
    let runtime = runtime();
    let there = Fixture::in_folder(fixture.folder());
    runtime.block_on(async {
        let complete = tokio::task::spawn_blocking(move || until_complete(&there));
        tokio::select! {
            result = driver.ask(fixture.request(), &log) => panic!("ended: {result:?}"),
            seen = complete => seen.unwrap(),
        }
    });
    // The runtime does not run any more: the tree ends although no task waits for it.
    drop(runtime);
    until("the family is gone", || fixture.processes().is_empty());
}

#[test]
fn finished_attempt_leaves_no_process() {
    let fixture = Fixture::new();
    let answer = fixture.ask_sh(&format!("{STUBBORN} echo answer"));
    assert_eq!(answer.unwrap().text, "answer");
    fixture.assert_empty();
}

#[test]
fn failed_attempt_leaves_no_process() {
    let fixture = Fixture::new();
    assert!(fixture.ask_sh(&format!("{STUBBORN} kill -9 $$")).is_err());
    fixture.assert_empty();
}

#[test]
fn child_that_holds_stdout_does_not_block_the_answer() {
    let fixture = Fixture::new();
    let answer = fixture.ask_sh("sleep 1000 & echo answer");
    assert_eq!(answer.unwrap().text, "answer");
    fixture.assert_empty();
}

#[test]
fn process_that_changes_sessions_is_killed() {
    let fixture = Fixture::new();
    let hop = b": >>hopped; setsid sh hop.sh & exit 0";
    write(&fixture.folder().join("hop.sh"), hop);
    let script = "sh hop.sh; while [ ! -e hopped ]; do :; done; echo answer";
    assert_eq!(fixture.ask_sh(script).unwrap().text, "answer");
    fixture.assert_empty();
}

#[test]
fn concurrent_attempts_do_not_share_descriptors() {
    // Each attempt's pipes and socket must not leak into agents that start at the same time.
    let fixture = Fixture::new();
    let (slow, quick) = (
        sh("while [ ! -e go ]; do sleep 0.01; done"),
        sh("cat; echo hi"),
    );
    let log = TextLog::default();
    runtime().block_on(async {
        let all = async {
            for _ in 0..10 {
                let (a, b) = tokio::join!(
                    quick.ask(fixture.request(), &log),
                    quick.ask(fixture.request(), &log)
                );
                assert_eq!(
                    (a.unwrap().text, b.unwrap().text),
                    ("hi".into(), "hi".into())
                );
            }
            fixture.touch("go");
        };
        let (held, ()) = tokio::join!(slow.ask(fixture.request(), &log), all);
        assert_eq!(held.unwrap().text, "");
    });
    fixture.assert_empty();
}
