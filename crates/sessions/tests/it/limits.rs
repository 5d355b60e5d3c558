//! Rate limits with a known end: runs wait for them within bounds, also after a lost run.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use segno_core::journal::{Event, StopMode, Suspension};
use segno_core::ports::{Boxed, Clock};
use segno_core::session::Status;
use segno_core::state::State;
use segno_core::time::Timestamp;
use segno_engine::error::NoWaitReason;
use segno_engine::{Error, Stop, StopToken, history};
use segno_sessions::start::{self, start};
use segno_testkit::clock::ManualClock;

use crate::harness::{Harness, chain, harness, spec};
use crate::retries::waits;

const HOUR_MS: i64 = 3_600_000;

/// An environment in which the first `attempts` attempts meet a rate limit.
fn rate_limited(attempts: u32, told_ms: i64) -> Harness {
    harness(&format!(
        "default: {{text: done, fail: {{kind: rate_limited, message: slow, attempts: {attempts}, retry_after_ms: {told_ms}}}}}"
    ))
}

fn continuity(spec: &str, more: &str) -> String {
    format!("{spec}continuity: {{{more}}}\n")
}

fn question() -> String {
    chain("", &["question"])
}

async fn state(harness: &Harness) -> State {
    let session = harness.summary().await.id;
    history::load_state(&harness.env, session).await.unwrap()
}

/// The rate limit of the newest failed attempt.
fn suspended(harness: &Harness) -> Suspension {
    let entries = harness.seen.entries.lock().unwrap();
    let met = entries.iter().rev().find_map(|entry| match &entry.event {
        Event::StepFailed(event) => event.suspended.clone(),
        _ => None,
    });
    met.unwrap()
}

/// How many hours the session has waited, as its state counts them: rounded up by a minute.
async fn hours_waited(harness: &Harness) -> u64 {
    (state(harness).await.waits.total_ms + 60_000) / 3_600_000
}

fn reason(error: &Error) -> NoWaitReason {
    match error {
        Error::Suspended { why, .. } => *why,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn retry_after_is_followed_within_bounds() {
    for (told, waited) in [
        (5000, 5000),
        (1, 1000),
        (90_000, 90_000),
        (HOUR_MS, 3_600_000),
    ] {
        let harness = rate_limited(1, told);
        harness.run(&question()).await.unwrap();
        assert_eq!(waits(&harness), [Some(waited)], "told {told}");
    }
}

#[tokio::test]
async fn rate_limits_do_not_count_as_retries() {
    let harness = rate_limited(5, HOUR_MS);
    let spec = chain(", failure_policy: {retries: 0}", &["question"]);
    let start_time = harness.clock.now();
    let outcome = harness.run(&spec).await.unwrap();
    assert_eq!(outcome.output, "done");
    let waited = harness.clock.now().since(start_time).as_secs();
    assert!((5 * 3600..6 * 3600).contains(&waited), "{waited}");
    assert_eq!(hours_waited(&harness).await, 5);
}

#[tokio::test]
async fn wait_longer_than_max_wait_suspends_the_session() {
    let harness = rate_limited(1, 61_000);
    let spec = continuity(&question(), "max_wait_s: 60");
    let start_time = harness.clock.now();
    let error = harness.run(&spec).await.unwrap_err();
    assert_eq!(
        reason(&error),
        NoWaitReason::MaxWait(Duration::from_mins(1))
    );
    let until = suspended(&harness).until;
    assert_eq!(
        error.to_string(),
        format!(
            "step steps/0 is suspended until {until} (rate limit of scripted): `max_wait_s` is 1 min 00 s"
        )
    );
    assert_eq!(waits(&harness), [None]);
    assert!(harness.clock.now().since(start_time) < Duration::from_secs(30));
    let then = state(&harness).await;
    assert_eq!(then.status, Status::Paused);
    assert_eq!(then.suspended(start_time).unwrap().1.until, until);
    assert_eq!(then.suspended(until), None, "the time has come");

    // Two seconds later the wait is short enough, and the prompt is sent once.
    harness.clock.advance(2000);
    harness.resume().await.unwrap();
    assert!(harness.clock.now() >= until);
    assert_eq!(harness.started_steps(), ["steps/0"]);
}

#[tokio::test]
async fn early_resume_sends_no_prompt_unless_overridden() {
    let harness = rate_limited(1, 10 * HOUR_MS);
    harness.run(&question()).await.unwrap_err();
    let error = harness.resume().await.unwrap_err();
    assert_eq!(
        reason(&error),
        NoWaitReason::MaxWait(Duration::from_hours(1))
    );
    assert_eq!(harness.started_steps(), Vec::<String>::new());
    assert_eq!(harness.summary().await.status, Status::Paused);
    harness.resume_asking().await.unwrap();
    assert_eq!(harness.started_steps(), ["steps/0"]);
}

#[tokio::test]
async fn total_wait_of_a_session_is_bounded() {
    let harness = rate_limited(9, HOUR_MS);
    let spec = continuity(&question(), "max_total_wait_s: 8000");
    let error = harness.run(&spec).await.unwrap_err();
    assert_eq!(
        reason(&error),
        NoWaitReason::MaxTotalWait(Duration::from_secs(8000))
    );
    assert_eq!(waits(&harness), [Some(3_600_000), Some(3_600_000), None]);
    // The bound is per session, not per run.
    harness.clock.advance(HOUR_MS);
    let error = harness.resume().await.unwrap_err();
    assert_eq!(
        reason(&error),
        NoWaitReason::MaxTotalWait(Duration::from_secs(8000))
    );
    assert_eq!(waits(&harness), [None]);
}

#[tokio::test]
async fn concurrent_waits_count_once() {
    let harness = rate_limited(1, HOUR_MS);
    let pattern = "{type: parallel, config: {branches: [{id: x, steps: [{agent: a, input: q}]}, {id: y, steps: [{agent: b, input: q}]}]}}";
    let spec = continuity(&spec(pattern, ""), "max_total_wait_s: 5000");
    harness.run(&spec).await.unwrap();
    assert_eq!(waits(&harness), [Some(3_600_000), Some(3_600_000)]);
    assert_eq!(hours_waited(&harness).await, 1);
}

#[tokio::test]
async fn run_gives_up_after_fifty_waits() {
    let harness =
        harness("default: {fail: {kind: rate_limited, message: slow, retry_after_ms: 1}}");
    let error = harness.run(&question()).await.unwrap_err();
    assert_eq!(reason(&error), NoWaitReason::TooManyWaits(50));
    let waits = waits(&harness);
    assert_eq!(waits.len(), 51);
    assert_eq!(waits[..3], [Some(1000), Some(2000), Some(4000)]);
    assert_eq!(waits[49..], [Some(60_000), None]);
}

#[tokio::test]
async fn on_limit_pause_suspends_without_waiting() {
    let harness = rate_limited(1, 5000);
    let spec = continuity(&question(), "on_limit: pause");
    let error = harness.run(&spec).await.unwrap_err();
    assert_eq!(reason(&error), NoWaitReason::Pause);
    assert_eq!(waits(&harness), [None]);
    assert_eq!(harness.summary().await.status, Status::Paused);
    harness.resume().await.unwrap_err();
    assert_eq!(
        harness.started_steps(),
        Vec::<String>::new(),
        "it is too early"
    );
    harness.clock.advance(5000);
    harness.resume().await.unwrap();
    assert_eq!(harness.started_steps(), ["steps/0"]);
}

#[tokio::test]
async fn exhausted_budget_ends_the_run_instead_of_a_wait() {
    for (budget, told) in [
        ("max_tokens: 50", HOUR_MS),
        // A wait that would use up the budget is not started, either.
        ("max_duration_s: 600", HOUR_MS),
    ] {
        let harness = harness(&format!(
            "default: {{text: done, usage: {{input_tokens: 60}}, fail: {{kind: rate_limited, message: slow, attempts: 1, retry_after_ms: {told}}}}}"
        ));
        let start_time = harness.clock.now();
        let spec = chain(&format!(", budgets: {{{budget}}}"), &["question"]);
        let error = harness.run(&spec).await.unwrap_err();
        assert!(matches!(error, Error::Budget { .. }), "{error}");
        assert_eq!(waits(&harness), [None]);
        assert!(harness.clock.now().since(start_time) < Duration::from_mins(1));
        // A resume does not overspend, however often it is repeated.
        let error = harness.resume().await.unwrap_err();
        assert!(matches!(error, Error::Budget { .. }), "{error}");
        assert_eq!(harness.started_steps(), Vec::<String>::new());
    }
}

/// A run that is lost during a wait.
async fn lose_run_during_wait(harness: &Harness) {
    let (request, seen) = (harness.request(&question()), harness.seen.clone());
    let run = start(&harness.env, request, seen, StopToken::default());
    let lose_run_during_wait = tokio::select! {
        _ = run => false,
        () = harness.wait_for("step_failed") => true,
    };
    assert!(lose_run_during_wait);
}

#[tokio::test]
async fn resume_waits_for_the_rest_of_a_lost_wait() {
    let harness = rate_limited(1, HOUR_MS);
    lose_run_during_wait(&harness).await;
    let until = suspended(&harness).until;
    harness.clock.advance(HOUR_MS / 2);
    harness.resume().await.unwrap();
    let late = harness.clock.now().since(until);
    assert!(harness.clock.now() >= until && late < Duration::from_mins(2));
    assert_eq!(harness.started_steps(), ["steps/0"]);
    assert_eq!(hours_waited(&harness).await, 1);
}

#[tokio::test]
async fn resume_after_the_limit_does_not_wait() {
    let harness = rate_limited(1, HOUR_MS);
    lose_run_during_wait(&harness).await;
    harness.clock.advance(2 * HOUR_MS);
    let start_time = harness.clock.now();
    harness.resume().await.unwrap();
    assert!(harness.clock.now().since(start_time) < Duration::from_mins(1));
}

/// A clock whose time of day jumps, while its elapsed time does not.
struct JumpingClock {
    even: Arc<ManualClock>,
    ahead_ms: AtomicI64,
}

impl Clock for JumpingClock {
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
async fn wait_follows_a_jumping_clock() {
    for (jump, least, most) in [
        // A machine that was suspended for ten hours has the right time when it wakes.
        (10 * HOUR_MS, 0, 60),
        // A clock that is set back does not make the wait longer.
        (-5 * HOUR_MS, 3600, 3700),
    ] {
        let mut harness = rate_limited(1, HOUR_MS);
        let clock = Arc::new(JumpingClock {
            even: Arc::clone(&harness.clock),
            ahead_ms: AtomicI64::new(0),
        });
        harness.env.clock = clock.clone();
        let (request, seen) = (harness.request(&question()), harness.seen.clone());
        let run = start(&harness.env, request, seen, StopToken::default());
        let start_elapsed = clock.elapsed();
        let jump = async {
            harness.wait_for("step_failed").await;
            clock.ahead_ms.fetch_add(jump, Ordering::SeqCst);
        };
        let (ended, ()) = tokio::join!(run, jump);
        ended.unwrap();
        let waited = clock.elapsed().saturating_sub(start_elapsed).as_secs();
        assert!((least..=most).contains(&waited), "{waited}");
    }
}

#[tokio::test]
async fn stop_interrupts_a_wait() {
    let harness = rate_limited(1, HOUR_MS);
    let stop_token = StopToken::default();
    let (request, seen) = (harness.request(&question()), harness.seen.clone());
    let run = start(&harness.env, request, seen, stop_token.clone());
    let start_time = harness.clock.now();
    let pull = async {
        harness.wait_for("step_failed").await;
        stop_token.request_stop(Stop::request("Ctrl-C", StopMode::Boundary, Status::Paused));
    };
    let (ended, ()) = tokio::join!(run, pull);
    assert!(matches!(
        ended,
        Err(start::Error::Run(Error::Stopped { .. }))
    ));
    assert!(harness.clock.now().since(start_time) < Duration::from_mins(2));
    assert_eq!(harness.summary().await.status, Status::Paused);
    let until = suspended(&harness).until;
    assert_eq!(
        state(&harness)
            .await
            .open_steps
            .values()
            .next()
            .unwrap()
            .not_before,
        Some(until)
    );
}
