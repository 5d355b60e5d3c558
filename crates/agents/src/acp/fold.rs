//! Folds the updates of one turn into entries of a conversation.
//!
//! Text arrives in chunks and is reported as whole messages. The input of a call may arrive in
//! chunks, too: a call is reported when it runs, when the agent requests permission for it, or when
//! something else follows its input, which is before it has an effect.

use std::collections::HashMap;

use segno_core::agent::{Answer, Error, ErrorKind, Event, Listener, Refusal, RefusalReason};
use segno_core::conversation::{
    self, AssistantPart, ConversationItem, ItemContent, Outcome as CallOutcome, Part,
};
use segno_core::tool::ToolCall;
use segno_core::usage::ContextUsage;
use segno_core::usage::{Cost, Usage};
use serde_json::{Value, json};

use super::turn::{Outcome, Stop};
use super::update::{Chunk, Money, PlanEntry, Status, Tool, ToolKind, Update};
use crate::program::kind_of_message;
use crate::sanitize::sanitize;

const LONGEST_MESSAGE: usize = 16 << 20;
/// How much of what a command wrote is kept, in bytes.
const LONGEST_OUTPUT: usize = 1 << 20;
/// How many calls are tracked.
const MAX_CALLS: usize = 10_000;
/// How much of a call's title is shown to the user, in bytes.
const MAX_TITLE: usize = 200;
/// How much of a failure's description is kept, in bytes.
const MAX_FAILURE: usize = 2 << 10;
/// Updates that say nothing about the work.
const IGNORED: [&str; 5] = [
    "available_commands_update",
    "config_option_update",
    "current_mode_update",
    "session_info_update",
    "usage_update",
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum MessageKind {
    Text,
    Thought,
}

/// A message whose end has not arrived.
struct OpenMessage {
    kind: MessageKind,
    message: Option<String>,
    text: String,
}

/// What is known of a call so far.
#[derive(Default)]
struct Call {
    name: Option<String>,
    title: Option<String>,
    kind: Option<ToolKind>,
    input: Option<Value>,
    content: Vec<Value>,
    /// What its command wrote to its terminal.
    terminal: String,
    reported: bool,
    ended: bool,
}

/// Folds the updates of one turn.
pub(super) struct Fold<'a> {
    /// The agent's program, for messages to the user.
    program: &'a str,
    listener: &'a dyn Listener,
    open: Option<OpenMessage>,
    /// The last message.
    text: String,
    calls: HashMap<String, Call>,
    /// A call that has input and was not reported yet.
    waiting: Option<String>,
    /// What the session had cost before: agents report the total of the session.
    before: Cost,
    /// Why the agent may be refused a tool.
    refusal: RefusalReason,
    usage: Usage,
    context_usage: Option<ContextUsage>,
    /// Why the turn failed, as far as the agent has said it: the adapter of Codex reports failures of
    /// the model's provider as a status and a text, and ends the turn like any other.
    failure: Option<String>,
}

impl<'a> Fold<'a> {
    pub(super) fn new(
        program: &'a str,
        before: Cost,
        refusal: RefusalReason,
        listener: &'a dyn Listener,
    ) -> Self {
        Self {
            program,
            listener,
            open: None,
            text: String::new(),
            calls: HashMap::new(),
            waiting: None,
            before,
            refusal,
            usage: Usage::default(),
            context_usage: None,
            failure: None,
        }
    }

    /// Handles the next update.
    pub(super) fn handle(&mut self, update: Update) -> Result<(), Error> {
        let about = match &update {
            Update::ToolStarted(tool) | Update::ToolChanged(tool) => Some(&tool.id),
            _ => None,
        };
        if self.waiting.as_ref() != about {
            self.report_waiting();
        }
        match update {
            Update::Text(chunk) => self.add(MessageKind::Text, chunk),
            Update::Thought(chunk) => self.add(MessageKind::Thought, chunk),
            Update::ToolStarted(tool) | Update::ToolChanged(tool) => {
                self.flush();
                self.tool(&tool, false);
                Ok(())
            }
            Update::Permission { tool, granted } => {
                self.flush();
                self.tool(&tool, true);
                if !granted {
                    self.report_refusal(&tool);
                }
                Ok(())
            }
            Update::Context { used, size, cost } => {
                self.context(used, size, cost.as_ref());
                Ok(())
            }
            Update::Raw { kind, value } => {
                self.thread_status(&value);
                if !kind.is_empty() && !kind.contains('/') && !IGNORED.contains(&kind.as_str()) {
                    self.flush();
                    let record = sanitize(&kind, MAX_TITLE);
                    self.report(ItemContent::Raw { record });
                }
                Ok(())
            }
            Update::Plan(entries) => {
                self.flush();
                self.plan(&entries);
                Ok(())
            }
            // Updates of other sessions are not part of this conversation, and user messages are
            // already known.
            Update::UserMessage(_) | Update::File { .. } | Update::OtherSession { .. } => Ok(()),
        }
    }

    /// A plan is not done work, and still useful in a resume context.
    fn plan(&mut self, entries: &[PlanEntry]) {
        let entry = |entry: &PlanEntry| json!({"content": entry.content, "status": entry.status});
        let entries: Vec<Value> = entries.iter().map(entry).collect();
        self.report(ItemContent::Assistant {
            message: None,
            model: None,
            parts: vec![AssistantPart::Raw {
                value: json!({"type": "plan", "entries": entries}),
            }],
            usage: None,
        });
    }

    /// Notices a failure of the turn, and its end if the agent continues after all.
    fn thread_status(&mut self, update: &Value) {
        if let Some(status) = update["_meta"]["codex"]["threadStatus"]["type"].as_str() {
            self.failure = (status == "systemError").then(String::new);
        }
    }

    fn add(&mut self, kind: MessageKind, chunk: Chunk) -> Result<(), Error> {
        if let (Some(failure), MessageKind::Text) = (&mut self.failure, kind) {
            let room = MAX_FAILURE.saturating_sub(failure.len());
            failure.push_str(&chunk.text[..chunk.text.floor_char_boundary(room)]);
            return Ok(());
        }
        let continues = |open: &OpenMessage| open.kind == kind && open.message == chunk.message;
        if !self.open.as_ref().is_some_and(continues) {
            self.flush();
        }
        let open = self.open.get_or_insert(OpenMessage {
            kind,
            message: chunk.message,
            text: String::new(),
        });
        if open.text.len() + chunk.text.len() > LONGEST_MESSAGE {
            let message = format!(
                "{}: a message has more than {LONGEST_MESSAGE} bytes",
                self.program
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        open.text.push_str(&chunk.text);
        Ok(())
    }

    /// Reports the open message as complete.
    fn flush(&mut self) {
        let Some(message) = self.open.take().filter(|open| !open.text.is_empty()) else {
            return;
        };
        let OpenMessage { kind, text, .. } = message;
        let part = match kind {
            MessageKind::Text => {
                self.text.clone_from(&text);
                AssistantPart::Text { text }
            }
            MessageKind::Thought => AssistantPart::Thinking { text, seal: None },
        };
        // Without an id: not every agent uses the same id when it replays a message.
        self.report(ItemContent::Assistant {
            message: None,
            model: None,
            parts: vec![part],
            usage: None,
        });
    }

    /// Merges an update of a call. Reports the call if `force` is set, or if it runs or has ended.
    fn tool(&mut self, tool: &Tool, force: bool) {
        if self.calls.len() >= MAX_CALLS {
            self.calls.retain(|_, call| !call.ended);
        }
        let call = self.calls.entry(tool.id.clone()).or_default();
        if call.ended {
            return;
        }
        call.merge(tool);
        let ended = matches!(tool.status, Some(Status::Completed | Status::Failed));
        let runs = matches!(tool.status, Some(Status::InProgress));
        if force || ended || runs {
            self.report_call(&tool.id);
        } else if !call.reported && call.input.is_some() {
            self.waiting = Some(tool.id.clone());
        }
        let Some(call) = self.calls.get_mut(&tool.id).filter(|_| ended) else {
            return;
        };
        call.ended = true;
        let text = call.output(tool);
        *call = Call {
            reported: true,
            ended: true,
            ..Call::default()
        };
        let outcome = match tool.status {
            Some(Status::Failed) => CallOutcome::Failed,
            _ => CallOutcome::Succeeded,
        };
        self.report(ItemContent::Result(conversation::Answer {
            id: tool.id.clone(),
            parts: vec![Part::Text { text }],
            outcome,
        }));
    }

    fn report_waiting(&mut self) {
        if let Some(id) = self.waiting.take() {
            self.report_call(&id);
        }
    }

    /// Reports a call, once.
    fn report_call(&mut self, id: &str) {
        if let Some(call) = self.calls.get_mut(id).filter(|call| !call.reported) {
            call.reported = true;
            let message = call.to_message(id);
            self.report(message);
        }
    }

    fn report_refusal(&self, tool: &Tool) {
        let known = self.calls.get(&tool.id);
        let title = tool.title.as_deref();
        let title = title
            .or_else(|| known?.title.as_deref())
            .unwrap_or("a tool");
        self.listener.on_event(Event::Refused(Refusal {
            tool: &sanitize(title, MAX_TITLE),
            reason: self.refusal,
        }));
    }

    fn context(&mut self, used: u64, size: u64, cost: Option<&Money>) {
        let window = Some(size).filter(|size| *size > 0);
        let context_usage = ContextUsage { used, window };
        if self.context_usage != Some(context_usage) {
            self.context_usage = Some(context_usage);
            self.listener.on_event(Event::Context(context_usage));
        }
        if let Some(cost) = cost.and_then(dollars) {
            self.usage.cost = Cost(cost.0.saturating_sub(self.before.0));
            self.listener.on_event(Event::Usage(self.usage));
        }
    }

    fn report(&self, said: ItemContent) {
        self.listener
            .on_event(Event::Item(&ConversationItem::new(said)));
    }

    /// Reports the open message and all calls that were not reported yet, whatever ended the turn.
    pub(super) fn end(&mut self) {
        self.flush();
        let unreported = self.calls.iter().filter(|(_, call)| !call.reported);
        let mut unreported: Vec<String> = unreported.map(|(id, _)| id.clone()).collect();
        unreported.sort();
        for id in unreported {
            self.report_call(&id);
        }
    }

    /// The answer, once the agent has ended its turn.
    pub(super) fn finish(mut self, outcome: &Outcome) -> Result<Answer, Error> {
        self.end();
        if let Some(tokens) = outcome.tokens {
            let output = tokens.output.unwrap_or_default();
            let input = match tokens.total {
                // The rest is input, including cached tokens.
                Some(total) => total.saturating_sub(output),
                None => tokens.input.unwrap_or_default(),
            };
            self.usage.input_tokens = input;
            self.usage.output_tokens = output;
            self.listener.on_event(Event::Usage(self.usage));
        }
        let (kind, why) = match &outcome.stop {
            Stop::EndTurn if self.failure.is_some() => {
                let said = self.failure.unwrap_or_default();
                let kind = kind_of_message(&said).unwrap_or(ErrorKind::Unknown);
                let said = sanitize(said.trim(), MAX_FAILURE);
                let why = Some(said).filter(|said| !said.is_empty());
                (kind, why.unwrap_or_else(|| "its turn failed".to_owned()))
            }
            Stop::EndTurn => {
                return Ok(Answer {
                    text: self.text,
                    usage: self.usage,
                });
            }
            Stop::MaxTokens => (ErrorKind::Invalid, "it reached its output limit".to_owned()),
            Stop::MaxTurnRequests => {
                let why = "it reached its limit of model requests per turn";
                (ErrorKind::Invalid, why.to_owned())
            }
            Stop::Refusal => (ErrorKind::Invalid, "it refuses to continue".to_owned()),
            // Segno did not cancel it.
            Stop::Cancelled => (ErrorKind::Crashed, "its turn was cancelled".to_owned()),
            Stop::Unknown(word) => {
                let word = sanitize(word, MAX_TITLE);
                (
                    ErrorKind::Invalid,
                    format!("it stopped with reason `{word}`"),
                )
            }
        };
        Err(Error::new(kind, format!("{}: {why}", self.program)))
    }
}

impl Call {
    fn merge(&mut self, tool: &Tool) {
        let name = tool.value["name"]
            .as_str()
            .map(|name| sanitize(name, MAX_TITLE));
        self.name = name.or(self.name.take());
        self.title = tool.title.clone().or(self.title.take());
        self.kind = tool.kind.clone().or(self.kind.take());
        let input = Some(&tool.value["rawInput"]).filter(|input| is_present(input));
        self.input = input.cloned().or(self.input.take());
        if let Some(content) = tool.content.as_ref().filter(|all| !all.is_empty()) {
            self.content.clone_from(content);
        }
        let written = |key: &str| tool.value["_meta"][key]["data"].as_str();
        if let Some(all) = written("terminal_output") {
            all.clone_into(&mut self.terminal);
        }
        self.terminal
            .push_str(written("terminal_output_delta").unwrap_or_default());
        // The end of an output says most.
        let excess = self.terminal.len().saturating_sub(LONGEST_OUTPUT);
        let excess = self.terminal.ceil_char_boundary(excess);
        self.terminal.drain(..excess);
    }

    /// The call as an assistant message. Without a known input, its title and diffs stand for it.
    fn to_message(&self, id: &str) -> ItemContent {
        let kind = self.kind.as_ref().map(ToolKind::as_str);
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
        ItemContent::Assistant {
            message: None,
            model: None,
            parts: vec![AssistantPart::Call(ToolCall {
                id: id.to_owned(),
                name,
                input,
            })],
            usage: None,
        }
    }

    /// The output of a call that has ended.
    fn output(&self, tool: &Tool) -> String {
        let raw = &tool.value["rawOutput"];
        if let Some(text) = raw.as_str() {
            return text.to_owned();
        }
        if !self.terminal.is_empty() {
            return self.terminal.clone();
        }
        if is_present(raw) {
            return raw.to_string();
        }
        let texts = self.content.iter().filter_map(|part| {
            let text = part["content"]["text"].as_str();
            text.filter(|_| part["type"] == "content")
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

fn is_present(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    }
}

/// An amount in US dollars; `None` for other currencies.
pub(super) fn dollars(money: &Money) -> Option<Cost> {
    let amount = Some(money.amount).filter(|_| money.currency == "USD");
    amount.and_then(Cost::from_usd)
}
