//! Reads the token of a request: from `Authorization`, or from the cookie of a browser.

use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, COOKIE};

use crate::error::Refusal;

const COOKIE_NAME: &str = "segno";

/// A token as it was sent.
pub(super) struct Credentials {
    pub(super) token: String,
    /// Whether a browser sent it by itself.
    pub(super) is_cookie: bool,
}

pub(super) fn of(request: &Request) -> Result<Credentials, Refusal> {
    let mut bearer = request.headers().get_all(AUTHORIZATION).iter();
    match (bearer.next(), bearer.next()) {
        (Some(value), None) => {
            let value = value.to_str().unwrap_or_default();
            let token = value
                .split_once(' ')
                .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
            let token = token.map(|(_, token)| token.trim().to_owned());
            return match token {
                Some(token) => Ok(Credentials {
                    token,
                    is_cookie: false,
                }),
                None => Err(Refusal::NoToken),
            };
        }
        (Some(_), Some(_)) => return Err(Refusal::InvalidToken),
        (None, _) => {}
    }
    let cookies = request.headers().get_all(COOKIE).iter();
    let cookies = cookies.filter_map(|value| value.to_str().ok());
    let mut pairs = cookies
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    let token = pairs.find(|(name, _)| *name == COOKIE_NAME);
    match token {
        Some((_, token)) => Ok(Credentials {
            token: token.to_owned(),
            is_cookie: true,
        }),
        None => Err(Refusal::NoToken),
    }
}

/// The cookie that keeps a browser logged in. Scripts cannot read it, and no other site can send it.
pub(crate) fn cookie(token: &str, seconds: u64, is_encrypted: bool) -> String {
    let secure = if is_encrypted { "; Secure" } else { "" };
    format!("{COOKIE_NAME}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}")
}
