//! The signals of a server.

use std::io::{IsTerminal, stdin};

use segno_server::Server;
use segno_server::listen::tls::Tls;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::failure::Failure;
use crate::output::stderr_line;

/// What SIGHUP reads again. Tokens are read with every request; everything else needs a restart.
pub(super) struct Reload {
    tls: Option<Tls>,
    server: Server,
}

impl Reload {
    pub(super) fn new(tls: Option<Tls>, server: Server) -> Self {
        Self { tls, server }
    }

    fn now(&self) {
        let notice = match self.tls.as_ref().map(Tls::reload) {
            None => "nothing to reload: this server has no certificate".to_owned(),
            Some(Ok(())) => "the certificate was reloaded".to_owned(),
            Some(Err(error)) => format!("the certificate was not reloaded: {error}"),
        };
        self.server.notice(&notice);
    }
}

/// The first SIGTERM or Ctrl-C lets open requests end, the second ends the process. SIGHUP reloads,
/// unless it says that the terminal was closed; then it stops the server, too.
pub(super) fn handle(stop: watch::Sender<bool>, reload: Reload) -> Result<(), Failure> {
    let failed = |error| {
        Failure::internal(format!(
            "the signals of this process cannot be read: {error}"
        ))
    };
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
    let had_terminal = stdin().is_terminal();
    tokio::spawn(async move {
        let mut is_stopping = false;
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {
                    let is_closed = had_terminal && !stdin().is_terminal();
                    if !is_closed {
                        reload.now();
                        continue;
                    }
                }
            }
            if is_stopping {
                std::process::exit(130);
            }
            is_stopping = true;
            stderr_line("stopping");
            let _ = stop.send(true);
        }
    });
    Ok(())
}
