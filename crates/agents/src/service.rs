//! Segno's own MCP server, as programs receive it: by flags and for one start, so that the user's
//! settings and servers stay as they are.

use segno_core::agent::Request;
use serde_json::{Map, Value, json};

/// How the server is started. The composition root fills this in; the request says for which
/// session, step and agent.
#[derive(Debug, Clone)]
pub struct SegnoMcpServer {
    /// The name under which programs see it.
    pub name: &'static str,
    pub program: String,
    /// Its first arguments; session, step and agent are appended.
    pub args: Vec<String>,
    /// Added to its environment. Other users may see these in the process list.
    pub env: Vec<(String, String)>,
    /// Names of variables that it inherits, for programs that pass on none by default.
    pub inherited_variables: Vec<String>,
}

impl SegnoMcpServer {
    fn args(&self, request: &Request<'_>) -> Vec<String> {
        let mut args = self.args.clone();
        args.push(format!("--session={}", request.session));
        args.push(format!("--step={}", request.path));
        args.push(format!("--agent={}", request.agent));
        args
    }

    /// The flag for Claude Code. Without `--strict-mcp-config`, the user's own servers stay.
    pub(crate) fn claude(&self, request: &Request<'_>) -> String {
        let pair = |(name, value): &(String, String)| (name.clone(), json!(value));
        let env: Map<String, Value> = self.env.iter().map(pair).collect();
        let servers = json!({"mcpServers": {self.name: {
            "type": "stdio",
            "command": self.program,
            "args": self.args(request),
            "env": env,
        }}});
        format!("--mcp-config={servers}")
    }

    /// The pattern for all tools of the server in Claude Code's `--allowedTools`.
    pub(crate) fn allowed(&self) -> String {
        format!("mcp__{}", self.name)
    }

    /// The flags for Codex. Their values are TOML; the JSON that is written here means the same in
    /// TOML.
    pub(crate) fn codex(&self, request: &Request<'_>) -> Vec<String> {
        let key = |key: &str, value: Value| {
            let text = format!("mcp_servers.{}.{key}={value}", self.name);
            ["-c".to_owned(), text]
        };
        let mut flags = Vec::new();
        flags.extend(key("command", json!(self.program)));
        flags.extend(key("args", json!(self.args(request))));
        if !self.inherited_variables.is_empty() {
            flags.extend(key("env_vars", json!(self.inherited_variables)));
        }
        for (name, value) in &self.env {
            flags.extend(key(&format!("env.{name}"), json!(value)));
        }
        // No user is there to approve.
        flags.extend(key("default_tools_approval_mode", json!("approve")));
        flags
    }

    /// The server as an entry of `mcpServers` in ACP's `session/new`.
    pub(crate) fn acp(&self, request: &Request<'_>) -> Value {
        let pair = |(name, value): &(String, String)| json!({"name": name, "value": value});
        let env: Vec<Value> = self.env.iter().map(pair).collect();
        json!({
            "name": self.name,
            "command": self.program,
            "args": self.args(request),
            "env": env,
        })
    }
}
