//! The session that the server is about, and whoever speaks to it.

use std::sync::Arc;

use segno_core::id::SessionId;
use segno_core::lease::{Liveness, Owner};
use segno_core::memo::Source;
use segno_core::redact::Redactor;
use segno_core::session::Summary;
use segno_core::step::Path;
use segno_engine::memos::Author;
use segno_engine::{World, sessions};
use tokio::sync::{Mutex, OnceCell};

use crate::context::{Context, Keep, own_environment, workspace};
use crate::failure::Failure;

/// The longest environment of a process that is read.
const LONGEST: u64 = 4 << 20;

/// One session, for one agent. Which session it is stays the same from the first use on.
pub(crate) struct Desk {
    context: Context,
    reference: Option<String>,
    path: Option<Path>,
    agent: String,
    open: OnceCell<(World, SessionId)>,
    /// Memos are written in the order in which they came.
    pub(super) order: Mutex<()>,
}

impl Desk {
    /// Nothing is opened yet.
    pub(crate) fn new(
        context: Context,
        reference: Option<String>,
        path: Option<Path>,
        agent: String,
    ) -> Self {
        Self {
            context,
            reference,
            path,
            agent,
            open: OnceCell::new(),
            order: Mutex::new(()),
        }
    }

    /// The session as it is now. What could not be opened is tried again with the next call.
    pub(super) async fn session(&self) -> Result<(&World, Summary), Failure> {
        let (world, session) = self.open.get_or_try_init(|| self.open()).await?;
        let summary = world.store.summary(*session).await;
        Ok((world, summary.map_err(segno_engine::Error::from)?))
    }

    async fn open(&self) -> Result<(World, SessionId), Failure> {
        let (world, _) = self.context.world(Keep::Home)?;
        let session = self.find(&world).await?.id;
        let lease = world.store.lease(session).await;
        let owner = lease.map_err(segno_engine::Error::from)?.owner;
        let theirs = owner.map_or_else(Vec::new, |owner| environment(&world, &owner));
        // Some programs hand nothing of their environment on, and what is secret in it must be known to
        // be hidden (P12).
        let redactor = Arc::new(Redactor::new(own_environment().chain(theirs)));
        Ok((World { redactor, ..world }, session))
    }

    async fn find(&self, world: &World) -> Result<Summary, Failure> {
        if let Some(reference) = &self.reference {
            return Ok(sessions::find(world, reference).await?);
        }
        let folder = workspace()?;
        let newest = sessions::newest_in(world, &folder).await?;
        newest.ok_or_else(|| {
            let message = format!("no session works in {}", folder.display());
            let hint =
                "the server can be started with `--session`; `segno sessions list` shows all";
            Failure::usage(message, Some(hint.to_owned()))
        })
    }

    /// Who writes.
    pub(super) fn author(&self) -> Author {
        Author {
            source: Source::Agent,
            by: self.agent.clone(),
            path: self.path.clone(),
        }
    }

    /// Who asks, for people.
    pub(super) fn asker(&self) -> String {
        format!("agent {}", self.agent)
    }

    /// An error, fit to be told.
    pub(super) fn told(&self, failure: &Failure) -> String {
        failure.told(&self.context.redactor)
    }
}

/// What is in the environment of whoever runs the session, if that is a process of this machine.
fn environment(world: &World, owner: &Owner) -> Vec<(String, String)> {
    if world.processes.liveness(owner) != Liveness::Running {
        return Vec::new();
    }
    let path = format!("/proc/{}/environ", owner.pid);
    let bytes = world.disk.read(path.as_ref(), LONGEST).unwrap_or_default();
    let pairs = bytes.split(|byte| *byte == 0);
    let pair = |pair: &[u8]| {
        let (name, value) = std::str::from_utf8(pair).ok()?.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    pairs.filter_map(pair).collect()
}
