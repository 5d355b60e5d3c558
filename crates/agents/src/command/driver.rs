//! Asking a program, through its warden.

use std::ffi::OsStr;
use std::future::pending;

use segno_core::agent::{Answer, Driver, Error, ErrorKind, Listener, Request};
use segno_core::ports::Boxed;
use segno_core::usage::Usage;

use super::errand::{Errand, Inherit, Launch};
use super::output;

/// The most that an answer may have if nothing else is said.
const LIMIT: usize = 16 << 20;

/// Asks a program.
#[derive(Debug, Clone)]
pub struct Command {
    argv: Vec<String>,
    warden: Launch,
    limit: usize,
}

impl Command {
    /// A driver that starts `argv` (the program and its arguments) below a warden.
    pub fn new(argv: Vec<String>, warden: Launch) -> Self {
        Self {
            argv,
            warden,
            limit: LIMIT,
        }
    }

    /// The same, with answers of at most `bytes`.
    #[must_use]
    pub fn with_limit(self, bytes: usize) -> Self {
        Self {
            limit: bytes,
            ..self
        }
    }

    async fn answer(&self, request: Request<'_>, listener: &dyn Listener) -> Result<Answer, Error> {
        if self.argv.is_empty() {
            let message = format!("agent {} has no command", request.agent);
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
        let errand = Errand {
            warden: &self.warden,
            argv: &self.argv,
            workspace: request.workspace,
            inherit: Inherit::All,
            variables: &variables
                .each_ref()
                .map(|(name, value)| (*name, OsStr::new(value))),
            input: &[request.system, between, request.input],
        };
        let mut answer = output::Answer::new(&self.argv[0], self.limit, listener);
        // How long it may take is the engine's to say: it drops the future.
        let ended = errand.run(&mut answer, pending()).await?;
        match errand.judge(&ended) {
            None => Ok(Answer {
                text: without_last_newline(answer.into_text()),
                usage: Usage::default(),
            }),
            Some(failure) => Err(failure),
        }
    }
}

/// The line's end that programs put behind their last line is not part of the answer.
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
