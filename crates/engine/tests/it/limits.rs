//! Limits of providers that say when they are lifted: waited for within bounds, across lost runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use segno_core::journal::{Event, StopMode, Suspension};
use segno_core::ports::{Boxed, Clock};
use segno_core::session::Status;
use segno_core::state::State;
use segno_core::time::Timestamp;
use segno_engine::error::Impatience;
use segno_engine::history;
use segno_engine::start::start;
use segno_engine::{Brake, Error, Stop};
use segno_testkit::clock::HandClock;

use crate::retries::waits;
use crate::world::{Stage, chain, spec, stage};

const HOUR_MS: i64 = 3_600_000;

/// A stage on which the first so many attempts meet a limit.
fn limited(attempts: u32, told_ms: i64) -> Stage {
    stage(&format!(
        "default: {{text: done, fail: {{kind: rate_limited, message: slow, attempts: {attempts}, retry_after_ms: {told_ms}}}}}"
    ))
}

fn continuity(spec: &str, more: &str) -> String {
    format!("{spec}continuity: {{{more}}}\n")
}

fn question() -> String {
    chain("", &["question"])
}

async fn state(stage: &Stage) -> State {
    let session = stage.summary().await.id;
    history::look(&stage.world, session).await.unwrap()
}

/// The limit that the newest failed attempt met.
fn suspended(stage: &Stage) -> Suspension {
    let entries = stage.seen.entries.lock().unwrap();
    let met = entries.iter().rev().find_map(|entry| match &entry.event {
        Event::StepFailed(event) => event.suspended.clone(),
        _ => None,
    });
    met.unwrap()
}

/// How many hours a session waited, as it counts them: to the next minute.
async fn waited_in_all(stage: &Stage) -> u64 {
    (state(stage).await.waits.total_ms + 60_000) / 3_600_000
}

fn why(error: &Error) -> Impatience {
    match error {
        Error::Suspended { why, .. } => *why,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_server_that_says_when_is_believed_within_bounds() {
    for (told, waited) in [
        (5000, 5000),
        (1, 1000),
        (90_000, 90_000),
        (HOUR_MS, 3_600_000),
    ] {
        let stage = limited(1, told);
        stage.run(&question()).await.unwrap();
        assert_eq!(waits(&stage), [Some(waited)], "told {told}");
    }
}

#[tokio::test]
async fn a_limit_that_is_met_more_often_than_a_step_is_tried_again_does_not_fail_it() {
    let stage = limited(5, HOUR_MS);
    let spec = chain(", failure_policy: {retries: 0}", &["question"]);
    let begun = stage.clock.now();
    let outcome = stage.run(&spec).await.unwrap();
    assert_eq!(outcome.output, "done");
    let waited = stage.clock.now().since(begun).as_secs();
    assert!((5 * 3600..6 * 3600).contains(&waited), "{waited}");
    assert_eq!(waited_in_all(&stage).await, 5);
}

#[tokio::test]
async fn a_limit_beyond_the_longest_wait_ends_the_run_and_says_until_when() {
    let stage = limited(1, 61_000);
    let spec = continuity(&question(), "max_wait_s: 60");
    let begun = stage.clock.now();
    let error = stage.run(&spec).await.unwrap_err();
    assert_eq!(why(&error), Impatience::Longest(Duration::from_mins(1)));
    let until = suspended(&stage).until;
    assert_eq!(
        error.to_string(),
        format!(
            "step steps/0 is suspended until {until} (rate limit of scripted): `max_wait_s` is 1 min 00 s"
        )
    );
    assert_eq!(waits(&stage), [None]);
    assert!(stage.clock.now().since(begun) < Duration::from_secs(30));
    let then = state(&stage).await;
    assert_eq!(then.status, Status::Paused);
    assert_eq!(then.suspended(begun).unwrap().1.until, until);
    assert_eq!(then.suspended(until), None, "the time has come");

    // Two seconds later it is near enough to be waited for, and the question is asked once.
    stage.clock.turn(2000);
    stage.resume().await.unwrap();
    assert!(stage.clock.now() >= until);
    assert_eq!(stage.begun(), ["steps/0"]);
}

#[tokio::test]
async fn a_resume_before_the_time_asks_nobody_unless_a_person_says_so() {
    let stage = limited(1, 10 * HOUR_MS);
    stage.run(&question()).await.unwrap_err();
    let error = stage.resume().await.unwrap_err();
    assert_eq!(why(&error), Impatience::Longest(Duration::from_hours(1)));
    assert_eq!(stage.begun(), Vec::<String>::new());
    assert_eq!(stage.summary().await.status, Status::Paused);
    stage.resume_asking().await.unwrap();
    assert_eq!(stage.begun(), ["steps/0"]);
}

#[tokio::test]
async fn all_waits_of_a_session_together_have_a_bound() {
    let stage = limited(9, HOUR_MS);
    let spec = continuity(&question(), "max_total_wait_s: 8000");
    let error = stage.run(&spec).await.unwrap_err();
    assert_eq!(why(&error), Impatience::Together(Duration::from_secs(8000)));
    assert_eq!(waits(&stage), [Some(3_600_000), Some(3_600_000), None]);
    // The bound is the session's, not the run's.
    stage.clock.turn(HOUR_MS);
    let error = stage.resume().await.unwrap_err();
    assert_eq!(why(&error), Impatience::Together(Duration::from_secs(8000)));
    assert_eq!(waits(&stage), [None]);
}

#[tokio::test]
async fn what_steps_wait_for_at_once_counts_once() {
    let stage = limited(1, HOUR_MS);
    let pattern = "{type: parallel, config: {branches: [{id: x, steps: [{agent: a, input: q}]}, {id: y, steps: [{agent: b, input: q}]}]}}";
    let spec = continuity(&spec(pattern, ""), "max_total_wait_s: 5000");
    stage.run(&spec).await.unwrap();
    assert_eq!(waits(&stage), [Some(3_600_000), Some(3_600_000)]);
    assert_eq!(waited_in_all(&stage).await, 1);
}

#[tokio::test]
async fn a_server_that_never_lets_anyone_in_is_left_after_fifty_waits() {
    let stage = stage("default: {fail: {kind: rate_limited, message: slow, retry_after_ms: 1}}");
    let error = stage.run(&question()).await.unwrap_err();
    assert_eq!(why(&error), Impatience::Vain(50));
    let waits = waits(&stage);
    assert_eq!(waits.len(), 51);
    assert_eq!(waits[..3], [Some(1000), Some(2000), Some(4000)]);
    assert_eq!(waits[49..], [Some(60_000), None]);
}

#[tokio::test]
async fn a_spec_may_say_that_nobody_waits() {
    let stage = limited(1, 5000);
    let spec = continuity(&question(), "on_limit: pause");
    let error = stage.run(&spec).await.unwrap_err();
    assert_eq!(why(&error), Impatience::Pause);
    assert_eq!(waits(&stage), [None]);
    assert_eq!(stage.summary().await.status, Status::Paused);
    stage.resume().await.unwrap_err();
    assert_eq!(stage.begun(), Vec::<String>::new(), "it is too early");
    stage.clock.turn(5000);
    stage.resume().await.unwrap();
    assert_eq!(stage.begun(), ["steps/0"]);
}

#[tokio::test]
async fn a_used_up_budget_ends_the_run_instead_of_a_wait() {
    for (budget, told) in [
        ("max_tokens: 50", HOUR_MS),
        // What would be used up when the wait is over is not waited for, either.
        ("max_duration_s: 600", HOUR_MS),
    ] {
        let stage = stage(&format!(
            "default: {{text: done, usage: {{input_tokens: 60}}, fail: {{kind: rate_limited, message: slow, attempts: 1, retry_after_ms: {told}}}}}"
        ));
        let begun = stage.clock.now();
        let spec = chain(&format!(", budgets: {{{budget}}}"), &["question"]);
        let error = stage.run(&spec).await.unwrap_err();
        assert!(matches!(error, Error::Budget { .. }), "{error}");
        assert_eq!(waits(&stage), [None]);
        assert!(stage.clock.now().since(begun) < Duration::from_mins(1));
        // It does not wake to overspend, however often it is woken.
        let error = stage.resume().await.unwrap_err();
        assert!(matches!(error, Error::Budget { .. }), "{error}");
        assert_eq!(stage.begun(), Vec::<String>::new());
    }
}

/// A run that is lost in the middle of a wait.
async fn lost(stage: &Stage) {
    let (request, seen) = (stage.request(&question()), stage.seen.clone());
    let run = start(&stage.world, request, seen, Brake::default());
    let lost = tokio::select! {
        _ = run => false,
        () = stage.until("step_failed") => true,
    };
    assert!(lost);
}

#[tokio::test]
async fn a_run_that_was_lost_while_it_waited_waits_for_the_rest() {
    let stage = limited(1, HOUR_MS);
    lost(&stage).await;
    let until = suspended(&stage).until;
    stage.clock.turn(HOUR_MS / 2);
    stage.resume().await.unwrap();
    let late = stage.clock.now().since(until);
    assert!(stage.clock.now() >= until && late < Duration::from_mins(2));
    assert_eq!(stage.begun(), ["steps/0"]);
    assert_eq!(waited_in_all(&stage).await, 1);
}

#[tokio::test]
async fn a_limit_that_was_lifted_while_nobody_ran_is_not_waited_for() {
    let stage = limited(1, HOUR_MS);
    lost(&stage).await;
    stage.clock.turn(2 * HOUR_MS);
    let begun = stage.clock.now();
    stage.resume().await.unwrap();
    assert!(stage.clock.now().since(begun) < Duration::from_mins(1));
}

/// A clock whose time of day jumps, while what it counts goes on evenly.
struct Jumping {
    even: Arc<HandClock>,
    ahead_ms: AtomicI64,
}

impl Clock for Jumping {
    fn now(&self) -> Timestamp {
        Timestamp(self.even.now().0 + self.ahead_ms.load(Ordering::SeqCst))
    }

    fn elapsed(&self) -> Duration {
        self.even.elapsed()
    }

    fn sleep(&self, duration: Duration) -> Boxed<'_, ()> {
        self.even.sleep(duration)
    }
}

#[tokio::test]
async fn a_clock_that_jumps_while_a_run_waits_is_believed_when_it_is_next_looked_at() {
    for (jump, least, most) in [
        // A machine that slept for ten hours wakes to the right time.
        (10 * HOUR_MS, 0, 60),
        // A clock that is set back does not make it longer than it was to be.
        (-5 * HOUR_MS, 3600, 3700),
    ] {
        let mut stage = limited(1, HOUR_MS);
        let clock = Arc::new(Jumping {
            even: Arc::clone(&stage.clock),
            ahead_ms: AtomicI64::new(0),
        });
        stage.world.clock = clock.clone();
        let (request, seen) = (stage.request(&question()), stage.seen.clone());
        let run = start(&stage.world, request, seen, Brake::default());
        let begun = clock.elapsed();
        let jump = async {
            stage.until("step_failed").await;
            clock.ahead_ms.fetch_add(jump, Ordering::SeqCst);
        };
        let (ended, ()) = tokio::join!(run, jump);
        ended.unwrap();
        let waited = clock.elapsed().saturating_sub(begun).as_secs();
        assert!((least..=most).contains(&waited), "{waited}");
    }
}

#[tokio::test]
async fn whoever_stops_a_run_that_waits_need_not_wait() {
    let stage = limited(1, HOUR_MS);
    let brake = Brake::default();
    let (request, seen) = (stage.request(&question()), stage.seen.clone());
    let run = start(&stage.world, request, seen, brake.clone());
    let begun = stage.clock.now();
    let pull = async {
        stage.until("step_failed").await;
        brake.pull(Stop::asked("Ctrl-C", StopMode::Boundary, Status::Paused));
    };
    let (ended, ()) = tokio::join!(run, pull);
    assert!(matches!(ended, Err(Error::Stopped { .. })));
    assert!(stage.clock.now().since(begun) < Duration::from_mins(2));
    assert_eq!(stage.summary().await.status, Status::Paused);
    let until = suspended(&stage).until;
    assert_eq!(
        state(&stage).await.open.values().next().unwrap().not_before,
        Some(until)
    );
}
