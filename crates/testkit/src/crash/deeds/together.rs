//! Two captures and a sweep at once, in three processes, while old checkpoints go: whatever is listed
//! afterwards is whole. The files change between a few states, so that what a sweep is about to delete
//! is needed again.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use super::ground::Ground;
use super::tree::noise;
use super::watch::{Watch, told};
use crate::clock::Seeded;
use crate::crash::trial::Wrong;
use crate::picture::Picture;
use crate::sandbox::wait;

/// How often in a round.
const TURNS: u64 = 8;
/// How many states the files have.
const STATES: u64 = 3;
/// How long ago a checkpoint was let go of that is to be erased.
const LONG_AGO: Duration = Duration::from_hours(8 * 24);

pub(super) fn attempt(ground: &Ground, seed: u64) -> Vec<Wrong> {
    let lot = Seeded::new(seed);
    let mut watch = Watch::new(ground);
    let mut taken: Vec<String> = ground.start.listed.iter().cloned().collect();
    for _ in 0..TURNS {
        put(ground, lot.below(STATES));
        let picture = Picture::of(&ground.sandbox.work());
        let create = ["checkpoint", "create", "--json"];
        let sweep = ["gc", "--grace-hours", "0"];
        let children: Vec<_> = [&create[..], &sweep, &create]
            .iter()
            .map(|words| ground.sandbox.start(words))
            .collect();
        for said in children.into_iter().map(wait) {
            if !said.status.success() {
                watch.stuck(format!("at once: {}", told(&said)));
            }
            let line = said.stdout.lines().next().unwrap_or_default();
            let line: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
            if let Some(id) = line["checkpoint"].as_str() {
                watch.expect(id, &picture);
                taken.push(id.to_owned());
            }
        }
        watch.examine();
        watch.bring_back_all(&taken);
        // Some go for good, and a sweep alone takes their files off the list.
        let goes = usize::try_from(lot.below(3)).unwrap().min(taken.len() - 1);
        let gone: Vec<String> = taken.drain(..goes).collect();
        ground.let_go(&gone, LONG_AGO);
        ground.age();
        let said = ground.sandbox.segno(&sweep);
        if !said.status.success() {
            watch.stuck(format!("a sweep alone: {}", told(&said)));
        }
    }
    watch.examine();
    watch.bring_back_all(&taken);
    watch.wrongs
}

/// Gives the files one of their states, times included: the same state is the same snapshot.
fn put(ground: &Ground, state: u64) {
    for (name, length) in [("state", 60_000), ("large", 1_200_000)] {
        let path = ground.sandbox.work().join(name);
        let mut content = noise(length, 3);
        content[length / 2..][..100].copy_from_slice(&noise(100, state));
        content[..2000].copy_from_slice(&noise(2000, 50 + state));
        fs::write(&path, content).unwrap();
        let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + state);
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(moment).unwrap();
    }
}
