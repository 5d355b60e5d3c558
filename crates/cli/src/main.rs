//! `segno`: reads the command line, joins the parts, runs one command.

mod commands;
mod config;
mod context;
mod failure;
mod hooks;
mod machine;
mod mcp;
mod output;
mod spool;
mod watch;

use std::ffi::OsStr;
use std::process::ExitCode;

use crate::context::Context;
use crate::failure::Failure;

fn main() -> ExitCode {
    let hat = std::env::args_os().nth(1);
    // The warden is this program under another hat, and must be alone in its process: see
    // `segno_agents::command`.
    if hat.as_deref() == Some(OsStr::new(machine::WARDEN)) {
        return segno_agents::command::warden::main();
    }
    // An agent waits for it: nothing is made ready that it does not need.
    if hat.as_deref() == Some(OsStr::new(hooks::HOOK)) {
        return hooks::event::main();
    }
    #[cfg(feature = "failpoints")]
    arm();
    let context = Context::new();
    let command = match commands::Cli::read() {
        Ok(command) => command,
        Err(error) => return explain(&error, &context),
    };
    let json = command.is_json();
    let ended = play(command, &context).and_then(|exit| match output::trouble() {
        Some(trouble) => Err(Failure::unprinted(trouble)),
        None => Ok(exit),
    });
    ended.unwrap_or_else(|failure| {
        failure.report(json, &context.redactor);
        ExitCode::from(failure.exit)
    })
}

fn play(command: commands::Cli, context: &Context) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime
        .map_err(|error| Failure::internal(format!("this machine gives no event loop: {error}")))?;
    runtime.block_on(command.run(context))
}

/// Help goes to stdout as it is; a wrong call is shown without what it may smuggle to the terminal.
fn explain(error: &clap::Error, context: &Context) -> ExitCode {
    let text = error.render().to_string();
    if error.use_stderr() {
        output::say(output::plain::lines(&context.redactor.redact(&text)).trim_end());
        ExitCode::from(2)
    } else {
        output::data(text.trim_end());
        ExitCode::SUCCESS
    }
}

/// Places to die, for the crash runner: `SEGNO_FAILPOINT=name[:visit]` kills, and
/// `SEGNO_FAILPOINT_LOG=file` lists every visit.
#[cfg(feature = "failpoints")]
fn arm() {
    use std::io::Write;
    if let Ok(spec) = std::env::var("SEGNO_FAILPOINT")
        && !segno_core::fault::arm(&spec)
    {
        output::say(&format!("error: there is no failpoint `{spec}`"));
        std::process::exit(2);
    }
    if std::env::var_os("SEGNO_FAILPOINT_LOG").is_some() {
        segno_core::fault::on_visit(|point| {
            let path = std::env::var_os("SEGNO_FAILPOINT_LOG").unwrap_or_default();
            if let Ok(mut file) = std::fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(path)
            {
                // In one write: two threads may come by at the same moment.
                let _ = file.write_all(format!("{}\n", point.name()).as_bytes());
            }
        });
    }
}
