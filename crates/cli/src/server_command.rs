//! How other programs start Segno's MCP server: the command, and the settings that contain it.

use std::io;
use std::path::{Path, PathBuf};

use segno_integrations::hooks::shell::quoted;
use segno_integrations::mcp::NAME;
use serde_json::{Map, Value, json};

use crate::failure::Failure;

/// Environment variables that locate sessions and settings.
const LOCATION_VARIABLES: [&str; 3] = ["SEGNO_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"];

/// The path of this executable. One that was replaced on disk is available through `/proc` as long as
/// this process lives.
pub(crate) fn this_executable() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    if program.is_file() {
        return Ok(program);
    }
    let process = Path::new("/proc").join(std::process::id().to_string());
    Ok(process.join("exe"))
}

/// How to start the server from anywhere.
#[derive(Debug, Clone)]
pub(crate) struct ServerCommand {
    /// The path of this executable.
    pub(crate) program: String,
    pub(crate) args: Vec<String>,
    /// The variables of [`LOCATION_VARIABLES`] that are set.
    pub(crate) env: Vec<(String, String)>,
}

impl ServerCommand {
    /// Takes the executable and the locations from this process.
    pub(crate) fn from_this_process(
        more: impl IntoIterator<Item = String>,
    ) -> Result<Self, Failure> {
        let unnameable = |reason: String| {
            Failure::internal(format!("this program cannot be named to others: {reason}"))
        };
        let program = this_executable().map_err(|error| unnameable(error.to_string()))?;
        let Some(program) = program.to_str() else {
            return Err(unnameable(format!("{} is no text", program.display())));
        };
        let set = |name: &str| {
            let value = std::env::var(name).ok().filter(|value| !value.is_empty());
            value.map(|value| (name.to_owned(), value))
        };
        Ok(Self {
            program: program.to_owned(),
            args: std::iter::once("mcp".to_owned()).chain(more).collect(),
            env: LOCATION_VARIABLES.into_iter().filter_map(set).collect(),
        })
    }

    fn pairs(&self) -> Map<String, Value> {
        let pair = |(name, value): &(String, String)| (name.clone(), json!(value));
        self.env.iter().map(pair).collect()
    }

    /// The format of most MCP clients.
    pub(crate) fn json(&self) -> Value {
        json!({"mcpServers": {NAME: {
            "command": self.program,
            "args": self.args,
            "env": self.pairs(),
        }}})
    }

    /// The format of Claude Code's `.mcp.json`.
    pub(crate) fn claude(&self) -> Value {
        let mut shape = self.json();
        shape["mcpServers"][NAME]["type"] = "stdio".into();
        shape
    }

    /// The format of `session/new` in the Agent Client Protocol.
    pub(crate) fn acp(&self) -> Value {
        let pair = |(name, value): &(String, String)| json!({"name": name, "value": value});
        let env: Vec<Value> = self.env.iter().map(pair).collect();
        json!({"mcpServers": [{
            "name": NAME,
            "command": self.program,
            "args": self.args,
            "env": env,
        }]})
    }

    /// The format of Codex's `config.toml`.
    pub(crate) fn codex(&self) -> String {
        let mut section = toml::Table::new();
        section.insert("command".into(), self.program.clone().into());
        section.insert("args".into(), self.args.clone().into());
        if !self.env.is_empty() {
            let env: toml::Table = self
                .env
                .iter()
                .map(|(name, value)| (name.clone(), value.clone().into()))
                .collect();
            section.insert("env".into(), env.into());
        }
        let named = toml::Table::from_iter([(NAME.to_owned(), section.into())]);
        let all = toml::Table::from_iter([("mcp_servers".to_owned(), toml::Value::from(named))]);
        all.to_string().trim_end().to_owned()
    }

    /// Renders the shell command that adds the server, for CLI agents that have one.
    pub(crate) fn add_command(&self, program: &str, scope: &[&str]) -> String {
        let mut words: Vec<String> = vec![program.into(), "mcp".into(), "add".into()];
        words.extend(scope.iter().map(|word| (*word).to_owned()));
        words.push(NAME.to_owned());
        for (name, value) in &self.env {
            words.extend(["--env".to_owned(), shell_word(&format!("{name}={value}"))]);
        }
        words.push("--".to_owned());
        words.push(shell_word(&self.program));
        words.extend(self.args.iter().map(|arg| shell_word(arg)));
        words.join(" ")
    }
}

/// Quotes a shell word if necessary.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/_-.=:@%+,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        quoted(text)
    }
}
