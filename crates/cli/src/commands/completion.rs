//! `segno completion`: prints a shell completion script.

use clap::CommandFactory;
use clap_complete::Shell;

/// Print a shell completion script.
///
/// For example: `segno completion bash > ~/.local/share/bash-completion/completions/segno`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Shell to print the script for
    shell: Shell,
}

pub(crate) fn run(args: &Args) {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::Cli::command(), "segno", &mut script);
    crate::output::stdout_line(String::from_utf8_lossy(&script).trim_end());
}
