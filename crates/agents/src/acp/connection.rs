//! One ACP agent, from the start of its process to its end.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use segno_core::agent::ErrorKind;
use serde_json::{Value, json};

use super::ConnectionConfig;
use super::error::{AcpError, Failure};
use super::permissions::{self, Policy, ToolCallInfo};
use super::transport::Transport;
use super::turn::{Replay, Turn};
use super::update::{Status, Tool, Update};
use crate::command::VENDORS;
use crate::json_rpc::{self, ErrorResponse, Message};
use crate::sanitize::sanitize;

/// The supported version of the protocol.
const VERSION: u64 = 1;

/// The longest session id; agents choose the ids.
const LONGEST_ID: usize = 1 << 10;

/// How many tool calls are remembered: some agents do not repeat a call's kind and title in the
/// permission request.
const MAX_TOOLS: usize = 10_000;

/// How many bytes of an agent's error message are shown.
const MAX_ERROR: usize = 4 << 10;

const LOG_IN: &str = "log in with the agent's own program, or set its API key";

/// A running agent. Dropping this ends the agent's whole process tree.
pub struct Connection {
    pub(super) transport: Transport,
    pub(super) config: ConnectionConfig,
    agent: Option<Agent>,
    /// The folder of each session.
    folders: HashMap<String, PathBuf>,
    /// The MCP servers that new and loaded sessions get.
    servers: Vec<Value>,
    tools: HashMap<String, ToolCallInfo>,
    /// Whether the current turn was cancelled.
    pub(super) cancelled: bool,
}

/// An agent's identity and capabilities.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    pub name: Option<String>,
    pub version: Option<String>,
    pub load_session: bool,
    /// The whole response to `initialize`.
    pub value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    pub id: String,
    /// The whole response, with modes and models.
    pub value: Value,
}

/// The effect of one message.
pub(super) enum Step {
    Response(Result<Value, ErrorResponse>),
    Update(Update),
    Nothing,
}

impl Connection {
    /// Starts a program in this folder, with additional environment variables.
    pub async fn open(
        argv: &[String],
        env: &[(String, String)],
        cwd: &Path,
        config: ConnectionConfig,
    ) -> Result<Self, AcpError> {
        let inherit = config.environment.for_program(&VENDORS, &config.pass_env);
        let transport = Transport::open(
            argv,
            (inherit, env),
            cwd,
            &config.guard,
            config.clock.clone(),
        )
        .await?;
        Ok(Self {
            transport,
            config,
            agent: None,
            folders: HashMap::new(),
            servers: Vec::new(),
            tools: HashMap::new(),
            cancelled: false,
        })
    }

    /// Sends `initialize`. Call this first, and once.
    pub async fn initialize(&mut self) -> Result<&Agent, AcpError> {
        let operation = "initializing";
        let params = json!({
            "protocolVersion": VERSION,
            "clientCapabilities": {"fs": self.config.files.capabilities(), "terminal": false},
            "clientInfo": {"name": "segno", "version": env!("CARGO_PKG_VERSION")},
        });
        let value = self.request(operation, "initialize", &params).await?;
        if value["protocolVersion"] != VERSION {
            let theirs = sanitize(&value["protocolVersion"].to_string(), 64);
            let reason = format!("it speaks ACP version {theirs}; Segno speaks version {VERSION}");
            return Err(self
                .transport
                .fail(operation, Failure::Protocol(reason))
                .await);
        }
        let word = |key: &str| {
            value["agentInfo"][key]
                .as_str()
                .map(|text| sanitize(text, 256))
        };
        Ok(self.agent.insert(Agent {
            name: word("name"),
            version: word("version"),
            load_session: value["agentCapabilities"]["loadSession"] == true,
            value: value.clone(),
        }))
    }

    /// Gives these MCP servers to every session that is created or loaded from here on.
    pub fn set_mcp_servers(&mut self, servers: Vec<Value>) {
        self.servers = servers;
    }

    /// Creates a session in this folder. Updates that arrive before the response are dropped.
    pub async fn new_session(&mut self, cwd: &Path) -> Result<Session, AcpError> {
        let operation = "creating a session";
        self.initialized(operation)?;
        let params = self.session_params(operation, cwd)?;
        let value = self.request(operation, "session/new", &params).await?;
        let id = value["sessionId"].as_str().filter(|id| is_valid_id(id));
        let Some(id) = id.map(str::to_owned) else {
            let reason = "its response has no valid `sessionId`".to_owned();
            return Err(self
                .transport
                .fail(operation, Failure::Protocol(reason))
                .await);
        };
        self.folders.insert(id.clone(), cwd.to_owned());
        Ok(Session { id, value })
    }

    /// Whether the agent supports `session/load`.
    pub fn can_load(&self) -> bool {
        self.agent.as_ref().is_some_and(|agent| agent.load_session)
    }

    /// Loads an earlier session. The agent replays its updates; they are not new.
    pub fn load_session(&mut self, id: &str, cwd: &Path) -> Result<Replay<'_>, AcpError> {
        let operation = Replay::OPERATION;
        if !self.initialized(operation)?.load_session {
            let reason = "it does not support `session/load`";
            return Err(self.transport.error(ErrorKind::Invalid, operation, reason));
        }
        let mut params = self.session_params(operation, cwd)?;
        params["sessionId"] = id.into();
        let request_id = self.send_request(operation, "session/load", &params)?;
        self.folders.insert(id.to_owned(), cwd.to_owned());
        Ok(Replay::new(self, request_id, id))
    }

    /// Sends a prompt to a session that was created or loaded on this connection.
    pub fn prompt(&mut self, session: &str, text: &str) -> Result<Turn<'_>, AcpError> {
        let operation = Turn::OPERATION;
        self.initialized(operation)?;
        if !self.folders.contains_key(session) {
            let reason = "the session was neither created nor loaded on this connection";
            return Err(self.transport.error(ErrorKind::Invalid, operation, reason));
        }
        let prompt = json!([{"type": "text", "text": text}]);
        let params = json!({"sessionId": session, "prompt": prompt});
        let request_id = self.send_request(operation, "session/prompt", &params)?;
        self.cancelled = false;
        Ok(Turn::new(self, request_id, session))
    }

    /// Ends the agent, and returns when its whole process tree has ended.
    pub async fn close(self) {
        self.transport.close().await;
    }

    fn initialized(&self, operation: &str) -> Result<&Agent, AcpError> {
        self.transport.calls.check_open()?;
        let agent = self.agent.as_ref();
        agent.ok_or_else(|| {
            let reason = "the connection is not initialized";
            self.transport.error(ErrorKind::Invalid, operation, reason)
        })
    }

    fn session_params(&self, operation: &str, cwd: &Path) -> Result<Value, AcpError> {
        let text = cwd.to_str().filter(|_| cwd.is_absolute());
        let text = text.ok_or_else(|| {
            let reason = format!("{} is not an absolute UTF-8 path", cwd.display());
            self.transport.error(ErrorKind::Invalid, operation, reason)
        })?;
        Ok(json!({"cwd": text, "mcpServers": self.servers}))
    }

    /// Sends a request; its response is still to come.
    fn send_request(
        &mut self,
        operation: &str,
        method: &str,
        params: &Value,
    ) -> Result<u64, AcpError> {
        self.transport.calls.check_open()?;
        let error = |transport: &Transport, reason: &str| {
            transport.error(ErrorKind::Invalid, operation, reason)
        };
        if !self.transport.calls.is_idle() {
            let reason = "the previous request is still pending";
            return Err(error(&self.transport, reason));
        }
        let id = self.transport.calls.begin()?;
        let message = json_rpc::request(id, method, params);
        if self.transport.queue(&message).is_err() {
            self.transport.calls.forget(id);
            return Err(error(&self.transport, "it does not read its input"));
        }
        Ok(id)
    }

    /// Sends a request and waits for the response.
    async fn request(
        &mut self,
        operation: &str,
        method: &str,
        params: &Value,
    ) -> Result<Value, AcpError> {
        let request_id = self.send_request(operation, method, params)?;
        let limit = self.config.limits.answer;
        let deadline = self.transport.elapsed() + limit;
        loop {
            match self.step(request_id, "", deadline, limit).await {
                Ok(Step::Response(outcome)) => {
                    return outcome.map_err(|refusal| self.response_error(operation, &refusal));
                }
                Ok(Step::Update(_) | Step::Nothing) => {}
                Err(failure) => return Err(self.transport.fail(operation, failure).await),
            }
        }
    }

    /// Handles one message while a request about a session is open. Cancelling this future loses
    /// nothing.
    pub(super) async fn step(
        &mut self,
        request_id: u64,
        session: &str,
        deadline: Duration,
        limit: Duration,
    ) -> Result<Step, Failure> {
        match self.transport.next(deadline, limit).await? {
            Message::Response { id, outcome } => {
                if self.transport.calls.finish(&id) != Some(request_id) {
                    self.transport.note_stray(&id)?;
                    return Ok(Step::Nothing);
                }
                self.transport.reset_noise();
                Ok(Step::Response(outcome))
            }
            Message::Notification { method, params } => {
                self.transport.reset_noise();
                Ok(Step::Update(
                    self.handle_notification(&method, params, session),
                ))
            }
            Message::Request { id, method, params } => {
                self.transport.reset_noise();
                let (outcome, update) = self.answer_request(&method, &params);
                self.transport.queue(&json_rpc::response(&id, outcome))?;
                Ok(update.map_or(Step::Nothing, Step::Update))
            }
        }
    }

    fn handle_notification(&mut self, method: &str, params: Value, session: &str) -> Update {
        if method != "session/update" {
            return Update::Raw {
                kind: method.to_owned(),
                value: params,
            };
        }
        if params["sessionId"] != session {
            return Update::OtherSession {
                session: params["sessionId"].as_str().map(str::to_owned),
                value: params,
            };
        }
        let update = Update::read(&params["update"]);
        if let Update::ToolStarted(tool) | Update::ToolChanged(tool) = &update {
            self.track_tool(tool);
        }
        update
    }

    fn track_tool(&mut self, tool: &Tool) {
        if matches!(tool.status, Some(Status::Completed | Status::Failed)) {
            self.tools.remove(&tool.id);
        } else if let Some(known) = self.tools.get_mut(&tool.id) {
            known.update(tool);
        } else if self.tools.len() < MAX_TOOLS && tool.id.len() <= LONGEST_ID {
            let mut known = ToolCallInfo::default();
            known.update(tool);
            self.tools.insert(tool.id.clone(), known);
        }
    }

    /// Answers a request of the agent.
    fn answer_request(
        &mut self,
        method: &str,
        params: &Value,
    ) -> (Result<Value, (i64, String)>, Option<Update>) {
        let session = params["sessionId"].as_str();
        let folder = session.and_then(|session| self.folders.get(session));
        if method == "session/request_permission" {
            let (Some(tool), Some(folder)) = (Tool::read(&params["toolCall"]), folder) else {
                let why = "a known `sessionId` and a `toolCall` are required".to_owned();
                return (Err((json_rpc::INVALID_PARAMS, why)), None);
            };
            let mut known = self.tools.get(&tool.id).cloned().unwrap_or_default();
            known.update(&tool);
            let (answer, granted) = if self.cancelled {
                (permissions::cancelled(), false)
            } else {
                // Tools of the MCP servers that Segno gave to the session are always allowed.
                let mut given = self
                    .servers
                    .iter()
                    .filter_map(|server| server["name"].as_str());
                let policy = if given.any(|server| known.belongs_to(server)) {
                    Policy::All
                } else {
                    self.config.policy
                };
                policy.answer(&known, folder, &params["options"])
            };
            return (Ok(answer), Some(Update::Permission { tool, granted }));
        }
        let folder = folder.map(PathBuf::as_path);
        let Some((outcome, update)) = self.config.files.answer_request(method, params, folder)
        else {
            let why = "method not found".to_owned();
            return (Err((json_rpc::METHOD_NOT_FOUND, why)), None);
        };
        let outcome = outcome.map_err(|why| (json_rpc::INVALID_PARAMS, why));
        (outcome, Some(update))
    }

    /// Drops a session that could not be loaded, so that it cannot be prompted.
    pub(super) fn drop_session(&mut self, session: &str, refusal: &ErrorResponse) -> AcpError {
        self.folders.remove(session);
        self.response_error(Replay::OPERATION, refusal)
    }

    /// The error for an error response.
    pub(super) fn response_error(&self, operation: &str, refusal: &ErrorResponse) -> AcpError {
        let (kind, hint) = match refusal.code {
            -32000 => (ErrorKind::Auth, Some(LOG_IN)),
            -32002 => (ErrorKind::NotFound, None),
            -32603 => (ErrorKind::Server, None),
            -32700 | -32602..=-32600 => (ErrorKind::Invalid, None),
            _ => (ErrorKind::Unknown, None),
        };
        let details = &refusal.data["details"];
        let message = match details.as_str() {
            Some(details) => format!("{}: {details}", refusal.message),
            None => refusal.message.clone(),
        };
        let reason = format!(
            "it refused: {} ({})",
            sanitize(&message, MAX_ERROR),
            refusal.code
        );
        AcpError {
            code: Some(refusal.code),
            hint,
            ..self.transport.error(kind, operation, reason)
        }
    }
}

/// Whether `id` is acceptable as a session id.
pub(super) fn is_valid_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= LONGEST_ID && !id.contains(char::is_control)
}
