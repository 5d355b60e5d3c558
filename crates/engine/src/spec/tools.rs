//! The `tools` block, and the names of tools wherever they stand.

use super::fields::Keys;
use super::place::{Place, shortened};

const KEYS: Keys = Keys {
    required: &[],
    optional: &["python"],
    later: &[
        ("http_executors", "this version calls no other services"),
        ("mcp", "this version speaks to no MCP servers"),
    ],
};
const CALLABLE_KEYS: Keys = Keys {
    required: &["callable"],
    optional: &[],
    later: &[],
};

/// The tools that Segno brings along.
pub const NATIVE: [&str; 8] = [
    "calculator",
    "current_time",
    "file_read",
    "file_write",
    "grep",
    "head",
    "tail",
    "search",
];

/// Tools of the format that a later version has.
const LATER: [&str; 6] = [
    "http_request",
    "web_fetch",
    "python_exec",
    "duckduckgo_search",
    "tavily_search",
    "spec_verify",
];

/// The tools that agents get unless they choose themselves.
pub(super) fn read(place: &Place<'_>) -> Vec<String> {
    let fields = place.fields(&KEYS);
    let places = fields.read("python", |place| place.list(0));
    let names = places.iter().filter_map(|place| {
        if place.is_map() {
            let callable = place.fields(&CALLABLE_KEYS).get("callable")?;
            name(&callable)
        } else {
            name(place)
        }
    });
    names.collect()
}

/// A list of tools.
pub(super) fn list(place: &Place<'_>) -> Vec<String> {
    place.list(0).iter().filter_map(name).collect()
}

/// The name of a tool that there is, with or without the module that others keep it in.
fn name(place: &Place<'_>) -> Option<String> {
    let given = place.line_of_text();
    let name = given.rsplit('.').next().unwrap_or_default();
    if NATIVE.contains(&name) {
        return Some(name.to_owned());
    }
    if LATER.contains(&name) {
        place.unsupported(format!("tool `{name}` is not supported yet"));
    } else if !given.is_empty() {
        let message = format!("no such tool: `{}`", shortened(&given));
        place.unknown(message, name, NATIVE.into_iter().chain(LATER));
    }
    None
}
