//! What others change in the workspace while a session has no run, with every kind of agent.

use segno_testkit::model::{ModelResponse, ModelServer};
use segno_testkit::sandbox::{ProcessOutput, Sandbox, run_to_end};

use crate::sandbox;

fn git(sandbox: &Sandbox, words: &[&str]) {
    let mut command = std::process::Command::new("git");
    command.current_dir(sandbox.work()).args(words);
    run_to_end(command).expect_success();
}

/// A repository with a commit, a chain of three steps, and a model server for those of models.
fn repository(provider: &str) -> (Sandbox, ModelServer) {
    let (sandbox, server) = (
        sandbox(),
        ModelServer::start(|_, _| ModelResponse::Text("done".into())),
    );
    // Every step of the program changes a file, as agents do.
    sandbox.write_script(
        "agent.sh",
        "#!/bin/sh\ncat > /dev/null\necho 1 > \"made-$(basename $SEGNO_STEP)\"\necho done\n",
    );
    let runtime = match provider {
        "command" => "provider: command, command: [./agent.sh]".to_owned(),
        _ => format!(
            "provider: ollama, model_id: small-1, host: \"{}\"",
            server.host()
        ),
    };
    sandbox.write(
        "chain.yaml",
        &format!(
            "version: 0\nname: chain\nruntime: {{{runtime}}}\nagents: {{a: {{prompt: Answer.}}}}\npattern: {{type: chain, config: {{steps: [{{agent: a, input: x}}, {{agent: a, input: y}}, {{agent: a, input: z}}]}}}}\n"
        ),
    );
    for words in [
        &["init", "-q", "-b", "main"][..],
        &["config", "user.name", "Ada"],
        &["config", "user.email", "ada@example.org"],
        &["add", "chain.yaml", "agent.sh"],
        &["commit", "-q", "-m", "Begin"],
    ] {
        git(&sandbox, words);
    }
    (sandbox, server)
}

/// Kills a run after its first step, before its second agent is called.
fn crash(sandbox: &Sandbox) {
    let mut command = sandbox.command(&["run", "chain.yaml"]);
    command.env("SEGNO_FAILPOINT", "step.before_effect:2");
    let output = run_to_end(command);
    assert!(output.crashed(), "{output:?}");
}

fn resume(sandbox: &Sandbox, on_drift: &str) -> ProcessOutput {
    sandbox.segno(&["resume", "chain", "--on-drift", on_drift])
}

/// What someone does to the workspace, and how segno names it.
const CHANGES: [(&[&str], &str); 3] = [
    (
        &["checkout", "-q", "-b", "other"],
        "the branch was main and is now other",
    ),
    (
        &["commit", "-q", "--allow-empty", "-m", "Another"],
        "the commit was ",
    ),
    (
        &["mv", "agent.sh", "moved.sh"],
        "differed from the commit; now ",
    ),
];

#[test]
fn changes_after_a_kill_are_reported_or_refused() {
    for provider in ["command", "model"] {
        for (change, named) in CHANGES {
            let (sandbox, _server) = repository(provider);
            crash(&sandbox);
            git(&sandbox, change);
            resume(&sandbox, "refuse").refused(22, &[named]);
            if change[0] == "mv" {
                git(&sandbox, &["mv", "moved.sh", "agent.sh"]);
                resume(&sandbox, "refuse").expect_success();
                continue;
            }
            let output = resume(&sandbox, "warn").expect_success();
            assert!(output.stderr.contains(named), "{provider} {output:?}");
            assert!(
                output
                    .stderr
                    .contains("(by others, or by the step that was in flight)"),
                "{output:?}"
            );
        }
    }
}

#[test]
fn changes_after_a_failure_are_reported_for_programs() {
    let (sandbox, _server) = repository("command");
    let agent = sandbox.read("agent.sh");
    sandbox.write_script("agent.sh", "#!/bin/sh\nexit 1\n");
    git(&sandbox, &["commit", "-q", "-a", "-m", "Break it"]);
    sandbox
        .segno(&["run", "chain.yaml"])
        .refused(10, &["exited with code 1"]);
    resume(&sandbox, "refuse").refused(10, &["exited with code 1"]);
    sandbox.write_script("agent.sh", &agent);
    resume(&sandbox, "refuse").refused(22, &["0 files differed from the commit; now 1 do"]);
    let output = resume(&sandbox, "accept").expect_success();
    assert!(
        !output.stderr.contains("the workspace changed"),
        "{output:?}"
    );
}

#[test]
fn own_changes_are_no_drift() {
    for provider in ["command", "model"] {
        let (sandbox, _server) = repository(provider);
        crash(&sandbox);
        let output = resume(&sandbox, "refuse").expect_success();
        assert!(
            !output.stderr.contains("the workspace changed"),
            "{output:?}"
        );
    }
}
