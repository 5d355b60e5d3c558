//! Faults F1 and F2: kills the real binary at failpoints and at system calls. This is a sample of
//! what `crash --segno PATH` does in full; `SEGNO_CRASH_SEED` draws another sample.

#![cfg(feature = "failpoints")]
#![expect(
    clippy::print_stdout,
    reason = "a test that fails shows its seed and its kills"
)]

use std::collections::{BTreeMap, BTreeSet};

use segno_core::fault::Point;
use segno_testkit::crash::{
    Counted, Fault, Home, Kill, Outcome, Tally, Violation, Workload, at_every_position, at_points,
    at_points_again, at_syscalls, attempt_all, checkpoints, count_visits, explain, one_home,
    ownership, require_strace, sample, transcripts, unhit_failpoints,
};

use crate::segno;

/// How many kills a test draws: more than a hundred in total, and each test takes well under a
/// minute.
const SAMPLE: usize = 12;

/// A kill in the middle of a workload: the agent has answered and the journal does not have the
/// answer yet.
const MIDDLE: Fault = Fault::Point {
    name: "step.after_effect",
    visit: 3,
};

pub(crate) fn seed() -> u64 {
    let given = std::env::var("SEGNO_CRASH_SEED").ok();
    let seed = given.map_or(1, |seed| seed.parse().unwrap());
    println!("SEGNO_CRASH_SEED={seed}");
    seed
}

/// Executes these kills and panics with every broken guarantee.
#[track_caller]
fn survive(kills: &[Kill]) -> Vec<Outcome> {
    let outcomes = attempt_all(segno(), kills, 1, |outcome| {
        println!("{} {:?}", outcome.kill, outcome.hit);
    });
    let tally: Tally = outcomes.iter().collect();
    println!("{tally}");
    let wrong = outcomes.iter().filter(|outcome| !outcome.wrongs.is_empty());
    let wrong: Vec<String> = wrong.map(explain).collect();
    assert!(tally.is_good(), "{tally}\n{}", wrong.join("\n"));
    // Some system calls depend on which thread waits at the time and do not occur in every run.
    let killed = usize::try_from(tally.hits).unwrap();
    assert!(killed * 4 >= kills.len() * 3, "too many misses: {tally}");
    outcomes
}

fn survive_points(workload: Workload, size: usize) {
    survive(&sample(at_points(segno(), workload), size, seed()));
}

fn survive_syscalls(workload: Workload, home: Home, before: Option<&Fault>, size: usize) {
    require_strace();
    let (kills, _) = at_syscalls(segno(), workload, home, before);
    survive(&sample(kills, size, seed()));
}

/// The kills at each failpoint of the resume that follows a kill in the middle.
fn kills_during_resume(workload: Workload) -> Vec<Kill> {
    let first = Kill::once(workload, Home::Fresh, MIDDLE);
    survive(&[first]).iter().flat_map(at_points_again).collect()
}

#[test]
fn every_failpoint_is_visited() {
    let runs = Workload::CHAINS
        .iter()
        .map(|workload| count_visits(segno(), *workload));
    let mut visited: BTreeSet<String> = runs.flat_map(BTreeMap::into_keys).collect();
    let killed = Kill::once(Workload::Scripted, Home::Fresh, MIDDLE);
    let outcomes = survive(&[killed]);
    visited.extend(outcomes[0].visits.keys().cloned());
    for operation in checkpoints::Operation::ALL {
        let fixture = checkpoints::Fixture::new(segno(), *operation);
        visited.extend(checkpoints::count_visits(&fixture).into_keys());
    }
    // `cli_agents_killed` kills at these points, with real agents.
    let records = transcripts::trials();
    visited.extend(records.iter().map(|trial| trial.point.name().to_owned()));
    // `crash_server` kills at these.
    visited.extend(crate::crash_server::points().map(str::to_owned));
    let all: BTreeSet<String> = Point::ALL.iter().map(|point| point.name().into()).collect();
    assert_eq!(
        visited, all,
        "a place without a test, or one that is not in the list"
    );
}

#[test]
fn every_failpoint_kills_and_nothing_is_lost() {
    let points = Workload::CHAINS
        .iter()
        .flat_map(|workload| at_points(segno(), *workload));
    let mut drawn: Vec<Kill> = sample(points.collect(), usize::MAX, seed());
    drawn.extend(kills_during_resume(Workload::Scripted));
    let mut seen = BTreeSet::new();
    drawn.retain(|kill| match kill.faults.last() {
        Some(Fault::Point { name, .. }) => seen.insert(*name),
        _ => false,
    });
    let runs: Tally = survive(&drawn).iter().collect();
    let points = checkpoints::Operation::ALL.iter().flat_map(|operation| {
        checkpoints::at_points(&checkpoints::Fixture::new(segno(), *operation))
    });
    let mut drawn: Vec<checkpoints::Trial> = sample(points.collect(), usize::MAX, seed());
    drawn.retain(|trial| match trial {
        checkpoints::Trial::Killed {
            fault: Fault::Point { name, .. },
            ..
        } => seen.insert(*name),
        _ => false,
    });
    let operations = crate::crash_checkpoints::survive(&drawn);
    let left = unhit_failpoints(&[&runs, &operations]);
    let others: Vec<&str> = left
        .into_iter()
        .filter(|name| !name.starts_with("transcript."))
        .filter(|name| !crate::crash_server::points().any(|known| known == *name))
        .collect();
    assert_eq!(others, [""; 0]);
}

#[test]
fn scripted_run_resumes_after_a_kill_at_a_failpoint() {
    survive_points(Workload::Scripted, SAMPLE);
}

#[test]
fn run_with_long_answers_resumes_after_a_failpoint_kill() {
    survive_points(Workload::Long, SAMPLE);
}

#[test]
fn command_run_resumes_after_a_kill_at_a_failpoint() {
    survive_points(Workload::Command, SAMPLE);
}

/// Kills a workload at some of its journal positions.
fn survive_positions(workload: Workload) {
    let kills = at_every_position(segno(), workload);
    survive(&sample(kills, SAMPLE, seed()));
}

#[test]
fn chain_resumes_after_a_kill_at_a_journal_position() {
    survive_positions(Workload::Chain);
}

#[test]
fn tasks_resume_after_a_kill_at_a_journal_position() {
    survive_positions(Workload::Tasks);
}

#[test]
fn route_survives_a_kill_at_a_journal_position() {
    survive_positions(Workload::Routing);
}

#[test]
fn branches_resume_after_a_kill_at_a_journal_position() {
    survive_positions(Workload::Parallel);
}

#[test]
fn drafts_resume_after_a_kill_at_a_journal_position() {
    survive_positions(Workload::Evaluator);
}

#[test]
fn workers_resume_after_a_kill_at_a_journal_position() {
    survive_positions(Workload::Orchestrator);
}

#[test]
fn loop_resumes_after_a_kill_at_a_journal_position() {
    survive_positions(Workload::Graph);
}

#[test]
fn resume_killed_at_a_failpoint_can_be_resumed() {
    let kills = Workload::CHAINS
        .iter()
        .flat_map(|workload| kills_during_resume(*workload));
    survive(&sample(kills.collect(), SAMPLE, seed()));
}

#[test]
fn scripted_run_resumes_after_a_kill_at_a_syscall() {
    survive_syscalls(Workload::Scripted, Home::Used, None, SAMPLE);
}

#[test]
fn run_with_long_answers_resumes_after_a_syscall_kill() {
    survive_syscalls(Workload::Long, Home::Used, None, SAMPLE);
}

#[test]
fn command_run_resumes_after_a_kill_at_a_syscall() {
    survive_syscalls(Workload::Command, Home::Used, None, SAMPLE);
}

/// About how many write-like calls create a home: its folders, the reserve, the names.
const CREATING_CALLS: usize = 16;

#[test]
fn run_killed_while_creating_its_home_can_be_resumed() {
    require_strace();
    let (mut kills, _) = at_syscalls(segno(), Workload::Scripted, Home::Fresh, None);
    // The first calls create the home; before the very first, there is nothing yet.
    kills.truncate(CREATING_CALLS);
    survive(&sample(kills.split_off(1), SAMPLE, seed()));
}

#[test]
fn resume_killed_at_a_syscall_can_be_resumed() {
    survive_syscalls(Workload::Long, Home::Fresh, Some(&MIDDLE), SAMPLE);
}

#[test]
fn runs_of_one_home_killed_together_lose_no_answer() {
    let trial = one_home::Trial {
        sessions: 24,
        seed: seed(),
    };
    let outcomes = one_home::attempt_all(segno(), &[trial], |outcome| {
        println!("{} answers, lost {:?}", outcome.answered, outcome.lost);
    });
    // How old a lost answer may be is measured by `make crash`: here, other tests delay the runs.
    let wrongs = outcomes.iter().flat_map(Counted::violations);
    let wrongs: Vec<_> = wrongs
        .filter(|wrong| !matches!(wrong, Violation::Loss(_)))
        .collect();
    assert!(wrongs.is_empty(), "{wrongs:?}");
    assert!(outcomes[0].answered >= 24 * 2, "{outcomes:?}");
}

#[test]
fn wrong_clocks_neither_take_over_nor_delay() {
    let trials = ownership::trials(6, seed());
    let outcomes = ownership::attempt_all(segno(), &trials, 1, |outcome| {
        println!("{}", outcome.notation());
    });
    let tally: Tally = outcomes.iter().collect();
    let wrong = outcomes.iter().filter(|one| !one.violations().is_empty());
    let wrong: Vec<String> = wrong.map(explain).collect();
    assert!(tally.is_good(), "{tally}\n{}", wrong.join("\n"));
    for column in ["working owners", "stopped owners", "killed owners"] {
        assert!(tally.count(column) > 0, "{tally}");
    }
}

#[test]
fn harness_detects_a_segno_that_loses_its_home() {
    let sandbox = crate::sandbox();
    let segno = segno().display();
    let forgetful = sandbox.write_script(
        "forgetful",
        &format!(
            "#!/bin/sh\nif [ \"$1\" = resume ]; then rm -r \"$SEGNO_HOME\"; exec {segno} run chain.yaml --json; fi\nexec {segno} \"$@\"\n"
        ),
    );
    // Two counters of the calls: the agent's own ledger, and a model server outside.
    for workload in [Workload::Scripted, Workload::Chain] {
        let kill = Kill::once(workload, Home::Fresh, MIDDLE);
        let outcomes = attempt_all(&forgetful, &[kill], 1, |_| ());
        let tally: Tally = outcomes.iter().collect();
        assert!(
            tally.losses > 0 && tally.repeats >= 2,
            "{workload:?}: {tally}"
        );
    }
}
