//! Decides which steps get the resume context.
//!
//! After a resume, agents start that know nothing of the work before. The first step of each agent,
//! in patterns with concurrent branches the first one in each branch, gets the resume context with
//! its system prompt. The context is an addition to the call: neither the recorded input nor its
//! digest contains it (P7). The journal has it with the start of the step, so that an agent that
//! continues the step later has the same system prompt.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use segno_core::journal::{Event, Seq};
use segno_core::session::Status;
use segno_core::state::{OpenStep, State};

use super::Runner;
use super::step::Step;
use crate::env::AgentDriver;
use crate::error::Error;
use crate::resume::context::{SessionContext, human_notes_after, why_ended};

/// What a step's agent gets below its system prompt.
#[derive(Debug, Default)]
pub(super) struct GivenContext {
    /// Empty if there is nothing.
    pub(super) text: String,
    /// Whether the step gets a resume context that is not in the journal yet.
    is_new: bool,
}

impl GivenContext {
    /// The resume context for the journal, if it is new.
    pub(super) fn to_journal(&self) -> Option<String> {
        self.is_new.then(|| self.text.clone())
    }
}

/// The run before this one, as far as the agents of this run are told about it.
pub(crate) struct PreviousRun {
    /// Why it ended, if that is known.
    ended: Option<String>,
    /// The agents that have started a step since, each with its branch.
    started: Mutex<BTreeSet<(String, String)>>,
}

impl PreviousRun {
    /// What `state`, with which a run starts, says about the run before; `None` if the events
    /// `opening` do not resume a session.
    pub(crate) fn of(state: &State, opening: &[Event]) -> Option<Self> {
        let resumes = |event: &Event| matches!(event, Event::RunStarted(_));
        opening.iter().any(resumes).then(|| Self {
            ended: match state.status {
                Status::Running => Some("the process was lost".to_owned()),
                _ => why_ended(state),
            },
            started: Mutex::default(),
        })
    }

    /// Whether the agent starts its first step in the branch.
    fn is_first_step(&self, agent: &str, branch: String) -> bool {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        started.insert((agent.to_owned(), branch))
    }
}

impl Runner {
    /// What the agent of a step gets below its system prompt. `open` is the step as an earlier run
    /// left it, if that run started it.
    pub(super) async fn context_for(
        &self,
        step: &Step<'_>,
        open: Option<&OpenStep>,
    ) -> Result<GivenContext, Error> {
        if let (Some(previous), None) = (&self.earlier.previous_run, &self.exchange) {
            let branch = self.outline.branch(&step.path);
            let is_first = previous.is_first_step(step.executed_by, branch);
            if self.policy.resume_context && self.is_due(step, open, is_first) {
                return self.compile_context(step, previous).await;
            }
            if let Some(given) = self.given_before(step, open).await? {
                return Ok(given);
            }
        }
        Ok(self.task_context(step))
    }

    /// Whether the step's agent gets a resume context that it does not know yet.
    fn is_due(&self, step: &Step<'_>, open: Option<&OpenStep>, is_first: bool) -> bool {
        let is_known = |state: &State| {
            state.finished > 0 || !state.handoff.is_empty() || state.resume_context.is_some()
        };
        if !self.journal.with_state(is_known) {
            return false;
        }
        let Some(open) = open else {
            return is_first;
        };
        let replacement = self.replacement(step);
        match replacement.as_ref().unwrap_or(step.driver) {
            // Its resume strategy says what it is told.
            AgentDriver::CliAgent(_) => false,
            // The message with which it takes over has the resume context.
            _ if is_handed_over(step, open) => false,
            AgentDriver::Model(_) => match self.conversation_start(step, open) {
                Some(start) => self.has_news_since(open.resume_context.unwrap_or(start)),
                None => is_first,
            },
            AgentDriver::Stateless(_) => is_first,
        }
    }

    /// The first event of the conversation that an API model continues, if it has one.
    fn conversation_start(&self, step: &Step<'_>, open: &OpenStep) -> Option<Seq> {
        let finished = &self.earlier.finished;
        let turns = finished.turns(&step.path, open.revision, step.input_digest());
        turns.first().copied()
    }

    /// Whether people noted anything, or edited the resume context, after an event.
    fn has_news_since(&self, seq: Seq) -> bool {
        self.journal.with_state(|state| {
            state.resume_context.is_some() || !human_notes_after(&state.handoff, seq).is_empty()
        })
    }

    async fn compile_context(
        &self,
        step: &Step<'_>,
        previous: &PreviousRun,
    ) -> Result<GivenContext, Error> {
        // What finished just before belongs into it.
        self.journal.flush().await?;
        let state = self.journal.state();
        let workspace_status = self.workspace_status().await;
        let context = self.session_context(&state, self.has_tools(step));
        let text = context
            .quoted(previous.ended.as_deref(), Some(&workspace_status))
            .await?;
        Ok(GivenContext { text, is_new: true })
    }

    /// The resume context that the agent got when it started the step in an earlier run.
    async fn given_before(
        &self,
        step: &Step<'_>,
        open: Option<&OpenStep>,
    ) -> Result<Option<GivenContext>, Error> {
        // The message with which others than CLI agents take over has a newer one.
        let has_older = |open: &&OpenStep| self.has_tools(step) || !is_handed_over(step, open);
        let Some(seq) = open.filter(has_older).and_then(|open| open.resume_context) else {
            return Ok(None);
        };
        Ok(
            match self.env.store.event(self.id.session, seq).await?.event {
                Event::StepStarted(event) => event.resume_context.map(|text| GivenContext {
                    text,
                    is_new: false,
                }),
                _ => None,
            },
        )
    }

    /// What earlier tasks of a plan found out, for the agent of the next task.
    fn task_context(&self, step: &Step<'_>) -> GivenContext {
        let is_empty = |state: &State| state.handoff.is_empty();
        if !self.stop_token.in_task() || self.journal.with_state(is_empty) {
            return GivenContext::default();
        }
        let state = self.journal.state();
        let context = self.session_context(&state, self.has_tools(step));
        GivenContext {
            text: context.for_next_task(),
            is_new: false,
        }
    }

    /// Whether the step's agent gets Segno's MCP tools.
    pub(super) fn has_tools(&self, step: &Step<'_>) -> bool {
        let replacement = self.replacement(step);
        let driver = replacement.as_ref().unwrap_or(step.driver);
        matches!(driver, AgentDriver::CliAgent(_))
    }

    pub(super) fn session_context<'a>(
        &'a self,
        state: &'a State,
        has_tools: bool,
    ) -> SessionContext<'a> {
        SessionContext {
            env: &self.env,
            session: self.id.session,
            name: &self.id.name,
            outline: &self.outline,
            finished: &self.earlier.finished,
            state,
            has_tools,
        }
    }
}

/// Whether another agent takes the step over, or took it over before.
fn is_handed_over(step: &Step<'_>, open: &OpenStep) -> bool {
    open.handed_over_at.is_some() || open.agent != step.executed_by
}
