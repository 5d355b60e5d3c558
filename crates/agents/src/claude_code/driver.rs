//! Runs Claude Code.

use std::ffi::OsStr;
use std::future::pending;
use std::path::Path;
use std::sync::Arc;

use segno_core::agent::{AccessMode, Answer, Error, Listener, Request};
use segno_core::cli_agent::{
    CliAgent, CliAgentKind, ConversationMode, Examination, Holder, TranscriptFiles, TranscriptState,
};
use segno_core::ports::{Boxed, Clock};
use segno_core::usage::Cost;

use super::stream::{SessionInfo, Stream};
use super::window::Window;
use crate::command::output::{Line, Lines};
use crate::command::{ChildProcess, Writes};
use crate::holders;
use crate::program::{LONGEST_LINE, Permissions, Setup, refusal_reason, variables};
use crate::service::SegnoMcpServer;
use crate::transcript::TranscriptFormat;
use crate::transcript_files::{self, LocalTranscripts};

/// What the user can do if there is no such program.
const IF_MISSING: &str = "npm install -g @anthropic-ai/claude-code, or set `[claude-code] program`";

/// The system prompt is passed as an argument, and arguments cannot be longer.
const LONGEST_ARGUMENT: usize = 100 * 1024;

/// Claude Code's tools that change files. An agent that may only read does not get them, whatever
/// else is allowed.
const EDIT_TOOLS: &str = "Edit,Write,NotebookEdit";

/// Where else Claude Code finds models: the variable that selects it, and the variables with its keys.
const PROVIDERS: [(&str, &[&str]); 3] = [
    ("CLAUDE_CODE_USE_BEDROCK", &["AWS_*"]),
    (
        "CLAUDE_CODE_USE_VERTEX",
        &["GOOGLE_*", "GCLOUD_*", "CLOUDSDK_*"],
    ),
    ("CLAUDE_CODE_USE_FOUNDRY", &["AZURE_*"]),
];

/// The variables with the keys of its model's provider.
fn vendor_variables() -> Vec<&'static str> {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let used = PROVIDERS.iter().filter(|(name, _)| is_set(name));
    let own = ["ANTHROPIC_*", "CLAUDE_*"].into_iter();
    own.chain(used.flat_map(|(_, names)| names.iter().copied()))
        .collect()
}

/// Runs Claude Code as a CLI agent.
pub struct ClaudeCode {
    setup: Setup,
    transcripts: LocalTranscripts,
    clock: Arc<dyn Clock>,
}

impl ClaudeCode {
    pub fn new(setup: Setup, clock: Arc<dyn Clock>) -> Self {
        Self {
            transcripts: LocalTranscripts::new(TranscriptFormat::ClaudeCode, &setup),
            setup,
            clock,
        }
    }

    /// The program and its arguments. The prompt is not among them, so that no word of it can be
    /// taken for a flag.
    fn argv(
        &self,
        request: &Request<'_>,
        system: Option<&str>,
        way: ConversationMode<'_>,
    ) -> Vec<String> {
        let mut argv = vec![self.setup.program.clone()];
        argv.extend(["-p", "--output-format=stream-json", "--verbose"].map(str::to_owned));
        argv.push(match way {
            ConversationMode::Start { id } => format!("--session-id={id}"),
            ConversationMode::Resume { id } => format!("--resume={id}"),
        });
        let mode = match self.setup.permissions.restricted_to(request.access) {
            Permissions::Read => "default",
            Permissions::Edit => "acceptEdits",
            Permissions::All => "bypassPermissions",
        };
        argv.push(format!("--permission-mode={mode}"));
        match request.access {
            AccessMode::ReadWrite => {}
            AccessMode::ReadOnly => argv.push(format!("--disallowedTools={EDIT_TOOLS}")),
            AccessMode::InputOnly => {
                let flags = [
                    "--tools=",
                    "--strict-mcp-config",
                    "--no-session-persistence",
                ];
                argv.extend(flags.map(str::to_owned));
            }
        }
        argv.extend(
            self.setup
                .model
                .iter()
                .map(|model| format!("--model={model}")),
        );
        let has_tools = request.access != AccessMode::InputOnly;
        let service = self.setup.service.as_ref().filter(|_| has_tools);
        argv.extend(service.map(|service| service.claude(request)));
        let allowed = self.setup.allowed_tools.iter().filter(|_| has_tools);
        let mut allow: Vec<String> = allowed.cloned().collect();
        allow.extend(service.map(SegnoMcpServer::allowed));
        if !allow.is_empty() {
            argv.push(format!("--allowedTools={}", allow.join(",")));
        }
        argv.extend(system.map(|system| format!("--append-system-prompt={system}")));
        argv
    }

    async fn answer(
        &self,
        request: Request<'_>,
        way: ConversationMode<'_>,
        listener: &dyn Listener,
    ) -> Result<Answer, Error> {
        let system = request.system.trim();
        let fits = !system.is_empty() && system.len() <= LONGEST_ARGUMENT;
        let argv = self.argv(&request, fits.then_some(system), way);
        let (above, between) = match (fits, way) {
            (false, ConversationMode::Start { .. }) if !system.is_empty() => (system, "\n\n"),
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
                .for_program(&vendor_variables(), request.pass_env),
            writes: Writes::Anywhere,
            variables: &env
                .each_ref()
                .map(|(name, value)| (*name, OsStr::new(value))),
            input: &[above, between, request.input],
            if_missing: IF_MISSING,
        };
        let (ConversationMode::Start { id } | ConversationMode::Resume { id }) = way;
        let window = Window {
            configured: self.setup.window,
            reported: None,
            earlier: request.window,
        };
        let info = SessionInfo {
            id,
            window,
            cost: match way {
                ConversationMode::Start { .. } => Some(Cost::default()),
                ConversationMode::Resume { .. } => request.conversation_cost,
            },
            refusal: refusal_reason(request.access),
        };
        let mut stream = Stream::new(info, listener, &*self.clock);
        let mut lines = Lines::new(LONGEST_LINE, listener, |line: Line<'_>| stream.line(line));
        // The engine enforces the timeout by dropping the future.
        let ended = child.run(&mut lines, pending()).await?;
        stream.finish(child.check_exit(&ended))
    }
}

impl CliAgent for ClaudeCode {
    fn kind(&self) -> CliAgentKind {
        CliAgentKind::ClaudeCode
    }

    fn accepts_id(&self) -> bool {
        true
    }

    fn has_system_prompt(&self) -> bool {
        true
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
            TranscriptFormat::ClaudeCode,
            &self.setup.home,
            id,
        ))
    }

    fn holders<'a>(&'a self, id: &'a str, earlier: Option<&'a Path>) -> Boxed<'a, Vec<Holder>> {
        let homes = [Some(self.setup.home.as_path()), earlier];
        let homes = homes.into_iter().flatten().map(Path::to_owned);
        Box::pin(holders::find(homes.collect(), id))
    }

    fn finds_moved_transcripts(&self) -> bool {
        true
    }

    fn home(&self) -> Option<&Path> {
        Some(&self.setup.home)
    }

    fn transcript_files(&self) -> Option<&dyn TranscriptFiles> {
        Some(&self.transcripts)
    }
}
