//! Finds, adds and removes Segno's hooks in the text of a settings file. Pure functions; no other
//! byte changes. CLI agents ignore a file with comments or trailing commas, so hooks are not added to
//! one; they can be removed from one.
//!
//! Claude Code and Codex use the same format: `hooks` maps each event to a list of groups, and each
//! group has a list of hooks.

use std::iter;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Value as Json, json};

use super::json_text::{Document, Item, Member, Place, parse};
use super::{Agent, HOOK, shell};

/// Makes the command always succeed: some CLI agents take a failing exit code as "do not stop yet".
const ALWAYS_SUCCEED: &str = " || true";
/// How long the CLI agent waits for a hook, in seconds.
const TIMEOUT_SECONDS: u64 = 5;

/// The command of one of Segno's hooks, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The `segno` executable.
    pub binary: PathBuf,
    /// The home folder that notifications are written to. It is part of the command, because the
    /// environment of an agent may be influenced by the folder that it works in.
    pub home: PathBuf,
}

/// A settings file after Segno's hooks were added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filled {
    pub text: String,
    /// The inserted ranges, in order. Removing them restores the original text.
    pub added: Vec<Range<usize>>,
}

impl Call {
    /// Renders the shell command. Returns `None` if a path is not UTF-8.
    pub fn command(&self, agent: Agent) -> Option<String> {
        let binary = shell::quoted(self.binary.to_str()?);
        let home = shell::quoted(self.home.to_str()?);
        Some(format!(
            "{binary} {HOOK} {} {home}{ALWAYS_SUCCEED}",
            agent.word()
        ))
    }

    /// Parses a command, if it is one of Segno's hooks.
    fn parse(command: &str, agent: Agent) -> Option<Self> {
        let words = shell::words(command.strip_suffix(ALWAYS_SUCCEED)?)?;
        let [binary, hook, word, home] = <[String; 4]>::try_from(words).ok()?;
        let call = Self {
            binary: binary.into(),
            home: home.into(),
        };
        let ours = hook == HOOK && word == agent.word();
        (ours && call.binary.is_absolute() && call.home.is_absolute()).then_some(call)
    }
}

/// Finds Segno's hooks. Returns the event and the command of each.
pub fn find(text: &str, agent: Agent) -> Result<Vec<(String, Call)>, String> {
    let document = standard(text)?;
    let mut found = Vec::new();
    for event in events(&document.root)? {
        for group in event.item.items().unwrap_or_default() {
            let calls = hooks(group).iter().filter_map(|hook| call(hook, agent));
            found.extend(calls.map(|call| (event.name.clone(), call)));
        }
    }
    Ok(found)
}

/// Adds Segno's hooks to all events.
pub fn add(text: &str, command: &str) -> Result<Filled, String> {
    let mut filled = Filled {
        text: text.to_owned(),
        added: Vec::new(),
    };
    let group =
        json!({"hooks": [{"type": "command", "command": command, "timeout": TIMEOUT_SECONDS}]});
    let empty = standard(text)?;
    if empty.root.member("hooks").is_none() {
        let all: serde_json::Map<String, Json> = Agent::EVENTS
            .into_iter()
            .map(|event| (event.to_owned(), json!([group])))
            .collect();
        filled.append(&empty.root, &empty.root, Some("hooks"), &Json::Object(all));
        return Ok(filled);
    }
    for event in Agent::EVENTS {
        let document = document(&filled.text)?;
        events(&document.root)?;
        let hooks = document.root.member("hooks");
        let hooks = &hooks.expect("it was there before").item;
        match hooks.member(event) {
            Some(event) => filled.append(&document.root, &event.item, None, &group),
            None => filled.append(&document.root, hooks, Some(event), &json!([group])),
        }
    }
    Ok(filled)
}

/// Removes Segno's hooks, and containers that become empty.
pub fn remove(text: &str, agent: Agent) -> Result<String, String> {
    let mut text = text.to_owned();
    while let Some(cuts) = first_cuts(&text, agent)? {
        text = remove_ranges(&text, &cuts).expect("the ranges are of this text");
    }
    Ok(text)
}

/// Removes the inserted ranges from the text.
pub fn remove_ranges(text: &str, added: &[Range<usize>]) -> Option<String> {
    let mut text = text.to_owned();
    for range in added.iter().rev() {
        text.get(range.clone())?;
        text.replace_range(range.clone(), "");
    }
    Some(text)
}

/// Returns the ranges to remove for Segno's first hook, in order.
fn first_cuts(text: &str, agent: Agent) -> Result<Option<Vec<Range<usize>>>, String> {
    let document = document(text)?;
    let root = &document.root;
    let Some(hooks_member) = root.member("hooks") else {
        return Ok(None);
    };
    for (place, event) in events(root)?.iter().enumerate() {
        let groups = event.item.items().unwrap_or_default();
        for (nth, group) in groups.iter().enumerate() {
            let list = hooks(group);
            let Some(index) = list.iter().position(|hook| call(hook, agent).is_some()) else {
                continue;
            };
            let own = group.member("hooks").expect("its list was found");
            let at_root = root.members().unwrap_or_default();
            let at_root = at_root.iter().position(|member| member == hooks_member);
            let levels = [
                (&own.item, index),
                (&event.item, nth),
                (&hooks_member.item, place),
                (root, at_root.unwrap_or(0)),
            ];
            // Remove the innermost element that is not alone in its container, so that no empty
            // container is left.
            let level = levels
                .iter()
                .find(|(container, index)| !is_alone(&document, container, *index));
            return Ok(Some(match level {
                Some((container, index)) => cuts(text, &container.places(), *index),
                None => iter::once(root.place.at.start + 1..root.place.at.end - 1).collect(),
            }));
        }
    }
    Ok(None)
}

/// Whether a container has nothing but this element: no other element, no comment.
fn is_alone(document: &Document, container: &Item, index: usize) -> bool {
    let places = container.places();
    let inside = document.comments(&container.place.at).count();
    places.len() == 1 && inside == document.comments(&places[index].at).count()
}

/// Returns the ranges to remove for one element: it, its comma, and the space before it.
fn cuts(text: &str, places: &[Place], index: usize) -> Vec<Range<usize>> {
    let Place { at, comma } = &places[index];
    let before = &text[..at.start];
    let mut start = before.trim_end_matches([' ', '\t', '\r', '\n']).len();
    let end = comma.map_or(at.end, |comma| comma + 1);
    // A line comment before it must still end.
    let ends_line = text[end..].trim_start_matches([' ', '\t']);
    if !ends_line.starts_with(['\r', '\n']) && before[start..].contains('\n') {
        start = at.start;
    }
    let element = start..at.end;
    let comma_at = |comma: usize| comma..comma + 1;
    match (
        comma,
        index.checked_sub(1).and_then(|one| places[one].comma),
    ) {
        (Some(comma), _) => vec![element, comma_at(*comma)],
        (None, Some(previous)) => vec![comma_at(previous), element],
        (None, None) => iter::once(element).collect(),
    }
}

/// Parses a file that the agent reads: standard JSON.
fn standard(text: &str) -> Result<Document, String> {
    let document = document(text)?;
    match document.deviation(text) {
        Some(deviation) => Err(format!("{deviation}: the agent ignores such a file")),
        None => Ok(document),
    }
}

fn document(text: &str) -> Result<Document, String> {
    let document = parse(text)?;
    if document.root.members().is_none() {
        return Err("it is not an object".into());
    }
    Ok(document)
}

/// Returns the events that have hooks. A file that does not have the expected format is refused,
/// not changed.
fn events(root: &Item) -> Result<&[Member], String> {
    let several = |members: &[Member], name: &str| {
        members.iter().filter(|member| member.name == name).count() > 1
    };
    if several(root.members().unwrap_or_default(), "hooks") {
        return Err("it has `hooks` several times".into());
    }
    let Some(hooks) = root.member("hooks") else {
        return Ok(&[]);
    };
    let events = hooks.item.members();
    let events = events.ok_or_else(|| "its `hooks` is not an object".to_owned())?;
    for event in events
        .iter()
        .filter(|event| Agent::EVENTS.contains(&event.name.as_str()))
    {
        if event.item.items().is_none() {
            return Err(format!("its `hooks.{}` is not a list", event.name));
        }
        if several(events, &event.name) {
            return Err(format!("it has `hooks.{}` several times", event.name));
        }
    }
    Ok(events)
}

fn hooks(group: &Item) -> &[Item] {
    let list = group.member("hooks").and_then(|member| member.item.items());
    list.unwrap_or_default()
}

fn call(hook: &Item, agent: Agent) -> Option<Call> {
    Call::parse(hook.text("command")?, agent)
}

impl Filled {
    /// Appends a value to an object or a list, in the layout of its neighbours.
    fn append(&mut self, root: &Item, container: &Item, name: Option<&str>, value: &Json) {
        let text = &self.text;
        let style = Style::of(text, root);
        let (at, piece) = match container.places().pop() {
            None => style.first(text, container, name, value),
            Some(last) => match margin(text, last.at.start) {
                Some(margin) => {
                    let new = style.render(name, value, margin);
                    (last.at.end, format!(",{}{margin}{new}", style.end))
                }
                None => (last.at.end, format!(",{}", render_flat(name, value))),
            },
        };
        self.insert(at, &piece);
    }

    fn insert(&mut self, at: usize, piece: &str) {
        self.text.insert_str(at, piece);
        let mut inside = false;
        for range in &mut self.added {
            if at <= range.start {
                range.start += piece.len();
                range.end += piece.len();
            } else if at < range.end {
                range.end += piece.len();
                inside = true;
            }
        }
        if !inside {
            self.added.push(at..at + piece.len());
            self.added.sort_by_key(|range| range.start);
        }
    }
}

/// The layout of a file: line ending, indentation, one line or many.
struct Style {
    end: &'static str,
    step: String,
    is_flat: bool,
}

impl Style {
    fn of(text: &str, root: &Item) -> Self {
        let first = root.places().into_iter().next();
        let step = first
            .as_ref()
            .and_then(|first| margin(text, first.at.start))
            .filter(|step| !step.is_empty());
        Self {
            end: if text.contains("\r\n") { "\r\n" } else { "\n" },
            step: step.unwrap_or("  ").to_owned(),
            is_flat: first.is_some() && !text.trim_end().contains('\n'),
        }
    }

    /// Renders the first element of a container, and returns where to insert it.
    fn first(
        &self,
        text: &str,
        container: &Item,
        name: Option<&str>,
        value: &Json,
    ) -> (usize, String) {
        let at = container.place.at.start + 1;
        if self.is_flat {
            return (at, render_flat(name, value));
        }
        let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let outer = &text[line..];
        let outer = &outer[..outer.len() - outer.trim_start_matches([' ', '\t']).len()];
        let margin = format!("{outer}{}", self.step);
        let mut piece = format!("{}{margin}{}", self.end, self.render(name, value, &margin));
        if !text[container.place.at.clone()].contains('\n') {
            piece.push_str(self.end);
            piece.push_str(outer);
        }
        (at, piece)
    }

    fn render(&self, name: Option<&str>, value: &Json, margin: &str) -> String {
        let mut bytes = Vec::new();
        let form = PrettyFormatter::with_indent(self.step.as_bytes());
        let written = value.serialize(&mut Serializer::with_formatter(&mut bytes, form));
        written.expect("memory takes everything");
        let pretty = String::from_utf8(bytes).expect("JSON is text");
        let pretty = pretty.replace('\n', &format!("{}{margin}", self.end));
        name.map_or(pretty.clone(), |name| {
            format!("{}: {pretty}", Json::from(name))
        })
    }
}

fn render_flat(name: Option<&str>, value: &Json) -> String {
    name.map_or(value.to_string(), |name| {
        format!("{}:{value}", Json::from(name))
    })
}

/// Returns the indentation before a position, if nothing else precedes it on its line and it is not
/// the first line.
fn margin(text: &str, at: usize) -> Option<&str> {
    let (_, line) = text[..at].rsplit_once('\n')?;
    line.chars()
        .all(|sign| sign == ' ' || sign == '\t')
        .then_some(line)
}

/// Whether the executable exists and can be executed.
pub fn is_executable(binary: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let found = binary.metadata();
    found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests;
