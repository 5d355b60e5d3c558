//! Plans how a CLI agent is called: with a new conversation, or by the first resume strategy whose
//! conditions hold.

use std::path::Path;
use std::time::Duration;

use segno_core::cli_agent::{self, CliAgent, Examination, Holder};
use segno_core::conversation::ConversationItem;
use segno_core::journal::Seq;
use segno_core::resume::{Plan, Strategy};
use segno_core::state::{AttemptStatus, NativeConversation, OpenStep, State};
use segno_core::usage::{ContextLimits, Cost};

use super::Runner;
use super::agent_events::RecentConversation;
use super::chat::Exchange;
use super::run_model_loop::StepError;
use super::step::Step;
use crate::error::{ConversationOpen, Error};
use crate::resume::context::message::{self, Cause, WorkspaceFacts};
use crate::resume::context::{self, Fence, chat, fresh_start};
use crate::resume::conversation::{PriorConversation, user_entry};
use crate::resume::evidence::{FoundConversation, Search};
use crate::resume::missing::{Missing, Reported, find_missing};
use crate::resume::strategy::{self, NEEDS_TRANSCRIPT, Source};

/// How long an agent that was stopped may take to end, and how often that is checked.
const MAX_ENDING: Duration = Duration::from_secs(30);
const ENDING_POLL: Duration = Duration::from_millis(10);

/// How a CLI agent is called.
pub(super) struct CallPlan {
    /// The program's id for the conversation.
    pub(super) id: String,
    /// The resume strategy; `None` if the conversation is new.
    pub(super) strategy: Option<Strategy>,
    /// Whether the program has a transcript of that conversation.
    pub(super) has_transcript: bool,
    /// What the conversation has cost; `None` if that is unknown.
    pub(super) cost: Option<Cost>,
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
            cost: Some(Cost::default()),
            prompt: None,
            has_context: true,
        }
    }
}

/// What the conversation that a strategy leads to has cost. A copy continues the count of its
/// original.
fn cost_so_far(strategy: Strategy, native: Option<&NativeConversation>) -> Option<Cost> {
    match strategy {
        Strategy::Native | Strategy::Repaired | Strategy::Restored => native?.cost,
        Strategy::Summarized | Strategy::Handoff => Some(Cost::default()),
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
        let conversations = self.conversations(open.as_ref());
        let in_step = open.as_ref().is_some_and(|open| open.native.is_some());
        let before = self.earlier.unfinished.get(&step.path);
        // A chat's next message is not a resume, unless its answer was interrupted.
        let resumes = before.is_some() || self.exchange.is_some();
        // The very first attempt: there is nothing to resume.
        let attempted_before = open.as_ref().is_some_and(|open| open.attempt > 1);
        if self.exchange.is_none() && !in_step && !attempted_before {
            let id = cli_agent::new_conversation_id(&*self.env.random);
            return Ok(CallPlan::new_conversation(id));
        }
        let found = self
            .find_conversation(cli_agent, &conversations, excluded, resumes)
            .await?;
        let attempt = open.as_ref().map_or(1, |open| open.attempt);
        self.complete_usage(step, revision, attempt, recent, &found)
            .await?;
        let native = found.native.clone();
        let prior = self
            .prior_conversation(step, revision, recent.newest(), native.as_ref(), None)
            .await?;
        if let Some(exchange) = &self.exchange
            && prior.entries.len() == prior.past
        {
            return self
                .plan_chat_turn(cli_agent, step, exchange, found, excluded)
                .await;
        }
        let plan = found.choose()?;
        self.check_not_open(cli_agent, step, &found).await?;
        let mut said = prior.entries.clone();
        said.insert(prior.past, user_entry(&step.input));
        let notice = |text: &str| self.observer.notice(&format!("step {}: {text}", step.path));
        let source = Source {
            cli_agent,
            workspace: &self.id.workspace,
            native: native.as_ref(),
            copy: found.copy.as_ref(),
            copied_from: found.copied_from.as_ref(),
            refused: found.evidence.refused,
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
        let reported = Reported {
            entries: &prior.entries,
            own: prior.own,
            left: prior.left,
            unanswered: &prior.unanswered,
        };
        let files = cli_agent.transcript_files();
        let Missing {
            entries: missing,
            unanswered,
        } = find_missing(reported, found.record.as_ref(), files);
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
            cost: cost_so_far(plan.strategy, native.as_ref()),
            prompt: Some(match &self.earlier.overrides.message {
                Some(said) if before.is_some() => format!("{prompt}\n\n{said}"),
                _ => prompt,
            }),
            has_context: opened.has_transcript && !native.is_some_and(|own| own.is_from_summary()),
        })
    }

    /// Plans the call of the agent for the next message of a chat. Nothing was said in this
    /// exchange yet.
    async fn plan_chat_turn(
        &self,
        cli_agent: &dyn CliAgent,
        step: &Step<'_>,
        exchange: &Exchange,
        found: FoundConversation,
        excluded: &[Strategy],
    ) -> Result<CallPlan, StepError> {
        let past = &exchange.past;
        let native = found.native.as_ref();
        if native.is_none() && past.entries.is_empty() {
            let id = cli_agent::new_conversation_id(&*self.env.random);
            return Ok(CallPlan::new_conversation(id));
        }
        let plan = found.choose()?;
        self.check_not_open(cli_agent, step, &found).await?;
        if let (Some(native), Some((_, why))) = (native, plan.rejected.first()) {
            self.observer.notice(&format!(
                "the conversation {} of {} cannot be resumed natively: {why} (resume strategy: {})",
                native.id, native.program, plan.strategy
            ));
        }
        let notice = |text: &str| self.observer.notice(text);
        let source = Source {
            cli_agent,
            workspace: &self.id.workspace,
            native,
            copy: found.copy.as_ref(),
            copied_from: found.copied_from.as_ref(),
            refused: found.evidence.refused,
            entries: &past.entries,
            may_write_transcript: !excluded.contains(&Strategy::Handoff),
            random: &*self.env.random,
            notice: &notice,
        };
        let opened = strategy::open(plan.strategy, &source).await?;
        let random = &*self.env.random;
        let prompt = if opened.has_transcript {
            let newest = past.conversations.last().map(|newest| &newest.id);
            let left = (newest != native.map(|native| &native.id)).then_some(past.own);
            let reported = Reported {
                entries: &past.entries,
                own: past.own,
                left,
                unanswered: &[],
            };
            let files = cli_agent.transcript_files();
            let Missing {
                entries: missing,
                unanswered,
            } = find_missing(reported, found.record.as_ref(), files);
            let missing = context::history(&missing);
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
            cost: cost_so_far(plan.strategy, native),
            prompt,
            has_context: true,
        })
    }

    /// The conversations that CLI agents have had for a step, ordered by when they were last opened: in
    /// a chat also those of earlier messages.
    fn conversations(&self, open: Option<&OpenStep>) -> Vec<NativeConversation> {
        let past = self
            .exchange
            .iter()
            .flat_map(|exchange| &exchange.past.conversations);
        let own = open
            .iter()
            .flat_map(|open| open.earlier.iter().chain(&open.native));
        let mut all: Vec<NativeConversation> = Vec::new();
        for native in past.chain(own) {
            all.retain(|known| known.id != native.id);
            all.push(native.clone());
        }
        all
    }

    /// Finds the conversation that continues, and what is left of it. `resumes` says whether the user's
    /// choice of a strategy applies.
    async fn find_conversation(
        &self,
        cli_agent: &dyn CliAgent,
        conversations: &[NativeConversation],
        excluded: &[Strategy],
        resumes: bool,
    ) -> Result<FoundConversation, StepError> {
        let conversations: Vec<&NativeConversation> = conversations.iter().collect();
        let search = Search {
            env: &self.env,
            session: self.id.session,
            cli_agent,
            workspace: &self.id.workspace,
            conversations: &conversations,
            examination: Examination::StartProgram,
            context_limits: self.policy.context_limits,
        };
        let best = self.earlier.overrides.best_strategy.filter(|_| resumes);
        let found = search.find(best, excluded).await;
        found.map_err(|error| StepError::Engine(error.into()))
    }

    /// Refuses to continue while another process has the conversation open, or ends that process if the
    /// user wants it to end. A user who chose to start a new conversation may keep the old one open.
    /// Waits for a process that ends by itself: an agent of this session that was stopped in this run.
    async fn check_not_open(
        &self,
        cli_agent: &dyn CliAgent,
        step: &Step<'_>,
        found: &FoundConversation,
    ) -> Result<(), StepError> {
        let overrides = &self.earlier.overrides;
        let starts_anew = overrides
            .best_strategy
            .is_some_and(|best| !NEEDS_TRANSCRIPT.contains(&best));
        let native = found
            .native
            .as_ref()
            .filter(|_| !found.evidence.other_agent);
        let Some(native) = native.filter(|_| !starts_anew) else {
            return Ok(());
        };
        let (session, begun) = (self.id.session.to_string(), self.env.clock.elapsed());
        let earlier = native.home.as_deref().map(Path::new);
        loop {
            let holders = cli_agent.holders(&native.id, earlier).await;
            let ends =
                |holder: &Holder| holder.is_ending || holder.session.as_ref() == Some(&session);
            let other = holders.iter().find(|holder| !ends(holder));
            let Some(holder) = other.or(holders.first()) else {
                return Ok(());
            };
            let reason = if ends(holder) {
                if self.env.clock.elapsed().saturating_sub(begun) < MAX_ENDING {
                    self.env.clock.sleep(ENDING_POLL).await;
                    continue;
                }
                Some("it does not end".to_owned())
            } else if overrides.take_over {
                match self.env.processes.end_tree(holder.pid, holder.started) {
                    Ok(()) => {
                        self.observer.notice(&format!(
                            "ended process {} (`{}`), which had the conversation {} open",
                            holder.pid, holder.program, native.id
                        ));
                        continue;
                    }
                    Err(error) => Some(error.to_string()),
                }
            } else {
                None
            };
            let open = ConversationOpen {
                name: self.id.name.clone(),
                path: step.path.clone(),
                agent: native.program,
                conversation: native.id.clone(),
                holder: holder.clone(),
                reason,
            };
            return Err(StepError::Engine(Error::ConversationOpen(Box::new(open))));
        }
    }

    /// Reads what was said in this step. `end` is the first event that does not count.
    async fn prior_conversation(
        &self,
        step: &Step<'_>,
        revision: u32,
        newest: Vec<ConversationItem>,
        native: Option<&NativeConversation>,
        end: Option<Seq>,
    ) -> Result<PriorConversation, StepError> {
        let seqs = self
            .earlier
            .finished
            .turns(&step.path, revision, step.input_digest());
        let seqs = seqs.iter().copied();
        let seqs = seqs.filter(|seq| end.is_none_or(|end| *seq < end));
        let past = self.exchange.as_ref().map(|exchange| &exchange.past);
        let native = native.map(|native| native.id.as_str());
        let reading =
            PriorConversation::read(&self.env, self.id.session, seqs, newest, native, past);
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
            .prior_conversation(step, revision, Vec::new(), None, Some(handed))
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
