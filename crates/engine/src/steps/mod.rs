//! Runs the steps of a workflow.
//!
//! Patterns are plain functions that call [`Runner::ask`]. If the journal says that a step is
//! finished, `ask` returns the recorded answer at once. Otherwise it journals the start of the
//! step, runs the agent, and journals the result (P6, P7). Every pattern resumes this way; there is
//! no other resume logic for steps.
//!
//! The submodules execute one step: `step` runs the attempts, `run_model_loop` talks to API
//! models, `run_cli_agent` to CLI agents, `human` to people, and `git_step` runs git
//! operations. `resolved` ends attempts as a user said. `rate_limit` decides about retries and waits, `given_context` which steps get the
//! resume context, `model_context` what happens when a model's context is full, and
//! `workspace_record` when the git status is recorded. Writing the journal is left to
//! [`crate::journal`], the lease to [`crate::lease`].

mod agent_events;
mod agent_state_scope;
mod agents;
mod call_plan;
pub mod chat;
mod compaction;
mod event_queue;
mod git_step;
mod given_context;
mod human;
mod interrupted_usage;
pub(crate) mod json_answer;
mod model_context;
pub(crate) mod notes_file;
mod rate_limit;
mod resolved;
mod run_cli_agent;
mod run_model_loop;
mod runner_parts;
mod state_tools;
mod step;
mod toolset;
mod workspace_record;

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use segno_core::agent::AccessMode;
use segno_core::journal::{Event, OnChange, Seq};
use segno_core::model::{Message, Part};
use segno_core::snapshot::WorkspaceStatus;
use segno_core::state::FinishedStep;
use segno_core::step::Path;
use segno_spec::Schema;

use crate::answers::{Answer, Source};
use crate::env::{AgentDriver, Env};
use crate::error::Error;
use crate::journal::{self, Writer};
use crate::memory::QuestionText;
use crate::observe::Observer;
use crate::resume::Replacement;
use crate::resume::context::Outline;
use crate::scope::Scope;
use crate::steps::chat::Exchange;
use crate::steps::json_answer::find_json;
use crate::steps::notes_file::{NotesFile, StepNote};
use crate::stop::{Stop, StopToken};
use crate::{history, lease, workspace};
use agents::Agent;
use given_context::GivenContext;
use step::Step;

pub use agents::{Agents, PrepareError};
pub use git_step::GIT;
pub use human::check_answer;
pub use run_cli_agent::remaining_usage;
pub(crate) use run_model_loop::final_answer;
pub use runner_parts::Saved;
pub(crate) use runner_parts::{EarlierRuns, Limits, Policy, Rendering, RunIdentity};
pub(crate) use step::priced;
pub use step::{digest, unknown_step_events};

/// How many bytes of earlier questions and answers a model receives again.
const MAX_MEMORY_BYTES: usize = 256 * 1024;

/// How long a read of the inbox stays valid. Reading the inbox takes a good part of the time of the
/// shortest step. The interval is too short for a user to request a pause, learn which step the run
/// finishes first, and see that step end.
const INBOX_READ_INTERVAL: Duration = Duration::from_millis(10);

/// One run: who it is, what it may use, and what earlier runs left.
pub struct Runner {
    pub(crate) env: Env,
    pub(crate) id: RunIdentity,
    pub(crate) journal: Writer,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) stop_token: StopToken,
    pub(crate) agents: Agents,
    pub(crate) policy: Policy,
    pub(crate) earlier: EarlierRuns,
    pub(crate) limits: Limits,
    pub(crate) rendering: Rendering,
    /// What the workflow says about itself, for the resume context of new agents.
    pub(crate) outline: Outline,
    /// The file with notes about what agents did, if the workflow has one.
    pub(crate) notes: Option<NotesFile>,
    /// The message being answered, if the session is a chat.
    pub(crate) exchange: Option<Box<Exchange>>,
}

/// A request to run one step with an agent.
pub struct Question<'a> {
    pub path: Path,
    pub agent: &'a str,
    pub input: Input<'a>,
    /// The variables that its templates see.
    pub scope: &'a Scope,
    /// The tools of the step, if they differ from the agent's tools.
    pub tools: Option<&'a [String]>,
    /// What the agent may do to the workspace.
    pub access: AccessMode,
}

/// The input of a step.
pub enum Input<'a> {
    /// A template to render.
    Template(&'a str),
    /// A template to render, and text that follows it.
    TemplateThen(&'a str, &'a str),
    /// Literal text.
    Text(String),
    /// The text of an earlier answer.
    Answer(Answer),
    /// The agent's own prompt.
    Prompt,
}

impl Input<'_> {
    /// The template, if it is one.
    const fn source(&self) -> &str {
        match self {
            Self::Template(source) | Self::TemplateThen(source, _) => source,
            Self::Text(_) | Self::Answer(_) | Self::Prompt => "",
        }
    }
}

impl Runner {
    /// Returns the answer of a step: the recorded one if the step is finished, otherwise a new one.
    /// If the answer does not match the agent's output schema, asks the agent once more.
    pub async fn ask(&self, question: Question<'_>) -> Result<Answer, Error> {
        let Some(schema) = &self.agents.get(question.agent).output_schema else {
            return self.run_step(question).await;
        };
        let (path, agent) = (question.path.clone(), question.agent);
        let (scope, tools, access) = (question.scope, question.tools, question.access);
        let answer = self.run_step(question).await?;
        let text = self.text(answer).await?;
        let Err(reason) = fits_schema(schema, &text) else {
            return Ok(answer);
        };
        let words = format!(
            "Your answer is not usable: {reason}.\n\n{text}\n\nAnswer again, only with JSON that matches this schema:\n{}",
            schema.text()
        );
        let repair = Question {
            path: path.join("repair"),
            agent,
            input: Input::Text(words),
            scope,
            tools,
            access,
        };
        let answer = self.run_step(repair).await?;
        match fits_schema(schema, &self.text(answer).await?) {
            Ok(()) => Ok(answer),
            Err(reason) => Err(Error::UnusableAnswer {
                name: self.id.name.clone(),
                path: path.join("repair"),
                agent: agent.to_owned(),
                times: 2,
                reason,
            }),
        }
    }

    /// Returns the recorded answer of a step, or runs the step. Does not check the output schema.
    pub(crate) async fn run_step(&self, question: Question<'_>) -> Result<Answer, Error> {
        // A finished step needs no rendering.
        if let Some((asked, source)) = self.recorded_answer(&question.path) {
            let answer = self.rendering.answers.add(source);
            let asked = QuestionText::Journal(asked);
            self.remember(
                &question.path,
                question.agent,
                question.scope,
                asked,
                answer,
            );
            self.write_missing_note(&question, answer).await?;
            return Ok(answer);
        }
        let Question {
            path,
            agent,
            input,
            scope,
            tools,
            access,
        } = question;
        let spec_agent = self.agents.get(agent);
        let sources = [spec_agent.prompt.as_str(), input.source()];
        let scope = &self.with_agent_state(&path, agent, scope, sources).await?;
        let system = self.prompt(agent, &spec_agent.prompt, scope).await? + &spec_agent.skills;
        let input = match input {
            Input::Template(source) => self.render("the input", &path, source, scope).await?,
            Input::TemplateThen(source, more) => {
                let text = self.render("the input", &path, source, scope).await?;
                format!("{text}\n\n{more}")
            }
            Input::Text(words) => words,
            Input::Answer(answer) => self.text(answer).await?.to_string(),
            Input::Prompt => system.clone(),
        };
        if let Some(schema) = &spec_agent.input_schema
            && let Ok(value) = serde_json::from_str(&input)
            && let Err(reason) = schema.check(&value)
        {
            return Err(Error::InvalidInput {
                name: self.id.name.clone(),
                path,
                agent: agent.to_owned(),
                reason,
            });
        }
        let input: Arc<str> = input.into();
        let (executed_by, actor) = self.actor(&path, agent);
        let toolset = self.agents.toolset(tools.unwrap_or(&actor.tools));
        let tools = tools.unwrap_or(&spec_agent.tools);
        let notes = match &self.notes {
            Some(notes) => notes.prompt_text(self)?,
            None => String::new(),
        };
        let step = Step {
            path: path.clone(),
            agent,
            executed_by,
            earlier: match (&self.exchange, &actor.driver) {
                (Some(exchange), AgentDriver::Model(_)) => self.past_messages(exchange),
                (Some(_), _) => Vec::new(),
                (None, _) => self.past_exchanges(agent, scope).await?,
            },
            notes,
            context: GivenContext::default(),
            driver: &actor.driver,
            provider: &spec_agent.identity,
            provider_name: actor.provider,
            tool_names: tools,
            system,
            input: Arc::clone(&input),
            toolset,
            permissions: &actor.permissions,
            access,
            price: actor.price,
            window: actor.window,
            summarizer: actor
                .summarizer
                .as_ref()
                .map(|(model, price)| (&**model, *price)),
        };
        let records = self.exchange.is_none() && (step.may_change_files() || self.notes.is_some());
        let answer = self.rendering.answers.add(self.step(step).await?);
        if let Some(notes) = &self.notes {
            // The answer is durable before a file mentions it.
            self.journal.flush().await?;
            let note = StepNote {
                step: path.as_str(),
                agent,
                question: &input,
                tools,
                answer: &self.text(answer).await?,
            };
            notes.add(self, note).await?;
        }
        if records {
            self.record_workspace_status().await;
        }
        self.remember(&path, agent, scope, QuestionText::InMemory(input), answer);
        Ok(answer)
    }

    /// Who executes the step: the agent of the spec, unless an earlier run handed the unfinished
    /// step over, or the user resumes it with another agent.
    fn actor<'a>(&'a self, path: &Path, agent: &'a str) -> (&'a str, &'a Agent) {
        let open = self.earlier.unfinished.get(path);
        let wanted = open.and_then(|open| match &self.earlier.overrides.agent {
            Some(Replacement::Agent(name)) => Some(name),
            Some(Replacement::Program(_)) => None,
            None => open.handed_over_at.map(|_| &open.agent),
        });
        let found = wanted.and_then(|name| Some((name.as_str(), self.agents.find(name)?)));
        found.unwrap_or_else(|| (agent, self.agents.get(agent)))
    }

    /// Writes the note of a step whose run was lost between the answer and the note.
    async fn write_missing_note(
        &self,
        question: &Question<'_>,
        answer: Answer,
    ) -> Result<(), Error> {
        let (Some(notes), Some(done)) = (&self.notes, self.earlier.finished.get(&question.path))
        else {
            return Ok(());
        };
        let step = question.path.as_str();
        if notes.has(self, step)? {
            return Ok(());
        }
        let note = StepNote {
            step,
            agent: question.agent,
            question: &self.input_at(done.started_seq).await?,
            tools: question
                .tools
                .unwrap_or(&self.agents.get(question.agent).tools),
            answer: &self.text(answer).await?,
        };
        notes.add(self, note).await
    }

    /// Adds a question and its answer to the model's memory.
    fn remember(
        &self,
        path: &Path,
        agent: &str,
        scope: &Scope,
        asked: QuestionText,
        answer: Answer,
    ) {
        let model = matches!(self.agents.get(agent).driver, AgentDriver::Model(_));
        if self.policy.has_memory && model {
            scope.memory().add(path, agent, asked, answer);
        }
    }

    /// The newest remembered exchanges that fit into [`MAX_MEMORY_BYTES`].
    async fn past_exchanges(&self, agent: &str, scope: &Scope) -> Result<Vec<Message>, Error> {
        let (mut room, mut messages) = (MAX_MEMORY_BYTES, Vec::new());
        for exchange in scope.memory().exchanges_of(agent).into_iter().rev() {
            let asked = match exchange.question {
                QuestionText::InMemory(words) => words,
                QuestionText::Journal(seq) => self.input_at(seq).await?.into(),
            };
            let answer = self.text(exchange.answer).await?;
            let Some(left) = room.checked_sub(asked.len() + answer.len()) else {
                break;
            };
            room = left;
            let text = answer.to_string();
            let parts = vec![Part::Text { text }];
            messages.push(Message::Assistant { parts });
            let text = asked.to_string();
            messages.push(Message::User { text });
        }
        messages.reverse();
        Ok(messages)
    }

    /// The input of the step whose start is event `seq`.
    async fn input_at(&self, seq: Seq) -> Result<String, Error> {
        let entry = self.env.store.event(self.id.session, seq).await?;
        match &entry.event {
            Event::StepStarted(event) => Ok(journal::load_text(&self.env, &event.input).await?),
            other => Err(history::Error::InvalidJournal {
                session: self.id.session,
                reason: format!("event {seq} is a {}, not the start of a step", other.kind()),
            }
            .into()),
        }
    }

    /// Renders the agent's prompt. A prompt that cannot be rendered is sent unrendered, with one
    /// notice.
    async fn prompt(&self, agent: &str, source: &str, scope: &Scope) -> Result<String, Error> {
        match self.render("the prompt", &agent, source, scope).await {
            Err(Error::Template { error, .. }) => {
                let mut reported = self
                    .rendering
                    .unrendered_prompts
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                if reported.insert(agent.to_owned()) {
                    self.observer.notice(&format!(
                        "the prompt of agent `{agent}` is sent unrendered, because its template fails: {error}"
                    ));
                }
                Ok(source.to_owned())
            }
            rendered => rendered,
        }
    }

    pub async fn text(&self, answer: Answer) -> Result<Arc<str>, Error> {
        let text = self
            .rendering
            .answers
            .text(&self.env, &self.journal, self.id.session, answer);
        Ok(text.await?)
    }

    /// Renders a template; `what` and `whose` name it in errors.
    pub async fn render(
        &self,
        what: &str,
        whose: &impl std::fmt::Display,
        source: &str,
        scope: &Scope,
    ) -> Result<String, Error> {
        let rendered =
            self.with_answers_loaded(|| self.rendering.templates.render(source, scope.value()));
        rendered.await?.map_err(|error| Error::Template {
            place: format!("{what} of {whose}"),
            error,
        })
    }

    /// Evaluates the condition of an edge that leaves `node`.
    pub async fn holds(&self, node: &str, source: &str, scope: &Scope) -> Result<bool, Error> {
        let held =
            self.with_answers_loaded(|| self.rendering.templates.holds(source, scope.value()));
        held.await?.map_err(|error| Error::Template {
            place: format!("the condition `{source}` after node {node}"),
            error,
        })
    }

    /// Repeats `attempt` until all answers that it reads are loaded.
    async fn with_answers_loaded<T>(&self, attempt: impl Fn() -> T) -> Result<T, Error> {
        loop {
            let result = attempt();
            let missed = self.rendering.answers.take_missed();
            if missed.is_empty() {
                self.rendering.answers.evict();
                return Ok(result);
            }
            for answer in missed {
                let text = self.text(answer).await?;
                self.rendering.answers.cache(answer, text);
            }
        }
    }

    /// Whether the step is finished and will not run again, so that its input need not be built.
    pub(crate) fn will_skip(&self, path: &Path) -> bool {
        self.policy.on_change != OnChange::Rerun && self.earlier.finished.get(path).is_some()
    }

    /// The workspace status now, and what the session has changed since it started.
    async fn workspace_status(&self) -> WorkspaceStatus {
        let began = self
            .journal
            .with_state(|state| state.start_commit().map(str::to_owned));
        workspace::workspace_status(&self.env, &self.id.workspace, began.as_deref()).await
    }

    /// The workflow's variables as JSON for a prompt.
    pub(crate) fn variables_as_json(&self) -> String {
        let variables = self.journal.with_state(|state| {
            let created = state.created.as_ref();
            created.map(|created| created.variables.clone())
        });
        serde_json::to_string_pretty(&variables.unwrap_or_default()).unwrap_or_default()
    }

    /// The recorded answer of a finished step, unless changed inputs make steps run again.
    fn recorded_answer(&self, path: &Path) -> Option<(Seq, Source)> {
        let done = self
            .earlier
            .finished
            .get(path)
            .filter(|_| self.policy.on_change != OnChange::Rerun)?;
        Some((done.started_seq, self.skip(path, done)))
    }

    /// Counts a finished step as saved, reports it as skipped, and returns its recorded answer.
    fn skip(&self, path: &Path, done: &FinishedStep) -> Source {
        let mut saved = self
            .earlier
            .saved
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        saved.steps += 1;
        saved.usage += done.usage;
        self.observer.skipped(self.id.session, path);
        Source::Journal(done.seq)
    }

    /// Skips every finished step below `place`.
    pub(crate) fn skip_finished_below(&self, place: &Path) {
        let below = format!("{place}/");
        let finished = self.earlier.finished.iter();
        let mut skipped: Vec<_> = finished
            .filter(|(path, _)| path.as_str().starts_with(&below))
            .collect();
        skipped.sort_by_key(|(_, done)| done.seq);
        for (path, done) in skipped {
            self.skip(path, done);
        }
    }

    /// Checks that a new step may start: no stop request, no failure in a concurrent step, budget
    /// left.
    pub(crate) async fn check_may_start(&self) -> Result<(), Error> {
        self.read_stop_requests().await;
        if let Some(stop) = self.limits.auto_pause.due_stop() {
            self.stop_token.request_stop(stop);
        }
        if let Some(stop) = self.due_stop() {
            return Err(self.stop_error(stop));
        }
        if self.limits.failing.load(Ordering::Relaxed) {
            return Err(Error::ConcurrentStepFailed);
        }
        for neared in self.limits.budget.check(&self.id.name)? {
            self.journal.enqueue(neared).await;
        }
        Ok(())
    }

    /// Reads stop requests from the inbox. A user who was told that the run stops after this step
    /// can rely on it.
    async fn read_stop_requests(&self) {
        let now = self.env.clock.elapsed();
        {
            let mut inbox_read_at = self
                .limits
                .inbox_read_at
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if inbox_read_at.is_some_and(|at| now.saturating_sub(at) < INBOX_READ_INTERVAL) {
                return;
            }
            *inbox_read_at = Some(now);
        }
        lease::read_stop_requests(
            &self.env,
            self.id.session,
            &self.stop_token,
            &*self.observer,
        )
        .await;
    }

    /// The stop request that takes effect here, if there is one.
    fn due_stop(&self) -> Option<Stop> {
        let stop = self.stop_token.requested();
        stop.filter(|stop| stop.is_immediate() || !self.stop_token.in_task())
    }

    pub(crate) fn stop_error(&self, stop: Stop) -> Error {
        match stop {
            Stop::Requested(asked) => Error::Stopped {
                name: self.id.name.clone(),
                status: asked.status,
                by: asked.by,
            },
            Stop::Fenced(error) => Error::Store(error),
        }
    }
}

/// Whether the answer contains JSON that matches the schema.
pub(crate) fn fits_schema(schema: &Schema, text: &str) -> Result<(), String> {
    if find_json(text, |value| schema.check(value).is_ok()).is_some() {
        return Ok(());
    }
    match find_json(text, |_| true) {
        Some(value) => schema.check(&value),
        None => Err("it is not JSON".to_owned()),
    }
}
