//! Help texts.

use std::fmt::Write;

use segno_testkit::sandbox::Sandbox;

use crate::commands::normalize;
use crate::sandbox;

/// Appends the help of a command and of all its subcommands.
fn help(sandbox: &Sandbox, command: &[&str], all: &mut String) {
    let words = [command, &["--help"]].concat();
    let output = sandbox.segno(&words).expect_success();
    assert_eq!(output.stderr, "");
    let lines: Vec<&str> = output.stdout.lines().map(str::trim_end).collect();
    let (words, text) = (words.join(" "), lines.join("\n"));
    writeln!(all, "$ segno {words}\n\n{}\n\n", text.trim_end()).unwrap();
    let listed = lines
        .iter()
        .skip_while(|line| **line != "Commands:")
        .skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    // A continuation line is indented further.
    let named = listed.filter_map(|line| line.strip_prefix("  "));
    for line in named.filter(|line| !line.starts_with(' ')) {
        let name = line.split(' ').next().unwrap();
        if name != "help" {
            help(sandbox, &[command, &[name]].concat(), all);
        }
    }
}

#[test]
fn the_whole_help_text() {
    let mut all = String::new();
    help(&sandbox(), &[], &mut all);
    insta::assert_snapshot!(all);
}

#[test]
fn the_version_is_one_line() {
    let sandbox = sandbox();
    let output = sandbox.segno(&["--version"]).expect_success();
    assert_eq!(
        normalize(&sandbox, &output.stdout),
        format!("segno {}", env!("CARGO_PKG_VERSION"))
    );
}
