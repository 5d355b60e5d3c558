//! A conversation that another process has open is not given to a second agent.

use std::process::Child;

use segno_testkit::model::{Call, Purpose, Script, Turn};
use segno_testkit::programs::{Agent, Running};
use segno_testkit::sandbox::{wait_for_output, wait_until};
use serde_json::Value;

use super::Fixture;

/// A fixture whose run was killed while the model's last answer was held back.
fn killed(agent: Agent) -> Fixture {
    let turns = [
        Turn::say("I begin.").call(Call::write("a.txt", "a\n")),
        Turn::say("I am done.").held(),
    ];
    let fixture = Fixture::with(agent, Script::new("held", turns));
    let child = fixture.start();
    wait_until("the last answer is held back", || {
        fixture.server.is_held("held", 1) && fixture.is_persisted("task", "a.txt")
    });
    fixture.kill(child);
    fixture
}

/// How often an agent asked for the answer that is held back.
fn asked(fixture: &Fixture) -> usize {
    let answers = fixture.server.answers();
    let last = |purpose: &Purpose| matches!(purpose, Purpose::Turn { turn: 1, .. });
    answers
        .iter()
        .filter(|answer| last(&answer.purpose))
        .count()
}

/// Someone continues the conversation by hand, and its model is still answering.
fn opened_by_hand(fixture: &Fixture) -> Running {
    let (id, _) = fixture.opened().pop().unwrap();
    let running = fixture.agent.resume(&fixture.agent_sandbox, &id, "Go on.");
    wait_until("the agent waits for its model", || asked(fixture) == 2);
    running
}

fn step(fixture: &Fixture) -> Value {
    let plan = fixture.segno(&["resume", "task", "--dry-run", "--json"]);
    plan.expect_success().json()[0]["steps"][0].clone()
}

/// Resumes to the end; an agent asks for the last answer for the `times`th time.
fn resume(fixture: &Fixture, words: &[&str], times: usize) -> Child {
    let child = fixture
        .workshop
        .start(&[&["resume", "task"], words].concat());
    wait_until("the resumed agent waits for its model", || {
        asked(fixture) == times
    });
    child
}

fn release(fixture: &Fixture, child: Child) {
    wait_until("the answer is held back", || {
        fixture.server.is_held("held", 1)
    });
    fixture.server.release("held", 1);
    let output = wait_for_output(child);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn conversation_open_elsewhere_is_refused() {
    for agent in Agent::ALL {
        let fixture = killed(agent);
        let running = opened_by_hand(&fixture);
        let pid = running.id();
        assert_eq!(step(&fixture)["open_in"][0]["pid"], pid, "{agent:?}");
        let words = ["[R0124]", &format!("open in process {pid}"), "--take-over"];
        fixture.segno(&["resume", "task"]).refused(21, &words);
        let native = ["resume", "task", "--strategy", "native"];
        fixture.segno(&native).refused(21, &words);
        assert_eq!(asked(&fixture), 2, "no second agent asked: {agent:?}");
        let opened = fixture.opened();
        assert_eq!(opened.len(), 1, "{agent:?} {opened:?}");
        // It is closed: the conversation continues.
        drop(running);
        fixture.wait_until_idle();
        assert_eq!(step(&fixture)["open_in"], Value::Array(Vec::new()));
        let child = resume(&fixture, &[], 3);
        release(&fixture, child);
        let opened = fixture.opened();
        assert_eq!(opened[1], (opened[0].0.clone(), "native".to_owned()));
    }
}

#[test]
fn take_over_ends_the_process_that_has_the_conversation() {
    for agent in Agent::ALL {
        let fixture = killed(agent);
        let mut running = opened_by_hand(&fixture);
        let child = resume(&fixture, &["--take-over"], 3);
        // It has ended before the conversation is opened again.
        assert!(running.has_ended(), "{agent:?}");
        release(&fixture, child);
        assert_eq!(fixture.opened().pop().unwrap().1, "native", "{agent:?}");
        fixture.wait_until_idle();
    }
}

#[test]
fn register_of_a_dead_process_refuses_nothing() {
    let fixture = killed(Agent::Claude);
    // The killed agent has left its entry; a reused pid has another start time.
    let sessions = fixture.agent_sandbox.home().join(".claude/sessions");
    let left: Vec<_> = std::fs::read_dir(&sessions).unwrap().flatten().collect();
    let left: Vec<_> = left
        .iter()
        .filter(|entry| entry.path().extension().is_some_and(|end| end == "json"))
        .collect();
    assert_eq!(left.len(), 1, "{left:?}");
    let text = std::fs::read_to_string(left[0].path()).unwrap();
    let mut entry: Value = serde_json::from_str(&text).unwrap();
    entry["pid"] = std::process::id().into();
    let reused = sessions.join(format!("{}.json", std::process::id()));
    std::fs::write(reused, entry.to_string()).unwrap();
    assert_eq!(step(&fixture)["open_in"], Value::Array(Vec::new()));
    let child = resume(&fixture, &[], 2);
    release(&fixture, child);
}
