//! The processes that a worker started, each of which runs one session.
//!
//! A run is a process of its own: it survives the worker, and a fault in it concerns one session.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use segno_core::id::SessionId;
use tokio::process::Child;
use tokio::task::JoinSet;

/// Starts the process that runs a session as it was requested.
pub trait Launch: Send + Sync {
    /// The process is independent of this one: it ignores its terminal, and lives on when this
    /// process ends.
    fn launch(&self, session: SessionId) -> io::Result<Child>;
}

/// The runs of a worker.
#[derive(Default)]
pub(super) struct Runs {
    processes: HashMap<SessionId, Option<OwnedFd>>,
    endings: JoinSet<SessionId>,
}

impl Runs {
    pub(super) fn add(&mut self, session: SessionId, mut child: Child) {
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.and_then(Pid::from_raw);
        // The child is not reaped before the task below waits, so that the pid is still its own.
        let process = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        self.processes.insert(session, process);
        self.endings.spawn(async move {
            // How it ended is in its journal.
            let _ = child.wait().await;
            session
        });
    }

    pub(super) fn len(&self) -> usize {
        self.processes.len()
    }

    pub(super) fn contains(&self, session: SessionId) -> bool {
        self.processes.contains_key(&session)
    }

    pub(super) fn sessions(&self) -> Vec<SessionId> {
        let mut sessions: Vec<_> = self.processes.keys().copied().collect();
        sessions.sort_unstable();
        sessions
    }

    /// Waits until a run has ended; forever if there is none.
    pub(super) async fn next_ended(&mut self) -> SessionId {
        while let Some(ended) = self.endings.join_next().await {
            if let Ok(session) = ended {
                self.processes.remove(&session);
                return session;
            }
        }
        std::future::pending().await
    }

    /// Asks all runs to stop. The first time they finish their step, the second time they stop at
    /// once.
    pub(super) fn ask_to_stop(&self) {
        for process in self.processes.values().flatten() {
            // A run that has just ended needs no signal.
            let _ = pidfd_send_signal(process, Signal::TERM);
        }
    }
}
