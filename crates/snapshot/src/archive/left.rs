//! What a snapshot left out, as remarks at the beginning of an archive.
//!
//! Other programs pass over remarks. They are lines of JSON, a few thousand at a time.

use serde::{Deserialize, Serialize};

use crate::archive::names::{escape, place, unescape};
use crate::entry::{Skipped, Why};
use crate::manifest::bytes;

/// The first line of a remark of ours.
const FIRST: &[u8] = b"segno left out\n";
/// A remark that has reached this length gets no more lines.
const REMARK: usize = 256 * 1024;

/// What a file that never stood still is marked with.
pub(super) const UNSTABLE: &[u8] = b"segno unstable";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    path: String,
    why: Word,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    text: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Rule,
    Special,
    Unreadable,
    Vanished,
    OtherFileSystem,
    Vault,
    Budget,
}

/// The remarks for what was left out.
pub(super) fn remarks(skipped: &[Skipped]) -> Vec<Vec<u8>> {
    let mut remarks: Vec<Vec<u8>> = Vec::new();
    for one in skipped {
        let line = serde_json::to_vec(&line(one)).expect("lines are plain data");
        match remarks.last_mut() {
            Some(remark) if remark.len() < REMARK => {
                remark.extend_from_slice(&line);
                remark.push(b'\n');
            }
            _ => remarks.push([FIRST, &line, b"\n"].concat()),
        }
    }
    remarks
}

fn line(skipped: &Skipped) -> Line {
    let (why, text) = match &skipped.why {
        Why::Rule(rule) => (Word::Rule, rule.as_str()),
        Why::Special(what) => (Word::Special, what.as_str()),
        Why::Unreadable(reason) => (Word::Unreadable, reason.as_str()),
        Why::Vanished => (Word::Vanished, ""),
        Why::OtherFileSystem => (Word::OtherFileSystem, ""),
        Why::Vault => (Word::Vault, ""),
        Why::Budget(what) => (Word::Budget, what.as_str()),
    };
    Line {
        path: escape(bytes(&skipped.path)),
        why,
        text: text.to_owned(),
    }
}

/// Reads a remark; nothing if it is somebody else's.
pub(super) fn read(remark: &[u8]) -> Result<Vec<Skipped>, &'static str> {
    const WRONG: &str = "what it says was left out cannot be read";
    let Some(lines) = remark.strip_prefix(FIRST) else {
        return Ok(Vec::new());
    };
    let lines = lines.strip_suffix(b"\n").ok_or(WRONG)?;
    let mut skipped = Vec::new();
    for line in lines.split(|byte| *byte == b'\n') {
        let Line { path, why, text } = serde_json::from_slice(line).map_err(|_| WRONG)?;
        let path = place(&unescape(path.as_bytes()).ok_or(WRONG)?)?;
        let why = match why {
            Word::Rule => Why::Rule(text),
            Word::Special => Why::Special(text),
            Word::Unreadable => Why::Unreadable(text),
            Word::Vanished => Why::Vanished,
            Word::OtherFileSystem => Why::OtherFileSystem,
            Word::Vault => Why::Vault,
            Word::Budget => Why::Budget(text),
        };
        skipped.push(Skipped { path, why });
    }
    Ok(skipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_out_reads_back_however_much_it_is() {
        let reasons = [
            Why::Rule("node_modules\n\"x\"".into()),
            Why::Special("FIFO".into()),
            Why::Unreadable("no".into()),
            Why::Vanished,
            Why::OtherFileSystem,
            Why::Vault,
            Why::Budget("bytes".into()),
        ];
        let skipped: Vec<Skipped> = (0..20_000)
            .map(|number| Skipped {
                path: crate::manifest::path(format!("a/\u{e9}{number}").as_bytes()),
                why: reasons[number % 7].clone(),
            })
            .collect();
        let remarks = remarks(&skipped);
        assert!(remarks.len() > 1);
        assert!(remarks.iter().all(|remark| remark.len() < 2 * REMARK));
        let read: Vec<Skipped> = remarks
            .iter()
            .flat_map(|remark| read(remark).unwrap())
            .collect();
        assert_eq!(read, skipped);
    }

    #[test]
    fn remarks_of_others_say_nothing_and_broken_ones_are_refused() {
        assert_eq!(read(b"0a1b2c made by git").unwrap(), []);
        for wrong in ["", "{}\n", "{\"path\":\"../x\",\"why\":\"vault\"}\n", "x"] {
            let remark = [FIRST, wrong.as_bytes()].concat();
            assert!(read(&remark).is_err(), "{wrong}");
        }
    }
}
