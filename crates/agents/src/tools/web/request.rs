//! Any request.

use reqwest::Method;
use segno_core::tool::Class;
use serde_json::Value;

use super::client::{Ask, Redirects, address};
use super::input;
use crate::tools::{Bench, Native, Run, text};

const METHODS: [Method; 6] = [
    Method::GET,
    Method::POST,
    Method::PUT,
    Method::DELETE,
    Method::PATCH,
    Method::HEAD,
];

pub(in crate::tools) const HTTP_REQUEST: Native = Native {
    name: "http_request",
    description: "Sends an HTTP request, and tells the status, the headers and the body of the answer.",
    class: Class::Effectful,
    takes: &[
        ("url", "string", true, "an http or https address"),
        (
            "method",
            "string",
            false,
            "GET (the default), POST, PUT, DELETE, PATCH or HEAD",
        ),
        ("headers", "object", false, "names and values"),
        ("body", "string", false, "what is sent"),
        (
            "timeout",
            "integer",
            false,
            "how many seconds it may take (30, at most 300)",
        ),
    ],
    run: Run::Later(|input, bench| Box::pin(request(input, bench))),
};

async fn request(input: &Value, bench: &Bench<'_>) -> Result<String, String> {
    let ask = Ask {
        method: input::method(input, &METHODS)?,
        url: address(text(input, "url"))?,
        headers: input::headers(&input["headers"])?,
        body: input["body"].as_str().map(str::to_owned),
        timeout: input::timeout(input, 30)?,
        redirects: Redirects::Follow,
    };
    let received = bench.gear.web.send(ask).await?;
    let mut told = format!(
        "Status: {}\nHeaders: {}\nBody:\n{}",
        received.status.as_u16(),
        received.told_headers(),
        received.text,
    );
    if let Some(note) = received.note {
        told = format!("{told}\n[{note}]");
    }
    Ok(told)
}
