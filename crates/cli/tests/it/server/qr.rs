//! The QR code of `segno open --qr`, read back by a decoder of its own.

use std::fmt::Write;

use super::Serving;
use crate::sandbox;

/// The dark modules of a code that is drawn with half blocks, without the quiet zone.
fn modules(lines: &[&str]) -> Vec<Vec<bool>> {
    let mut rows = Vec::new();
    for line in lines {
        let upper = line.chars().map(|it| !matches!(it, '█' | '▀'));
        rows.push(upper.collect::<Vec<_>>());
        let lower = line.chars().map(|it| !matches!(it, '█' | '▄'));
        rows.push(lower.collect::<Vec<_>>());
    }
    let width = rows[0].len();
    rows.truncate(width);
    let quiet = 4;
    let is_light = |row: &Vec<bool>| row.iter().all(|dark| !dark);
    assert!(rows[..quiet].iter().all(is_light), "no quiet zone");
    let inside = rows[quiet..width - quiet].iter();
    inside
        .map(|row| row[quiet..width - quiet].to_vec())
        .collect()
}

/// Whether a module is part of a pattern, or of the format, and has no data. For versions 2 to 6,
/// which have one alignment pattern.
fn is_pattern(size: usize, row: usize, column: usize) -> bool {
    let corner = row < 9 && (column < 9 || column >= size - 8);
    let corner = corner || (row >= size - 8 && column < 9);
    let near = |at: usize| at.abs_diff(size - 7) <= 2;
    corner || row == 6 || column == 6 || (near(row) && near(column))
}

fn is_masked(mask: usize, row: usize, column: usize) -> bool {
    let (product, sum) = (row * column, row + column);
    match mask {
        0 => sum.is_multiple_of(2),
        1 => row.is_multiple_of(2),
        2 => column.is_multiple_of(3),
        3 => sum.is_multiple_of(3),
        4 => (row / 2 + column / 3).is_multiple_of(2),
        5 => product % 2 + product % 3 == 0,
        6 => (product % 2 + product % 3).is_multiple_of(2),
        _ => (sum % 2 + product % 3).is_multiple_of(2),
    }
}

/// The data bits in the order of the code: in pairs of columns from the right, up and down.
fn bits(modules: &[Vec<bool>], mask: usize) -> Vec<bool> {
    let size = modules.len();
    let mut found = Vec::new();
    let mut right = size - 1;
    let mut is_upward = true;
    loop {
        for step in 0..size {
            let row = if is_upward { size - 1 - step } else { step };
            for column in [right, right - 1] {
                if !is_pattern(size, row, column) {
                    found.push(modules[row][column] ^ is_masked(mask, row, column));
                }
            }
        }
        is_upward = !is_upward;
        // The column of the timing pattern belongs to no pair.
        right = match right {
            1 => return found,
            8 => 5,
            other => other - 2,
        };
    }
}

/// Reads the segments of a code with one block of data, which stands first.
fn text(bits: &[bool]) -> String {
    const ALPHANUMERIC: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ $%*+-./:";
    let mut at = 0;
    let mut take = |count: usize| {
        let value = bits[at..at + count].iter();
        at += count;
        value.fold(0, |value, bit| value << 1 | usize::from(*bit))
    };
    let mut text = String::new();
    loop {
        match take(4) {
            0 => return text,
            1 => {
                let mut left = take(10);
                while left > 0 {
                    let digits = left.min(3);
                    let value = take([0, 4, 7, 10][digits]);
                    let _ = write!(text, "{value:0digits$}");
                    left -= digits;
                }
            }
            2 => {
                let mut left = take(9);
                while left > 1 {
                    let pair = take(11);
                    text.push(ALPHANUMERIC[pair / 45].into());
                    text.push(ALPHANUMERIC[pair % 45].into());
                    left -= 2;
                }
                if left == 1 {
                    text.push(ALPHANUMERIC[take(6)].into());
                }
            }
            4 => {
                let length = take(8);
                (0..length).for_each(|_| text.push(char::from(u8::try_from(take(8)).unwrap())));
            }
            mode => panic!("mode {mode} after {text:?}"),
        }
    }
}

#[test]
fn code_has_the_address_that_is_printed() {
    let sandbox = sandbox();
    let _serving = Serving::start(&sandbox);
    let output = sandbox.segno(&["open", "--qr"]).expect_success();
    let mut lines = output.stdout.lines();
    let url = lines.next().unwrap();
    let modules = modules(&lines.collect::<Vec<_>>());
    let size = modules.len();
    assert!((25..=37).contains(&size), "version {}", (size - 17) / 4);
    // The level and the mask, in the first bits of the format.
    let format: Vec<bool> = (0..5).map(|column| modules[8][column]).collect();
    let value = format
        .iter()
        .fold(0, |value, bit| value << 1 | usize::from(*bit));
    let value = value ^ 0b10101;
    assert_eq!(value >> 3, 0b01, "level L has one block in small versions");
    assert_eq!(text(&bits(&modules, value & 0b111)), url);
}
