//! Locations and user settings: where sessions and `config.toml` live, and what `config.toml` sets.
//!
//! The module validates every value and reports unknown keys as notices. Other modules interpret
//! the settings.

mod notice_targets;

use std::collections::BTreeMap;
use std::env;
use std::ops::RangeInclusive;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use segno_agents::program::Permissions;
use segno_agents::{NetworkPolicy, WritePolicy};
use segno_core::cli_agent::CliAgentKind;
use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::ports::Disk;
use segno_core::snapshot::Rules;
use segno_core::usage::Price;
use segno_engine::env::Retention;
use segno_sessions::chat::Limits;
use segno_store::LocalDisk;
use segno_supervisor::notices::Target;

/// The settings of `config.toml`, with defaults for everything the file does not set.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) lease_ttl: Duration,
    /// Whether a stopped process that holds a session is ended.
    pub(crate) end_stopped_owners: bool,
    pub(crate) cleanup_age: Duration,
    pub(crate) keep_completed: bool,
    pub(crate) cleanup_auto: bool,
    pub(crate) trash_keep: Duration,
    pub(crate) retention: Retention,
    /// The key that encrypts the files of checkpoints.
    pub(crate) key_file: Option<PathBuf>,
    /// Which files a checkpoint includes and excludes.
    pub(crate) rules: Rules,
    /// URL of the remote that checkpoints are pushed to.
    pub(crate) remote: Option<String>,
    /// Checkpoints are pushed automatically only if they have more bytes than this.
    pub(crate) remote_above: u64,
    /// Private network addresses that tools may call.
    pub(crate) reach: NetworkPolicy,
    /// What tools may not write.
    pub(crate) writes: WritePolicy,
    /// Whether code of a model may write only to the workspace.
    pub(crate) confine_programs: bool,
    /// Prices of models, by model name.
    pub(crate) prices: BTreeMap<String, Price>,
    /// The sizes of models' context windows in tokens, by model name.
    pub(crate) context_windows: BTreeMap<String, u64>,
    /// How CLI agents are started, by provider name.
    pub(crate) programs: BTreeMap<&'static str, ProgramSettings>,
    /// Environment variables that agents' programs get, although they look like secrets.
    pub(crate) pass_env: Vec<String>,
    /// Default agent and default reviewer of `segno work`.
    pub(crate) work_agent: Option<String>,
    pub(crate) work_reviewer: Option<String>,
    pub(crate) chat: ChatSettings,
    /// The server whose sessions commands work with.
    pub(crate) server: Option<String>,
    /// Where notices about sessions go.
    pub(crate) notice_targets: Vec<Target>,
    /// Warnings about the file for the user, such as unknown keys.
    pub(crate) notices: Vec<String>,
}

/// How a CLI agent is started.
#[derive(Debug, Clone)]
pub(crate) struct ProgramSettings {
    /// The executable, if it is not found under its usual name on PATH.
    pub(crate) program: Option<String>,
    pub(crate) permissions: Permissions,
    /// Additional tools that it may use, in its own syntax.
    pub(crate) allow: Vec<String>,
    /// Size of its model's context window in tokens.
    pub(crate) window: Option<u64>,
    /// Whether the agent gets Segno's MCP server.
    pub(crate) mcp: bool,
}

impl Default for ProgramSettings {
    fn default() -> Self {
        Self {
            program: None,
            permissions: Permissions::default(),
            allow: Vec::new(),
            window: None,
            mcp: true,
        }
    }
}

/// Settings for chats.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChatSettings {
    /// Default agent.
    pub(crate) agent: Option<String>,
    /// The spec that defines the agent.
    pub(crate) spec: Option<PathBuf>,
    /// After how long without a message a chat is paused, and archived.
    pub(crate) limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lease_ttl: Duration::from_secs(30),
            end_stopped_owners: false,
            cleanup_age: Duration::from_hours(7 * 24),
            keep_completed: true,
            cleanup_auto: false,
            trash_keep: Duration::from_hours(7 * 24),
            retention: Retention::default(),
            key_file: None,
            rules: Rules::default(),
            remote: None,
            remote_above: 0,
            reach: NetworkPolicy::default(),
            writes: WritePolicy::default(),
            confine_programs: true,
            prices: BTreeMap::new(),
            context_windows: BTreeMap::new(),
            programs: BTreeMap::new(),
            pass_env: Vec::new(),
            work_agent: None,
            work_reviewer: None,
            chat: ChatSettings::default(),
            server: None,
            notice_targets: Vec::new(),
            notices: Vec::new(),
        }
    }
}

const KEYS: &[&str] = &[
    "lease.ttl_ms",
    "lease.end_stopped",
    "cleanup.max_age_days",
    "cleanup.keep_completed",
    "cleanup.auto",
    "trash.keep_days",
    "checkpoints.keep",
    "checkpoints.max_age_days",
    "checkpoints.max_mb",
    "checkpoints.include",
    "checkpoints.exclude",
    "encryption.key_file",
    "remote.url",
    "remote.above_mb",
    "network.allow_private",
    "tools.allow_write",
    "tools.confine_programs",
    "claude-code.program",
    "claude-code.permissions",
    "claude-code.allow",
    "claude-code.context_window",
    "claude-code.mcp",
    "codex.program",
    "codex.permissions",
    "codex.mcp",
    "acp.permissions",
    "acp.mcp",
    "env.pass",
    "work.agent",
    "work.reviewer",
    "chat.agent",
    "chat.spec",
    "chat.idle_after_s",
    "chat.expires_after_s",
    "server.url",
];

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("there is no folder for sessions: neither SEGNO_HOME nor HOME is set")]
    NoHome,
    #[error("SEGNO_HOME is not an absolute path: {}", .0.display())]
    RelativeHome(PathBuf),
    #[error("{} cannot be used: {reason}", .path.display())]
    Unusable { path: PathBuf, reason: String },
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::NoHome | Self::RelativeHome(_) => {
                Diagnosis::new(Kind::Invalid, "C0101").hint("`export SEGNO_HOME=/some/folder`")
            }
            Self::Unusable { .. } => Diagnosis::new(Kind::Invalid, "C0102"),
        }
    }
}

/// A path, and the environment variable that it comes from.
pub(crate) struct Location {
    pub(crate) path: PathBuf,
    pub(crate) source: &'static str,
}

/// Returns the folder that stores sessions and the path of the settings file.
pub(crate) fn locations() -> Result<(PathBuf, PathBuf), Error> {
    locate().map(|(home, config)| (home.path, config.path))
}

/// Like [`locations`], with their sources. Both come from the user's environment, never from the
/// current folder, because its contents may not be trusted.
pub(crate) fn locate() -> Result<(Location, Location), Error> {
    let path = |name: &str| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let location = |path, source| Location { path, source };
    if let Some(home) = path("SEGNO_HOME") {
        if !home.is_absolute() {
            return Err(Error::RelativeHome(home));
        }
        let config = home.join("config.toml");
        return Ok((location(home, "SEGNO_HOME"), location(config, "SEGNO_HOME")));
    }
    let home = path("HOME").filter(|home| home.is_absolute());
    let below = |variable: &'static str, default: &str| {
        let set = path(variable).filter(|folder| folder.is_absolute());
        let set = set.map(|folder| (folder, variable));
        let (folder, source) = set.or_else(|| Some((home.as_ref()?.join(default), "HOME")))?;
        Some(location(folder.join("segno"), source))
    };
    let state = below("XDG_STATE_HOME", ".local/state").ok_or(Error::NoHome)?;
    let config = below("XDG_CONFIG_HOME", ".config").ok_or(Error::NoHome)?;
    let file = config.path.join("config.toml");
    Ok((state, location(file, config.source)))
}

/// A setting as it is in effect.
pub(crate) struct Setting {
    pub(crate) key: String,
    /// `null` if the setting has neither a value nor a default.
    pub(crate) value: serde_json::Value,
    /// Whether the value is in the settings file.
    pub(crate) is_set: bool,
}

/// Returns all settings, with defaults for those that the file does not set. The file must be valid.
pub(crate) fn effective(path: &Path) -> Result<(Vec<Setting>, Config), Error> {
    let table = parse(path)?.unwrap_or_default();
    let config = apply(&table, path).map_err(|reason| Error::Unusable {
        path: path.to_owned(),
        reason,
    })?;
    let in_file = |key: &str| {
        let (section, name) = key.split_once('.')?;
        serde_json::to_value(table.get(section)?.get(name)?).ok()
    };
    let setting = |key: &str| {
        let value = in_file(key);
        Setting {
            key: key.to_owned(),
            is_set: value.is_some(),
            value: value.unwrap_or_else(|| default_value(key)),
        }
    };
    let prices = config.prices.iter().map(|(model, price)| Setting {
        key: format!("prices.{model}"),
        value: serde_json::json!({"input": price.input, "output": price.output}),
        is_set: true,
    });
    let windows = config
        .context_windows
        .iter()
        .map(|(model, window)| Setting {
            key: format!("context_windows.{model}"),
            value: (*window).into(),
            is_set: true,
        });
    let targets = config.notice_targets.iter().map(|target| Setting {
        key: format!("notices.{}", target.name),
        value: notice_targets::shown(target),
        is_set: true,
    });
    let settings = KEYS.iter().map(|key| setting(key));
    let settings = settings.chain(prices).chain(windows);
    let settings = settings.chain(targets).collect();
    Ok((settings, config))
}

/// The default of a setting, in the unit of its key. `null` if it has none.
fn default_value(key: &str) -> serde_json::Value {
    const DAY: u64 = 24 * 3600;
    let config = Config::default();
    match key {
        "lease.end_stopped" => config.end_stopped_owners.into(),
        "lease.ttl_ms" => (config.lease_ttl.as_secs() * 1000).into(),
        "cleanup.max_age_days" => (config.cleanup_age.as_secs() / DAY).into(),
        "cleanup.keep_completed" => config.keep_completed.into(),
        "cleanup.auto" => config.cleanup_auto.into(),
        "trash.keep_days" => (config.trash_keep.as_secs() / DAY).into(),
        "checkpoints.keep" => config.retention.count.into(),
        "checkpoints.max_age_days" => (config.retention.age.as_secs() / DAY).into(),
        "checkpoints.max_mb" => (config.retention.max_bytes / 1_000_000).into(),
        "checkpoints.include"
        | "checkpoints.exclude"
        | "network.allow_private"
        | "tools.allow_write"
        | "env.pass"
        | "claude-code.allow" => serde_json::json!([]),
        "remote.above_mb" => (config.remote_above / (1024 * 1024)).into(),
        "claude-code.program" | "work.agent" => "claude".into(),
        "codex.program" => "codex".into(),
        "claude-code.permissions" | "codex.permissions" | "acp.permissions" => "edit".into(),
        "tools.confine_programs" => config.confine_programs.into(),
        "claude-code.mcp" | "codex.mcp" | "acp.mcp" => true.into(),
        "chat.idle_after_s" => config.chat.limits.idle.as_secs().into(),
        "chat.expires_after_s" => config.chat.limits.expiry.as_secs().into(),
        _ => serde_json::Value::Null,
    }
}

/// Reads the settings. A missing file means defaults.
pub(crate) fn read(path: &Path) -> Result<Config, Error> {
    match parse(path)? {
        None => Ok(Config::default()),
        Some(table) => apply(&table, path).map_err(|reason| Error::Unusable {
            path: path.to_owned(),
            reason,
        }),
    }
}

/// Parses the settings file. Returns `None` if there is none.
fn parse(path: &Path) -> Result<Option<toml::Table>, Error> {
    use std::io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    let unusable = |reason: String| Error::Unusable {
        path: path.to_owned(),
        reason,
    };
    let bytes = match LocalDisk.read(path, 1024 * 1024) {
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => {
            return Ok(None);
        }
        // If the folder itself cannot be entered, the code that opens the folder reports the error.
        Err(error) if error.kind() == PermissionDenied && path.metadata().is_err() => {
            return Ok(None);
        }
        other => other.map_err(|error| unusable(error.to_string()))?,
    };
    if path
        .metadata()
        .is_ok_and(|metadata| metadata.permissions().mode() & 0o022 != 0)
    {
        return Err(unusable(
            "others can write to it; run `chmod go-w` on it".into(),
        ));
    }
    let text = String::from_utf8(bytes).map_err(|error| unusable(error.to_string()))?;
    let table = text.parse();
    let table = table.map_err(|error: toml::de::Error| unusable(error.message().to_owned()))?;
    Ok(Some(table))
}

fn apply(table: &toml::Table, path: &Path) -> Result<Config, String> {
    let mut config = Config::default();
    for key in key_names(table) {
        let by_model = ["prices.", "context_windows."];
        let by_model = by_model.iter().any(|section| key.starts_with(section));
        if !KEYS.contains(&key.as_str()) && !by_model {
            let known = match key.strip_prefix("notices.") {
                Some(_) => notice_targets::KEYS.join(", "),
                None => KEYS.join(", "),
            };
            config.notices.push(format!(
                "{}: `{key}` is not a setting; the settings are {known}",
                path.display()
            ));
        }
    }
    for section in [
        "lease",
        "cleanup",
        "trash",
        "checkpoints",
        "encryption",
        "remote",
        "network",
        "tools",
        "prices",
        "context_windows",
        "claude-code",
        "codex",
        "acp",
        "work",
        "chat",
    ] {
        if let Some(other) = table.get(section).filter(|value| !value.is_table()) {
            return Err(format!("`{section}` must be a section, not {other}"));
        }
    }
    if let Some(millis) = number(table, "lease", "ttl_ms", 100..=3_600_000)? {
        config.lease_ttl = Duration::from_millis(millis);
    }
    if let Some(days) = number(table, "cleanup", "max_age_days", 0..=36_500)? {
        config.cleanup_age = Duration::from_hours(days * 24);
    }
    if let Some(days) = number(table, "trash", "keep_days", 0..=36_500)? {
        config.trash_keep = Duration::from_hours(days * 24);
        config.retention.restore_within = config.trash_keep;
    }
    if let Some(keep) = number(table, "checkpoints", "keep", 1..=100_000)? {
        config.retention.count = usize::try_from(keep).unwrap_or(usize::MAX);
    }
    if let Some(days) = number(table, "checkpoints", "max_age_days", 0..=36_500)? {
        config.retention.age = Duration::from_hours(days * 24);
    }
    if let Some(mb) = number(table, "checkpoints", "max_mb", 1..=1_000_000_000)? {
        config.retention.max_bytes = mb * 1_000_000;
    }
    config.key_file = key_file(table)?;
    config.rules.include = patterns(table, "include")?;
    config.rules.exclude = patterns(table, "exclude")?;
    config.work_agent = text(table, "work", "agent")?;
    config.work_reviewer = text(table, "work", "reviewer")?;
    if let Some(url) = table.get("remote").and_then(|remote| remote.get("url")) {
        let url = url.as_str().ok_or("`remote.url` must be a string")?;
        config.remote = Some(url.to_owned());
    }
    config.server = text(table, "server", "url")?;
    if let Some(megabytes) = number(table, "remote", "above_mb", 0..=1_000_000_000)? {
        config.remote_above = megabytes * 1024 * 1024;
    }
    if let Some(end) = boolean(table, "lease", "end_stopped")? {
        config.end_stopped_owners = end;
    }
    if let Some(keep) = boolean(table, "cleanup", "keep_completed")? {
        config.keep_completed = keep;
    }
    if let Some(auto) = boolean(table, "cleanup", "auto")? {
        config.cleanup_auto = auto;
    }
    if let Some(hosts) = texts(table, "network", "allow_private")? {
        config.reach = NetworkPolicy::new(hosts)
            .map_err(|error| format!("`network.allow_private` is invalid: {error}"))?;
    }
    if let Some(paths) = texts(table, "tools", "allow_write")? {
        config.writes = WritePolicy::default().allow(&relative_paths(paths)?);
    }
    if let Some(confine) = boolean(table, "tools", "confine_programs")? {
        config.confine_programs = confine;
    }
    for program in CliAgentKind::ALL {
        let name = program.as_str();
        config.programs.insert(name, program_settings(table, name)?);
    }
    config.pass_env = pass_env(table)?;
    config.chat = chat_settings(table)?;
    config.notice_targets = notice_targets::parse(table)?;
    if let Some(toml::Value::Table(prices)) = table.get("prices") {
        for (model, price) in prices {
            config
                .prices
                .insert(model.clone(), self::price(model, price)?);
        }
    }
    if let Some(toml::Value::Table(windows)) = table.get("context_windows") {
        for model in windows.keys() {
            let window = number(table, "context_windows", model, WINDOW_TOKENS)?;
            let named = window.map(|window| (model.clone(), window));
            config.context_windows.extend(named);
        }
    }
    Ok(config)
}

/// The possible sizes of a context window in tokens.
const WINDOW_TOKENS: RangeInclusive<u64> = 1_000..=100_000_000;

/// Parses how a CLI agent is started.
fn program_settings(table: &toml::Table, section: &str) -> Result<ProgramSettings, String> {
    let text = |key: &str| {
        let value = table.get(section).and_then(|section| section.get(key));
        let wrong =
            |value: &toml::Value| format!("`{section}.{key}` must be a string, not {value}");
        value
            .map(|value| value.as_str().ok_or_else(|| wrong(value)))
            .transpose()
    };
    let permissions = match text("permissions")? {
        None => Permissions::default(),
        Some("read") => Permissions::Read,
        Some("edit") => Permissions::Edit,
        Some("all") => Permissions::All,
        Some(other) => {
            return Err(format!(
                "`{section}.permissions` must be `read`, `edit` or `all`, not `{other}`"
            ));
        }
    };
    let allow = texts(table, section, "allow")?.unwrap_or_default();
    if let Some(wrong) = allow.iter().find(|tool| tool.trim().is_empty()) {
        return Err(format!("`{section}.allow` names no tool: `{wrong}`"));
    }
    let program = text("program")?.map(str::to_owned);
    if program.as_ref().is_some_and(String::is_empty) {
        return Err(format!("`{section}.program` must name a program"));
    }
    Ok(ProgramSettings {
        program,
        permissions,
        allow,
        window: number(table, section, "context_window", WINDOW_TOKENS)?,
        mcp: boolean(table, section, "mcp")?.unwrap_or(true),
    })
}

/// Parses the `chat` section.
fn chat_settings(table: &toml::Table) -> Result<ChatSettings, String> {
    const YEAR: u64 = 366 * 24 * 3600;
    let text = |key: &str| {
        let value = table.get("chat").and_then(|chat| chat.get(key));
        let wrong = || format!("`chat.{key}` must be a string that is not empty");
        let text = value.map(|value| value.as_str().filter(|text| !text.is_empty()));
        text.map(|text| text.ok_or_else(wrong)).transpose()
    };
    let spec = text("spec")?.map(PathBuf::from);
    if let Some(spec) = spec.as_ref().filter(|spec| spec.is_relative()) {
        let spec = spec.display();
        return Err(format!("`chat.spec` must be an absolute path, not {spec}"));
    }
    let seconds =
        |key| number(table, "chat", key, 1..=YEAR).map(|found| found.map(Duration::from_secs));
    let defaults = Limits::default();
    Ok(ChatSettings {
        agent: text("agent")?.map(str::to_owned),
        spec,
        limits: Limits {
            idle: seconds("idle_after_s")?.unwrap_or(defaults.idle),
            expiry: seconds("expires_after_s")?.unwrap_or(defaults.expiry),
        },
    })
}

/// Parses the price of a model.
fn price(model: &str, table: &toml::Value) -> Result<Price, String> {
    let of = |key: &str| {
        let value = table.get(key);
        let number = value.and_then(|value| {
            let whole = value.as_integer().map(|whole| whole as f64);
            value.as_float().or(whole)
        });
        number
            .filter(|dollars| (0.0..=1e6).contains(dollars))
            .ok_or_else(|| {
                format!("`prices.{model}` needs `input` and `output`: dollars for a million tokens")
            })
    };
    Ok(Price {
        input: of("input")?,
        output: of("output")?,
    })
}

fn number(
    table: &toml::Table,
    section: &str,
    key: &str,
    range: RangeInclusive<u64>,
) -> Result<Option<u64>, String> {
    let Some(value) = table.get(section).and_then(|section| section.get(key)) else {
        return Ok(None);
    };
    let whole = value
        .as_integer()
        .and_then(|number| u64::try_from(number).ok());
    match whole.filter(|number| range.contains(number)) {
        Some(number) => Ok(Some(number)),
        None => Err(format!(
            "`{section}.{key}` must be a whole number from {} to {}, not {value}",
            range.start(),
            range.end()
        )),
    }
}

/// Returns a string setting. Blank strings are refused.
fn text(table: &toml::Table, section: &str, key: &str) -> Result<Option<String>, String> {
    let Some(value) = table.get(section).and_then(|section| section.get(key)) else {
        return Ok(None);
    };
    let text = value.as_str().filter(|text| !text.trim().is_empty());
    let wrong = || format!("`{section}.{key}` must be a string, not {value}");
    text.map(|text| Some(text.to_owned())).ok_or_else(wrong)
}

/// Returns a setting that is a list of strings.
fn texts(table: &toml::Table, section: &str, key: &str) -> Result<Option<Vec<String>>, String> {
    let Some(value) = table.get(section).and_then(|section| section.get(key)) else {
        return Ok(None);
    };
    let text = |value: &toml::Value| Some(value.as_str()?.to_owned());
    let texts = value
        .as_array()
        .and_then(|values| values.iter().map(text).collect());
    let wrong = || format!("`{section}.{key}` must be a list of strings, not {value}");
    texts.map(Some).ok_or_else(wrong)
}

/// Checks the paths that tools may write: files and folders in any workspace.
fn relative_paths(paths: Vec<String>) -> Result<Vec<PathBuf>, String> {
    let is_inside = |path: &Path| {
        let is_name = |part: Component<'_>| matches!(part, Component::Normal(_));
        path.components().next().is_some() && path.components().all(is_name)
    };
    let paths: Vec<PathBuf> = paths.into_iter().map(PathBuf::from).collect();
    match paths.iter().find(|path| !is_inside(path)) {
        None => Ok(paths),
        Some(wrong) => Err(format!(
            "`tools.allow_write` must contain paths relative to the workspace, without `..`, not {}",
            wrong.display()
        )),
    }
}

/// Returns the environment variables that programs of agents get by name.
fn pass_env(table: &toml::Table) -> Result<Vec<String>, String> {
    let names = texts(table, "env", "pass")?.unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for name in &names {
        let plain = name.strip_suffix('*').unwrap_or(name);
        if name.is_empty() || !plain.chars().all(fits) {
            return Err(format!(
                "`env.pass` must contain names of environment variables, which may end in `*`, not {name:?}"
            ));
        }
    }
    Ok(names)
}

/// Returns the path of the key file. It must be absolute, so that it means the same file from every
/// folder.
fn key_file(table: &toml::Table) -> Result<Option<PathBuf>, String> {
    let section = table.get("encryption");
    let Some(value) = section.and_then(|section| section.get("key_file")) else {
        return Ok(None);
    };
    let path = value.as_str().map(PathBuf::from);
    let wrong = || format!("`encryption.key_file` must be an absolute path, not {value}");
    path.filter(|path| path.is_absolute())
        .map(Some)
        .ok_or_else(wrong)
}

/// Returns file patterns. A pattern that can match nothing is refused.
fn patterns(table: &toml::Table, key: &str) -> Result<Vec<String>, String> {
    let patterns = texts(table, "checkpoints", key)?.unwrap_or_default();
    match patterns.iter().find(|text| !Rules::is_meaningful(text)) {
        Some(text) => Err(format!(
            "`checkpoints.{key}` has the pattern `{text}`, which matches nothing"
        )),
        None => Ok(patterns),
    }
}

fn boolean(table: &toml::Table, section: &str, key: &str) -> Result<Option<bool>, String> {
    match table.get(section).and_then(|section| section.get(key)) {
        None => Ok(None),
        Some(toml::Value::Boolean(choice)) => Ok(Some(*choice)),
        Some(other) => Err(format!(
            "`{section}.{key}` must be true or false, not {other}"
        )),
    }
}

fn key_names(table: &toml::Table) -> Vec<String> {
    let mut names = Vec::new();
    for (key, value) in table {
        match value {
            toml::Value::Table(inner) => {
                names.extend(inner.keys().map(|name| format!("{key}.{name}")));
            }
            value if key == "notices" => names.extend(notice_targets::unknown_keys(value)),
            _ => names.push(key.clone()),
        }
    }
    names
}
