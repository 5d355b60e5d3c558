//! A tool that fetches a page, raw or as Markdown.

use std::time::Duration;

use reqwest::Method;
use segno_core::tool::EffectClass;
use serde_json::{Value, json};

use super::client::{HttpRequest, Redirects, parse_url};
use super::{input, markdown};
use crate::tools::cancellation::{Cancellation, run_blocking};
use crate::tools::{BuiltinTool, CallContext, Run, flag, text};

/// How long the conversion of a page may take.
const CONVERSION_TIMEOUT: Duration = Duration::from_secs(30);

pub(in crate::tools) const WEB_FETCH: BuiltinTool = BuiltinTool {
    name: "web_fetch",
    description: "Fetches a web page, unchanged or as readable text.",
    class: EffectClass::ReadOnly,
    params: &[
        ("url", "string", true, "an http or https URL"),
        (
            "timeout",
            "integer",
            false,
            "timeout in seconds (default: 10, maximum: 300)",
        ),
        ("headers", "object", false, "header names and values"),
        (
            "mode",
            "string",
            false,
            "`html` (default): unchanged; `markdown`: as readable text",
        ),
        (
            "include_raw_html",
            "boolean",
            false,
            "with `markdown`, also return the unchanged page (default: false)",
        ),
    ],
    run: Run::Async(|input, context| Box::pin(fetch(input, context))),
};

async fn fetch(input: &Value, context: &CallContext<'_>) -> Result<String, String> {
    let mode = input::choice(input, "mode", &["html", "markdown"])?;
    let request = HttpRequest {
        method: Method::GET,
        url: parse_url(text(input, "url"))?,
        headers: input::headers(&input["headers"])?,
        body: None,
        timeout: input::timeout(input, 10)?,
        redirects: Redirects::Follow,
    };
    let received = context.deps.web.send(request).await?;
    let mut output = json!({"status": received.status.as_u16(), "url": received.url.as_str()});
    if mode == "html" {
        output["headers"] = received.headers_json();
        output["body"] = received.text.into();
    } else {
        output["markdown"] = if received.is_page() {
            let (page, url) = (received.text.clone(), received.url.clone());
            let convert = move |_: &Cancellation| Ok(markdown::to_markdown(&page, &url));
            let clock = &*context.deps.clock;
            run_blocking(clock, CONVERSION_TIMEOUT, convert)
                .await?
                .into()
        } else {
            received.text.as_str().into()
        };
        if flag(input, "include_raw_html", false) {
            output["raw_html"] = received.text.into();
        }
    }
    if let Some(note) = received.note {
        output["note"] = note.into();
    }
    Ok(output.to_string())
}
