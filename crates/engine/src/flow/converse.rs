//! Asking a model, and running the tools that it asks for.
//!
//! Every answer and every result is in the journal before the next call is made, so a crash inside
//! a step costs at most the call in flight. A tool whose effect must not be had twice is written
//! down before it is run; if the run is lost in between, the model is told that the outcome is
//! unknown, and looks for itself (P6).

use std::fmt::Write;

use segno_core::agent::{self, Answer, ErrorKind, Listener, Request};
use segno_core::digest::Digest;
use segno_core::journal::{Event, ModelReplied, Seq, ToolFinished, ToolStarted};
use segno_core::model::{Call, Message, Model, Part, Reply, Stop, Tool, ToolCall, ToolResult};
use segno_core::tool::Class;
use segno_core::usage::Usage;

use super::Flow;
use super::kit::Kit;
use super::step::{Ask, priced};
use crate::error::Error;
use crate::gleaning::Gleaner;
use crate::pen;
use crate::spec::Permission;
use crate::stop;

/// A step that asks for tools more often than this does not come to an end.
const MOST_TURNS: u32 = 200;

/// How much of a tool's answer goes to the model: about fifty thousand tokens. More would fill its
/// context, and the step could never be finished.
const LONGEST_OUTPUT: usize = 200 * 1024;

/// What a model is told about a tool that may or may not have taken effect.
const UNKNOWN: &str = "The outcome of this call is unknown: the run was lost while it was in flight. Find out whether it took effect before you repeat it.";

/// What a model is told whose answer was cut off because it may not say more at once.
const CONTINUE: &str =
    "Your answer was cut off here. Continue it exactly where it stops, without repeating anything.";

/// Why there is no answer.
pub(super) enum Trouble {
    /// The model's fault, or that of the way to it.
    Agent(agent::Error),
    /// Ours.
    Own(Error),
    /// Asked to stop between two turns.
    Stopped(stop::Stop),
}

impl From<agent::Error> for Trouble {
    fn from(error: agent::Error) -> Self {
        Self::Agent(error)
    }
}

impl From<segno_core::store::Error> for Trouble {
    fn from(error: segno_core::store::Error) -> Self {
        Self::Own(error.into())
    }
}

/// A conversation, as far as it has come.
#[derive(Default)]
pub(super) struct Talk {
    pub(super) messages: Vec<Message>,
    /// Where this step's own question stands among them.
    pub(super) own: usize,
    /// How many tokens the last call took, where that is known.
    pub(super) weight: Option<u64>,
    /// After which answer it was last summed up.
    pub(super) summed_up: Option<u32>,
    /// Answers of the model so far.
    pub(super) turn: u32,
    /// Calls of the last answer that were begun.
    begun: Vec<String>,
    /// Results of the last answer's calls.
    results: Vec<ToolResult>,
    /// Reads what tools answer, from the first answer in this run on.
    gleaner: Option<Gleaner>,
}

impl Talk {
    /// The calls of the last answer.
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

    fn replied(&mut self, parts: Vec<Part>) {
        self.close();
        self.go_on();
        self.messages.push(Message::Assistant { parts });
        self.turn += 1;
    }

    /// Asks for the rest of an answer that was cut off.
    fn go_on(&mut self) {
        if matches!(self.messages.last(), Some(Message::Assistant { .. })) {
            let text = CONTINUE.to_owned();
            self.messages.push(Message::User { text });
        }
    }

    /// The words of the last answer, with those that it continues.
    fn words(&self) -> String {
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
                Message::User { text } if text == CONTINUE => {}
                Message::Tools { .. } if pieces.is_empty() => {}
                Message::User { .. } | Message::Tools { .. } => break,
            }
        }
        pieces.reverse();
        pieces.concat()
    }

    /// What was said of an answer that is being continued.
    fn before_the_rest(&self) -> String {
        match self.messages.last() {
            Some(Message::User { text }) if text == CONTINUE => self.words(),
            _ => String::new(),
        }
    }

    /// Takes the results of the last answer's calls into the conversation.
    pub(super) fn close(&mut self) {
        self.begun.clear();
        let results = std::mem::take(&mut self.results);
        if !results.is_empty() {
            self.messages.push(Message::Tools { results });
        }
    }
}

impl Flow {
    /// Asks a model until it has an answer. `talk` is what was said so far, in this run.
    pub(super) async fn converse(
        &self,
        model: &dyn Model,
        ask: &Ask<'_>,
        revision: u32,
        request: &Request<'_>,
        talk: &mut Option<Talk>,
        listener: &dyn Listener,
    ) -> Result<Answer, Trouble> {
        let talk = match talk {
            Some(talk) => talk,
            None => talk.insert(self.recall_talk(ask, revision).await?),
        };
        let offered = |kit: &Kit| kit.offered(|name| ask.class(kit, name).is_some());
        let offered: Vec<Tool> = ask.kit.map_or_else(Vec::new, offered);
        loop {
            if let Some(kit) = ask.kit {
                self.run_tools(kit, ask, revision, talk, request).await?;
            }
            if talk.turn > 0 {
                // Everything that led to the next call is on the disk before it is made.
                self.pen.flush().await?;
                self.between_turns()?;
            }
            match &self.exchange {
                Some(exchange) if talk.turn >= exchange.max_turns => {
                    exchange.reach_the_limit();
                    return Ok(Answer {
                        text: talk.words(),
                        usage: Usage::default(),
                    });
                }
                None if talk.turn == MOST_TURNS => {
                    let message =
                        format!("the model asked for tools {MOST_TURNS} times in one step");
                    return Err(agent::Error::new(ErrorKind::Invalid, message).into());
                }
                _ => talk.go_on(),
            }
            self.shorten(model, ask, revision, request, talk, listener)
                .await?;
            let turn = talk.turn + 1;
            let call = Call {
                key: Digest::of_fields(&[request.key.as_bytes(), &turn.to_le_bytes()]),
                system: request.system,
                messages: &talk.messages,
                tools: &offered,
            };
            // What earlier turns took is counted already.
            listener.hear(agent::Event::Usage(Usage::default()));
            let mut reply = model.reply(call, listener).await?;
            reply.usage = priced(ask.price, reply.usage);
            talk.weight = Some(reply.usage.tokens());
            let calls = reply.calls().next().is_some();
            let cut = reply.stop == Stop::Length && !calls && !reply.text().is_empty();
            let goes_on = cut && self.exchange.is_some();
            if !goes_on && (offered.is_empty() || !calls) {
                let answer = answer(&reply)?;
                let text = talk.before_the_rest() + &answer.text;
                return Ok(Answer { text, ..answer });
            }
            let parts = self
                .keep_reply(ask, revision, request.attempt, turn, reply)
                .await?;
            talk.replied(parts);
        }
    }

    /// What earlier runs said, from the journal.
    async fn recall_talk(&self, ask: &Ask<'_>, revision: u32) -> Result<Talk, Trouble> {
        let inherited = self.inherited(ask, revision).await?;
        let (begin, text) = inherited.unwrap_or_else(|| (Seq(0), ask.input.to_string()));
        let mut messages = ask.earlier.clone();
        messages.push(Message::User { text });
        let mut talk = Talk {
            own: messages.len() - 1,
            messages,
            ..Talk::default()
        };
        for seq in self.finished.turns(&ask.path, revision, ask.digest()) {
            let entry = self.world.store.entry(self.session, *seq).await?;
            match &entry.event {
                // Another agent's, of which this one is told.
                Event::ModelReplied(_) if *seq < begin => talk.turn += 1,
                _ if *seq < begin => {}
                Event::ModelReplied(event) => {
                    let parts = pen::recall(&self.world, &event.parts).await?;
                    let parts = serde_json::from_str(&parts).map_err(|error| {
                        Trouble::Own(Error::Senseless {
                            session: self.session,
                            reason: format!("record {seq} holds no answer of a model: {error}"),
                        })
                    })?;
                    talk.replied(parts);
                }
                Event::TalkShortened(event) => {
                    let summary = pen::recall(&self.world, &event.summary).await?;
                    talk.close();
                    talk.sum_up(event.messages as usize, &summary);
                }
                Event::ToolStarted(event) => talk.begun.push(event.call.clone()),
                Event::ToolFinished(event) => talk.results.push(ToolResult {
                    id: event.call.clone(),
                    output: pen::recall(&self.world, &event.output).await?,
                    is_error: event.is_error,
                }),
                _ => {}
            }
        }
        Ok(talk)
    }

    /// Runs the tools that the last answer asked for and that have no result yet.
    async fn run_tools(
        &self,
        kit: &Kit,
        ask: &Ask<'_>,
        revision: u32,
        talk: &mut Talk,
        request: &Request<'_>,
    ) -> Result<(), Trouble> {
        let turn = talk.turn;
        for call in talk.calls() {
            if talk.results.iter().any(|result| result.id == call.id) {
                continue;
            }
            let permission = ask.permissions.of(&call.name);
            let class = ask.class(kit, &call.name);
            let refused = match (class, permission) {
                (Some(_), Permission::Ask) => self.consent(ask, revision, turn, &call).await?,
                _ => None,
            };
            let outcome = match (class, refused) {
                (None, _) => Err(format!("there is no tool `{}`", call.name)),
                (_, Some(refused)) => Err(refused),
                (Some(Class::Effectful), None) if talk.begun.contains(&call.id) => {
                    Err(UNKNOWN.to_owned())
                }
                (Some(class), None) => {
                    if class == Class::Effectful {
                        let started = ToolStarted {
                            path: ask.path.clone(),
                            revision,
                            turn,
                            call: call.id.clone(),
                            tool: call.name.clone(),
                        };
                        talk.begun.push(call.id.clone());
                        // P6: the intent is durable before the effect.
                        self.pen.write(vec![started.into()]).await?;
                    }
                    kit.run(&call, request.workspace).await
                }
            };
            let is_error = outcome.is_err();
            let output = bounded(outcome.unwrap_or_else(|problem| problem));
            // What is kept is what is used, so that a later run computes with the same text (P7).
            let (kept, output) = pen::keep(&self.world, &output).await?;
            let finished = ToolFinished {
                path: ask.path.clone(),
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
            let begin = || Gleaner::new(&self.pen.handoff(), ask.who, &ask.path);
            let gleaner = talk.gleaner.get_or_insert_with(begin);
            let mut events = vec![finished.into()];
            events.extend(gleaner.tool(&self.world, &call, &result));
            self.pen.note_together(events);
            talk.results.push(result);
        }
        talk.close();
        Ok(())
    }

    /// Whether a person lets a tool be used for just this: what a model is told if not. The question
    /// belongs to this call with these arguments, and its answer to no other.
    async fn consent(
        &self,
        ask: &Ask<'_>,
        revision: u32,
        turn: u32,
        call: &ToolCall,
    ) -> Result<Option<String>, Trouble> {
        let input = self
            .world
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
        let path = ask.path.then("approve").then(short);
        let asked = format!("May agent `{}` use `{}`? (yes or no)", ask.agent, call.name);
        let shown = serde_json::to_string_pretty(&call.input).unwrap_or_default();
        let answer = self.ask_leave(&path, &asked, &shown).await;
        let answer = answer.map_err(Trouble::Own)?;
        let mut words = answer.trim().splitn(2, |c: char| !c.is_alphanumeric());
        let verdict = words.next().unwrap_or_default().to_lowercase();
        let reason = words.next().unwrap_or_default().trim();
        if ["y", "yes", "approve", "approved"].contains(&verdict.as_str()) {
            return Ok(None);
        }
        Ok(Some(match reason {
            "" => "A person refused this call. Find another way.".to_owned(),
            reason => format!("A person refused this call: {reason}"),
        }))
    }

    /// Writes an answer down that is not the last of its step.
    async fn keep_reply(
        &self,
        ask: &Ask<'_>,
        revision: u32,
        attempt: u32,
        turn: u32,
        reply: Reply,
    ) -> Result<Vec<Part>, Trouble> {
        let mut parts = serde_json::to_value(&reply.parts).expect("parts are plain data");
        self.world.redactor.redact_json(&mut parts);
        let kept = pen::store(&self.world, parts.to_string()).await?;
        self.budget.spend(reply.usage, false);
        self.pen.note(ModelReplied {
            path: ask.path.clone(),
            revision,
            attempt,
            turn,
            parts: kept,
            usage: reply.usage,
        });
        Ok(serde_json::from_value(parts).unwrap_or(reply.parts))
    }

    /// Whether another call may be made.
    fn between_turns(&self) -> Result<(), Trouble> {
        if let Some(stop) = self.braked() {
            return Err(Trouble::Stopped(stop));
        }
        for neared in self.budget.check(&self.name).map_err(Trouble::Own)? {
            self.pen.note(neared);
        }
        Ok(())
    }
}

/// What a tool answered, as far as a model can take it in.
fn bounded(mut output: String) -> String {
    if output.len() > LONGEST_OUTPUT {
        let bytes = output.len();
        output.truncate(output.floor_char_boundary(LONGEST_OUTPUT));
        let _ = write!(
            output,
            "\n[cut: these are the first {} of {bytes} bytes]",
            output.len()
        );
    }
    output
}

/// The words of the last answer.
pub(crate) fn answer(reply: &Reply) -> Result<Answer, agent::Error> {
    let (kind, problem) = match reply.stop {
        Stop::Length => (
            ErrorKind::Invalid,
            "the answer is longer than `max_tokens` allows",
        ),
        Stop::Refused => (ErrorKind::Invalid, "the model refuses to answer"),
        Stop::Tools => (
            ErrorKind::Server,
            "the model asks for tools that it was not given",
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
