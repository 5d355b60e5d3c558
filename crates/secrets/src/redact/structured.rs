//! Secrets that are recognized by their context: private key blocks, signed tokens, headers, credentials
//! in URLs, and URLs that are secret themselves.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::piece::{Hit, Piece};
use super::{encoding, shape};

/// Prefixes from which a detailed match starts.
#[rustfmt::skip]
pub(super) const PREFIXES: [&str; 25] = [
    "-----BEGIN ", "eyJ", "://", "%3A%2F%2F", "%3a%2f%2f", "Bearer ", "bearer ", "BEARER ", "Basic ",
    "basic ", "BASIC ", "hooks.slack.com/", "discord.com/api/webhooks/",
    "discordapp.com/api/webhooks/", "outlook.office.com/webhook/", ".webhook.office.com/",
    "uthorization", "UTHORIZATION", ".atlasv1.", "7Q~", "8Q~", ":AA", "\"auth\"", "Signature=",
    "\\\"auth\\\"",
];

/// The labels of what is found here.
pub(super) const LABELS: [&str; 12] = [
    "auth-token",
    "telegram-token",
    "terraform-token",
    "azure-secret",
    "twilio-token",
    "url-secret",
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
        "%3A%2F%2F" | "%3a%2f%2f" => escaped_login(piece, prefix.end),
        "uthorization" | "UTHORIZATION" => authorization(piece, prefix.end, key_at),
        ".atlasv1." => surrounded(piece, &prefix, (14, 14), (60, 70), "terraform-token"),
        "7Q~" | "8Q~" => surrounded(piece, &prefix, (3, 3), (31, 34), "azure-secret"),
        ":AA" => surrounded(piece, &prefix, (8, 10), (32, 35), "telegram-token"),
        "Signature=" => signature(piece, prefix),
        _ if word.ends_with("auth\"") || word.ends_with("auth\\\"") => {
            stored_login(piece, prefix.end)
        }
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
    // The marker of a diff line is not.
    let before = &piece.text[..start];
    let inside = before.ends_with('.') || before.ends_with('-') && !is_diff_marker(before);
    if inside || !piece.begins_word(start) {
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

fn is_diff_marker(before: &str) -> bool {
    before == "-" || before.ends_with("\n-")
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
    let Some((user, password)) = login.split_once(':') else {
        // A token instead of a user.
        let token = prefix.end..prefix.end + login.len();
        return key_at(token.start).or_else(|| {
            let random = login.len() >= 16 && shape::is_random_token(login);
            random.then(|| piece.hide(token, "url-password"))
        });
    };
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

/// The password in a login inside of a percent-encoded address.
fn escaped_login(piece: &Piece<'_>, start: usize) -> Option<Hit> {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~%!*".contains(&byte);
    let end = piece.bounded_run(start, LONGEST_LOGIN, inside);
    let authority = &piece.text[start..end];
    let host = find_escape(authority, "%40")?;
    let colon = find_escape(&authority[..host], "%3A")?;
    let password = &authority[colon + 3..host];
    // An escaped slash before the host is the end of an address without a login.
    let real = find_escape(&authority[..colon], "%2F").is_none()
        && password.len() >= 4
        && !shape::is_stand_in(password)
        && !shape::is_common_word(password);
    real.then(|| piece.hide(start + colon + 3..start + host, "url-password"))
}

/// The position of a percent escape, in either case.
fn find_escape(text: &str, escape: &str) -> Option<usize> {
    text.find(escape)
        .into_iter()
        .chain(text.find(&escape.to_ascii_lowercase()))
        .min()
}

/// The credentials after `Authorization`, whatever the scheme: `Token X`, `ApiKey X`, `X`.
fn authorization(
    piece: &Piece<'_>,
    at: usize,
    key_at: impl FnOnce(usize) -> Option<Hit>,
) -> Option<Hit> {
    let gap = |at| piece.bounded_run(at, 9, |byte| b" \t\"'\\:=,".contains(&byte));
    let belongs = |byte: u8| is_url_digit(byte) || b".~+/:%".contains(&byte);
    let word = |at| piece.bounded_run(at, LONGEST_LOGIN, belongs);
    let start = gap(at);
    if start == at || start - at > 8 {
        return None;
    }
    let first = start..word(start);
    // `token=X` and `Token X`; without a scheme, the token itself.
    let scheme = &piece.text[first.clone()];
    let next = gap(first.end);
    let named = scheme.len() <= 20 && shape::is_wordlike(scheme) && next > first.end;
    let token = if named && next - first.end <= 3 {
        next..word(next)
    } else {
        first
    };
    let others = ["bearer", "basic", "digest", "aws4-hmac-sha256", "negotiate"];
    if others
        .iter()
        .any(|other| scheme.eq_ignore_ascii_case(other))
    {
        return None;
    }
    let text = piece.text[token.clone()].trim_end_matches(['.', ':']);
    let digest = text.len() >= 20 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let secret = text.len() >= 16 && (digest || shape::is_random_token(text));
    key_at(token.start)
        .or_else(|| secret.then(|| piece.hide(token.start..token.start + text.len(), "auth-token")))
}

/// A key with a fixed part in its middle: so many letters and digits before it and after it.
fn surrounded(
    piece: &Piece<'_>,
    middle: &Range<usize>,
    before: (usize, usize),
    after: (usize, usize),
    label: &str,
) -> Option<Hit> {
    let bytes = piece.text.as_bytes();
    let front = bytes[..middle.start]
        .iter()
        .rev()
        .take(before.1 + 1)
        .take_while(|byte| byte.is_ascii_alphanumeric())
        .count();
    let belongs = |byte: u8| is_url_digit(byte) || byte == b'~';
    let end = piece.bounded_run(middle.end, after.1 + 1, belongs);
    let fits = |length: usize, (least, most)| (least..=most).contains(&length);
    // A path may precede the number of a bot.
    let front = if label == "telegram-token" && front > before.1 {
        bytes[middle.start - before.1..middle.start]
            .iter()
            .all(u8::is_ascii_digit)
            .then_some(before.1)?
    } else {
        front.min(before.1)
    };
    (fits(front, before) && fits(end - middle.end, after))
        .then(|| piece.hide(middle.start - front..end, label))
}

/// The signature of a signed request: 64 hexadecimal digits.
fn signature(piece: &Piece<'_>, prefix: Range<usize>) -> Option<Hit> {
    let end = piece.bounded_run(prefix.end, 65, |byte| byte.is_ascii_hexdigit());
    (end - prefix.end == 64).then(|| piece.hide(prefix.end..end, "url-secret"))
}

/// The login in the settings of a container registry: base64 of `user:password`.
fn stored_login(piece: &Piece<'_>, at: usize) -> Option<Hit> {
    let start = piece.run(at, |byte| b" \t\"\\:".contains(&byte));
    if start - at > 8 {
        return None;
    }
    encoded_login(piece, start)
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
    encoded_login(piece, at).filter(|_| piece.begins_word(prefix.start))
}

/// Base64 of a readable `user:password` at `at`.
fn encoded_login(piece: &Piece<'_>, at: usize) -> Option<Hit> {
    let end = piece.run(at, |byte| is_url_digit(byte) || b"+/=".contains(&byte));
    let token = &piece.text[at..end];
    let login = String::from_utf8(encoding::decode_base64(token)?).ok()?;
    let (user, password) = login.split_once(':')?;
    let readable = !login.chars().any(char::is_control);
    let real = user.len() + password.len() >= 4 && !shape::is_stand_in(password);
    (readable && real).then(|| piece.hide(at..end, "basic-login"))
}

/// The path of a webhook URL, to which anybody who knows it may post.
fn webhook(piece: &Piece<'_>, at: usize) -> Option<Hit> {
    let end = piece.run(at, |byte| is_url_digit(byte) || b"/@".contains(&byte));
    let path = piece.text[at..end].trim_end_matches('/');
    let random = path.len() >= 24 && path.bytes().any(|byte| byte.is_ascii_digit());
    (random && !shape::is_stand_in(path)).then(|| piece.hide(at..at + path.len(), "webhook"))
}
