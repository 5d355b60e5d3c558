//! The line to a program: messages both ways, bounded, until one side has had enough.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use segno_core::agent::ErrorKind;
use segno_core::ports::Clock;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::OwnedMutexGuard;

use super::error::{AcpError, Trouble};
use super::rpc::{self, Line, Message};
use crate::Launch;
use crate::command::output::harmless;
use crate::mcp::program::{self, Keeper, Wire};

/// How many lines that are no messages, or answer nothing, may follow one another.
const MOST_NOISE: usize = 1000;

/// How much may wait for an agent that does not read.
const LONGEST_BACKLOG: usize = 32 << 20;

const BY_HAND: &str = "run its command by hand to see what it does";
const INSTALLED: &str = "look whether the program is installed and in PATH";

pub(super) struct Link {
    /// The program's name, fit to be shown.
    pub(super) program: String,
    wire: Wire,
    keeper: Keeper,
    clock: Arc<dyn Clock>,
    stdin: OwnedMutexGuard<OwnedWriteHalf>,
    /// What was said and not yet taken.
    outgoing: Vec<u8>,
    /// How many lines were passed over since the last message.
    noise: usize,
    /// The first odd thing that was passed over.
    remark: Option<String>,
    /// Why nothing more can be said.
    over: Option<AcpError>,
}

impl Link {
    pub(super) async fn open(
        argv: &[String],
        env: &[(String, String)],
        cwd: &Path,
        warden: &Launch,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, AcpError> {
        let program = harmless(argv.first().map_or("", String::as_str));
        let error = |kind, reason| AcpError {
            program: program.clone(),
            tried: "starting it".to_owned(),
            reason,
            kind,
            code: None,
            hint: None,
        };
        if argv.is_empty() {
            return Err(error(ErrorKind::Invalid, "it has no command".to_owned()));
        }
        let started = program::start(argv, env, cwd, warden).await;
        let (wire, keeper) = started.map_err(|problem| {
            if cwd.is_dir() {
                let reason = format!("its warden cannot be started: {problem}");
                return error(ErrorKind::Crashed, reason);
            }
            let reason = format!("{} is not a folder", cwd.display());
            error(ErrorKind::Invalid, reason)
        })?;
        let stdin = wire.stdin().lock_owned().await;
        Ok(Self {
            program,
            wire,
            keeper,
            clock,
            stdin,
            outgoing: Vec::new(),
            noise: 0,
            remark: None,
            over: None,
        })
    }

    /// Says something. It goes out while the next message is waited for.
    pub(super) fn say(&mut self, message: &Value) -> Result<(), Trouble> {
        if self.outgoing.len() > LONGEST_BACKLOG {
            let why = "it does not read what it is told".to_owned();
            return Err(Trouble::Broken(why));
        }
        self.outgoing.extend(message.to_string().bytes());
        self.outgoing.push(b'\n');
        Ok(())
    }

    /// What time it is, for deadlines.
    pub(super) fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// The next message, if it comes until then. Giving up waiting loses nothing.
    pub(super) async fn next(
        &mut self,
        until: Duration,
        limit: Duration,
    ) -> Result<Message, Trouble> {
        loop {
            let left = until.saturating_sub(self.clock.elapsed());
            if left.is_zero() {
                return Err(Trouble::Late(limit.as_secs_f64()));
            }
            let line = tokio::select! {
                line = self.wire.heard() => line,
                written = self.stdin.write(&self.outgoing), if !self.outgoing.is_empty() => {
                    // One that is gone cannot be written to; its ending will tell.
                    let taken = written.unwrap_or(self.outgoing.len());
                    self.outgoing.drain(..taken);
                    continue;
                }
                () = self.clock.sleep(left) => return Err(Trouble::Late(limit.as_secs_f64())),
            };
            let Some(line) = line else {
                return Err(Trouble::Ended);
            };
            match rpc::read(&line) {
                Line::Message(message) => return Ok(message),
                Line::Noise => {
                    self.wire.noise(&line);
                    self.pass_over()?;
                }
                Line::Damaged(why) => {
                    self.wire.noise(&line);
                    return Err(Trouble::Broken(format!("a message cannot be read: {why}")));
                }
            }
        }
    }

    /// Notes an answer to what nobody asked.
    pub(super) fn stray(&mut self, id: &Value) -> Result<(), Trouble> {
        let remark = format!("it answered question {id}, which was not open");
        self.remark.get_or_insert(remark);
        self.pass_over()
    }

    /// What is passed over must not go on for ever.
    fn pass_over(&mut self) -> Result<(), Trouble> {
        self.noise += 1;
        if self.noise > MOST_NOISE {
            let why = format!("more than {MOST_NOISE} lines in a row were of no use");
            return Err(Trouble::Broken(why));
        }
        Ok(())
    }

    /// A message was of use.
    pub(super) fn heard(&mut self) {
        self.noise = 0;
    }

    /// An error without an end of the program.
    pub(super) fn error(
        &self,
        kind: ErrorKind,
        tried: &str,
        reason: impl Into<String>,
    ) -> AcpError {
        AcpError {
            program: self.program.clone(),
            tried: tried.to_owned(),
            reason: reason.into(),
            kind,
            code: None,
            hint: None,
        }
    }

    /// Why nothing more can be said, if so.
    pub(super) fn is_over(&self) -> Result<(), AcpError> {
        self.over.clone().map_or(Ok(()), Err)
    }

    /// Ends the program, and says what happened.
    pub(super) async fn fail(&mut self, tried: &str, trouble: Trouble) -> AcpError {
        let ending = self.keeper.end().await;
        let with = |reason: String| match ending.last_words.as_str() {
            "" => reason,
            words => format!("{reason}: {words}"),
        };
        let (kind, mut reason, hint) = match trouble {
            Trouble::Ended if ending.kind == ErrorKind::NotFound => {
                (ending.kind, ending.told(), INSTALLED)
            }
            Trouble::Ended => (ending.kind, ending.told(), BY_HAND),
            Trouble::Late(seconds) => {
                let late = format!("it said nothing for {seconds} s and was ended");
                (ErrorKind::Timeout, with(late), BY_HAND)
            }
            Trouble::Broken(why) => {
                let broken = format!("{why}; it was ended");
                (ErrorKind::Invalid, with(broken), BY_HAND)
            }
        };
        if let Some(remark) = &self.remark {
            reason = format!("{reason}; before, {remark}");
        }
        let error = AcpError {
            hint: Some(hint),
            ..self.error(kind, tried, reason)
        };
        self.over = Some(error.clone());
        error
    }

    /// Ends the program with all that it started, and returns when they have ended.
    pub(super) async fn close(self) {
        self.keeper.end().await;
    }
}
