//! Specs that cannot be run.

use std::fmt::Write;
use std::fs;

use crate::bad_input::assert_nothing_stored;
use crate::commands::{edit, normalize, scripted};
use crate::sandbox;

const GOOD: &str = "version: 0\nname: x\nruntime: {provider: scripted, script: answers.yaml}\nagents: {a: {prompt: p}}\npattern: {type: chain, config: {steps: [{agent: a, input: x}]}}\n";

/// Asserts that both commands that read a spec refuse it with the same message.
#[track_caller]
fn assert_refused(content: &[u8], code: i32, words: &[&str]) {
    let sandbox = sandbox();
    sandbox.write("answers.yaml", "default: {text: fine}\n");
    fs::write(sandbox.work().join("spec.yaml"), content).unwrap();
    let validated = sandbox
        .segno(&["validate", "spec.yaml"])
        .refused(code, words);
    let run = sandbox.segno(&["run", "spec.yaml"]).refused(code, words);
    assert_eq!(validated.stderr, run.stderr);
    assert!(run.stderr.contains("spec.yaml"), "{}", run.stderr);
    assert_eq!(run.stdout, "");
    assert_nothing_stored(&sandbox);
}

#[test]
fn broken_yaml_is_reported_with_its_line() {
    assert_refused(
        b"version: 0\nname: [\n",
        3,
        &["line 2", "unclosed bracket", "[W0101]"],
    );
    assert_refused(b"", 3, &["empty", "[W0101]"]);
    assert_refused(b"version: 0\0", 3, &["line 1", "[W0101]"]);
    assert_refused(b"just words", 3, &["[W0101]"]);
    assert_refused(
        b"version: 0\nversion: 0\n",
        3,
        &["line 2", "version", "[W0101]"],
    );
}

#[test]
fn broken_json_is_reported_with_its_line() {
    assert_refused(b"{\"version\": 0,\n\"name\": \n", 3, &["line", "[W0101]"]);
}

#[test]
fn unknown_key_is_reported_with_the_nearest_one() {
    let spec = GOOD.replace("runtime:", "runtme:");
    assert_refused(
        spec.as_bytes(),
        3,
        &["/runtme (line 3): unknown key; did you mean `runtime`?"],
    );
    let spec = GOOD.replace("prompt:", "promt:");
    assert_refused(
        spec.as_bytes(),
        3,
        &["/agents/a/promt (line 4)", "did you mean `prompt`?"],
    );
}

#[test]
fn version_that_is_no_number_or_string_is_refused() {
    let spec = GOOD.replace("version: 0", "version: [7]");
    assert_refused(spec.as_bytes(), 3, &["/version (line 1)", "not [7]"]);
}

#[test]
fn yaml_alias_bomb_is_refused() {
    let mut spec = String::from("version: 0\nname: x\na0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for n in 1..12 {
        let before = vec![format!("*a{}", n - 1); 9].join(", ");
        writeln!(spec, "a{n}: &a{n} [{before}]").unwrap();
    }
    assert_refused(
        spec.as_bytes(),
        3,
        &["too many values", "aliases", "[W0101]"],
    );
}

#[test]
fn too_deeply_nested_spec_is_refused() {
    let spec = format!(
        "version: 0\nname: {}{}",
        "[".repeat(20_000),
        "]".repeat(20_000)
    );
    assert_refused(spec.as_bytes(), 3, &["line 2", "[W0101]"]);
}

#[test]
fn a_spec_that_is_too_long_is_not_read() {
    let spec = format!("# {}\n{GOOD}", "x".repeat(10 << 20));
    assert_refused(
        spec.as_bytes(),
        12,
        &["longer than 10485760 bytes", "[F0201]"],
    );
}

#[test]
fn spec_that_is_not_utf_8_is_refused() {
    assert_refused(b"\x7fELF\xff\xfe\0\0", 12, &["not UTF-8 text", "[F0201]"]);
}

#[test]
fn spec_that_is_not_a_file_is_refused_without_blocking() {
    let sandbox = sandbox();
    let fifo = std::ffi::CString::new("fifo.yaml").unwrap();
    let folder = fs::File::open(sandbox.work()).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(&folder, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    fs::create_dir(sandbox.work().join("folder.yaml")).unwrap();
    for name in ["fifo.yaml", "folder.yaml", "/dev/zero", "."] {
        sandbox
            .segno(&["run", name])
            .refused(12, &[name, "not a regular file", "[F0201]"]);
    }
    sandbox
        .segno(&["run", "nowhere.yaml"])
        .refused(12, &["nowhere.yaml", "No such file", "[F0201]"]);
    assert_nothing_stored(&sandbox);
}

#[test]
fn missing_variable_is_named_with_a_hint() {
    let sandbox = sandbox();
    scripted(
        &sandbox,
        &["input: \"{{ topic }}\""],
        "default: {text: fine}",
    );
    edit(
        &sandbox,
        "name: chain",
        "name: chain\ninputs: {required: {topic: string, count: integer}, optional: {tone: {type: string, enum: [dry, warm]}}}",
    );
    let output = sandbox.segno(&[
        "run",
        "chain.yaml",
        "--var",
        "count=many",
        "--var",
        "tpoic=x",
        "--var",
        "tone=cold",
    ]);
    let output = output.refused(3, &[]);
    insta::assert_snapshot!(normalize(&sandbox, &output.stderr), @r#"
    error: [ROOT]/work/chain.yaml cannot run: its inputs are not valid [W0103]
      cause: input `count` must be of type integer, not "many"
             input `tone` must be one of "dry", "warm", not "cold"
             input `topic` (string) is missing
             the workflow has no input `tpoic`; did you mean `topic`?
      hint: give it with `--var topic=…`
    "#);
    assert!(sandbox.calls().is_empty());
    assert_nothing_stored(&sandbox);
}

#[test]
fn a_variable_given_twice_or_without_a_value_is_refused() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    sandbox
        .segno(&["run", "chain.yaml", "--var", "one=1", "--var", "one=2"])
        .refused(2, &["variable `one` is given twice"]);
    sandbox
        .segno(&["run", "chain.yaml", "--var", "a"])
        .refused(2, &["--var", "NAME=VALUE"]);
    sandbox
        .segno(&["run", "chain.yaml", "--var", "=1"])
        .refused(3, &["no input ``"]);
    assert_nothing_stored(&sandbox);
}

#[test]
fn names_in_a_spec_cannot_control_the_terminal() {
    let spec = GOOD.replace("name: x", "name: \"x\\e[31m\"");
    assert_refused(
        spec.as_bytes(),
        3,
        &["/name (line 2)", "control characters"],
    );
    let spec = GOOD.replace("agents:", "\"a\\e]0;title\\a\": 1\nagents:");
    assert_refused(spec.as_bytes(), 3, &["unknown key"]);
}

#[test]
fn a_script_that_cannot_be_used_is_named() {
    let sandbox = sandbox();
    sandbox.write("spec.yaml", GOOD);
    sandbox
        .segno(&["run", "spec.yaml"])
        .refused(12, &["answers.yaml", "No such file", "[F0201]"]);
    sandbox.write("answers.yaml", "answers:\n  - txet: a\n");
    sandbox
        .segno(&["run", "spec.yaml"])
        .refused(12, &["answers.yaml", "txet", "line 2", "[F0201]"]);
    assert_nothing_stored(&sandbox);
}
