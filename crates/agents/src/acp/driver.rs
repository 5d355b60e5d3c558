//! Asking any agent that speaks the Agent Client Protocol.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use segno_core::agent::{Answer, Conduct, Error, ErrorKind, Event as Told, Listener, Request};
use segno_core::companion::{Companion, Health, Program, Record, Records, Way};
use segno_core::ports::{Boxed, Clock};
use segno_core::usage::Cost;

use super::connection::Connection;
use super::error::AcpError;
use super::fold::{Fold, dollars};
use super::turn::{Event, Replayed};
use super::update::{Status, Update};
use super::{Files, Limits, Means};
use crate::command::output::harmless;
use crate::program::{Permissions, kind_of_words, variables};
use crate::reset::timed;
use crate::{Launch, Service};

/// How long an agent may be silent while it works: how long it may take is the engine's to say, which
/// drops the future.
const SILENCE: Duration = Duration::from_hours(365 * 24);

/// How many of the newest calls and answers are known by name.
const NAMED: usize = 4096;

/// Speaks to one agent, in a process of its own for each question.
///
/// What it keeps of its sessions is its own affair. What it has of one shows when it is asked to bring
/// it back.
pub struct Acp {
    argv: Vec<String>,
    permissions: Permissions,
    warden: Launch,
    service: Option<Service>,
    clock: Arc<dyn Clock>,
}

impl Acp {
    /// The one that `argv` starts.
    pub fn new(
        argv: Vec<String>,
        permissions: Permissions,
        warden: Launch,
        service: Option<Service>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            argv,
            permissions,
            warden,
            service,
            clock,
        }
    }

    /// The program's name, fit to be shown.
    fn name(&self) -> String {
        harmless(self.argv.first().map_or("", String::as_str))
    }

    async fn open(
        &self,
        env: &[(String, String)],
        folder: &Path,
        conduct: Conduct,
    ) -> Result<Connection, Error> {
        let means = Means {
            warden: self.warden.clone(),
            clock: Arc::clone(&self.clock),
            limits: Limits {
                silence: SILENCE,
                ..Limits::default()
            },
            policy: self.permissions.under(conduct).into(),
            files: Files::Closed,
        };
        Ok(Connection::open(&self.argv, env, folder, means).await?)
    }

    async fn answer(
        &self,
        request: Request<'_>,
        way: Way<'_>,
        listener: &dyn Listener,
    ) -> Result<Answer, Error> {
        let named = variables(&request).map(|(name, value)| (name.to_owned(), value));
        let mut connection = self
            .open(&named, request.workspace, request.conduct)
            .await?;
        let answered = self.converse(&mut connection, request, way, listener).await;
        // Its answer counts when everything that it started has ended.
        connection.close().await;
        answered.map_err(|error| timed(error, &*self.clock))
    }

    async fn converse(
        &self,
        connection: &mut Connection,
        request: Request<'_>,
        way: Way<'_>,
        listener: &dyn Listener,
    ) -> Result<Answer, Error> {
        connection.initialize().await?;
        let service = self.service.iter();
        connection.offer(service.map(|service| service.acp(&request)).collect());
        let (id, before) = match way {
            Way::Begin { .. } => {
                let session = connection.new_session(request.workspace).await?;
                (session.id, Cost::default())
            }
            Way::Continue { id } => {
                let back = bring_back(connection, id, request.workspace).await?;
                (id.to_owned(), back.cost)
            }
        };
        listener.hear(Told::Native(&id));
        let system = request.system.trim();
        let asked = match way {
            Way::Begin { .. } if !system.is_empty() => format!("{system}\n\n{}", request.input),
            _ => request.input.to_owned(),
        };
        let name = self.name();
        let mut fold = Fold::new(&name, before, listener);
        let mut turn = connection.prompt(&id, &asked)?;
        loop {
            match turn.next().await {
                Ok(Event::Update(update)) => fold.take(update)?,
                Ok(Event::End(outcome)) => return fold.finish(&outcome),
                Err(error) => {
                    fold.end();
                    return Err(error.into());
                }
            }
        }
    }

    /// What the agent has of a session, as it brings it back. Nothing is asked.
    async fn look(&self, id: &str, folder: &Path) -> Result<Option<Record>, Error> {
        let mut connection = self.open(&[], folder, Conduct::Look).await?;
        let back = match connection.initialize().await {
            Ok(_) => bring_back(&mut connection, id, folder).await,
            Err(error) => Err(error.into()),
        };
        connection.close().await;
        match back {
            Ok(back) => Ok(Some(Record {
                // How long it is nobody tells.
                bytes: 0,
                health: if back.said {
                    Health::Whole
                } else {
                    Health::Empty
                },
                unanswered: None,
                named: Some(back.named.into()),
            })),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A session that came back.
#[derive(Default)]
struct Back {
    /// Whether anything was said in it.
    said: bool,
    /// The names of the newest calls in it, those that are over twice.
    named: VecDeque<String>,
    /// What it had cost by then.
    cost: Cost,
}

impl Back {
    fn take(&mut self, update: &Update) {
        match update {
            Update::Context {
                cost: Some(cost), ..
            } => self.cost = dollars(cost).unwrap_or(self.cost),
            Update::Text(_) | Update::Thought(_) | Update::Said(_) => self.said = true,
            Update::ToolStarted(tool) | Update::ToolChanged(tool) => {
                self.said = true;
                let over = matches!(tool.status, Some(Status::Completed | Status::Failed));
                self.name(&tool.id, if over { 2 } else { 1 });
            }
            _ => {}
        }
    }

    /// Adds a name until it is there so often.
    fn name(&mut self, id: &str, times: usize) {
        let there = self.named.iter().filter(|known| *known == id).count();
        for _ in there..times {
            self.named.push_back(id.to_owned());
        }
        while self.named.len() > NAMED {
            self.named.pop_front();
        }
    }
}

/// Brings a session back. What is replayed is not new.
async fn bring_back(connection: &mut Connection, id: &str, folder: &Path) -> Result<Back, Error> {
    if !connection.can_load() {
        let message = "the agent cannot bring sessions back";
        return Err(Error::new(ErrorKind::NotFound, message));
    }
    let mut back = Back::default();
    let mut replay = connection.load_session(id, folder)?;
    loop {
        match replay.next().await {
            Ok(Replayed::Update(update)) => back.take(&update),
            Ok(Replayed::Done(_)) => return Ok(back),
            // Whatever its reason is: a session that it does not bring back is none.
            Err(error) if error.code.is_some() && error.kind != ErrorKind::Auth => {
                return Err(Error::new(ErrorKind::NotFound, error.to_string()));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

impl From<AcpError> for Error {
    fn from(error: AcpError) -> Self {
        // What its model's provider said is told in words alone.
        let kind = match error.code {
            Some(-32603) => kind_of_words(&error.reason).unwrap_or(error.kind),
            _ => error.kind,
        };
        let message = match error.hint() {
            Some(hint) => format!("{error}; {hint}"),
            None => error.to_string(),
        };
        Error::new(kind, message)
    }
}

impl Companion for Acp {
    fn program(&self) -> Program {
        Program::Acp
    }

    fn lets_choose(&self) -> bool {
        false
    }

    fn ask<'a>(
        &'a self,
        request: Request<'a>,
        way: Way<'a>,
        listener: &'a dyn Listener,
    ) -> Boxed<'a, Result<Answer, Error>> {
        Box::pin(self.answer(request, way, listener))
    }

    fn record<'a>(
        &'a self,
        id: &'a str,
        folder: &'a Path,
    ) -> Boxed<'a, Result<Option<Record>, Error>> {
        Box::pin(self.look(id, folder))
    }

    fn records(&self) -> Option<&dyn Records> {
        None
    }
}
