//! One server: reached when it is needed, and asked.

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

use super::address::{self, Link};
use super::error::{Broken, McpError, Trouble};
use super::host::Host;
use super::program::{self, Keeper};
use super::words::clean;
use super::{McpServer, Means, Transport, answer};
use crate::command::output::harmless;

/// The most tools that one server may offer.
const MOST: usize = 1000;

/// How much of a server's complaint is told.
const COMPLAINT: usize = 4 << 10;

/// A server, and the connection to it if there is one.
pub(super) struct Server {
    spec: McpServer,
    means: Means,
    live: Mutex<Option<Arc<Live>>>,
}

/// A connection to a server.
struct Live {
    service: RunningService<RoleClient, Host>,
    hold: Hold,
}

/// What a connection stands on.
enum Hold {
    Program(Keeper),
    Address(Arc<Link>),
}

impl Live {
    fn is_over(&self) -> bool {
        let is_over = match &self.hold {
            Hold::Program(keeper) => keeper.is_over(),
            Hold::Address(link) => link.is_stale(),
        };
        is_over || self.service.is_transport_closed()
    }
}

impl Server {
    pub(super) fn new(spec: McpServer, means: Means) -> Self {
        Self {
            spec,
            means,
            live: Mutex::new(None),
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.spec.id
    }

    /// Reaches the server, and returns all that it offers.
    pub(super) async fn connect(&self) -> Result<Vec<Tool>, McpError> {
        let (live, tools) = self.reach().await.map_err(|trouble| self.error(trouble))?;
        *self.live.lock().await = Some(Arc::new(live));
        Ok(tools)
    }

    /// Calls a tool, once. A server that went away before is reached again, once.
    pub(super) async fn call(&self, tool: &str, input: &Value) -> Result<String, String> {
        let params = CallToolRequestParams::new(tool.to_owned());
        let params = match input {
            Value::Object(given) => params.with_arguments(given.clone()),
            Value::Null => params,
            _ => return Err("the input must be an object".to_owned()),
        };
        let live = self.live().await?;
        let Means { clock, limits, .. } = &self.means;
        let call = live.service.call_tool_once(params);
        match limited(&**clock, limits.call, call).await {
            Some(Ok(response)) => answer::text(response),
            Some(Err(error)) => Err(self.failure(&live, error).await),
            None => Err(format!(
                "MCP server `{}` did not answer within {} and was told to stop; whether the call \
                 had an effect is not known",
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
        let reached = self.reach().await;
        let (live, _) = reached.map_err(|trouble| self.error(trouble).to_string())?;
        Ok(slot.insert(Arc::new(live)).clone())
    }

    async fn reach(&self) -> Result<(Live, Vec<Tool>), Trouble> {
        match &self.spec.transport {
            Transport::Program { argv, env, folder } => {
                if argv.is_empty() {
                    return Err(Trouble::new(Kind::Invalid, "it has no command"));
                }
                let started = program::start(argv, env, folder, &self.means.warden).await;
                let (wire, keeper) = started.map_err(|error| {
                    if folder.is_dir() {
                        let reason = format!("its warden cannot be started: {error}");
                        return Trouble::new(Kind::Unavailable, reason);
                    }
                    let reason = format!("{} is not a folder", folder.display());
                    Trouble::new(Kind::Invalid, reason)
                })?;
                let host = Host {
                    folder: Some(folder.clone()),
                };
                match self.greet(host, wire).await {
                    Ok((service, tools)) => Ok((live(service, Hold::Program(keeper)), tools)),
                    Err(greeting) => Err(greeting.of_program(&keeper).await),
                }
            }
            Transport::Address { url, headers } => {
                let (web, link) = address::prepare(url, headers, &self.means.client)?;
                match self.greet(Host { folder: None }, web).await {
                    Ok((service, tools)) => Ok((live(service, Hold::Address(link)), tools)),
                    Err(greeting) => Err(greeting.of_address()),
                }
            }
        }
    }

    /// Says hello and asks what is offered, within the limit.
    async fn greet(
        &self,
        host: Host,
        transport: impl RmcpTransport<RoleClient, Error = Broken> + 'static,
    ) -> Result<(RunningService<RoleClient, Host>, Vec<Tool>), Unheard> {
        let Means { clock, limits, .. } = &self.means;
        let hello = async {
            let service = serve_client(host, transport).await.map_err(initial)?;
            let tools = offered(service.peer()).await?;
            Ok((service, tools))
        };
        let done = limited(&**clock, limits.connect, hello).await;
        done.unwrap_or(Err(Unheard::Late(limits.connect)))
    }

    /// What a failed call is told as.
    async fn failure(&self, live: &Live, error: ServiceError) -> String {
        let id = self.id();
        let why = match error {
            ServiceError::McpError(error) if error.message.is_empty() => {
                return format!("MCP server `{id}` refused the call without a word");
            }
            ServiceError::McpError(error) => return clean(&error.message, COMPLAINT),
            ServiceError::UnexpectedResponse => {
                return format!("MCP server `{id}` answered with something that is no result");
            }
            ServiceError::TransportSend(error) => match error.error.downcast_ref() {
                Some(Broken::Refused(why)) => {
                    return format!("MCP server `{id}` refused the call: {why}");
                }
                _ => error.error.to_string(),
            },
            ServiceError::TransportClosed => "the connection was closed".to_owned(),
            other => other.to_string(),
        };
        let why = match &live.hold {
            Hold::Program(keeper) => keeper.end().await.told(),
            Hold::Address(_) => why,
        };
        format!(
            "MCP server `{id}` went away during the call: {why}; whether the call had an effect is \
             not known; the server is asked anew at the next call"
        )
    }

    fn error(&self, trouble: Trouble) -> McpError {
        let tried = match &self.spec.transport {
            Transport::Program { argv, .. } => match argv.first() {
                Some(program) => format!("starting `{}`", harmless(program)),
                None => "starting it".to_owned(),
            },
            Transport::Address { url, .. } => format!("calling {}", place(url)),
        };
        McpError {
            server: self.spec.id.clone(),
            tried,
            reason: trouble.reason,
            kind: trouble.kind,
            hint: trouble.hint,
        }
    }
}

fn live(service: RunningService<RoleClient, Host>, hold: Hold) -> Live {
    Live { service, hold }
}

/// The part of an address that holds no key.
fn place(url: &str) -> String {
    let url = reqwest::Url::parse(url).ok();
    let host = url.as_ref().and_then(|url| url.host_str());
    let port = url.as_ref().and_then(reqwest::Url::port);
    match (host, port) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (Some(host), None) => host.to_owned(),
        _ => "it".to_owned(),
    }
}

/// Why a server did not say what it offers.
enum Unheard {
    /// It took too long.
    Late(Duration),
    /// The connection was closed, or could not be used.
    Closed(String),
    /// It said something else.
    Wrong(String),
}

impl Unheard {
    async fn of_program(self, keeper: &Keeper) -> Trouble {
        let ending = keeper.end().await;
        // Its arguments are not told: they may hold a key.
        let by_hand = "run its command by hand to see what it does";
        match self {
            Unheard::Late(limit) => {
                let late = format!("no answer within {}", seconds(limit));
                let hint = format!("{by_hand}; a first start may have to download something");
                Trouble::new(Kind::Unavailable, with(late, &ending.last_words)).hint(hint)
            }
            Unheard::Closed(_) if ending.kind == ErrorKind::NotFound => {
                let hint = "look whether the program is installed and in PATH";
                Trouble::new(Kind::NotFound, ending.told()).hint(hint)
            }
            Unheard::Closed(_) => Trouble::new(Kind::Unavailable, ending.told()).hint(by_hand),
            Unheard::Wrong(reason) => {
                Trouble::new(Kind::Invalid, with(reason, &ending.last_words)).hint(by_hand)
            }
        }
    }

    fn of_address(self) -> Trouble {
        match self {
            Unheard::Late(limit) => {
                let reason = format!("no answer within {}", seconds(limit));
                Trouble::new(Kind::Unavailable, reason)
            }
            Unheard::Closed(reason) => Trouble::new(Kind::Unavailable, reason),
            Unheard::Wrong(reason) => Trouble::new(Kind::Invalid, reason),
        }
        .hint("look whether the address, with its path, and the headers are right")
    }
}

fn with(reason: String, last_words: &str) -> String {
    match last_words {
        "" => reason,
        words => format!("{reason}: {words}"),
    }
}

fn initial(error: ClientInitializeError) -> Unheard {
    match error {
        ClientInitializeError::ConnectionClosed(_) => {
            Unheard::Closed("the connection was closed".to_owned())
        }
        ClientInitializeError::TransportError { error, .. } => {
            Unheard::Closed(error.error.to_string())
        }
        ClientInitializeError::JsonRpcError(error) => {
            let message = clean(&error.message, COMPLAINT);
            Unheard::Wrong(format!("it does not want to be spoken to: {message}"))
        }
        _ => Unheard::Wrong("its first answer is not one that MCP knows".to_owned()),
    }
}

/// All that a server offers, of all pages.
async fn offered(server: &Peer<RoleClient>) -> Result<Vec<Tool>, Unheard> {
    let info = server.peer_info();
    let info = info.ok_or_else(|| Unheard::Wrong("it did not introduce itself".to_owned()))?;
    let version = &info.protocol_version;
    if !ProtocolVersion::KNOWN_VERSIONS.contains(version) {
        let known = ProtocolVersion::KNOWN_VERSIONS.iter();
        let known: Vec<&str> = known.map(ProtocolVersion::as_str).collect();
        return Err(Unheard::Wrong(format!(
            "it speaks version {} of MCP, and Segno speaks {}",
            clean(version.as_str(), 64),
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
        let page = server.list_tools(Some(page)).await.map_err(listing)?;
        tools.extend(page.tools);
        let endless = page.next_cursor.is_some() && page.next_cursor == cursor;
        if endless || tools.len() > MOST {
            let problem = format!("its list of tools has no end, or more than {MOST} entries");
            return Err(Unheard::Wrong(problem));
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(tools);
        }
    }
}

fn listing(error: ServiceError) -> Unheard {
    match error {
        ServiceError::McpError(error) => {
            let message = clean(&error.message, COMPLAINT);
            Unheard::Wrong(format!("it does not say what it offers: {message}"))
        }
        ServiceError::UnexpectedResponse => {
            Unheard::Wrong("its list of tools is not one that MCP knows".to_owned())
        }
        ServiceError::TransportSend(error) => Unheard::Closed(error.error.to_string()),
        other => Unheard::Closed(other.to_string()),
    }
}

/// What comes of `work`, or nothing if it takes longer than the limit.
async fn limited<T>(
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
    use super::place;

    #[test]
    fn an_address_is_told_without_what_may_be_secret() {
        for (url, expected) in [
            ("https://a.example/key/mcp?key=x#y", "a.example"),
            ("https://me:secret@a.example:81/mcp", "a.example:81"),
            ("no address", "it"),
        ] {
            assert_eq!(place(url), expected, "{url}");
        }
    }
}
