//! `.gitignore` patterns. Matching takes time in proportion to the text, whatever the pattern: it
//! never backtracks further than the last star.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A pattern for paths, as in a `.gitignore`: `*.log`, `/cache/`, `web/**/dist`.
///
/// A pattern with a slash before its end is compared with the whole path, one without with every
/// name. A slash at its end means folders only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern {
    text: String,
    negated: bool,
    folders_only: bool,
    /// Whether it is compared with the whole path.
    whole: bool,
    parts: Vec<Vec<u8>>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a pattern: it is empty")]
pub struct PatternError(String);

impl Pattern {
    /// Parses one line of a `.gitignore`; `None` for comments and empty lines.
    pub(super) fn line(line: &[u8]) -> Option<Self> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.starts_with(b"#") {
            return None;
        }
        Self::parse(without_end_spaces(line))
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let (negated, rest) = match text.strip_prefix(b"!") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (folders_only, rest) = match rest.strip_suffix(b"/") {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let whole = rest.contains(&b'/');
        let rest = rest.strip_prefix(b"/").unwrap_or(rest);
        if rest.is_empty() {
            return None;
        }
        Some(Self {
            text: String::from_utf8_lossy(text).into_owned(),
            negated,
            folders_only,
            whole,
            parts: rest
                .split(|byte| *byte == b'/')
                .map(<[u8]>::to_vec)
                .collect(),
        })
    }

    pub fn is_negated(&self) -> bool {
        self.negated
    }

    /// Whether it matches `path`, given as names relative to the folder of the pattern.
    pub(super) fn matches(&self, path: &[&[u8]], is_folder: bool) -> bool {
        if self.folders_only && !is_folder {
            return false;
        }
        if self.whole {
            return whole_path(&self.parts, path);
        }
        path.last()
            .is_some_and(|name| one_name(&self.parts[0], name))
    }

    /// Whether it matches `path` or a folder above it.
    pub(super) fn covers(&self, path: &[&[u8]], is_folder: bool) -> bool {
        (1..=path.len()).any(|end| self.matches(&path[..end], is_folder || end < path.len()))
    }

    /// Whether it names a path below the folder `path`. Only patterns with a fixed start do:
    /// `*.log` does not open every folder that would be excluded.
    pub(super) fn leads_into(&self, path: &[&[u8]]) -> bool {
        let fixed = self.whole && self.parts.first().is_some_and(|part| part != b"**");
        let below = self.parts.len() > path.len() || self.parts.iter().any(|part| part == b"**");
        let steps = self.parts.iter().take_while(|part| *part != b"**");
        fixed && below && steps.zip(path).all(|(part, name)| one_name(part, name))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        Self::parse(text.as_bytes()).ok_or_else(|| PatternError(text.to_owned()))
    }
}

impl TryFrom<String> for Pattern {
    type Error = PatternError;

    fn try_from(text: String) -> Result<Self, PatternError> {
        text.parse()
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.text
    }
}

/// Strips trailing spaces, unless the last one is escaped as `\ `.
fn without_end_spaces(mut line: &[u8]) -> &[u8] {
    while let Some(rest) = line.strip_suffix(b" ") {
        if rest.ends_with(b"\\") {
            break;
        }
        line = rest;
    }
    line
}

/// Compares name by name; `**` matches any number of names, at the end at least one.
fn whole_path(parts: &[Vec<u8>], path: &[&[u8]]) -> bool {
    let (mut part, mut name) = (0, 0);
    let mut again: Option<(usize, usize)> = None;
    while name < path.len() {
        if parts.get(part).is_some_and(|part| part == b"**") {
            again = Some((part, name));
            part += 1;
            if part == parts.len() {
                return true;
            }
        } else if parts
            .get(part)
            .is_some_and(|part| one_name(part, path[name]))
        {
            part += 1;
            name += 1;
        } else if let Some((stars, from)) = again {
            again = Some((stars, from + 1));
            (part, name) = (stars + 1, from + 1);
        } else {
            return false;
        }
    }
    part == parts.len()
}

/// Compares one name with one part: `*`, `?`, `[a-z]`, `\`.
fn one_name(part: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut again: Option<(usize, usize)> = None;
    while from < name.len() {
        if part.get(at) == Some(&b'*') {
            again = Some((at, from));
            at += 1;
        } else if let Some(next) = one_byte(part, at, name[from]) {
            at = next;
            from += 1;
        } else if let Some((star, kept)) = again {
            again = Some((star, kept + 1));
            (at, from) = (star + 1, kept + 1);
        } else {
            return false;
        }
    }
    part[at..].iter().all(|byte| *byte == b'*')
}

/// The next position in the part, if its current element matches `byte`.
fn one_byte(part: &[u8], at: usize, byte: u8) -> Option<usize> {
    match *part.get(at)? {
        b'?' => Some(at + 1),
        b'[' => class(part, at + 1, byte),
        b'\\' => (*part.get(at + 1)? == byte).then_some(at + 2),
        sign => (sign == byte).then_some(at + 1),
    }
}

/// Matches a class, from behind its `[`. One that does not end matches nothing, as in git.
fn class(part: &[u8], start: usize, byte: u8) -> Option<usize> {
    let inverted = matches!(part.get(start), Some(b'!' | b'^'));
    let first = start + usize::from(inverted);
    let (mut at, mut found) = (first, false);
    loop {
        let mut low = *part.get(at)?;
        if low == b']' && at > first {
            return (found != inverted).then_some(at + 1);
        }
        if low == b'\\' {
            at += 1;
            low = *part.get(at)?;
        }
        let ranged = part.get(at + 1) == Some(&b'-') && part.get(at + 2) != Some(&b']');
        let high = if ranged {
            at += 2;
            *part.get(at)?
        } else {
            low
        };
        found |= (low..=high).contains(&byte);
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        let pattern = Pattern::line(pattern.as_bytes()).unwrap();
        let folder = path.ends_with('/');
        let names: Vec<_> = path.trim_end_matches('/').split('/').collect();
        let names: Vec<_> = names.iter().map(|name| name.as_bytes()).collect();
        pattern.matches(&names, folder)
    }

    #[test]
    fn patterns_match_like_git() {
        for (pattern, path, expected) in [
            ("*.log", "a/b/x.log", true),
            ("*.log", "x.logs", false),
            ("/x", "x", true),
            ("/x", "a/x", false),
            ("a/x", "a/x", true),
            ("a/x", "b/a/x", false),
            ("x/", "a/x/", true),
            ("x/", "a/x", false),
            ("**/x", "x", true),
            ("**/x", "a/b/x", true),
            ("a/**/x", "a/x", true),
            ("a/**/x", "a/b/c/x", true),
            ("a/**/x", "b/x", false),
            ("a/**", "a/b", true),
            ("a/**", "a/", false),
            ("x[0-9]?", "x5z", true),
            ("x[!0-9]", "x5", false),
            ("x[!0-9]", "xa", true),
            ("[]a]", "]", true),
            ("[z", "[z", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("\\!x", "!x", true),
            ("x  ", "x", true),
            ("x\\ ", "x ", true),
            ("a*b*c", "aXbXbc", true),
            ("a*b*c", "aXbXb", false),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} and {path}");
        }
    }

    #[test]
    fn empty_patterns_are_rejected() {
        for text in ["", "/", "!", "!/"] {
            assert!(text.parse::<Pattern>().is_err(), "{text}");
        }
        assert_eq!(Pattern::line(b"# a comment"), None);
    }

    #[test]
    fn pattern_matching_takes_bounded_time() {
        let stars = "*a".repeat(200);
        assert!(!matches(&stars, &"b".repeat(4000)));
        let stars = "**/a/".repeat(100) + "x";
        assert!(!matches(&stars, &("a/".repeat(1000) + "y")));
    }

    #[test]
    fn only_fixed_patterns_lead_into_folders() {
        let leads = |pattern: &str, folder: &[&[u8]]| {
            let pattern: Pattern = pattern.parse().unwrap();
            pattern.leads_into(folder)
        };
        assert!(leads("target/release/app", &[b"target"]));
        assert!(leads("target/release/app", &[b"target", b"release"]));
        assert!(leads("target/**/app", &[b"target", b"x", b"y"]));
        assert!(!leads("target/release/app", &[b"target", b"debug"]));
        assert!(!leads("target/release", &[b"target", b"release", b"x"]));
        assert!(!leads("*.log", &[b"target"]));
        assert!(!leads("**/x", &[b"target"]));
    }
}
