//! P12: secrets stay in the environment.

use super::{start_waiting, waiting_chain};
use std::fs;
use std::os::unix::fs::PermissionsExt;

use segno_testkit::sandbox::{Sandbox, chain_spec, run_to_end};

use crate::commands::{edit, tree};
use crate::sandbox;

const CANARY: &str = "canary-Zq7Xw2Lm9Rt4Vb8Kc3Np6Ys1Hd5";

/// Asserts that no stored file contains the canary.
#[track_caller]
fn assert_clean(sandbox: &Sandbox) {
    let files = [
        tree(&sandbox.home()),
        tree(&sandbox.work().join("artifacts")),
    ]
    .concat();
    for path in files.iter().filter(|path| path.is_file()) {
        let bytes = fs::read(path).unwrap();
        let found = bytes
            .windows(CANARY.len())
            .any(|part| part == CANARY.as_bytes());
        assert!(!found, "the secret is in {}", path.display());
        assert!(!path.display().to_string().contains(CANARY));
    }
}

#[test]
fn environment_secret_is_never_stored_or_shown() {
    let sandbox = sandbox();
    // The agent prints it in its answers, and in its error message when it fails.
    sandbox.write_script(
        "agent.sh",
        "#!/bin/sh\ncat\nif [ \"$SEGNO_STEP\" = steps/1 ] && [ ! -e tried ]; then\n  touch tried\n  echo \"bad key: $MY_API_TOKEN\" >&2\n  exit 1\nfi\nprintf 'key=%s and again %s\\n' \"$MY_API_TOKEN\" \"$MY_API_TOKEN\"\n",
    );
    let runtime = "{provider: command, command: [./agent.sh], failure_policy: {retries: 1, wait_min: 0, wait_max: 0}}";
    sandbox.write("chain.yaml", &chain_spec(runtime, 3));
    edit(
        &sandbox,
        "input: begin",
        &format!("input: \"use {CANARY} and {{{{ key }}}}\""),
    );
    edit(
        &sandbox,
        "name: chain",
        "name: chain\nenv: {pass: [MY_API_TOKEN]}\ninputs: {required: {key: string}}",
    );
    let segno = |words: &[&str]| {
        let mut command = sandbox.command(words);
        command.env("MY_API_TOKEN", CANARY);
        let output = run_to_end(command).expect_success();
        assert!(!output.stdout.contains(CANARY), "{}", output.stdout);
        assert!(!output.stderr.contains(CANARY), "{}", output.stderr);
        output
    };
    let variable = format!("key={CANARY}");
    let output = segno(&["run", "chain.yaml", "--var", &variable]);
    assert!(output.stderr.contains("bad key"), "{}", output.stderr);
    assert!(
        output.stderr.contains("variable `key` looks like a secret"),
        "{}",
        output.stderr
    );
    assert!(sandbox.read("artifacts/out.txt").contains("and again"));
    segno(&["run", "chain.yaml", "--var", &variable, "--json", "--force"]);
    for words in [
        &["logs", "--full"][..],
        &["logs", "--json"],
        &["show", "chain"],
        &["show", "chain", "--json"],
        &["doctor"],
    ] {
        segno(words);
    }
    assert_clean(&sandbox);
}

#[test]
fn secret_in_the_error_of_a_failed_run_is_redacted() {
    let sandbox = sandbox();
    sandbox.command_chain(1, "echo \"denied for $MY_API_TOKEN\" >&2; exit 3");
    edit(
        &sandbox,
        "command: [./agent.sh]",
        "command: [./agent.sh], failure_policy: {retries: 0}",
    );
    edit(
        &sandbox,
        "name: chain",
        "name: chain\nenv: {pass: [MY_API_TOKEN]}",
    );
    for json in [false, true] {
        let mut command = sandbox.command(&["run", "chain.yaml"]);
        command
            .env("MY_API_TOKEN", CANARY)
            .args(json.then_some("--json"));
        let output = run_to_end(command).refused(10, &["denied for"]);
        assert!(!output.stdout.contains(CANARY), "{}", output.stdout);
        assert!(!output.stderr.contains(CANARY), "{}", output.stderr);
    }
    let mut command = sandbox.command(&["status"]);
    command.env("MY_API_TOKEN", CANARY);
    assert!(!run_to_end(command).expect_success().stdout.contains(CANARY));
    let files = tree(&sandbox.home());
    for path in files.iter().filter(|path| path.is_file()) {
        let bytes = fs::read(path).unwrap();
        assert!(
            !bytes
                .windows(CANARY.len())
                .any(|part| part == CANARY.as_bytes()),
            "{}",
            path.display()
        );
    }
}

#[test]
fn secret_is_not_on_disk_during_a_run() {
    let sandbox = sandbox();
    super::waiting_chain(&sandbox, 2, 1);
    edit(
        &sandbox,
        "input: begin",
        &format!("input: \"use {CANARY}\""),
    );
    let mut command = sandbox.command(&["run", "chain.yaml"]);
    command
        .env("MY_API_TOKEN", CANARY)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let child = command.spawn().unwrap();
    segno_testkit::sandbox::wait_until("the agent waits", || !sandbox.read("agent.pid").is_empty());
    fs::create_dir(sandbox.work().join("artifacts")).unwrap();
    assert_clean(&sandbox);
    sandbox.write("go", "");
    segno_testkit::sandbox::wait_for_output(child).expect_success();
    assert_clean(&sandbox);
}

#[test]
fn all_stored_files_are_private() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    edit(&sandbox, "input: begin", "input: \"{{ 'x' * 70000 }}\"");
    // Checks the files while they are in use, the database's WAL among them.
    let (live, _) = start_waiting(&sandbox, &[]);
    let all = [tree(&sandbox.home()), vec![sandbox.home()]].concat();
    let names: Vec<_> = all
        .iter()
        .filter_map(|path| path.file_name()?.to_str())
        .collect();
    for name in [
        "journal.db",
        "journal.db-wal",
        "journal.db-shm",
        "lock",
        "blobs",
        "heads",
    ] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    for path in &all {
        let metadata = path.metadata().unwrap();
        let expected = if metadata.is_dir() { 0o700 } else { 0o600 };
        let mode = metadata.permissions().mode() & 0o7777;
        assert_eq!(mode, expected, "{} has {mode:o}", path.display());
    }
    sandbox.write("go", "");
    live.finish().expect_success();
}

#[test]
fn secrets_in_names_are_not_stored_or_shown() {
    let sandbox = sandbox();
    sandbox.command_chain(1, "");
    edit(&sandbox, "name: chain", &format!("name: deploy-{CANARY}"));
    edit(&sandbox, "out.txt", &format!("{CANARY}.txt"));
    let git = |words: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.current_dir(sandbox.work()).args(words);
        run_to_end(command).expect_success();
    };
    git(&["init", "-q", "-b", &format!("fix/{CANARY}")]);
    let segno = |words: &[&str]| {
        let mut command = sandbox.command(words);
        command.env("MY_API_TOKEN", CANARY);
        let output = run_to_end(command);
        assert!(!output.stdout.contains(CANARY), "{}", output.stdout);
        assert!(!output.stderr.contains(CANARY), "{}", output.stderr);
        output
    };
    let given = format!("deploy-{CANARY}");
    segno(&["run", "chain.yaml", "--name", &given]).refused(2, &["[S0119]", "hint:"]);
    assert!(sandbox.calls().is_empty());
    segno(&["run", "chain.yaml"]).expect_success();
    let written = sandbox.work().join(format!("artifacts/{CANARY}.txt"));
    assert!(written.exists());
    let listed = segno(&["sessions", "list", "--json"]).json();
    let name = listed[0]["name"].as_str().unwrap();
    assert_eq!(name, "deploy-secret");
    segno(&["fork", name, "--name", &given]).refused(2, &["[S0119]"]);
    segno(&["checkpoint", "create", name]).expect_success();
    for words in [
        &["show", name][..],
        &["show", name, "--json"],
        &["logs", name, "--full", "--json"],
        &["checkpoint", "list", name, "--json"],
        &["status", "--json"],
        &["doctor"],
    ] {
        segno(words);
    }
    // Snapshots have the files as they are, `.git/HEAD` and the spec among them.
    fs::remove_dir_all(sandbox.home().join("snapshots")).unwrap();
    fs::remove_file(written).unwrap();
    assert_clean(&sandbox);
}
