//! The client, and where it goes.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use segno_core::agent::{Error, ErrorKind};
use serde_json::Value;

use super::fault;
use super::stream::Stream;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(30);

/// How long the other side may be silent in the middle of an answer.
const SILENCE: Duration = Duration::from_mins(10);

/// Speaks HTTP. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Client(reqwest::Client);

/// Where a model is, and what it is called there.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The address that paths are added to, with its version: `https://api.example.com/v1`.
    pub base: String,
    /// The model's name.
    pub model: String,
    /// The key, if one is needed.
    pub key: Option<String>,
}

/// How a model is to answer. What is absent is left to the other side.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Inference {
    /// From 0, always the same, to 2.
    pub temperature: Option<f64>,
    /// From 0 to 1: how many of the likely words are looked at.
    pub top_p: Option<f64>,
    /// How long an answer may be.
    pub max_tokens: Option<u32>,
}

impl Client {
    /// A client with the certificates of this machine.
    pub fn new() -> Result<Self, Error> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE)
            // A model does not move; whoever sends us elsewhere with a key in hand is not it.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("segno/", env!("CARGO_PKG_VERSION")))
            .build()
            .map(Self)
            .map_err(|error| Error::new(ErrorKind::Network, fault::told(&error)))
    }

    /// What requests of another shape are made with.
    pub(crate) fn raw(&self) -> &reqwest::Client {
        &self.0
    }

    /// Posts a body, and returns the stream of events that comes back.
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
            .map_err(|error| fault::failed(&error))?;
        let response = fault::refused(response).await?;
        Stream::new(response)
    }
}

impl Client {
    /// Posts a body to somebody who has nothing to answer, and does not wait for long.
    pub(crate) async fn tell<'a>(
        &self,
        url: &str,
        headers: impl Iterator<Item = (&'a str, &'a str)>,
        body: &Value,
        patience: Duration,
    ) -> Result<(), String> {
        let mut request = self.0.post(url).timeout(patience).json(body);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let response = request.send().await.map_err(|error| fault::told(&error))?;
        match response.status() {
            status if status.is_success() => Ok(()),
            status => Err(format!("it answered {status}")),
        }
    }
}

/// A header whose value is a secret.
pub(crate) fn secret(name: &'static str, value: &str) -> Result<(HeaderName, HeaderValue), Error> {
    let mut value = HeaderValue::from_str(value).map_err(|_| {
        let message = format!("the key for `{name}` has characters that a key cannot have");
        Error::new(ErrorKind::Auth, message)
    })?;
    value.set_sensitive(true);
    Ok((HeaderName::from_static(name), value))
}
