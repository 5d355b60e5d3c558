//! Starts the processes in which a worker's sessions run: this executable, with [`RUN_PENDING`].

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::Stdio;

use segno_core::id::SessionId;
use segno_core::ports::{Access, Disk};
use segno_store::LocalDisk;
use segno_supervisor::worker::Launch;
use tokio::process::{Child, Command};

use crate::server_command::this_executable;

/// The command that runs a pending session. Only workers use it.
pub(crate) const RUN_PENDING: &str = "__run";

/// Starts runs, each with a file for what it has to say.
pub(crate) struct Launcher {
    /// The folder of these files.
    logs: PathBuf,
}

impl Launcher {
    pub(crate) fn new(logs: PathBuf) -> io::Result<Self> {
        LocalDisk.create_folder(&logs, Access::Private)?;
        Ok(Self { logs })
    }

    /// An empty file; what the last run said is gone.
    fn log(&self, session: SessionId) -> io::Result<File> {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(self.logs.join(format!("{session}.log")))
    }
}

impl Launch for Launcher {
    fn launch(&self, session: SessionId) -> io::Result<Child> {
        Command::new(this_executable()?)
            .arg(RUN_PENDING)
            .arg(session.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(self.log(session)?)
            // Ctrl-C at the worker's terminal is for the worker.
            .process_group(0)
            .kill_on_drop(false)
            .spawn()
    }
}
