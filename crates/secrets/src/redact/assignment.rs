//! Values that a name marks as secret: `password=…`, `"api_key": "…"`, `export FOO_TOKEN=…`.
//!
//! Only the value is replaced, and only if it can be a secret. These stay, because they are code or
//! configuration that an agent must be able to read again:
//!
//! - variables, templates, calls and references (`${X}`, `os.environ["X"]`, `self.token`);
//! - stand-ins (`<your key>`, `xxx`, `***`, `changeme`) and common words;
//! - types and names (`token: String`, `secret: db-credentials-v2`): words without randomness;
//! - numbers and timestamps (`max_tokens`, expiry times), paths, URLs, digests with a name;
//! - texts with spaces, which are labels and messages (`"password": "Enter your password"`);
//! - bookmarks (`nextPageToken`), which mark an agent's position in a list.

use super::name::{self, Confidence};
use super::piece::{Hit, LastRun, Piece};
use super::{placeholder, shape};

/// Longer names and values do not belong to an assignment and need not be searched.
const LONGEST_NAME: usize = 64;
pub(super) const LONGEST_VALUE: usize = 512;
/// Words before a name that belong to it.
const LONGEST_PHRASE: usize = 24;
/// Blanks, quotes and backslashes between a name, its separator and the value.
const LONGEST_GAP: usize = 12;

/// The last run of each kind of value.
#[derive(Default)]
struct Runs {
    bare: LastRun,
    double: LastRun,
    single: LastRun,
    back: LastRun,
}

pub(super) fn find(piece: &Piece<'_>, hits: &mut Vec<Hit>) {
    let mut runs = Runs::default();
    let mut hidden = 0;
    let bytes = piece.text.bytes().enumerate();
    for (separator, _) in bytes.filter(|(_, byte)| b"=:".contains(byte)) {
        if separator < hidden {
            continue;
        }
        let Some((start, name)) = name_before(piece, separator) else {
            continue;
        };
        // The part of a resource name: `arn:…:secret:db-1`.
        if piece.text[separator..].starts_with(':') && piece.text[..start].ends_with(':') {
            continue;
        }
        let found = name::classify(name)
            .or_else(|| classify_in_query(&piece.text[..start], name))
            .map(|found| stronger_with_words(piece, start, name, found));
        let Some((confidence, family)) = found else {
            continue;
        };
        if let Some((start, value)) = value_after(piece, separator + 1, &mut runs)
            && is_secret(confidence, value)
        {
            hidden = start + value.len();
            hits.push(piece.hide(start..hidden, family));
        }
    }
}

/// The replacement for the whole `value` of a member called `name`.
pub(super) fn replacement(name: &str, value: &str) -> Option<String> {
    let (confidence, family) = name::classify(name)?;
    let one_word = !value.contains(char::is_whitespace) && value.len() <= LONGEST_VALUE;
    (one_word && is_secret(confidence, value)).then(|| placeholder::of(family, value))
}

/// What the name says together with the words before it: `API key`, `secret access key`.
fn stronger_with_words(
    piece: &Piece<'_>,
    start: usize,
    name: &str,
    found: (Confidence, &'static str),
) -> (Confidence, &'static str) {
    if !name.eq_ignore_ascii_case("key") || !piece.text[..start].ends_with(' ') {
        return found;
    }
    let before = &piece.text.as_bytes()[..start];
    let length = before
        .iter()
        .rev()
        .take(LONGEST_PHRASE)
        .take_while(|byte| byte.is_ascii_alphabetic() || **byte == b' ')
        .count();
    let phrase = &piece.text[start - length..start + name.len()];
    name::classify(phrase).unwrap_or(found)
}

fn classify_in_query(before: &str, name: &str) -> Option<(Confidence, &'static str)> {
    let query = before.ends_with(['?', '&', '#']);
    query.then(|| name::classify_parameter(name)).flatten()
}

/// The name before the separator at `at`, and its position.
fn name_before<'a>(piece: &Piece<'a>, at: usize) -> Option<(usize, &'a str)> {
    let mut before = &piece.text.as_bytes()[..at];
    if let [rest @ .., b':'] = before {
        // `:=` assigns; `::` separates.
        if piece.text.as_bytes()[at] != b'=' {
            return None;
        }
        before = rest;
    }
    let gap = before
        .iter()
        .rev()
        .take(LONGEST_GAP)
        .take_while(|byte| b" \t\"'\\`]".contains(byte))
        .count();
    let end = before.len() - gap;
    let length = before[..end]
        .iter()
        .rev()
        .take(LONGEST_NAME)
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(byte))
        .count();
    (length > 0).then(|| (end - length, &piece.text[end - length..end]))
}

/// The value after a separator, and its position.
fn value_after<'a>(piece: &Piece<'a>, at: usize, runs: &mut Runs) -> Option<(usize, &'a str)> {
    let bytes = piece.text.as_bytes();
    // `=>` assigns, too; `==`, `=~`, `::`, `:=` and `://` do not, or not here.
    let at = match bytes.get(at)? {
        b'>' => at + 1,
        b'=' | b'~' | b':' => return None,
        b'/' if bytes[at - 1] == b':' => return None,
        _ => at,
    };
    let blank = piece.run(at, |byte| b" \t".contains(&byte));
    let start = piece.run(blank, |byte| b"\"'\\`".contains(&byte));
    if start - at > LONGEST_GAP || start == bytes.len() {
        return None;
    }
    let quote = bytes[blank..start].iter().rfind(|byte| **byte != b'\\');
    let end = match quote {
        Some(quote) => {
            let run = match quote {
                b'"' => &mut runs.double,
                b'\'' => &mut runs.single,
                _ => &mut runs.back,
            };
            let end = run.end(piece, start, |byte| byte != *quote && byte != b'\n');
            let text = &piece.text[start..end];
            if bytes.get(end) != Some(quote)
                || text.len() > LONGEST_VALUE
                || text.contains(char::is_whitespace)
            {
                return None;
            }
            start + text.trim_end_matches('\\').len()
        }
        None if start > blank => return None,
        None => {
            let stop = |byte: u8| byte <= b' ' || b"\"'`,;&()[]{}<>|\\".contains(&byte);
            let end = runs.bare.end(piece, start, |byte| !stop(byte));
            // A call, an index, a type with parameters: code, not a value. A quote may end a string
            // that contains the name, too.
            if matches!(bytes.get(end), Some(b'(' | b'[' | b'{' | b'<')) {
                return None;
            }
            start + piece.text[start..end].trim_end_matches(['.', ':']).len()
        }
    };
    (end - start <= LONGEST_VALUE).then(|| (start, &piece.text[start..end]))
}

pub(super) fn is_secret(confidence: Confidence, value: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| value.as_bytes().iter().any(kind);
    let harmless = shape::is_common_word(value)
        || shape::is_numeric(value)
        || shape::is_stand_in(value)
        || shape::is_path(value)
        || is_reference(value);
    if harmless {
        return false;
    }
    match confidence {
        Confidence::Strong => {
            let joined = value.contains(['_', '-', '.', '/', ':']);
            let word = shape::is_identifier(value) && (joined || !has(u8::is_ascii_digit));
            value.len() >= 6 && !word
        }
        Confidence::Weak => {
            let mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic);
            value.len() >= 8 && mixed && !shape::is_identifier(value) && !shape::is_uuid(value)
                || shape::is_random_token(value)
        }
        Confidence::Hint => value.len() >= 20 && shape::is_random_token(value),
        Confidence::Parameter => {
            let digest = value.len() >= 32 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
            value.len() >= 16 && (digest || shape::is_random_token(value))
        }
    }
}

/// Whether `value` refers to a secret instead of being one: a URL, a digest with the name of its
/// function, a resource, code.
fn is_reference(value: &str) -> bool {
    const REFERENCES: [&str; 8] = [
        "sha256:",
        "sha512:",
        "sha256-",
        "sha384-",
        "sha512-",
        "arn:",
        "vault:",
        "projects/",
    ];
    value.contains("://")
        || value.contains(['(', ')', '{', '}', '<', '>', '[', ']', ';'])
        || REFERENCES.iter().any(|start| value.starts_with(start))
}
