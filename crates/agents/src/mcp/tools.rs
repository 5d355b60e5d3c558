//! The tools of all servers together.

use std::path::Path;
use std::sync::Arc;

use futures_util::future::try_join_all;
use rmcp::model::Tool as Listed;
use segno_core::error::Kind;
use segno_core::model::{Tool, ToolCall};
use segno_core::ports::Boxed;
use segno_core::tool::{Class, Offer, Tools};
use serde_json::{Value, json};

use super::server::Server;
use super::words::clean;
use super::{McpError, McpServer, Means, names};

/// How much of a description is passed on.
const DESCRIPTION: usize = 4 << 10;

/// Servers and what they offer. When this is dropped, the programs among them end.
pub struct Mcp {
    servers: Vec<Server>,
    offers: Vec<Offer>,
    /// For each offer, its server's place in the list, and its name there.
    sources: Vec<(usize, String)>,
}

impl Mcp {
    /// Starts or calls all servers at once, and asks each what it offers.
    pub async fn connect(servers: Vec<McpServer>, means: Means) -> Result<Self, McpError> {
        let ids: Vec<&str> = servers.iter().map(|server| server.id.as_str()).collect();
        let twice = (1..ids.len()).find(|at| ids[..*at].contains(&ids[*at]));
        if let Some(at) = twice {
            return Err(McpError {
                server: ids[at].to_owned(),
                tried: "telling servers apart".to_owned(),
                reason: "there is another server with this id".to_owned(),
                kind: Kind::Invalid,
                hint: None,
            });
        }
        let servers = servers.into_iter();
        let servers: Vec<Server> = servers
            .map(|server| Server::new(server, means.clone()))
            .collect();
        let listed = try_join_all(servers.iter().map(Server::connect)).await?;
        let (sources, offers) = joined(&servers, listed);
        Ok(Self {
            servers,
            offers,
            sources,
        })
    }

    /// The id of the server that offers this tool.
    pub fn server_of(&self, tool: &str) -> Option<&str> {
        let (server, _) = self.source(tool)?;
        Some(server.id())
    }

    /// Those tools whose server and name pass `wanted`; the servers are shared.
    pub fn select(self: &Arc<Self>, wanted: impl Fn(&str, &str) -> bool) -> Selection {
        let passes = |offer: &&Offer| {
            let name = &offer.tool.name;
            self.server_of(name)
                .is_some_and(|server| wanted(server, name))
        };
        Selection {
            offers: self.offers.iter().filter(passes).cloned().collect(),
            mcp: self.clone(),
        }
    }

    fn source(&self, tool: &str) -> Option<(&Server, &str)> {
        let at = self
            .offers
            .iter()
            .position(|offer| offer.tool.name == tool)?;
        let (server, name) = &self.sources[at];
        Some((&self.servers[*server], name))
    }
}

impl Tools for Mcp {
    fn offers(&self) -> &[Offer] {
        &self.offers
    }

    fn run<'a>(&'a self, call: &'a ToolCall, _: &'a Path) -> Boxed<'a, Result<String, String>> {
        Box::pin(async move {
            let (server, name) = self.source(&call.name).ok_or_else(|| unknown(call))?;
            server.call(name, &call.input).await
        })
    }
}

/// Some of the tools of an [`Mcp`].
pub struct Selection {
    mcp: Arc<Mcp>,
    offers: Vec<Offer>,
}

impl Tools for Selection {
    fn offers(&self) -> &[Offer] {
        &self.offers
    }

    fn run<'a>(
        &'a self,
        call: &'a ToolCall,
        workspace: &'a Path,
    ) -> Boxed<'a, Result<String, String>> {
        if self.offers.iter().any(|offer| offer.tool.name == call.name) {
            return self.mcp.run(call, workspace);
        }
        Box::pin(std::future::ready(Err(unknown(call))))
    }
}

fn unknown(call: &ToolCall) -> String {
    format!("there is no tool `{}`", call.name)
}

/// All that is listed, by names that differ. Of two with the same name at one server, only the first
/// can be called.
fn joined(servers: &[Server], listed: Vec<Vec<Listed>>) -> (Vec<(usize, String)>, Vec<Offer>) {
    let mut tools: Vec<(usize, Listed)> = Vec::new();
    for (at, listed) in listed.into_iter().enumerate() {
        for tool in listed {
            let is_known =
                |(other, known): &(usize, Listed)| *other == at && known.name == tool.name;
            if !tools.iter().any(is_known) {
                tools.push((at, tool));
            }
        }
    }
    let origins: Vec<(&str, &str)> = tools
        .iter()
        .map(|(at, tool)| (servers[*at].id(), tool.name.as_ref()))
        .collect();
    let names = names::assign(&origins);
    let named = tools.into_iter().zip(names);
    named
        .map(|((at, tool), name)| ((at, tool.name.clone().into_owned()), offer(&tool, name)))
        .unzip()
}

fn offer(tool: &Listed, name: String) -> Offer {
    let hints = tool.annotations.as_ref();
    let class = match hints.map(|hints| (hints.read_only_hint, hints.idempotent_hint)) {
        Some((Some(true), _)) => Class::ReadOnly,
        Some((_, Some(true))) => Class::Repeatable,
        _ => Class::Effectful,
    };
    let description = tool.description.as_deref().unwrap_or_default();
    let mut schema = Value::Object((*tool.input_schema).clone());
    if !schema["type"].is_string() {
        schema["type"] = json!("object");
    }
    tidy(&mut schema);
    Offer {
        tool: Tool {
            name,
            description: clean(description, DESCRIPTION),
            schema,
        },
        class,
    }
}

/// Cleans the descriptions inside a schema. Everything else in it is compared, not read.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == "description" || name == "title" => {
                        *text = clean(text, DESCRIPTION);
                    }
                    other => tidy(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}
