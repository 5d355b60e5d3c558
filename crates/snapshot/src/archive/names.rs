//! Names in archives: which of them are paths below a folder, and how to write any bytes as text.

use std::path::PathBuf;

use crate::manifest::{NAME, PATH, path};

/// A path below the folder; empty for the folder itself. Refuses names that could lead out of it or
/// that have two spellings.
pub(super) fn member_path(name: &[u8]) -> Result<PathBuf, &'static str> {
    if name.contains(&0) {
        return Err("its name contains a NUL byte");
    }
    if name.first() == Some(&b'/') {
        return Err("its path is absolute");
    }
    let mut rest = name;
    while let Some(after) = rest.strip_prefix(b"./") {
        rest = after;
    }
    rest = rest.strip_suffix(b"/").unwrap_or(rest);
    if rest == b"." || (rest.is_empty() && !name.is_empty()) {
        return Ok(PathBuf::new());
    }
    if rest.len() > PATH {
        return Err("its path is too long");
    }
    for part in rest.split(|byte| *byte == b'/') {
        match part {
            b"" => return Err("its path has an empty component"),
            b"." => return Err("its path is not normalized"),
            b".." => return Err("its path leads out of the folder"),
            part if part.len() > NAME => return Err("its name is too long"),
            _ => {}
        }
    }
    Ok(path(rest))
}

/// Any bytes as text: control characters, non-ASCII bytes and `%` become `%` and two hex digits.
pub(super) fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'%' | 0..=0x1f | 0x7f.. => {
                let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0');
                text.extend(['%', digit(byte >> 4), digit(byte & 15)]);
            }
            plain => text.push(char::from(*plain)),
        }
    }
    text
}

/// Reverses [`escape`].
pub(super) fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_below_the_folder_are_accepted() {
        let long = "a/".repeat(3000);
        let name = "a".repeat(256);
        for wrong in [
            "", "/", "/etc", "..", "../a", "a/..", "a/../b", "./../a", "a//b", ".//a", "a/./b",
            "a\0b", "a//", &long, &name,
        ] {
            assert!(member_path(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
        for (right, expected) in [
            ("a", "a"),
            ("./a", "a"),
            ("././a/", "a"),
            (".", ""),
            ("./", ""),
            ("a/b ..", "a/b .."),
            ("...", "..."),
        ] {
            assert_eq!(
                member_path(right.as_bytes()),
                Ok(expected.into()),
                "{right:?}"
            );
        }
    }

    #[test]
    fn escape_round_trips_any_bytes() {
        let all: Vec<u8> = (0..=255).collect();
        let text = escape(&all);
        assert!(text.is_ascii());
        assert_eq!(unescape(text.as_bytes()), Some(all));
        for wrong in ["%", "%1", "%zz", "a%"] {
            assert_eq!(unescape(wrong.as_bytes()), None);
        }
    }
}
