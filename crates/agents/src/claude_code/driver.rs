//! Runs Claude Code.

use std::ffi::OsStr;
use std::future::pending;
use std::path::Path;
use std::sync::Arc;

use segno_core::agent::{Answer, Conduct, Error, Listener, Request};
use segno_core::companion::{Companion, Program, Record, Records, Way};
use segno_core::ports::{Boxed, Clock};

use super::stream::Stream;
use super::window::Window;
use crate::Service;
use crate::command::output::{Line, Lines};
use crate::command::{ChildProcess, Inherit};
use crate::program::{LONGEST_LINE, Permissions, Setup, variables};
use crate::transcript::Native;
use crate::transcript_files::{self, LocalTranscripts};

/// The system prompt is passed as an argument, and arguments cannot be longer.
const LONGEST_ARGUMENT: usize = 100 * 1024;

/// Claude Code's tools that change files. An agent that may only read does not get them, whatever
/// else is allowed.
const EDIT_TOOLS: &str = "Edit,Write,NotebookEdit";

/// Runs Claude Code as a CLI agent.
pub struct ClaudeCode {
    setup: Setup,
    transcripts: LocalTranscripts,
    clock: Arc<dyn Clock>,
}

impl ClaudeCode {
    pub fn new(setup: Setup, clock: Arc<dyn Clock>) -> Self {
        Self {
            transcripts: LocalTranscripts::new(Native::ClaudeCode, &setup),
            setup,
            clock,
        }
    }

    /// The program and its arguments. The prompt is not among them, so that no word of it can be
    /// taken for a flag.
    fn argv(&self, request: &Request<'_>, system: Option<&str>, way: Way<'_>) -> Vec<String> {
        let mut argv = vec![self.setup.program.clone()];
        argv.extend(["-p", "--output-format=stream-json", "--verbose"].map(str::to_owned));
        argv.push(match way {
            Way::Begin { id } => format!("--session-id={id}"),
            Way::Continue { id } => format!("--resume={id}"),
        });
        let mode = match self.setup.permissions.restricted_to(request.conduct) {
            Permissions::Read => "default",
            Permissions::Edit => "acceptEdits",
            Permissions::All => "bypassPermissions",
        };
        argv.push(format!("--permission-mode={mode}"));
        if request.conduct == Conduct::Look {
            argv.push(format!("--disallowedTools={EDIT_TOOLS}"));
        }
        argv.extend(
            self.setup
                .model
                .iter()
                .map(|model| format!("--model={model}")),
        );
        let service = self.setup.service.as_ref();
        argv.extend(service.map(|service| service.claude(request)));
        let mut allow = self.setup.allow.clone();
        allow.extend(service.map(Service::allowed));
        if !allow.is_empty() {
            argv.push(format!("--allowedTools={}", allow.join(",")));
        }
        argv.extend(system.map(|system| format!("--append-system-prompt={system}")));
        argv
    }

    async fn answer(
        &self,
        request: Request<'_>,
        way: Way<'_>,
        listener: &dyn Listener,
    ) -> Result<Answer, Error> {
        let system = request.system.trim();
        let fits = !system.is_empty() && system.len() <= LONGEST_ARGUMENT;
        let argv = self.argv(&request, fits.then_some(system), way);
        let (above, between) = match (fits, way) {
            (false, Way::Begin { .. }) if !system.is_empty() => (system, "\n\n"),
            _ => ("", ""),
        };
        let env = variables(&request);
        let child = ChildProcess {
            guard: &self.setup.warden,
            argv: &argv,
            workspace: request.workspace,
            inherit: Inherit::All,
            variables: &env
                .each_ref()
                .map(|(name, value)| (*name, OsStr::new(value))),
            input: &[above, between, request.input],
        };
        let (Way::Begin { id } | Way::Continue { id }) = way;
        let window = Window {
            configured: self.setup.window,
            reported: None,
            earlier: request.window,
        };
        let mut stream = Stream::new(id, window, listener, &*self.clock);
        let mut lines = Lines::new(LONGEST_LINE, |line: Line<'_>| stream.line(line));
        // The engine enforces the timeout by dropping the future.
        let ended = child.run(&mut lines, pending()).await?;
        stream.finish(child.check_exit(&ended))
    }
}

impl Companion for ClaudeCode {
    fn program(&self) -> Program {
        Program::ClaudeCode
    }

    fn lets_choose(&self) -> bool {
        true
    }

    fn ask<'a>(
        &'a self,
        request: Request<'a>,
        way: Way<'a>,
        listener: &'a dyn Listener,
    ) -> Boxed<'a, Result<Answer, Error>> {
        Box::pin(self.answer(request, way, listener))
    }

    fn record<'a>(
        &'a self,
        id: &'a str,
        _folder: &'a Path,
    ) -> Boxed<'a, Result<Option<Record>, Error>> {
        Box::pin(transcript_files::inspect(
            Native::ClaudeCode,
            &self.setup.home,
            id,
        ))
    }

    fn records(&self) -> Option<&dyn Records> {
        Some(&self.transcripts)
    }
}
