//! `segno audit`: shows who changed what through the server, and who was refused.

use std::process::ExitCode;
use std::sync::Arc;

use segno_server::Audit;
use segno_store::LocalDisk;
use serde_json::{Map, Value};

use super::serve::server_folder;
use crate::context::{Context, Persistence};
use crate::failure::Failure;
use crate::output::{columns, json_line, stderr_line, stdout_line, table};

/// Show who changed what through `segno serve`, and who was refused, newest last.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Show at most this many lines
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Print JSON, one line per request
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    // Refuses a home that others can write to.
    context.env(Persistence::Home)?;
    let clock = Arc::clone(&context.clock);
    let audit = Audit::new(server_folder()?, Arc::new(LocalDisk), clock);
    let lines = audit.read(args.limit)?;
    if args.json {
        for line in lines {
            let mut shape = Map::from_iter([("kind".to_owned(), Value::from("audit"))]);
            shape.extend(line);
            json_line(&Value::Object(shape));
        }
        return Ok(ExitCode::SUCCESS);
    }
    if lines.is_empty() {
        stderr_line("no request has changed anything or was refused");
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<Vec<String>> = lines.iter().map(row).collect();
    let head = [
        "TIME", "STATUS", "METHOD", "ROUTE", "SESSION", "TOKEN", "FROM", "REQUEST",
    ];
    for line in table::table(&head, &rows, columns()) {
        stdout_line(&line);
    }
    Ok(ExitCode::SUCCESS)
}

fn row(line: &Map<String, Value>) -> Vec<String> {
    let field = |name: &str| match line.get(name) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(value)) => value.clone(),
        Some(other) => other.to_string(),
    };
    let names = [
        "time", "status", "method", "route", "session", "token", "address", "request",
    ];
    names.map(field).into()
}
