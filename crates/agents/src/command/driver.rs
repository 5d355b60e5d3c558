//! Runs a program below its process guard and returns its stdout as the answer.

use std::ffi::OsStr;
use std::future::pending;

use segno_core::agent::{Answer, Driver, Error, ErrorKind, Listener, Request};
use segno_core::ports::Boxed;
use segno_core::usage::Usage;

use super::child_process::{ChildProcess, Launch};
use super::confinement::Writes;
use super::environment::{AgentEnvironment, VENDORS};
use super::output;

/// What the user can do if there is no such program.
const IF_MISSING: &str = "install it, or correct the `command` of the spec";

/// The default limit of an answer, in bytes.
const LIMIT: usize = 16 << 20;

/// Runs a program for each request.
#[derive(Debug, Clone)]
pub struct Command {
    argv: Vec<String>,
    guard: Launch,
    limit: usize,
    environment: AgentEnvironment,
}

impl Command {
    /// A driver that starts `argv` (the program and its arguments) below a process guard.
    pub fn new(argv: Vec<String>, guard: Launch) -> Self {
        Self {
            argv,
            guard,
            limit: LIMIT,
            environment: AgentEnvironment::whole(),
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

    /// Limits answers to `bytes`.
    #[must_use]
    pub fn with_limit(self, bytes: usize) -> Self {
        Self {
            limit: bytes,
            ..self
        }
    }

    async fn answer(&self, request: Request<'_>, listener: &dyn Listener) -> Result<Answer, Error> {
        if self.argv.is_empty() {
            let message = format!("agent `{}` has no command", request.agent);
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let between = if request.system.is_empty() {
            ""
        } else {
            "\n\n"
        };
        let variables = [
            ("SEGNO_SESSION", request.session.to_string()),
            ("SEGNO_RUN", request.run.to_string()),
            ("SEGNO_STEP", request.path.as_str().to_owned()),
            ("SEGNO_ATTEMPT", request.attempt.to_string()),
            ("SEGNO_STEP_ID", request.key.to_string()),
        ];
        let child = ChildProcess {
            guard: &self.guard,
            argv: &self.argv,
            workspace: request.workspace,
            inherit: self.environment.for_program(&VENDORS, request.pass_env),
            writes: Writes::Anywhere,
            variables: &variables
                .each_ref()
                .map(|(name, value)| (*name, OsStr::new(value))),
            input: &[request.system, between, request.input],
            if_missing: IF_MISSING,
        };
        let mut answer = output::Answer::new(&self.argv[0], self.limit, listener);
        // The engine enforces the timeout by dropping the future.
        let ended = child.run(&mut answer, pending()).await?;
        match child.check_exit(&ended) {
            None => Ok(Answer {
                text: without_last_newline(answer.into_text()),
                usage: Usage::default(),
            }),
            Some(failure) => Err(failure),
        }
    }
}

/// The newline after a program's last line is not part of the answer.
fn without_last_newline(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    text
}

impl Driver for Command {
    fn ask<'a>(
        &'a self,
        request: Request<'a>,
        listener: &'a dyn Listener,
    ) -> Boxed<'a, Result<Answer, Error>> {
        Box::pin(self.answer(request, listener))
    }
}
