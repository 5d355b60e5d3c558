//! Delivery when receivers and processes fail.

use std::fs;
use std::net::TcpListener;

use rustix::process::Signal;
use segno_testkit::sandbox::{run_to_end, wait_until};
use serde_json::Value;

use super::{Behaviour, Receiver, failing, short_chain, undelivered, webhook, with_webhook};
use crate::commands::Live;
use crate::sandbox;
use crate::server::Serving;

/// A port on which nobody listens.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[test]
fn notice_waits_for_a_receiver_that_is_down() {
    let sandbox = sandbox();
    let port = free_port();
    webhook(&sandbox, &format!("http://127.0.0.1:{port}/x"), "");
    short_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    assert_eq!(undelivered(&sandbox).len(), 1);
    let listed = sandbox.segno(&["notice", "list"]).expect_success().stdout;
    assert!(listed.contains("chain is completed → ops"), "{listed}");
    let receiver = Receiver::start_at(port, Behaviour::Status(200));
    let _serving = Serving::start(&sandbox);
    let received = receiver.wait_for(1).remove(0);
    assert_eq!(received.json()["event"], "completed");
    // Nothing had been sent, so nothing is repeated.
    assert_eq!(received.json()["repeated"], false);
    wait_until("the outbox is empty", || undelivered(&sandbox).is_empty());
}

#[test]
fn kill_during_delivery_leads_to_a_marked_repetition() {
    let (sandbox, receiver) = with_webhook("");
    receiver.behave(Behaviour::Hang);
    short_chain(&sandbox);
    let live = Live::start(&sandbox, &["run", "chain.yaml"]);
    receiver.wait_for(1);
    live.kill();
    assert_eq!(undelivered(&sandbox).len(), 1);
    receiver.behave(Behaviour::Status(200));
    let _serving = Serving::start(&sandbox);
    let received = receiver.wait_for(2);
    let notices: Vec<Value> = received
        .iter()
        .map(super::receiver::Received::json)
        .collect();
    assert_eq!(notices[0]["id"], notices[1]["id"]);
    assert_eq!(
        (&notices[1]["repeated"], &notices[1]["attempt"]),
        (&true.into(), &2.into())
    );
    wait_until("the outbox is empty", || undelivered(&sandbox).is_empty());
    assert_eq!(receiver.received().len(), 2);
}

#[test]
fn hanging_receiver_delays_a_run_for_seconds_only() {
    let (sandbox, receiver) = with_webhook("");
    receiver.behave(Behaviour::Hang);
    short_chain(&sandbox);
    let begun = std::time::Instant::now();
    let output = sandbox.segno(&["run", "chain.yaml"]).expect_success();
    assert!(output.stdout.contains("fine"), "{output:?}");
    assert!(begun.elapsed() >= std::time::Duration::from_secs(2));
    assert_eq!(undelivered(&sandbox).len(), 1);
}

#[test]
fn failing_receiver_gets_the_same_notice_again() {
    let (sandbox, receiver) = with_webhook("");
    receiver.behave(Behaviour::Status(503));
    short_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let listed = sandbox.segno(&["notice", "list", "--json"]).json();
    assert_eq!(listed[0]["undelivered"], 1);
    assert_eq!(listed[1]["targets"][0]["attempts"], 1);
    receiver.behave(Behaviour::Status(200));
    let _serving = Serving::start(&sandbox);
    let received = receiver.wait_for(2);
    assert_eq!(
        received[0].header("idempotency-key"),
        received[1].header("idempotency-key")
    );
    assert_eq!(received[1].header("segno-attempt"), "2");
}

#[test]
fn redirect_is_not_followed() {
    let (sandbox, receiver) = with_webhook("");
    let elsewhere = Receiver::start(Behaviour::Status(200));
    receiver.behave(Behaviour::Redirect(elsewhere.url()));
    short_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    assert_eq!(receiver.received().len(), 1);
    assert!(elsewhere.received().is_empty());
    assert!(undelivered(&sandbox).is_empty(), "it is refused for good");
    let listed = sandbox.segno(&["notice", "list", "--json"]).json();
    assert_eq!(listed[0]["given_up"], 1);
    let error = listed[0]["last_error"].as_str().unwrap();
    assert!(error.contains("redirects"), "{error}");
}

#[test]
fn endless_response_is_ignored() {
    let (sandbox, receiver) = with_webhook("");
    receiver.behave(Behaviour::Endless);
    let output = sandbox.segno(&["notice", "test"]).expect_success();
    assert!(output.stdout.contains("delivered"), "{output:?}");
}

#[test]
fn burst_is_merged_into_one_message() {
    let (sandbox, receiver) = with_webhook("burst = 2\nevery_s = 3600");
    receiver.behave(Behaviour::Status(503));
    failing(&sandbox, "no");
    for number in 0..4 {
        let name = format!("night-{number}");
        let words = ["run", "chain.yaml", "--name", &name];
        sandbox.segno(&words).refused(10, &[]);
    }
    assert_eq!(undelivered(&sandbox).len(), 4);
    receiver.behave(Behaviour::Status(200));
    let before = receiver.received().len();
    let _serving = Serving::start(&sandbox);
    let received = receiver.wait_for(before + 2);
    let [first, merged] = &received[before..] else {
        panic!("{received:?}");
    };
    assert_eq!(first.json()["more_count"], 0);
    assert_eq!(merged.json()["more_count"], 2);
    assert_eq!(merged.json()["more"][1]["name"], "night-3");
    wait_until("the outbox is empty", || undelivered(&sandbox).is_empty());
}

#[test]
fn two_processes_do_not_send_the_same_notice() {
    let sandbox = sandbox();
    let port = free_port();
    webhook(
        &sandbox,
        &format!("http://127.0.0.1:{port}/x"),
        "burst = 100",
    );
    short_chain(&sandbox);
    for _ in 0..5 {
        sandbox.segno(&["run", "chain.yaml"]).expect_success();
    }
    let receiver = Receiver::start_at(port, Behaviour::Status(200));
    let _serving = Serving::start(&sandbox);
    for _ in 0..3 {
        sandbox.segno(&["run", "chain.yaml"]).expect_success();
    }
    receiver.wait_for(8);
    wait_until("the outbox is empty", || undelivered(&sandbox).is_empty());
    let mut ids: Vec<String> = receiver
        .received()
        .iter()
        .map(|one| one.header("idempotency-key").to_owned())
        .collect();
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), receiver.received().len()), (8, 8));
}

#[test]
fn damaged_outbox_does_not_end_a_run() {
    let (sandbox, receiver) = with_webhook("");
    short_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let outbox = sandbox.home().join("notices/outbox");
    fs::write(outbox.join("rubbish.json"), "{").unwrap();
    fs::write(sandbox.home().join("notices/state.json"), "rubbish").unwrap();
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    assert_eq!(receiver.wait_for(2).len(), 2);
    fs::remove_dir_all(&outbox).unwrap();
    fs::write(&outbox, "a file").unwrap();
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
}

#[test]
fn stopping_the_server_interrupts_a_delivery() {
    let (sandbox, receiver) = with_webhook("");
    receiver.behave(Behaviour::Hang);
    short_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let before = receiver.received().len();
    let mut serving = Serving::start(&sandbox);
    receiver.wait_for(before + 1);
    serving.signal(Signal::TERM);
    assert_eq!(serving.wait(), Some(0));
    assert_eq!(undelivered(&sandbox).len(), 1);
}

#[test]
fn full_outbox_drops_the_oldest_and_counts_it() {
    let sandbox = sandbox();
    webhook(&sandbox, "http://127.0.0.1:1/x", "");
    short_chain(&sandbox);
    let outbox = sandbox.home().join("notices/outbox");
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    for number in undelivered(&sandbox).len()..1000 {
        fs::write(outbox.join(format!("00-{number:04}.json")), "{}").unwrap();
    }
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    assert_eq!(undelivered(&sandbox).len(), 1000);
    assert!(!outbox.join("00-0001.json").exists());
    let listed = sandbox.segno(&["notice", "list"]).expect_success().stdout;
    assert!(listed.contains("1 notice dropped"), "{listed}");
}

#[test]
fn old_notice_is_dropped_and_counted() {
    let sandbox = sandbox();
    let port = free_port();
    webhook(&sandbox, &format!("http://127.0.0.1:{port}/x"), "");
    short_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let file = undelivered(&sandbox).remove(0);
    let mut entry: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let at = entry["notice"]["at"].as_i64().unwrap();
    entry["notice"]["at"] = (at - 4 * 24 * 3_600_000).into();
    fs::write(&file, entry.to_string()).unwrap();
    let receiver = Receiver::start_at(port, Behaviour::Status(200));
    let _serving = Serving::start(&sandbox);
    wait_until("the outbox is empty", || undelivered(&sandbox).is_empty());
    assert!(receiver.received().is_empty());
    let listed = sandbox.segno(&["notice", "list", "--json"]).json();
    assert_eq!(listed[0]["dropped"], 1);
}

#[test]
fn notice_waits_for_a_process_with_the_variable() {
    let sandbox = sandbox();
    let receiver = Receiver::start(Behaviour::Status(200));
    sandbox.configure("[[notices]]\nto = 'webhook'\nurl_env = 'OPS_URL'\n");
    short_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let listed = sandbox.segno(&["notice", "list", "--json"]).json();
    assert_eq!(listed[0]["last_error"], "OPS_URL is not set");
    assert_eq!(listed[1]["targets"][0]["attempts"], 0);
    let mut command = sandbox.command(&["run", "chain.yaml"]);
    command.env("OPS_URL", receiver.url());
    run_to_end(command).expect_success();
    assert_eq!(receiver.received().len(), 2);
    assert!(undelivered(&sandbox).is_empty());
    let listed = sandbox.segno(&["notice", "list", "--json"]).json();
    assert_eq!(listed[0]["last_error"], Value::Null);
}
