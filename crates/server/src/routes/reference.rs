//! The page at `/api`: all routes, for people.

use std::fmt::Write;

use axum::response::Html;

use super::{ENDPOINTS, Endpoint, Method, pages};
use crate::routes::openapi::Doc;

pub(super) const REFERENCE: Doc = Doc::page("All addresses of this server, for people");

pub(super) async fn reference() -> Html<String> {
    page()
}

fn page() -> Html<String> {
    let mut content = String::from(
        "<p><a href=\"/openapi.json\">openapi.json</a> describes the same for programs. A request \
         has <code>Authorization: Bearer TOKEN</code>; <code>segno token create NAME</code> makes \
         a token. A body is JSON. An error is <code>application/problem+json</code>, and its \
         <code>type</code> is a page of this server.</p>",
    );
    for (title, method) in [("Read", Method::Get), ("Change", Method::Post)] {
        write!(content, "<h2>{title}</h2><dl>").expect("text has no limit");
        for endpoint in ENDPOINTS.iter().filter(|it| it.method == method) {
            content.push_str(&entry(endpoint));
        }
        content.push_str("</dl>");
    }
    pages::page("API", &content)
}

fn entry(endpoint: &Endpoint) -> String {
    let needed = match endpoint.scope {
        Some(scope) => format!("scope <code>{}</code>", scope.as_str()),
        None => "no token".to_owned(),
    };
    let mut text = format!(
        "<dt><code>{} {}</code></dt><dd>{} ({needed}){}",
        endpoint.method.as_str(),
        pages::escape(endpoint.path),
        pages::escape(endpoint.doc.summary),
        if endpoint.doc.query.is_empty() {
            ""
        } else {
            "<ul>"
        },
    );
    for parameter in endpoint.doc.query {
        let required = if parameter.required { ", required" } else { "" };
        write!(
            text,
            "<li><code>?{}=</code> {}{required}</li>",
            pages::escape(parameter.name),
            pages::escape(parameter.what),
        )
        .expect("text has no limit");
    }
    if !endpoint.doc.query.is_empty() {
        text.push_str("</ul>");
    }
    text.push_str("</dd>");
    text
}
