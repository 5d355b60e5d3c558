//! What an agent reports in one turn, as entries of a conversation.
//!
//! Words come in pieces and are told of as whole messages. The input of a call may come in pieces, too:
//! a call is told of when it runs, when leave is asked for it, or when something else follows its
//! input, which is before it has an effect.

use std::collections::HashMap;

use segno_core::agent::{Answer, Error, ErrorKind, Event, Listener};
use segno_core::companion::Gauge;
use segno_core::conversation::{self as talk, Entry, Outcome as Went, Part, Said, Utterance};
use segno_core::model::ToolCall;
use segno_core::usage::{Cost, Usage};
use serde_json::{Value, json};

use super::turn::{Outcome, Stop};
use super::update::{Money, Piece, PlanEntry, Status, Tool, ToolKind, Update};
use crate::mcp::words::clean;

/// The longest message.
const LONGEST_MESSAGE: usize = 16 << 20;
/// Of how many calls is known how far they are.
const MOST_CALLS: usize = 10_000;
/// How much of a call's title is shown to people.
const TITLE: usize = 200;
/// Reports that say nothing about the work.
const ASIDE: [&str; 5] = [
    "available_commands_update",
    "config_option_update",
    "current_mode_update",
    "session_info_update",
    "usage_update",
];

/// What sort of words are being said.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    Text,
    Thought,
}

/// A message whose end has not come.
struct Words {
    sort: Sort,
    message: Option<String>,
    text: String,
}

/// A call, as far as it was told.
#[derive(Default)]
struct Call {
    name: Option<String>,
    title: Option<String>,
    kind: Option<ToolKind>,
    input: Option<Value>,
    content: Vec<Value>,
    told: bool,
    over: bool,
}

/// Folds the reports of one turn.
pub(super) struct Fold<'a> {
    /// The agent's program, for people.
    program: &'a str,
    listener: &'a dyn Listener,
    open: Option<Words>,
    /// The last message.
    text: String,
    calls: HashMap<String, Call>,
    /// A call that has input and was not told of.
    waiting: Option<String>,
    /// What the session had cost before: what is told is the sum of it all.
    before: Cost,
    usage: Usage,
    gauge: Option<Gauge>,
}

impl<'a> Fold<'a> {
    pub(super) fn new(program: &'a str, before: Cost, listener: &'a dyn Listener) -> Self {
        Self {
            program,
            listener,
            open: None,
            text: String::new(),
            calls: HashMap::new(),
            waiting: None,
            before,
            usage: Usage::default(),
            gauge: None,
        }
    }

    /// Takes the next report.
    pub(super) fn take(&mut self, update: Update) -> Result<(), Error> {
        let about = match &update {
            Update::ToolStarted(tool) | Update::ToolChanged(tool) => Some(&tool.id),
            _ => None,
        };
        if self.waiting.as_ref() != about {
            self.tell_waiting();
        }
        match update {
            Update::Text(piece) => self.add(Sort::Text, piece),
            Update::Thought(piece) => self.add(Sort::Thought, piece),
            Update::ToolStarted(tool) | Update::ToolChanged(tool) => {
                self.flush();
                self.tool(&tool, false);
                Ok(())
            }
            Update::Leave { tool, granted } => {
                self.flush();
                self.tool(&tool, true);
                if !granted {
                    self.denied(&tool);
                }
                Ok(())
            }
            Update::Context { used, size, cost } => {
                self.context(used, size, cost.as_ref());
                Ok(())
            }
            Update::Raw { kind, .. } => {
                if !kind.is_empty() && !kind.contains('/') && !ASIDE.contains(&kind.as_str()) {
                    self.flush();
                    let record = clean(&kind, TITLE);
                    self.hear(Said::Raw { record });
                }
                Ok(())
            }
            Update::Plan(entries) => {
                self.flush();
                self.plan(&entries);
                Ok(())
            }
            // What others say is not said here; what was said to it is known.
            Update::Said(_) | Update::File { .. } | Update::Foreign { .. } => Ok(()),
        }
    }

    /// What it means to do is not done, and yet worth to be known by whoever goes on.
    fn plan(&mut self, entries: &[PlanEntry]) {
        let entry = |entry: &PlanEntry| json!({"content": entry.content, "status": entry.status});
        let entries: Vec<Value> = entries.iter().map(entry).collect();
        self.hear(Said::Assistant {
            message: None,
            model: None,
            parts: vec![Utterance::Raw {
                value: json!({"type": "plan", "entries": entries}),
            }],
            usage: None,
        });
    }

    fn add(&mut self, sort: Sort, piece: Piece) -> Result<(), Error> {
        let goes_on = |open: &Words| open.sort == sort && open.message == piece.message;
        if !self.open.as_ref().is_some_and(goes_on) {
            self.flush();
        }
        let open = self.open.get_or_insert(Words {
            sort,
            message: piece.message,
            text: String::new(),
        });
        if open.text.len() + piece.text.len() > LONGEST_MESSAGE {
            let message = format!(
                "{}: a message has more than {LONGEST_MESSAGE} bytes",
                self.program
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        open.text.push_str(&piece.text);
        Ok(())
    }

    /// A message is whole.
    fn flush(&mut self) {
        let Some(words) = self.open.take().filter(|open| !open.text.is_empty()) else {
            return;
        };
        let Words { sort, text, .. } = words;
        let part = match sort {
            Sort::Text => {
                self.text.clone_from(&text);
                Utterance::Text { text }
            }
            Sort::Thought => Utterance::Thinking { text, seal: None },
        };
        // Without a name: not every agent calls a message the same when it brings it back.
        self.hear(Said::Assistant {
            message: None,
            model: None,
            parts: vec![part],
            usage: None,
        });
    }

    /// Something about a call is known. It is told of now if it `must` be, or if it runs.
    fn tool(&mut self, tool: &Tool, must: bool) {
        if self.calls.len() >= MOST_CALLS {
            self.calls.retain(|_, call| !call.over);
        }
        let call = self.calls.entry(tool.id.clone()).or_default();
        if call.over {
            return;
        }
        call.learn(tool);
        let over = matches!(tool.status, Some(Status::Completed | Status::Failed));
        let runs = matches!(tool.status, Some(Status::InProgress));
        if must || over || runs {
            self.tell(&tool.id);
        } else if !call.told && call.input.is_some() {
            self.waiting = Some(tool.id.clone());
        }
        let Some(call) = self.calls.get_mut(&tool.id).filter(|_| over) else {
            return;
        };
        call.over = true;
        let text = call.output(tool);
        *call = Call {
            told: true,
            over: true,
            ..Call::default()
        };
        let outcome = match tool.status {
            Some(Status::Failed) => Went::Failed,
            _ => Went::Succeeded,
        };
        self.hear(Said::Result(talk::Answer {
            id: tool.id.clone(),
            parts: vec![Part::Text { text }],
            outcome,
        }));
    }

    fn tell_waiting(&mut self) {
        if let Some(id) = self.waiting.take() {
            self.tell(&id);
        }
    }

    /// Tells of a call, once.
    fn tell(&mut self, id: &str) {
        if let Some(call) = self.calls.get_mut(id).filter(|call| !call.told) {
            call.told = true;
            let asked = call.asked(id);
            self.hear(asked);
        }
    }

    fn denied(&self, tool: &Tool) {
        let known = self.calls.get(&tool.id);
        let title = tool.title.as_deref();
        let title = title
            .or_else(|| known?.title.as_deref())
            .unwrap_or("a tool");
        let notice = format!(
            "{} was denied leave to use {}; `acp.permissions` in the settings says what it may do, and whoever plans or reviews only looks",
            self.program,
            clean(title, TITLE)
        );
        self.listener.hear(Event::Notice(&notice));
    }

    fn context(&mut self, used: u64, size: u64, cost: Option<&Money>) {
        let window = Some(size).filter(|size| *size > 0);
        let gauge = Gauge { used, window };
        if self.gauge != Some(gauge) {
            self.gauge = Some(gauge);
            self.listener.hear(Event::Context(gauge));
        }
        if let Some(cost) = cost.and_then(dollars) {
            self.usage.cost = Cost(cost.0.saturating_sub(self.before.0));
            self.listener.hear(Event::Usage(self.usage));
        }
    }

    fn hear(&self, said: Said) {
        self.listener.hear(Event::Said(&Entry::new(said)));
    }

    /// What was said last is whole, whatever ended it, and calls that were not told of are now.
    pub(super) fn end(&mut self) {
        self.flush();
        let silent = self.calls.iter().filter(|(_, call)| !call.told);
        let mut silent: Vec<String> = silent.map(|(id, _)| id.clone()).collect();
        silent.sort();
        for id in silent {
            self.tell(&id);
        }
    }

    /// The answer, once the agent has stopped.
    pub(super) fn finish(mut self, outcome: &Outcome) -> Result<Answer, Error> {
        self.end();
        if let Some(tokens) = outcome.tokens {
            let output = tokens.output.unwrap_or_default();
            let input = match tokens.total {
                // The rest, with what came from a cache among it.
                Some(total) => total.saturating_sub(output),
                None => tokens.input.unwrap_or_default(),
            };
            self.usage.input_tokens = input;
            self.usage.output_tokens = output;
            self.listener.hear(Event::Usage(self.usage));
        }
        let (kind, why) = match &outcome.stop {
            Stop::EndTurn => {
                return Ok(Answer {
                    text: self.text,
                    usage: self.usage,
                });
            }
            Stop::MaxTokens => (ErrorKind::Invalid, "it may not say more".to_owned()),
            Stop::MaxTurnRequests => {
                let why = "it may not ask its model more often";
                (ErrorKind::Invalid, why.to_owned())
            }
            Stop::Refusal => (ErrorKind::Invalid, "it refuses to go on".to_owned()),
            // Nobody here told it to.
            Stop::Cancelled => (ErrorKind::Crashed, "its turn was broken off".to_owned()),
            Stop::Unknown(word) => {
                let word = clean(word, TITLE);
                (
                    ErrorKind::Invalid,
                    format!("it stopped because of `{word}`"),
                )
            }
        };
        Err(Error::new(kind, format!("{}: {why}", self.program)))
    }
}

impl Call {
    fn learn(&mut self, tool: &Tool) {
        let name = tool.value["name"].as_str().map(|name| clean(name, TITLE));
        self.name = name.or(self.name.take());
        self.title = tool.title.clone().or(self.title.take());
        self.kind = tool.kind.clone().or(self.kind.take());
        let input = Some(&tool.value["rawInput"]).filter(|input| says_something(input));
        self.input = input.cloned().or(self.input.take());
        if let Some(content) = tool.content.as_ref().filter(|all| !all.is_empty()) {
            self.content.clone_from(content);
        }
    }

    /// That a tool is asked for. One whose input nobody told is told by its title and its changes.
    fn asked(&self, id: &str) -> Said {
        let kind = self.kind.as_ref().map(ToolKind::word);
        let name = self.name.as_deref().or(kind).unwrap_or("tool").to_owned();
        let input = self.input.clone().unwrap_or_else(|| {
            let diffs = self.content.iter().filter(|part| part["type"] == "diff");
            let changes: Vec<&Value> = diffs.collect();
            let mut input = json!({"title": self.title});
            if !changes.is_empty() {
                input["changes"] = json!(changes);
            }
            input
        });
        Said::Assistant {
            message: None,
            model: None,
            parts: vec![Utterance::Call(ToolCall {
                id: id.to_owned(),
                name,
                input,
            })],
            usage: None,
        }
    }

    /// What a tool that is over has brought.
    fn output(&self, tool: &Tool) -> String {
        let raw = &tool.value["rawOutput"];
        if let Some(text) = raw.as_str() {
            return text.to_owned();
        }
        if says_something(raw) {
            return raw.to_string();
        }
        let texts = self.content.iter().filter_map(|part| {
            let text = part["content"]["text"].as_str();
            text.filter(|_| part["type"] == "content")
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

fn says_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    }
}

/// Money that can be counted.
pub(super) fn dollars(money: &Money) -> Option<Cost> {
    let amount = Some(money.amount).filter(|_| money.currency == "USD");
    amount.and_then(Cost::from_usd)
}
