//! Tables that fit the terminal: lines are truncated at the end.

use super::text::{columns, fit, sanitize};

/// Aligns rows under a head. Each line is truncated to `room` columns.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>], room: usize) -> Vec<String> {
    let clean: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|cell| sanitize(cell).into_owned()).collect())
        .collect();
    let widths: Vec<usize> = (0..head.len())
        .map(|column| {
            clean
                .iter()
                .map(|row| columns(&row[column]))
                .chain([columns(head[column])])
                .max()
                .unwrap_or(0)
        })
        .collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for (cell, width) in cells.zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(
                ' ',
                width.saturating_sub(columns(cell)) + 2,
            ));
        }
        fit(line.trim_end(), room).into_owned()
    };
    let mut lines = vec![line(&mut head.iter().copied())];
    lines.extend(
        clean
            .iter()
            .map(|row| line(&mut row.iter().map(String::as_str))),
    );
    lines
}
