//! Parses the stream of JSON lines that `codex exec --json` writes to its stdout.

use std::borrow::Cow;
use std::collections::BTreeSet;

use segno_core::agent::{
    Answer as AgentAnswer, Error, ErrorKind, Event, Listener, Refusal, RefusalReason,
};
use segno_core::conversation::{
    Answer, AssistantPart, ConversationItem, ItemContent, Notice, Outcome, Part,
};
use segno_core::tool::ToolCall;
use segno_core::usage::{ContextUsage, RunReport, Usage};
use serde_json::{Value, json};

use super::tail::{Tail, TokenCounts};
use crate::command::output::Line;
use crate::program::{
    Damaged, count_lines, is_valid_id, kind_of_message, kind_of_refusal, parse_record,
    wrong_conversation,
};
use crate::transcript::{Object, text};

/// Folds the lines of one process into an answer.
pub(super) struct Stream<'a> {
    /// The thread that the process resumes or has started; `None` until it reports one.
    expected: Option<Cow<'a, str>>,
    /// Whether the process has reported its thread.
    id_reported: bool,
    listener: &'a dyn Listener,
    /// The rollout that the process writes meanwhile.
    tail: Tail,
    counts: TokenCounts,
    /// The size of the context window, if the user configured it.
    window: Option<u64>,
    /// The thread's usage before this process: Codex reports the total of the thread.
    before: Usage,
    /// Why the process may be refused a tool.
    refusal: RefusalReason,
    /// A prefix for item ids, which restart in every process.
    id_prefix: String,
    /// Calls that were reported and have no result yet.
    open_calls: BTreeSet<String>,
    /// The last reported to-do list.
    todo_list: Option<Value>,
    usage: Usage,
    /// The last agent message.
    text: String,
    /// Whether the last turn completed.
    completed: bool,
    /// Why the last turn failed.
    failed: Option<String>,
    /// Unreadable records since the last message.
    lost: u64,
}

/// What is known of a thread before its process starts.
pub(super) struct ThreadInfo<'a> {
    /// The thread to resume.
    pub(super) expected: Option<&'a str>,
    /// Its usage so far.
    pub(super) before: Usage,
    /// The size of the context window, if the user configured it.
    pub(super) window: Option<u64>,
    /// Why the process may be refused a tool.
    pub(super) refusal: RefusalReason,
    /// A prefix for item ids.
    pub(super) id_prefix: String,
}

impl<'a> Stream<'a> {
    pub(super) fn new(info: ThreadInfo<'a>, tail: Tail, listener: &'a dyn Listener) -> Self {
        Self {
            expected: info.expected.map(Cow::Borrowed),
            id_reported: false,
            listener,
            tail,
            counts: TokenCounts::default(),
            window: info.window,
            before: info.before,
            refusal: info.refusal,
            id_prefix: info.id_prefix,
            open_calls: BTreeSet::new(),
            todo_list: None,
            usage: Usage::default(),
            text: String::new(),
            completed: false,
            failed: None,
            lost: 0,
        }
    }

    pub(super) fn line(&mut self, line: Line<'_>) -> Result<(), Error> {
        let record = match parse_record(line) {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(()),
            Err(Damaged) => {
                self.lost += 1;
                return Ok(());
            }
        };
        let item = record.get("item").and_then(Value::as_object);
        let kind = text(&record, "type");
        let has_content =
            kind.is_some_and(|kind| kind.starts_with("item.") || kind.starts_with("turn."));
        if has_content && !self.id_reported {
            let message = "codex did not report its conversation id";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if has_content {
            // Before the item is reported: a listener that learns of a finished tool call already
            // knows the context usage.
            self.read_rollout();
        }
        match (kind, item) {
            (Some("thread.started"), _) => self.check_thread_id(&record)?,
            (Some("turn.started"), _) => self.completed = false,
            (Some("item.started" | "item.updated" | "item.completed"), Some(item))
                if text(item, "type") == Some("todo_list") =>
            {
                self.report_todo_list(item);
            }
            (Some("item.started"), Some(item)) => self.report_call(item),
            (Some("item.completed"), Some(item)) => self.report_item(item),
            (Some("turn.completed"), _) => {
                self.completed = true;
                self.failed = None;
                let usage = record.get("usage").and_then(Value::as_object);
                self.count_turn(usage);
                self.listener.on_event(Event::Report(RunReport::default()));
            }
            (Some("turn.failed"), _) => {
                self.completed = false;
                let error = record.get("error").and_then(Value::as_object);
                self.failed = error.and_then(|error| text(error, "message").map(str::to_owned));
            }
            (Some("error"), _) => {
                if let Some(message) = text(&record, "message") {
                    let message = crate::command::output::escape_controls(message);
                    self.listener
                        .on_event(Event::Notice(&format!("codex: {message}")));
                }
            }
            // Records of other versions, and records that do not matter.
            _ => {}
        }
        Ok(())
    }

    /// The process reports its thread.
    fn check_thread_id(&mut self, record: &Object) -> Result<(), Error> {
        let reported = text(record, "thread_id").unwrap_or_default();
        if let Some(expected) = &self.expected
            && reported != expected
        {
            return Err(wrong_conversation("codex", expected, reported));
        }
        if !is_valid_id(reported) {
            return Err(wrong_conversation("codex", "one with a valid id", reported));
        }
        self.expected = Some(Cow::Owned(reported.to_owned()));
        self.id_reported = true;
        self.listener.on_event(Event::ConversationId(reported));
        Ok(())
    }

    /// Reads what the program appended to the rollout since.
    pub(super) fn read_rollout(&mut self) {
        let Some(id) = &self.expected else { return };
        let counts = self.tail.read_new(id);
        let before = std::mem::replace(&mut self.counts, counts);
        if let Some(total) = counts.total.filter(|_| counts.total != before.total) {
            self.report_usage(total);
        }
        if let Some(context_usage) = counts.context.filter(|_| counts.context != before.context) {
            self.listener.on_event(Event::Context(ContextUsage {
                window: self.window.or(context_usage.window),
                ..context_usage
            }));
        }
    }

    /// Reports the usage of this process, given the total of the thread.
    fn report_usage(&mut self, total: Usage) {
        self.usage = Usage {
            input_tokens: total.input_tokens.saturating_sub(self.before.input_tokens),
            output_tokens: total
                .output_tokens
                .saturating_sub(self.before.output_tokens),
            ..Usage::default()
        };
        self.listener.on_event(Event::Usage(self.usage));
    }

    fn count_turn(&mut self, usage: Option<&Object>) {
        let Some(usage) = usage else { return };
        let number = |key| usage.get(key).and_then(Value::as_u64).unwrap_or_default();
        // The reported input includes the cached tokens.
        self.report_usage(Usage {
            input_tokens: number("input_tokens"),
            output_tokens: number("output_tokens"),
            ..Usage::default()
        });
    }

    fn report_call(&mut self, item: &Object) {
        if let Some(call) = self.call(item) {
            self.open_calls.insert(call.id.clone());
            self.report(ItemContent::Assistant {
                message: None,
                model: None,
                parts: vec![AssistantPart::Call(call)],
                usage: None,
            });
        }
    }

    /// The to-do list is sent repeatedly, and reported when it changed.
    fn report_todo_list(&mut self, item: &Object) {
        let items = item.get("items").cloned().unwrap_or_default();
        if self.todo_list.as_ref() == Some(&items) {
            return;
        }
        self.report(ItemContent::Assistant {
            message: None,
            model: None,
            parts: vec![AssistantPart::Raw {
                value: json!({"type": "todo_list", "items": items}),
            }],
            usage: None,
        });
        self.todo_list = Some(items);
    }

    fn report_item(&mut self, item: &Object) {
        let words = || text(item, "text").unwrap_or_default().to_owned();
        let part = match text(item, "type") {
            Some("agent_message") => {
                self.text = words();
                self.lost = 0;
                AssistantPart::Text { text: words() }
            }
            Some("reasoning") => AssistantPart::Thinking {
                text: words(),
                seal: None,
            },
            Some("error") => {
                let message = text(item, "message").unwrap_or_default();
                self.report(ItemContent::Notice {
                    notice: Notice::Error,
                    text: message.to_owned(),
                });
                return;
            }
            _ => return self.report_result(item),
        };
        self.report(ItemContent::Assistant {
            message: None,
            model: None,
            parts: vec![part],
            usage: None,
        });
    }

    /// Reports the result of a call.
    fn report_result(&mut self, item: &Object) {
        let Some(call) = self.call(item) else {
            let record = text(item, "type").unwrap_or("untyped").to_owned();
            self.report(ItemContent::Raw { record });
            return;
        };
        // Some calls are reported only when they are done.
        if !self.open_calls.remove(&call.id) {
            self.report_call(item);
            self.open_calls.remove(&call.id);
        }
        let reported = ["aggregated_output", "result", "error"].into_iter();
        let reported = reported
            .filter_map(|key| item.get(key))
            .find(|value| !value.is_null());
        let output = match reported {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => text(item, "status").unwrap_or_default().to_owned(),
        };
        if text(item, "status") == Some("declined") {
            self.listener.on_event(Event::Refused(Refusal {
                tool: &call.name,
                reason: self.refusal,
            }));
        }
        let exit = item.get("exit_code").and_then(Value::as_i64);
        let outcome = match (exit, text(item, "status")) {
            (Some(0), _) | (None, Some("completed")) => Outcome::Succeeded,
            (Some(_), _) | (_, Some("failed" | "declined")) => Outcome::Failed,
            _ => Outcome::Unknown,
        };
        self.report(ItemContent::Result(Answer {
            id: call.id,
            parts: vec![Part::Text { text: output }],
            outcome,
        }));
    }

    /// The tool call of an item; `None` if it is no call.
    fn call(&self, item: &Object) -> Option<ToolCall> {
        let field = |key: &str| item.get(key).cloned().unwrap_or_default();
        let (name, input) = match text(item, "type")? {
            "command_execution" => ("shell", json!({"command": field("command")})),
            "file_change" => ("apply_patch", json!({"changes": field("changes")})),
            "web_search" => ("web_search", json!({"query": field("query")})),
            "mcp_tool_call" => (text(item, "tool")?, field("arguments")),
            _ => return None,
        };
        Some(ToolCall {
            id: format!("{}{}", self.id_prefix, text(item, "id")?),
            name: name.to_owned(),
            input,
        })
    }

    fn report(&self, said: ItemContent) {
        self.listener
            .on_event(Event::Item(&ConversationItem::new(said)));
    }

    /// The answer, once the process has ended. `exit_error` is the error of its exit status.
    pub(super) fn finish(self, exit_error: Option<Error>) -> Result<AgentAnswer, Error> {
        match (self.failed, exit_error) {
            // A lost line may have held the answer.
            (None, None) if self.completed && self.lost > 0 => {
                let lost = count_lines(self.lost);
                let message =
                    format!("codex exited, and {lost} after its last message cannot be read");
                Err(Error::new(ErrorKind::Crashed, message))
            }
            (None, None) if self.completed => Ok(AgentAnswer {
                text: self.text,
                usage: self.usage,
            }),
            (Some(message), _) => Err(failure(&message)),
            // Codex explains a refused resume only on its stderr.
            (None, Some(exit_error)) => Err(match kind_of_refusal(&exit_error.message) {
                Some(kind) => Error::new(kind, exit_error.message),
                None => exit_error,
            }),
            (None, None) => {
                let lost = match self.lost {
                    0 => String::new(),
                    count => format!(" ({} cannot be read)", count_lines(count)),
                };
                let message = format!("codex exited in the middle of a turn{lost}");
                Err(Error::new(ErrorKind::Crashed, message))
            }
        }
    }
}

/// Maps the message of a failed turn to an error. Codex reports only text.
fn failure(message: &str) -> Error {
    let kind = kind_of_message(message).unwrap_or(ErrorKind::Unknown);
    let message = crate::command::output::escape_controls(message);
    Error::new(kind, format!("codex: {message}"))
}
