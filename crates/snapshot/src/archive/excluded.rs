//! The excluded paths of a snapshot, as PAX comments at the beginning of an archive.
//!
//! Other programs skip comments. Each comment consists of lines of JSON, a few thousand at a time.

use serde::{Deserialize, Serialize};

use crate::archive::names::{escape, member_path, unescape};
use crate::entry::{Skipped, Why};
use crate::manifest::bytes;

/// The first line of one of our comments.
const HEADER: &[u8] = b"segno left out\n";
/// A comment of this length gets no more lines.
const COMMENT_LENGTH: usize = 256 * 1024;

/// Marks a file that changed during every attempt to read it.
pub(super) const UNSTABLE: &[u8] = b"segno unstable";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExcludedPath {
    path: String,
    why: Reason,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    text: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reason {
    Rule,
    Special,
    Unreadable,
    Vanished,
    OtherFileSystem,
    #[serde(rename = "vault")]
    Store,
    Budget,
}

/// The comments for excluded paths.
pub(super) fn comments(skipped: &[Skipped]) -> Vec<Vec<u8>> {
    let mut comments: Vec<Vec<u8>> = Vec::new();
    for one in skipped {
        let line =
            serde_json::to_vec(&excluded_path(one)).expect("an excluded path serializes to JSON");
        match comments.last_mut() {
            Some(comment) if comment.len() < COMMENT_LENGTH => {
                comment.extend_from_slice(&line);
                comment.push(b'\n');
            }
            _ => comments.push([HEADER, &line, b"\n"].concat()),
        }
    }
    comments
}

fn excluded_path(skipped: &Skipped) -> ExcludedPath {
    let (why, text) = match &skipped.why {
        Why::Rule(rule) => (Reason::Rule, rule.as_str()),
        Why::Special(what) => (Reason::Special, what.as_str()),
        Why::Unreadable(reason) => (Reason::Unreadable, reason.as_str()),
        Why::Vanished => (Reason::Vanished, ""),
        Why::OtherFileSystem => (Reason::OtherFileSystem, ""),
        Why::Store => (Reason::Store, ""),
        Why::Budget(what) => (Reason::Budget, what.as_str()),
    };
    ExcludedPath {
        path: escape(bytes(&skipped.path)),
        why,
        text: text.to_owned(),
    }
}

/// Parses a comment; empty if another program wrote it.
pub(super) fn read(comment: &[u8]) -> Result<Vec<Skipped>, &'static str> {
    const WRONG: &str = "its list of excluded paths cannot be parsed";
    let Some(lines) = comment.strip_prefix(HEADER) else {
        return Ok(Vec::new());
    };
    let lines = lines.strip_suffix(b"\n").ok_or(WRONG)?;
    let mut skipped = Vec::new();
    for line in lines.split(|byte| *byte == b'\n') {
        let ExcludedPath { path, why, text } = serde_json::from_slice(line).map_err(|_| WRONG)?;
        let path = member_path(&unescape(path.as_bytes()).ok_or(WRONG)?)?;
        let why = match why {
            Reason::Rule => Why::Rule(text),
            Reason::Special => Why::Special(text),
            Reason::Unreadable => Why::Unreadable(text),
            Reason::Vanished => Why::Vanished,
            Reason::OtherFileSystem => Why::OtherFileSystem,
            Reason::Store => Why::Store,
            Reason::Budget => Why::Budget(text),
        };
        skipped.push(Skipped { path, why });
    }
    Ok(skipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excluded_paths_round_trip() {
        let reasons = [
            Why::Rule("node_modules\n\"x\"".into()),
            Why::Special("FIFO".into()),
            Why::Unreadable("no".into()),
            Why::Vanished,
            Why::OtherFileSystem,
            Why::Store,
            Why::Budget("bytes".into()),
        ];
        let skipped: Vec<Skipped> = (0..20_000)
            .map(|number| Skipped {
                path: crate::manifest::path(format!("a/\u{e9}{number}").as_bytes()),
                why: reasons[number % 7].clone(),
            })
            .collect();
        let comments = comments(&skipped);
        assert!(comments.len() > 1);
        assert!(
            comments
                .iter()
                .all(|comment| comment.len() < 2 * COMMENT_LENGTH)
        );
        let read: Vec<Skipped> = comments
            .iter()
            .flat_map(|comment| read(comment).unwrap())
            .collect();
        assert_eq!(read, skipped);
    }

    #[test]
    fn foreign_comments_are_ignored_broken_ones_refused() {
        assert_eq!(read(b"0a1b2c made by git").unwrap(), []);
        for wrong in [
            "",
            "{}\n",
            "{\"path\":\"../x\",\"why\":\"vanished\"}\n",
            "x",
        ] {
            let comment = [HEADER, wrong.as_bytes()].concat();
            assert!(read(&comment).is_err(), "{wrong}");
        }
    }
}
