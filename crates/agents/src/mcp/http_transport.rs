//! An MCP server over streamable HTTP: each message is a request, and the response is a message or
//! a stream of messages.

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

use super::error::{ConnectError, SendError};
use super::message;
use crate::http::Client;
use crate::http::{Stream, check_status, protocol_error, request_error};

/// The longest accepted message, in bytes.
const LONGEST: usize = 16 << 20;

/// How many messages may be received and not yet handled. Reading waits for room.
const MAX_WAITING: usize = 64;

/// The timeout for ending the session.
const END_TIMEOUT: Duration = Duration::from_secs(2);

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// Shared by all requests to a server.
pub(super) struct HttpSession {
    client: Client,
    url: Url,
    /// Sent with every request: the headers of the spec, and those that the server set in its first
    /// response.
    headers: Mutex<HeaderMap>,
    incoming_sender: mpsc::Sender<ServerJsonRpcMessage>,
    /// Requests whose response is awaited; dropping the sender gives a request up.
    awaited: Mutex<HashMap<RequestId, oneshot::Sender<()>>>,
    is_stale: AtomicBool,
}

/// The transport over HTTP.
pub(super) struct HttpTransport {
    session: Arc<HttpSession>,
    incoming: mpsc::Receiver<ServerJsonRpcMessage>,
}

/// Prepares the transport; nothing is sent yet.
pub(super) fn prepare(
    url: &str,
    headers: &[(String, String)],
    client: &Client,
) -> Result<(HttpTransport, Arc<HttpSession>), ConnectError> {
    let invalid = |reason: String| ConnectError::new(Kind::Invalid, reason);
    let url = Url::parse(url).map_err(|error| invalid(format!("the URL is invalid: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid(format!(
            "the URL scheme `{}` is neither http nor https",
            url.scheme()
        )));
    }
    let mut all_headers = HeaderMap::new();
    for (name, value) in headers {
        let bad = |part: &str| invalid(format!("the {part} of header `{name}` is invalid"));
        let key: HeaderName = name.parse().map_err(|_| bad("name"))?;
        let mut value: HeaderValue = value.parse().map_err(|_| bad("value"))?;
        value.set_sensitive(true);
        all_headers.insert(key, value);
    }
    let (incoming_sender, incoming) = mpsc::channel(MAX_WAITING);
    let session = Arc::new(HttpSession {
        client: client.clone(),
        url,
        headers: Mutex::new(all_headers),
        incoming_sender,
        awaited: Mutex::default(),
        is_stale: AtomicBool::new(false),
    });
    let transport = HttpTransport {
        session: session.clone(),
        incoming,
    };
    Ok((transport, session))
}

impl HttpSession {
    /// Whether the server may have lost the session, so that it is better to connect anew.
    pub(super) fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::Relaxed)
    }

    /// Sends a message, and passes on what comes back, up to its response.
    async fn send(&self, message: ClientJsonRpcMessage) -> Result<(), SendError> {
        let sent = match &message {
            JsonRpcMessage::Request(request) => {
                let id = request.id.clone();
                let (guard, given_up) = oneshot::channel();
                lock(&self.awaited).insert(id.clone(), guard);
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
            let (session_valid, refused) = match error.kind {
                ErrorKind::Auth | ErrorKind::RateLimited(_) => (true, true),
                // A session that is not found has ended.
                ErrorKind::NotFound => (false, true),
                _ => (false, false),
            };
            self.is_stale.fetch_or(!session_valid, Ordering::Relaxed);
            if refused {
                SendError::Refused(error.message)
            } else {
                SendError::Lost(error.message)
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
        let response = check_status(response.map_err(|error| request_error(&error))?).await?;
        let Some(awaited) = awaited else {
            return Ok(());
        };
        if let Some(session) = response.headers().get(SESSION) {
            lock(&self.headers).insert(SESSION, session.clone());
        }
        if is_json(&response) {
            let body = body(response).await?;
            return if self.deliver(&body, awaited).await {
                Ok(())
            } else {
                Err(protocol_error(
                    "the server's response is not a valid MCP message",
                ))
            };
        }
        let mut stream = Stream::new(response)?;
        while let Some(data) = stream.next().await? {
            if self.deliver(data.as_bytes(), awaited).await {
                return Ok(());
            }
        }
        let cut = "the server's event stream ended before the response";
        Err(Error::new(ErrorKind::Network, cut))
    }

    /// Passes a message on; returns whether it is the awaited response.
    async fn deliver(&self, bytes: &[u8], awaited: &RequestId) -> bool {
        let Some(message) = message::parse(bytes) else {
            return false;
        };
        if let JsonRpcMessage::Response(response) = &message
            && let ServerResult::InitializeResult(hello) = &response.result
            && let Ok(version) = hello.protocol_version.as_str().parse()
        {
            lock(&self.headers).insert(VERSION, version);
        }
        let is_answer = message::is_response_to(&message, awaited);
        // The receiver is gone only when the connection is closed.
        let _ = self.incoming_sender.send(message).await;
        is_answer
    }

    /// Ends the session on the server, if there is one.
    async fn end_session(&self) {
        let headers = lock(&self.headers).clone();
        if headers.contains_key(SESSION) {
            let request = self.client.raw().delete(self.url.clone()).headers(headers);
            let _ = request.timeout(END_TIMEOUT).send().await;
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
    let cut = |_| Error::new(ErrorKind::Network, "the server's response was cut off");
    while let Some(chunk) = response.chunk().await.map_err(cut)? {
        body.extend_from_slice(&chunk);
        if body.len() > LONGEST {
            let message = format!("the server's response has more than {LONGEST} bytes");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
    }
    Ok(body)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Transport<RoleClient> for HttpTransport {
    type Error = SendError;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), SendError>> + Send + 'static {
        let session = self.session.clone();
        async move { session.send(item).await }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.incoming.recv().await
    }

    async fn close(&mut self) -> Result<(), SendError> {
        self.session.end_session().await;
        Ok(())
    }
}
