//! Values that follow a name without an assignment: arguments (`--password X`), environment files of
//! containers, netrc, markup, and sentences (`the token is X`).
//!
//! The looser the link between name and value, the more random the value must be.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::name::{self, Confidence};
use super::piece::{Hit, Piece};
use super::prefix::Prefixes;
use super::{assignment, command, shape};

/// How the names that are searched for contain a secret's name.
#[rustfmt::skip]
const NAMES: [&str; 14] = [
    "pass", "Pass", "PASS", "pwd", "token", "Token", "TOKEN", "secret", "Secret", "SECRET",
    "key", "Key", "KEY", "redential",
];

static PREFIXES: LazyLock<Prefixes> =
    LazyLock::new(|| Prefixes::new(NAMES.into_iter().chain(command::PROGRAMS)));

/// What may stand between a name and its value.
static LINK: LazyLock<Regex> = LazyLock::new(|| {
    let links = [
        // Items of a list of arguments or of a call.
        r#"(?<item>\\*["'`]\s{0,4},\s{0,4}\\*["'`])"#,
        // `name: X, value: Y`, and blocks with a default.
        r#"(?<declared>\\?["']?\s{0,4}\{?(?:\s|\\n){0,40}(?:default|value)\\?["']?\s{0,4}[:=]\s{0,4}\\?["']?)"#,
        // A declaration with a type.
        r#"(?<typed>: ?&?(?:'static )?(?i:str|string)\s{0,4}=\s{0,4}["'`])"#,
        r"(?<markup>>)",
        r#"(?<blank>["']?[ \t]{1,8}["'`]?)"#,
    ];
    let prose =
        r#"(?<prose>["'`]?(?: is|:| was)?(?: ->| =>|:)?(?:[ \t]|\r?\n|(?:\\r)?\\n){1,8}["'`]?)"#;
    Regex::new(&format!("^(?:{}|{prose})", links.join("|"))).expect("the pattern is constant")
});

/// How far before `password` a netrc file names the machine or the login.
const NETRC_ENTRY: usize = 200;
/// A value in a sentence.
const SHORTEST_IN_PROSE: usize = 20;
const SHORTEST_PASSWORD_IN_PROSE: usize = 12;
const LONGEST_NAME: usize = 64;

pub(super) fn find(piece: &Piece<'_>, hits: &mut Vec<Hit>) {
    let mut at = 0;
    // Up to where the commands of each program are read.
    let mut read = [0; command::PROGRAMS.len()];
    while let Some((start, word)) = PREFIXES.next(piece.text, at) {
        at = start + word.len();
        if let Some(program) = command::PROGRAMS
            .iter()
            .position(|program| *program == word)
        {
            if start >= read[program] {
                read[program] = command::find(piece, start, program, hits);
            }
            continue;
        }
        let end = piece.run(at, is_name);
        if let Some(hit) = after_name(piece, start, end) {
            at = hit.range.end - piece.offset;
            hits.push(hit);
        } else {
            at = end;
        }
    }
    // A command may contain a name, so hits of the two can overlap.
    hits.sort_by_key(|hit| hit.range.start);
    let mut hidden = 0;
    hits.retain(|hit| {
        let free = hit.range.start >= hidden;
        hidden = hidden.max(hit.range.end);
        free
    });
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.-".contains(&byte)
}

fn after_name(piece: &Piece<'_>, word: usize, end: usize) -> Option<Hit> {
    let before = &piece.text.as_bytes()[..word];
    let length = before
        .iter()
        .rev()
        .take(LONGEST_NAME)
        .take_while(|byte| is_name(**byte))
        .count();
    // The letter of an escaped line end does not belong to the name.
    let begin = match &before[..word - length] {
        [.., b'\\'] if length > 0 => word - length + 1,
        _ => word - length,
    };
    let end = begin + piece.text[begin..end].trim_end_matches('.').len();
    let name = &piece.text[begin..end];
    let (confidence, family) = name::classify(name)?;
    let link = LINK.captures(&piece.text[end..])?;
    let (start, value) = value(piece, end + link.get_match().end())?;
    let has = |group: &str| link.name(group).is_some();
    let markup = has("markup");
    if markup && !before[..begin].ends_with(b"<") {
        return None;
    }
    let secret = if markup || has("item") || has("declared") || has("typed") {
        assignment::is_secret(confidence, value)
    } else {
        is_secret_after_blank(piece, begin, name, (confidence, &link), value)
    };
    secret.then(|| piece.hide(start..start + value.len(), family))
}

fn is_secret_after_blank(
    piece: &Piece<'_>,
    begin: usize,
    name: &str,
    (confidence, link): (Confidence, &Captures<'_>),
    value: &str,
) -> bool {
    let direct = link.name("blank").is_some();
    if name.starts_with('-') {
        return direct && !value.starts_with('-') && assignment::is_secret(confidence, value);
    }
    if name == "password" && is_netrc(&piece.text.as_bytes()[..begin]) {
        return assignment::is_secret(Confidence::Strong, value);
    }
    // A variable or setting: `ENV API_KEY X`, `config set user.password X`.
    let compound = name.contains(['_', '.']) && confidence != Confidence::Hint;
    if compound && direct && value.len() >= SHORTEST_PASSWORD_IN_PROSE {
        return assignment::is_secret(Confidence::Weak, value);
    }
    let least = match confidence {
        Confidence::Strong => SHORTEST_PASSWORD_IN_PROSE,
        _ => SHORTEST_IN_PROSE,
    };
    value.len() >= least && shape::is_random_token(value)
}

/// Whether a netrc entry precedes: the password of a machine or of a login.
fn is_netrc(before: &[u8]) -> bool {
    let near = &before[before.len().saturating_sub(NETRC_ENTRY)..];
    let contains = |word: &[u8]| near.windows(word.len()).any(|part| part == word);
    contains(b"login ") && (contains(b"machine ") || contains(b"default "))
}

/// The value at `start`: up to the quote that opened before it, else one word.
fn value<'a>(piece: &Piece<'a>, start: usize) -> Option<(usize, &'a str)> {
    let bytes = piece.text.as_bytes();
    let quote = bytes[start - 1];
    let end = match quote {
        b'"' | b'\'' | b'`' => {
            piece.run(start, |byte| byte != quote && byte > b' ' && byte != b'\\')
        }
        _ => piece.run(start, |byte| {
            byte > b' ' && !b"\"'`,;&()[]{}<>|\\".contains(&byte)
        }),
    };
    let value = piece.text[start..end].trim_end_matches(['.', ':']);
    (!value.is_empty() && value.len() <= assignment::LONGEST_VALUE).then_some((start, value))
}
