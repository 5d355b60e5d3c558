//! Runs a CLI agent: an agent whose program keeps the conversation itself.
//!
//! The journal records what the program reports while it reports it, so that a lost run loses no
//! more than what was in transit. An unfinished step continues with the first resume strategy whose
//! preconditions hold. A strategy that fails is excluded for the rest of the attempt, and the next
//! one is tried.

use segno_core::agent::{self, Answer, ErrorKind, Event as AgentEvent, Listener, Request};
use segno_core::cli_agent::{self, CliAgent, ConversationMode};
use segno_core::conversation::{ConversationItem, ItemContent, Origin, Part};
use segno_core::journal::{ConversationOpened, Seq};
use segno_core::resume::{Plan, Strategy, choose_strategy};
use segno_core::state::{AttemptStatus, OpenStep, State};
use segno_core::usage::{ContextUsage, Cost, Usage};
use segno_spec::ContextFull;

use super::Runner;
use super::agent_events::RecentConversation;
use super::prior_conversation::{PriorConversation, missing_entries};
use super::run_model_loop::StepError;
use super::step::{Step, priced};
use crate::error::Error;
use crate::resume::context::message::{self, Cause, WorkspaceFacts};
use crate::resume::context::{self, Fence};
use crate::resume::evidence;

/// How often a fresh conversation may take over within one attempt. An agent that fills the context
/// every time makes no progress.
const MAX_FRESH_STARTS: u32 = 20;

/// The resume strategies that need the program's own transcript.
pub(super) const NEEDS_TRANSCRIPT: [Strategy; 3] =
    [Strategy::Native, Strategy::Repaired, Strategy::Restored];

/// How a CLI agent is called.
pub(super) struct CallPlan {
    /// The program's id for the conversation.
    pub(super) id: String,
    /// The resume strategy; `None` if the conversation is new.
    pub(super) strategy: Option<Strategy>,
    /// Whether the program has a transcript of that conversation.
    pub(super) has_transcript: bool,
    /// What the agent is asked instead of the step's input.
    pub(super) prompt: Option<String>,
}

/// Why a program was stopped in the middle of its work.
enum Halt {
    /// The share of the context that is used, in percent.
    Full(u64),
    /// The model has replied as often as it may.
    Limit,
}

impl Runner {
    /// Starts a CLI agent on a step, or resumes the step that it had started.
    pub(super) async fn run_cli_agent(
        &self,
        cli_agent: &dyn CliAgent,
        step: &Step<'_>,
        revision: u32,
        request: &Request<'_>,
        recent: &RecentConversation,
        listener: &dyn Listener,
    ) -> Result<Answer, StepError> {
        let (mut excluded, mut fresh_starts) = (Vec::new(), 0);
        loop {
            let call_plan = self
                .plan_call(cli_agent, step, revision, recent, &excluded)
                .await?;
            let attempt = request.attempt;
            let open = ConversationOpened {
                path: step.path.clone(),
                revision,
                attempt,
                program: cli_agent.kind(),
                native_id: call_plan.id.clone(),
                folder: self.workspace.to_string_lossy().into_owned(),
                strategy: call_plan.strategy,
            };
            let continues = call_plan.has_transcript;
            let way = if continues {
                ConversationMode::Resume { id: &call_plan.id }
            } else {
                ConversationMode::Start { id: &call_plan.id }
            };
            // P6: the conversation's id is durable before the program does anything under it.
            if continues || cli_agent.accepts_id() {
                self.journal.write(vec![open.clone().into()]).await?;
            }
            let (agent_listener, writer) = self.listen(open, step, recent);
            let known = self
                .journal
                .with_state(|state| state.context_windows.get(step.agent).copied());
            let request = Request {
                input: call_plan.prompt.as_deref().unwrap_or(request.input),
                window: known
                    .filter(|(program, _)| *program == cli_agent.kind())
                    .map(|(_, window)| window),
                ..*request
            };
            let full = async {
                match self.context_full {
                    ContextFull::Agent => std::future::pending().await,
                    ContextFull::Handoff | ContextFull::Pause => {
                        agent_listener.wait_context_full().await
                    }
                }
            };
            // Dropping the future kills the program with its whole process tree.
            let outcome = tokio::select! {
                // An answer that has arrived counts, even if it filled the context.
                biased;
                outcome = cli_agent.ask(request, way, &agent_listener) => Ok(outcome),
                percent = full => Err(Halt::Full(percent)),
                () = agent_listener.wait_turn_limit() => Err(Halt::Limit),
            };
            drop(agent_listener);
            let written = writer.await.expect("received messages are recorded");
            self.budget.spend(written.usage, false);
            let rest = |usage: Usage| remaining_usage(priced(step.price, usage), written.usage);
            let outcome = match outcome {
                Ok(outcome) => outcome,
                Err(Halt::Limit) => {
                    if let Some(exchange) = &self.exchange {
                        exchange.set_turn_limit_reached();
                    }
                    return Ok(Answer {
                        text: recent.last_text(),
                        usage: rest(written.reported),
                    });
                }
                Err(Halt::Full(percent))
                    if self.context_full == ContextFull::Pause
                        || fresh_starts == MAX_FRESH_STARTS =>
                {
                    return Err(StepError::Engine(Error::ContextFull {
                        name: self.name.clone(),
                        path: step.path.clone(),
                        percent,
                    }));
                }
                Err(Halt::Full(percent)) => {
                    self.observer.notice(&format!(
                        "step {}: {percent} % of the context is used; continuing in a new conversation",
                        step.path
                    ));
                    recent.set_interruption(Cause::Full);
                    fresh_starts += 1;
                    excluded.extend(NEEDS_TRANSCRIPT);
                    continue;
                }
            };
            match outcome {
                Ok(answer) => {
                    return Ok(Answer {
                        usage: rest(answer.usage),
                        ..answer
                    });
                }
                Err(error) if continues && strategy_failed(&error, written.entries) => {
                    self.observer.notice(&format!(
                        "step {}: {} cannot resume its own conversation: {}",
                        step.path,
                        cli_agent.kind(),
                        error.message
                    ));
                    excluded.extend(call_plan.strategy);
                }
                // What was said is recorded, so that a fresh conversation can continue.
                Err(error)
                    if error.kind == ErrorKind::ContextFull
                        && written.entries > 0
                        && fresh_starts < MAX_FRESH_STARTS =>
                {
                    self.observer.notice(&format!(
                        "step {}: {}; continuing in a new conversation",
                        step.path, error.message
                    ));
                    recent.set_interruption(Cause::Full);
                    fresh_starts += 1;
                    excluded.extend(NEEDS_TRANSCRIPT);
                }
                Err(error) => {
                    listener.on_event(AgentEvent::Usage(rest(written.reported)));
                    recent.set_interruption(Cause::Failed(self.failure(&error)));
                    return Err(error.into());
                }
            }
        }
    }

    /// Chooses how to call the agent: with a new conversation, or with the first resume strategy
    /// that holds.
    async fn plan_call(
        &self,
        cli_agent: &dyn CliAgent,
        step: &Step<'_>,
        revision: u32,
        recent: &RecentConversation,
        excluded: &[Strategy],
    ) -> Result<CallPlan, StepError> {
        self.journal.flush().await?;
        let mut state = self.journal.state();
        let open = state.open_steps.remove(&step.path);
        let native = open.as_ref().and_then(|open| open.native.clone());
        let before = self.unfinished.get(&step.path);
        let reading = self.read_conversation(step, revision, recent.newest(), None);
        let PriorConversation {
            past,
            entries,
            own,
            unanswered,
        } = reading.await?;
        if let Some(exchange) = &self.exchange
            && entries.len() == past
        {
            let native = native.or_else(|| exchange.past.native.clone());
            return self
                .plan_chat_turn(cli_agent, step, exchange, native, excluded)
                .await;
        }
        let fresh = || cli_agent::new_conversation_id(&*self.env.random);
        // The very first attempt: there is nothing to resume.
        let attempted_before = open.as_ref().is_some_and(|open| open.attempt > 1);
        if native.is_none() && !attempted_before {
            return Ok(CallPlan {
                id: fresh(),
                strategy: None,
                has_transcript: false,
                prompt: None,
            });
        }
        let native_of = native.as_ref();
        let (env, workspace) = (&self.env, &self.workspace);
        let known = evidence::collect(env, self.session, cli_agent, native_of, workspace);
        let mut conversation = known.await.map_err(StepError::Engine)?;
        conversation.evidence.ruled_out = excluded.to_vec();
        if before.is_some() {
            conversation
                .evidence
                .ruled_out
                .extend(&self.overrides.skipped);
        }
        let plan = choose_strategy(&conversation.evidence);
        let unanswered = conversation.unanswered(unanswered);
        let cause = recent
            .interruption()
            .or_else(|| is_copied(&state, before).then_some(Cause::Copied))
            .unwrap_or_else(|| cause(&plan, open.as_ref(), before));
        let opened = native.as_ref().map_or(Seq(0), |native| native.opened);
        let notes = self
            .new_notes(&state, opened)
            .await
            .map_err(StepError::Engine)?;
        let copied_from = state.forked.and_then(|forked| forked.workspace);
        let copied_from = copied_from.filter(|_| native.is_none());
        let workspace_facts = WorkspaceFacts {
            workspace,
            moved_from: conversation
                .moved_from
                .as_deref()
                .or(copied_from.as_deref()),
            status: self.workspace_status().await,
        };
        let id = match (&native, plan.strategy) {
            (Some(native), Strategy::Native | Strategy::Repaired | Strategy::Restored) => {
                native.id.clone()
            }
            _ => fresh(),
        };
        let records = cli_agent.transcript_files();
        if let (Strategy::Repaired, Some(records)) = (plan.strategy, records) {
            let done = records.repair(&id).await?;
            self.observer.notice(&format!("step {}: {done}", step.path));
        }
        if let (Strategy::Restored, Some(copy), Some(records)) =
            (plan.strategy, &conversation.copy, records)
        {
            records.install(&id, copy, workspace).await?;
        }
        let mut has_transcript = NEEDS_TRANSCRIPT.contains(&plan.strategy);
        if plan.strategy == Strategy::Handoff && !excluded.contains(&Strategy::Handoff) {
            let mut all = entries.clone();
            all.insert(past, user_entry(&step.input));
            has_transcript = self.compose_transcript(cli_agent, step, &id, &all).await?;
        }
        let words = match plan.strategy {
            Strategy::Handoff if has_transcript => {
                notes + &message::resume_message(&cause, &workspace_facts, &unanswered, "")
            }
            Strategy::Native | Strategy::Repaired | Strategy::Restored => {
                let missing = missing_entries(&entries, own, conversation.record.as_ref());
                let fence = Fence::new(&*self.env.random);
                let quoted = match context::history(&missing).as_str() {
                    "" => String::new(),
                    history => fence.quote("missing", history),
                };
                let words = notes
                    + &message::resume_message(&cause, &workspace_facts, &unanswered, &quoted);
                match &self.exchange {
                    // What follows the message is missing in the transcript, so the message may be
                    // missing too.
                    Some(_) if missing.contains(&entries[past]) => format!(
                        "The message that you were answering:\n\n{}\n{words}",
                        fence.quote("message", &step.input)
                    ),
                    _ => words,
                }
            }
            Strategy::Summarized | Strategy::Handoff => {
                let facts = message::describe_facts(&workspace_facts, &unanswered);
                self.fresh_start_prompt(step, &cause, &facts, entries.split_at(past))
                    .await?
            }
        };
        let words = match &self.overrides.say {
            Some(said) if before.is_some() => format!("{words}\n\n{said}"),
            _ => words,
        };
        Ok(CallPlan {
            id,
            strategy: Some(plan.strategy),
            has_transcript,
            prompt: Some(words),
        })
    }

    /// Writes a transcript of the conversation for another program, if that program accepts one.
    pub(super) async fn compose_transcript(
        &self,
        cli_agent: &dyn CliAgent,
        step: &Step<'_>,
        id: &str,
        entries: &[ConversationItem],
    ) -> Result<bool, StepError> {
        let Some(records) = cli_agent.transcript_files() else {
            return Ok(false);
        };
        let lost = records
            .write_transcript(id, entries, &self.workspace)
            .await?;
        if !lost.is_empty() {
            self.observer.notice(&format!(
                "step {}: not transferred to {}: {}",
                step.path,
                cli_agent.kind(),
                lost.join(", ")
            ));
        }
        Ok(true)
    }
}

/// The user's input as a conversation entry.
pub fn user_entry(text: &str) -> ConversationItem {
    let text = text.to_owned();
    ConversationItem::new(ItemContent::User {
        origin: Origin::User,
        parts: vec![Part::Text { text }],
    })
}

/// Whether the step is in the state in which the fork copied it from another session.
fn is_copied(state: &State, before: Option<&OpenStep>) -> bool {
    let made = state.created.as_ref().map(|created| created.at);
    // Every copied event has the timestamp of the fork.
    state.forked.is_some()
        && before.is_some_and(|before| {
            Some(before.since) == made && !matches!(before.status, AttemptStatus::Failed(_))
        })
}

/// Why the previous attempt was interrupted. The newest attempt has just started and does not
/// count.
fn cause(plan: &Plan, open: Option<&OpenStep>, before: Option<&OpenStep>) -> Cause {
    let native = open.and_then(|open| open.native.as_ref());
    let full = native.and_then(|native| native.context?.percent());
    if plan.strategy == Strategy::Summarized
        && full.is_some_and(|percent| percent >= ContextUsage::FULL)
    {
        return Cause::Full;
    }
    before.map_or(Cause::Lost, |before| Cause::of(&before.status))
}

/// Whether an error says that this resume strategy does not work, rather than that the work failed.
fn strategy_failed(error: &agent::Error, entries: u64) -> bool {
    match error.kind {
        ErrorKind::NotFound | ErrorKind::ContextFull => true,
        // A program that crashes on its own transcript does so before it says anything.
        ErrorKind::Crashed | ErrorKind::Invalid => entries == 0,
        _ => false,
    }
}

/// The part of a usage that is not in the journal yet.
pub fn remaining_usage(all: Usage, written: Usage) -> Usage {
    Usage {
        input_tokens: all.input_tokens.saturating_sub(written.input_tokens),
        output_tokens: all.output_tokens.saturating_sub(written.output_tokens),
        cost: Cost(all.cost.0.saturating_sub(written.cost.0)),
    }
}
