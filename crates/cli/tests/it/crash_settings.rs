//! Commands that change the settings of agents, killed at every write-like system call (F2), as
//! `crash --segno PATH --part hooks` does it.

use std::path::Path;

use segno_testkit::crash::hooks::{attempt, attempt_all, trials};
use segno_testkit::crash::{Counted, Tally, explain, require_strace};

use crate::{sandbox, segno};

fn disturb(segno: &Path) -> (Tally, Vec<String>) {
    require_strace();
    let trials = trials(segno);
    let outcomes = attempt_all(segno, &trials, 1, |_| ());
    let wrong = outcomes
        .iter()
        .filter(|outcome| !outcome.wrongs().is_empty());
    (outcomes.iter().collect(), wrong.map(explain).collect())
}

#[test]
fn settings_of_agents_are_old_or_new_wherever_segno_is_killed() {
    let (tally, wrong) = disturb(segno());
    assert_eq!(wrong, [""; 0]);
    assert!(tally.hits >= 30 && tally.missed == 0, "{tally}");
}

#[test]
fn a_segno_that_writes_settings_in_place_is_noticed() {
    let sandbox = sandbox();
    let script = format!(
        "#!/bin/sh\ntext=$(cat ~/.claude/settings.json)\necho \"$text\" > ~/.claude/settings.json\nexec {} \"$@\"\n",
        segno().display()
    );
    let broken = sandbox.script("broken", &script);
    let trial = "hooks/claude/install/main.write:1".parse().unwrap();
    let outcome = attempt(&broken, &trial);
    assert!(!outcome.wrongs().is_empty());
}
