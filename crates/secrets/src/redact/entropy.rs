//! Long random tokens that no other finder explains.
//!
//! Only a delimited token counts: between whitespace, quotes or brackets, possibly after `name=` or
//! `name:`. It needs all character classes, and nearly as many bits per
//! character as random letters and digits of its length have. Values that look random
//! and must stay, because redacting them would lose work, have a test in `tests::ordinary`:
//!
//! - hexadecimal digests and UUIDs (too few bits per character) and ULIDs (one case): they identify
//!   commits, objects and sessions;
//! - base64 digests after the name of their function (`sha512-…`, `h1:…`, `SHA256:…`): lock files and
//!   checks depend on them;
//! - values that their name marks as id, digest, signature or bookmark, and typed ids (`toolu_…`,
//!   `msg_…`, `cus_…`): a conversation cannot be resumed without them. Keys of that form belong to
//!   `families`;
//! - identifiers, words with versions, paths and everything inside URLs;
//! - file contents: data URLs, base64 over several lines, the first bytes of known formats, public keys,
//!   and base64 of readable text.

use std::ops::Range;

use super::piece::{Hit, Piece};
use super::{name, shape};

const SHORTEST: usize = 24;
const LONGEST: usize = 200;
/// The maximum distance between an account and the token that is passed after it.
const LONGEST_ARGUMENT_GAP: usize = 48;
/// The maximum distance between a name and its token.
const LONGEST_GAP: usize = 8;

/// Hash functions whose base64 digests are written after their name.
#[rustfmt::skip]
const DIGESTS: [&str; 9] = [
    "sha1", "sha224", "sha256", "sha384", "sha512", "md5", "h1", "blake3", "xxh3",
];

/// Suffixes of names whose values are random and not secret.
#[rustfmt::skip]
const PUBLIC_NAMES: [&str; 20] = [
    "id", "ids", "uuid", "guid", "hash", "digest", "checksum", "integrity", "signature", "etag",
    "fingerprint", "cursor", "sha", "revision", "bookmark", "marker", "nonce", "hmr", "pubkey",
    "publickey",
];

/// Base64 prefixes of well-known formats: PNG, JPEG, GIF, WebP, SVG, ZIP, gzip, PDF, WOFF and WOFF2,
/// WebAssembly, certificates, and zeros (video, public SSH keys).
#[rustfmt::skip]
const FORMATS: [&str; 14] = [
    "iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR", "PHN2Zy", "UEsDB", "H4sI", "JVBERi", "d09GRg",
    "d09GMg", "AGFzbQ", "MII", "AAAA", "T2dnUw",
];

fn ends_token(byte: u8) -> bool {
    byte <= b' ' || byte >= 0x7f || b"\"'`<>()[]{},;|\\".contains(&byte)
}

fn belongs_to_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/_=-".contains(&byte)
}

/// Finds random tokens. Checks the end of each window of the minimum length first, so that ordinary
/// words are skipped quickly.
pub(super) fn find(piece: &Piece<'_>, hits: &mut Vec<Hit>) {
    let bytes = piece.text.as_bytes();
    let mut at = 0;
    let mut account = None;
    while let Some(segment) = bytes.get(at..at + SHORTEST) {
        if let Some(end) = segment.iter().rposition(|byte| ends_token(*byte)) {
            at += end + 1;
            continue;
        }
        let end = piece.run(at + SHORTEST, |byte| !ends_token(byte));
        // Without the marker of a diff line.
        let text = piece.text[at..end].trim_start_matches(['+', '-']);
        let after_account = account.is_some_and(|account| at - account <= LONGEST_ARGUMENT_GAP);
        // The cheap checks first: they reject hexadecimal digests and long words.
        let short = end - at <= LONGEST + 64;
        if is_twilio_account(text) {
            account = Some(end);
        } else if after_account && is_hex(text, 32) {
            hits.push(piece.hide(end - text.len()..end, "twilio-token"));
        } else if is_keyed_format(text) {
            hits.push(piece.hide(end - text.len()..end, "api-key"));
        } else if short
            && shape::has_all_kinds(&piece.text[at..end])
            && let Some(token) = candidate(piece, at..end)
            && is_random(&piece.text[token.clone()])
        {
            hits.push(piece.hide(token, "random"));
        }
        at = end + 1;
    }
}

/// Whether `text` is the id of a Twilio account. The token after it has the form of a digest.
fn is_twilio_account(text: &str) -> bool {
    text.strip_prefix("AC").is_some_and(|rest| is_hex(rest, 32))
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Formats of keys that have no prefix of three letters: Mailgun, Mailchimp, Twilio, Discord.
fn is_keyed_format(text: &str) -> bool {
    if !(34..=80).contains(&text.len()) {
        return false;
    }
    let dashed: Vec<&str> = text.splitn(4, '-').collect();
    let dotted: Vec<&str> = text.splitn(4, '.').collect();
    match (dashed.as_slice(), dotted.as_slice()) {
        ([body, one, two], _) if is_hex(body, 32) => is_hex(one, 8) && is_hex(two, 8),
        ([body, center], _) if is_hex(body, 32) => center
            .strip_prefix("us")
            .is_some_and(|number| matches!(number.len(), 1 | 2) && shape::is_numeric(number)),
        (_, [id, time, code]) => {
            id.starts_with(['M', 'N', 'O'])
                && (24..=28).contains(&id.len())
                && (6..=7).contains(&time.len())
                && (27..=40).contains(&code.len())
                && text
                    .bytes()
                    .all(|byte| belongs_to_token(byte) || byte == b'.')
                && !shape::is_wordlike(id)
        }
        _ => text.strip_prefix("SK").is_some_and(|rest| is_hex(rest, 32)),
    }
}

/// The token in a segment without whitespace, if it is delimited and nothing before it explains it.
fn candidate(piece: &Piece<'_>, mut segment: Range<usize>) -> Option<Range<usize>> {
    let cut = (piece.cut_before && segment.start == 0)
        || (piece.cut_after && segment.end == piece.text.len());
    if cut {
        return None;
    }
    let bytes = piece.text.as_bytes();
    if segment.start > 0 && bytes[segment.start - 1] == b'\\' {
        // The letter of an escaped line end; otherwise a path with backslashes.
        if !b"nrt".contains(&bytes[segment.start]) {
            return None;
        }
        segment.start += 1;
    }
    let text = piece.text[segment.clone()].trim_end_matches(['.', ':', '!', '?']);
    segment.end = segment.start + text.len();
    let split = text.trim_end_matches('=').rfind(['=', ':']);
    let (name, token) = match split {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => ("", text),
    };
    // The marker of a diff line.
    let token = token.trim_start_matches(['+', '-']);
    let simple = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    if !(SHORTEST..=LONGEST).contains(&token.len())
        || !token.bytes().all(belongs_to_token)
        || !name.bytes().all(simple)
    {
        return None;
    }
    let name = match name {
        "" => name_before(piece, segment.start),
        name => name,
    };
    let explained = is_public_name(name)
        || piece.name.is_some_and(is_public_name)
        || piece.text[..segment.start].ends_with("base64,")
        || has_neighbor_line(bytes, &segment);
    (!explained).then(|| segment.end - token.len()..segment.end)
}

/// The name before the quotes and the separator that precede `at`.
fn name_before<'a>(piece: &Piece<'a>, at: usize) -> &'a str {
    let before = &piece.text.as_bytes()[..at];
    let gap = before
        .iter()
        .rev()
        .take(LONGEST_GAP)
        .take_while(|byte| b" \t\"'\\:=".contains(byte))
        .count();
    let end = at - gap;
    let named = before[end..].iter().any(|byte| b":=".contains(byte));
    let length = before[..end]
        .iter()
        .rev()
        .take(64)
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(byte))
        .count();
    if named {
        &piece.text[end - length..end]
    } else {
        ""
    }
}

fn is_public_name(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    DIGESTS.contains(&lower.as_str())
        || lower.contains("public")
        || name::is_bookmark(name)
        || PUBLIC_NAMES.iter().any(|end| {
            // `id` must be a word of its own: `paid` does not count, `toolUseId` and `user_id` do.
            lower.strip_suffix(end).is_some_and(|rest| {
                let capital = name[rest.len()..].starts_with(|c: char| c.is_ascii_uppercase());
                rest.is_empty() || rest.ends_with(['_', '-', '.']) || capital || end.len() > 4
            })
        })
}

/// Whether the previous or next line is also one long token: a file in base64.
fn has_neighbor_line(bytes: &[u8], segment: &Range<usize>) -> bool {
    let after = line_end(bytes[segment.end..].iter().copied(), false)
        .map(|gap| token_length(bytes[segment.end + gap..].iter().copied()));
    let before = line_end(bytes[..segment.start].iter().rev().copied(), true)
        .map(|gap| token_length(bytes[..segment.start - gap].iter().rev().copied()));
    // The last line of a file may be short, but follows a full one.
    after.is_some_and(|length| length >= SHORTEST / 2) && segment.len() >= 40
        || before.is_some_and(|length| length >= 40)
}

/// The length of the line end and indentation here; `None` if the line does not end.
fn line_end(bytes: impl Iterator<Item = u8>, backwards: bool) -> Option<usize> {
    let mut ends = false;
    let mut gap = 0;
    let mut last = b' ';
    for byte in bytes.take(24) {
        // `\n` in JSON text: in forward direction the backslash comes first.
        let pair = if backwards {
            [byte, last]
        } else {
            [last, byte]
        };
        let escaped = matches!(pair, [b'\\', b'n' | b'r']);
        let announcement = backwards && gap == 0 && b"nr".contains(&byte);
        if !(byte.is_ascii_whitespace() || byte == b'\\' || escaped || announcement) {
            break;
        }
        ends |= byte == b'\n' || escaped;
        last = byte;
        gap += 1;
    }
    ends.then_some(gap)
}

fn token_length(bytes: impl Iterator<Item = u8>) -> usize {
    bytes
        .take(LONGEST)
        .take_while(|byte| belongs_to_token(*byte))
        .count()
}

fn is_random(token: &str) -> bool {
    let padding = token.trim_end_matches('=');
    let explained = padding.contains('=')
        || is_named_digest(token)
        || shape::is_typed_id(token)
        || token.starts_with("_ZN")
        || FORMATS.iter().any(|start| token.starts_with(start))
        || has_path_part(token)
        || shape::is_path(token)
        || shape::is_wordlike(token);
    !explained
        && shape::has_all_kinds(token)
        && !token
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
        && shape::entropy(token) >= shape::least_entropy(token.len())
        && !shape::is_encoded_text(token)
}

fn is_named_digest(token: &str) -> bool {
    token
        .split_once('-')
        .is_some_and(|(function, _)| DIGESTS.contains(&function))
}

/// Whether one part between slashes is a plain word or number.
fn has_path_part(token: &str) -> bool {
    let plain = |part: &str| {
        let rest = part.strip_prefix(|first: char| first.is_ascii_uppercase());
        let all = |text: &str, kind: fn(&u8) -> bool| text.as_bytes().iter().all(kind);
        all(rest.unwrap_or(part), u8::is_ascii_lowercase)
            || all(part, u8::is_ascii_uppercase)
            || all(part, u8::is_ascii_digit)
    };
    token.contains('/') && token.split('/').any(plain)
}
