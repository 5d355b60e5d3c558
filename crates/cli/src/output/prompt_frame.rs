//! The prompt at the bottom of the terminal while a user types. Lines that are written meanwhile
//! appear above it.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A drawn prompt.
#[derive(Debug)]
pub(crate) struct Frame {
    /// Draws it, from the start of an empty row on.
    pub(crate) draw: String,
    shape: Shape,
}

#[derive(Debug)]
enum Shape {
    Rows {
        /// The columns of each row.
        widths: Vec<usize>,
        /// Row and column of the cursor.
        cursor: (usize, usize),
    },
    /// One row of at most this many columns.
    OneRow(usize),
}

impl Frame {
    /// Rows with the cursor at this row and column.
    pub(crate) fn rows(rows: &[&str], widths: Vec<usize>, cursor: (usize, usize)) -> Self {
        let up = rows.len().saturating_sub(cursor.0 + 1);
        let draw = format!(
            "{}{}\r{}",
            rows.join("\r\n"),
            move_by(up, 'A'),
            move_by(cursor.1, 'C')
        );
        let shape = Shape::Rows { widths, cursor };
        Self { draw, shape }
    }

    /// One row of at most this many columns, with the cursor between two texts, for a terminal
    /// that only knows carriage returns.
    pub(crate) fn one_row(before: &str, after: &str, columns: usize) -> Self {
        let used = super::text::columns(before) + super::text::columns(after);
        let blank = " ".repeat(columns.saturating_sub(used));
        Self {
            draw: format!("\r{before}{after}{blank}\r{before}"),
            shape: Shape::OneRow(columns),
        }
    }

    /// Removes it from a terminal that has this width now. A terminal that became narrower has
    /// wrapped the rows.
    pub(crate) fn erase(&self, columns: usize) -> String {
        match &self.shape {
            Shape::OneRow(columns) => format!("\r{}\r", " ".repeat(*columns)),
            Shape::Rows { widths, cursor } => {
                let columns = columns.max(1);
                let above = widths[..cursor.0].iter();
                let above: usize = above.map(|width| width.div_ceil(columns).max(1)).sum();
                let up = above + cursor.1 / columns;
                format!("{}\r\x1b[J", move_by(up, 'A'))
            }
        }
    }

    /// Moves to a new row below it.
    fn end(&self) -> String {
        match &self.shape {
            Shape::OneRow(_) => "\r\n".to_owned(),
            Shape::Rows { widths, cursor } => {
                let down = widths.len().saturating_sub(cursor.0 + 1);
                format!("{}\r\n", move_by(down, 'B'))
            }
        }
    }
}

fn move_by(count: usize, direction: char) -> String {
    match count {
        0 => String::new(),
        count => format!("\x1b[{count}{direction}"),
    }
}

static SHOWN: Mutex<Option<Frame>> = Mutex::new(None);

/// Replaces the shown prompt.
pub(crate) fn show(frame: Frame) {
    let mut shown = lock();
    let erase = erase(shown.as_ref());
    write(&format!("{erase}{}", frame.draw));
    *shown = Some(frame);
}

/// Removes the shown prompt, if there is one.
pub(crate) fn hide() {
    let mut shown = lock();
    write(&erase(shown.as_ref()));
    *shown = None;
}

/// Leaves the shown prompt where it is; what follows appears below it.
pub(crate) fn leave() {
    if let Some(frame) = lock().take() {
        write(&frame.end());
    }
}

/// Calls `write_line` so that what it writes to a terminal appears above the shown prompt.
pub(super) fn write_above<T>(is_terminal: bool, write_line: impl FnOnce() -> T) -> T {
    let shown = lock();
    let Some(frame) = shown.as_ref().filter(|_| is_terminal) else {
        return write_line();
    };
    write(&erase(Some(frame)));
    let written = write_line();
    write(&frame.draw);
    written
}

fn erase(frame: Option<&Frame>) -> String {
    let columns = || super::width(io::stderr()).unwrap_or(80);
    frame.map_or_else(String::new, |frame| frame.erase(columns()))
}

/// Writes in one call, so that the terminal does not show a half-drawn prompt.
fn write(text: &str) {
    if !text.is_empty() {
        let mut stderr = io::stderr();
        let _ = stderr.write_all(text.as_bytes());
        let _ = stderr.flush();
    }
}

fn lock() -> MutexGuard<'static, Option<Frame>> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erasing_counts_rows_that_a_narrower_terminal_wrapped() {
        let rows = ["a".repeat(30), "b".repeat(30), "c".repeat(10)];
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        let frame = Frame::rows(&rows, vec![30, 30, 10], (2, 10));
        assert_eq!(frame.erase(80), "\x1b[2A\r\x1b[J");
        assert_eq!(frame.erase(30), "\x1b[2A\r\x1b[J");
        assert_eq!(frame.erase(20), "\x1b[4A\r\x1b[J");
        assert_eq!(frame.erase(8), "\x1b[9A\r\x1b[J");
    }
}
