//! The agent that answers from a file.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use segno_agents::{Ledger, Script, Scripted};
use segno_core::agent::{Driver, ErrorKind};
use segno_core::ports::{Boxed, Clock};
use segno_core::step::Path;
use segno_core::time::Timestamp;
use segno_core::usage::{Cost, Usage};

use crate::world::{Heard, World, read, runtime};

/// A clock that notes how long it was asked to wait, and does not.
#[derive(Default)]
struct Impatient(Mutex<Vec<Duration>>);

impl Clock for Impatient {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, duration: Duration) -> Boxed<'_, ()> {
        self.0.lock().unwrap().push(duration);
        Box::pin(async {})
    }
}

fn scripted(yaml: &str) -> Scripted {
    let script = Script::parse(yaml).unwrap();
    Scripted::new(script, Arc::new(Impatient::default()), None)
}

#[test]
fn the_first_entry_whose_conditions_all_hold_answers() {
    let driver = scripted(
        "
        default: {text: default}
        answers:
          - {step: steps/1, agent: writer, contains: tides, text: all three}
          - {step: steps/1, text: step}
          - {agent: editor, text: agent}
          - {contains: tides, text: input}
        ",
    );
    let mut world = World::new();
    let mut answer = |step, agent: &str, input: &str| {
        world.path = Path::first("steps").then(step);
        world.agent = agent.to_owned();
        world.input = input.to_owned();
        world.ask(&driver).unwrap().text
    };
    assert_eq!(answer(1, "writer", "about tides"), "all three");
    assert_eq!(answer(1, "writer", "about moons"), "step");
    assert_eq!(answer(0, "editor", "about tides"), "agent");
    assert_eq!(answer(0, "writer", "about tides"), "input");
    assert_eq!(answer(0, "writer", "about moons"), "default");
    assert_eq!(answer(1, "writer", "about tides"), "all three");
}

#[test]
fn a_request_that_nothing_matches_is_not_found() {
    let error = World::new().ask(&scripted("answers: []")).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.message.contains("steps/0"), "{error}");
    assert!(error.message.contains("writer"), "{error}");
}

#[test]
fn the_first_attempts_fail_and_later_ones_do_not() {
    let driver = scripted(
        "answers: [{text: ok, fail: {kind: rate_limited, message: slow down, attempts: 2,
                                     retry_after_ms: 10}}]",
    );
    let mut world = World::new();
    for attempt in [1, 2, 1] {
        world.attempt = attempt;
        let error = world.ask(&driver).unwrap_err();
        let wait = Some(Duration::from_millis(10));
        assert_eq!(error.kind, ErrorKind::RateLimited(wait));
        assert_eq!(error.message, "slow down");
    }
    world.attempt = 3;
    assert_eq!(world.ask(&driver).unwrap().text, "ok");
}

#[test]
fn every_kind_of_failure_can_be_scripted() {
    for kind in [
        ErrorKind::RateLimited(None),
        ErrorKind::Auth,
        ErrorKind::ContextFull,
        ErrorKind::NotFound,
        ErrorKind::Invalid,
        ErrorKind::Network,
        ErrorKind::Server,
        ErrorKind::Crashed,
        ErrorKind::Timeout,
    ] {
        let driver = scripted(&format!("default: {{fail: {{kind: {}}}}}", kind.as_str()));
        assert_eq!(World::new().ask(&driver).unwrap_err().kind, kind);
    }
}

#[test]
fn text_and_usage_are_reported_and_a_failure_costs_too() {
    let usage = Usage {
        input_tokens: 1,
        output_tokens: 2,
        cost: Cost(1000),
    };
    let driver = scripted(
        "default: {text: hi, usage: {input_tokens: 1, output_tokens: 2, cost_usd: 0.001},
                   fail: {kind: server, attempts: 1}}",
    );
    let mut world = World::new();
    let heard = Heard::default();
    let ask = |world: &World| runtime().block_on(driver.ask(world.request(), &heard));
    assert!(ask(&world).is_err());
    assert_eq!(*heard.usage.lock().unwrap(), [usage]);
    assert!(heard.text.lock().unwrap().is_empty());
    world.attempt = 2;
    assert_eq!(ask(&world).unwrap().usage, usage);
    assert_eq!(*heard.usage.lock().unwrap(), [usage, usage]);
    assert_eq!(*heard.text.lock().unwrap(), ["hi"]);
}

#[test]
fn delays_go_by_the_clock_and_only_where_there_are_some() {
    let clock = Arc::new(Impatient::default());
    let script = "{default: {text: b}, answers: [{agent: slow, text: a, delay_ms: 200}]}";
    let driver = Scripted::new(Script::parse(script).unwrap(), clock.clone(), None);
    let mut world = World::new();
    world.ask(&driver).unwrap();
    assert!(clock.0.lock().unwrap().is_empty());
    world.agent = "slow".to_owned();
    world.ask(&driver).unwrap();
    assert_eq!(*clock.0.lock().unwrap(), [Duration::from_millis(200)]);
}

#[test]
fn every_call_is_in_the_ledger_whatever_becomes_of_it() {
    let mut world = World::new();
    let path = world.folder().join("calls.log");
    let driver = || {
        let script = Script::parse("answers: [{text: ok, fail: {kind: server, attempts: 1}}]");
        let ledger = Ledger::open(&path).unwrap();
        Scripted::new(
            script.unwrap(),
            Arc::new(Impatient::default()),
            Some(ledger),
        )
    };
    assert!(world.ask(&driver()).is_err());
    world.attempt = 2;
    assert!(world.ask(&driver()).is_ok());
    let key = world.request().key;
    let expected = format!("7 1 steps/0 {key} writer\n7 2 steps/0 {key} writer\n");
    assert_eq!(String::from_utf8(read(&path)).unwrap(), expected);
}

#[test]
fn a_call_that_cannot_be_counted_is_not_answered() {
    let ledger = Ledger::open("/dev/full".as_ref()).unwrap();
    let script = Script::parse("default: {text: ok}").unwrap();
    let driver = Scripted::new(script, Arc::new(Impatient::default()), Some(ledger));
    let error = World::new().ask(&driver).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Crashed);
    assert!(error.message.contains("ledger"), "{error}");
}
