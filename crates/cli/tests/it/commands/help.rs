//! Help texts.

use std::fmt::Write;

use segno_testkit::sandbox::Sandbox;

use crate::commands::normalize;
use crate::sandbox;

/// Appends the help of a command and of all its subcommands.
fn help(sandbox: &Sandbox, command: &[&str], all: &mut String) {
    let words = if command.is_empty() {
        vec!["help", "--all"]
    } else {
        [command, &["--help"]].concat()
    };
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
fn first_screen_is_short_and_names_every_command() {
    let sandbox = sandbox();
    let screen = sandbox.segno(&["--help"]).expect_success().stdout;
    assert_eq!(sandbox.segno(&["help"]).expect_success().stdout, screen);
    assert_eq!(sandbox.segno(&[]).stderr, screen);
    assert!(screen.lines().count() < 24, "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 80));
    let all = sandbox.segno(&["help", "--all"]).expect_success().stdout;
    let listed = all.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    let named = listed.filter_map(|line| line.strip_prefix("  "));
    let named = named.filter(|line| !line.starts_with(' '));
    let words: Vec<&str> = screen.split(|c: char| !c.is_alphanumeric()).collect();
    for line in named {
        let name = line.split(' ').next().unwrap();
        assert!(words.contains(&name), "{name}");
    }
}

#[test]
fn help_describes_commands_and_exit_codes() {
    let sandbox = sandbox();
    let output = sandbox
        .segno(&["help", "sessions", "list"])
        .expect_success();
    let same = sandbox.segno(&["sessions", "list", "--help"]);
    assert_eq!(output.stdout, same.expect_success().stdout);
    let output = sandbox.segno(&["help", "exit-codes"]).expect_success();
    assert!(output.stdout.contains("130  paused"), "{output:?}");
    sandbox
        .segno(&["help", "nothing"])
        .refused(2, &["there is no command `nothing`", "[C0103]"]);
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
