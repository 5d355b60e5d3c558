//! The console blocks of guide pages: every command runs, and prints the lines that the page shows.
//!
//! A page may omit lines. What differs from run to run (ids, times, sizes) is not compared.

#![expect(
    clippy::disallowed_methods,
    reason = "the test reads pages of the guide"
)]

use std::fs;
use std::path::Path;

use segno_testkit::sandbox::{Sandbox, wait_until};

use crate::commands::{Live, normalize};
use crate::sandbox;
use crate::worker::Working;

/// A command of a page, and the lines that the page shows below it.
struct Example {
    words: Vec<String>,
    shown: Vec<String>,
}

/// The commands of all console blocks of a page. A quoted word has no escapes.
fn examples(page: &str) -> Vec<Example> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide");
    let text = fs::read_to_string(path.join(page)).unwrap();
    let mut examples: Vec<Example> = Vec::new();
    let blocks = text.split("```console\n").skip(1);
    for line in blocks.flat_map(|block| block.split("```").next().unwrap().lines()) {
        match line.strip_prefix("$ segno ") {
            Some(command) => examples.push(Example {
                words: command.split(' ').map(str::to_owned).collect(),
                shown: Vec::new(),
            }),
            None => examples.last_mut().unwrap().shown.push(line.to_owned()),
        }
    }
    examples
}

/// Runs the commands of a page in their order.
fn assert_page_is_true(sandbox: &Sandbox, page: &str) {
    let examples = examples(page);
    assert!(!examples.is_empty(), "{page}");
    for Example { words, shown } in examples {
        let place = format!("{page}: segno {}", words.join(" "));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = sandbox.segno(&words);
        let fails = shown.iter().any(|line| line.starts_with("error: "));
        assert_ne!(output.status.success(), fails, "{place}: {output:?}");
        let printed = normalize(sandbox, &format!("{}{}", output.stdout, output.stderr));
        let mut printed_lines = printed.lines();
        for line in normalize(sandbox, &shown.join("\n")).lines() {
            let found = printed_lines.any(|printed| printed == line);
            assert!(found, "{place}: `{line}` is not in:\n{printed}");
        }
    }
}

/// A chain of scripted steps of one agent.
fn chain(sandbox: &Sandbox, name: &str, provider: &str, steps: usize) {
    let steps = vec!["{agent: writer, input: go}"; steps].join(", ");
    sandbox.write(
        &format!("{name}.yaml"),
        &format!(
            "version: 0\nname: {name}\nruntime: {{{provider}, failure_policy: {{retries: 0}}}}\nagents: {{writer: {{prompt: Answer.}}}}\npattern: {{type: chain, config: {{steps: [{steps}]}}}}\n"
        ),
    );
}

const SCRIPTED: &str = "provider: scripted, script: answers.yaml";

/// A session `report` that failed in its third step, for a reason that is gone.
fn failed_report(sandbox: &Sandbox) {
    chain(sandbox, "report", SCRIPTED, 3);
    let fails = "answers: [{step: steps/2, fail: {kind: auth, message: no key}}]\n";
    sandbox.write("answers.yaml", &format!("{fails}default: {{text: fine}}\n"));
    sandbox.segno(&["run", "report.yaml"]).refused(10, &[]);
    sandbox.write("answers.yaml", "default: {text: fine}\n");
}

/// A session `nightly` whose run was killed in its second step.
fn killed_nightly(sandbox: &Sandbox) {
    let script = "cat >/dev/null; if [ $SEGNO_STEP = steps/1 ]; then echo $$ > agent.pid; while [ ! -e go ]; do sleep 0.01; done; fi; echo fine";
    let provider = format!("provider: command, command: [sh, -c, '{script}']");
    chain(sandbox, "nightly", &provider, 2);
    let live = Live::start(sandbox, &["run", "nightly.yaml"]);
    wait_until("the agent waits", || {
        sandbox.read("agent.pid").ends_with('\n')
    });
    live.kill();
    sandbox.write("go", "");
}

#[test]
fn troubleshooting_shows_what_commands_print() {
    let sandbox = sandbox();
    failed_report(&sandbox);
    killed_nightly(&sandbox);
    assert_page_is_true(&sandbox, "troubleshooting.md");
}

#[test]
fn production_shows_what_commands_print() {
    let sandbox = sandbox();
    failed_report(&sandbox);
    assert_page_is_true(&sandbox, "production.md");
}

#[test]
fn background_shows_what_commands_print() {
    let sandbox = sandbox();
    chain(&sandbox, "report", SCRIPTED, 3);
    sandbox.write("answers.yaml", "default: {text: fine}\n");
    let _worker = Working::start(&sandbox);
    assert_page_is_true(&sandbox, "background.md");
}

#[test]
fn agent_state_shows_what_commands_print() {
    let sandbox = sandbox();
    failed_report(&sandbox);
    assert_page_is_true(&sandbox, "agent-state.md");
}

#[test]
fn notices_shows_what_commands_print() {
    let sandbox = sandbox();
    sandbox.configure("[[notices]]\nto = 'command'\nname = 'phone'\ncommand = ['true']\n");
    assert_page_is_true(&sandbox, "notices.md");
}
