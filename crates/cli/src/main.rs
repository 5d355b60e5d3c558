//! `segno`: reads the command line, joins the parts, runs one command.

mod commands;
mod config;
mod context;
mod failure;
mod machine;
mod output;

use std::ffi::OsStr;
use std::process::ExitCode;

use clap::Parser;

use crate::context::Context;

fn main() -> ExitCode {
    // The warden is this program under another hat, and must be alone in its process: see
    // `segno_agents::command`.
    if std::env::args_os().nth(1).as_deref() == Some(OsStr::new(machine::WARDEN)) {
        return segno_agents::command::warden::main();
    }
    #[cfg(feature = "failpoints")]
    arm();
    let command = commands::Cli::parse();
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            output::say(&format!(
                "error: this machine gives no event loop: {error} [C0104]"
            ));
            return ExitCode::from(70);
        }
    };
    let context = Context::new();
    let json = command.is_json();
    match runtime.block_on(command.run(&context)) {
        Ok(exit) => exit,
        Err(failure) => {
            failure.report(json, &context.redactor);
            ExitCode::from(failure.exit)
        }
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
                let _ = writeln!(file, "{}", point.name());
            }
        });
    }
}
