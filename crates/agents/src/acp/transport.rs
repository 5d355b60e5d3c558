//! The connection to an agent's process: messages in both directions, with bounded buffers, until
//! one side closes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use segno_core::agent::ErrorKind;
use segno_core::ports::Clock;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::OwnedMutexGuard;

use super::error::{AcpError, Failure};
use crate::command::output::escape_controls;
use crate::command::{Inherit, Launch};
use crate::json_rpc::{self, Calls, Line, Message, ProcessHandle, Stdio};

/// How many consecutive lines may be no messages, or responses to no request.
const MAX_NOISE: usize = 1000;

/// How many bytes may be queued for an agent that does not read.
const MAX_BACKLOG: usize = 32 << 20;

const BY_HAND: &str = "run its command by hand to see its output";
const MISSING: &str = "install it, or correct the `command` of the spec";
const INSTALLED: &str = "check that the program is installed and on PATH";

pub(super) struct Transport {
    /// The program's name, safe to show.
    pub(super) program: String,
    stdio: Stdio,
    process: ProcessHandle,
    clock: Arc<dyn Clock>,
    stdin: OwnedMutexGuard<OwnedWriteHalf>,
    /// Bytes that are queued and not yet written.
    outgoing: Vec<u8>,
    /// How many lines were skipped since the last useful message.
    noise: usize,
    /// The first skipped response without a request.
    remark: Option<String>,
    /// The requests to the program; after its end, why the connection cannot be used any more.
    pub(super) calls: Calls<AcpError>,
}

impl Transport {
    pub(super) async fn open(
        argv: &[String],
        (inherit, env): (Inherit, &[(String, String)]),
        cwd: &Path,
        guard: &Launch,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, AcpError> {
        let program = escape_controls(argv.first().map_or("", String::as_str));
        let error = |kind, reason| AcpError {
            program: program.clone(),
            operation: "starting".to_owned(),
            reason,
            kind,
            code: None,
            hint: None,
        };
        if argv.is_empty() {
            return Err(error(ErrorKind::Invalid, "it has no command".to_owned()));
        }
        let started = json_rpc::start(argv, inherit, env, cwd, guard).await;
        let (stdio, process) = started.map_err(|problem| {
            if cwd.is_dir() {
                let reason = format!("its process guard cannot be started: {problem}");
                return error(ErrorKind::Crashed, reason);
            }
            let reason = format!("{} is not a folder", cwd.display());
            error(ErrorKind::Invalid, reason)
        })?;
        let stdin = stdio.stdin().lock_owned().await;
        Ok(Self {
            program,
            stdio,
            process,
            clock,
            stdin,
            outgoing: Vec::new(),
            noise: 0,
            remark: None,
            calls: Calls::default(),
        })
    }

    /// Queues a message. `next` writes it while it waits.
    pub(super) fn queue(&mut self, message: &Value) -> Result<(), Failure> {
        if self.outgoing.len() > MAX_BACKLOG {
            let why = "it does not read its input".to_owned();
            return Err(Failure::Protocol(why));
        }
        self.outgoing.extend(message.to_string().bytes());
        self.outgoing.push(b'\n');
        Ok(())
    }

    /// The monotonic time, for deadlines.
    pub(super) fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// The next message, if it arrives before `deadline`. Cancelling this future loses nothing.
    pub(super) async fn next(
        &mut self,
        deadline: Duration,
        limit: Duration,
    ) -> Result<Message, Failure> {
        loop {
            let left = deadline.saturating_sub(self.clock.elapsed());
            if left.is_zero() {
                return Err(Failure::TimedOut(limit.as_secs_f64()));
            }
            let line = tokio::select! {
                line = self.stdio.next_line() => line,
                written = self.stdin.write(&self.outgoing), if !self.outgoing.is_empty() => {
                    // Writing to a program that is gone fails; its end is reported below.
                    let taken = written.unwrap_or(self.outgoing.len());
                    self.outgoing.drain(..taken);
                    continue;
                }
                () = self.clock.sleep(left) => return Err(Failure::TimedOut(limit.as_secs_f64())),
            };
            let Some(line) = line else {
                return Err(Failure::Ended);
            };
            match json_rpc::read(&line) {
                Line::Message(message) => return Ok(message),
                Line::Noise => {
                    self.stdio.note_noise(&line);
                    self.count_noise()?;
                }
                Line::Damaged(why) => {
                    self.stdio.note_noise(&line);
                    return Err(Failure::Protocol(format!(
                        "a message cannot be read: {why}"
                    )));
                }
            }
        }
    }

    /// Notes a response that no request is waiting for.
    pub(super) fn note_stray(&mut self, id: &Value) -> Result<(), Failure> {
        let remark = format!("it responded to request {id}, which was not pending");
        self.remark.get_or_insert(remark);
        self.count_noise()
    }

    /// Limits how many useless lines may follow each other.
    fn count_noise(&mut self) -> Result<(), Failure> {
        self.noise += 1;
        if self.noise > MAX_NOISE {
            let why = format!("more than {MAX_NOISE} consecutive lines were unusable");
            return Err(Failure::Protocol(why));
        }
        Ok(())
    }

    /// Resets the limit after a useful message.
    pub(super) fn reset_noise(&mut self) {
        self.noise = 0;
    }

    /// An error while the program runs on.
    pub(super) fn error(
        &self,
        kind: ErrorKind,
        operation: &str,
        reason: impl Into<String>,
    ) -> AcpError {
        AcpError {
            program: self.program.clone(),
            operation: operation.to_owned(),
            reason: reason.into(),
            kind,
            code: None,
            hint: None,
        }
    }

    /// Ends the program, and returns the error with the end of its stderr.
    pub(super) async fn fail(&mut self, operation: &str, failure: Failure) -> AcpError {
        let ending = self.process.end().await;
        let with = |reason: String| match ending.stderr_tail.as_str() {
            "" => reason,
            words => format!("{reason}: {words}"),
        };
        let (kind, mut reason, hint) = match failure {
            Failure::Ended if ending.kind == ErrorKind::NoProgram => {
                (ending.kind, ending.describe(), MISSING)
            }
            Failure::Ended if ending.kind == ErrorKind::NotFound => {
                (ending.kind, ending.describe(), INSTALLED)
            }
            Failure::Ended => (ending.kind, ending.describe(), BY_HAND),
            Failure::TimedOut(seconds) => {
                let late = format!("it sent nothing for {seconds} s and was killed");
                (ErrorKind::Timeout, with(late), BY_HAND)
            }
            Failure::Protocol(why) => {
                let broken = format!("{why}; it was killed");
                (ErrorKind::Invalid, with(broken), BY_HAND)
            }
        };
        if let Some(remark) = &self.remark {
            reason = format!("{reason}; before that, {remark}");
        }
        let error = AcpError {
            hint: Some(hint),
            ..self.error(kind, operation, reason)
        };
        self.calls.close(error.clone());
        error
    }

    /// Ends the program's whole process tree, and returns when it has ended.
    pub(super) async fn close(self) {
        self.process.end().await;
    }
}
