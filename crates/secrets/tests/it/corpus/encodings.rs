//! Known secrets, in the encodings in which programs print them.

use super::Sample;
use super::draw::{ALPHANUMERIC, BASE64, Draw, LETTERS, PASSWORD};

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Variables with secrets of every usual form.
pub(super) fn environment(draw: &Draw) -> Vec<(String, String)> {
    let value = |index: usize| match index % 6 {
        0 => draw.mixed(draw.between(20, 64)),
        1 => draw.text(PASSWORD, draw.between(10, 20)),
        2 => draw.hex(32),
        3 => format!("{}=", draw.text(BASE64, 43)),
        4 => format!(
            "{}&\"{}/<{}\\'é {}",
            draw.mixed(5),
            draw.mixed(4),
            draw.mixed(4),
            draw.mixed(3)
        ),
        _ => format!(
            "{}-{}-{}",
            draw.text(LETTERS, 6),
            draw.mixed(8),
            draw.text(ALPHANUMERIC, 6)
        ),
    };
    (0..24)
        .map(|index| {
            let name = format!("{}_{index}_TOKEN", draw.word().to_uppercase());
            (name, value(index))
        })
        .collect()
}

/// One known secret in one encoding, in a text.
pub(super) fn sample(draw: &Draw, environment: &[(String, String)]) -> Sample {
    let value = &environment[draw.below(environment.len())].1;
    let (kind, spelled, body) = match draw.below(16) {
        0 => same("plain", value.clone()),
        1 => same("JSON", json(value)),
        2 => same("JSON in JSON", json(&json(value))),
        3 => same("JSON with escaped slashes", json(value).replace('/', "\\/")),
        4 => same("escaped in full", unicode(value, |_| true)),
        5 => same("escaped in part", unicode(value, |_| draw.below(3) == 0)),
        6 => same("percent, minimal", percent(value, "-_.~", draw.flip())),
        7 => same("percent, full", percent_all(value, draw.flip())),
        8 => same("shell", shell(value)),
        9 => same("entities", entities(value)),
        10 => same("hex", hex(value, draw.one(&["", ":", " "]), draw.flip())),
        11 => same("hex in code", escaped_hex(value)),
        12 => base64(draw, value, "", "", 0),
        13 => base64(draw, value, "user:", "", 0),
        14 => {
            let (before, after) = (
                draw.words(draw.below(5), " "),
                draw.words(draw.below(5), " "),
            );
            base64(draw, value, &before, &after, 0)
        }
        _ => {
            let before = format!("{} {}", draw.words(draw.between(3, 20), " "), draw.word());
            let after = draw.words(draw.between(3, 20), "\n");
            base64(draw, value, &before, &after, draw.one(&[64, 76]))
        }
    };
    let text = match draw.below(6) {
        0 => spelled,
        1 => format!("{{\"output\": \"{spelled}\", \"exit\": 0}}"),
        2 => format!(
            "2026-11-15T16:11:03Z DEBUG sent {spelled} to {}",
            draw.host()
        ),
        3 => format!("$ echo '{spelled}' | {} --decode\n", draw.word()),
        4 => format!(
            "https://{}/{}?state={spelled}&page=2",
            draw.host(),
            draw.word()
        ),
        _ => format!("{}\n{spelled}\n{}", draw.words(4, " "), draw.words(4, " ")),
    };
    Sample::new(format!("known: {kind}"), text, body)
}

fn same(kind: &str, spelled: String) -> (String, String, String) {
    (kind.to_owned(), spelled.clone(), spelled)
}

fn json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// `text` with the characters that `chosen` accepts as `\uXXXX`.
fn unicode(text: &str, chosen: impl Fn(char) -> bool) -> String {
    let escape = |c: char| {
        let must = "\"\\".contains(c) || !c.is_ascii();
        if must || chosen(c) {
            format!("\\u{:04x}", u32::from(c))
        } else {
            c.to_string()
        }
    };
    text.chars().map(escape).collect()
}

fn percent(text: &str, safe: &str, upper: bool) -> String {
    let encode = |byte: u8| {
        let c = char::from(byte);
        match (c.is_ascii_alphanumeric() || safe.contains(c), upper) {
            (true, _) => c.to_string(),
            (false, true) => format!("%{byte:02X}"),
            (false, false) => format!("%{byte:02x}"),
        }
    };
    text.bytes().map(encode).collect()
}

fn percent_all(text: &str, upper: bool) -> String {
    let encode = |byte: u8| {
        if upper {
            format!("%{byte:02X}")
        } else {
            format!("%{byte:02x}")
        }
    };
    text.bytes().map(encode).collect()
}

/// As people escape it between double quotes.
fn shell(text: &str) -> String {
    let escape = |c: char| match c {
        '"' | '\\' | '$' | '`' | '!' => format!("\\{c}"),
        _ => c.to_string(),
    };
    text.chars().map(escape).collect()
}

fn entities(text: &str) -> String {
    let escape = |c: char| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        '\'' => "&#39;".to_owned(),
        '/' => "&#x2F;".to_owned(),
        '=' => "&#61;".to_owned(),
        _ => c.to_string(),
    };
    text.chars().map(escape).collect()
}

fn hex(text: &str, separator: &str, upper: bool) -> String {
    let digits: Vec<_> = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    let joined = digits.join(separator);
    if upper { joined.to_uppercase() } else { joined }
}

fn escaped_hex(text: &str) -> String {
    let bytes: Vec<_> = text.bytes().map(|byte| format!("\\x{byte:02x}")).collect();
    bytes.concat()
}

/// Base64 of a text that contains `value`, wrapped after `columns` characters unless that is zero. The
/// body is the digits that depend on the value alone.
fn base64(
    draw: &Draw,
    value: &str,
    before: &str,
    after: &str,
    columns: usize,
) -> (String, String, String) {
    let (alphabet, padded) = (draw.one(&[STANDARD, URL_SAFE]), draw.flip());
    let line_break = draw.one(&["\n", "\r\n", "\\n", "\\r\\n"]);
    let text = format!("{before}{value}{after}");
    let mut encoded = encode(text.as_bytes(), alphabet);
    let first = (before.len() * 8).div_ceil(6);
    let last = (before.len() + value.len()) * 8 / 6;
    let body = encoded[first..last].to_owned();
    if padded {
        encoded.push_str(&"=".repeat((4 - encoded.len() % 4) % 4));
    }
    let kind = match (before, columns) {
        ("", 0) => "base64",
        ("user:", _) => "base64 of a login",
        (_, 0) => "base64 in a text",
        _ => "base64 in lines",
    };
    if columns > 0 {
        let lines: Vec<_> = encoded
            .as_bytes()
            .chunks(columns)
            .map(String::from_utf8_lossy)
            .collect();
        encoded = lines.join(line_break);
    }
    (kind.to_owned(), encoded, body)
}

/// Base64 without padding.
pub(super) fn encode(bytes: &[u8], alphabet: &[u8; 64]) -> String {
    let bit = |at: usize| bytes.get(at / 8).map_or(0, |byte| byte >> (7 - at % 8) & 1);
    (0..(bytes.len() * 8).div_ceil(6))
        .map(|digit| (0..6).fold(0, |value, place| value << 1 | bit(digit * 6 + place)))
        .map(|value| char::from(alphabet[usize::from(value)]))
        .collect()
}

/// Padded base64 in the standard alphabet.
pub(super) fn standard(bytes: &[u8]) -> String {
    let encoded = encode(bytes, STANDARD);
    let padding = "=".repeat((4 - encoded.len() % 4) % 4);
    format!("{encoded}{padding}")
}

/// Base64 in the URL-safe alphabet, without padding.
pub(super) fn url_safe(bytes: &[u8]) -> String {
    encode(bytes, URL_SAFE)
}
