//! A server behind an address: each message is a request, and what comes back is a message or a
//! stream of them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, Url};
use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
    ServerResult,
};
use rmcp::transport::Transport;
use segno_core::agent::{Error, ErrorKind};
use segno_core::error::Kind;
use tokio::sync::{mpsc, oneshot};

use super::error::{Broken, Trouble};
use super::wire;
use crate::Client;
use crate::http::{Stream, failed, refused, unexpected};

/// A message that is longer than this is not one.
const LONGEST: usize = 16 << 20;

/// How long saying goodbye may take.
const GOODBYE: Duration = Duration::from_secs(2);

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// What all requests to a server share.
pub(super) struct Link {
    client: Client,
    url: Url,
    /// What every request carries: what the spec says, and what the server said at first.
    headers: Mutex<HeaderMap>,
    arrived: mpsc::UnboundedSender<ServerJsonRpcMessage>,
    /// Requests whose answer is awaited; dropping one gives it up.
    awaited: Mutex<HashMap<RequestId, oneshot::Sender<()>>>,
    is_stale: AtomicBool,
}

/// Speaks to an address.
pub(super) struct Web {
    link: Arc<Link>,
    arrivals: mpsc::UnboundedReceiver<ServerJsonRpcMessage>,
}

/// Prepares to speak to an address; nothing is sent yet.
pub(super) fn prepare(
    url: &str,
    headers: &[(String, String)],
    client: &Client,
) -> Result<(Web, Arc<Link>), Trouble> {
    let invalid = |reason: String| Trouble::new(Kind::Invalid, reason);
    let url = Url::parse(url).map_err(|error| invalid(format!("this is no address: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid(format!(
            "`{}` is neither http nor https",
            url.scheme()
        )));
    }
    let mut carried = HeaderMap::new();
    for (name, value) in headers {
        let bad = |part: &str| invalid(format!("the {part} of header `{name}` is not allowed"));
        let key: HeaderName = name.parse().map_err(|_| bad("name"))?;
        let mut value: HeaderValue = value.parse().map_err(|_| bad("value"))?;
        value.set_sensitive(true);
        carried.insert(key, value);
    }
    let (arrived, arrivals) = mpsc::unbounded_channel();
    let link = Arc::new(Link {
        client: client.clone(),
        url,
        headers: Mutex::new(carried),
        arrived,
        awaited: Mutex::default(),
        is_stale: AtomicBool::new(false),
    });
    let web = Web {
        link: link.clone(),
        arrivals,
    };
    Ok((web, link))
}

impl Link {
    /// Whether the server may have forgotten us, so that it is better to begin anew.
    pub(super) fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::Relaxed)
    }

    /// Sends a message, and passes on what comes back up to its answer.
    async fn send(&self, message: ClientJsonRpcMessage) -> Result<(), Broken> {
        let sent = match &message {
            JsonRpcMessage::Request(request) => {
                let id = request.id.clone();
                let (hold, given_up) = oneshot::channel();
                lock(&self.awaited).insert(id.clone(), hold);
                let sent = tokio::select! {
                    sent = self.exchange(&message, Some(&id)) => sent,
                    _ = given_up => Ok(()),
                };
                lock(&self.awaited).remove(&id);
                sent
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    lock(&self.awaited).remove(id);
                }
                self.exchange(&message, None).await
            }
            _ => self.exchange(&message, None).await,
        };
        sent.map_err(|error| {
            let (knows_us, refused) = match error.kind {
                ErrorKind::Auth | ErrorKind::RateLimited(_) => (true, true),
                // A session that is not found is one that is over.
                ErrorKind::NotFound => (false, true),
                _ => (false, false),
            };
            self.is_stale.fetch_or(!knows_us, Ordering::Relaxed);
            if refused {
                Broken::Refused(error.message)
            } else {
                Broken::Lost(error.message)
            }
        })
    }

    async fn exchange(
        &self,
        message: &ClientJsonRpcMessage,
        awaited: Option<&RequestId>,
    ) -> Result<(), Error> {
        let headers = lock(&self.headers).clone();
        let request = self.client.raw().post(self.url.clone()).headers(headers);
        let request = request.header(ACCEPT, "application/json, text/event-stream");
        let response = request.json(message).send().await;
        let response = refused(response.map_err(|error| failed(&error))?).await?;
        let Some(awaited) = awaited else {
            return Ok(());
        };
        if let Some(session) = response.headers().get(SESSION) {
            lock(&self.headers).insert(SESSION, session.clone());
        }
        if is_json(&response) {
            let body = body(response).await?;
            return if self.arrive(&body, awaited) {
                Ok(())
            } else {
                Err(unexpected("the server's answer is not one that MCP knows"))
            };
        }
        let mut stream = Stream::new(response)?;
        while let Some(data) = stream.next().await? {
            if self.arrive(data.as_bytes(), awaited) {
                return Ok(());
            }
        }
        let cut = "the server's stream of events ended before the answer";
        Err(Error::new(ErrorKind::Network, cut))
    }

    /// Passes a message on; returns whether it is the awaited answer.
    fn arrive(&self, bytes: &[u8], awaited: &RequestId) -> bool {
        let Some(message) = wire::message(bytes) else {
            return false;
        };
        if let JsonRpcMessage::Response(response) = &message
            && let ServerResult::InitializeResult(hello) = &response.result
            && let Ok(version) = hello.protocol_version.as_str().parse()
        {
            lock(&self.headers).insert(VERSION, version);
        }
        let is_answer = wire::answers(&message, awaited);
        // Nobody listens any more only when everything is over.
        let _ = self.arrived.send(message);
        is_answer
    }

    /// Tells the server that it may forget us, if it remembers.
    async fn leave(&self) {
        let headers = lock(&self.headers).clone();
        if headers.contains_key(SESSION) {
            let request = self.client.raw().delete(self.url.clone()).headers(headers);
            let _ = request.timeout(GOODBYE).send().await;
        }
    }
}

fn is_json(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.starts_with("application/json")
}

async fn body(mut response: Response) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    let cut = |_| Error::new(ErrorKind::Network, "the server's answer was cut off");
    while let Some(chunk) = response.chunk().await.map_err(cut)? {
        body.extend_from_slice(&chunk);
        if body.len() > LONGEST {
            let message = format!("the server's answer has more than {LONGEST} bytes");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
    }
    Ok(body)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Transport<RoleClient> for Web {
    type Error = Broken;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Broken>> + Send + 'static {
        let link = self.link.clone();
        async move { link.send(item).await }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.arrivals.recv().await
    }

    async fn close(&mut self) -> Result<(), Broken> {
        self.link.leave().await;
        Ok(())
    }
}
