//! One server: connected on demand, and called.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, PaginatedRequestParams, ProtocolVersion, Tool};
use rmcp::service::{ClientInitializeError, Peer, RunningService, ServiceError};
use rmcp::transport::Transport as RmcpTransport;
use rmcp::{RoleClient, serve_client};
use segno_core::agent::ErrorKind;
use segno_core::error::Kind;
use segno_core::ports::Clock;
use serde_json::Value;
use tokio::sync::Mutex;

use super::client_handler::SegnoClient;
use super::error::{ConnectError, McpError, SendError};
use super::http_transport::{self, HttpSession};
use super::{ConnectionConfig, McpServer, Transport, tool_result};
use crate::command::Inherit;
use crate::command::output::escape_controls;
use crate::json_rpc::{self, ProcessHandle};
use crate::sanitize::sanitize;

/// The most tools that one server may list.
const MAX_TOOLS: usize = 1000;

/// How many bytes of a server's error message are shown.
const MAX_ERROR: usize = 4 << 10;

/// A server, and the connection to it if there is one.
pub(super) struct Server {
    spec: McpServer,
    means: ConnectionConfig,
    live: Mutex<Option<Arc<Live>>>,
}

struct Live {
    service: RunningService<RoleClient, SegnoClient>,
    handle: TransportHandle,
}

/// The transport below a connection.
enum TransportHandle {
    Program(ProcessHandle),
    Address(Arc<HttpSession>),
}

impl Live {
    fn is_over(&self) -> bool {
        let is_over = match &self.handle {
            TransportHandle::Program(process) => process.is_over(),
            TransportHandle::Address(session) => session.is_stale(),
        };
        is_over || self.service.is_transport_closed()
    }
}

impl Server {
    pub(super) fn new(spec: McpServer, means: ConnectionConfig) -> Self {
        Self {
            spec,
            means,
            live: Mutex::new(None),
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.spec.id
    }

    /// Connects to the server, and returns all its tools.
    pub(super) async fn connect(&self) -> Result<Vec<Tool>, McpError> {
        let (live, tools) = self.open().await.map_err(|error| self.error(error))?;
        *self.live.lock().await = Some(Arc::new(live));
        Ok(tools)
    }

    /// Calls a tool, once. Reconnects first, once, if the server went away before.
    pub(super) async fn call(&self, tool: &str, input: &Value) -> Result<String, String> {
        let params = CallToolRequestParams::new(tool.to_owned());
        let params = match input {
            Value::Object(given) => params.with_arguments(given.clone()),
            Value::Null => params,
            _ => return Err("the input must be an object".to_owned()),
        };
        let live = self.live().await?;
        let ConnectionConfig { clock, limits, .. } = &self.means;
        let call = live.service.call_tool_once(params);
        match with_timeout(&**clock, limits.call, call).await {
            Some(Ok(response)) => tool_result::text(response),
            Some(Err(error)) => Err(self.failure(&live, error).await),
            None => Err(format!(
                "MCP server `{}` did not respond within {}, and the call was cancelled; whether it had an effect is unknown",
                self.id(),
                seconds(limits.call)
            )),
        }
    }

    async fn live(&self) -> Result<Arc<Live>, String> {
        let mut slot = self.live.lock().await;
        if let Some(live) = slot.as_ref().filter(|live| !live.is_over()) {
            return Ok(live.clone());
        }
        *slot = None;
        let reached = self.open().await;
        let (live, _) = reached.map_err(|error| self.error(error).to_string())?;
        Ok(slot.insert(Arc::new(live)).clone())
    }

    async fn open(&self) -> Result<(Live, Vec<Tool>), ConnectError> {
        match &self.spec.transport {
            Transport::Stdio { argv, env, folder } => {
                if argv.is_empty() {
                    return Err(ConnectError::new(Kind::Invalid, "it has no command"));
                }
                let started =
                    json_rpc::start(argv, Inherit::Listed, env, folder, &self.means.guard).await;
                let (transport, process) = started.map_err(|error| {
                    if folder.is_dir() {
                        let reason = format!("its process guard cannot be started: {error}");
                        return ConnectError::new(Kind::Unavailable, reason);
                    }
                    let reason = format!("{} is not a folder", folder.display());
                    ConnectError::new(Kind::Invalid, reason)
                })?;
                let host = SegnoClient {
                    folder: Some(folder.clone()),
                };
                match self.handshake(host, transport).await {
                    Ok((service, tools)) => {
                        Ok((live(service, TransportHandle::Program(process)), tools))
                    }
                    Err(error) => Err(error.of_program(&process).await),
                }
            }
            Transport::Http { url, headers } => {
                let (transport, session) =
                    http_transport::prepare(url, headers, &self.means.client)?;
                match self
                    .handshake(SegnoClient { folder: None }, transport)
                    .await
                {
                    Ok((service, tools)) => {
                        Ok((live(service, TransportHandle::Address(session)), tools))
                    }
                    Err(error) => Err(error.of_address()),
                }
            }
        }
    }

    /// Initializes the session and lists the tools, within the timeout.
    async fn handshake(
        &self,
        host: SegnoClient,
        transport: impl RmcpTransport<RoleClient, Error = SendError> + 'static,
    ) -> Result<(RunningService<RoleClient, SegnoClient>, Vec<Tool>), HandshakeError> {
        let ConnectionConfig { clock, limits, .. } = &self.means;
        let hello = async {
            let service = serve_client(host, transport)
                .await
                .map_err(handshake_error)?;
            let tools = list_tools(service.peer()).await?;
            Ok((service, tools))
        };
        let done = with_timeout(&**clock, limits.connect, hello).await;
        done.unwrap_or(Err(HandshakeError::Late(limits.connect)))
    }

    /// The message for a failed call.
    async fn failure(&self, live: &Live, error: ServiceError) -> String {
        let id = self.id();
        let why = match error {
            ServiceError::McpError(error) if error.message.is_empty() => {
                return format!("MCP server `{id}` rejected the call without a message");
            }
            ServiceError::McpError(error) => return sanitize(&error.message, MAX_ERROR),
            ServiceError::UnexpectedResponse => {
                return format!(
                    "MCP server `{id}` responded with something that is not a tool result"
                );
            }
            ServiceError::TransportSend(error) => match error.error.downcast_ref() {
                Some(SendError::Refused(why)) => {
                    return format!("MCP server `{id}` rejected the call: {why}");
                }
                _ => error.error.to_string(),
            },
            ServiceError::TransportClosed => "the connection was closed".to_owned(),
            other => other.to_string(),
        };
        let why = match &live.handle {
            TransportHandle::Program(process) => process.end().await.describe(),
            TransportHandle::Address(_) => why,
        };
        format!(
            "MCP server `{id}` disconnected during the call: {why}; whether the call had an effect is unknown; the next call reconnects"
        )
    }

    fn error(&self, error: ConnectError) -> McpError {
        let tried = match &self.spec.transport {
            Transport::Stdio { argv, .. } => match argv.first() {
                Some(program) => format!("starting `{}`", escape_controls(program)),
                None => "starting".to_owned(),
            },
            Transport::Http { url, .. } => format!("connecting to {}", host_of(url)),
        };
        McpError {
            server: self.spec.id.clone(),
            operation: tried,
            reason: error.reason,
            kind: error.kind,
            hint: error.hint,
        }
    }
}

fn live(service: RunningService<RoleClient, SegnoClient>, handle: TransportHandle) -> Live {
    Live { service, handle }
}

/// The host and port of a URL: the part without secrets.
fn host_of(url: &str) -> String {
    let url = reqwest::Url::parse(url).ok();
    let host = url.as_ref().and_then(|url| url.host_str());
    let port = url.as_ref().and_then(reqwest::Url::port);
    match (host, port) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (Some(host), None) => host.to_owned(),
        _ => "its URL".to_owned(),
    }
}

/// Why a server did not list its tools.
enum HandshakeError {
    Late(Duration),
    /// The connection was closed, or could not be used.
    Closed(String),
    /// It sent something unexpected.
    Wrong(String),
}

impl HandshakeError {
    async fn of_program(self, process: &ProcessHandle) -> ConnectError {
        let ending = process.end().await;
        // Its arguments are not shown: they may contain a key.
        let run_by_hand = "run its command by hand to see its output";
        match self {
            HandshakeError::Late(limit) => {
                let late = format!("no response within {}", seconds(limit));
                let hint = format!("{run_by_hand}; a first start may download packages");
                ConnectError::new(Kind::Unavailable, with_stderr(late, &ending.stderr_tail))
                    .hint(hint)
            }
            HandshakeError::Closed(_)
                if matches!(ending.kind, ErrorKind::NotFound | ErrorKind::NoProgram) =>
            {
                let hint = "check that the program is installed and on PATH";
                ConnectError::new(Kind::NotFound, ending.describe()).hint(hint)
            }
            HandshakeError::Closed(_) => {
                ConnectError::new(Kind::Unavailable, ending.describe()).hint(run_by_hand)
            }
            HandshakeError::Wrong(reason) => {
                ConnectError::new(Kind::Invalid, with_stderr(reason, &ending.stderr_tail))
                    .hint(run_by_hand)
            }
        }
    }

    fn of_address(self) -> ConnectError {
        match self {
            HandshakeError::Late(limit) => {
                let reason = format!("no response within {}", seconds(limit));
                ConnectError::new(Kind::Unavailable, reason)
            }
            HandshakeError::Closed(reason) => ConnectError::new(Kind::Unavailable, reason),
            HandshakeError::Wrong(reason) => ConnectError::new(Kind::Invalid, reason),
        }
        .hint("check the URL, including its path, and the headers")
    }
}

fn with_stderr(reason: String, stderr_tail: &str) -> String {
    match stderr_tail {
        "" => reason,
        words => format!("{reason}: {words}"),
    }
}

fn handshake_error(error: ClientInitializeError) -> HandshakeError {
    match error {
        ClientInitializeError::ConnectionClosed(_) => {
            HandshakeError::Closed("the connection was closed".to_owned())
        }
        ClientInitializeError::TransportError { error, .. } => {
            HandshakeError::Closed(error.error.to_string())
        }
        ClientInitializeError::JsonRpcError(error) => {
            let message = sanitize(&error.message, MAX_ERROR);
            HandshakeError::Wrong(format!("it rejected `initialize`: {message}"))
        }
        _ => HandshakeError::Wrong("its first response is not a valid MCP message".to_owned()),
    }
}

/// All tools of a server, of all pages.
async fn list_tools(server: &Peer<RoleClient>) -> Result<Vec<Tool>, HandshakeError> {
    let info = server.peer_info();
    let info = info.ok_or_else(|| HandshakeError::Wrong("it sent no server info".to_owned()))?;
    let version = &info.protocol_version;
    if !ProtocolVersion::KNOWN_VERSIONS.contains(version) {
        let known = ProtocolVersion::KNOWN_VERSIONS.iter();
        let known: Vec<&str> = known.map(ProtocolVersion::as_str).collect();
        return Err(HandshakeError::Wrong(format!(
            "it speaks MCP version {}; Segno speaks {}",
            sanitize(version.as_str(), 64),
            known.join(", ")
        )));
    }
    let mut tools = Vec::new();
    let mut cursor = None;
    if info.capabilities.tools.is_none() {
        return Ok(tools);
    }
    loop {
        let page = PaginatedRequestParams::default().with_cursor(cursor.clone());
        let page = server.list_tools(Some(page)).await.map_err(list_error)?;
        tools.extend(page.tools);
        let endless = page.next_cursor.is_some() && page.next_cursor == cursor;
        if endless || tools.len() > MAX_TOOLS {
            let problem = format!("its tool list is endless or has more than {MAX_TOOLS} tools");
            return Err(HandshakeError::Wrong(problem));
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(tools);
        }
    }
}

fn list_error(error: ServiceError) -> HandshakeError {
    match error {
        ServiceError::McpError(error) => {
            let message = sanitize(&error.message, MAX_ERROR);
            HandshakeError::Wrong(format!("it rejected `tools/list`: {message}"))
        }
        ServiceError::UnexpectedResponse => HandshakeError::Wrong(
            "its response to `tools/list` is not a valid MCP message".to_owned(),
        ),
        ServiceError::TransportSend(error) => HandshakeError::Closed(error.error.to_string()),
        other => HandshakeError::Closed(other.to_string()),
    }
}

/// The output of `work`; `None` if it takes longer than the limit.
async fn with_timeout<T>(
    clock: &dyn Clock,
    limit: Duration,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        done = work => Some(done),
        () = clock.sleep(limit) => None,
    }
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::host_of;

    #[test]
    fn url_is_shown_without_secrets() {
        for (url, expected) in [
            ("https://a.example/key/mcp?key=x#y", "a.example"),
            ("https://me:secret@a.example:81/mcp", "a.example:81"),
            ("no address", "its URL"),
        ] {
            assert_eq!(host_of(url), expected, "{url}");
        }
    }
}
