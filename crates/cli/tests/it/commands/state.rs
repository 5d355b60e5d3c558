//! `segno state`: what agents stored, read and changed by hand.

use rustix::process::Signal;
use segno_testkit::sandbox::{ProcessOutput, Sandbox};
use serde_json::json;

use super::{failing_chain, fix_answers, keys, of_kind, shown, start_waiting, waiting_chain};
use crate::sandbox;

fn state(sandbox: &Sandbox, words: &[&str]) -> ProcessOutput {
    sandbox.segno(&[&["state"], words].concat())
}

#[track_caller]
fn value(sandbox: &Sandbox, session: &str, key: &str) -> String {
    let got = state(sandbox, &["get", key, "-s", session]);
    got.expect_success().stdout.trim().to_owned()
}

#[test]
fn value_is_set_read_and_deleted() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    for (given, stored) in [
        ("7", "7"),
        ("-1.5", "-1.5"),
        ("seven", r#""seven""#),
        (r#"{"a": [null, true]}"#, r#"{"a":[null,true]}"#),
        (r#""7""#, r#""7""#),
    ] {
        let output = state(&sandbox, &["set", "n", given]).expect_success();
        assert_eq!(output.stdout, format!("n of a is {stored}\n"));
        assert_eq!(value(&sandbox, "chain", "n"), stored);
    }
    let line = state(&sandbox, &["list", "chain", "--json"]).expect_success();
    let line = line.json().remove(0);
    assert_eq!(
        keys(&line),
        "agent at by key kind seq session source step v value"
    );
    assert_eq!(
        (&line["source"], &line["value"]),
        (&json!("person"), &json!("7"))
    );
    let table = state(&sandbox, &["list"]).expect_success().stdout;
    assert!(table.starts_with("AGENT  KEY"), "{table}");
    let show = sandbox.segno(&["show", "chain"]).expect_success().stdout;
    assert!(show.contains("state      1 value of a\n"), "{show}");
    assert_eq!(
        shown(&sandbox, "chain")["agent_state"],
        json!({"a": {"n": "7"}})
    );
    let output = state(&sandbox, &["delete", "n"]).expect_success();
    assert_eq!(output.stdout, "n of a is deleted\n");
    assert_eq!(state(&sandbox, &["list"]).expect_success().stdout, "");
    state(&sandbox, &["get", "n"]).refused(17, &["has no value `n`", "R0161"]);
    state(&sandbox, &["delete", "n"]).refused(17, &["R0161"]);
    // The session is as completed as before.
    assert_eq!(shown(&sandbox, "chain")["status"], "completed");
    sandbox.segno(&["doctor"]).expect_success();
}

#[test]
fn wrong_changes_are_refused_and_not_stored() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let long = "x".repeat(33_000);
    for (words, exit, expected) in [
        (vec!["set", "a-b", "1"], 2, "is not a key"),
        (
            vec!["set", "n", "null"],
            2,
            "`segno state delete n` deletes the key",
        ),
        (
            vec!["set", "n", "1", "--agent", "b"],
            2,
            "no agent `b` [R0160]",
        ),
        (vec!["set", "n", "1", "--agent", "b"], 2, "its agents: a"),
        (vec!["set", "n", &long], 2, "the limit is 32768 [R0163]"),
        (
            vec!["set", "n", "1", "--expect", "2"],
            22,
            "it is absent [R0162]",
        ),
        (vec!["set", "n", "1", "-s", "other"], 17, "S0101"),
        (
            vec!["set", "sk_live_4eC39HqLyjWDarjtT1zdp7dc", "1"],
            2,
            "looks like a secret",
        ),
    ] {
        state(&sandbox, &words).refused(exit, &[expected]);
    }
    assert_eq!(state(&sandbox, &["list"]).expect_success().stdout, "");
    for n in 0..100 {
        state(&sandbox, &["set", &format!("k{n}"), "1"]).expect_success();
    }
    state(&sandbox, &["set", "more", "1"]).refused(2, &["has 100 keys, the limit"]);
    state(&sandbox, &["set", "k99", "2"]).expect_success();
}

#[test]
fn secret_in_a_value_is_not_stored() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let secret = "sk_live_4eC39HqLyjWDarjtT1zdp7dc";
    state(
        &sandbox,
        &["set", "n", &format!(r#"{{"key": "{secret}"}}"#)],
    )
    .expect_success();
    let stored = value(&sandbox, "chain", "n");
    assert!(!stored.contains(secret), "{stored}");
}

#[test]
fn running_session_decides_changes_in_order() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    let line = state(&sandbox, &["set", "n", "1", "--expect-absent", "--json"]);
    let line = line.expect_success().json().remove(0);
    assert_eq!(
        keys(&line),
        "agent key kind name session v value waits_for_run"
    );
    assert_eq!(line["waits_for_run"], false);
    state(&sandbox, &["set", "n", "2", "--expect-absent"]).refused(22, &["it is 1 [R0162]"]);
    state(&sandbox, &["set", "n", "2", "--expect", "1"]).expect_success();
    state(&sandbox, &["delete", "n", "--expect", "1"]).refused(22, &["it is 2 [R0162]"]);
    assert_eq!(value(&sandbox, "chain", "n"), "2");
    // A stopped run decides it when it continues.
    live.signal(Signal::STOP);
    let sent = state(&sandbox, &["set", "n", "3"]).expect_success().stdout;
    assert_eq!(sent, "sent to the run of chain, which decides it\n");
    live.signal(Signal::CONT);
    sandbox.write("go", "");
    live.finish().expect_success();
    assert_eq!(value(&sandbox, "chain", "n"), "3");
    let log = sandbox.segno(&["logs", "chain", "--json"]).expect_success();
    assert_eq!(of_kind(&log.json(), "agent_state_changed").len(), 3);
}

#[test]
fn one_of_many_conditional_changes_wins() {
    for running in [true, false] {
        let sandbox = sandbox();
        waiting_chain(&sandbox, 2, 1);
        let (live, _) = start_waiting(&sandbox, &[]);
        let live = if running {
            Some(live)
        } else {
            live.kill();
            None
        };
        let outcomes: Vec<bool> = std::thread::scope(|scope| {
            let change = |n: u32| {
                let sandbox = &sandbox;
                scope.spawn(move || {
                    let words = ["set", "n", &n.to_string(), "--expect-absent"];
                    state(sandbox, &words).status.success()
                })
            };
            let threads: Vec<_> = (0..8).map(change).collect();
            let ended = threads.into_iter().map(|thread| thread.join().unwrap());
            ended.collect()
        });
        let won: Vec<usize> = (0..8).filter(|n| outcomes[*n]).collect();
        assert_eq!(won.len(), 1, "{running}: {outcomes:?}");
        assert_eq!(value(&sandbox, "chain", "n"), won[0].to_string());
        sandbox.write("go", "");
        if let Some(live) = live {
            live.finish().expect_success();
        }
    }
}

#[test]
fn fork_has_the_state_of_its_checkpoint() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    state(&sandbox, &["set", "n", "1"]).expect_success();
    state(&sandbox, &["set", "gone", "1"]).expect_success();
    let created = sandbox.segno(&["checkpoint", "create", "chain", "--json"]);
    let checkpoint = created.expect_success().json()[0]["checkpoint"].clone();
    state(&sandbox, &["set", "n", "2"]).expect_success();
    state(&sandbox, &["delete", "gone"]).expect_success();
    fix_answers(&sandbox);
    sandbox.segno(&["resume", "chain"]).expect_success();
    // A resume keeps the newest values, a fork has those of its checkpoint.
    assert_eq!(value(&sandbox, "chain", "n"), "2");
    let from = ["fork", "chain", "--from", checkpoint.as_str().unwrap()];
    sandbox.segno(&from).expect_success();
    assert_eq!(value(&sandbox, "chain-fork", "n"), "1");
    assert_eq!(value(&sandbox, "chain-fork", "gone"), "1");
    state(&sandbox, &["set", "n", "9", "-s", "chain-fork"]).expect_success();
    assert_eq!(value(&sandbox, "chain", "n"), "2");
}
