//! HTTP services of a spec: one tool each, limited to one base URL.

use std::path::Path;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use segno_core::ports::Boxed;
use segno_core::tool::{EffectClass, OfferedTool, Tools};
use segno_core::tool::{Tool, ToolCall};
use serde_json::{Value, json};

use super::client::{HttpRequest, Redirects, Web, parse_url};
use super::input;

const METHODS: [Method; 7] = [
    Method::GET,
    Method::POST,
    Method::PUT,
    Method::DELETE,
    Method::PATCH,
    Method::HEAD,
    Method::OPTIONS,
];

/// How many levels of percent-encoding are decoded.
const MAX_DECODINGS: usize = 5;

#[derive(Clone)]
pub struct Executor {
    /// The tool's name.
    pub id: String,
    /// The base URL, which paths cannot leave.
    pub base_url: String,
    /// Sent with every request. The values may be secrets, and are never shown.
    pub headers: Vec<(String, String)>,
    pub timeout: Duration,
    /// The tool's description for the model.
    pub description: String,
}

/// One tool for each service. Redirects are not followed: they are returned as responses.
pub struct Executors {
    services: Vec<Executor>,
    offers: Vec<OfferedTool>,
    web: Web,
}

impl Executors {
    pub fn new(services: Vec<Executor>, web: Web) -> Self {
        let offers = services.iter().map(Executor::offer).collect();
        Self {
            services,
            offers,
            web,
        }
    }

    async fn call(&self, call: &ToolCall) -> Result<String, String> {
        let service = self.services.iter().find(|known| known.id == call.name);
        let service = service.ok_or_else(|| format!("there is no tool `{}`", call.name))?;
        let received = self.web.send(service.request(&call.input)?).await?;
        let mut output = json!({
            "status": received.status.as_u16(),
            "headers": received.headers_json(),
            "body": received.text,
        });
        if let Some(note) = received.note {
            output["note"] = note.into();
        }
        Ok(output.to_string())
    }
}

impl Tools for Executors {
    fn offered_tools(&self) -> &[OfferedTool] {
        &self.offers
    }

    fn run<'a>(&'a self, call: &'a ToolCall, _: &'a Path) -> Boxed<'a, Result<String, String>> {
        Box::pin(self.call(call))
    }
}

impl Executor {
    fn offer(&self) -> OfferedTool {
        let methods: Vec<&str> = METHODS.iter().map(Method::as_str).collect();
        let schema = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "the path, relative to the service's base URL"},
                "method": {"type": "string", "enum": methods, "description": "the HTTP method (default: GET)"},
                "json_data": {"type": "object", "description": "the request body as JSON"},
                "headers_override": {
                    "type": "object",
                    "additionalProperties": {"type": "string"},
                    "description": "headers that replace the default ones",
                },
            },
            "required": ["path"],
        });
        OfferedTool {
            tool: Tool {
                name: self.id.clone(),
                description: self.description.clone(),
                schema,
            },
            class: EffectClass::Effectful,
        }
    }

    fn request(&self, given: &Value) -> Result<HttpRequest, String> {
        check(given)?;
        let path = given["path"].as_str().ok_or("`path` is missing")?;
        let body = match &given["json_data"] {
            Value::Null => None,
            data => Some(data.to_string()),
        };
        Ok(HttpRequest {
            method: input::method(given, &METHODS)?,
            url: url_below(&self.base_url, path)?,
            headers: self.headers(&given["headers_override"], body.is_some())?,
            body,
            timeout: self.timeout,
            redirects: Redirects::Return,
        })
    }

    /// The service's headers, overridden by the given ones.
    fn headers(&self, given: &Value, has_body: bool) -> Result<HeaderMap, String> {
        let mut headers = HeaderMap::new();
        if has_body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        for (name, value) in &self.headers {
            let (name, value) = input::header(name, value)?;
            headers.insert(name, value);
        }
        headers.extend(input::headers(given)?);
        Ok(headers)
    }
}

/// Checks the input against the parameters.
fn check(given: &Value) -> Result<(), String> {
    let given = given.as_object().ok_or("the input must be an object")?;
    for (name, value) in given {
        let (fits, type_name) = match name.as_str() {
            "path" => (value.is_string(), "string"),
            "method" => (value.is_string() || value.is_null(), "string"),
            "json_data" | "headers_override" => (value.is_object() || value.is_null(), "object"),
            _ => return Err(format!("`{name}` is not a parameter of this tool")),
        };
        if !fits {
            return Err(format!("`{name}` must be of type {type_name}"));
        }
    }
    Ok(())
}

/// The URL of a path below `base`, which it cannot leave.
fn url_below(base: &str, path: &str) -> Result<Url, String> {
    let base = parse_url(base)?;
    let outside = || format!("`{path}` leads out of the base URL of this service");
    let (path_part, query) = match path.split_once('?') {
        Some((path_part, query)) => (path_part, Some(query)),
        None => (path, None),
    };
    let path_part = path_part.strip_prefix('/').unwrap_or(path_part);
    if path_part.starts_with('/') || !leads_downwards(path_part) {
        return Err(outside());
    }
    let root = base.path().trim_end_matches('/').to_owned();
    let mut url = base.clone();
    url.set_path(&format!("{root}/{path_part}"));
    url.set_fragment(None);
    let query: Vec<&str> = base.query().into_iter().chain(query).collect();
    url.set_query((!query.is_empty()).then(|| query.join("&")).as_deref());
    // Checks the result, whatever the URL parser has made of the path.
    let rest = url.path().strip_prefix(root.as_str());
    if url.origin() == base.origin() && rest.is_some_and(|rest| rest.starts_with('/')) {
        Ok(url)
    } else {
        Err(outside())
    }
}

/// Whether a path only leads downwards, also for a server that decodes it once too often.
fn leads_downwards(path_part: &str) -> bool {
    let mut path_part = path_part.as_bytes().to_vec();
    for _ in 0..MAX_DECODINGS {
        let is_up = |part: &[u8]| part == b".." || part.starts_with(b"..;");
        let mut parts = path_part.split(|byte| matches!(byte, b'/' | b'\\'));
        if parts.any(is_up) || path_part.iter().any(|byte| *byte == b'\\' || *byte < b' ') {
            return false;
        }
        // A scheme or a host can only be at the front.
        let first = path_part
            .split(|byte| *byte == b'/')
            .next()
            .unwrap_or_default();
        if first.ends_with(b":") && path_part.starts_with(&[first, b"//"].concat()) {
            return false;
        }
        let once = percent_decode(&path_part);
        if once == path_part {
            return true;
        }
        path_part = once;
    }
    false
}

/// Decodes percent-encoding once.
fn percent_decode(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|two| str::from_utf8(two).ok());
        let byte = digits
            .filter(|two| *first == b'%' && two.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .and_then(|two| u8::from_str_radix(two, 16).ok());
        out.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_stays_below_the_base_url() {
        let base = "https://api.example.com/v1/";
        for (path, expected) in [
            ("users", "https://api.example.com/v1/users"),
            ("/users", "https://api.example.com/v1/users"),
            ("", "https://api.example.com/v1/"),
            ("/", "https://api.example.com/v1/"),
            (
                "users/7?sort=a&b=%20#end",
                "https://api.example.com/v1/users/7?sort=a&b=%20%23end",
            ),
            ("a/./b", "https://api.example.com/v1/a/b"),
            ("a..b/...", "https://api.example.com/v1/a..b/..."),
            ("urn:x:1", "https://api.example.com/v1/urn:x:1"),
            ("a%2Fb", "https://api.example.com/v1/a%2Fb"),
            ("für", "https://api.example.com/v1/f%C3%BCr"),
            (
                "?a=https://x/../y",
                "https://api.example.com/v1/?a=https://x/../y",
            ),
            (
                "@other.example",
                "https://api.example.com/v1/@other.example",
            ),
        ] {
            let url = url_below(base, path).map(|url| url.to_string());
            assert_eq!(url.as_deref(), Ok(expected), "{path}");
        }
        let keyed = url_below("http://api.example.com?key=1", "a?b=2").unwrap();
        assert_eq!(keyed.as_str(), "http://api.example.com/a?key=1&b=2");
    }

    #[test]
    fn path_out_of_the_base_url_is_refused() {
        for path in [
            "..",
            "../",
            "/..",
            "../v2",
            "a/../../v2",
            "a/../b",
            "%2e%2e/v2",
            "%2E%2e/v2",
            ".%2e/v2",
            "a/%252e%252e/v2",
            "..%2fv2",
            "..%5cv2",
            "..;/v2",
            "..\\v2",
            "\\\\other.example",
            "//other.example/x",
            "///other.example/x",
            "http://other.example/",
            "HTTPS://other.example/",
            "file:///etc/passwd",
            "/http://other.example",
            "%2525252525252e",
            "a\r\nHost: other",
            "%0d%0aHost: other",
            "a\0",
        ] {
            assert!(
                url_below("https://api.example.com/v1", path).is_err(),
                "{path}"
            );
        }
    }
}
