//! `segno`: parses the command line, builds the environment, runs one command.

mod clock;
mod commands;
mod config;
mod context;
#[cfg(feature = "failpoints")]
mod failpoints;
mod failure;
mod line_editor;
mod machine;
mod output;
mod remote;
mod server_command;

use std::ffi::OsStr;
use std::process::ExitCode;

use rustix::process::Signal;
use segno_integrations::hooks;
use tokio::signal::unix::{SignalKind, signal};

use crate::clock::MachineClock;
use crate::context::Context;
use crate::failure::Failure;

fn main() -> ExitCode {
    let mode = std::env::args_os().nth(1);
    // The process guard is this executable in another mode. It must be alone in its process: see
    // `segno_agents::command`.
    if mode.as_deref() == Some(OsStr::new(machine::PROCESS_GUARD)) {
        return segno_agents::command::process_guard::main();
    }
    // A CLI agent waits for the hook, so nothing is set up that the hook does not need.
    if mode.as_deref() == Some(OsStr::new(hooks::HOOK)) {
        return hooks::event::main(&MachineClock::new());
    }
    #[cfg(feature = "failpoints")]
    failpoints::arm();
    let context = Context::new();
    let command = match commands::Cli::read() {
        Ok(command) => command,
        Err(error) => return explain(&error, &context),
    };
    let json = command.is_json();
    let ended =
        run_command(command, context.clone()).and_then(|exit| match output::stdout_error() {
            Some(error) => Err(Failure::stdout_write(error)),
            None => Ok(exit),
        });
    ended.unwrap_or_else(|failure| {
        failure.report(json, &context.redactor);
        ExitCode::from(failure.exit())
    })
}

fn run_command(command: commands::Cli, context: Context) -> Result<ExitCode, Failure> {
    let context = &context.with_server(command.server()?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime
        .map_err(|error| Failure::internal(format!("the event loop cannot be started: {error}")))?;
    runtime.block_on(async {
        // With a handler, a write beyond the limit of `ulimit -f` is an error; without one, this
        // signal ends the process.
        let limit = SignalKind::from_raw(Signal::XFSZ.as_raw());
        let _handler = signal(limit);
        Box::pin(command.run(context)).await
    })
}

/// Prints a clap result. Help goes to stdout unchanged; usage errors go to stderr redacted and
/// without control characters.
fn explain(error: &clap::Error, context: &Context) -> ExitCode {
    let text = error.render().to_string();
    if error.use_stderr() {
        output::stderr_line(
            output::text::sanitize_lines(&context.redactor.redact(&text)).trim_end(),
        );
        ExitCode::from(2)
    } else {
        output::stdout_line(text.trim_end());
        ExitCode::SUCCESS
    }
}
