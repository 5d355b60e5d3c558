//! Plans how a CLI agent is called: with a new conversation, or by the first resume strategy whose
//! conditions hold.

use segno_core::cli_agent::{self, CliAgent};
use segno_core::conversation::ConversationItem;
use segno_core::journal::Seq;
use segno_core::resume::{Plan, Strategy, choose_strategy};
use segno_core::state::{AttemptStatus, NativeConversation, OpenStep, State};
use segno_core::usage::ContextLimits;

use super::Runner;
use super::agent_events::RecentConversation;
use super::chat::Exchange;
use super::run_model_loop::StepError;
use super::step::Step;
use crate::error::Error;
use crate::resume::context::message::{self, Cause, WorkspaceFacts};
use crate::resume::context::{self, Fence, chat, fresh_start};
use crate::resume::conversation::{PriorConversation, missing_entries, user_entry};
use crate::resume::evidence::{self, FoundConversation};
use crate::resume::strategy::{self, Source};

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
    /// Whether the step's resume context belongs into the system prompt. It does not if the
    /// conversation started with a message that has one.
    pub(super) has_context: bool,
}

impl CallPlan {
    fn new_conversation(id: String) -> Self {
        Self {
            id,
            strategy: None,
            has_transcript: false,
            prompt: None,
            has_context: true,
        }
    }
}

impl Runner {
    /// Plans the call of the agent for a step, which it may have started before.
    pub(super) async fn plan_call(
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
        let prior = self
            .prior_conversation(step, revision, recent.newest(), None)
            .await?;
        if let Some(exchange) = &self.exchange
            && prior.entries.len() == prior.past
        {
            let native = native.or_else(|| exchange.past.native.clone());
            return self
                .plan_chat_turn(cli_agent, step, exchange, native, excluded)
                .await;
        }
        // The very first attempt: there is nothing to resume.
        let attempted_before = open.as_ref().is_some_and(|open| open.attempt > 1);
        if native.is_none() && !attempted_before {
            let id = cli_agent::new_conversation_id(&*self.env.random);
            return Ok(CallPlan::new_conversation(id));
        }
        let before = self.earlier.unfinished.get(&step.path);
        let found = self
            .find_conversation(cli_agent, native.as_ref(), excluded, before.is_some())
            .await?;
        let plan = choose_strategy(&found.evidence);
        let mut said = prior.entries.clone();
        said.insert(prior.past, user_entry(&step.input));
        let notice = |text: &str| self.observer.notice(&format!("step {}: {text}", step.path));
        let source = Source {
            cli_agent,
            workspace: &self.id.workspace,
            native: native.as_ref(),
            copy: found.copy.as_ref(),
            entries: &said,
            may_write_transcript: !excluded.contains(&Strategy::Handoff),
            random: &*self.env.random,
            notice: &notice,
        };
        let opened = strategy::open(plan.strategy, &source).await?;
        let cause = recent
            .interruption()
            .or_else(|| is_copied(&state, before).then_some(Cause::Copied))
            .unwrap_or_else(|| cause(&plan, open.as_ref(), before, self.policy.context_limits));
        let unanswered = found.unanswered(prior.unanswered.clone());
        let copied_from = state.forked.as_ref().and_then(|it| it.workspace.clone());
        let copied_from = copied_from.filter(|_| native.is_none());
        let moved_from = found.moved_from.as_deref().or(copied_from.as_deref());
        let facts = WorkspaceFacts {
            workspace: &self.id.workspace,
            moved_from,
            status: self.workspace_status().await,
        };
        let prompt = if opened.has_transcript {
            let since = native.as_ref().map_or(Seq(0), |native| native.opened);
            let notes = self.session_context(&state, true).new_notes(since).await;
            let notes = notes.map_err(StepError::Engine)?;
            let missing = missing_entries(&prior.entries, prior.own, found.record.as_ref());
            let fence = Fence::new(&*self.env.random);
            let quoted = match context::history(&missing).as_str() {
                "" => String::new(),
                history => fence.quote("missing", history),
            };
            let prompt = notes + &message::resume_message(&cause, &facts, &unanswered, &quoted);
            match &self.exchange {
                // What follows the message is missing in the transcript, so the message may be
                // missing too.
                Some(_) if missing.contains(&prior.entries[prior.past]) => format!(
                    "The message that you were answering:\n\n{}\n{prompt}",
                    fence.quote("message", &step.input)
                ),
                _ => prompt,
            }
        } else {
            let facts = message::describe_facts(&facts, &unanswered);
            self.fresh_start_prompt(step, &cause, &facts, &prior)
                .await
                .map_err(StepError::Engine)?
        };
        Ok(CallPlan {
            id: opened.id,
            strategy: Some(plan.strategy),
            has_transcript: opened.has_transcript,
            prompt: Some(match &self.earlier.overrides.message {
                Some(said) if before.is_some() => format!("{prompt}\n\n{said}"),
                _ => prompt,
            }),
            has_context: opened.has_transcript && !native.is_some_and(|own| own.is_summarized()),
        })
    }

    /// Plans the call of the agent for the next message of a chat. Nothing was said in this
    /// exchange yet.
    async fn plan_chat_turn(
        &self,
        cli_agent: &dyn CliAgent,
        step: &Step<'_>,
        exchange: &Exchange,
        native: Option<NativeConversation>,
        excluded: &[Strategy],
    ) -> Result<CallPlan, StepError> {
        let past = &exchange.past;
        if native.is_none() && past.entries.is_empty() {
            let id = cli_agent::new_conversation_id(&*self.env.random);
            return Ok(CallPlan::new_conversation(id));
        }
        let found = self
            .find_conversation(cli_agent, native.as_ref(), excluded, true)
            .await?;
        let plan = choose_strategy(&found.evidence);
        if let (Some(native), Some((_, why))) = (&native, plan.rejected.first()) {
            self.observer.notice(&format!(
                "the conversation {} of {} cannot be resumed natively: {why} (resume strategy: {})",
                native.id, native.program, plan.strategy
            ));
        }
        let notice = |text: &str| self.observer.notice(text);
        let source = Source {
            cli_agent,
            workspace: &self.id.workspace,
            native: native.as_ref(),
            copy: found.copy.as_ref(),
            entries: &past.entries,
            may_write_transcript: !excluded.contains(&Strategy::Handoff),
            random: &*self.env.random,
            notice: &notice,
        };
        let opened = strategy::open(plan.strategy, &source).await?;
        let random = &*self.env.random;
        let prompt = if opened.has_transcript {
            let missing = missing_entries(&past.entries, past.own, found.record.as_ref());
            let missing = context::history(&missing);
            let unanswered = found.unanswered(Vec::new());
            let moved_from = found.moved_from.as_deref();
            if missing.is_empty() && unanswered.is_empty() && moved_from.is_none() {
                None
            } else {
                let facts = WorkspaceFacts {
                    workspace: &self.id.workspace,
                    moved_from,
                    status: self.workspace_status().await,
                };
                let input = &step.input;
                Some(chat::with_facts(
                    random,
                    &missing,
                    &facts,
                    &unanswered,
                    input,
                ))
            }
        } else {
            chat::with_history(random, &past.entries, &step.input)
        };
        let prompt = match &self.earlier.overrides.message {
            Some(said) => Some(format!(
                "{}\n\n{said}",
                prompt.as_deref().unwrap_or(&step.input)
            )),
            None => prompt,
        };
        Ok(CallPlan {
            id: opened.id,
            strategy: Some(plan.strategy),
            has_transcript: opened.has_transcript,
            prompt,
            has_context: true,
        })
    }

    /// Collects what is left of the agent's conversation. `resumes` says whether the user's choice
    /// of a strategy applies.
    async fn find_conversation(
        &self,
        cli_agent: &dyn CliAgent,
        native: Option<&NativeConversation>,
        excluded: &[Strategy],
        resumes: bool,
    ) -> Result<FoundConversation, StepError> {
        let collecting = evidence::collect(
            &self.env,
            self.id.session,
            cli_agent,
            native,
            &self.id.workspace,
        );
        let found = collecting.await;
        let mut found = found.map_err(|error| StepError::Engine(error.into()))?;
        found.evidence.ruled_out = excluded.to_vec();
        found.evidence.context_limits = self.policy.context_limits;
        if resumes {
            found
                .evidence
                .ruled_out
                .extend(&self.earlier.overrides.skipped_strategies);
        }
        Ok(found)
    }

    /// Reads what was said in this step. `end` is the first event that does not count.
    async fn prior_conversation(
        &self,
        step: &Step<'_>,
        revision: u32,
        newest: Vec<ConversationItem>,
        end: Option<Seq>,
    ) -> Result<PriorConversation, StepError> {
        let seqs = self
            .earlier
            .finished
            .turns(&step.path, revision, step.input_digest());
        let seqs = seqs.iter().copied();
        let seqs = seqs.filter(|seq| end.is_none_or(|end| *seq < end));
        let past = self.exchange.as_ref().map(|exchange| &exchange.past);
        let reading = PriorConversation::read(&self.env, self.id.session, seqs, newest, past);
        reading.await.map_err(StepError::Engine)
    }

    /// The prompt for an agent that took a step over and keeps no conversation of its own, and the
    /// event of the handover; `None` if the agent had the step from the start.
    pub(super) async fn handover_prompt(
        &self,
        step: &Step<'_>,
        revision: u32,
    ) -> Result<Option<(Seq, String)>, StepError> {
        self.journal.flush().await?;
        let handed = |state: &State| state.open_steps.get(&step.path)?.handed_over_at;
        let Some(handed) = self.journal.with_state(handed) else {
            return Ok(None);
        };
        let prior = self
            .prior_conversation(step, revision, Vec::new(), Some(handed))
            .await?;
        let before = self.earlier.unfinished.get(&step.path);
        let cause = before.map_or(Cause::Lost, |before| Cause::of(&before.status));
        let facts = WorkspaceFacts {
            workspace: &self.id.workspace,
            moved_from: None,
            status: self.workspace_status().await,
        };
        let facts = message::describe_facts(&facts, &prior.unanswered);
        let prompt = self
            .fresh_start_prompt(step, &cause, &facts, &prior)
            .await
            .map_err(StepError::Engine)?;
        let prompt = match &self.earlier.overrides.message {
            Some(said) => format!("{prompt}\n\n{said}"),
            None => prompt,
        };
        Ok(Some((handed, prompt)))
    }

    /// The prompt for an agent that starts a new conversation on an unfinished step.
    async fn fresh_start_prompt(
        &self,
        step: &Step<'_>,
        cause: &Cause,
        facts: &str,
        prior: &PriorConversation,
    ) -> Result<String, Error> {
        let random = &*self.env.random;
        let said = prior.entries.split_at(prior.past);
        if self.exchange.is_some() {
            return Ok(chat::interrupted_answer(
                random,
                &step.input,
                cause,
                facts,
                said,
            ));
        }
        let state = self.journal.state();
        // `facts` has the current git status.
        let context = self
            .session_context(&state, self.has_tools(step))
            .quoted(Some(&cause.describe()), None)
            .await?;
        Ok(fresh_start::prompt(
            random,
            &step.input,
            cause,
            &context,
            said.1,
            facts,
        ))
    }
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
fn cause(
    plan: &Plan,
    open: Option<&OpenStep>,
    before: Option<&OpenStep>,
    limits: ContextLimits,
) -> Cause {
    let native = open.and_then(|open| open.native.as_ref());
    let full = native.and_then(|native| native.context?.percent());
    if plan.strategy == Strategy::Summarized && full.is_some_and(|percent| percent >= limits.full) {
        return Cause::Full;
    }
    before.map_or(Cause::Lost, |before| Cause::of(&before.status))
}
