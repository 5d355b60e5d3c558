//! `segno status` and `segno logs`.

use segno_testkit::sandbox::wait_until;

use crate::commands::{Live, failing_chain, keys, normalize, start_waiting, waiting_chain};
use crate::sandbox;

#[test]
fn status_without_sessions_says_so() {
    let sandbox = sandbox();
    let output = sandbox.segno(&["status"]).expect_success();
    assert_eq!(output.stdout, "no running or resumable sessions\n");
    assert_eq!(
        sandbox.segno(&["status", "--json"]).expect_success().stdout,
        ""
    );
}

#[test]
fn status_shows_running_and_waiting_sessions() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox
        .segno(&["run", "chain.yaml", "--name", "stuck"])
        .refused(10, &[]);
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &["--name", "busy"]);
    let output = sandbox.segno(&["status"]).expect_success();
    insta::assert_snapshot!(normalize(&sandbox, &output.stdout), @r"
    NAME  STATUS  SESSION NO  DONE  USED  LAST EVENT  NOW
    busy  running  1  1 step  [TOOK] ago  steps/1 (process [PID] on [HOST])
    stuck  failed  1  2 steps  [TOOK] ago  step steps/2 (agent `a`) failed after 1 attempt: no key
    1 session can be resumed: `segno resume NAME`
    ");
    let lines = sandbox.segno(&["status", "--json"]).expect_success().json();
    insta::assert_snapshot!(keys(&lines[0]), @"chat contexts created_at events kind name notes owner pattern run session session_kind session_number spec_digest status steps_finished suspended unknown_steps updated_at usage v workspace");
    assert_eq!(keys(&lines[0]["owner"]), "host pid since stopped until");
    assert!(lines[1]["owner"].is_null());
    live.kill();
    let output = sandbox.segno(&["status"]).expect_success();
    assert!(
        output.stdout.contains("interrupted")
            && output.stdout.contains("2 sessions can be resumed"),
        "{}",
        output.stdout
    );
    sandbox.write("go", "");
}

#[test]
fn logs_show_every_event() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    let output = sandbox.segno(&["logs"]).expect_success();
    insta::assert_snapshot!(normalize(&sandbox, &output.stdout), @r"
    [TIME]  1  session chain from [ROOT]/work/chain.yaml
    [TIME]  2  session number 1 on [HOST] (process [PID])
    [TIME]  3  … steps/0 a
    [TIME]  4  ✓ steps/0 [TOOK]
    [TIME]  5  … steps/1 a
    [TIME]  6  ✓ steps/1 [TOOK]
    [TIME]  7  … steps/2 a
    [TIME]  8  ✗ steps/2 attempt 1: no key (auth); gives up
    [TIME]  9  failed: step steps/2 (agent `a`) failed after 1 attempt: no key
    ");
    let full = sandbox
        .segno(&["logs", "chain", "--full"])
        .expect_success()
        .stdout;
    assert!(
        full.contains("| two after fine") && full.contains("| fine"),
        "{full}"
    );
}

#[test]
fn logs_as_json_match_the_events_of_the_run() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    let run = sandbox
        .segno(&["run", "chain.yaml", "--json"])
        .refused(10, &[])
        .json();
    let logs = sandbox.segno(&["logs", "--json"]).expect_success().json();
    assert_eq!(run[..run.len() - 1], logs[..]);
}

#[test]
fn follower_shows_the_run_of_another_process_to_its_end() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 3, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    let follower = Live::start(&sandbox, &["logs", "-f", "--json"]);
    wait_until("the follower sees the step in flight", || {
        follower.stdout().contains("steps/1")
    });
    sandbox.write("go", "");
    live.finish().expect_success();
    let output = follower.finish().expect_success();
    let lines = output.json();
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
    wait_until("the follower sees the step in flight", || {
        follower.stdout().contains("steps/1")
    });
    live.kill();
    follower.finish().expect_success();
}
