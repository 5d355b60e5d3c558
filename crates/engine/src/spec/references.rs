//! Files that a spec refers to, read into it: agents kept elsewhere (`$ref`), and schemas.
//!
//! What comes out is one spec that stands alone. It is what is kept with a session, and what its
//! digest is taken of: so an edit of any of the files is noticed.

use std::path::Path;

use serde_json::Value;

use super::node::{self, Entry, Node, Tree};
use super::problem::{Fault, Problem};

/// Reads a file that a spec names, relative to the spec.
pub type Files<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// What may be said about an agent besides where it is kept.
const OVERRIDES: [&str; 6] = [
    "prompt",
    "tools",
    "provider",
    "model_id",
    "inference",
    "command",
];

/// Reads every file that `root` refers to into it. Whether there was any.
pub(super) fn resolve(root: &mut Node, files: Files<'_>) -> Result<bool, Vec<Problem>> {
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
        let mut tell = |message: String, more: &str| {
            problems.push(Problem {
                pointer: format!("{pointer}{more}"),
                line: Some(line),
                message,
                nearest: None,
                fault: Fault::Invalid,
            });
        };
        match reference(&mut agent.node, files) {
            Ok(is_one) => found |= is_one,
            Err(message) => tell(message, "/$ref"),
        }
        for schema in ["input_schema", "output_schema"] {
            match read_schema(&mut agent.node, schema, files) {
                Ok(is_one) => found |= is_one,
                Err(message) => tell(message, &format!("/{schema}")),
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

/// Puts the agent that is kept elsewhere in the place of its reference.
fn reference(agent: &mut Node, files: Files<'_>) -> Result<bool, String> {
    if !entries(agent).iter().any(|entry| entry.key == "$ref") {
        return Ok(false);
    }
    let file = text(agent, "$ref").ok_or("must be the name of a file")?;
    let file = file.to_owned();
    let content = files(&file).map_err(|reason| format!("{file} cannot be read: {reason}"))?;
    let kept = node::read(&content).map_err(|problem| format!("{file}: {}", problem.message))?;
    let mut kept = only_agent(kept).ok_or_else(|| {
        format!("{file} must hold one agent: a spec with one, or a mapping with a `prompt`")
    })?;
    if text(&kept, "$ref").is_some() {
        return Err(format!("{file} refers to another file itself"));
    }
    // Its schemas are found beside it.
    let folder = Path::new(&file).parent().unwrap_or(Path::new(""));
    for entry in entries(&mut kept) {
        if let ("input_schema" | "output_schema", Tree::Scalar(Value::String(path))) =
            (entry.key.as_str(), &mut entry.node.tree)
        {
            *path = folder.join(&*path).display().to_string();
        }
    }
    let line = agent.line;
    on_line(&mut kept, line);
    let Tree::Map(merged) = &mut kept.tree else {
        unreachable!("an agent is a mapping")
    };
    let own = std::mem::replace(&mut agent.tree, Tree::Map(Vec::new()));
    let Tree::Map(own) = own else {
        unreachable!("it has a `$ref`")
    };
    for entry in own.into_iter().filter(|entry| entry.key != "$ref") {
        if !OVERRIDES.contains(&entry.key.as_str()) {
            return Err(format!("`{}` cannot be set beside `$ref`", entry.key));
        }
        merged.retain(|known| known.key != entry.key);
        merged.push(entry);
    }
    *agent = kept;
    Ok(true)
}

/// The agent in a file: the only one of a spec, or the file itself.
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

fn on_line(node: &mut Node, line: usize) {
    node.line = line;
    match &mut node.tree {
        Tree::Scalar(_) => {}
        Tree::List(items) => items.iter_mut().for_each(|item| on_line(item, line)),
        Tree::Map(entries) => {
            for entry in entries {
                entry.line = line;
                on_line(&mut entry.node, line);
            }
        }
    }
}

/// Puts a schema in the place of the name of its file.
fn read_schema(agent: &mut Node, key: &str, files: Files<'_>) -> Result<bool, String> {
    let Some(file) = text(agent, key).map(str::to_owned) else {
        return Ok(false);
    };
    let content = files(&file).map_err(|reason| format!("{file} cannot be read: {reason}"))?;
    let mut schema =
        node::read(&content).map_err(|problem| format!("{file}: {}", problem.message))?;
    let entry = entries(agent).iter_mut().find(|entry| entry.key == key);
    if let Some(entry) = entry {
        on_line(&mut schema, entry.line);
        entry.node = schema;
    }
    Ok(true)
}
