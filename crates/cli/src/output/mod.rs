//! Output for users and programs. Data goes to stdout, everything else to stderr.

pub(crate) mod agent_messages;
pub(crate) mod checkpoint_content;
pub(crate) mod note;
pub(crate) mod progress;
pub(crate) mod progress_line;
pub(crate) mod prompt_frame;
pub(crate) mod resume_plan;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod timestamp;
pub(crate) mod tree;
pub(crate) mod work;

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use segno_core::sanitize::escape_json;

/// Writes a line of data to stdout.
pub(crate) fn stdout_line(line: &str) {
    let _ = try_stdout_line(line);
}

/// Writes a line of data to stdout. Returns false if that failed. A closed pipe is not an error:
/// the reader decides when to stop. Any other error is recorded, and the command fails at its end.
pub(crate) fn try_stdout_line(line: &str) -> bool {
    let written = write_line(io::stdout(), line);
    if let Err(error) = &written
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        let _ = STDOUT_ERROR.set(error.to_string());
    }
    written.is_ok()
}

/// Prints the result of a run: as it is, or without control characters on a terminal.
pub(crate) fn print_result(output: &str) {
    if io::stdout().is_terminal() {
        stdout_line(&text::sanitize_lines(output));
    } else {
        stdout_line(output);
    }
}

/// Writes raw bytes to stdout.
pub(crate) fn stdout_bytes(bytes: &[u8]) {
    let mut stdout = io::stdout();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    if let Err(error) = written
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        let _ = STDOUT_ERROR.set(error.to_string());
    }
}

/// Writes a line of JSON to stdout. Characters that a terminal would interpret are escaped.
pub(crate) fn json_line(value: &serde_json::Value) {
    stdout_line(&escape_json(&value.to_string()));
}

/// The error of writing to stdout, if there was one.
pub(crate) fn stdout_error() -> Option<&'static str> {
    STDOUT_ERROR.get().map(String::as_str)
}

static STDOUT_ERROR: OnceLock<String> = OnceLock::new();

/// Writes a line for the user to stderr, and removes the live line before.
pub(crate) fn stderr_line(line: &str) {
    if is_live() {
        live_line("");
    }
    let _ = write_line(io::stderr(), line);
}

/// Writes a line and its line ending in one call, so that the lines of two writers do not mix.
/// While a user types at this terminal, it appears above the prompt.
fn write_line(mut to: impl Write + IsTerminal, line: &str) -> io::Result<()> {
    let mut text = String::with_capacity(line.len() + 1);
    text.push_str(line);
    text.push('\n');
    prompt_frame::write_above(to.is_terminal(), || {
        to.write_all(text.as_bytes())?;
        to.flush()
    })
}

/// Shows an input prompt.
pub(crate) fn prompt(text: &str) {
    let mut stderr = io::stderr();
    let _ = write!(stderr, "{text}");
    let _ = stderr.flush();
}

/// Suppresses live lines while the user types, until the guard is dropped.
pub(crate) fn suppress_live_line() -> LiveLineGuard {
    if is_live() {
        live_line("");
    }
    LIVE_LINE_SUPPRESSED.store(true, Ordering::Relaxed);
    LiveLineGuard
}

pub(crate) struct LiveLineGuard;

impl Drop for LiveLineGuard {
    fn drop(&mut self) {
        LIVE_LINE_SUPPRESSED.store(false, Ordering::Relaxed);
    }
}

static LIVE_LINE_SUPPRESSED: AtomicBool = AtomicBool::new(false);

/// Shows a live line that the next one replaces. An empty line removes it.
pub(crate) fn live_line(line: &str) {
    if LIVE_LINE_SUPPRESSED.load(Ordering::Relaxed) {
        return;
    }
    let shown = text::fit(line, width(io::stderr()).unwrap_or(80).saturating_sub(1)).into_owned();
    let mut stderr = io::stderr();
    let _ = write!(stderr, "\r\x1b[2K{shown}");
    let _ = stderr.flush();
}

/// Whether stderr is a terminal that can redraw a line.
pub(crate) fn is_live() -> bool {
    static LIVE: OnceLock<bool> = OnceLock::new();
    *LIVE.get_or_init(|| {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty());
        io::stderr().is_terminal() && !dumb
    })
}

/// The width for data. Unlimited if stdout is not a terminal.
pub(crate) fn columns() -> usize {
    width(io::stdout()).unwrap_or(usize::MAX)
}

fn width(terminal: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(terminal).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}
