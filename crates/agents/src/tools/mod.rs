//! Segno's built-in tools. Those that access files do so only inside the workspace, and write only
//! what [`WritePolicy`] allows; those that use the network only reach what [`NetworkPolicy`] allows.
//! Whatever blocks runs in a thread of its own, with a deadline.

mod calculator;
pub(crate) mod cancellation;
mod files;
mod lines;
mod network_policy;
mod python;
mod skill;
mod time;
mod web;
pub(crate) mod workspace_files;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use segno_core::ports::{Boxed, Clock};
use segno_core::tool::{EffectClass, OfferedTool, Tools};
use segno_core::tool::{Tool, ToolCall};
use serde_json::{Value, json};

use crate::command::Launch;
pub use cancellation::{Cancellation, run_blocking};
pub use network_policy::{NetworkPolicy, NotAHost};
pub use skill::Skills;
pub use web::{Executor, Executors, Search, Web};
use workspace_files::WorkspaceFiles;
pub use workspace_files::WritePolicy;

/// How long a tool may work with files.
const FILES_TIMEOUT: Duration = Duration::from_secs(30);

/// The dependencies of the built-in tools.
#[derive(Clone)]
pub struct ToolDeps {
    /// The time, and timeouts.
    pub clock: Arc<dyn Clock>,
    pub web: Web,
    pub search: Search,
    /// Starts the process guard of programs that a tool runs.
    pub guard: Launch,
    /// Folders that appear in the workspace under these names.
    pub mounts: Vec<(String, PathBuf)>,
    /// What tools may not write.
    pub writes: WritePolicy,
    /// Whether code may write only to the workspace and a temporary folder, as far as the kernel
    /// can enforce that.
    pub confine_programs: bool,
}

/// What one tool call works with.
struct CallContext<'a> {
    workspace: &'a Path,
    deps: &'a ToolDeps,
}

/// What a tool call that uses files works with.
struct FileContext<'a> {
    files: WorkspaceFiles<'a>,
    cancellation: &'a Cancellation,
}

/// A built-in tool.
struct BuiltinTool {
    name: &'static str,
    description: &'static str,
    class: EffectClass,
    /// Its parameters: name, type, whether it is required, description.
    params: &'static [(&'static str, &'static str, bool, &'static str)],
    run: Run,
}

enum Run {
    /// At once: it computes for at most a moment.
    Sync(fn(&Value, &CallContext<'_>) -> Result<String, String>),
    /// In a thread of its own.
    Files(fn(&Value, &FileContext<'_>) -> Result<String, String>),
    /// Asynchronously.
    Async(for<'a> fn(&'a Value, &'a CallContext<'a>) -> Boxed<'a, Result<String, String>>),
}

const BUILTIN_TOOLS: &[BuiltinTool] = &[
    calculator::CALCULATOR,
    time::CURRENT_TIME,
    files::FILE_READ,
    files::FILE_WRITE,
    lines::GREP,
    lines::HEAD,
    lines::TAIL,
    lines::SEARCH,
    web::HTTP_REQUEST,
    web::WEB_FETCH,
    web::DUCKDUCKGO_SEARCH,
    web::TAVILY_SEARCH,
    python::PYTHON_EXEC,
];

impl BuiltinTool {
    fn offer(&self) -> OfferedTool {
        let properties = self.params.iter().map(|(name, type_name, _, what)| {
            let property = json!({"type": type_name, "description": what});
            ((*name).to_owned(), property)
        });
        let required = self.params.iter().filter(|(_, _, required, _)| *required);
        let schema = json!({
            "type": "object",
            "properties": properties.collect::<serde_json::Map<_, _>>(),
            "required": required.map(|(name, ..)| *name).collect::<Vec<_>>(),
        });
        OfferedTool {
            tool: Tool {
                name: self.name.to_owned(),
                description: self.description.to_owned(),
                schema,
            },
            class: self.class,
        }
    }

    /// Checks the input against the parameters.
    fn check(&self, input: &Value) -> Result<(), String> {
        let given = input.as_object().ok_or("the input must be an object")?;
        for (name, type_name, required, _) in self.params {
            let fits = match (given.get(*name), *type_name) {
                (None | Some(Value::Null), _) if *required => {
                    return Err(format!("`{name}` is missing"));
                }
                (None | Some(Value::Null), _) => true,
                (Some(value), "string") => value.is_string(),
                (Some(value), "integer") => value.is_u64(),
                (Some(value), "object") => value.is_object(),
                (Some(value), _) => value.is_boolean(),
            };
            if !fits {
                return Err(format!("`{name}` must be of type {type_name}"));
            }
        }
        let known = |name: &String| self.params.iter().any(|(known, ..)| known == name);
        match given.keys().find(|name| !known(name)) {
            Some(name) => Err(format!("`{name}` is not a parameter of this tool")),
            None => Ok(()),
        }
    }
}

/// A selection of the built-in tools.
pub struct BuiltinTools {
    deps: ToolDeps,
    offers: Vec<OfferedTool>,
}

impl BuiltinTools {
    /// The names of all built-in tools.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILTIN_TOOLS.iter().map(|tool| tool.name)
    }

    /// The tools with these names; unknown names are ignored.
    pub fn new(names: &[String], deps: ToolDeps) -> Self {
        let wanted = |tool: &&BuiltinTool| names.iter().any(|name| name == tool.name);
        let offers = BUILTIN_TOOLS
            .iter()
            .filter(wanted)
            .map(BuiltinTool::offer)
            .collect();
        Self { deps, offers }
    }
}

impl Tools for BuiltinTools {
    fn offered_tools(&self) -> &[OfferedTool] {
        &self.offers
    }

    fn run<'a>(
        &'a self,
        call: &'a ToolCall,
        workspace: &'a Path,
    ) -> Boxed<'a, Result<String, String>> {
        Box::pin(async move {
            let offered = self.offers.iter().any(|offer| offer.tool.name == call.name);
            let tool = BUILTIN_TOOLS.iter().find(|tool| tool.name == call.name);
            let tool = tool
                .filter(|_| offered)
                .ok_or_else(|| format!("there is no tool `{}`", call.name))?;
            tool.check(&call.input)?;
            let context = CallContext {
                workspace,
                deps: &self.deps,
            };
            match tool.run {
                Run::Sync(run) => run(&call.input, &context),
                Run::Files(run) => run_with_files(run, &call.input, &context).await,
                Run::Async(run) => run(&call.input, &context).await,
            }
        })
    }
}

async fn run_with_files(
    run: fn(&Value, &FileContext<'_>) -> Result<String, String>,
    input: &Value,
    context: &CallContext<'_>,
) -> Result<String, String> {
    let ToolDeps {
        clock,
        mounts,
        writes,
        ..
    } = context.deps.clone();
    let (input, workspace) = (input.clone(), context.workspace.to_owned());
    let work = move |cancellation: &Cancellation| {
        let files = WorkspaceFiles::new(&workspace, &mounts, &writes, cancellation)?;
        let context = FileContext {
            files,
            cancellation,
        };
        run(&input, &context)
    };
    run_blocking(&*clock, FILES_TIMEOUT, work).await
}

fn text<'a>(input: &'a Value, name: &str) -> &'a str {
    input[name].as_str().unwrap_or_default()
}

fn number(input: &Value, name: &str, default: usize) -> usize {
    let given = input[name].as_u64().and_then(|n| usize::try_from(n).ok());
    given.unwrap_or(default)
}

fn flag(input: &Value, name: &str, default: bool) -> bool {
    input[name].as_bool().unwrap_or(default)
}
