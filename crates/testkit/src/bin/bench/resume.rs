//! (d) A chain killed in the middle: from the start of `segno resume` to its first new step.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Instant;

use segno_testkit::sandbox::Sandbox;
use serde_json::Value;

use crate::disk::Disk;
use crate::figures::{Bar, Row, Samples, Table, millis};
use crate::{Plan, chain, log_progress};

const STEPS: usize = 1000;

pub(crate) fn measure(plan: &Plan, disk: &mut Disk, table: &mut Table) {
    let rounds = if plan.quick { 12 } else { 30 };
    let (mut resumed, mut started) = (Samples::default(), Samples::default());
    for _ in 0..rounds {
        disk.probe();
        let sandbox = Sandbox::new(&plan.segno);
        chain::write(&sandbox, STEPS);
        let killed_at = kill_at(&sandbox, STEPS / 2);
        let begun = Instant::now();
        sandbox.segno(&["--version"]).expect_success();
        started.push(millis(begun.elapsed()));
        let begun = Instant::now();
        let mut child = spawn(&sandbox, &["resume", "--json"]);
        let first = first_step(&mut child, |_| true);
        resumed.push(millis(begun.elapsed()));
        kill(child);
        if first < killed_at {
            log_progress(&format!(
                "warning: step {first} ran again; step {killed_at} had started"
            ));
        }
    }
    let what = format!("resume of {STEPS} steps killed half-way, to first step");
    table.add(Row::single("d", what, "ms", resumed).bar(Bar::AtMost(25.0)));
    table.add(Row::single(
        "d",
        "  of that: `segno --version`",
        "ms",
        started,
    ));
}

/// Runs the chain up to the given step and kills it there. Returns the step that was in flight.
fn kill_at(sandbox: &Sandbox, step: usize) -> usize {
    let mut child = spawn(sandbox, &["run", "chain.yaml", "--json"]);
    let step = first_step(&mut child, |begun| begun >= step);
    kill(child);
    step
}

fn spawn(sandbox: &Sandbox, words: &[&str]) -> Child {
    sandbox
        .command(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Reads events until a wanted step starts; returns its number.
fn first_step(child: &mut Child, wanted: impl Fn(usize) -> bool) -> usize {
    let stdout = child.stdout.as_mut().unwrap();
    for line in BufReader::new(stdout).lines() {
        let line = line.unwrap();
        if !line.contains("\"step_started\"") {
            continue;
        }
        let event: Value = serde_json::from_str(&line).unwrap();
        let path = event["path"].as_str().unwrap();
        let step = path.trim_start_matches("steps/").parse().unwrap();
        if wanted(step) {
            return step;
        }
    }
    panic!("the run ended before it was killed");
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}
