//! Computes how a text is shown: rows for the screen, and the place of the cursor.

use unicode_segmentation::UnicodeSegmentation;

use crate::output::prompt_frame::Frame;
use crate::output::text;

/// Shown before each line but the first, which has the prompt.
const INDENT: &str = "  ";

#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// A terminal's ability to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ability {
    /// Moves the cursor anywhere.
    Full,
    /// Only returns to the start of the line.
    CarriageReturn,
}

/// A row and its width in columns.
#[derive(Debug, Default)]
struct Row {
    text: String,
    columns: usize,
}

impl Row {
    fn push(&mut self, shown: &str) {
        self.text.push_str(shown);
        self.columns += text::columns(shown);
    }
}

/// Lays out a text with the cursor at this byte. Rows that do not fit on the screen are omitted
/// around the cursor.
pub(super) fn frame(
    ability: Ability,
    prompt: &str,
    typed: &str,
    cursor: usize,
    size: Size,
) -> Frame {
    match ability {
        Ability::Full => full(prompt, typed, cursor, size),
        Ability::CarriageReturn => one_row(prompt, typed, cursor, size),
    }
}

/// The last column stays free: there the cursor stands after the last character of a full row.
fn usable(size: Size) -> usize {
    size.columns.saturating_sub(1).max(2)
}

fn full(prompt: &str, typed: &str, cursor: usize, size: Size) -> Frame {
    let limit = usable(size);
    let mut rows: Vec<Row> = Vec::new();
    let mut place = (0, 0);
    let mut start = 0;
    for line in typed.split('\n') {
        let before = if rows.is_empty() { prompt } else { INDENT };
        let mut row = Row::default();
        if text::columns(before) + 2 <= limit {
            row.push(before);
        }
        for (at, cluster) in line.grapheme_indices(true) {
            let shown = show(cluster);
            if row.columns + text::columns(&shown) > limit {
                rows.push(std::mem::take(&mut row));
            }
            if start + at == cursor {
                place = (rows.len(), row.columns);
            }
            row.push(&shown);
        }
        if start + line.len() == cursor {
            place = (rows.len(), row.columns);
        }
        rows.push(row);
        start += line.len() + 1;
    }
    let room = size.rows.saturating_sub(1).max(1);
    let first = (place.0 + 1).saturating_sub(room);
    let shown = &rows[first..rows.len().min(first + room)];
    let texts: Vec<&str> = shown.iter().map(|row| row.text.as_str()).collect();
    let widths = shown.iter().map(|row| row.columns).collect();
    Frame::rows(&texts, widths, (place.0 - first, place.1))
}

/// One row around the cursor, for a terminal that cannot move up.
fn one_row(prompt: &str, typed: &str, cursor: usize, size: Size) -> Frame {
    let limit = usable(size);
    let room = limit.saturating_sub(text::columns(prompt)).max(1);
    let mut before: Vec<String> = typed[..cursor].graphemes(true).map(show).collect();
    let mut used = 0;
    let fits = before.iter().rev().take_while(|shown| {
        used += text::columns(shown);
        used <= room
    });
    let hidden = before.len() - fits.count();
    let before: String = before.drain(hidden..).collect();
    let mut used = text::columns(&before);
    let after = typed[cursor..].graphemes(true).map(show);
    let after: String = after
        .take_while(|shown| {
            used += text::columns(shown);
            used <= room
        })
        .collect();
    Frame::one_row(&format!("{prompt}{before}"), &after, limit)
}

fn show(cluster: &str) -> String {
    match cluster {
        "\t" => "    ".to_owned(),
        other => text::sanitize(other).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDE: Size = Size {
        columns: 80,
        rows: 24,
    };

    fn drawn(typed: &str, cursor: usize, columns: usize, rows: usize) -> String {
        let size = Size { columns, rows };
        frame(Ability::Full, "> ", typed, cursor, size).draw
    }

    #[test]
    fn cursor_is_placed_by_columns() {
        assert_eq!(drawn("hello", 5, 80, 24), "> hello\r\x1b[7C");
        assert_eq!(drawn("hello", 2, 80, 24), "> hello\r\x1b[4C");
        assert_eq!(drawn("漢字", 3, 80, 24), "> 漢字\r\x1b[4C");
        assert_eq!(drawn("", 0, 80, 24), "> \r\x1b[2C");
    }

    #[test]
    fn long_lines_wrap_before_the_last_column() {
        assert_eq!(drawn("abcdefghij", 10, 8, 24), "> abcde\r\nfghij\r\x1b[5C");
        assert_eq!(drawn("abcde", 5, 8, 24), "> abcde\r\x1b[7C");
        assert_eq!(
            drawn("abcdefghij", 1, 8, 24),
            "> abcde\r\nfghij\x1b[1A\r\x1b[3C"
        );
        // A wide character does not fit into one column.
        assert_eq!(drawn("abcd漢", 7, 8, 24), "> abcd\r\n漢\r\x1b[2C");
    }

    #[test]
    fn rows_beyond_the_screen_are_omitted() {
        let text = "one\ntwo\nthree";
        assert_eq!(
            drawn(text, text.len(), 80, 24),
            "> one\r\n  two\r\n  three\r\x1b[7C"
        );
        assert_eq!(drawn(text, text.len(), 80, 3), "  two\r\n  three\r\x1b[7C");
        assert_eq!(drawn(text, 0, 80, 3), "> one\r\n  two\x1b[1A\r\x1b[2C");
        // Any size works.
        for columns in 0..9 {
            for rows in 0..4 {
                for cursor in [0, 3, 5, 13] {
                    drawn(text, cursor, columns, rows);
                }
            }
        }
    }

    #[test]
    fn control_characters_are_not_drawn() {
        assert_eq!(
            drawn("\u{9b}2J\t|", 0, 80, 24),
            "> \u{fffd}2J    |\r\x1b[2C"
        );
    }

    #[test]
    fn terminal_without_cursor_movement_gets_one_row() {
        let plain = |typed: &str, cursor| {
            let size = Size {
                columns: 10,
                rows: 24,
            };
            frame(Ability::CarriageReturn, "> ", typed, cursor, size).draw
        };
        assert_eq!(plain("abc", 3), "\r> abc    \r> abc");
        assert_eq!(plain("abc", 1), "\r> abc    \r> a");
        assert_eq!(plain("abcdefghijk", 11), "\r> efghijk\r> efghijk");
        assert_eq!(plain("a\nb", 3), "\r> a b    \r> a b");
        let erase = frame(Ability::CarriageReturn, "> ", "x", 1, WIDE).erase(80);
        assert!(!erase.contains('\u{1b}'), "{erase:?}");
    }
}
