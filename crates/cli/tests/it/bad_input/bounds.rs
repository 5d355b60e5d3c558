//! Specs whose templates, schemas or nesting would use all memory, time or stack.

use std::process::Command;

use segno_testkit::sandbox::{ProcessOutput, Sandbox, run_to_end};
use serde_json::Value;

use crate::sandbox;

/// Runs the binary with at most 4 GB of address space.
fn limited(sandbox: &Sandbox, words: &[&str]) -> ProcessOutput {
    let mut command = Command::new("sh");
    sandbox.set_env(&mut command);
    command
        .args(["-c", "ulimit -v 4000000; exec \"$0\" \"$@\""])
        .arg(sandbox.binary())
        .args(words);
    run_to_end(command)
}

/// A chain of one step with this input.
fn write_chain(sandbox: &Sandbox, input: &str, more: &str) {
    sandbox.write("answers.yaml", "default: {text: '{}'}\n");
    let input = Value::from(input);
    let spec = format!(
        "version: 0\nname: chain\nruntime: {{provider: scripted, script: answers.yaml}}\nagents: {{a: {{prompt: p{more}}}}}\npattern: {{type: chain, config: {{steps: [{{agent: a, input: {input}}}]}}}}\n"
    );
    sandbox.write("chain.yaml", &spec);
}

#[test]
fn template_that_grows_without_end_fails_its_step() {
    let hoard = "{% set n = namespace(l=[]) %}{% for i in range(9999) %}{% set n.l = n.l + ['x' * 999999 ~ i] %}{% endfor %}{{ n.l | length }}";
    let doubled = "{% set x = 'xx' %}".to_owned() + &"{% set x = x ~ x %}".repeat(40);
    for input in [hoard, &doubled] {
        let sandbox = sandbox();
        write_chain(&sandbox, input, "");
        sandbox.segno(&["validate", "chain.yaml"]).expect_success();
        limited(&sandbox, &["run", "chain.yaml"]).refused(
            10,
            &["the input of steps/0", "builds too large values", "[W0104]"],
        );
    }
}

#[test]
fn deep_template_is_rejected_by_validate() {
    let deep = [
        format!("{{{{ a{} }}}}", ".a".repeat(200_000)),
        format!("{{{{ a{} }}}}", " ~ a".repeat(200_000)),
        format!("{{% if a %}}{}{{% endif %}}", "{% elif a %}".repeat(50_000)),
    ];
    for input in deep {
        let sandbox = sandbox();
        write_chain(&sandbox, &input, "");
        limited(&sandbox, &["validate", "chain.yaml"])
            .refused(3, &["/input", "nested too deeply", "[W0101]"]);
    }
}

#[test]
fn schema_that_never_ends_is_rejected_by_validate() {
    let sandbox = sandbox();
    write_chain(&sandbox, "i", ", output_schema: {$ref: '#'}");
    limited(&sandbox, &["validate", "chain.yaml"])
        .refused(3, &["/agents/a/output_schema", "never ends", "[W0101]"]);
}

#[test]
fn schema_file_without_a_schema_is_rejected_by_validate() {
    for (content, problem) in [
        ("only words\n", "has a text in it, not a JSON schema"),
        (
            "{\"name\": \"package\", \"version\": \"1\"}",
            "is no JSON schema",
        ),
        ("- type\n", "must be a JSON schema"),
    ] {
        let sandbox = sandbox();
        write_chain(&sandbox, "i", ", output_schema: schema.json");
        sandbox.write("schema.json", content);
        sandbox
            .segno(&["validate", "chain.yaml"])
            .refused(3, &["/agents/a/output_schema", problem, "[W0101]"]);
    }
}
