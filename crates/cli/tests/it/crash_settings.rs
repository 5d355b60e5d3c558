//! Kills commands that change the settings of CLI agents at every system call that writes (F2), as
//! `crash --segno PATH --part hooks` does.

use std::path::Path;

use segno_testkit::crash::hooks::{attempt, attempt_all, trials};
use segno_testkit::crash::{Counted, Tally, explain, require_strace};

use crate::{sandbox, segno};

fn run_trials(segno: &Path) -> (Tally, Vec<String>) {
    require_strace();
    let trials = trials(segno);
    let outcomes = attempt_all(segno, &trials, 1, |_| ());
    let wrong = outcomes
        .iter()
        .filter(|outcome| !outcome.violations().is_empty());
    (outcomes.iter().collect(), wrong.map(explain).collect())
}

#[test]
fn killed_hooks_command_leaves_old_or_new_settings() {
    let (tally, wrong) = run_trials(segno());
    assert_eq!(wrong, [""; 0]);
    assert!(tally.hits >= 30 && tally.missed == 0, "{tally}");
}

#[test]
fn harness_detects_settings_written_in_place() {
    let sandbox = sandbox();
    let script = format!(
        "#!/bin/sh\ntext=$(cat ~/.claude/settings.json)\necho \"$text\" > ~/.claude/settings.json\nexec {} \"$@\"\n",
        segno().display()
    );
    let broken = sandbox.write_script("broken", &script);
    let trial = "hooks/claude/install/main.write:1".parse().unwrap();
    let outcome = attempt(&broken, &trial);
    assert!(!outcome.violations().is_empty());
}
