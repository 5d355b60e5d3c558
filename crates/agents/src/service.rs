//! Segno's own MCP server, as programs are told of it: by their flags and for one start, so that the
//! person's settings and servers stay as they are.

use segno_core::agent::Request;
use serde_json::{Map, Value, json};

/// How the server is started. Whoever joins the parts knows that; for whom it is asked, a request says.
#[derive(Debug, Clone)]
pub struct Service {
    /// The name under which programs know it.
    pub name: &'static str,
    /// The program.
    pub program: String,
    /// Its first arguments; the session, the step and the agent follow.
    pub args: Vec<String>,
    /// What is added to its environment. It may be seen in a list of processes.
    pub env: Vec<(String, String)>,
    /// Names of variables that it is to have as they are, where a program hands on none by itself.
    pub inherit: Vec<String>,
}

impl Service {
    fn args(&self, request: &Request<'_>) -> Vec<String> {
        let mut args = self.args.clone();
        args.push(format!("--session={}", request.session));
        args.push(format!("--step={}", request.path));
        args.push(format!("--agent={}", request.agent));
        args
    }

    /// The flag for Claude Code. Without `--strict-mcp-config`, the person's own servers stay.
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

    /// How Claude Code calls all tools of the server, where it is told what may be used unasked.
    pub(crate) fn allowed(&self) -> String {
        format!("mcp__{}", self.name)
    }

    /// The flags for Codex, whose values are TOML. What is written as JSON here means the same there.
    pub(crate) fn codex(&self, request: &Request<'_>) -> Vec<String> {
        let key = |key: &str, value: Value| {
            let text = format!("mcp_servers.{}.{key}={value}", self.name);
            ["-c".to_owned(), text]
        };
        let mut flags = Vec::new();
        flags.extend(key("command", json!(self.program)));
        flags.extend(key("args", json!(self.args(request))));
        if !self.inherit.is_empty() {
            flags.extend(key("env_vars", json!(self.inherit)));
        }
        for (name, value) in &self.env {
            flags.extend(key(&format!("env.{name}"), json!(value)));
        }
        // Nobody is there to be asked.
        flags.extend(key("default_tools_approval_mode", json!("approve")));
        flags
    }

    /// The server, as a session of the Agent Client Protocol takes it.
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
