//! Which trials there are.

use std::collections::BTreeMap;

use segno_core::fault::Point;

use super::deed::{Deed, Trial};
use super::ground::Ground;
use crate::crash::kill::Fault;
use crate::crash::trace::{self, Profile};
use crate::sandbox::finish;

/// How much room a disk has left, in KiB. With nothing, the reserve of the home is used. With 32 the
/// database has what it needs to be opened, and nothing is left for anything else; then it becomes more
/// than any deed needs.
const ROOM: [u64; 12] = [32, 36, 40, 44, 48, 64, 96, 128, 256, 512, 2048, 0];

/// How often an undisturbed deed visits each failpoint.
pub fn count_visits(ground: &Ground) -> BTreeMap<String, u64> {
    ground.reset();
    let sandbox = &ground.sandbox;
    let mut command = sandbox.command(&ground.words());
    command.env("SEGNO_FAILPOINT_LOG", trace::visits_file(sandbox));
    finish(command).good();
    trace::visits(sandbox)
}

/// F1: every visit of every failpoint.
pub fn at_points(ground: &Ground) -> Vec<Trial> {
    let (visits, deed) = (count_visits(ground), ground.deed);
    let trials = Point::ALL.iter().flat_map(|point| {
        let name = point.name();
        let last = visits.get(name).copied().unwrap_or_default();
        (1..=last).map(move |visit| Trial::Killed {
            deed,
            fault: Fault::Point { name, visit },
        })
    });
    trials.collect()
}

/// F2: every write-like system call that a fault can be aimed at; and those that none can.
pub fn at_syscalls(ground: &Ground) -> (Vec<Trial>, Vec<String>) {
    ground.reset();
    let profile = Profile::trace(&ground.sandbox, &ground.words());
    let (faults, hidden) = profile.faults();
    let deed = ground.deed;
    let trial = |fault| Trial::Killed { deed, fault };
    (faults.into_iter().map(trial).collect(), hidden)
}

/// F5: the disk has less and less room.
pub fn on_full_disks(deed: Deed) -> Vec<Trial> {
    let trial = |kib: &u64| Trial::Full { deed, kib: *kib };
    ROOM.iter().map(trial).collect()
}
