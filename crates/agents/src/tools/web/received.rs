//! A response: its text, truncated to a limit, and a note about what is missing.

use reqwest::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName};
use reqwest::{Response, StatusCode, Url};
use serde_json::{Map, Value};

/// How many bytes of a response are read.
const MAX_BODY: usize = 2 * 1024 * 1024;

/// The characters of the bytes 0x80 to 0x9F in windows-1252, the default encoding of pages.
const WINDOWS_1252: &str = "€\u{81}‚ƒ„…†‡ˆ‰Š‹Œ\u{8d}Ž\u{8f}\u{90}‘’“”•–—˜™š›œ\u{9d}žŸ";

pub(super) struct Received {
    /// The final URL, after redirects.
    pub(super) url: Url,
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// As much of the body as is text and fits.
    pub(super) text: String,
    /// What is missing of the body.
    pub(super) note: Option<String>,
}

impl Received {
    /// Reads a response to its end, or up to the limit.
    pub(super) async fn read(mut response: Response) -> Result<Self, String> {
        let mut bytes = Vec::new();
        let mut is_cut = false;
        while !is_cut {
            let chunk = response.chunk().await;
            let chunk = chunk.map_err(|_| "the response was cut off".to_owned())?;
            let Some(chunk) = chunk else { break };
            bytes.extend_from_slice(&chunk);
            is_cut = bytes.len() > MAX_BODY;
        }
        bytes.truncate(MAX_BODY);
        let headers = response.headers();
        let (text, note) = match text(&bytes, headers) {
            Some(text) if is_cut => (text, Some("only the first 2 MiB are included".to_owned())),
            Some(text) => (text, None),
            None => (String::new(), Some(not_text(&bytes, is_cut, headers))),
        };
        Ok(Self {
            url: response.url().clone(),
            status: response.status(),
            headers: headers.clone(),
            text,
            note,
        })
    }

    pub(super) fn headers_json(&self) -> Value {
        let mut json = Map::new();
        for name in self.headers.keys() {
            let values = self.headers.get_all(name).iter();
            let values: Vec<_> = values
                .map(|value| String::from_utf8_lossy(value.as_bytes()))
                .collect();
            json.insert(name.to_string(), values.join(", ").into());
        }
        json.into()
    }

    /// Whether it is an HTML page.
    pub(super) fn is_page(&self) -> bool {
        let kind = header(&self.headers, CONTENT_TYPE);
        kind.contains("html") || (kind.is_empty() && self.text.trim_start().starts_with('<'))
    }
}

fn header(headers: &HeaderMap, name: HeaderName) -> &str {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default()
}

/// Decodes the bytes, if they are text.
fn text(bytes: &[u8], headers: &HeaderMap) -> Option<String> {
    if bytes.contains(&0) {
        return None;
    }
    match str::from_utf8(bytes) {
        Ok(text) => return Some(text.to_owned()),
        // The text was truncated in the middle of a character.
        Err(error) if error.error_len().is_none() => {
            let whole = &bytes[..error.valid_up_to()];
            return Some(String::from_utf8_lossy(whole).into_owned());
        }
        Err(_) => {}
    }
    let kind = header(headers, CONTENT_TYPE).to_ascii_lowercase();
    let text_types = ["text/", "json", "xml", "javascript"];
    if !text_types.iter().any(|word| kind.contains(word)) {
        return None;
    }
    let charset = kind.split("charset=").nth(1).unwrap_or_default();
    match charset.trim_matches(['"', ' ', ';']) {
        "" | "iso-8859-1" | "windows-1252" | "latin1" | "us-ascii" => {
            Some(decode_windows_1252(bytes))
        }
        "utf-8" | "utf8" => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}

fn decode_windows_1252(bytes: &[u8]) -> String {
    let high: Vec<char> = WINDOWS_1252.chars().collect();
    let decode = |byte: &u8| match byte {
        0x80..=0x9f => high[usize::from(byte - 0x80)],
        byte => char::from(*byte),
    };
    bytes.iter().map(decode).collect()
}

/// Describes a body that is not text.
fn not_text(bytes: &[u8], is_cut: bool, headers: &HeaderMap) -> String {
    let kind = match (
        header(headers, CONTENT_TYPE),
        header(headers, CONTENT_ENCODING),
    ) {
        ("", "") => "unknown type".to_owned(),
        (kind, "") => kind.to_owned(),
        (kind, encoding) => format!("{kind}, encoded as {encoding}"),
    };
    let size = match (is_cut, header(headers, CONTENT_LENGTH)) {
        (true, "") => "more than 2 MiB".to_owned(),
        (true, size) => format!("{size} bytes"),
        (false, _) => format!("{} bytes", bytes.len()),
    };
    format!("the body is not text and is omitted: {kind}, {size}")
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    #[test]
    fn text_is_distinguished_from_binary() {
        for (bytes, kind, expected) in [
            (b"plain".as_slice(), "", Some("plain")),
            ("für".as_bytes(), "application/octet-stream", Some("für")),
            (b"f\xfcr", "text/html", Some("für")),
            (
                b"\x93f\xfcr\x94",
                "text/html; charset=ISO-8859-1",
                Some("“für”"),
            ),
            (
                b"f\xfcr",
                "text/html; charset=\"utf-8\"",
                Some("f\u{fffd}r"),
            ),
            (b"f\xfcr", "text/html; charset=shift_jis", None),
            (b"f\xfcr", "image/png", None),
            (b"f\xfcr", "", None),
            (b"f\0r", "text/plain", None),
            (b"cut \xe2\x82", "text/plain", Some("cut ")),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            assert_eq!(
                text(bytes, &headers).as_deref(),
                expected,
                "{bytes:?} {kind}"
            );
        }
    }
}
