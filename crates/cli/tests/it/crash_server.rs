//! `segno serve` is killed while it runs sessions of all patterns that clients started over HTTP. This
//! is a fixed sample of what `crash --part server` does in full; `SEGNO_CRASH_SEED` draws another one.

#![cfg(feature = "failpoints")]
#![expect(
    clippy::print_stdout,
    reason = "a test that fails shows its seed and its kills"
)]

use std::path::Path;

use segno_core::fault::Point;
use segno_testkit::crash::server::{Outcome, Trial, attempt_all};
use segno_testkit::crash::{Counted, Tally, explain};

use crate::crash::seed;
use crate::segno;

/// What the server and its worker visit, and no command of a user in a terminal.
const AREAS: [&str; 3] = ["request.", "background.", "worker."];

/// The failpoints that these tests kill at.
pub(crate) fn points() -> impl Iterator<Item = &'static str> {
    let names = Point::ALL.iter().map(|point| point.name());
    names.filter(|name| AREAS.iter().any(|area| name.starts_with(area)))
}

fn attempt(segno: &Path, trials: &[Trial]) -> Vec<Outcome> {
    attempt_all(segno, trials, |outcome| println!("{}", outcome.notation()))
}

/// Executes these trials and panics with every broken guarantee.
#[track_caller]
fn survive(trials: &[Trial]) -> Tally {
    let outcomes = attempt(segno(), trials);
    let tally: Tally = outcomes.iter().collect();
    println!("{tally}");
    let wrong = outcomes.iter().filter(|one| !one.violations().is_empty());
    let wrong: Vec<String> = wrong.map(explain).collect();
    assert!(tally.is_good(), "{tally}\n{}", wrong.join("\n"));
    assert_eq!(tally.hits, trials.len() as u64, "{tally}");
    tally
}

#[test]
fn killed_server_loses_no_session_event_or_answer() {
    // Of two in a row, at least one kills runs.
    let seeds = (seed() + 1..).take(2);
    let trials: Vec<Trial> = seeds.map(|seed| Trial::Server { seed }).collect();
    let tally = survive(&trials);
    assert_eq!(tally.count("sessions"), 40, "{tally}");
    for column in ["servers killed", "runs killed", "streams resumed"] {
        assert!(tally.count(column) > 0, "{tally}");
    }
}

#[test]
fn server_and_workers_run_each_session_once() {
    let seeds = (seed()..).take(2);
    let trials: Vec<Trial> = seeds.map(|seed| Trial::Workers { seed }).collect();
    let tally = survive(&trials);
    assert!(tally.count("workers killed") > 0, "{tally}");
}

#[test]
fn server_killed_at_a_failpoint_does_nothing_twice() {
    let of_the_server = points().map(|point| format!("server/serve/{point}:1"));
    // The run has taken the lease over, and has not begun.
    let trials = of_the_server.chain(["server/run/lease.after_acquire:1".to_owned()]);
    let trials: Vec<Trial> = trials.map(|words| words.parse().unwrap()).collect();
    let tally = survive(&trials);
    assert!(points().all(|point| tally.killed_at.contains(point)));
}

#[test]
fn harness_detects_a_server_that_forgets_its_keys() {
    let sandbox = crate::sandbox();
    let forgetful = sandbox.write_script(
        "forgetful",
        &format!(
            "#!/bin/sh\nif [ \"$1\" = serve ]; then rm -rf \"$SEGNO_HOME/server/requests\"; fi\nexec {} \"$@\"\n",
            segno().display()
        ),
    );
    // The server dies when the session is stored and its client has no answer.
    let trial = "server/serve/request.after_effect:1".parse().unwrap();
    let outcomes = attempt(&forgetful, &[trial]);
    let tally: Tally = outcomes.iter().collect();
    assert!(tally.repeats > 0, "{tally}");
}
