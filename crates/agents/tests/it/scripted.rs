//! The agent that answers from a file.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use segno_agents::{Ledger, Script, Scripted};
use segno_core::agent::{Driver, ErrorKind};
use segno_core::ports::{Boxed, Clock};
use segno_core::step::Path;
use segno_core::time::Timestamp;
use segno_core::usage::{Cost, Usage};

use crate::fixture::{Fixture, TextLog, read, runtime};

/// A clock that records each sleep and returns at once.
#[derive(Default)]
struct RecordingClock(Mutex<Vec<Duration>>);

impl Clock for RecordingClock {
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
    Scripted::new(script, Arc::new(RecordingClock::default()), None)
}

#[test]
fn first_matching_entry_answers() {
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
    let mut fixture = Fixture::new();
    let mut answer = |step, agent: &str, input: &str| {
        fixture.path = Path::root("steps").join(step);
        fixture.agent = agent.to_owned();
        fixture.input = input.to_owned();
        fixture.ask(&driver).unwrap().text
    };
    assert_eq!(answer(1, "writer", "about tides"), "all three");
    assert_eq!(answer(1, "writer", "about moons"), "step");
    assert_eq!(answer(0, "editor", "about tides"), "agent");
    assert_eq!(answer(0, "writer", "about tides"), "input");
    assert_eq!(answer(0, "writer", "about moons"), "default");
    assert_eq!(answer(1, "writer", "about tides"), "all three");
}

#[test]
fn unmatched_request_is_not_found() {
    let error = Fixture::new().ask(&scripted("answers: []")).unwrap_err();
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
    let mut fixture = Fixture::new();
    for attempt in [1, 2, 1] {
        fixture.attempt = attempt;
        let error = fixture.ask(&driver).unwrap_err();
        let wait = Some(Duration::from_millis(10));
        assert_eq!(error.kind, ErrorKind::RateLimited(wait));
        assert_eq!(error.message, "slow down");
    }
    fixture.attempt = 3;
    assert_eq!(fixture.ask(&driver).unwrap().text, "ok");
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
        assert_eq!(Fixture::new().ask(&driver).unwrap_err().kind, kind);
    }
}

#[test]
fn failures_report_usage_too() {
    let usage = Usage {
        input_tokens: 1,
        output_tokens: 2,
        cost: Cost(1000),
    };
    let driver = scripted(
        "default: {text: hi, usage: {input_tokens: 1, output_tokens: 2, cost_usd: 0.001},
                   fail: {kind: server, attempts: 1}}",
    );
    let mut fixture = Fixture::new();
    let log = TextLog::default();
    let ask = |fixture: &Fixture| runtime().block_on(driver.ask(fixture.request(), &log));
    assert!(ask(&fixture).is_err());
    assert_eq!(*log.usage.lock().unwrap(), [usage]);
    assert!(log.text.lock().unwrap().is_empty());
    fixture.attempt = 2;
    assert_eq!(ask(&fixture).unwrap().usage, usage);
    assert_eq!(*log.usage.lock().unwrap(), [usage, usage]);
    assert_eq!(*log.text.lock().unwrap(), ["hi"]);
}

#[test]
fn delays_use_the_injected_clock() {
    let clock = Arc::new(RecordingClock::default());
    let script = "{default: {text: b}, answers: [{agent: slow, text: a, delay_ms: 200}]}";
    let driver = Scripted::new(Script::parse(script).unwrap(), clock.clone(), None);
    let mut fixture = Fixture::new();
    fixture.ask(&driver).unwrap();
    assert!(clock.0.lock().unwrap().is_empty());
    fixture.agent = "slow".to_owned();
    fixture.ask(&driver).unwrap();
    assert_eq!(*clock.0.lock().unwrap(), [Duration::from_millis(200)]);
}

#[test]
fn ledger_counts_every_call() {
    let mut fixture = Fixture::new();
    let path = fixture.folder().join("calls.log");
    let driver = || {
        let script = Script::parse("answers: [{text: ok, fail: {kind: server, attempts: 1}}]");
        let ledger = Ledger::open(&path).unwrap();
        Scripted::new(
            script.unwrap(),
            Arc::new(RecordingClock::default()),
            Some(ledger),
        )
    };
    assert!(fixture.ask(&driver()).is_err());
    fixture.attempt = 2;
    assert!(fixture.ask(&driver()).is_ok());
    let key = fixture.request().key;
    let expected = format!("7 1 steps/0 {key} writer\n7 2 steps/0 {key} writer\n");
    assert_eq!(String::from_utf8(read(&path)).unwrap(), expected);
}

#[test]
fn call_without_a_ledger_line_is_not_answered() {
    let ledger = Ledger::open("/dev/full".as_ref()).unwrap();
    let script = Script::parse("default: {text: ok}").unwrap();
    let driver = Scripted::new(script, Arc::new(RecordingClock::default()), Some(ledger));
    let error = Fixture::new().ask(&driver).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Crashed);
    assert!(error.message.contains("ledger"), "{error}");
}
