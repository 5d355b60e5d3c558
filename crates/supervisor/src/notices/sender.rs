//! Sends one message to one target.
//!
//! A receiver's response is not read beyond its status. Redirects are not followed. Private
//! addresses are allowed: targets are the user's own settings. Errors contain no URL, because a
//! URL may be a secret.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{StatusCode, Url};
use segno_core::ports::{Boxed, Clock, Disk};
use segno_core::sanitize::sanitize;
use segno_secrets::redact::Redactor;

use super::error::Error;
use super::message::Message;
use super::notice::bounded;
use super::signature;
use super::target::{Channel, Source, Target};

/// How long a receiver or a program may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The longest reason of a failure that is stored, in characters.
const MAX_REASON: usize = 300;

/// Starts programs for their effect.
pub trait Programs: Send + Sync {
    /// Runs a program with `input` on its stdin, and ignores its output. When `limit` has passed,
    /// the program is killed with everything that it started.
    fn run<'a>(
        &'a self,
        argv: &'a [String],
        input: &'a str,
        limit: Duration,
    ) -> Boxed<'a, Result<(), String>>;
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Delivered,
    /// A later attempt may succeed. `may_have_arrived` if the request was sent.
    Failed {
        reason: String,
        may_have_arrived: bool,
    },
    /// The receiver refuses the notice for good.
    Refused(String),
    /// This process cannot send to the target, but another one may: a variable is not set.
    Unavailable(String),
}

impl Outcome {
    fn failed(reason: impl Into<String>) -> Self {
        Self::Failed {
            reason: reason.into(),
            may_have_arrived: false,
        }
    }
}

pub(super) struct Sender {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) programs: Arc<dyn Programs>,
    /// Reads an environment variable.
    pub(super) variable: fn(&str) -> Option<String>,
    pub(super) redactor: Arc<Redactor>,
    pub(super) client: OnceLock<reqwest::Client>,
}

impl Sender {
    pub(super) async fn send(&self, target: &Target, message: &Message<'_>) -> Outcome {
        let (Ok(outcome) | Err(outcome)) = self.try_send(target, message).await;
        match outcome {
            Outcome::Delivered => Outcome::Delivered,
            Outcome::Failed {
                reason,
                may_have_arrived,
            } => Outcome::Failed {
                reason: self.clean(&reason),
                may_have_arrived,
            },
            Outcome::Refused(reason) => Outcome::Refused(self.clean(&reason)),
            Outcome::Unavailable(reason) => Outcome::Unavailable(self.clean(&reason)),
        }
    }

    /// A reason may quote what a program printed.
    fn clean(&self, reason: &str) -> String {
        bounded(&sanitize(&self.redactor.redact(reason)), MAX_REASON)
    }

    /// What this process lacks to send to the target: a variable or a file that is not there, or
    /// that has no URL.
    pub(super) fn missing(&self, target: &Target) -> Option<String> {
        let (url, secret) = match &target.channel {
            Channel::Desktop | Channel::Command(_) => return None,
            Channel::Webhook { url, secret } => (url, secret.as_ref()),
            Channel::Slack(url) | Channel::Discord(url) => (url, None),
            Channel::Ntfy { url, token, .. } => (url, token.as_ref()),
        };
        let secret = secret.map(|secret| self.read(secret));
        let checked = self.url(url).and(secret.transpose());
        match checked {
            Err(Outcome::Unavailable(reason)) => Some(reason),
            _ => None,
        }
    }

    fn url(&self, source: &Source) -> Result<Url, Outcome> {
        let parsed = Url::parse(&self.read(source)?);
        parsed.map_err(|error| Outcome::Unavailable(format!("its URL is invalid: {error}")))
    }

    async fn try_send(&self, target: &Target, message: &Message<'_>) -> Result<Outcome, Outcome> {
        Ok(match &target.channel {
            Channel::Desktop => self.run(&message.desktop(), "").await,
            Channel::Command(argv) => self.run(argv, &message.json().to_string()).await,
            Channel::Webhook { url, secret } => {
                let body = message.json().to_string();
                let mut headers = json_headers(message);
                if let Some(secret) = secret {
                    let secret = self.read(secret)?;
                    let signed = signature::header(&secret, self.clock.now(), &body);
                    insert(&mut headers, "segno-signature", &signed)?;
                }
                self.post(url, headers, body).await?
            }
            Channel::Slack(url) => {
                let body = message.slack().to_string();
                self.post(url, json_headers(message), body).await?
            }
            Channel::Discord(url) => {
                let body = message.discord().to_string();
                self.post(url, json_headers(message), body).await?
            }
            Channel::Ntfy {
                url,
                token,
                priority,
            } => {
                let mut headers = HeaderMap::new();
                insert(&mut headers, "title", &message.title())?;
                let priority = priority.unwrap_or_else(|| message.ntfy_priority());
                insert(&mut headers, "priority", &priority.to_string())?;
                if let Some(token) = token {
                    let token = self.read(token)?;
                    insert(&mut headers, "authorization", &format!("Bearer {token}"))?;
                }
                self.post(url, headers, message.ntfy()).await?
            }
        })
    }

    fn read(&self, source: &Source) -> Result<String, Outcome> {
        let read = source.read(&*self.disk, self.variable);
        read.map_err(Outcome::Unavailable)
    }

    async fn run(&self, argv: &[String], input: &str) -> Outcome {
        match self.programs.run(argv, input, TIMEOUT).await {
            Ok(()) => Outcome::Delivered,
            Err(reason) => Outcome::Failed {
                reason,
                may_have_arrived: true,
            },
        }
    }

    async fn post(
        &self,
        url: &Source,
        headers: HeaderMap,
        body: String,
    ) -> Result<Outcome, Outcome> {
        let url = self.url(url)?;
        let client = self
            .client()
            .map_err(|error| Outcome::failed(error.to_string()))?;
        let request = client.post(url).headers(headers).body(body).send();
        Ok(tokio::select! {
            sent = request => match sent {
                Ok(response) => judge(response.status()),
                Err(error) => Outcome::Failed {
                    may_have_arrived: !error.is_connect() && !error.is_builder(),
                    reason: describe(error),
                },
            },
            () = self.clock.sleep(TIMEOUT) => Outcome::Failed {
                reason: format!("the receiver did not respond within {} s", TIMEOUT.as_secs()),
                may_have_arrived: true,
            },
        })
    }

    fn client(&self) -> Result<&reqwest::Client, Error> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let _ = rustls::crypto::ring::default_provider().install_default();
        let made = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("segno/", env!("CARGO_PKG_VERSION")))
            .build();
        let made = made.map_err(|error| Error::Client {
            reason: describe(error),
        })?;
        Ok(self.client.get_or_init(|| made))
    }
}

fn judge(status: StatusCode) -> Outcome {
    match status.as_u16() {
        200..=299 => Outcome::Delivered,
        300..=399 => Outcome::Refused(format!(
            "the receiver redirects ({status}), and notices are not redirected"
        )),
        408 | 425 | 429 | 500..=599 => {
            Outcome::failed(format!("the receiver responded with {status}"))
        }
        _ => Outcome::Refused(format!("the receiver responded with {status}")),
    }
}

/// Describes an error and its causes, without the URL.
fn describe(error: reqwest::Error) -> String {
    use std::error::Error as _;

    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

fn json_headers(message: &Message<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let json = HeaderValue::from_static("application/json");
    headers.insert(reqwest::header::CONTENT_TYPE, json);
    // An id of a session, a number and a kind are always valid.
    if let Ok(id) = HeaderValue::from_str(&message.first.id()) {
        headers.insert("idempotency-key", id);
    }
    headers.insert("segno-attempt", HeaderValue::from(message.attempt));
    headers
}

fn insert(headers: &mut HeaderMap, name: &'static str, value: &str) -> Result<(), Outcome> {
    let mut value = HeaderValue::from_bytes(value.as_bytes())
        .map_err(|_| Outcome::Refused(format!("the header `{name}` would be invalid")))?;
    value.set_sensitive(true);
    headers.insert(HeaderName::from_static(name), value);
    Ok(())
}
