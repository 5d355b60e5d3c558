//! Arms failpoints for the crash tests, as the environment says.
//!
//! - `SEGNO_FAILPOINT=name[:visit]` kills the process there.
//! - `SEGNO_FAILPOINT_COMMAND=name` restricts that to processes of this command: a server and the runs
//!   that it starts share their environment.
//! - `SEGNO_FAILPOINT_ONCE=file` restricts it to the first process that gets there, which creates the
//!   file and writes its id into it.
//! - `SEGNO_FAILPOINT_LOG=file` logs every visit. If it is a folder, each process has a file of its
//!   own there, `COMMAND.PID`.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

use segno_core::fault::{self, Point};

use crate::output;

pub(crate) fn arm() {
    let read = |name: &str| std::env::var(format!("SEGNO_FAILPOINT{name}")).ok();
    let is_meant = read("_COMMAND").is_none_or(|wanted| wanted == command());
    if let Some(spec) = read("").filter(|_| is_meant)
        && !fault::arm(&spec)
    {
        output::stderr_line(&format!("error: there is no failpoint `{spec}`"));
        std::process::exit(2);
    }
    if read("_ONCE").is_some() {
        fault::confirm_with(is_first);
    }
    if read("_LOG").is_some() {
        fault::on_visit(log_visit);
    }
}

/// The command of this process.
fn command() -> String {
    std::env::args().nth(1).unwrap_or_default()
}

fn file(variable: &str) -> PathBuf {
    std::env::var_os(variable).unwrap_or_default().into()
}

fn is_first() -> bool {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(file("SEGNO_FAILPOINT_ONCE"));
    file.is_ok_and(|mut file| write!(file, "{}", std::process::id()).is_ok())
}

fn log_visit(point: Point) {
    let mut path = file("SEGNO_FAILPOINT_LOG");
    if path.is_dir() {
        path.push(format!("{}.{}", command(), std::process::id()));
    }
    if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path) {
        // One write per line: two threads may visit at the same time.
        let _ = file.write_all(format!("{}\n", point.name()).as_bytes());
    }
}
