//! Where notices go, and which ones.

use std::path::PathBuf;
use std::time::Duration;

use segno_core::ports::Disk;
use segno_core::session::Status;

use super::kind::Kind;
use super::notice::Notice;

/// A secret file is much smaller.
const MAX_SECRET: u64 = 64 << 10;

/// A place that notices are sent to.
#[derive(Debug, Clone)]
pub struct Target {
    /// Unique among the targets of the settings.
    pub name: String,
    pub channel: Channel,
    pub filter: Filter,
    pub rate: Rate,
}

/// How a target is reached.
#[derive(Debug, Clone)]
pub enum Channel {
    /// `notify-send`.
    Desktop,
    /// A program, which gets the notice as JSON on its stdin.
    Command(Vec<String>),
    /// A POST of JSON, signed if there is a secret.
    Webhook {
        url: Source,
        secret: Option<Source>,
    },
    Slack(Source),
    Discord(Source),
    Ntfy {
        /// The URL of the topic.
        url: Source,
        token: Option<Source>,
        /// From 1 to 5; absent: by the kind of the notice.
        priority: Option<u8>,
    },
}

impl Channel {
    /// The channel's name in the settings.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Desktop => "desktop",
            Self::Command(_) => "command",
            Self::Webhook { .. } => "webhook",
            Self::Slack(_) => "slack",
            Self::Discord(_) => "discord",
            Self::Ntfy { .. } => "ntfy",
        }
    }
}

/// Where a URL or a secret is read from, each time it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The settings themselves.
    Text(String),
    /// An environment variable.
    Variable(String),
    /// The first line of a file.
    File(PathBuf),
}

impl Source {
    /// Reads the value. An error names the source, never the value.
    pub(super) fn read(
        &self,
        disk: &dyn Disk,
        variable: fn(&str) -> Option<String>,
    ) -> Result<String, String> {
        let found = match self {
            Self::Text(text) => text.clone(),
            Self::Variable(name) => variable(name).unwrap_or_default(),
            Self::File(path) => {
                let read = disk.read(path, MAX_SECRET);
                let bytes =
                    read.map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
                String::from_utf8(bytes)
                    .map_err(|_| format!("{} is not UTF-8 text", path.display()))?
            }
        };
        let line = found.lines().next().unwrap_or_default().trim();
        match (line, self) {
            ("", Self::Variable(name)) => Err(format!("{name} is not set")),
            ("", Self::File(path)) => Err(format!("{} is empty", path.display())),
            (line, _) => Ok(line.to_owned()),
        }
    }
}

/// Which notices a target gets.
#[derive(Debug, Clone)]
pub struct Filter {
    pub kinds: Vec<Kind>,
    /// Beginnings of session names; empty: all sessions.
    pub sessions: Vec<String>,
    /// Statuses of the session after the event; empty: all.
    pub statuses: Vec<Status>,
}

impl Filter {
    pub fn accepts(&self, notice: &Notice) -> bool {
        let begins = |beginning: &String| notice.name.starts_with(beginning.as_str());
        self.kinds.contains(&notice.kind)
            && (self.sessions.is_empty() || self.sessions.iter().any(begins))
            && (self.statuses.is_empty() || self.statuses.contains(&notice.status))
    }
}

/// How many messages a target gets: `burst` at once, then one per interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub burst: u32,
    pub every: Duration,
}

impl Default for Rate {
    fn default() -> Self {
        Self {
            burst: 10,
            every: Duration::from_mins(1),
        }
    }
}
