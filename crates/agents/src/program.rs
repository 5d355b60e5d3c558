//! What the drivers of agent programs share: how a program is started, what it may do, and what its
//! errors mean.

use std::path::PathBuf;
use std::time::Duration;

use segno_core::agent::{Conduct, Error, ErrorKind, Request};
use segno_core::ports::Clock;

use crate::command::output::Line;
use crate::reset::span;
use crate::transcript::{Object, parse};
use crate::{Launch, Service};

/// The longest line of a program that is looked into. Longer ones are left out and counted.
pub(crate) const LONGEST_LINE: usize = 64 << 20;

/// What a program may do with its own tools. It is said by the person's settings of today, and by
/// nothing that was kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Permissions {
    /// Look, and change nothing.
    Read,
    /// Change files in the workspace. Commands only where the program's own rules allow them.
    #[default]
    Edit,
    /// Everything, unasked.
    All,
}

impl Permissions {
    /// What a program may do that is asked to do this. Who may do everything keeps that: commands are how
    /// a reviewer runs tests, and a sandbox may not work where this was allowed.
    pub(crate) fn under(self, conduct: Conduct) -> Self {
        match (self, conduct) {
            (Self::Edit, Conduct::Look) => Self::Read,
            (permissions, _) => permissions,
        }
    }
}

/// How a program is started on this machine.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The program: a path, or a name that is found in `PATH`.
    pub program: String,
    /// Where it keeps its conversations.
    pub home: PathBuf,
    /// What it may do.
    pub permissions: Permissions,
    /// Tools that it may use besides, in its own words.
    pub allow: Vec<String>,
    /// The model, if one is chosen.
    pub model: Option<String>,
    /// How many tokens fit into the model's context, if the person has said so.
    pub window: Option<u64>,
    /// The MCP server that it is given besides its own, if any.
    pub service: Option<Service>,
    /// How its warden is started.
    pub warden: Launch,
}

/// The variables by which a program and its hooks know whose they are.
pub(crate) fn variables(request: &Request<'_>) -> [(&'static str, String); 5] {
    [
        ("SEGNO_SESSION", request.session.to_string()),
        ("SEGNO_RUN", request.run.to_string()),
        ("SEGNO_STEP", request.path.as_str().to_owned()),
        ("SEGNO_ATTEMPT", request.attempt.to_string()),
        ("SEGNO_STEP_ID", request.key.to_string()),
    ]
}

/// What the status of an HTTP answer means that a program ran into.
pub(crate) fn kind_of_status(status: u64, wait: Option<Duration>) -> ErrorKind {
    match status {
        401 | 403 => ErrorKind::Auth,
        404 => ErrorKind::NotFound,
        413 => ErrorKind::ContextFull,
        429 => ErrorKind::RateLimited(wait),
        500.. => ErrorKind::Server,
        _ => ErrorKind::Invalid,
    }
}

/// What a program's complaint about its model's provider means, where only words tell; `None` if they
/// say nothing that is known.
pub(crate) fn kind_of_words(message: &str) -> Option<ErrorKind> {
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
        Some(ErrorKind::RateLimited(span(&lower)))
    } else if has(&["thread not found", "session not found"]) {
        Some(ErrorKind::NotFound)
    } else if let Some(status) = status("status").or_else(|| status("api error: ")) {
        Some(kind_of_status(status, span(&lower)))
    } else if has(&["stream disconnected", "connect"]) {
        Some(ErrorKind::Network)
    } else {
        None
    }
}

/// How long it is until a moment that is given in seconds since 1970.
pub(crate) fn until(clock: &dyn Clock, seconds: u64) -> Duration {
    let now = u64::try_from(clock.now().0).unwrap_or_default();
    Duration::from_millis(seconds.saturating_mul(1000).saturating_sub(now))
}

/// A record of a program's stream; `None` if the line is nothing that was meant for us. What begins
/// like a record and cannot be read is an error: it may have been anything.
pub(crate) fn record(line: Line<'_>) -> Result<Option<Object>, Damaged> {
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

/// A record that cannot be read.
pub(crate) struct Damaged;

/// So many lines, in words.
pub(crate) fn lines(count: u64) -> String {
    match count {
        1 => "1 line".to_owned(),
        count => format!("{count} lines"),
    }
}

/// Whether a conversation can be called that: it becomes an argument and part of a file's name.
pub(crate) fn is_name(id: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=128).contains(&id.len()) && !id.starts_with('-') && id.chars().all(fits)
}

/// The program went on with another conversation than it was asked to.
pub(crate) fn another(program: &str, asked: &str, told: &str) -> Error {
    let message = format!(
        "{program} was to use conversation {asked}, and uses {}",
        crate::command::output::harmless(told)
    );
    Error::new(ErrorKind::Invalid, message)
}
