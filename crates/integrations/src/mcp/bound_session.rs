//! The session that the MCP server is bound to, and the agent that uses it.

use std::sync::Arc;

use segno_core::error::{Diagnose, Diagnosis};
use segno_core::id::SessionId;
use segno_core::lease::{Liveness, Owner};
use segno_core::note::Source;
use segno_core::sanitize::sanitize_lines;
use segno_core::step::Path;
use segno_core::store::Summary;
use segno_engine::Env;
use segno_secrets::redact::Redactor;
use segno_sessions as sessions;
use segno_sessions::agent_state;
use segno_sessions::notes::Author;
use tokio::sync::{Mutex, OnceCell};

use super::{Error, Opener};

/// Maximum size of a process environment that is read, in bytes.
const MAX_BYTES: u64 = 4 << 20;

/// One session, for one agent. The session is chosen on first use and never changes.
pub struct BoundSession {
    opener: Box<dyn Opener>,
    reference: Option<String>,
    path: Option<Path>,
    agent: String,
    open: OnceCell<(Env, SessionId)>,
    /// Keeps notes in the order in which they arrived.
    pub(super) write_order: Mutex<()>,
}

impl BoundSession {
    /// Opens nothing: the session is opened on first use.
    pub fn new(
        opener: Box<dyn Opener>,
        reference: Option<String>,
        path: Option<Path>,
        agent: String,
    ) -> Self {
        Self {
            opener,
            reference,
            path,
            agent,
            open: OnceCell::new(),
            write_order: Mutex::new(()),
        }
    }

    /// Returns the current state of the session. If it could not be opened, the next call tries
    /// again.
    pub(super) async fn session(&self) -> Result<(&Env, Summary), Error> {
        let (env, session) = self.open.get_or_try_init(|| self.open()).await?;
        let summary = env.store.summary(*session).await;
        Ok((env, summary?))
    }

    async fn open(&self) -> Result<(Env, SessionId), Error> {
        let env = self.opener.open()?;
        let session = self.find(&env).await?.id;
        let lease = env.store.lease(session).await;
        let owner = lease?.owner;
        let owner_variables = owner.map_or_else(Vec::new, |owner| owner_environment(&env, &owner));
        // Some CLI agents do not pass their environment on. The secrets in the owner's environment
        // must be known to be redacted (P12).
        let own_variables = self.opener.variables().into_iter();
        let redactor = Arc::new(Redactor::new(own_variables.chain(owner_variables)));
        Ok((Env { redactor, ..env }, session))
    }

    async fn find(&self, env: &Env) -> Result<Summary, Error> {
        if let Some(reference) = &self.reference {
            return Ok(sessions::find(env, reference).await?);
        }
        let folder = self.opener.folder()?;
        let newest = sessions::newest_in(env, &folder).await?;
        newest.ok_or(Error::NoSession { folder })
    }

    pub(super) fn author(&self) -> Author {
        Author {
            source: Source::Agent,
            by: self.agent.clone(),
            path: self.path.clone(),
        }
    }

    /// The agent whose state the tools read and change: the one that the server was started for. A
    /// server that was set up by hand does not know its name in the session, but often there is only
    /// one.
    pub(super) async fn state_owner(&self, env: &Env, summary: &Summary) -> Result<String, Error> {
        let named = agent_state::find_agent(env, summary, Some(&self.agent)).await;
        match named {
            Err(unknown @ agent_state::Error::UnknownAgent { .. }) => {
                let only = agent_state::find_agent(env, summary, None).await;
                Ok(only.map_err(|_| unknown)?)
            }
            other => Ok(other?),
        }
    }

    /// Names the agent in messages for users.
    pub(super) fn agent_label(&self) -> String {
        format!("agent {}", self.agent)
    }

    /// Renders an error for the agent, redacted.
    pub(super) fn error_text(&self, error: &Error) -> String {
        let Diagnosis { code, hint, .. } = error.diagnosis();
        let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        let text = format!("{error} [{code}]{hint}");
        sanitize_lines(&self.opener.redactor().redact(&text))
    }
}

/// The environment of the process that runs the session, if it runs on this machine.
fn owner_environment(env: &Env, owner: &Owner) -> Vec<(String, String)> {
    if env.processes.liveness(owner) != Liveness::Running {
        return Vec::new();
    }
    let path = format!("/proc/{}/environ", owner.pid);
    let bytes = env.disk.read(path.as_ref(), MAX_BYTES).unwrap_or_default();
    let pairs = bytes.split(|byte| *byte == 0);
    let pair = |pair: &[u8]| {
        let (name, value) = std::str::from_utf8(pair).ok()?.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    pairs.filter_map(pair).collect()
}
