//! Shared by the drivers of CLI agents: how a program is started, what it may do, and what its
//! errors mean.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use segno_core::agent::{AccessMode, Error, ErrorKind, RefusalReason, Request};
use segno_core::cli_agent::CliAgentKind;
use segno_core::ports::Clock;

use crate::command::output::Line;
use crate::command::{AgentEnvironment, Launch};
use crate::http::kind_of_client_error;
use crate::reset::parse_try_again_in;
use crate::service::SegnoMcpServer;
use crate::transcript::{Object, parse};

/// Longer lines of a program's output are skipped and counted, not parsed.
pub(crate) const LONGEST_LINE: usize = 64 << 20;

/// What a program may do with its own tools. Only the user's current settings decide this, never
/// anything that was stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Permissions {
    /// Read, and change nothing.
    Read,
    /// Change files in the workspace. Run commands only where the program's own rules allow them.
    #[default]
    Edit,
    /// Everything, without asking.
    All,
}

impl Permissions {
    /// Restricts the permissions to what `access` allows. `All` stays `All`: a reviewer runs tests
    /// by commands, and a sandbox may not work where `All` was granted.
    pub(crate) fn restricted_to(self, access: AccessMode) -> Self {
        match (self, access) {
            (_, AccessMode::InputOnly) | (Self::Edit, AccessMode::ReadOnly) => Self::Read,
            (permissions, _) => permissions,
        }
    }
}

/// Why a program may be refused a tool in a request with this access.
pub(crate) fn refusal_reason(access: AccessMode) -> RefusalReason {
    match access {
        AccessMode::ReadWrite => RefusalReason::Permissions,
        AccessMode::ReadOnly | AccessMode::InputOnly => RefusalReason::ReadOnly,
    }
}

/// How a program is started on this machine.
#[derive(Debug, Clone)]
pub struct Setup {
    /// A path, or a name that is looked up in `PATH`.
    pub program: String,
    /// The folder in which the program keeps its transcripts.
    pub home: PathBuf,
    /// The user's home, where it is known.
    pub user_home: Option<PathBuf>,
    pub permissions: Permissions,
    /// Further tools that it may use, in the program's own syntax.
    pub allowed_tools: Vec<String>,
    pub model: Option<String>,
    /// The size of the model's context window in tokens, if the user configured it.
    pub window: Option<u64>,
    /// An MCP server that the program gets in addition to its own.
    pub service: Option<SegnoMcpServer>,
    /// Which environment variables the program gets.
    pub environment: AgentEnvironment,
    /// Starts the process guard.
    pub guard: Launch,
}

/// The folder in which a CLI agent keeps its transcripts: from its environment variable, else its
/// default folder in the user's home. The error says why it is unknown.
pub fn home_folder(
    program: CliAgentKind,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<PathBuf, String> {
    let (name, below) = match program {
        CliAgentKind::ClaudeCode => ("CLAUDE_CONFIG_DIR", ".claude"),
        CliAgentKind::Codex => ("CODEX_HOME", ".codex"),
        CliAgentKind::Acp => {
            return Err("where it keeps its conversations is its own affair".into());
        }
    };
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    let home = set(name).map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(set("HOME")?).join(below)));
    home.ok_or_else(|| format!("neither {name} nor HOME is set"))
}

/// Environment variables that tell a program and its hooks which session, run and step they belong
/// to.
pub(crate) fn variables(request: &Request<'_>) -> [(&'static str, String); 5] {
    [
        ("SEGNO_SESSION", request.session.to_string()),
        ("SEGNO_RUN", request.run.to_string()),
        ("SEGNO_STEP", request.path.as_str().to_owned()),
        ("SEGNO_ATTEMPT", request.attempt.to_string()),
        ("SEGNO_STEP_ID", request.key.to_string()),
    ]
}

/// Maps the HTTP status that a program reported to an error kind.
pub(crate) fn kind_of_status(status: u64, wait: Option<Duration>) -> ErrorKind {
    match status {
        401 | 403 => ErrorKind::Auth,
        404 => ErrorKind::NotFound,
        413 => ErrorKind::ContextFull,
        429 => ErrorKind::RateLimited(wait),
        500.. => ErrorKind::Server,
        status => kind_of_client_error(u16::try_from(status).unwrap_or_default()),
    }
}

/// Maps a program's message about its model's provider to an error kind, where the text is all
/// there is; `None` if it contains nothing known.
pub(crate) fn kind_of_message(message: &str) -> Option<ErrorKind> {
    let lower = message.to_lowercase();
    let status = |before: &str| {
        let (_, rest) = lower.split_once(before)?;
        let mut numbers = rest.split(|c: char| !c.is_ascii_digit());
        numbers.find(|number| number.len() == 3)?.parse().ok()
    };
    let has = |words: &[&str]| words.iter().any(|words| lower.contains(words));
    let full = [
        "context_length_exceeded",
        "context window",
        "prompt is too long",
    ];
    if has(&full) {
        Some(ErrorKind::ContextFull)
    } else if has(&["usage limit", "rate limit"]) {
        Some(ErrorKind::RateLimited(parse_try_again_in(&lower)))
    } else if let Some(kind) = kind_of_refusal(&lower) {
        Some(kind)
    } else if has(&["missing environment variable"]) {
        Some(ErrorKind::Auth)
    } else if let Some(status) = status("status").or_else(|| status("api error: ")) {
        Some(kind_of_status(status, parse_try_again_in(&lower)))
    } else if has(&["stream disconnected", "connect"]) {
        Some(ErrorKind::Network)
    } else {
        None
    }
}

/// Maps a program's message about a conversation that it does not resume to an error kind; `None` if it
/// says nothing about the conversation.
pub(crate) fn kind_of_refusal(message: &str) -> Option<ErrorKind> {
    const UNKNOWN: [&str; 6] = [
        "no rollout found",
        "no conversation found",
        "no previous sessions found",
        "thread not found",
        "session not found",
        "invalid session identifier",
    ];
    let lower = message.to_lowercase();
    if UNKNOWN.iter().any(|words| lower.contains(words)) {
        Some(ErrorKind::NoConversation)
    } else if lower.contains("already has an active writer") {
        Some(ErrorKind::ConversationInUse)
    } else {
        None
    }
}

/// The duration from now until `seconds` since 1970.
pub(crate) fn duration_until(clock: &dyn Clock, seconds: u64) -> Duration {
    let now = u64::try_from(clock.now().0).unwrap_or_default();
    Duration::from_millis(seconds.saturating_mul(1000).saturating_sub(now))
}

/// Parses a line of a program's stream; `None` if the line is not a record. A line that begins like
/// a record and cannot be parsed is an error: it could have held anything.
pub(crate) fn parse_record(line: Line<'_>) -> Result<Option<Object>, Damaged> {
    let Line::Whole(line) = line else {
        return Err(Damaged);
    };
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
    match parse(line) {
        Ok(record) => Ok(Some(record)),
        Err(_) if line.trim_ascii_start().starts_with(b"{") => Err(Damaged),
        Err(_) => Ok(None),
    }
}

pub(crate) struct Damaged;

pub(crate) fn count_lines(count: u64) -> String {
    match count {
        1 => "1 line".to_owned(),
        count => format!("{count} lines"),
    }
}

/// Whether `id` is safe as a conversation's id: it becomes an argument and part of a file's name.
pub(crate) fn is_valid_id(id: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=128).contains(&id.len()) && !id.starts_with('-') && id.chars().all(fits)
}

/// The error for a program that uses another conversation than it was asked to.
pub(crate) fn wrong_conversation(program: &str, asked: &str, used: &str) -> Error {
    let message = format!(
        "{program} uses conversation {} instead of {asked}",
        crate::command::output::escape_controls(used)
    );
    Error::new(ErrorKind::NoConversation, message)
}
