//! The HTTP client and a model's endpoint.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use segno_core::agent::{Error, ErrorKind};
use serde_json::Value;

use super::errors;
use super::stream::Stream;

const CONNECT: Duration = Duration::from_secs(30);

/// How long the server may be silent in the middle of a response.
const SILENCE: Duration = Duration::from_mins(10);

/// An HTTP client. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Client(reqwest::Client);

/// The address and name of a model.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The base URL, with its version: `https://api.example.com/v1`.
    pub base: String,
    pub model: String,
    /// The API key, if one is needed.
    pub key: Option<String>,
}

/// Inference parameters. The server chooses those that are absent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Inference {
    /// From 0 (deterministic) to 2.
    pub temperature: Option<f64>,
    /// Nucleus sampling, from 0 to 1.
    pub top_p: Option<f64>,
    /// The longest answer, in tokens.
    pub max_tokens: Option<u32>,
}

impl Client {
    /// A client with this machine's root certificates.
    pub fn new() -> Result<Self, Error> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE)
            // A model's API does not redirect; a redirect would send the key elsewhere.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("segno/", env!("CARGO_PKG_VERSION")))
            .build()
            .map(Self)
            .map_err(|error| Error::new(ErrorKind::Network, errors::describe_error(&error)))
    }

    /// For requests that the other methods cannot express.
    pub(crate) fn raw(&self) -> &reqwest::Client {
        &self.0
    }

    /// Posts a body, and returns the stream of events of the response.
    pub(crate) async fn post(
        &self,
        url: &str,
        headers: HeaderMap,
        body: &Value,
    ) -> Result<Stream, Error> {
        let request = self.0.post(url).headers(headers).json(body);
        let response = request
            .send()
            .await
            .map_err(|error| errors::request_error(&error))?;
        let response = errors::check_status(response).await?;
        Stream::new(response)
    }
}

impl Client {
    /// Posts a body and ignores the response's content, with a timeout of its own.
    pub(crate) async fn post_json<'a>(
        &self,
        url: &str,
        headers: impl Iterator<Item = (&'a str, &'a str)>,
        body: &Value,
        timeout: Duration,
    ) -> Result<(), String> {
        let mut request = self.0.post(url).timeout(timeout).json(body);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let response = request
            .send()
            .await
            .map_err(|error| errors::describe_error(&error))?;
        match response.status() {
            status if status.is_success() => Ok(()),
            status => Err(format!("the server responded with {status}")),
        }
    }
}

/// A sensitive header, which is not logged.
pub(crate) fn secret_header(
    name: &'static str,
    value: &str,
) -> Result<(HeaderName, HeaderValue), Error> {
    let mut value = HeaderValue::from_str(value).map_err(|_| {
        let message = format!("the key for `{name}` contains invalid characters");
        Error::new(ErrorKind::Auth, message)
    })?;
    value.set_sensitive(true);
    Ok((HeaderName::from_static(name), value))
}
