use clap::CommandFactory;
use clap_complete::Shell;

/// Print a completion script for a shell.
///
/// For example: `segno completion bash > ~/.local/share/bash-completion/completions/segno`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: &Args) {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::Cli::command(), "segno", &mut script);
    crate::output::data(String::from_utf8_lossy(&script).trim_end());
}
