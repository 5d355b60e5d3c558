//! Sends requests to a server.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::address::Address;
use crate::error::Error;
use crate::problem::Problem;
use crate::tls;

const CONNECT: Duration = Duration::from_secs(10);
/// A server that streams says something every 15 seconds.
const SILENCE: Duration = Duration::from_mins(1);
/// The largest answer that is read. Long texts are blobs, and lists have pages.
const MAX_BYTES: usize = 256 << 20;
/// How often a request that changes something is sent if its connection breaks. It carries a key, so
/// that the server does it once.
const ATTEMPTS: u32 = 3;

/// A server, and how it is reached.
pub struct Connection {
    address: Address,
    client: reqwest::Client,
    /// The fingerprint of the server's certificate, if this connection checks it.
    seen: Arc<Mutex<Option<String>>>,
}

impl Connection {
    /// A connection that identifies itself with a token. With a fingerprint, it trusts exactly the
    /// certificate of that fingerprint. Nothing is sent yet.
    pub fn new(address: Address, token: &str, fingerprint: Option<&str>) -> Result<Self, Error> {
        let shown = address.to_string();
        if address.is_open() {
            return Err(Error::NotEncrypted { address: shown });
        }
        let unusable = |reason: String| Error::NotUnderstood {
            address: shown.clone(),
            reason,
        };
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut headers = HeaderMap::new();
        let credential = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut credential = credential
            .map_err(|_| unusable("the token has characters that no token has".to_owned()))?;
        credential.set_sensitive(true);
        headers.insert(AUTHORIZATION, credential);
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            // A server does not redirect; a redirect would send the token elsewhere.
            .redirect(reqwest::redirect::Policy::none())
            // The token goes to the server and to nobody in between.
            .no_proxy()
            .default_headers(headers)
            .user_agent(concat!("segno/", env!("CARGO_PKG_VERSION")));
        let seen = Arc::<Mutex<Option<String>>>::default();
        if let Some(fingerprint) = fingerprint {
            let config = tls::config(fingerprint, Arc::clone(&seen));
            let config = config.map_err(|error| unusable(error.to_string()))?;
            builder = builder.tls_backend_preconfigured(config);
        }
        if let Address::Socket(path) = &address {
            builder = builder.unix_socket(path.as_path());
        }
        let client = builder.build();
        let client = client.map_err(|error| unusable(describe(error)))?;
        Ok(Self {
            address,
            client,
            seen,
        })
    }

    /// The fingerprint of the certificate that a server has, trusted or not.
    pub async fn certificate(address: &Address) -> Option<String> {
        // Trusts nothing, so that nothing is sent.
        let connection = Self::new(address.clone(), "none", Some("")).ok()?;
        let asked: Result<Value, Error> = connection.get("/health").await;
        match asked {
            Err(Error::NotTrusted { fingerprint, .. }) => fingerprint,
            _ => None,
        }
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Reads JSON.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        let bytes = self.bytes(path).await?;
        self.parse(&bytes)
    }

    /// Reads bytes.
    pub(crate) async fn bytes(&self, path: &str) -> Result<Vec<u8>, Error> {
        let response = self.send(self.request(Method::GET, path)).await?;
        self.body(response).await
    }

    /// Asks for a change. `key` makes the server do it once, however often it is sent.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        key: &str,
        body: &Value,
    ) -> Result<T, Error> {
        let text = body.to_string();
        let mut attempt = 1;
        loop {
            let request = self
                .request(Method::POST, path)
                .header(CONTENT_TYPE, "application/json")
                .header("idempotency-key", key)
                .body(text.clone());
            let answered = match self.send(request).await {
                Ok(response) => self.body(response).await,
                Err(error) => Err(error),
            };
            match answered {
                Err(Error::Unreachable { .. }) if attempt < ATTEMPTS => attempt += 1,
                Err(error) => return Err(error),
                Ok(bytes) => return self.parse(&bytes),
            }
        }
    }

    /// Opens a stream of events.
    pub(crate) async fn stream(&self, path: &str) -> Result<Response, Error> {
        let request = self.request(Method::GET, path);
        let request = request.header(ACCEPT, "text/event-stream");
        self.send(request).await
    }

    /// The next piece of a stream; `None` at its end, and if the server is silent for too long.
    pub(crate) async fn piece(response: &mut Response) -> Option<Vec<u8>> {
        let piece = tokio::time::timeout(SILENCE, response.chunk()).await;
        let piece = piece.ok()?.ok()??;
        Some(piece.to_vec())
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, self.address.route(path))
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, Error> {
        let response = request.send().await.map_err(|error| self.failed(error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body = self.body(response).await?;
        Err(match Problem::read(&body) {
            Some(problem) => Error::Refused(problem),
            None => self.not_understood(status),
        })
    }

    async fn body(&self, mut response: Response) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|error| self.failed(error))? {
            if bytes.len() + piece.len() > MAX_BYTES {
                return Err(self.unreadable(format!("the answer has more than {MAX_BYTES} bytes")));
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }

    fn parse<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, Error> {
        let parsed = serde_json::from_slice(bytes);
        parsed.map_err(|error| self.unreadable(error.to_string()))
    }

    fn not_understood(&self, status: StatusCode) -> Error {
        self.unreadable(format!("its answer has the status {status}"))
    }

    /// What the server sent cannot be used.
    pub(crate) fn unreadable(&self, reason: String) -> Error {
        Error::NotUnderstood {
            address: self.address.to_string(),
            reason,
        }
    }

    fn failed(&self, error: reqwest::Error) -> Error {
        let address = self.address.to_string();
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let fingerprint = seen.clone();
        let reason = describe(error);
        if reason.contains("certificate") {
            return Error::NotTrusted {
                address,
                reason,
                fingerprint,
            };
        }
        Error::Unreachable { address, reason }
    }
}

/// Describes an error by its innermost cause, without the URL.
fn describe(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// A part of a path or of a query, encoded.
pub(crate) fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(byte.into());
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}
