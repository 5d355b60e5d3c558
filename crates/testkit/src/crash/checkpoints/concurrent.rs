//! Two captures and a sweep at once, in three processes, while old checkpoints are deleted: every
//! checkpoint that is listed afterwards must be complete. The files change between a few states, so
//! that data that a sweep is about to delete is needed again.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use super::checker::{Checker, describe};
use super::fixture::Fixture;
use super::tree::noise;
use crate::clock::Seeded;
use crate::crash::trial::Violation;
use crate::sandbox::wait_for_output;
use crate::tree_state::TreeState;

/// How many times in a round.
const TURNS: u64 = 8;
/// How many states the files have.
const STATES: u64 = 3;
/// How long ago a checkpoint was pruned that is to be erased.
const LONG_AGO: Duration = Duration::from_hours(8 * 24);

pub(super) fn attempt(fixture: &Fixture, seed: u64) -> Vec<Violation> {
    let rng = Seeded::new(seed);
    // Each new checkpoint prunes those above the limit of its session; a round creates more.
    fixture.sandbox.configure("[checkpoints]\nkeep = 1000\n");
    let mut checker = Checker::new(fixture);
    let mut created: Vec<String> = fixture.start.listed.iter().cloned().collect();
    for _ in 0..TURNS {
        write_state(fixture, rng.below(STATES));
        let tree_state = TreeState::of(&fixture.sandbox.work());
        let create = ["checkpoint", "create", "--json"];
        let sweep = ["doctor", "--gc", "--grace-hours", "0"];
        let children: Vec<_> = [&create[..], &sweep, &create]
            .iter()
            .map(|words| fixture.sandbox.start(words))
            .collect();
        for said in children.into_iter().map(wait_for_output) {
            if !said.status.success() {
                checker.stuck(format!("concurrent command failed: {}", describe(&said)));
            }
            let line = said.stdout.lines().next().unwrap_or_default();
            let line: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
            if let Some(id) = line["checkpoint"].as_str() {
                checker.expect(id, &tree_state);
                created.push(id.to_owned());
            }
        }
        checker.check_damage();
        checker.check_restores(&created);
        // Some are erased, and a sweep alone unlists their files.
        let goes = usize::try_from(rng.below(3))
            .unwrap()
            .min(created.len() - 1);
        let gone: Vec<String> = created.drain(..goes).collect();
        fixture.mark_pruned(&gone, LONG_AGO);
        fixture.age_snapshots();
        let said = fixture.sandbox.segno(&sweep);
        if !said.status.success() {
            checker.stuck(format!("gc alone failed: {}", describe(&said)));
        }
    }
    checker.check_damage();
    checker.check_restores(&created);
    checker.wrongs
}

/// Sets the files to one of their states, times included: the same state is the same snapshot.
fn write_state(fixture: &Fixture, state: u64) {
    for (name, length) in [("state", 60_000), ("large", 1_200_000)] {
        let path = fixture.sandbox.work().join(name);
        let mut content = noise(length, 3);
        content[length / 2..][..100].copy_from_slice(&noise(100, state));
        content[..2000].copy_from_slice(&noise(2000, 50 + state));
        fs::write(&path, content).unwrap();
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + state);
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(modified).unwrap();
    }
}
