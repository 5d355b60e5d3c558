//! What is going on, and what happened.

use segno_testkit::sandbox::until;

use crate::commands::{Live, failing_chain, keys, start_waiting, tidy, waiting_chain};
use crate::sandbox;

#[test]
fn status_says_when_there_is_nothing_to_say() {
    let sandbox = sandbox();
    let said = sandbox.segno(&["status"]).good();
    assert_eq!(
        said.stdout,
        "nothing is running, and nothing waits to be resumed\n"
    );
    assert_eq!(sandbox.segno(&["status", "--json"]).good().stdout, "");
}

#[test]
fn status_shows_what_runs_and_what_waits() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox
        .segno(&["run", "chain.yaml", "--name", "stuck"])
        .refused(10, &[]);
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &["--name", "busy"]);
    let said = sandbox.segno(&["status"]).good();
    insta::assert_snapshot!(tidy(&sandbox, &said.stdout), @r"
    NAME  STATUS  DONE  USED  LAST ENTRY  NOW
    busy  running  1 step  [TOOK] ago  steps/1 (process [PID] on [HOST])
    stuck  failed  2 steps  [TOOK] ago  step steps/2 (agent `a`) failed after 1 attempt: no key
    1 session can go on: `segno resume NAME`
    ");
    let lines = sandbox.segno(&["status", "--json"]).good().json();
    insta::assert_snapshot!(keys(&lines[0]), @"chat contexts created_at entries kind memos name owner run session session_kind spec_digest status steps_finished suspended updated_at usage v workspace");
    assert_eq!(keys(&lines[0]["owner"]), "host pid since until");
    assert!(lines[1]["owner"].is_null());
    live.kill();
    let said = sandbox.segno(&["status"]).good();
    assert!(
        said.stdout.contains("interrupted") && said.stdout.contains("2 sessions can go on"),
        "{}",
        said.stdout
    );
    sandbox.write("go", "");
}

#[test]
fn logs_show_every_entry() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    let said = sandbox.segno(&["logs"]).good();
    insta::assert_snapshot!(tidy(&sandbox, &said.stdout), @r"
    [TIME]  1  session chain from [ROOT]/work/chain.yaml
    [TIME]  2  run 1 on [HOST] (process [PID])
    [TIME]  3  … steps/0 a
    [TIME]  4  ✓ steps/0 [TOOK]
    [TIME]  5  … steps/1 a
    [TIME]  6  ✓ steps/1 [TOOK]
    [TIME]  7  … steps/2 a
    [TIME]  8  ✗ steps/2 attempt 1: no key (auth); gives up
    [TIME]  9  failed: step steps/2 (agent `a`) failed after 1 attempt: no key
    ");
    let full = sandbox.segno(&["logs", "chain", "--full"]).good().stdout;
    assert!(
        full.contains("| two after fine") && full.contains("| fine"),
        "{full}"
    );
}

#[test]
fn logs_as_json_are_the_events_that_the_run_printed() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    let run = sandbox
        .segno(&["run", "chain.yaml", "--json"])
        .refused(10, &[])
        .json();
    let logs = sandbox.segno(&["logs", "--json"]).good().json();
    assert_eq!(run[..run.len() - 1], logs[..]);
}

#[test]
fn a_follower_sees_the_run_of_another_process_to_its_end() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 3, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    let follower = Live::start(&sandbox, &["logs", "-f", "--json"]);
    until("the follower sees the step in flight", || {
        follower.stdout().contains("steps/1")
    });
    sandbox.write("go", "");
    live.finish().good();
    let said = follower.finish().good();
    let lines = said.json();
    let last = lines.last().unwrap();
    assert_eq!(
        (&last["kind"], &last["status"]),
        (&"run_ended".into(), &"completed".into())
    );
    let seqs: Vec<_> = lines
        .iter()
        .map(|line| line["seq"].as_u64().unwrap())
        .collect();
    let expected: Vec<u64> = (1..=lines.len() as u64).collect();
    assert_eq!(seqs, expected);
}

#[test]
fn a_follower_ends_when_the_run_is_killed() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    let follower = Live::start(&sandbox, &["logs", "-f", "chain"]);
    until("the follower sees the step in flight", || {
        follower.stdout().contains("steps/1")
    });
    live.kill();
    follower.finish().good();
}
