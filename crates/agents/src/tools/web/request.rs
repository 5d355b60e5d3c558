//! A tool that sends any HTTP request.

use reqwest::Method;
use segno_core::tool::EffectClass;
use serde_json::Value;

use super::client::{HttpRequest, Redirects, parse_url};
use super::input;
use crate::tools::{BuiltinTool, CallContext, Run, text};

const METHODS: [Method; 6] = [
    Method::GET,
    Method::POST,
    Method::PUT,
    Method::DELETE,
    Method::PATCH,
    Method::HEAD,
];

pub(in crate::tools) const HTTP_REQUEST: BuiltinTool = BuiltinTool {
    name: "http_request",
    description: "Sends an HTTP request and returns the status, the headers and the body of the response.",
    class: EffectClass::Effectful,
    params: &[
        ("url", "string", true, "an http or https URL"),
        (
            "method",
            "string",
            false,
            "GET (default), POST, PUT, DELETE, PATCH or HEAD",
        ),
        ("headers", "object", false, "header names and values"),
        ("body", "string", false, "the request body"),
        (
            "timeout",
            "integer",
            false,
            "timeout in seconds (default: 30, maximum: 300)",
        ),
    ],
    run: Run::Async(|input, context| Box::pin(request(input, context))),
};

async fn request(input: &Value, context: &CallContext<'_>) -> Result<String, String> {
    let request = HttpRequest {
        method: input::method(input, &METHODS)?,
        url: parse_url(text(input, "url"))?,
        headers: input::headers(&input["headers"])?,
        body: input["body"].as_str().map(str::to_owned),
        timeout: input::timeout(input, 30)?,
        redirects: Redirects::Follow,
    };
    let received = context.deps.web.send(request).await?;
    let mut output = format!(
        "Status: {}\nHeaders: {}\nBody:\n{}",
        received.status.as_u16(),
        received.headers_json(),
        received.text,
    );
    if let Some(note) = received.note {
        output = format!("{output}\n[{note}]");
    }
    Ok(output)
}
