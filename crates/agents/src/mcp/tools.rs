//! The tools of a server.

use std::path::Path;

use rmcp::model::Tool as McpTool;
use segno_core::ports::Boxed;
use segno_core::tool::{EffectClass, OfferedTool, Tools};
use segno_core::tool::{Tool, ToolCall};
use serde_json::{Value, json};

use super::server::Server;
use super::{ConnectionConfig, McpError, McpServer};
use crate::sanitize::sanitize;

/// How many bytes of a description are passed on.
const MAX_DESCRIPTION: usize = 4 << 10;

/// A server and its tools. Dropping this ends a server that is a program.
pub struct Mcp {
    server: Server,
    offers: Vec<OfferedTool>,
}

impl Mcp {
    /// Connects to a server and lists its tools. Of two tools with the same name, only the first
    /// can be called.
    pub async fn connect(server: McpServer, means: ConnectionConfig) -> Result<Self, McpError> {
        let server = Server::new(server, means);
        let mut offers: Vec<OfferedTool> = Vec::new();
        for tool in server.connect().await? {
            if !offers.iter().any(|known| *known.tool.name == *tool.name) {
                offers.push(offer(&tool));
            }
        }
        Ok(Self { server, offers })
    }
}

impl Tools for Mcp {
    fn offered_tools(&self) -> &[OfferedTool] {
        &self.offers
    }

    fn run<'a>(&'a self, call: &'a ToolCall, _: &'a Path) -> Boxed<'a, Result<String, String>> {
        Box::pin(self.server.call(&call.name, &call.input))
    }
}

pub(super) fn offer(tool: &McpTool) -> OfferedTool {
    let hints = tool.annotations.as_ref();
    let class = match hints.map(|hints| (hints.read_only_hint, hints.idempotent_hint)) {
        Some((Some(true), _)) => EffectClass::ReadOnly,
        Some((_, Some(true))) => EffectClass::Repeatable,
        _ => EffectClass::Effectful,
    };
    let description = tool.description.as_deref().unwrap_or_default();
    let mut schema = Value::Object((*tool.input_schema).clone());
    if !schema["type"].is_string() {
        schema["type"] = json!("object");
    }
    sanitize_descriptions(&mut schema);
    OfferedTool {
        tool: Tool {
            name: tool.name.clone().into_owned(),
            description: sanitize(description, MAX_DESCRIPTION),
            schema,
        },
        class,
    }
}

/// Sanitizes the descriptions inside a schema. Models do not read the rest of it as text.
fn sanitize_descriptions(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == "description" || name == "title" => {
                        *text = sanitize(text, MAX_DESCRIPTION);
                    }
                    other => sanitize_descriptions(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(sanitize_descriptions),
        _ => {}
    }
}
