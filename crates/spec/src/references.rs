//! Inlines the files that a spec refers to: agents in other files (`$ref`), and schemas.
//!
//! The result is one self-contained spec. The session stores it, and its digest covers it, so that
//! an edit of any of these files is detected.

use std::path::Path;

use serde_json::Value;

use super::node::{self, Entry, Node, Tree};
use super::problem::{Fault, Problem};

/// Reads a file that a spec names, relative to the spec.
pub type FileReader<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// The keys that may be set beside `$ref`.
const OVERRIDES: [&str; 6] = [
    "prompt",
    "tools",
    "provider",
    "model_id",
    "inference",
    "command",
];

/// Inlines every file that `root` refers to. Returns whether there was any.
pub(super) fn resolve(root: &mut Node, files: FileReader<'_>) -> Result<bool, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut found = false;
    for agent in entries(root)
        .iter_mut()
        .filter(|entry| entry.key == "agents")
        .flat_map(|agents| entries(&mut agents.node))
    {
        let pointer = format!(
            "/agents/{}",
            agent.key.replace('~', "~0").replace('/', "~1")
        );
        let line = agent.line;
        let mut report = |message: String, more: &str| {
            problems.push(Problem {
                pointer: format!("{pointer}{more}"),
                line: Some(line),
                message,
                nearest: None,
                fault: Fault::Invalid,
            });
        };
        match inline_agent(&mut agent.node, files) {
            Ok(is_one) => found |= is_one,
            Err(message) => report(message, "/$ref"),
        }
        for schema in ["input_schema", "output_schema"] {
            match inline_schema(&mut agent.node, schema, files) {
                Ok(is_one) => found |= is_one,
                Err(message) => report(message, &format!("/{schema}")),
            }
        }
    }
    if problems.is_empty() {
        Ok(found)
    } else {
        Err(problems)
    }
}

fn entries(node: &mut Node) -> &mut [Entry] {
    match &mut node.tree {
        Tree::Map(entries) => entries,
        _ => &mut [],
    }
}

fn text<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    let Tree::Map(entries) = &node.tree else {
        return None;
    };
    let entry = entries.iter().find(|entry| entry.key == key)?;
    match &entry.node.tree {
        Tree::Scalar(Value::String(text)) => Some(text),
        _ => None,
    }
}

/// Replaces a `$ref` by the agent in its file.
fn inline_agent(agent: &mut Node, files: FileReader<'_>) -> Result<bool, String> {
    if !entries(agent).iter().any(|entry| entry.key == "$ref") {
        return Ok(false);
    }
    let file = text(agent, "$ref").ok_or("must be the name of a file")?;
    let file = file.to_owned();
    let content = files(&file).map_err(|reason| format!("{file} cannot be read: {reason}"))?;
    let loaded = node::read(&content).map_err(|problem| format!("{file}: {}", problem.message))?;
    let mut loaded = only_agent(loaded).ok_or_else(|| {
        format!("{file} must define one agent: a spec with one agent, or a mapping with a `prompt`")
    })?;
    if text(&loaded, "$ref").is_some() {
        return Err(format!(
            "{file} has a `$ref` itself; references cannot be nested"
        ));
    }
    // The paths of its schemas are relative to that file.
    let folder = Path::new(&file).parent().unwrap_or(Path::new(""));
    for entry in entries(&mut loaded) {
        if let ("input_schema" | "output_schema", Tree::Scalar(Value::String(path))) =
            (entry.key.as_str(), &mut entry.node.tree)
        {
            *path = folder.join(&*path).display().to_string();
        }
    }
    let line = agent.line;
    set_line(&mut loaded, line);
    let Tree::Map(merged) = &mut loaded.tree else {
        unreachable!("an agent is a mapping")
    };
    let own = std::mem::replace(&mut agent.tree, Tree::Map(Vec::new()));
    let Tree::Map(own) = own else {
        unreachable!("it has a `$ref`")
    };
    for entry in own.into_iter().filter(|entry| entry.key != "$ref") {
        if !OVERRIDES.contains(&entry.key.as_str()) {
            return Err(format!("`{}` cannot be combined with `$ref`", entry.key));
        }
        merged.retain(|known| known.key != entry.key);
        merged.push(entry);
    }
    *agent = loaded;
    Ok(true)
}

/// The agent in a file: the only agent of a spec, or the file itself.
fn only_agent(file: Node) -> Option<Node> {
    if text(&file, "prompt").is_some() {
        return Some(file);
    }
    let Tree::Map(entries) = file.tree else {
        return None;
    };
    let agents = entries.into_iter().find(|entry| entry.key == "agents")?;
    let Tree::Map(mut agents) = agents.node.tree else {
        return None;
    };
    let agent = agents.pop().filter(|_| agents.is_empty())?;
    matches!(agent.node.tree, Tree::Map(_)).then_some(agent.node)
}

fn set_line(node: &mut Node, line: usize) {
    node.line = line;
    match &mut node.tree {
        Tree::Scalar(_) => {}
        Tree::List(items) => items.iter_mut().for_each(|item| set_line(item, line)),
        Tree::Map(entries) => {
            for entry in entries {
                entry.line = line;
                set_line(&mut entry.node, line);
            }
        }
    }
}

/// Replaces the name of a schema file by its content.
fn inline_schema(agent: &mut Node, key: &str, files: FileReader<'_>) -> Result<bool, String> {
    let Some(file) = text(agent, key).map(str::to_owned) else {
        return Ok(false);
    };
    let content = files(&file).map_err(|reason| format!("{file} cannot be read: {reason}"))?;
    let mut schema =
        node::read(&content).map_err(|problem| format!("{file}: {}", problem.message))?;
    if matches!(schema.tree, Tree::Scalar(Value::String(_))) {
        return Err(format!("{file} has a text in it, not a JSON schema"));
    }
    let entry = entries(agent).iter_mut().find(|entry| entry.key == key);
    if let Some(entry) = entry {
        set_line(&mut schema, entry.line);
        entry.node = schema;
    }
    Ok(true)
}
