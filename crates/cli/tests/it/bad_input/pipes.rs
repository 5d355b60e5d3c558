//! Closed pipes: a run continues when nobody reads its output.

use std::process::Command;

use segno_testkit::sandbox::{ProcessOutput, Sandbox, run_to_end};

use crate::commands::{failing_chain, session_statuses, waiting_chain};
use crate::sandbox;

/// Runs a line of shell, in which `segno` is the binary.
fn shell(sandbox: &Sandbox, line: &str) -> ProcessOutput {
    let mut command = Command::new("sh");
    sandbox.set_env(&mut command);
    command.env("SEGNO", sandbox.binary());
    command.args(["-c", &format!("segno() {{ \"$SEGNO\" \"$@\"; }}\n{line}")]);
    run_to_end(command)
}

#[test]
fn command_with_a_closed_pipe_ends_silently() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    for command in [
        "sessions list",
        "sessions list --json",
        "status",
        "logs --full",
        "show chain",
        "doctor",
        "--help",
        "--version",
        "completion bash",
    ] {
        for end in ["| head -0", ">&-", "| true"] {
            let output = shell(
                &sandbox,
                &format!("{{ segno {command}; echo $? > code; }} {end}"),
            );
            assert_eq!(output.stderr, "", "{command} {end}");
            if end != ">&-" {
                assert_eq!(sandbox.read("code"), "0\n", "{command} {end}");
            }
        }
    }
}

#[test]
fn run_with_closed_pipes_completes_and_is_stored() {
    for end in [
        "| head -0",
        ">&-",
        "2>&-",
        ">&- 2>&- <&-",
        "2>&1 | head -0",
        "--json | head -0",
    ] {
        let sandbox = sandbox();
        sandbox.scripted_chain(5, 5);
        let (flags, end) = match end.strip_prefix("--json") {
            Some(end) => ("--json", end),
            None => ("", end),
        };
        shell(
            &sandbox,
            &format!("{{ \"$SEGNO\" run chain.yaml {flags}; echo $? > code; }} {end}"),
        );
        assert_eq!(sandbox.read("code"), "0\n", "{end}");
        assert_eq!(sandbox.calls().len(), 5, "{end}");
        assert_eq!(
            session_statuses(&sandbox),
            [("chain".into(), "completed".into())],
            "{end}"
        );
        assert_eq!(sandbox.read("artifacts/out.txt").len(), 2048, "{end}");
        sandbox.segno(&["doctor"]).expect_success();
    }
}

#[test]
fn follower_ends_when_its_reader_closes_the_pipe() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 30, 1);
    let (live, _) = crate::commands::start_waiting(&sandbox, &[]);
    let line = "{ segno logs -f --json; echo $? > code; } | head -n 2 > /dev/null";
    let mut command = Command::new("sh");
    sandbox.set_env(&mut command);
    command.env("SEGNO", sandbox.binary());
    command.args(["-c", &format!("segno() {{ \"$SEGNO\" \"$@\"; }}\n{line}")]);
    let child = command.spawn().unwrap();
    // The follower notices the closed pipe only when it writes something new.
    sandbox.write("go", "");
    live.finish().expect_success();
    segno_testkit::sandbox::wait_for_output(child);
    assert_eq!(sandbox.read("code"), "0\n");
}
