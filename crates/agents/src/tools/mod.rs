//! The tools that Segno brings along. Those that touch files do so only inside the workspace, those
//! that call others only what is in [`Reach`].

mod calculator;
mod files;
mod lines;
pub(crate) mod place;
mod python;
mod reach;
mod skill;
mod time;
mod web;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use segno_core::model::{Tool, ToolCall};
use segno_core::ports::{Boxed, Clock, Disk};
use segno_core::tool::{Class, Offer, Tools};
use serde_json::{Value, json};

use crate::command::Launch;
use place::Place;
pub use reach::{NotAHost, Reach};
pub use skill::Skills;
pub use web::{Executor, Executors, Search, Web};

/// What the tools that Segno brings along are given.
#[derive(Clone)]
pub struct Gear {
    /// Files.
    pub disk: Arc<dyn Disk>,
    /// Time, and how long things may take.
    pub clock: Arc<dyn Clock>,
    /// The web, as far as it may be called.
    pub web: Web,
    /// Where is searched.
    pub search: Search,
    /// What ends programs that a tool starts.
    pub warden: Launch,
    /// Folders that are seen in the workspace under these names.
    pub mounts: Vec<(String, PathBuf)>,
}

/// What a tool works with.
struct Bench<'a> {
    place: Place<'a>,
    gear: &'a Gear,
}

/// A tool that Segno brings along.
struct Native {
    name: &'static str,
    description: &'static str,
    class: Class,
    /// What it takes: names, sorts, whether it is needed, and what it is.
    takes: &'static [(&'static str, &'static str, bool, &'static str)],
    run: Run,
}

/// How a tool runs.
enum Run {
    /// At once.
    Now(fn(&Value, &Bench<'_>) -> Result<String, String>),
    /// It waits for others.
    Later(for<'a> fn(&'a Value, &'a Bench<'a>) -> Boxed<'a, Result<String, String>>),
}

const NATIVE: &[Native] = &[
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

impl Native {
    fn offer(&self) -> Offer {
        let properties = self.takes.iter().map(|(name, sort, _, what)| {
            let property = json!({"type": sort, "description": what});
            ((*name).to_owned(), property)
        });
        let needed = self.takes.iter().filter(|(_, _, needed, _)| *needed);
        let schema = json!({
            "type": "object",
            "properties": properties.collect::<serde_json::Map<_, _>>(),
            "required": needed.map(|(name, ..)| *name).collect::<Vec<_>>(),
        });
        Offer {
            tool: Tool {
                name: self.name.to_owned(),
                description: self.description.to_owned(),
                schema,
            },
            class: self.class,
        }
    }

    /// Refuses what it does not take.
    fn check(&self, input: &Value) -> Result<(), String> {
        let given = input.as_object().ok_or("the input must be an object")?;
        for (name, sort, needed, _) in self.takes {
            let fits = match (given.get(*name), *sort) {
                (None | Some(Value::Null), _) if *needed => {
                    return Err(format!("`{name}` is missing"));
                }
                (None | Some(Value::Null), _) => true,
                (Some(value), "string") => value.is_string(),
                (Some(value), "integer") => value.is_u64(),
                (Some(value), "object") => value.is_object(),
                (Some(value), _) => value.is_boolean(),
            };
            if !fits {
                return Err(format!("`{name}` must be of type {sort}"));
            }
        }
        let known = |name: &String| self.takes.iter().any(|(known, ..)| known == name);
        match given.keys().find(|name| !known(name)) {
            Some(name) => Err(format!("`{name}` is not something that this tool takes")),
            None => Ok(()),
        }
    }
}

/// Some of the tools that Segno brings along.
pub struct NativeTools {
    gear: Gear,
    offers: Vec<Offer>,
}

impl NativeTools {
    /// The names of all there are.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NATIVE.iter().map(|tool| tool.name)
    }

    /// Those with these names; others are left out.
    pub fn new(names: &[String], gear: Gear) -> Self {
        let wanted = |tool: &&Native| names.iter().any(|name| name == tool.name);
        let offers = NATIVE.iter().filter(wanted).map(Native::offer).collect();
        Self { gear, offers }
    }
}

impl Tools for NativeTools {
    fn offers(&self) -> &[Offer] {
        &self.offers
    }

    fn run<'a>(
        &'a self,
        call: &'a ToolCall,
        workspace: &'a Path,
    ) -> Boxed<'a, Result<String, String>> {
        Box::pin(async move {
            let offered = self.offers.iter().any(|offer| offer.tool.name == call.name);
            let tool = NATIVE.iter().find(|tool| tool.name == call.name);
            let tool = tool
                .filter(|_| offered)
                .ok_or_else(|| format!("there is no tool `{}`", call.name))?;
            tool.check(&call.input)?;
            let bench = Bench {
                place: Place::new(workspace, &self.gear.mounts, &*self.gear.disk)?,
                gear: &self.gear,
            };
            match tool.run {
                Run::Now(run) => run(&call.input, &bench),
                Run::Later(run) => run(&call.input, &bench).await,
            }
        })
    }
}

fn text<'a>(input: &'a Value, name: &str) -> &'a str {
    input[name].as_str().unwrap_or_default()
}

fn number(input: &Value, name: &str, otherwise: usize) -> usize {
    let given = input[name].as_u64().and_then(|n| usize::try_from(n).ok());
    given.unwrap_or(otherwise)
}

fn flag(input: &Value, name: &str, otherwise: bool) -> bool {
    input[name].as_bool().unwrap_or(otherwise)
}
