//! Runs Codex.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use segno_core::agent::{AccessMode, Answer, Error, Listener, Request};
use segno_core::cli_agent::{
    CliAgent, CliAgentKind, ConversationMode, Examination, Holder, TranscriptFiles, TranscriptState,
};
use segno_core::ports::{Boxed, Clock};
use segno_core::usage::Usage;

use super::stream::{Stream, ThreadInfo};
use super::tail::Tail;
use crate::command::output::{Line, Lines};
use crate::command::{ChildProcess, Writes};
use crate::holders;
use crate::program::{LONGEST_LINE, Permissions, Setup, refusal_reason, variables};
use crate::reset::with_retry_delay;
use crate::transcript::TranscriptFormat;
use crate::transcript_files::{self, LocalTranscripts};

/// What the user can do if there is no such program.
const IF_MISSING: &str = "npm install -g @openai/codex, or set `[codex] program`";

/// How often the rollout is read while stdout is silent.
const ROLLOUT_INTERVAL: Duration = Duration::from_millis(250);

/// The variables of its vendor.
const VENDOR: [&str; 2] = ["CODEX_*", "OPENAI_*"];

/// Runs Codex as a CLI agent.
pub struct Codex {
    setup: Setup,
    transcripts: LocalTranscripts,
    clock: Arc<dyn Clock>,
}

impl Codex {
    pub fn new(setup: Setup, clock: Arc<dyn Clock>) -> Self {
        Self {
            transcripts: LocalTranscripts::new(TranscriptFormat::Codex, &setup),
            setup,
            clock,
        }
    }

    /// The program and its arguments. The prompt is not among them, so that no word of it can be
    /// taken for a flag.
    fn argv(&self, request: &Request<'_>, way: ConversationMode<'_>) -> Vec<String> {
        let mut argv = vec![self.setup.program.clone()];
        argv.extend(["exec", "--json", "--skip-git-repo-check"].map(str::to_owned));
        argv.push(
            match self.setup.permissions.restricted_to(request.access) {
                Permissions::Read => "--sandbox=read-only",
                Permissions::Edit => "--sandbox=workspace-write",
                Permissions::All => "--dangerously-bypass-approvals-and-sandbox",
            }
            .to_owned(),
        );
        argv.extend(
            self.setup
                .model
                .iter()
                .map(|model| format!("--model={model}")),
        );
        if request.access == AccessMode::InputOnly {
            argv.push("--ephemeral".to_owned());
        } else {
            let service = self.setup.service.iter();
            argv.extend(service.flat_map(|service| service.codex(request)));
        }
        if let ConversationMode::Resume { id } = way {
            argv.extend(["resume".to_owned(), id.to_owned()]);
        }
        argv.push("-".to_owned());
        argv
    }

    async fn answer(
        &self,
        request: Request<'_>,
        way: ConversationMode<'_>,
        listener: &dyn Listener,
    ) -> Result<Answer, Error> {
        let argv = self.argv(&request, way);
        let mut tail = Tail::new(&self.setup.home);
        let (expected, before) = match way {
            ConversationMode::Start { .. } => (None, Usage::default()),
            ConversationMode::Resume { id } => {
                let used =
                    transcript_files::usage_of(TranscriptFormat::Codex, &self.setup.home, id)
                        .await?;
                tail.skip(id);
                (Some(id), used)
            }
        };
        let system = request.system.trim();
        let (above, between) = match way {
            ConversationMode::Start { .. } if !system.is_empty() => (system, "\n\n"),
            _ => ("", ""),
        };
        let env = variables(&request);
        let child = ChildProcess {
            guard: &self.setup.guard,
            argv: &argv,
            workspace: request.workspace,
            inherit: self
                .setup
                .environment
                .for_program(&VENDOR, request.pass_env),
            writes: Writes::Anywhere,
            variables: &env
                .each_ref()
                .map(|(name, value)| (*name, OsStr::new(value))),
            input: &[above, between, request.input],
            if_missing: IF_MISSING,
        };
        let info = ThreadInfo {
            expected,
            before,
            window: self.setup.window,
            refusal: refusal_reason(request.access),
            id_prefix: format!("{}.", request.attempt),
        };
        let stream = Mutex::new(Stream::new(info, tail, listener));
        let mut lines = Lines::new(LONGEST_LINE, listener, |line: Line<'_>| {
            let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
            stream.line(line)
        });
        // The engine enforces the timeout by dropping the future.
        let ended = child
            .run(&mut lines, self.follow_rollout(&stream, listener))
            .await?;
        let stream = stream.into_inner().unwrap_or_else(PoisonError::into_inner);
        let answer = stream.finish(child.check_exit(&ended));
        answer.map_err(|error| with_retry_delay(error, &*self.clock))
    }

    /// Reads the rollout while stdout is silent. Codex may write what an answer used after it has
    /// reported the answer's tool calls, and report nothing else until the next answer. Never
    /// returns.
    async fn follow_rollout(&self, stream: &Mutex<Stream<'_>>, listener: &dyn Listener) -> Error {
        loop {
            self.clock.sleep(ROLLOUT_INTERVAL).await;
            // P10: the queue of events stays bounded.
            listener.ready().await;
            let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
            stream.read_rollout();
        }
    }
}

impl CliAgent for Codex {
    fn kind(&self) -> CliAgentKind {
        CliAgentKind::Codex
    }

    fn accepts_id(&self) -> bool {
        false
    }

    fn has_system_prompt(&self) -> bool {
        false
    }

    fn ask<'a>(
        &'a self,
        request: Request<'a>,
        way: ConversationMode<'a>,
        listener: &'a dyn Listener,
    ) -> Boxed<'a, Result<Answer, Error>> {
        Box::pin(self.answer(request, way, listener))
    }

    fn transcript_state<'a>(
        &'a self,
        id: &'a str,
        _folder: &'a Path,
        _: Examination,
    ) -> Boxed<'a, Result<Option<TranscriptState>, Error>> {
        Box::pin(transcript_files::inspect(
            TranscriptFormat::Codex,
            &self.setup.home,
            id,
        ))
    }

    fn holders<'a>(&'a self, id: &'a str, _: Option<&'a Path>) -> Boxed<'a, Vec<Holder>> {
        Box::pin(holders::find(Vec::new(), id))
    }

    fn finds_moved_transcripts(&self) -> bool {
        // Its database has the path of each rollout.
        false
    }

    fn home(&self) -> Option<&Path> {
        Some(&self.setup.home)
    }

    fn transcript_files(&self) -> Option<&dyn TranscriptFiles> {
        Some(&self.transcripts)
    }
}
