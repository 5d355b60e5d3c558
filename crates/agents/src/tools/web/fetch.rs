//! A page, as it is or as text.

use reqwest::Method;
use segno_core::tool::Class;
use serde_json::{Value, json};

use super::client::{Ask, Redirects, address};
use super::{input, page};
use crate::tools::{Bench, Native, Run, flag, text};

pub(in crate::tools) const WEB_FETCH: Native = Native {
    name: "web_fetch",
    description: "Fetches a page of the web, as it is or as readable text.",
    class: Class::ReadOnly,
    takes: &[
        ("url", "string", true, "an http or https address"),
        (
            "timeout",
            "integer",
            false,
            "how many seconds it may take (10, at most 300)",
        ),
        ("headers", "object", false, "names and values"),
        (
            "mode",
            "string",
            false,
            "`html` (the default): as it is; `markdown`: as readable text",
        ),
        (
            "include_raw_html",
            "boolean",
            false,
            "with `markdown`, the page as it is besides (false)",
        ),
    ],
    run: Run::Later(|input, bench| Box::pin(fetch(input, bench))),
};

async fn fetch(input: &Value, bench: &Bench<'_>) -> Result<String, String> {
    let mode = input::choice(input, "mode", &["html", "markdown"])?;
    let ask = Ask {
        method: Method::GET,
        url: address(text(input, "url"))?,
        headers: input::headers(&input["headers"])?,
        body: None,
        timeout: input::timeout(input, 10)?,
        redirects: Redirects::Follow,
    };
    let received = bench.gear.web.send(ask).await?;
    let mut told = json!({"status": received.status.as_u16(), "url": received.url.as_str()});
    if mode == "html" {
        told["headers"] = received.told_headers();
        told["body"] = received.text.into();
    } else {
        told["markdown"] = if received.is_page() {
            page::readable(&received.text, &received.url).into()
        } else {
            received.text.as_str().into()
        };
        if flag(input, "include_raw_html", false) {
            told["raw_html"] = received.text.into();
        }
    }
    if let Some(note) = received.note {
        told["note"] = note.into();
    }
    Ok(told.to_string())
}
