//! Secrets that are recognized by their context: private key blocks, signed tokens, headers, credentials
//! in URLs, and URLs that are secret themselves.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::piece::{Hit, Piece};
use super::{encoding, shape};

/// Prefixes from which a detailed match starts.
#[rustfmt::skip]
pub(super) const PREFIXES: [&str; 12] = [
    "-----BEGIN ", "eyJ", "://", "Bearer ", "bearer ", "BEARER ", "Basic ", "basic ", "BASIC ",
    "hooks.slack.com/", "discord.com/api/webhooks/", "discordapp.com/api/webhooks/",
];

/// The labels of what is found here.
pub(super) const LABELS: [&str; 6] = [
    "private-key",
    "jwt",
    "url-password",
    "bearer-token",
    "basic-login",
    "webhook",
];

/// Longer text is not a login and need not be searched.
const LONGEST_LOGIN: usize = 512;

/// What may appear between the first and the last line of a key, whatever tool prints it: base64,
/// headers, line ends (plain or escaped), quotes, line numbers and the margins of listings and diffs.
static WHOLE_KEY: LazyLock<Regex> = LazyLock::new(|| {
    let kind = "(?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?";
    let body = r#"(?:-{0,2}[A-Za-z0-9+/=\s\\:,.()"'>|*@<→])*-?"#;
    Regex::new(&format!(
        "^-----BEGIN {kind}-----{body}-----END {kind}-----"
    ))
    .expect("the pattern is constant")
});

/// A key whose end is missing: the first line and the full lines of base64 after it.
static CUT_KEY: LazyLock<Regex> = LazyLock::new(|| {
    let line = r#"(?:(?:\\+[nr]|[\s"',+>|→0-9])*[A-Za-z0-9+/=]{32,})+"#;
    Regex::new(&format!(
        "^-----BEGIN (?:[A-Z0-9]+ ){{0,4}}PRIVATE KEY(?: BLOCK)?-----{line}"
    ))
    .expect("the pattern is constant")
});

/// The secret at one prefix. `key_at` finds a key with a known prefix, so that a key has the same label
/// after `Bearer` as elsewhere.
pub(super) fn find(
    piece: &Piece<'_>,
    prefix: Range<usize>,
    word: &str,
    key_at: impl FnOnce(usize) -> Option<Hit>,
) -> Option<Hit> {
    match word {
        "-----BEGIN " => private_key(piece, prefix.start),
        "eyJ" => signed_token(piece, prefix.start),
        "://" => login(piece, prefix, key_at),
        "Bearer " | "bearer " | "BEARER " => {
            let at = piece.run(prefix.end, |byte| byte == b' ');
            key_at(at).or_else(|| bearer(piece, prefix.start, at))
        }
        "Basic " | "basic " | "BASIC " => basic(piece, prefix),
        _ if word.ends_with('/') => webhook(piece, prefix.end),
        _ => None,
    }
}

fn private_key(piece: &Piece<'_>, start: usize) -> Option<Hit> {
    let rest = &piece.text[start..];
    let found = WHOLE_KEY.find(rest).or_else(|| CUT_KEY.find(rest))?;
    (!shape::is_stand_in(found.as_str().trim_start_matches('-')) || found.len() > 200)
        .then(|| piece.hide(start..start + found.end(), "private-key"))
}

fn is_url_digit(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-".contains(&byte)
}

/// A JSON Web Token: a header and a body that both start as JSON, and a signature. Five parts if it is
/// encrypted.
fn signed_token(piece: &Piece<'_>, start: usize) -> Option<Hit> {
    // Inside another token; parsing from each such position would take quadratic time.
    if piece.text[..start].ends_with(['.', '-']) || !piece.begins_word(start) {
        return None;
    }
    let run = piece.run(start, |byte| is_url_digit(byte) || byte == b'.');
    let token = piece.text[start..run].trim_end_matches('.');
    let parts: Vec<&str> = token.splitn(6, '.').collect();
    let long = |part: &&str| part.len() >= 10;
    let is_token = match parts.as_slice() {
        [header, body, signature] => {
            body.starts_with("eyJ") && [header, body, signature].into_iter().all(long)
        }
        [header, _, nonce, body, tag] => [header, nonce, body, tag].into_iter().all(long),
        _ => false,
    };
    is_token.then(|| piece.hide(start..start + token.len(), "jwt"))
}

/// The password in `scheme://user:password@host`.
fn login(
    piece: &Piece<'_>,
    prefix: Range<usize>,
    key_at: impl FnOnce(usize) -> Option<Hit>,
) -> Option<Hit> {
    let scheme = piece.text.as_bytes()[..prefix.start].last()?;
    let inside = |byte: u8| byte > b' ' && byte < 0x7f && !b"/?#\"'`<>\\".contains(&byte);
    let end = piece.run(prefix.end, inside);
    let authority = &piece.text[prefix.end..end];
    if !scheme.is_ascii_alphanumeric() || authority.len() > LONGEST_LOGIN {
        return None;
    }
    let (login, _) = authority.rsplit_once('@')?;
    let (user, password) = login.split_once(':')?;
    // Formats and patterns only describe a URL; a password equal to its user is a default from
    // tutorials.
    let described = password.contains(['(', '[', '{', '<', ')', ']', '}', '>'])
        || shape::is_stand_in(password)
        || shape::is_common_word(password)
        || password == user;
    let start = prefix.end + user.len() + 1;
    if described || password.len() < 4 {
        return None;
    }
    let end = start + password.len();
    key_at(start)
        .filter(|key| key.range.end == end + piece.offset)
        .or_else(|| Some(piece.hide(start..end, "url-password")))
}

/// The token after `Bearer`. The word also occurs in prose, so what follows must not be a word.
fn bearer(piece: &Piece<'_>, prefix: usize, at: usize) -> Option<Hit> {
    let belongs = |byte: u8| is_url_digit(byte) || b".~+/=".contains(&byte);
    let end = piece.run(at, belongs);
    let token = piece.text[at..end].trim_end_matches('.');
    let random = token.bytes().any(|byte| byte.is_ascii_digit()) && !shape::is_identifier(token);
    (token.len() >= 16 && random && piece.begins_word(prefix) && !shape::is_stand_in(token))
        .then(|| piece.hide(at..at + token.len(), "bearer-token"))
}

/// The login after `Basic`: base64 of a readable `user:password`.
fn basic(piece: &Piece<'_>, prefix: Range<usize>) -> Option<Hit> {
    let at = piece.run(prefix.end, |byte| byte == b' ');
    let end = piece.run(at, |byte| is_url_digit(byte) || b"+/=".contains(&byte));
    let token = &piece.text[at..end];
    let login = String::from_utf8(encoding::decode_base64(token)?).ok()?;
    let (user, password) = login.split_once(':')?;
    let readable = !login.chars().any(char::is_control);
    let real = user.len() + password.len() >= 4 && !shape::is_stand_in(password);
    (readable && real && piece.begins_word(prefix.start))
        .then(|| piece.hide(at..end, "basic-login"))
}

/// The path of a webhook URL, to which anybody who knows it may post.
fn webhook(piece: &Piece<'_>, at: usize) -> Option<Hit> {
    let end = piece.run(at, |byte| is_url_digit(byte) || byte == b'/');
    let path = piece.text[at..end].trim_end_matches('/');
    let random = path.len() >= 24 && path.bytes().any(|byte| byte.is_ascii_digit());
    (random && !shape::is_stand_in(path)).then(|| piece.hide(at..at + path.len(), "webhook"))
}
