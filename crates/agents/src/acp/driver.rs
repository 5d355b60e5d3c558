//! The driver for any agent that speaks the Agent Client Protocol.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use segno_core::agent::{
    AccessMode, Answer, Error, ErrorKind, Event as AgentEvent, Listener, Request,
};
use segno_core::cli_agent::{
    CliAgent, CliAgentKind, ConversationMode, Examination, Health, Holder, KnownItems,
    TranscriptFiles, TranscriptState,
};
use segno_core::conversation::MISSING_ITEMS;
use segno_core::ports::{Boxed, Clock};
use segno_core::usage::Cost;

use super::connection::Connection;
use super::error::AcpError;
use super::fold::{Fold, dollars};
use super::turn::{Event, Replayed};
use super::update::{Status, Update};
use super::{ConnectionConfig, Files, Limits};
use crate::command::output::escape_controls;
use crate::command::{AgentEnvironment, Launch};
use crate::holders;
use crate::program::{
    Permissions, home_folder, kind_of_message, kind_of_refusal, refusal_reason, variables,
};
use crate::reset::with_retry_delay;
use crate::service::SegnoMcpServer;

/// How long an agent may be silent while it works: practically unlimited, since the engine enforces
/// the timeout by dropping the future.
const SILENCE: Duration = Duration::from_hours(365 * 24);

/// The protocol's code for a resource that does not exist.
const RESOURCE_NOT_FOUND: i64 = -32002;

/// How many of the newest calls and results are known by id.
const MAX_IDS: usize = 4096;
/// How many messages are known that quote what a session lacked.
const MAX_ANNOUNCED: usize = 16;

/// Talks to one agent, in a process of its own for each request.
///
/// Segno does not read the agent's own session storage. What the agent has of a session shows when
/// it loads the session.
pub struct Acp {
    argv: Vec<String>,
    permissions: Permissions,
    guard: Launch,
    service: Option<SegnoMcpServer>,
    environment: AgentEnvironment,
    clock: Arc<dyn Clock>,
}

impl Acp {
    pub fn new(
        argv: Vec<String>,
        permissions: Permissions,
        guard: Launch,
        service: Option<SegnoMcpServer>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            argv,
            permissions,
            guard,
            service,
            environment: AgentEnvironment::whole(),
            clock,
        }
    }

    /// Restricts the environment that the program gets.
    #[must_use]
    pub fn with_environment(self, environment: AgentEnvironment) -> Self {
        Self {
            environment,
            ..self
        }
    }

    /// The program's name, safe to show.
    fn name(&self) -> String {
        escape_controls(self.argv.first().map_or("", String::as_str))
    }

    async fn open(
        &self,
        env: &[(String, String)],
        pass_env: &[String],
        folder: &Path,
        access: AccessMode,
    ) -> Result<Connection, Error> {
        let config = ConnectionConfig {
            guard: self.guard.clone(),
            environment: self.environment.clone(),
            pass_env: pass_env.to_vec(),
            clock: Arc::clone(&self.clock),
            limits: Limits {
                silence: SILENCE,
                ..Limits::default()
            },
            policy: self.permissions.restricted_to(access).into(),
            files: Files::Closed,
        };
        Ok(Connection::open(&self.argv, env, folder, config).await?)
    }

    async fn answer(
        &self,
        request: Request<'_>,
        way: ConversationMode<'_>,
        listener: &dyn Listener,
    ) -> Result<Answer, Error> {
        let env = variables(&request).map(|(name, value)| (name.to_owned(), value));
        let mut connection = self
            .open(&env, request.pass_env, request.workspace, request.access)
            .await?;
        let answered = self
            .run_prompt(&mut connection, request, way, listener)
            .await;
        // The answer counts only when the agent's whole process tree has ended.
        connection.close().await;
        answered.map_err(|error| with_retry_delay(error, &*self.clock))
    }

    async fn run_prompt(
        &self,
        connection: &mut Connection,
        request: Request<'_>,
        way: ConversationMode<'_>,
        listener: &dyn Listener,
    ) -> Result<Answer, Error> {
        connection.initialize().await?;
        let service = self.service.iter();
        let service = service.filter(|_| request.access != AccessMode::InputOnly);
        connection.set_mcp_servers(service.map(|service| service.acp(&request)).collect());
        let (id, before) = match way {
            ConversationMode::Start { .. } => {
                let session = connection.new_session(request.workspace).await?;
                (session.id, Cost::default())
            }
            ConversationMode::Resume { id } => {
                let loaded = load_session(connection, id, request.workspace).await?;
                (id.to_owned(), loaded.cost)
            }
        };
        listener.on_event(AgentEvent::ConversationId(&id));
        let system = request.system.trim();
        let prompt = match way {
            ConversationMode::Start { .. } if !system.is_empty() => {
                format!("{system}\n\n{}", request.input)
            }
            _ => request.input.to_owned(),
        };
        let name = self.name();
        let mut fold = Fold::new(&name, before, refusal_reason(request.access), listener);
        let mut turn = connection.prompt(&id, &prompt)?;
        loop {
            listener.ready().await;
            match turn.next().await {
                Ok(Event::Update(update)) => fold.handle(update)?,
                Ok(Event::End(outcome)) => return fold.finish(&outcome),
                Err(error) => {
                    fold.end();
                    return Err(error.into());
                }
            }
        }
    }

    /// Loads a session to find out what the agent has of it. Sends no prompt.
    async fn inspect(&self, id: &str, folder: &Path) -> Result<Option<TranscriptState>, Error> {
        let mut connection = self.open(&[], &[], folder, AccessMode::ReadOnly).await?;
        let loaded = match connection.initialize().await {
            Ok(_) => load_session(&mut connection, id, folder).await,
            Err(error) => Err(error.into()),
        };
        connection.close().await;
        match loaded {
            Ok(loaded) => Ok(Some(TranscriptState {
                // The protocol does not report the length.
                bytes: 0,
                health: if loaded.has_content {
                    Health::Intact
                } else {
                    Health::Empty
                },
                unanswered: None,
                known: Some(KnownItems::Ids(loaded.call_ids.into())),
                announced: loaded.announced,
                message_usage: Vec::new(),
                total_usage: None,
            })),
            Err(error) if error.kind == ErrorKind::NoConversation => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A session that was loaded.
#[derive(Default)]
struct LoadedSession {
    /// Whether it contains any message of its user, or a call. A text alone may be a notice of the
    /// program, such as a warning about its settings.
    has_content: bool,
    /// The ids of its newest calls; an id occurs twice if the call has ended.
    call_ids: VecDeque<String>,
    /// The messages that quote what the session lacked before.
    announced: Vec<String>,
    /// What it had cost until then.
    cost: Cost,
}

impl LoadedSession {
    fn observe(&mut self, update: &Update) {
        match update {
            Update::Context {
                cost: Some(cost), ..
            } => self.cost = dollars(cost).unwrap_or(self.cost),
            Update::UserMessage(chunk) => {
                self.has_content = true;
                if chunk.text.contains(MISSING_ITEMS) && self.announced.len() < MAX_ANNOUNCED {
                    self.announced.push(chunk.text.clone());
                }
            }
            Update::ToolStarted(tool) | Update::ToolChanged(tool) => {
                self.has_content = true;
                let over = matches!(tool.status, Some(Status::Completed | Status::Failed));
                self.add_id(&tool.id, if over { 2 } else { 1 });
            }
            _ => {}
        }
    }

    /// Adds an id until it occurs `times` times.
    fn add_id(&mut self, id: &str, times: usize) {
        let there = self.call_ids.iter().filter(|known| *known == id).count();
        for _ in there..times {
            self.call_ids.push_back(id.to_owned());
        }
        while self.call_ids.len() > MAX_IDS {
            self.call_ids.pop_front();
        }
    }
}

/// Loads a session. The replayed updates are not new.
async fn load_session(
    connection: &mut Connection,
    id: &str,
    folder: &Path,
) -> Result<LoadedSession, Error> {
    if !connection.can_load() {
        let message = "the agent does not support `session/load`";
        return Err(Error::new(ErrorKind::NoConversation, message));
    }
    let mut loaded = LoadedSession::default();
    let mut replay = connection.load_session(id, folder)?;
    loop {
        match replay.next().await {
            Ok(Replayed::Update(update)) => loaded.observe(&update),
            Ok(Replayed::Done(_)) => return Ok(loaded),
            Err(error) => return Err(refusal(error)),
        }
    }
}

/// The error of an agent that does not load a session. Most agents report only text that says whether
/// the session is the reason.
fn refusal(error: AcpError) -> Error {
    let kind = match error.code {
        Some(RESOURCE_NOT_FOUND) => Some(ErrorKind::NoConversation),
        Some(_) => kind_of_refusal(&error.reason),
        None => None,
    };
    let error = Error::from(error);
    Error {
        kind: kind.unwrap_or(error.kind),
        ..error
    }
}

impl From<AcpError> for Error {
    fn from(error: AcpError) -> Self {
        if let (ErrorKind::NoProgram, Some(hint)) = (error.kind, error.hint) {
            return Error::new(error.kind, error.reason).with_hint(hint);
        }
        // The error of the model's provider is only in the text.
        let kind = match error.code {
            Some(-32603) => kind_of_message(&error.reason).unwrap_or(error.kind),
            _ => error.kind,
        };
        let message = match error.hint() {
            Some(hint) => format!("{error}; {hint}"),
            None => error.to_string(),
        };
        Error::new(kind, message)
    }
}

impl CliAgent for Acp {
    fn kind(&self) -> CliAgentKind {
        CliAgentKind::Acp
    }

    fn accepts_id(&self) -> bool {
        false
    }

    fn has_system_prompt(&self) -> bool {
        false
    }

    fn ask<'a>(
        &'a self,
        request: Request<'a>,
        way: ConversationMode<'a>,
        listener: &'a dyn Listener,
    ) -> Boxed<'a, Result<Answer, Error>> {
        Box::pin(self.answer(request, way, listener))
    }

    fn transcript_state<'a>(
        &'a self,
        id: &'a str,
        folder: &'a Path,
        examination: Examination,
    ) -> Boxed<'a, Result<Option<TranscriptState>, Error>> {
        match examination {
            Examination::StartProgram => Box::pin(self.inspect(id, folder)),
            Examination::FilesOnly => Box::pin(std::future::ready(Ok(Some(TranscriptState {
                bytes: 0,
                health: Health::Unexamined,
                unanswered: None,
                known: None,
                announced: Vec::new(),
                message_usage: Vec::new(),
                total_usage: None,
            })))),
        }
    }

    fn holders<'a>(&'a self, id: &'a str, _: Option<&'a Path>) -> Boxed<'a, Vec<Holder>> {
        // The agent may be an adapter of Claude Code, which registers itself.
        let register = home_folder(CliAgentKind::ClaudeCode, |name| std::env::var_os(name));
        Box::pin(holders::find(register.into_iter().collect(), id))
    }

    fn finds_moved_transcripts(&self) -> bool {
        true
    }

    fn home(&self) -> Option<&Path> {
        None
    }

    fn transcript_files(&self) -> Option<&dyn TranscriptFiles> {
        None
    }
}
