//! One agent, from its start to its end.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use segno_core::agent::ErrorKind;
use serde_json::{Value, json};

use super::Means;
use super::error::{AcpError, Trouble};
use super::leave::{self, Known, Policy};
use super::link::Link;
use super::rpc::{self, Message, Refusal};
use super::turn::{Replay, Turn};
use super::update::{Status, Tool, Update};
use crate::mcp::words::clean;

/// The version of the protocol that this speaks.
const VERSION: u64 = 1;

/// The longest name of a session, which an agent chooses.
const LONGEST_ID: usize = 1 << 10;

/// Of how many tools is remembered what they do: some ask for leave without saying it again.
const MOST_TOOLS: usize = 10_000;

/// How much of an agent's complaint is told.
const COMPLAINT: usize = 4 << 10;

const LOG_IN: &str = "log in with the agent's own program first, or set the key that it wants";

/// An agent that is spoken to. When this is dropped, it ends with all that it started.
pub struct Connection {
    pub(super) link: Link,
    pub(super) means: Means,
    agent: Option<Agent>,
    asked: u64,
    /// The question that has no answer yet.
    open: Option<u64>,
    /// The folders of sessions.
    folders: HashMap<String, PathBuf>,
    /// The MCP servers that its sessions are given.
    servers: Vec<Value>,
    tools: HashMap<String, Known>,
    /// Whether the turn under way was given up.
    pub(super) cancelled: bool,
}

/// Who an agent says it is, and what it can.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// Its name.
    pub name: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// Whether it can bring sessions back.
    pub load_session: bool,
    /// All of it, as it came.
    pub value: Value,
}

/// A session of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// Its name.
    pub id: String,
    /// What the agent says of it, modes and models among it, as it came.
    pub value: Value,
}

/// What one message was.
pub(super) enum Step {
    Answer(Result<Value, Refusal>),
    Update(Update),
    Nothing,
}

impl Connection {
    /// Starts a program in this folder, with what is added to its environment.
    pub async fn open(
        argv: &[String],
        env: &[(String, String)],
        cwd: &Path,
        means: Means,
    ) -> Result<Self, AcpError> {
        let link = Link::open(argv, env, cwd, &means.warden, means.clock.clone()).await?;
        Ok(Self {
            link,
            means,
            agent: None,
            asked: 0,
            open: None,
            folders: HashMap::new(),
            servers: Vec::new(),
            tools: HashMap::new(),
            cancelled: false,
        })
    }

    /// Says hello. To be done first, and once.
    pub async fn initialize(&mut self) -> Result<&Agent, AcpError> {
        let tried = "saying hello";
        let params = json!({
            "protocolVersion": VERSION,
            "clientCapabilities": {"fs": self.means.files.offer(), "terminal": false},
            "clientInfo": {"name": "segno", "version": env!("CARGO_PKG_VERSION")},
        });
        let value = self.ask(tried, "initialize", &params).await?;
        if value["protocolVersion"] != VERSION {
            let theirs = clean(&value["protocolVersion"].to_string(), 64);
            let reason = format!("it speaks version {theirs} of ACP, and Segno speaks {VERSION}");
            return Err(self.link.fail(tried, Trouble::Broken(reason)).await);
        }
        let word = |key: &str| {
            value["agentInfo"][key]
                .as_str()
                .map(|text| clean(text, 256))
        };
        Ok(self.agent.insert(Agent {
            name: word("name"),
            version: word("version"),
            load_session: value["agentCapabilities"]["loadSession"] == true,
            value: value.clone(),
        }))
    }

    /// Gives these MCP servers to every session that is begun or brought back from here on.
    pub fn offer(&mut self, servers: Vec<Value>) {
        self.servers = servers;
    }

    /// Begins a session in this folder. What the agent reports before it has answered is not
    /// passed on.
    pub async fn new_session(&mut self, cwd: &Path) -> Result<Session, AcpError> {
        let tried = "beginning a session";
        self.greeted(tried)?;
        let params = self.place(tried, cwd)?;
        let value = self.ask(tried, "session/new", &params).await?;
        let id = value["sessionId"].as_str().filter(|id| is_name(id));
        let Some(id) = id.map(str::to_owned) else {
            let reason = "it did not say which session".to_owned();
            return Err(self.link.fail(tried, Trouble::Broken(reason)).await);
        };
        self.folders.insert(id.clone(), cwd.to_owned());
        Ok(Session { id, value })
    }

    /// Whether it said that it can bring sessions back.
    pub fn can_load(&self) -> bool {
        self.agent.as_ref().is_some_and(|agent| agent.load_session)
    }

    /// Brings a session back. What it consists of is replayed, and is not new.
    pub fn load_session(&mut self, id: &str, cwd: &Path) -> Result<Replay<'_>, AcpError> {
        let tried = Replay::TRIED;
        if !self.greeted(tried)?.load_session {
            let reason = "it cannot bring sessions back";
            return Err(self.link.error(ErrorKind::Invalid, tried, reason));
        }
        let mut params = self.place(tried, cwd)?;
        params["sessionId"] = id.into();
        let question = self.begin(tried, "session/load", &params)?;
        self.folders.insert(id.to_owned(), cwd.to_owned());
        Ok(Replay::new(self, question, id))
    }

    /// Asks something in a session that was begun or brought back here.
    pub fn prompt(&mut self, session: &str, text: &str) -> Result<Turn<'_>, AcpError> {
        let tried = Turn::TRIED;
        self.greeted(tried)?;
        if !self.folders.contains_key(session) {
            let reason = "that session was neither begun nor brought back";
            return Err(self.link.error(ErrorKind::Invalid, tried, reason));
        }
        let prompt = json!([{"type": "text", "text": text}]);
        let params = json!({"sessionId": session, "prompt": prompt});
        let question = self.begin(tried, "session/prompt", &params)?;
        self.cancelled = false;
        Ok(Turn::new(self, question, session))
    }

    /// Ends the agent, and returns when it has ended with all that it started.
    pub async fn close(self) {
        self.link.close().await;
    }

    fn greeted(&self, tried: &str) -> Result<&Agent, AcpError> {
        self.link.is_over()?;
        let agent = self.agent.as_ref();
        agent.ok_or_else(|| {
            let reason = "nobody has said hello";
            self.link.error(ErrorKind::Invalid, tried, reason)
        })
    }

    fn place(&self, tried: &str, cwd: &Path) -> Result<Value, AcpError> {
        let text = cwd.to_str().filter(|_| cwd.is_absolute());
        let text = text.ok_or_else(|| {
            let reason = format!("{} is not an absolute path of text", cwd.display());
            self.link.error(ErrorKind::Invalid, tried, reason)
        })?;
        Ok(json!({"cwd": text, "mcpServers": self.servers}))
    }

    /// Asks a question that has no answer yet.
    fn begin(&mut self, tried: &str, method: &str, params: &Value) -> Result<u64, AcpError> {
        self.link.is_over()?;
        let error = |link: &Link, reason: &str| link.error(ErrorKind::Invalid, tried, reason);
        if self.open.is_some() {
            let reason = "what was asked before was not heard to its end";
            return Err(error(&self.link, reason));
        }
        self.asked += 1;
        let said = self.link.say(&rpc::request(self.asked, method, params));
        said.map_err(|_| error(&self.link, "it does not read what it is told"))?;
        self.open = Some(self.asked);
        Ok(self.asked)
    }

    /// Asks, and waits for the answer.
    async fn ask(&mut self, tried: &str, method: &str, params: &Value) -> Result<Value, AcpError> {
        let question = self.begin(tried, method, params)?;
        let limit = self.means.limits.answer;
        let until = self.link.elapsed() + limit;
        loop {
            match self.step(question, "", until, limit).await {
                Ok(Step::Answer(outcome)) => {
                    return outcome.map_err(|refusal| self.refused(tried, &refusal));
                }
                Ok(Step::Update(_) | Step::Nothing) => {}
                Err(trouble) => return Err(self.link.fail(tried, trouble).await),
            }
        }
    }

    /// Hears one message while a question about a session is open. Giving up waiting loses nothing.
    pub(super) async fn step(
        &mut self,
        question: u64,
        session: &str,
        until: Duration,
        limit: Duration,
    ) -> Result<Step, Trouble> {
        match self.link.next(until, limit).await? {
            Message::Answer { id, outcome } if id == question && self.open == Some(question) => {
                self.link.heard();
                self.open = None;
                Ok(Step::Answer(outcome))
            }
            Message::Answer { id, .. } => {
                self.link.stray(&id)?;
                Ok(Step::Nothing)
            }
            Message::Notice { method, params } => {
                self.link.heard();
                Ok(Step::Update(self.told(&method, params, session)))
            }
            Message::Request { id, method, params } => {
                self.link.heard();
                let (outcome, update) = self.serve(&method, &params);
                self.link.say(&rpc::answer(&id, outcome))?;
                Ok(update.map_or(Step::Nothing, Step::Update))
            }
        }
    }

    fn told(&mut self, method: &str, params: Value, session: &str) -> Update {
        if method != "session/update" {
            return Update::Raw {
                kind: method.to_owned(),
                value: params,
            };
        }
        if params["sessionId"] != session {
            return Update::Foreign {
                session: params["sessionId"].as_str().map(str::to_owned),
                value: params,
            };
        }
        let update = Update::read(&params["update"]);
        if let Update::ToolStarted(tool) | Update::ToolChanged(tool) = &update {
            self.remember(tool);
        }
        update
    }

    fn remember(&mut self, tool: &Tool) {
        if matches!(tool.status, Some(Status::Completed | Status::Failed)) {
            self.tools.remove(&tool.id);
        } else if let Some(known) = self.tools.get_mut(&tool.id) {
            known.update(tool);
        } else if self.tools.len() < MOST_TOOLS && tool.id.len() <= LONGEST_ID {
            let mut known = Known::default();
            known.update(tool);
            self.tools.insert(tool.id.clone(), known);
        }
    }

    /// Answers what the agent asks.
    fn serve(
        &mut self,
        method: &str,
        params: &Value,
    ) -> (Result<Value, (i64, String)>, Option<Update>) {
        let session = params["sessionId"].as_str();
        let folder = session.and_then(|session| self.folders.get(session));
        if method == "session/request_permission" {
            let (Some(tool), Some(folder)) = (Tool::read(&params["toolCall"]), folder) else {
                let why = "a session and a tool call are needed".to_owned();
                return (Err((rpc::WRONG_PARAMS, why)), None);
            };
            let mut known = self.tools.get(&tool.id).cloned().unwrap_or_default();
            known.update(&tool);
            let (answer, granted) = if self.cancelled {
                (leave::cancelled(), false)
            } else {
                // What the session was given to be used may be used.
                let mut given = self
                    .servers
                    .iter()
                    .filter_map(|server| server["name"].as_str());
                let policy = if given.any(|server| known.is_of(server)) {
                    Policy::All
                } else {
                    self.means.policy
                };
                policy.answer(&known, folder, &params["options"])
            };
            return (Ok(answer), Some(Update::Leave { tool, granted }));
        }
        let folder = folder.map(PathBuf::as_path);
        let Some((outcome, update)) = self.means.files.serve(method, params, folder) else {
            let why = "there is no such method".to_owned();
            return (Err((rpc::NO_SUCH_METHOD, why)), None);
        };
        let outcome = outcome.map_err(|why| (rpc::WRONG_PARAMS, why));
        (outcome, Some(update))
    }

    /// A session that did not come back cannot be asked.
    pub(super) fn forget(&mut self, session: &str, refusal: &Refusal) -> AcpError {
        self.folders.remove(session);
        self.refused(Replay::TRIED, refusal)
    }

    /// The error for a refusal in so many words.
    pub(super) fn refused(&self, tried: &str, refusal: &Refusal) -> AcpError {
        let (kind, hint) = match refusal.code {
            -32000 => (ErrorKind::Auth, Some(LOG_IN)),
            -32002 => (ErrorKind::NotFound, None),
            -32603 => (ErrorKind::Server, None),
            _ => (ErrorKind::Invalid, None),
        };
        let details = &refusal.data["details"];
        let told = match details.as_str() {
            Some(details) => format!("{}: {details}", refusal.message),
            None => refusal.message.clone(),
        };
        let reason = format!("it refused: {} ({})", clean(&told, COMPLAINT), refusal.code);
        AcpError {
            code: Some(refusal.code),
            hint,
            ..self.link.error(kind, tried, reason)
        }
    }
}

/// Whether a session can be called that.
pub(super) fn is_name(id: &str) -> bool {
    !id.is_empty() && id.len() <= LONGEST_ID && !id.contains(char::is_control)
}
