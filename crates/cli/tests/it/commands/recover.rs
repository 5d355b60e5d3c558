use super::{Live, keys, shown, standings, start_waiting, tidy, waiting_chain};
use crate::sandbox;
use segno_testkit::sandbox::Sandbox;
use serde_json::{Value, json};

/// A session whose run was killed in the middle of its second step.
fn lost(sandbox: &Sandbox) {
    waiting_chain(sandbox, 3, 1);
    let (live, _) = start_waiting(sandbox, &[]);
    live.kill();
}

fn checkpoints(sandbox: &Sandbox) -> Vec<Value> {
    let said = sandbox.segno(&["checkpoint", "list", "--all", "--json"]);
    let mut lines = said.good().json();
    lines.retain(|line| line["kind"] == "checkpoint");
    lines
}

#[test]
fn a_lost_run_is_found_kept_and_marked_and_its_session_goes_on() {
    let sandbox = sandbox();
    lost(&sandbox);
    let before = sandbox.segno(&["recover", "--dry-run"]).good();
    assert_eq!(tidy(&sandbox, &before.stdout), "chain ([ID]) was lost");
    assert_eq!(checkpoints(&sandbox).len(), 0);
    let said = sandbox.segno(&["recover", "--json"]).good();
    let line = &said.json()[0];
    assert_eq!(
        keys(line),
        "checkpoint kind name problem session status unknown v"
    );
    assert_eq!(
        (&line["status"], &line["unknown"]),
        (&json!("interrupted"), &json!(["steps/1"]))
    );
    let kept = checkpoints(&sandbox);
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0]["checkpoint"], line["checkpoint"]);
    assert_eq!(kept[0]["trigger"], "crash");
    let session = shown(&sandbox, "chain");
    assert_eq!(session["status"], "interrupted");
    assert_eq!(session["steps"][1]["status"], "unknown");
    let again = sandbox.segno(&["recover"]).good();
    assert_eq!(again.stdout.trim(), "no run was lost");
    sandbox.write("go", "");
    sandbox.segno(&["resume"]).good();
    assert_eq!(
        sandbox.calls(),
        ["steps/0", "steps/1", "steps/1", "steps/2"]
    );
    sandbox.segno(&["doctor"]).good();
}

#[test]
fn what_runs_and_what_has_ended_is_left_alone() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    let said = sandbox.segno(&["recover"]).good();
    assert_eq!(said.stdout.trim(), "no run was lost");
    sandbox.write("go", "");
    live.finish().good();
    sandbox.segno(&["recover", "chain"]).good();
    assert_eq!(standings(&sandbox), [("chain".into(), "completed".into())]);
    sandbox
        .segno(&["recover", "nobody"])
        .refused(17, &["[S0101]"]);
}

#[test]
fn a_session_whose_folder_is_gone_is_marked_all_the_same() {
    let sandbox = sandbox();
    lost(&sandbox);
    let work = sandbox.work();
    let moved = work.with_extension("moved");
    std::fs::rename(&work, &moved).unwrap();
    let mut command = sandbox.command(&["recover"]);
    command.current_dir(&moved);
    let said = segno_testkit::sandbox::finish(command).good();
    assert!(said.stdout.contains("is interrupted"), "{}", said.stdout);
    assert!(
        said.stderr.contains("there is no checkpoint"),
        "{}",
        said.stderr
    );
    std::fs::rename(&moved, &work).unwrap();
    assert_eq!(
        standings(&sandbox),
        [("chain".into(), "interrupted".into())]
    );
}

#[test]
fn of_several_at_once_one_marks_it() {
    let sandbox = sandbox();
    lost(&sandbox);
    let all: Vec<Live> = (0..6)
        .map(|_| Live::start(&sandbox, &["recover", "--json"]))
        .collect();
    let said: Vec<Value> = all
        .into_iter()
        .flat_map(|live| live.finish().good().json())
        .collect();
    assert_eq!(said.len(), 1, "{said:?}");
    let journal = sandbox.segno(&["logs", "chain", "--json"]).good().json();
    let lost = journal.iter().filter(|line| line["kind"] == "run_lost");
    assert_eq!(lost.count(), 1);
}

#[test]
#[cfg(feature = "failpoints")]
fn a_recovery_that_is_killed_anywhere_is_done_by_the_next() {
    use segno_core::fault::Point;
    let mut kills = 0;
    for point in Point::ALL {
        let sandbox = sandbox();
        lost(&sandbox);
        let mut command = sandbox.command(&["recover"]);
        command.env("SEGNO_FAILPOINT", point.name());
        if !segno_testkit::sandbox::finish(command).crashed() {
            continue;
        }
        kills += 1;
        sandbox.segno(&["recover"]).good();
        assert_eq!(
            standings(&sandbox),
            [("chain".into(), "interrupted".into())]
        );
        assert!(!checkpoints(&sandbox).is_empty(), "{}", point.name());
        sandbox.write("go", "");
        sandbox.segno(&["resume"]).good();
        sandbox.segno(&["doctor"]).good();
    }
    assert!(kills > 5, "{kills}");
}
