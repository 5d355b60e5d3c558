//! Which events of sessions become notices.

use rustix::process::Signal;
use segno_testkit::sandbox::wait_until;

use super::{failing, short_chain, webhook, with_webhook};
use crate::commands::{Live, start_waiting, waiting_chain, write_asking_workflow};

#[test]
fn paused_and_completed_runs_are_told() {
    let (sandbox, receiver) = with_webhook("");
    waiting_chain(&sandbox, 2, 0);
    let (live, _) = start_waiting(&sandbox, &[]);
    let pausing = Live::start(&sandbox, &["pause", "chain", "--reason", "lunch"]);
    wait_until("the run knows of the pause", || {
        live.stderr().contains("a pause was requested")
    });
    sandbox.write("go", "");
    pausing.finish().expect_success();
    live.finish();
    let paused = receiver.wait_for(1).remove(0).json();
    assert_eq!(paused["event"], "paused");
    assert!(
        paused["text"].as_str().unwrap().contains("lunch"),
        "{paused}"
    );
    assert_eq!(paused["hint"], "segno resume chain");
    sandbox.segno(&["resume", "chain"]).expect_success();
    receiver.wait_for(2);
    assert_eq!(receiver.events(), ["paused", "completed"]);
}

#[test]
fn question_is_told_with_the_command_that_answers() {
    let (sandbox, receiver) = with_webhook("");
    write_asking_workflow(&sandbox);
    sandbox.segno(&["run", "report.yaml"]).refused(19, &[]);
    let asked = receiver.wait_for(1).remove(0).json();
    assert_eq!(asked["event"], "waiting");
    assert_eq!(asked["status"], "waiting");
    let hint = asked["hint"].as_str().unwrap();
    assert!(hint.starts_with("segno answer "), "{asked}");
}

#[test]
fn killed_run_is_told_as_lost_with_what_is_left() {
    let (sandbox, receiver) = with_webhook("");
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    live.kill();
    sandbox.segno(&["doctor", "--recover"]).expect_success();
    receiver.wait_for(1);
    assert_eq!(receiver.events()[0], "lost");
    sandbox.write("go", "");
    sandbox.segno(&["resume", "chain"]).expect_success();
    wait_until("the end is told", || {
        receiver.events().contains(&"completed".to_owned())
    });
    let events = receiver.events();
    let lost = events.iter().filter(|event| *event == "lost").count();
    assert_eq!(lost, 1, "{events:?}");
}

#[test]
fn lost_run_without_a_checkpoint_is_an_error_notice() {
    let (sandbox, receiver) = with_webhook("");
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    live.kill();
    sandbox.write("go", "");
    sandbox.segno(&["resume", "chain"]).expect_success();
    receiver.wait_for(3);
    let events = receiver.events();
    assert_eq!(events[..2], ["checkpoint", "lost"], "{events:?}");
    let notice = receiver.received()[0].json();
    let text = notice["text"].as_str().unwrap();
    assert!(text.contains("journal up to event"), "{notice}");
    assert!(text.contains(sandbox.work().to_str().unwrap()), "{notice}");
}

#[test]
fn failed_and_cancelled_sessions_are_told() {
    let (sandbox, receiver) = with_webhook("");
    failing(&sandbox, "no key");
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    let failed = receiver.wait_for(1).remove(0).json();
    assert_eq!(
        (&failed["event"], &failed["status"]),
        (&"failed".into(), &"failed".into())
    );
    assert!(
        failed["text"].as_str().unwrap().contains("no key"),
        "{failed}"
    );
    sandbox.segno(&["cancel", "chain"]).expect_success();
    receiver.wait_for(2);
    assert_eq!(receiver.events(), ["failed", "cancelled"]);
}

#[test]
fn ended_by_a_signal_is_told() {
    let (sandbox, receiver) = with_webhook("");
    waiting_chain(&sandbox, 2, 0);
    let (live, _) = start_waiting(&sandbox, &[]);
    live.signal(Signal::TERM);
    live.finish();
    let notice = receiver.wait_for(1).remove(0).json();
    assert_eq!(
        (&notice["event"], &notice["status"]),
        (&"paused".into(), &"interrupted".into())
    );
}

#[test]
fn filters_select_by_kind_name_and_status() {
    let (sandbox, receiver) = with_webhook("");
    let run = |more: &str, name: &str| {
        webhook(&sandbox, &receiver.url(), more);
        short_chain(&sandbox);
        let words = ["run", "chain.yaml", "--name", name];
        sandbox.segno(&words).expect_success();
    };
    run("sessions = ['night']", "day");
    run("sessions = ['night']", "nightly");
    run("status = ['failed']", "other");
    sandbox.configure(&format!(
        "[[notices]]\nto = 'webhook'\nurl = '{}'\non = ['failed']\n",
        receiver.url()
    ));
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let names: Vec<_> = receiver
        .received()
        .iter()
        .map(|one| one.json()["name"].clone())
        .collect();
    assert_eq!(names, ["nightly"]);
}
