use std::sync::Arc;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, Url};
use segno_core::agent::{Error, ErrorKind, Listener};
use segno_core::model::{Call, Model, Reply};
use segno_core::ports::{Boxed, Clock};
use segno_core::time::Timestamp;

use super::access::Credentials;
use super::errors;
use super::frames::Frames;
use super::protocol::{self, ReplyBuilder};
use super::signature::{Request, Scope, authorization, percent_encode};
use crate::http::{Client, Inference, protocol_error, request_error, secret_header};

/// The longest accepted response, in bytes.
const MAX_RESPONSE: usize = 64 << 20;

const JSON: &str = "application/json";
const EVENTS: &str = "application/vnd.amazon.eventstream";

/// Bedrock's service name in signatures.
const SERVICE: &str = "bedrock";

/// A model of Amazon Bedrock.
pub struct Bedrock {
    client: Client,
    base: String,
    model: String,
    access: Credentials,
    inference: Inference,
    clock: Arc<dyn Clock>,
}

impl Bedrock {
    /// The clock is for signatures, which are valid for some minutes.
    pub fn new(
        client: Client,
        base: String,
        model: String,
        access: Credentials,
        inference: Inference,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            client,
            base,
            model,
            access,
            inference,
            clock,
        }
    }

    async fn ask(&self, call: &Call<'_>, listener: &dyn Listener) -> Result<Reply, Error> {
        let path = format!("model/{}/converse-stream", percent_encode(&self.model));
        let url = Url::parse(&format!("{}/{path}", self.base)).map_err(|error| {
            let message = format!("the Bedrock URL is invalid: {error}");
            Error::new(ErrorKind::Invalid, message)
        })?;
        let body = protocol::request(&self.inference, call).to_string();
        let request = self.client.raw().post(url.clone());
        let response = request
            .headers(self.headers(&url, &body)?)
            .body(body)
            .send()
            .await
            .map_err(|error| request_error(&error))?;
        read_reply(errors::check_status(response).await?, listener).await
    }

    fn headers(&self, url: &Url, body: &str) -> Result<HeaderMap, Error> {
        let mut headers = HeaderMap::from_iter([
            (CONTENT_TYPE, HeaderValue::from_static(JSON)),
            (ACCEPT, HeaderValue::from_static(EVENTS)),
        ]);
        match &self.access {
            Credentials::Anonymous => {}
            Credentials::Bearer(key) => {
                headers.extend([secret_header("authorization", &format!("Bearer {key}"))?]);
            }
            Credentials::AccessKey {
                id,
                secret: key,
                session,
                region,
            } => {
                let date = amz_date(self.clock.now());
                let host = host(url);
                let mut signed = vec![
                    ("content-type", JSON),
                    ("host", &host),
                    ("x-amz-date", &date),
                ];
                if let Some(session) = session {
                    headers.extend([secret_header("x-amz-security-token", session)?]);
                    signed.push(("x-amz-security-token", session));
                }
                let request = Request {
                    method: "POST",
                    path: url.path(),
                    headers: &signed,
                    body: body.as_bytes(),
                };
                let scope = Scope {
                    date: &date,
                    region: region.as_str(),
                    service: SERVICE,
                };
                let signature = authorization(&request, &scope, id, key);
                let header = HeaderValue::from_str(&date);
                let header =
                    header.expect("a date in ISO 8601 basic format is a valid header value");
                headers.insert(HeaderName::from_static("x-amz-date"), header);
                headers.extend([secret_header("authorization", &signature)?]);
            }
        }
        Ok(headers)
    }
}

/// The value of the `host` header.
fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Formats `20150830T123600Z`.
fn amz_date(time: Timestamp) -> String {
    let text = time.to_string();
    let seconds = text.split('.').next().unwrap_or_default();
    let digits: String = seconds.chars().filter(|c| !"-:".contains(*c)).collect();
    digits + "Z"
}

/// Reads a response to its end.
async fn read_reply(mut response: Response, listener: &dyn Listener) -> Result<Reply, Error> {
    let kind = response.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.starts_with(EVENTS) {
        let what = if kind.is_empty() { "nothing" } else { kind };
        let message = format!("the server sent {what} instead of an event stream");
        return Err(protocol_error(message));
    }
    let (mut frames, mut builder) = (Frames::default(), ReplyBuilder::default());
    let mut seen = 0;
    loop {
        let chunk = response.chunk().await.map_err(|error| {
            if error.is_timeout() {
                Error::new(ErrorKind::Timeout, "the response timed out")
            } else {
                Error::new(ErrorKind::Network, "the response was cut off")
            }
        })?;
        let Some(chunk) = chunk else {
            if frames.has_partial_frame() {
                return Err(Error::new(ErrorKind::Network, "the response was cut off"));
            }
            return builder.reply();
        };
        seen += chunk.len();
        if seen > MAX_RESPONSE {
            let message = "the response is longer than 64 MB";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        frames.push(&chunk);
        let broken = |error| {
            Error::new(
                ErrorKind::Network,
                format!("the response is damaged: {error}"),
            )
        };
        while let Some(frame) = frames.next().map_err(broken)? {
            if let Some(reply) = builder.handle(&frame, listener)? {
                return Ok(reply);
            }
        }
    }
}

impl Model for Bedrock {
    fn reply<'a>(
        &'a self,
        call: Call<'a>,
        listener: &'a dyn Listener,
    ) -> Boxed<'a, Result<Reply, Error>> {
        Box::pin(async move {
            self.ask(&call, listener)
                .await
                .map_err(|error| Error::new(error.kind, self.access.redact(&error.message)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amz_date_has_the_format_of_signatures() {
        assert_eq!(amz_date(Timestamp(1_440_938_160_000)), "20150830T123600Z");
    }

    #[test]
    fn host_header_has_the_port_unless_it_is_default() {
        for (url, expected) in [
            ("https://a.example/x", "a.example"),
            ("https://a.example:443/x", "a.example"),
            ("http://127.0.0.1:81/x", "127.0.0.1:81"),
            ("http://[::1]:81/x", "[::1]:81"),
        ] {
            assert_eq!(host(&Url::parse(url).unwrap()), expected);
        }
    }
}
