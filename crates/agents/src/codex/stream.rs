//! What `codex exec --json` writes to its stdout, line by line, as it works.

use std::borrow::Cow;
use std::collections::BTreeSet;

use segno_core::agent::{Answer as Done, Error, ErrorKind, Event, Listener};
use segno_core::companion::Gauge;
use segno_core::conversation::{Answer, Entry, Notice, Outcome, Part, Said, Utterance};
use segno_core::model::ToolCall;
use segno_core::usage::Usage;
use serde_json::{Value, json};

use super::tail::{Figures, Tail};
use crate::command::output::Line;
use crate::program::{Damaged, another, is_name, kind_of_words, lines, record};
use crate::transcript::{Object, text};

/// Folds the lines of one process.
pub(super) struct Stream<'a> {
    /// The thread that it is to be, or has begun; `None` if nobody has said it yet.
    expected: Option<Cow<'a, str>>,
    /// Whether it said which thread it is.
    named: bool,
    listener: &'a dyn Listener,
    /// What it writes down besides.
    tail: Tail,
    figures: Figures,
    /// How much fits into the context, if the person has said so.
    window: Option<u64>,
    /// What the thread had taken before: what is told is the sum of it all.
    before: Usage,
    /// Put before the names of items, which begin anew in every process.
    mark: String,
    /// Calls that were told of.
    begun: BTreeSet<String>,
    /// What it means to do, as it was told last.
    list: Option<Value>,
    usage: Usage,
    /// The last message of the agent.
    text: String,
    /// Whether the last turn was completed.
    completed: bool,
    /// Why the last turn failed.
    failed: Option<String>,
    /// Records since the last message that cannot be read.
    lost: u64,
}

/// What is known of a thread before its process is heard.
pub(super) struct Known<'a> {
    /// The thread that is to go on.
    pub(super) expected: Option<&'a str>,
    /// What it had taken.
    pub(super) before: Usage,
    /// How much fits into the context, if the person has said so.
    pub(super) window: Option<u64>,
    /// Put before the names of items.
    pub(super) mark: String,
}

impl<'a> Stream<'a> {
    pub(super) fn new(known: Known<'a>, tail: Tail, listener: &'a dyn Listener) -> Self {
        Self {
            expected: known.expected.map(Cow::Borrowed),
            named: false,
            listener,
            tail,
            figures: Figures::default(),
            window: known.window,
            before: known.before,
            mark: known.mark,
            begun: BTreeSet::new(),
            list: None,
            usage: Usage::default(),
            text: String::new(),
            completed: false,
            failed: None,
            lost: 0,
        }
    }

    /// Takes the next line.
    pub(super) fn line(&mut self, line: Line<'_>) -> Result<(), Error> {
        let record = match record(line) {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(()),
            Err(Damaged) => {
                self.lost += 1;
                return Ok(());
            }
        };
        let item = record.get("item").and_then(Value::as_object);
        let sort = text(&record, "type");
        let speaks =
            sort.is_some_and(|sort| sort.starts_with("item.") || sort.starts_with("turn."));
        if speaks && !self.named {
            let message = "codex did not say which conversation it uses";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if speaks {
            // Before what is told: whoever hears that a tool is done knows how full the context is.
            self.look();
        }
        match (sort, item) {
            (Some("thread.started"), _) => self.name(&record)?,
            (Some("turn.started"), _) => self.completed = false,
            (Some("item.started" | "item.updated" | "item.completed"), Some(item))
                if text(item, "type") == Some("todo_list") =>
            {
                self.list(item);
            }
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

    /// It says which thread it is.
    fn name(&mut self, record: &Object) -> Result<(), Error> {
        let told = text(record, "thread_id").unwrap_or_default();
        if let Some(expected) = &self.expected
            && told != expected
        {
            return Err(another("codex", expected, told));
        }
        if !is_name(told) {
            return Err(another("codex", "of its own", told));
        }
        self.expected = Some(Cow::Owned(told.to_owned()));
        self.named = true;
        self.listener.hear(Event::Native(told));
        Ok(())
    }

    /// Looks at what the program wrote down since.
    fn look(&mut self) {
        let Some(id) = &self.expected else { return };
        let figures = self.tail.look(id);
        let before = std::mem::replace(&mut self.figures, figures);
        if let Some(total) = figures.total.filter(|_| figures.total != before.total) {
            self.spend(total);
        }
        if let Some(gauge) = figures
            .context
            .filter(|_| figures.context != before.context)
        {
            self.listener.hear(Event::Context(Gauge {
                window: self.window.or(gauge.window),
                ..gauge
            }));
        }
    }

    /// What the whole thread has taken by now.
    fn spend(&mut self, total: Usage) {
        self.usage = Usage {
            input_tokens: total.input_tokens.saturating_sub(self.before.input_tokens),
            output_tokens: total
                .output_tokens
                .saturating_sub(self.before.output_tokens),
            ..Usage::default()
        };
        self.listener.hear(Event::Usage(self.usage));
    }

    fn count(&mut self, usage: Option<&Object>) {
        let Some(usage) = usage else { return };
        let number = |key| usage.get(key).and_then(Value::as_u64).unwrap_or_default();
        // The whole input is told, with what came from a cache among it.
        self.spend(Usage {
            input_tokens: number("input_tokens"),
            output_tokens: number("output_tokens"),
            ..Usage::default()
        });
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

    /// What it means to do. It is told again and again, and said when it changed.
    fn list(&mut self, item: &Object) {
        let items = item.get("items").cloned().unwrap_or_default();
        if self.list.as_ref() == Some(&items) {
            return;
        }
        self.hear(Said::Assistant {
            message: None,
            model: None,
            parts: vec![Utterance::Raw {
                value: json!({"type": "todo_list", "items": items}),
            }],
            usage: None,
        });
        self.list = Some(items);
    }

    fn end(&mut self, item: &Object) {
        let words = || text(item, "text").unwrap_or_default().to_owned();
        let part = match text(item, "type") {
            Some("agent_message") => {
                self.text = words();
                self.lost = 0;
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
            // What it answered may have been in what was lost.
            (None, None) if self.completed && self.lost > 0 => {
                let lost = lines(self.lost);
                let message =
                    format!("codex ended, and {lost} after its last message cannot be read");
                Err(Error::new(ErrorKind::Crashed, message))
            }
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
                let lost = match self.lost {
                    0 => String::new(),
                    count => format!(" ({} cannot be read)", lines(count)),
                };
                let message = format!("codex ended in the middle of a turn{lost}");
                Err(Error::new(ErrorKind::Crashed, message))
            }
        }
    }
}

/// What a failed turn means. Codex tells it in words alone.
fn failure(message: &str) -> Error {
    let kind = kind_of_words(message).unwrap_or(ErrorKind::Crashed);
    let message = crate::command::output::harmless(message);
    Error::new(kind, format!("codex: {message}"))
}
