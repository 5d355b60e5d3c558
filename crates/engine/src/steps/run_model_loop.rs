//! Calls an API model and runs the tools that it requests, until it has an answer.
//!
//! Every reply and every tool result is in the journal before the next call, so a crash inside a
//! step costs at most the call in flight. The start of a tool with effects is durable before the
//! tool runs; if the run is lost in between, the model is told that the outcome is unknown and
//! checks for itself (P6).

use std::fmt::Write;

use segno_core::agent::{self, Answer, ErrorKind, Listener, RefusalReason, Request};
use segno_core::digest::Digest;
use segno_core::journal::{Event, ModelReplied, Seq, ToolFinished, ToolRefused, ToolStarted};
use segno_core::model::{Call, Message, Model, Part, Reply, Stop};
use segno_core::tool::{EffectClass, Tool, ToolCall, ToolResult};
use segno_core::usage::Usage;
use segno_spec::Permission;

use super::Runner;
use super::step::{Step, priced};
use super::toolset::Toolset;
use crate::error::Error;
use crate::note_rules::StepNotes;
use crate::{history, journal, stop};

/// A step that requests tools more often than this makes no progress.
const MOST_TURNS: u32 = 200;

/// How many bytes of a tool's output the model receives: about 50,000 tokens. More would fill its
/// context, and the step could never finish.
const MAX_OUTPUT_BYTES: usize = 200 * 1024;

/// Tells a model about a tool call that may or may not have taken effect.
const OUTCOME_UNKNOWN: &str = "The outcome of this call is unknown: the run was lost while it was in flight. Check whether it took effect before you repeat it.";

/// Asks a model for the rest of a reply that reached the output limit.
const CONTINUE_PROMPT: &str =
    "Your answer was cut off here. Continue it exactly where it stops, without repeating anything.";

/// Why a call has no answer.
pub(super) enum StepError {
    /// The model failed, or the connection to it.
    Agent(agent::Error),
    /// Segno failed.
    Engine(Error),
    /// A stop request took effect between two turns.
    Stopped(stop::Stop),
}

impl From<agent::Error> for StepError {
    fn from(error: agent::Error) -> Self {
        Self::Agent(error)
    }
}

impl From<segno_core::store::Error> for StepError {
    fn from(error: segno_core::store::Error) -> Self {
        Self::Engine(error.into())
    }
}

/// The conversation of one step so far.
#[derive(Default)]
pub(super) struct Conversation {
    pub(super) messages: Vec<Message>,
    /// The index of this step's own question in `messages`.
    pub(super) question_index: usize,
    /// How many tokens the last call took, if known.
    pub(super) tokens: Option<u64>,
    /// The turn after which the conversation was last compacted.
    pub(super) compacted_at: Option<u32>,
    /// How many replies the model has given.
    pub(super) turn: u32,
    /// Whether the user was warned that the context is nearly full.
    pub(super) warned: bool,
    /// How many replies it had when it was loaded from the journal.
    loaded_turns: Option<u32>,
    /// Tool calls of the last reply that were started.
    started_calls: Vec<String>,
    /// Results of the last reply's tool calls.
    results: Vec<ToolResult>,
    /// Extracts notes from tool results, starting with the first result of this run.
    step_notes: Option<StepNotes>,
}

impl Conversation {
    /// The tool calls of the last reply.
    fn calls(&self) -> Vec<ToolCall> {
        let Some(Message::Assistant { parts }) = self.messages.last() else {
            return Vec::new();
        };
        let calls = parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(call.clone()),
            _ => None,
        });
        calls.collect()
    }

    /// Whether nothing was said since the conversation was loaded from the journal, and all of it is
    /// still there.
    pub(super) fn is_as_loaded(&self) -> bool {
        self.loaded_turns == Some(self.turn) && self.compacted_at != Some(self.turn)
    }

    fn push_reply(&mut self, parts: Vec<Part>) {
        self.flush_results();
        self.ask_to_continue();
        self.messages.push(Message::Assistant { parts });
        self.turn += 1;
    }

    /// Asks for the rest of a reply that was cut off.
    fn ask_to_continue(&mut self) {
        if matches!(self.messages.last(), Some(Message::Assistant { .. })) {
            let text = CONTINUE_PROMPT.to_owned();
            self.messages.push(Message::User { text });
        }
    }

    /// The text of the last reply, including the replies that it continues.
    fn final_text(&self) -> String {
        let mut pieces = Vec::new();
        for message in self.messages.iter().rev() {
            match message {
                Message::Assistant { parts } => {
                    let whole = parts.iter().all(|part| !matches!(part, Part::Call(_)));
                    let said = parts.iter().filter_map(|part| match part {
                        Part::Text { text } => Some(text.as_str()),
                        _ => None,
                    });
                    let said: String = said.collect();
                    if whole || pieces.is_empty() {
                        pieces.push(said);
                    }
                    if !whole {
                        break;
                    }
                }
                Message::User { text } if text == CONTINUE_PROMPT => {}
                Message::Tools { .. } if pieces.is_empty() => {}
                Message::User { .. } | Message::Tools { .. } => break,
            }
        }
        pieces.reverse();
        pieces.concat()
    }

    /// The text so far of a reply that is being continued.
    fn text_so_far(&self) -> String {
        match self.messages.last() {
            Some(Message::User { text }) if text == CONTINUE_PROMPT => self.final_text(),
            _ => String::new(),
        }
    }

    /// Moves the results of the last reply's calls into the conversation.
    pub(super) fn flush_results(&mut self) {
        self.started_calls.clear();
        let results = std::mem::take(&mut self.results);
        if !results.is_empty() {
            self.messages.push(Message::Tools { results });
        }
    }
}

impl Runner {
    /// Calls a model until it has an answer. `conversation` is what was said in earlier attempts of
    /// this run.
    pub(super) async fn run_model_loop(
        &self,
        model: &dyn Model,
        step: &Step<'_>,
        revision: u32,
        request: &Request<'_>,
        conversation: &mut Option<Conversation>,
        listener: &dyn Listener,
    ) -> Result<Answer, StepError> {
        let conversation = match conversation {
            Some(conversation) => conversation,
            None => conversation.insert(self.load_conversation(step, revision).await?),
        };
        let offered =
            |toolset: &Toolset| toolset.offered(|name| step.class(toolset, name).is_some());
        let offered: Vec<Tool> = step.toolset.map_or_else(Vec::new, offered);
        loop {
            if let Some(toolset) = step.toolset {
                self.run_tools(toolset, step, revision, conversation, request)
                    .await?;
            }
            if conversation.turn > 0 {
                // Everything that led to the next call is durable before the call.
                self.journal.flush().await?;
                self.check_may_call().await?;
            }
            match &self.exchange {
                Some(exchange) if conversation.turn >= exchange.max_turns => {
                    exchange.set_turn_limit_reached();
                    return Ok(Answer {
                        text: conversation.final_text(),
                        usage: Usage::default(),
                    });
                }
                None if conversation.turn == MOST_TURNS => {
                    let message =
                        format!("the model called tools {MOST_TURNS} times in one step, the limit");
                    return Err(agent::Error::new(ErrorKind::Invalid, message).into());
                }
                _ => conversation.ask_to_continue(),
            }
            self.compact(model, step, revision, request, conversation, listener)
                .await?;
            self.check_context(step, revision, request, conversation)
                .await?;
            let turn = conversation.turn + 1;
            let call = Call {
                key: Digest::of_fields(&[request.key.as_bytes(), &turn.to_le_bytes()]),
                system: request.system,
                messages: &conversation.messages,
                tools: &offered,
            };
            // The usage of earlier turns is already counted.
            listener.on_event(agent::Event::Usage(Usage::default()));
            let mut reply = model.reply(call, listener).await?;
            reply.usage = priced(step.price, reply.usage);
            conversation.tokens = Some(reply.usage.tokens());
            let calls = reply.calls().next().is_some();
            let cut = reply.stop == Stop::Length && !calls && !reply.text().is_empty();
            let continues = cut && self.exchange.is_some();
            if !continues && (offered.is_empty() || !calls) {
                let answer = final_answer(&reply)?;
                let text = conversation.text_so_far() + &answer.text;
                return Ok(Answer { text, ..answer });
            }
            let parts = self
                .journal_reply(step, revision, request.attempt, turn, reply)
                .await?;
            conversation.push_reply(parts);
        }
    }

    /// Rebuilds the conversation of earlier runs from the journal.
    async fn load_conversation(
        &self,
        step: &Step<'_>,
        revision: u32,
    ) -> Result<Conversation, StepError> {
        let handover_prompt = self.handover_prompt(step, revision).await?;
        let (from, text) = handover_prompt.unwrap_or_else(|| (Seq(0), step.input.to_string()));
        let mut messages = step.earlier.clone();
        messages.push(Message::User { text });
        let mut conversation = Conversation {
            question_index: messages.len() - 1,
            messages,
            ..Conversation::default()
        };
        for seq in self
            .earlier
            .finished
            .turns(&step.path, revision, step.input_digest())
        {
            let entry = self.env.store.event(self.id.session, *seq).await?;
            match &entry.event {
                // Replies of another agent; this agent gets them quoted in its input.
                Event::ModelReplied(_) if *seq < from => conversation.turn += 1,
                _ if *seq < from => {}
                Event::ModelReplied(event) => {
                    let parts = journal::load_text(&self.env, &event.parts).await?;
                    let parts = serde_json::from_str(&parts).map_err(|error| {
                        let error = history::Error::InvalidJournal {
                            session: self.id.session,
                            reason: format!("event {seq} has no model reply: {error}"),
                        };
                        StepError::Engine(error.into())
                    })?;
                    conversation.push_reply(parts);
                }
                Event::ConversationCompacted(event) => {
                    let summary = journal::load_text(&self.env, &event.summary).await?;
                    conversation.flush_results();
                    conversation.replace_with_summary(event.messages as usize, &summary);
                }
                Event::ToolStarted(event) => conversation.started_calls.push(event.call.clone()),
                Event::ToolFinished(event) => conversation.results.push(ToolResult {
                    id: event.call.clone(),
                    output: journal::load_text(&self.env, &event.output).await?,
                    is_error: event.is_error,
                }),
                _ => {}
            }
        }
        conversation.loaded_turns = Some(conversation.turn);
        Ok(conversation)
    }

    /// Runs the tools that the last reply requests and that have no result yet.
    async fn run_tools(
        &self,
        toolset: &Toolset,
        step: &Step<'_>,
        revision: u32,
        conversation: &mut Conversation,
        request: &Request<'_>,
    ) -> Result<(), StepError> {
        let turn = conversation.turn;
        for call in conversation.calls() {
            if conversation
                .results
                .iter()
                .any(|result| result.id == call.id)
            {
                continue;
            }
            let permission = step.permissions.of(&call.name);
            let class = step.class(toolset, &call.name);
            let refused = match (class, permission) {
                (Some(_), Permission::Ask) => {
                    self.approve_call(step, revision, turn, &call).await?
                }
                _ => None,
            };
            let mut change = None;
            let refusal = match (class, &refused) {
                (Some(_), Some(_)) => Some(RefusalReason::User),
                (Some(_), None) => None,
                // The model was not offered the tool, and calls it all the same.
                (None, _) => step.refusal(toolset, &call.name),
            };
            let outcome = match (class, refused) {
                (None, _) => Err(format!("there is no tool `{}`", call.name)),
                (_, Some(refused)) => Err(refused),
                (Some(EffectClass::Effectful), None)
                    if conversation.started_calls.contains(&call.id) =>
                {
                    Err(OUTCOME_UNKNOWN.to_owned())
                }
                (Some(class), None) => {
                    if class == EffectClass::Effectful {
                        let started = ToolStarted {
                            path: step.path.clone(),
                            revision,
                            turn,
                            call: call.id.clone(),
                            tool: call.name.clone(),
                        };
                        conversation.started_calls.push(call.id.clone());
                        // P6: the intent is durable before the effect.
                        self.journal.write(vec![started.into()]).await?;
                    }
                    match toolset.state_tool(&call.name) {
                        Some(tool) => {
                            let result = self.run_state_tool(tool, step, &call).await;
                            change = result.change;
                            result.output
                        }
                        None => toolset.run(&call, request.workspace).await,
                    }
                }
            };
            let is_error = outcome.is_err();
            let output = truncate_output(outcome.unwrap_or_else(|problem| problem));
            // The recorded output is the output that the model gets, so that a later run computes
            // with the same text (P7).
            let (kept, output) = journal::redact_and_store(&self.env, &output).await?;
            let finished = ToolFinished {
                path: step.path.clone(),
                revision,
                turn,
                call: call.id.clone(),
                tool: call.name.clone(),
                output: kept,
                is_error,
            };
            let result = ToolResult {
                id: call.id.clone(),
                output,
                is_error,
            };
            let create = || StepNotes::new(&self.journal.handoff(), step.executed_by, &step.path);
            let step_notes = conversation.step_notes.get_or_insert_with(create);
            let mut events = vec![finished.into()];
            events.extend(refusal.map(|reason| {
                let refused = ToolRefused {
                    path: step.path.clone(),
                    revision,
                    attempt: request.attempt,
                    tool: call.name.clone(),
                    reason,
                    program: None,
                };
                refused.into()
            }));
            events.extend(step_notes.extract_from_tool(&self.env, &call, &result));
            match &change {
                // Durable before the next change is decided.
                Some(change) => {
                    events.insert(0, change.event.clone().into());
                    self.journal.write(events).await?;
                }
                None => self.journal.enqueue_all(events).await,
            }
            conversation.results.push(result);
        }
        conversation.flush_results();
        Ok(())
    }

    /// Asks a human to approve a tool call. Returns what the model is told if the human refuses.
    /// The question is bound to this call with these arguments; its answer holds for no other call.
    async fn approve_call(
        &self,
        step: &Step<'_>,
        revision: u32,
        turn: u32,
        call: &ToolCall,
    ) -> Result<Option<String>, StepError> {
        let input = self
            .env
            .redactor
            .redact(&call.input.to_string())
            .into_owned();
        let bound = Digest::of_fields(&[
            &revision.to_le_bytes(),
            &turn.to_le_bytes(),
            call.id.as_bytes(),
            call.name.as_bytes(),
            input.as_bytes(),
        ]);
        let short: String = bound.to_string().chars().take(16).collect();
        let path = step.path.join("approve").join(short);
        let asked = format!(
            "May agent `{}` use `{}`? (yes or no)",
            step.agent, call.name
        );
        let shown = serde_json::to_string_pretty(&call.input).unwrap_or_default();
        let answer = self.ask_approval(&path, &asked, &shown).await;
        let answer = answer.map_err(StepError::Engine)?;
        let mut words = answer.trim().splitn(2, |c: char| !c.is_alphanumeric());
        let verdict = words.next().unwrap_or_default().to_lowercase();
        let reason = words.next().unwrap_or_default().trim();
        if ["y", "yes", "approve", "approved"].contains(&verdict.as_str()) {
            return Ok(None);
        }
        Ok(Some(match reason {
            "" => "The user refused this call. Find another way.".to_owned(),
            reason => format!("The user refused this call: {reason}"),
        }))
    }

    /// Journals a reply that is not the last one of its step.
    async fn journal_reply(
        &self,
        step: &Step<'_>,
        revision: u32,
        attempt: u32,
        turn: u32,
        reply: Reply,
    ) -> Result<Vec<Part>, StepError> {
        let mut parts = serde_json::to_value(&reply.parts).expect("parts serialize to JSON");
        self.env.redactor.redact_json(&mut parts);
        let kept = journal::store_redacted(&self.env, parts.to_string()).await?;
        self.limits.budget.spend(step.executed_by, reply.usage);
        self.journal
            .enqueue(ModelReplied {
                path: step.path.clone(),
                revision,
                attempt,
                turn,
                parts: kept,
                usage: reply.usage,
                window: step.window,
            })
            .await;
        Ok(serde_json::from_value(parts).unwrap_or(reply.parts))
    }

    /// Checks that another call may be made.
    async fn check_may_call(&self) -> Result<(), StepError> {
        if let Some(stop) = self.due_stop() {
            return Err(StepError::Stopped(stop));
        }
        for neared in self
            .limits
            .budget
            .check(&self.id.name)
            .map_err(StepError::Engine)?
        {
            self.journal.enqueue(neared).await;
        }
        Ok(())
    }
}

/// Limits a tool's output to what a model can read.
fn truncate_output(mut output: String) -> String {
    if output.len() > MAX_OUTPUT_BYTES {
        let bytes = output.len();
        output.truncate(output.floor_char_boundary(MAX_OUTPUT_BYTES));
        let _ = write!(
            output,
            "\n[cut: these are the first {} of {bytes} bytes]",
            output.len()
        );
    }
    output
}

/// The text of a reply that ends a step; an error if the reply cannot be an answer.
pub(crate) fn final_answer(reply: &Reply) -> Result<Answer, agent::Error> {
    let (kind, problem) = match reply.stop {
        Stop::Length => (
            ErrorKind::Invalid,
            "the answer is longer than `max_tokens` allows",
        ),
        Stop::Refused => (ErrorKind::Invalid, "the model refuses to answer"),
        Stop::Tools => (
            ErrorKind::Server,
            "the model calls tools that it was not given",
        ),
        Stop::End if reply.text().is_empty() => (ErrorKind::Server, "the answer is empty"),
        Stop::End => {
            return Ok(Answer {
                text: reply.text(),
                usage: reply.usage,
            });
        }
    };
    Err(agent::Error::new(kind, problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_output_above_the_limit_is_cut() {
        let fits = "x".repeat(MAX_OUTPUT_BYTES);
        assert_eq!(truncate_output(fits.clone()), fits);
        let bytes = MAX_OUTPUT_BYTES + 1;
        let expected =
            format!("{fits}\n[cut: these are the first {MAX_OUTPUT_BYTES} of {bytes} bytes]");
        assert_eq!(truncate_output("x".repeat(bytes)), expected);
    }
}
