//! What people and programs see. Data goes to stdout, everything else to stderr.

pub(crate) mod json;
pub(crate) mod memo;
pub(crate) mod moment;
pub(crate) mod plain;
pub(crate) mod plans;
pub(crate) mod progress;
pub(crate) mod said;
pub(crate) mod table;
pub(crate) mod tree;
pub(crate) mod waiting;
pub(crate) mod work;

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Writes a line of data.
pub(crate) fn data(line: &str) {
    let _ = printed(line);
}

/// Writes a line of data; false if it could not be. Whether anyone reads it is their business: a
/// closed pipe is no error. Any other trouble is remembered, and the command does not succeed.
pub(crate) fn printed(line: &str) -> bool {
    let written = whole(io::stdout(), line);
    if let Err(error) = &written
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        let _ = TROUBLE.set(error.to_string());
    }
    written.is_ok()
}

/// Writes bytes of data as they are.
pub(crate) fn raw(bytes: &[u8]) {
    let mut stdout = io::stdout();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    if let Err(error) = written
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        let _ = TROUBLE.set(error.to_string());
    }
}

/// Writes a line of JSON. What a terminal would act on is escaped, which means the same.
pub(crate) fn json_line(value: &serde_json::Value) {
    data(&json::harmless(&value.to_string()));
}

/// Why data could not be written, if it could not.
pub(crate) fn trouble() -> Option<&'static str> {
    TROUBLE.get().map(String::as_str)
}

static TROUBLE: OnceLock<String> = OnceLock::new();

/// Writes a line for the person, in the place of a live line if there is one.
pub(crate) fn say(line: &str) {
    if is_live() {
        passing("");
    }
    let _ = whole(io::stderr(), line);
}

/// Writes a line with its end in one piece, so that lines of two writers do not mix.
fn whole(mut to: impl Write, line: &str) -> io::Result<()> {
    let mut text = String::with_capacity(line.len() + 1);
    text.push_str(line);
    text.push('\n');
    to.write_all(text.as_bytes())?;
    to.flush()
}

/// Shows what an answer is typed after.
pub(crate) fn prompt(text: &str) {
    let mut stderr = io::stderr();
    let _ = write!(stderr, "{text}");
    let _ = stderr.flush();
}

/// Keeps live lines away while someone types, until it is dropped.
pub(crate) fn hush() -> Hush {
    if is_live() {
        passing("");
    }
    QUIET.store(true, Ordering::Relaxed);
    Hush
}

pub(crate) struct Hush;

impl Drop for Hush {
    fn drop(&mut self) {
        QUIET.store(false, Ordering::Relaxed);
    }
}

static QUIET: AtomicBool = AtomicBool::new(false);

/// Shows a line that the next one replaces; an empty one leaves nothing behind.
pub(crate) fn passing(line: &str) {
    if QUIET.load(Ordering::Relaxed) {
        return;
    }
    let shown = plain::fit(line, width(io::stderr()).unwrap_or(80).saturating_sub(1)).into_owned();
    let mut stderr = io::stderr();
    let _ = write!(stderr, "\r\x1b[2K{shown}");
    let _ = stderr.flush();
}

/// Whether a person watches stderr on a terminal that can redraw a line.
pub(crate) fn is_live() -> bool {
    static LIVE: OnceLock<bool> = OnceLock::new();
    *LIVE.get_or_init(|| {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty());
        io::stderr().is_terminal() && !dumb
    })
}

/// How many columns there are for data: no limit unless a person reads it on a terminal.
pub(crate) fn columns() -> usize {
    width(io::stdout()).unwrap_or(usize::MAX)
}

fn width(terminal: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(terminal).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}
