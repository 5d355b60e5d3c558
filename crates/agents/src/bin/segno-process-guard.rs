//! The process guard as a program of its own, for the tests of this crate. The `segno` binary
//! embeds the same function behind a hidden subcommand, so this one is never installed.

use std::process::ExitCode;

fn main() -> ExitCode {
    segno_agents::command::process_guard::main()
}
