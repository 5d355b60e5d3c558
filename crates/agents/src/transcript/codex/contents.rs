//! What the items of a thread contain, in one form for `codex exec --json` and for the rollout.
//!
//! The two give the same item different ids, and spell calls differently: a command with and without
//! its shell, a patch as its files or as its text, a result with or without a header. Only what both
//! have is compared.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, Read, Seek};

use segno_core::conversation::contents::{Content, MAX_CONTENTS};
use segno_core::conversation::{
    Answer, AssistantPart, ConversationItem, ItemContent, Outcome, Part, UNKNOWN_OUTCOME,
};
use segno_core::digest::Digest;
use segno_core::tool::ToolCall;
use serde_json::{Value, json};

use super::record;
use super::shell::{script, script_of_words};
use crate::transcript::damage::Severity;
use crate::transcript::{Content as Line, Facts, Limits, Lines, Object, text};

/// The output of a call that Codex did not see end.
const ABORTED: &str = "aborted";
/// How the output of a call ends that the user interrupted.
const INTERRUPTED: &str = "aborted by user";
/// How the output of a call begins that was refused before it ran.
const REFUSALS: [&str; 2] = ["apply_patch verification failed", "exec_command failed"];

/// The contents of items that were reported.
pub(crate) fn reported(items: &[ConversationItem]) -> Vec<Option<Content>> {
    items.iter().map(|item| content(&item.content)).collect()
}

/// The newest contents of a rollout; `None` if a line cannot be read that may hold some.
pub(crate) fn read<R: Read + Seek>(source: R, limits: Limits) -> io::Result<Option<Vec<Content>>> {
    let mut lines = Lines::new(source, limits.line)?;
    let mut contents = Contents::default();
    let mut facts = Facts::default();
    while let Some(found) = lines.next()? {
        match lines.content(found) {
            Line::Record(record) => contents.add_record(&record, &mut facts),
            Line::Unreadable(reason) if reason.severity() == Severity::Opaque => return Ok(None),
            Line::Unreadable(_) | Line::Blank => {}
        }
    }
    Ok(Some(contents.newest.into()))
}

/// The contents of a rollout so far.
#[derive(Default)]
struct Contents {
    newest: VecDeque<Content>,
    /// The ids of the model's own calls.
    calls: HashSet<String>,
    /// The calls whose process runs on, by the number that Codex gives the process.
    running: HashMap<String, String>,
    /// The calls that ask for more output, each with the number of the process.
    waiting: HashMap<String, String>,
}

impl Contents {
    fn add_record(&mut self, record: &Object, facts: &mut Facts) {
        let payload = record.get("payload").and_then(Value::as_object);
        if let Some(payload) = payload
            && text(record, "type") == Some("event_msg")
        {
            return self.add_event(payload);
        }
        for entry in record::read(record, facts).entries {
            self.add_item(&entry.content);
        }
        if let Some(payload) = payload
            && text(payload, "type") == Some("web_search_call")
        {
            self.add_web_search(payload);
        }
    }

    fn add_item(&mut self, item: &ItemContent) {
        for call in calls(item) {
            if self.calls.len() < MAX_CONTENTS {
                self.calls.insert(call.id.clone());
            }
            if call.name == "write_stdin"
                && let Some(process) = call.input.get("session_id")
                && self.waiting.len() < MAX_CONTENTS
            {
                self.waiting.insert(call.id.clone(), process.to_string());
            }
        }
        let ItemContent::Result(answer) = item else {
            return self.push(content(item));
        };
        let output = Output::of(answer);
        if let Some(process) = output.running {
            if self.running.len() < MAX_CONTENTS {
                self.running.insert(process, answer.id.clone());
            }
            return;
        }
        self.push(content(item));
        // The rest of what an earlier call gives.
        let process = self.waiting.get(&answer.id);
        let started = process.and_then(|process| self.running.remove(process));
        self.push(started.map(|id| Content::Result {
            id,
            text: digest(output.text),
            outcome: output.outcome,
        }));
    }

    /// Codex may run commands and tools that the model did not call by themselves, but in a script of
    /// its own. The rollout has them as events only.
    fn add_event(&mut self, payload: &Object) {
        let Some(item) = payload.get("item").and_then(Value::as_object) else {
            return;
        };
        let Some(id) = text(item, "id").filter(|id| !self.calls.contains(*id)) else {
            return;
        };
        let field = |key: &str| item.get(key).cloned().unwrap_or_default();
        let (name, input, output) = match text(item, "type") {
            Some("CommandExecution") => {
                let input = json!({"command": field("command")});
                ("shell", input, field("aggregated_output"))
            }
            Some("FileChange") => {
                let changes = field("changes");
                let paths = changes.as_object().into_iter().flat_map(Object::keys);
                let changes: Vec<Value> = paths.map(|path| json!({"path": path})).collect();
                ("apply_patch", json!({"changes": changes}), field("status"))
            }
            Some("McpToolCall") => {
                let name = text(item, "tool").unwrap_or_default();
                (name, field("arguments"), field("status"))
            }
            _ => return,
        };
        let call = ToolCall {
            id: id.to_owned(),
            name: name.to_owned(),
            input,
        };
        self.push(Some(call_content(&call)));
        self.push(Some(Content::Result {
            id: id.to_owned(),
            text: digest(output.as_str().unwrap_or_default()),
            outcome: match text(item, "status") {
                Some("completed") => Outcome::Succeeded,
                Some("failed" | "declined") => Outcome::Failed,
                _ => Outcome::Unknown,
            },
        }));
    }

    /// A search is one record: its call and its result.
    fn add_web_search(&mut self, payload: &Object) {
        let query = payload.get("action").and_then(|action| action.get("query"));
        let id = text(payload, "id").unwrap_or("web_search").to_owned();
        let call = ToolCall {
            id: id.clone(),
            name: "web_search".to_owned(),
            input: json!({"query": query.cloned().unwrap_or_default()}),
        };
        self.push(Some(call_content(&call)));
        self.push(Some(Content::Result {
            id,
            text: digest(""),
            outcome: Outcome::Unknown,
        }));
    }

    fn push(&mut self, content: Option<Content>) {
        self.newest.extend(content);
        while self.newest.len() > MAX_CONTENTS {
            self.newest.pop_front();
        }
    }
}

fn calls(item: &ItemContent) -> impl Iterator<Item = &ToolCall> {
    let parts = match item {
        ItemContent::Assistant { parts, .. } => parts.as_slice(),
        _ => &[],
    };
    parts.iter().filter_map(|part| match part {
        AssistantPart::Call(call) => Some(call),
        _ => None,
    })
}

/// The content of an item: Codex reports each part of a message as an item of its own.
fn content(item: &ItemContent) -> Option<Content> {
    match item {
        ItemContent::Assistant { parts, .. } => {
            if let Some(call) = calls(item).next() {
                return Some(call_content(call));
            }
            let texts = parts.iter().map(|part| match part {
                AssistantPart::Text { text } => text.as_str(),
                _ => "",
            });
            let text = texts.collect::<String>();
            (!text.trim().is_empty()).then(|| Content::Text(digest(&text)))
        }
        ItemContent::Result(answer) => {
            let output = Output::of(answer);
            output.is_known.then(|| Content::Result {
                id: answer.id.clone(),
                text: digest(output.text),
                outcome: output.outcome,
            })
        }
        _ => None,
    }
}

fn digest(text: &str) -> Digest {
    Digest::of(text.trim().as_bytes())
}

fn call_content(call: &ToolCall) -> Content {
    let (name, input) = tool_and_input(call);
    Content::Call {
        id: call.id.clone(),
        call: Digest::of_fields(&[name.as_bytes(), input.as_bytes()]),
    }
}

/// The tool and its arguments, spelled in one way.
fn tool_and_input(call: &ToolCall) -> (String, String) {
    let field = |key: &str| call.input.get(key);
    // Servers are not in the stream's names of tools.
    let name = call.name.rsplit("__").next().unwrap_or_default();
    match name {
        "shell" | "exec_command" | "shell_command" | "local_shell" => {
            let command = field("command").or_else(|| field("cmd"));
            let script = match command {
                Some(Value::Array(words)) => {
                    let words = words.iter().filter_map(Value::as_str);
                    script_of_words(&words.map(str::to_owned).collect::<Vec<_>>())
                }
                Some(Value::String(command)) => script(command),
                _ => String::new(),
            };
            // Codex applies a patch itself if a command would.
            if script.contains("apply_patch") && script.contains("*** Begin Patch") {
                return ("apply_patch".to_owned(), patched_files(&script));
            }
            ("shell".to_owned(), script)
        }
        "apply_patch" => {
            let patch = call.input.as_str().or_else(|| field("input")?.as_str());
            let files = match patch {
                Some(patch) => patched_files(patch),
                None => changed_files(field("changes")),
            };
            (name.to_owned(), files)
        }
        _ => {
            let input = match &call.input {
                Value::Null => "{}".to_owned(),
                Value::String(text) if text.trim().is_empty() => "{}".to_owned(),
                input => input.to_string(),
            };
            (name.to_owned(), input)
        }
    }
}

fn changed_files(changes: Option<&Value>) -> String {
    let changes = changes.and_then(Value::as_array).into_iter().flatten();
    file_names(changes.filter_map(|change| change["path"].as_str()))
}

fn patched_files(patch: &str) -> String {
    const HEADS: [&str; 3] = ["*** Add File: ", "*** Update File: ", "*** Delete File: "];
    let head = |line| HEADS.iter().find_map(|head| str::strip_prefix(line, head));
    file_names(patch.lines().filter_map(head).map(str::trim))
}

/// The names of files without their folders: a patch names them relative to a folder, the stream
/// absolutely, and the folder may have been renamed since.
fn file_names<'a>(paths: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = paths
        .map(|path| path.rsplit('/').next().unwrap_or_default())
        .collect();
    names.sort_unstable();
    names.dedup();
    names.join("\n")
}

/// What a call gave.
struct Output<'a> {
    text: &'a str,
    outcome: Outcome,
    /// The number of the process, if it has not ended.
    running: Option<String>,
    /// Whether it is the output of the call rather than a sentence that there is none.
    is_known: bool,
}

impl<'a> Output<'a> {
    fn of(answer: &'a Answer) -> Self {
        let whole = match answer.parts.as_slice() {
            [Part::Text { text }] => text.as_str(),
            _ => "",
        };
        let (header, text) = split_header(whole);
        let after = |sign: &str| {
            let line = header.lines().find_map(|line| line.strip_prefix(sign));
            line.map(str::trim)
        };
        let code = after("Process exited with code").or_else(|| after("Exit code:"));
        let is_refused = REFUSALS.iter().any(|begin| whole.starts_with(begin));
        let is_refused = is_refused || whole.ends_with(INTERRUPTED);
        Self {
            text,
            outcome: match (answer.outcome, code) {
                (Outcome::Unknown, Some("0")) => Outcome::Succeeded,
                (Outcome::Unknown, Some(_)) => Outcome::Failed,
                (Outcome::Unknown, None) if is_refused => Outcome::Failed,
                (outcome, _) => outcome,
            },
            running: after("Process running with session ID").map(str::to_owned),
            is_known: whole != ABORTED && whole != UNKNOWN_OUTCOME,
        }
    }
}

/// The header that Codex puts before an output for the model, and the output.
fn split_header(whole: &str) -> (&str, &str) {
    const BEGINNINGS: [&str; 3] = ["Chunk ID:", "Wall time:", "Exit code:"];
    if !BEGINNINGS.iter().any(|begin| whole.starts_with(begin)) {
        return ("", whole);
    }
    whole.split_once("\nOutput:\n").unwrap_or((whole, ""))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use segno_core::conversation::contents::compare;

    use super::*;

    fn call(name: &str, input: Value) -> ConversationItem {
        ConversationItem::new(ItemContent::Assistant {
            message: None,
            model: None,
            parts: vec![AssistantPart::Call(ToolCall {
                id: "1.item_0".into(),
                name: name.into(),
                input,
            })],
            usage: None,
        })
    }

    fn result(text: &str, outcome: Outcome) -> ConversationItem {
        ConversationItem::new(ItemContent::Result(Answer {
            id: "1.item_0".into(),
            parts: vec![Part::Text { text: text.into() }],
            outcome,
        }))
    }

    fn rollout(payloads: &[Value]) -> Vec<Content> {
        let record = |payload: &Value| {
            let kind = match payload["type"].as_str() {
                Some("item_completed") => "event_msg",
                _ => "response_item",
            };
            format!("{}\n", json!({"type": kind, "payload": payload}))
        };
        let text: String = payloads.iter().map(record).collect();
        read(Cursor::new(text), Limits::default()).unwrap().unwrap()
    }

    fn function(name: &str, arguments: &Value) -> Value {
        json!({"type": "function_call", "call_id": "c", "name": name, "arguments": arguments.to_string()})
    }

    fn output(id: &str, text: &str) -> Value {
        json!({"type": "function_call_output", "call_id": id, "output": text})
    }

    #[test]
    fn calls_are_recognized_however_they_are_spelled() {
        let shell = |command: &str| call("shell", json!({"command": command}));
        let files = |paths: &[&str]| {
            let change = |path| json!({"path": path, "kind": "update"});
            let changes: Vec<Value> = paths.iter().map(change).collect();
            call("apply_patch", json!({"changes": changes}))
        };
        let patch = "*** Begin Patch\n*** Update File: src/a.rs\n@@\n-a\n+b\n*** Add File: b.rs\n+b\n*** End Patch\n";
        let custom = |input: &str| json!({"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": input});
        for (reported_item, item) in [
            (
                shell("/bin/bash -lc 'ls -l'"),
                function("exec_command", &json!({"cmd": "ls -l", "yield_time_ms": 1})),
            ),
            (
                shell("/bin/bash -lc ls"),
                function("shell", &json!({"command": ["bash", "-lc", "ls"]})),
            ),
            (
                shell("ls -l"),
                function("shell", &json!({"command": ["ls", "-l"]})),
            ),
            (files(&["/w/src/a.rs", "/w/b.rs"]), custom(patch)),
            (
                files(&["/w/b.rs", "/w/src/a.rs"]),
                function(
                    "exec_command",
                    &json!({"cmd": format!("apply_patch <<'EOF'\n{patch}EOF")}),
                ),
            ),
            (
                call("read_graph", json!({})),
                function("memory__read_graph", &json!({})),
            ),
            (
                call("create", json!({"b": 1, "a": [2]})),
                json!({"type": "function_call", "call_id": "c", "namespace": "mcp__memory", "name": "create", "arguments": "{\"a\": [2], \"b\": 1}"}),
            ),
            (
                call("web_search", json!({"query": "rust"})),
                json!({"type": "web_search_call", "action": {"type": "search", "query": "rust"}}),
            ),
            // A command that a script of the model ran.
            (
                shell("/bin/bash -lc 'ls -l'"),
                json!({"type": "item_completed", "item": {
                    "type": "CommandExecution", "id": "n", "command": ["/bin/bash", "-lc", "ls -l"],
                    "status": "completed", "aggregated_output": "a\n",
                }}),
            ),
        ] {
            let contents = reported(std::slice::from_ref(&reported_item));
            let known = rollout(std::slice::from_ref(&item));
            let difference = compare(&known, &[], &contents);
            assert_eq!(difference.missing, [false], "{item} {known:?}");
            let is_call = |content: &Content| matches!((content, &contents[0]), (Content::Call { call, .. }, Some(Content::Call { call: other, .. })) if call == other);
            assert!(known.iter().any(is_call), "{item}");
        }
    }

    #[test]
    fn outputs_are_compared_without_their_header() {
        let said = |text: &str, outcome| {
            let items = [
                call("shell", json!({"command": "ls"})),
                result(text, outcome),
            ];
            reported(&items)
        };
        let call = function("exec_command", &json!({"cmd": "ls"}));
        let other = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]});
        let header = "Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\n";
        let listed = said("a\n", Outcome::Succeeded);
        let failed = said("", Outcome::Failed);
        for (output_text, items, missing) in [
            (format!("{header}a\n"), &listed, false),
            (format!("{header}(cut)"), &listed, false),
            (header.replace("code 0", "code 1"), &listed, true),
            (
                "Wall time: 4.6 seconds\naborted by user".into(),
                &failed,
                false,
            ),
            (
                "Wall time: 4.6 seconds\naborted by user".into(),
                &listed,
                true,
            ),
            ("aborted".into(), &listed, true),
            (UNKNOWN_OUTCOME.into(), &listed, true),
        ] {
            let known = rollout(&[other.clone(), call.clone(), output("c", &output_text)]);
            let difference = compare(&known, items, items);
            assert_eq!(difference.missing[1], missing, "{output_text}");
        }
    }

    #[test]
    fn command_that_runs_on_ends_with_a_later_output() {
        let items = [
            call("shell", json!({"command": "make"})),
            result("built", Outcome::Succeeded),
        ];
        let contents = reported(&items);
        let running =
            "Chunk ID: 1\nWall time: 1 seconds\nProcess running with session ID 7\nOutput:\n";
        let ended = "Chunk ID: 2\nWall time: 1 seconds\nProcess exited with code 0\nOutput:\nbuilt";
        let started = [
            function("exec_command", &json!({"cmd": "make"})),
            output("c", running),
        ];
        let known = rollout(&started);
        assert_eq!(compare(&known, &[], &contents).missing, [false, true]);
        let mut poll = function("write_stdin", &json!({"session_id": 7, "chars": ""}));
        poll["call_id"] = "d".into();
        let known = rollout(&[&started[..], &[poll, output("d", ended)]].concat());
        assert_eq!(compare(&known, &[], &contents).missing, [false, false]);
    }

    #[test]
    fn rollout_with_a_line_that_cannot_be_read_is_not_compared() {
        let text = format!(
            "{}\n",
            json!({"type": "event_msg", "payload": {"x": "y".repeat(100)}})
        );
        let limits = Limits {
            line: 50,
            ..Limits::default()
        };
        assert_eq!(read(Cursor::new(text), limits).unwrap(), None);
    }
}
