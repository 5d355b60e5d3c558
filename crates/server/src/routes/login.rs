//! Logs a browser in with a one-time code.
//!
//! The address that `segno open` prints only shows a button: what opens an address without being
//! asked, such as the preview of a messenger, does not use the code up.

use axum::extract::{Extension, State};
use axum::http::HeaderValue;
use axum::http::header::SET_COOKIE;
use axum::response::{Html, IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::pages;
use crate::Server;
use crate::access::BROWSER_LIFETIME;
use crate::error::{Failed, Problem, Refusal};
use crate::guard::{self, Peer};
use crate::request::{Form, Query};
use crate::routes::openapi::{Doc, Parameter};

pub(super) const FORM: Doc = Doc::page("The page that logs a browser in")
    .query(&[Parameter::text("code", "A one-time code of `segno open`")]);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Code {
    #[serde(default)]
    code: String,
}

pub(super) async fn form(Query(Code { code }): Query<Code>) -> Html<String> {
    let code = pages::escape(&code);
    pages::page(
        "Log in",
        &format!(
            "<form method=\"post\" action=\"/login\">\
             <label>Login code <input name=\"code\" value=\"{code}\" autocomplete=\"off\" required></label>\
             <button>Log in</button></form>\
             <p><code>segno open</code> makes a code. It works once, and for five minutes.</p>"
        ),
    )
}

pub(super) const LOGIN: Doc = Doc::page("Exchange a one-time code for a cookie").form();

pub(super) async fn login(
    State(server): State<Server>,
    peer: Option<Extension<Peer>>,
    Form(Code { code }): Form<Code>,
) -> Result<Response, Failed> {
    let Some(created) = server.logins.exchange(code.trim())? else {
        let peer = peer.map_or(Peer::Local, |Extension(peer)| peer);
        let refusal = match server.failures.count(peer) {
            Refusal::InvalidToken => Refusal::InvalidCode,
            other => other,
        };
        return Err(Failed(Problem::from(refusal)));
    };
    let seconds = BROWSER_LIFETIME.as_secs();
    let cookie = guard::cookie(&created.text, seconds, server.hosts.is_encrypted());
    let mut response = Redirect::to("/").into_response();
    let value = HeaderValue::from_str(&cookie).expect("a cookie of ASCII letters");
    response.headers_mut().insert(SET_COOKIE, value);
    Ok(response)
}
