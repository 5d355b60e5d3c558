//! The few pages that the server has without the dashboard.

use axum::extract::Path;
use axum::http::header::CONTENT_TYPE;
use axum::response::{Html, IntoResponse, Response};

use crate::error::{Failed, Refusal};
use crate::routes::openapi::Doc;

pub(super) const HOME: Doc = Doc::page("What this server is");

pub(super) async fn home() -> Html<String> {
    page(
        "Segno",
        "<p>This server runs and shows durable sessions of AI agents. Its API is described \
         <a href=\"/api\">for people</a> and <a href=\"/openapi.json\">for programs</a>.</p>\
         <p><a href=\"/login\">Log in</a> with a code of <code>segno open</code>.</p>",
    )
}

pub(super) const STYLE: Doc = Doc::page("The style of the pages").style();

pub(super) async fn style() -> Response {
    ([(CONTENT_TYPE, "text/css")], include_str!("style.css")).into_response()
}

pub(super) const ERROR: Doc = Doc::page("What an error means, and what to do");

pub(super) async fn error(Path(code): Path<String>) -> Result<Html<String>, Failed> {
    let Some(text) = crate::error::explanation(&code) else {
        let path = format!("/errors/{code}");
        return Err(Refusal::NoSuchRoute { path }.into());
    };
    Ok(page(&code, &format!("<pre>{}</pre>", escape(&text))))
}

/// A page with this content, which is HTML.
pub(super) fn page(title: &str, content: &str) -> Html<String> {
    let title = escape(title);
    Html(format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}</title><link rel=\"stylesheet\" href=\"/style.css\"></head>\
         <body><main><h1>{title}</h1>{content}</main></body></html>"
    ))
}

/// Text as HTML.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}
