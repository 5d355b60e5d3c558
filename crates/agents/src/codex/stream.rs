//! What `codex exec --json` writes to its stdout, line by line, as it works.

use std::collections::BTreeSet;

use segno_core::agent::{Answer as Done, Error, ErrorKind, Event, Listener};
use segno_core::conversation::{Answer, Entry, Notice, Outcome, Part, Said, Utterance};
use segno_core::model::ToolCall;
use segno_core::usage::Usage;
use serde_json::{Value, json};

use crate::program::{another, kind_of_status};
use crate::transcript::{Object, parse, text};

/// Folds the lines of one process.
pub(super) struct Stream<'a> {
    /// The thread that it is to be; `None` if it begins one.
    expected: Option<&'a str>,
    listener: &'a dyn Listener,
    /// What the thread had taken before: what is told is the sum of it all.
    before: Usage,
    /// Put before the names of items, which begin anew in every process.
    mark: String,
    /// Calls that were told of.
    begun: BTreeSet<String>,
    usage: Usage,
    /// The last message of the agent.
    text: String,
    /// Whether the last turn was completed.
    completed: bool,
    /// Why the last turn failed.
    failed: Option<String>,
}

impl<'a> Stream<'a> {
    pub(super) fn new(
        expected: Option<&'a str>,
        before: Usage,
        mark: String,
        listener: &'a dyn Listener,
    ) -> Self {
        Self {
            expected,
            listener,
            before,
            mark,
            begun: BTreeSet::new(),
            usage: Usage::default(),
            text: String::new(),
            completed: false,
            failed: None,
        }
    }

    /// Takes the next line.
    pub(super) fn line(&mut self, line: &[u8]) -> Result<(), Error> {
        let Ok(record) = parse(line) else {
            return Ok(());
        };
        let item = record.get("item").and_then(Value::as_object);
        match (text(&record, "type"), item) {
            (Some("thread.started"), _) => {
                let told = text(&record, "thread_id").unwrap_or_default();
                if let Some(expected) = self.expected
                    && told != expected
                {
                    return Err(another("codex", expected, told));
                }
                self.listener.hear(Event::Native(told));
            }
            (Some("turn.started"), _) => self.completed = false,
            (Some("item.started"), Some(item)) => self.begin(item),
            (Some("item.completed"), Some(item)) => self.end(item),
            (Some("turn.completed"), _) => {
                self.completed = true;
                self.failed = None;
                let usage = record.get("usage").and_then(Value::as_object);
                self.count(usage);
            }
            (Some("turn.failed"), _) => {
                self.completed = false;
                let error = record.get("error").and_then(Value::as_object);
                self.failed = error.and_then(|error| text(error, "message").map(str::to_owned));
            }
            (Some("error"), _) => {
                if let Some(message) = text(&record, "message") {
                    let message = crate::command::output::harmless(message);
                    self.listener
                        .hear(Event::Notice(&format!("codex: {message}")));
                }
            }
            // What another version may tell, and what does not matter.
            _ => {}
        }
        Ok(())
    }

    fn count(&mut self, usage: Option<&Object>) {
        let Some(usage) = usage else { return };
        let number = |key| usage.get(key).and_then(Value::as_u64).unwrap_or_default();
        // The whole input is told, with what came from a cache among it.
        self.usage = Usage {
            input_tokens: number("input_tokens").saturating_sub(self.before.input_tokens),
            output_tokens: number("output_tokens").saturating_sub(self.before.output_tokens),
            ..Usage::default()
        };
        self.listener.hear(Event::Usage(self.usage));
    }

    fn begin(&mut self, item: &Object) {
        if let Some(call) = self.call(item) {
            self.begun.insert(call.id.clone());
            self.hear(Said::Assistant {
                message: None,
                model: None,
                parts: vec![Utterance::Call(call)],
                usage: None,
            });
        }
    }

    fn end(&mut self, item: &Object) {
        let words = || text(item, "text").unwrap_or_default().to_owned();
        let part = match text(item, "type") {
            Some("agent_message") => {
                self.text = words();
                Utterance::Text { text: words() }
            }
            Some("reasoning") => Utterance::Thinking {
                text: words(),
                seal: None,
            },
            Some("error") => {
                let message = text(item, "message").unwrap_or_default();
                self.hear(Said::Notice {
                    notice: Notice::Error,
                    text: message.to_owned(),
                });
                return;
            }
            _ => return self.answered(item),
        };
        self.hear(Said::Assistant {
            message: None,
            model: None,
            parts: vec![part],
            usage: None,
        });
    }

    /// A call has its answer.
    fn answered(&mut self, item: &Object) {
        let Some(call) = self.call(item) else {
            let record = text(item, "type").unwrap_or("untyped").to_owned();
            self.hear(Said::Raw { record });
            return;
        };
        // Some are told of only when they are done.
        if !self.begun.remove(&call.id) {
            self.begin(item);
            self.begun.remove(&call.id);
        }
        let told = ["aggregated_output", "result", "error"].into_iter();
        let told = told
            .filter_map(|key| item.get(key))
            .find(|value| !value.is_null());
        let output = match told {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => text(item, "status").unwrap_or_default().to_owned(),
        };
        let exit = item.get("exit_code").and_then(Value::as_i64);
        let outcome = match (exit, text(item, "status")) {
            (Some(0), _) | (None, Some("completed")) => Outcome::Succeeded,
            (Some(_), _) | (_, Some("failed" | "declined")) => Outcome::Failed,
            _ => Outcome::Unsaid,
        };
        self.hear(Said::Result(Answer {
            id: call.id,
            parts: vec![Part::Text { text: output }],
            outcome,
        }));
    }

    /// The call that an item is; `None` if it is none.
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
            id: format!("{}{}", self.mark, text(item, "id")?),
            name: name.to_owned(),
            input,
        })
    }

    fn hear(&self, said: Said) {
        self.listener.hear(Event::Said(&Entry::new(said)));
    }

    /// The answer, once the process has ended: `trouble` is what its end alone says.
    pub(super) fn finish(self, trouble: Option<Error>) -> Result<Done, Error> {
        match (self.failed, trouble) {
            (None, None) if self.completed => Ok(Done {
                text: self.text,
                usage: self.usage,
            }),
            (Some(message), _) => Err(failure(&message)),
            (None, Some(trouble)) if trouble.message.contains("no rollout found") => {
                Err(Error::new(ErrorKind::NotFound, trouble.message))
            }
            (None, Some(trouble)) => Err(trouble),
            (None, None) => {
                let message = "codex ended in the middle of a turn";
                Err(Error::new(ErrorKind::Crashed, message))
            }
        }
    }
}

/// What a failed turn means. Codex tells it in words alone.
fn failure(message: &str) -> Error {
    let lower = message.to_lowercase();
    let status = lower
        .split_once("status")
        .and_then(|(_, rest)| {
            rest.split(|c: char| !c.is_ascii_digit())
                .find(|n| n.len() == 3)
        })
        .and_then(|number| number.parse().ok());
    let kind = if lower.contains("context_length_exceeded") || lower.contains("context window") {
        ErrorKind::ContextFull
    } else if lower.contains("usage limit") || lower.contains("rate limit") {
        ErrorKind::RateLimited(wait(&lower))
    } else if let Some(status) = status {
        kind_of_status(status, wait(&lower))
    } else if lower.contains("stream disconnected") || lower.contains("connect") {
        ErrorKind::Network
    } else {
        ErrorKind::Crashed
    };
    let message = crate::command::output::harmless(message);
    Error::new(kind, format!("codex: {message}"))
}

/// `… try again in 2 days 3 hours 4 minutes.`: how long that is.
fn wait(lower: &str) -> Option<std::time::Duration> {
    let (_, rest) = lower.split_once("try again in ")?;
    let mut words = rest.split([' ', ',']).filter(|w| !w.is_empty());
    let mut seconds = 0_u64;
    while let Some(count) = words.next().and_then(|word| word.parse::<u64>().ok()) {
        let unit = match words.next()?.trim_end_matches(['.', 's']) {
            "day" => 24 * 3600,
            "hour" => 3600,
            "minute" | "min" => 60,
            "second" | "sec" | "" => 1,
            _ => break,
        };
        seconds = seconds.saturating_add(count.saturating_mul(unit));
    }
    (seconds > 0).then(|| std::time::Duration::from_secs(seconds))
}
