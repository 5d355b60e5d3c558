//! The driver that gives scripted answers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use segno_core::agent::{Answer, Driver, Error, ErrorKind, Event, Listener, Request};
use segno_core::ports::{Boxed, Clock, Disk};

use super::{Ledger, Script};

/// Maximum size of a script of answers in bytes.
const MAX_SCRIPT_BYTES: u64 = 64 * 1024 * 1024;

/// A script or its ledger that cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", .path.display())]
pub struct OpenError {
    pub path: PathBuf,
    pub reason: String,
}

pub struct Scripted {
    script: Script,
    clock: Arc<dyn Clock>,
    ledger: Option<Ledger>,
}

impl Scripted {
    /// A driver that follows `script`. Its delays go by `clock`; its calls are appended to
    /// `ledger`, which the caller opens at the path of [`Script::ledger`].
    pub fn new(script: Script, clock: Arc<dyn Clock>, ledger: Option<Ledger>) -> Self {
        Self {
            script,
            clock,
            ledger,
        }
    }

    /// Reads the script at `path` and opens its ledger, whose path is relative to the script.
    pub fn open(path: &Path, disk: &dyn Disk, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let unreadable = |reason: String| OpenError {
            path: path.to_owned(),
            reason,
        };
        let bytes = disk
            .read(path, MAX_SCRIPT_BYTES)
            .map_err(|error| unreadable(error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|error| unreadable(error.to_string()))?;
        let script = Script::parse(&text).map_err(|error| unreadable(error.to_string()))?;
        let ledger = match script.ledger() {
            Some(name) => {
                let place = path.parent().unwrap_or(Path::new(".")).join(name);
                let opened = Ledger::open(&place);
                Some(opened.map_err(|error| OpenError {
                    path: place,
                    reason: error.to_string(),
                })?)
            }
            None => None,
        };
        Ok(Self::new(script, clock, ledger))
    }

    async fn answer(&self, request: Request<'_>, listener: &dyn Listener) -> Result<Answer, Error> {
        if let Some(ledger) = &self.ledger {
            // A call that cannot be counted is not answered: tests rely on the count.
            ledger.append(&request).map_err(|error| {
                let message = format!("the ledger cannot be written: {error}");
                Error::new(ErrorKind::Crashed, message)
            })?;
        }
        let Some(entry) = self.script.find(&request) else {
            let message = format!(
                "the script has no answer for step {} of agent {}",
                request.path, request.agent
            );
            return Err(Error::new(ErrorKind::NotFound, message));
        };
        if !entry.delay.is_zero() {
            self.clock.sleep(entry.delay).await;
        }
        if let Some(error) = entry.failure(request.attempt) {
            if let Some(usage) = entry.usage {
                listener.on_event(Event::Usage(usage));
            }
            return Err(error);
        }
        let usage = entry.usage.unwrap_or_default();
        listener.on_event(Event::Text(&entry.text));
        listener.on_event(Event::Usage(usage));
        Ok(Answer {
            text: entry.text.clone(),
            usage,
        })
    }
}

impl Driver for Scripted {
    fn ask<'a>(
        &'a self,
        request: Request<'a>,
        listener: &'a dyn Listener,
    ) -> Boxed<'a, Result<Answer, Error>> {
        Box::pin(self.answer(request, listener))
    }
}
