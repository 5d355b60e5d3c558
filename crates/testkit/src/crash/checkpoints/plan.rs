//! Plans the trials.

use std::collections::BTreeMap;

use segno_core::fault::Point;

use super::fixture::Fixture;
use super::operation::{Operation, Trial};
use crate::crash::kill::Fault;
use crate::crash::trace::{self, Profile};
use crate::sandbox::run_to_end;

/// The free space on the disk, in KiB. With 0, segno uses the reserve of the home. With 32 the
/// database has what it needs to be opened, and nothing is left for anything else; the other values
/// go up to more than any command needs.
const FREE_KIB: [u64; 12] = [32, 36, 40, 44, 48, 64, 96, 128, 256, 512, 2048, 0];

/// How often an undisturbed command visits each failpoint.
pub fn count_visits(fixture: &Fixture) -> BTreeMap<String, u64> {
    fixture.reset();
    let sandbox = &fixture.sandbox;
    let mut command = sandbox.command(&fixture.args());
    command.env("SEGNO_FAILPOINT_LOG", trace::visits_file(sandbox));
    run_to_end(command).expect_success();
    trace::visits(sandbox)
}

/// F1: every visit of every failpoint.
pub fn at_points(fixture: &Fixture) -> Vec<Trial> {
    let (visits, operation) = (count_visits(fixture), fixture.operation);
    let trials = Point::ALL.iter().flat_map(|point| {
        let name = point.name();
        let last = visits.get(name).copied().unwrap_or_default();
        (1..=last).map(move |visit| Trial::Killed {
            operation,
            fault: Fault::Point { name, visit },
        })
    });
    trials.collect()
}

/// F2: every write-like system call that can be targeted; and those that cannot.
pub fn at_syscalls(fixture: &Fixture) -> (Vec<Trial>, Vec<String>) {
    fixture.reset();
    let profile = Profile::trace(&fixture.sandbox, &fixture.args());
    let (faults, hidden) = profile.faults();
    let operation = fixture.operation;
    let trial = |fault| Trial::Killed { operation, fault };
    (faults.into_iter().map(trial).collect(), hidden)
}

/// F5: disks with different amounts of free space.
pub fn on_full_disks(operation: Operation) -> Vec<Trial> {
    let trial = |kib: &u64| Trial::Full {
        operation,
        kib: *kib,
    };
    FREE_KIB.iter().map(trial).collect()
}
