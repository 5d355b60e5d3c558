//! Which environment variables the programs of agents get.

use std::collections::BTreeSet;

use segno_testkit::sandbox::{ProcessOutput, Sandbox, run_to_end};

use crate::sandbox;

/// A program that writes down the names of its variables, in the place of any agent.
const RECORDER: &str = "#!/bin/sh\nenv | sed -n 's/=.*//p' > names\nexit 1\n";

/// Every kind of agent that is a program of its own.
const PROVIDERS: [&str; 4] = ["claude-code", "codex", "acp", "command"];

/// Variables that a developer may have, some of them secrets.
const VARIABLES: [&str; 12] = [
    "JAVA_HOME",
    "CARGO_HOME",
    "NVM_DIR",
    "SSH_AUTH_SOCK",
    "HTTPS_PROXY",
    "XDG_CONFIG_HOME",
    "GIT_AUTHOR_NAME",
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GITHUB_TOKEN",
    "TEAM_DB_PASSWORD",
    "TEAM_API_KEY",
];

fn segno(sandbox: &Sandbox, words: &[&str]) -> ProcessOutput {
    let mut command = sandbox.command(words);
    command.envs(VARIABLES.map(|name| (name, "value-Zq7Xw2Lm9Rt4Vb8")));
    run_to_end(command)
}

/// The variables of [`VARIABLES`] that an agent gets.
fn received(sandbox: &Sandbox, provider: &str, spec: &str) -> BTreeSet<String> {
    let program = match provider {
        "acp" | "command" => ", command: [./recorder]",
        _ => "",
    };
    sandbox.write("names", "");
    sandbox.write(
        "task.yaml",
        &format!(
            "version: 0\nname: task\n{spec}runtime: {{provider: {provider}{program}, failure_policy: {{retries: 0}}}}\nagents: {{a: {{prompt: Briefly.}}}}\npattern: {{type: chain, config: {{steps: [{{agent: a, input: go}}]}}}}\n"
        ),
    );
    segno(sandbox, &["run", "task.yaml"]).refused(10, &[]);
    let names = sandbox.read("names");
    let known = names.lines().filter(|name| VARIABLES.contains(name));
    known.map(str::to_owned).collect()
}

/// A sandbox in which every program of an agent is the recorder.
fn recorder(settings: &str) -> Sandbox {
    let sandbox = sandbox();
    let program = sandbox.write_script("recorder", RECORDER);
    let program = program.display().to_string();
    sandbox.configure(&format!(
        "{settings}\n[claude-code]\nprogram = {program:?}\n[codex]\nprogram = {program:?}\n"
    ));
    sandbox
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn agents_get_no_secrets_of_others() {
    let sandbox = recorder("");
    for provider in PROVIDERS {
        let withheld: &[&str] = match provider {
            "claude-code" => &["OPENAI_API_KEY"],
            "codex" => &["ANTHROPIC_API_KEY"],
            // The vendor is unknown.
            _ => &[],
        };
        let mut expected = set(&VARIABLES[..9]);
        expected.retain(|name| !withheld.contains(&name.as_str()));
        assert_eq!(received(&sandbox, provider, ""), expected, "{provider}");
    }
}

#[test]
fn variables_are_passed_by_name() {
    for (settings, spec, passed) in [
        ("", "env: {pass: [GITHUB_TOKEN]}\n", &["GITHUB_TOKEN"][..]),
        (
            "[env]\npass = [\"TEAM_*\"]",
            "",
            &["TEAM_DB_PASSWORD", "TEAM_API_KEY"],
        ),
        ("[env]\npass = [\"*\"]", "", &VARIABLES[9..]),
    ] {
        let sandbox = recorder(settings);
        for provider in PROVIDERS {
            let received = received(&sandbox, provider, spec);
            let secrets = received
                .iter()
                .filter(|name| VARIABLES[9..].contains(&name.as_str()));
            let secrets: BTreeSet<String> = secrets.cloned().collect();
            assert_eq!(secrets, set(passed), "{provider} {settings} {spec}");
        }
    }
}

#[test]
fn codex_gets_the_keys_that_its_settings_name() {
    let sandbox = recorder("");
    let home = sandbox.work().join("../.codex");
    sandbox.write(
        "../.codex/config.toml",
        "[model_providers.team]\nenv_key = \"TEAM_API_KEY\"\n",
    );
    assert!(home.join("config.toml").exists());
    let received = received(&sandbox, "codex", "");
    assert!(received.contains("TEAM_API_KEY"), "{received:?}");
    assert!(!received.contains("TEAM_DB_PASSWORD"), "{received:?}");
}

#[test]
fn doctor_names_the_variables_that_agents_do_not_get() {
    let sandbox = recorder("[env]\npass = [\"TEAM_API_KEY\"]");
    let output = segno(&sandbox, &["doctor"]).expect_success();
    assert!(
        output
            .stdout
            .contains("agents do not get GITHUB_TOKEN, TEAM_DB_PASSWORD, which"),
        "{}",
        output.stdout
    );
    assert!(!output.stdout.contains("value-Zq7"), "{}", output.stdout);
    let lines = segno(&sandbox, &["doctor", "--json"])
        .expect_success()
        .json();
    let line = lines.iter().find(|line| line["kind"] == "environment");
    assert_eq!(
        line.unwrap()["withheld"],
        serde_json::json!(["GITHUB_TOKEN", "TEAM_DB_PASSWORD"])
    );
}

#[test]
fn names_to_pass_are_validated() {
    let sandbox = recorder("[env]\npass = [\"A B\"]");
    segno(&sandbox, &["status"]).refused(2, &["`env.pass` must contain names"]);
    let sandbox = recorder("");
    sandbox.scripted_chain(1, 0);
    let spec = sandbox.read("chain.yaml");
    sandbox.write("chain.yaml", &(spec + "env: {pass: [\"*\"]}\n"));
    segno(&sandbox, &["validate", "chain.yaml"])
        .refused(3, &["is not the name of an environment variable"]);
}
