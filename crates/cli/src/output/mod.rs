//! What people and programs see. Data goes to stdout, everything else to stderr.

pub(crate) mod json;
pub(crate) mod plain;
pub(crate) mod progress;
pub(crate) mod table;

use std::io::{self, IsTerminal, Write};

/// Writes a line of data. Whether anyone reads it is their business: a closed pipe is no error.
pub(crate) fn data(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// Writes a line for the person.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Shows a line that the next one replaces; an empty one leaves nothing behind.
pub(crate) fn passing(line: &str) {
    let shown = plain::fit(line, columns().saturating_sub(1)).into_owned();
    let mut stderr = io::stderr();
    let _ = write!(stderr, "\r\x1b[2K{shown}");
    let _ = stderr.flush();
}

/// Whether a person watches stderr on a terminal that can redraw a line.
pub(crate) fn is_live() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty());
    io::stderr().is_terminal() && !dumb
}

/// How many columns the person's terminal has; wide if that is not known.
pub(crate) fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr())
        .or_else(|_| rustix::termios::tcgetwinsize(io::stdout()));
    size.ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|columns| *columns > 0)
        .unwrap_or(120)
}
