//! Runs one step: journals its start, calls the agent, retries, journals the result.
//!
//! The start of an attempt is durable before the agent is called (P6). The recorded answer is the
//! redacted text that later steps use, so that a resumed run computes with the same text (P7).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use segno_core::agent::{self, AccessMode, Answer, ErrorKind, Listener, RefusalReason, Request};
use segno_core::digest::Digest;
use segno_core::fault::{Point, point};
use segno_core::journal::{
    Event, Failure, StepDiscarded, StepFailed, StepFinished, StepPaused, StepStarted, StepUnknown,
};
use segno_core::model::{Message, Model};
use segno_core::state::{OpenStep, State};
use segno_core::step::Path;
use segno_core::store::DiskSpace;
use segno_core::time::Timestamp;
use segno_core::tool::EffectClass;
use segno_core::usage::{ContextUsage, Cost, Price, Usage};
use segno_spec::{Permission, Permissions};

use super::Runner;
use super::agent_events::RecentConversation;
use super::given_context::GivenContext;
use super::rate_limit::Next;
use super::run_model_loop::{Conversation, StepError};
use super::toolset::Toolset;
use crate::answers::Source;
use crate::env::AgentDriver;
use crate::error::Error;
use crate::journal;
use crate::observe::Observer;
use crate::resume::Replacement;
use crate::stop::Stop;

/// A step whose prompt and input are rendered and whose agent is chosen.
pub(super) struct Step<'a> {
    pub(super) path: Path,
    /// The agent that the spec names.
    pub(super) agent: &'a str,
    /// The agent that executes the step: the same, unless the step was handed over.
    pub(super) executed_by: &'a str,
    pub(super) driver: &'a AgentDriver,
    /// What the answer depends on besides prompt and input.
    pub(super) provider: &'a str,
    /// The provider's name in the spec format.
    pub(super) provider_name: &'static str,
    pub(super) system: String,
    pub(super) input: Arc<str>,
    /// What the agent remembers, if it is an API model.
    pub(super) earlier: Vec<Message>,
    /// Notes that the agent sees below its prompt. They are not part of the digest, because others
    /// write them too.
    pub(super) notes: String,
    /// What the agent gets below prompt and notes. Not part of the digest either.
    pub(super) context: GivenContext,
    pub(super) tool_names: &'a [String],
    /// The tools that an API model may call.
    pub(super) toolset: Option<&'a Toolset>,
    pub(super) permissions: &'a Permissions,
    /// What the agent may do to the workspace.
    pub(super) access: AccessMode,
    /// The price, if it is known.
    pub(super) price: Option<Price>,
    /// The size of an API model's context window in tokens, if it is known.
    pub(super) window: Option<u64>,
    /// The model that summarizes the conversation, if it is not the agent's own, and its price.
    pub(super) summarizer: Option<(&'a dyn Model, Option<Price>)>,
}

impl Step<'_> {
    /// The agent's prompt with the notes and, if it gets it, the resume context.
    pub(super) fn system_prompt(&self, with_context: bool) -> String {
        let context = if with_context {
            &*self.context.text
        } else {
            ""
        };
        let mut prompt = format!("{}{}", self.system, self.notes);
        if !prompt.is_empty() && !context.is_empty() {
            prompt.push_str("\n\n");
        }
        prompt + context
    }

    /// The digest of everything that the answer depends on.
    pub(super) fn input_digest(&self) -> Digest {
        let words = [self.agent, self.provider, &self.system, &self.input];
        digest(words, self.tool_names, &self.earlier)
    }

    /// Why the agent may not use a tool; `None` if it may, or if there is no such tool.
    pub(super) fn refusal(&self, toolset: &Toolset, tool: &str) -> Option<RefusalReason> {
        let class = toolset.class(tool)?;
        if self.permissions.of(tool) == Permission::Deny {
            Some(RefusalReason::Spec)
        } else {
            let fits = self.access == AccessMode::ReadWrite || class == EffectClass::ReadOnly;
            (!fits).then_some(RefusalReason::ReadOnly)
        }
    }

    /// What happens if a tool runs twice; `None` if the tool does not exist or may not be used.
    pub(super) fn class(&self, toolset: &Toolset, tool: &str) -> Option<EffectClass> {
        let class = toolset.class(tool)?;
        self.refusal(toolset, tool).is_none().then_some(class)
    }
}

/// The digest of everything that an answer depends on. `words` are agent, provider, system prompt
/// and input; then come the names of the tools and the remembered messages.
pub fn digest(words: [&str; 4], tools: &[String], earlier: &[Message]) -> Digest {
    let tools = tools.iter().map(String::as_str);
    let earlier = match earlier {
        [] => None,
        earlier => Some(serde_json::to_string(earlier).expect("messages serialize to JSON")),
    };
    let fields = words.into_iter().chain(tools).chain(earlier.as_deref());
    let fields: Vec<&[u8]> = fields.map(str::as_bytes).collect();
    Digest::of_fields(&fields)
}

/// The outcome of one attempt.
enum Attempt {
    Answered(Answer, Usage),
    Failed(agent::Error, Usage),
    Stopped(Stop),
    /// Stopped while nothing was in flight.
    Paused(Stop),
    Broken(Error),
}

/// An attempt that failed.
struct FailedAttempt {
    revision: u32,
    attempt: u32,
    /// How many attempts there were in this run, with this one.
    of_run: u32,
    error: agent::Error,
    usage: Usage,
}

impl Runner {
    /// Returns the recorded answer if the step finished with the same input, otherwise runs it.
    pub(super) async fn step(&self, mut step: Step<'_>) -> Result<Source, Error> {
        let mut revision = 0;
        if let Some(done) = self.earlier.finished.get(&step.path) {
            if done.input_digest == step.input_digest() {
                return Ok(self.skip(&step.path, done));
            }
            self.journal
                .enqueue(StepDiscarded {
                    path: step.path.clone(),
                    revision: done.revision,
                })
                .await;
            revision = done.revision + 1;
        }
        self.check_may_start().await?;
        if let Some(result) = self.finish_resolved(&step, revision).await? {
            return Ok(result);
        }
        let open = self.earlier.unfinished.get(&step.path);
        let open = open.filter(|open| open.revision >= revision && open.attempt > 0);
        step.context = self.context_for(&step, open).await?;
        self.run_attempts(&step, revision).await
    }

    /// Repeats attempts until one succeeds, the retries are used up, or the run stops.
    async fn run_attempts(&self, step: &Step<'_>, revision: u32) -> Result<Source, Error> {
        let (revision, previous_attempts) = match self.earlier.unfinished.get(&step.path) {
            Some(open) if open.revision >= revision => {
                self.finish_earlier_wait(step, open).await?;
                (open.revision, open.attempt)
            }
            _ => (revision, 0),
        };
        let (kept_input, _) = journal::redact_and_store(&self.env, &step.input).await?;
        let input_digest = step.input_digest();
        let (mut conversation, recent) = (None, RecentConversation::default());
        let (mut attempt, mut failed) = (previous_attempts, 0);
        if let Some(error) = self.reported_failure(&step.path, revision).await? {
            let failure = FailedAttempt {
                revision,
                attempt,
                of_run: 1,
                error,
                usage: Usage::default(),
            };
            self.after_failed_attempt(step, &mut failed, failure)
                .await?;
        }
        let mut new_context = step.context.to_journal();
        loop {
            attempt += 1;
            let slot = self
                .limits
                .slots
                .acquire()
                .await
                .expect("it is never closed");
            self.check_may_start().await?;
            let started = StepStarted {
                path: step.path.clone(),
                revision,
                attempt,
                agent: step.executed_by.to_owned(),
                input: kept_input.clone(),
                input_digest,
                resume_context: new_context.take(),
            };
            // P6: the intent is durable before the effect.
            if self.journal.write(vec![started.into()]).await? == DiskSpace::ReserveOnly {
                return Err(self.disk_full_error(step, revision, attempt).await);
            }
            let started_at = self.env.clock.now();
            match self
                .attempt(step, revision, attempt, &mut conversation, &recent)
                .await
            {
                Attempt::Answered(answer, usage) => {
                    point(Point::StepAfterEffect);
                    return self
                        .finish(step, revision, attempt, started_at, answer, usage)
                        .await;
                }
                Attempt::Broken(error) => {
                    // Nothing was in flight: a human must decide before the step continues.
                    if matches!(
                        error,
                        Error::WaitingForHuman { .. }
                            | Error::ContextFull { .. }
                            | Error::ConversationOpen(_)
                    ) {
                        self.journal
                            .enqueue(StepPaused {
                                path: step.path.clone(),
                                revision,
                                attempt,
                            })
                            .await;
                    }
                    return Err(error);
                }
                Attempt::Paused(stop) => {
                    self.journal
                        .enqueue(StepPaused {
                            path: step.path.clone(),
                            revision,
                            attempt,
                        })
                        .await;
                    return Err(self.stop_error(stop));
                }
                Attempt::Stopped(stop) => {
                    if !matches!(stop, Stop::Fenced(_)) {
                        self.journal
                            .enqueue(StepUnknown {
                                path: step.path.clone(),
                                revision,
                                attempt,
                            })
                            .await;
                    }
                    return Err(self.stop_error(stop));
                }
                Attempt::Failed(error, usage) => {
                    // A step that waits occupies no agent slot.
                    drop(slot);
                    let failure = FailedAttempt {
                        revision,
                        attempt,
                        of_run: attempt - previous_attempts,
                        error,
                        usage,
                    };
                    self.after_failed_attempt(step, &mut failed, failure)
                        .await?;
                }
            }
        }
    }

    /// Journals a failed attempt, and returns when the next one may start. `failed` counts the
    /// attempts of this run that failed for another reason than a rate limit.
    async fn after_failed_attempt(
        &self,
        step: &Step<'_>,
        failed: &mut u32,
        failure: FailedAttempt,
    ) -> Result<(), Error> {
        let FailedAttempt {
            revision,
            attempt,
            of_run,
            error,
            usage,
        } = failure;
        self.limits.budget.spend(step.executed_by, usage);
        *failed += u32::from(!matches!(error.kind, ErrorKind::RateLimited(Some(_))));
        let now = self.env.clock.now();
        let next = self.after_failure(step, *failed, &error, now).await?;
        self.journal
            .enqueue(StepFailed {
                path: step.path.clone(),
                revision,
                attempt,
                error: self.failure(&error),
                usage,
                retry_in_ms: next.wait_ms(now),
                suspended: next.suspension().cloned(),
            })
            .await;
        match next {
            Next::Retry(wait) => self.sleep_until(now.after(wait)).await,
            Next::WaitForLimit(suspension) => {
                // P6: the end of the wait is durable before the wait starts.
                self.journal.flush().await?;
                self.sleep_until(suspension.until).await
            }
            Next::Suspend(suspension, why) => Err(self.suspended_error(step, suspension, why)),
            Next::OverBudget(_, error) => Err(error),
            Next::GiveUp => Err(self.exhausted_error(step, of_run, &error)),
        }
    }

    fn exhausted_error(&self, step: &Step<'_>, attempts: u32, error: &agent::Error) -> Error {
        let message = self.env.redactor.redact(&error.message).into_owned();
        Error::Step {
            name: self.id.name.clone(),
            path: step.path.clone(),
            agent: step.agent.to_owned(),
            attempts,
            error: Box::new(agent::Error { message, ..*error }),
        }
    }

    /// Calls the agent once, bounded by the timeout and by an immediate stop.
    async fn attempt(
        &self,
        step: &Step<'_>,
        revision: u32,
        attempt: u32,
        conversation: &mut Option<Conversation>,
        recent: &RecentConversation,
    ) -> Attempt {
        let listener = UsageListener {
            usage: Mutex::default(),
            observer: &*self.observer,
            step: (&step.path, attempt),
        };
        let system = step.system_prompt(true);
        let key = Digest::of_fields(&[
            self.id.session.to_string().as_bytes(),
            step.path.as_str().as_bytes(),
            step.input_digest().as_bytes(),
        ]);
        let request = Request {
            session: self.id.session,
            run: self.id.run,
            path: &step.path,
            attempt,
            key,
            agent: step.agent,
            system: &system,
            input: &step.input,
            workspace: &self.id.workspace,
            window: None,
            conversation_cost: None,
            pass_env: &self.policy.pass_env,
            access: step.access,
        };
        let timeout = async {
            match self.policy.timeout {
                Some(limit) => self.env.clock.sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        point(Point::StepBeforeEffect);
        let replacement = self.replacement(step);
        let asked = async {
            match replacement.as_ref().unwrap_or(step.driver) {
                AgentDriver::Stateless(driver) => {
                    let handover_prompt = self.handover_prompt(step, revision).await?;
                    let prompt = handover_prompt
                        .map(|(_, words)| words)
                        .or_else(|| self.chat_history_prompt(step));
                    let input = prompt.as_deref().unwrap_or(request.input);
                    Ok(driver.ask(Request { input, ..request }, &listener).await?)
                }
                AgentDriver::CliAgent(cli_agent) => {
                    self.run_cli_agent(&**cli_agent, step, revision, &request, recent, &listener)
                        .await
                }
                AgentDriver::Model(model) => {
                    self.run_model_loop(&**model, step, revision, &request, conversation, &listener)
                        .await
                }
            }
        };
        let answer = tokio::select! {
            answer = asked => answer,
            stop = self.stop_token.wait_immediate() => return Attempt::Stopped(stop),
            () = timeout => Err(agent::Error::new(
                ErrorKind::Timeout,
                format!("no answer within {}", segno_core::time::format_duration(self.policy.timeout.unwrap_or_default())),
            ).into()),
        };
        let used = *listener
            .usage
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match answer {
            Ok(answer) => {
                let usage = answer.usage;
                Attempt::Answered(answer, usage)
            }
            Err(StepError::Agent(error)) => Attempt::Failed(error, priced(step.price, used)),
            Err(StepError::Engine(error)) => Attempt::Broken(error),
            Err(StepError::Stopped(stop)) => Attempt::Paused(stop),
        }
    }

    /// Journals the answer of a step.
    pub(super) async fn finish(
        &self,
        step: &Step<'_>,
        revision: u32,
        attempt: u32,
        started_at: Timestamp,
        answer: Answer,
        usage: Usage,
    ) -> Result<Source, Error> {
        // The recorded text is the text that later steps use, so that a later run computes with the
        // same (P7).
        let stored = journal::redact_and_store(&self.env, &answer.text).await;
        let (output, clean) = stored.inspect_err(|error| {
            self.observer
                .notice(&journal::lost_answer(&step.path, error));
        })?;
        let elapsed = self.env.clock.now().since(started_at);
        self.limits.budget.spend(step.executed_by, usage);
        self.limits.budget.count_step();
        // Inside a task, steps do not count for the automatic pause; the finished task does.
        if !self.stop_token.in_task() {
            self.limits.auto_pause.count_step();
        }
        let finished = StepFinished {
            path: step.path.clone(),
            revision,
            attempt,
            output,
            usage,
            elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            context: self.model_context(step, usage),
        };
        match &self.exchange {
            // The answer and the end of the exchange share one commit, so that neither is known
            // without the other.
            Some(exchange) => {
                let ended = exchange.ended_event(self).await;
                let events = vec![finished.into(), ended.into()];
                self.journal.write(events).await?;
            }
            None => self.journal.enqueue(finished).await,
        }
        Ok(Source::Fresh {
            text: clean.into(),
            path: step.path.clone(),
            revision,
        })
    }

    /// How full the context window of an API model is after its last answer.
    fn model_context(&self, step: &Step<'_>, usage: Usage) -> Option<ContextUsage> {
        let replacement = self.replacement(step);
        let driver = replacement.as_ref().unwrap_or(step.driver);
        let is_known = matches!(driver, AgentDriver::Model(_)) && usage.tokens() > 0;
        is_known.then(|| ContextUsage {
            used: usage.tokens(),
            window: step.window,
        })
    }

    /// The CLI agent that continues a step of an earlier run, if it is not the agent of the spec:
    /// the one that the user chose, or the one that had the step last.
    pub(super) fn replacement(&self, step: &Step<'_>) -> Option<AgentDriver> {
        let open = self.earlier.unfinished.get(&step.path)?;
        let cli_agent = match &self.earlier.overrides.agent {
            Some(Replacement::Agent(_)) => None,
            Some(Replacement::Program(cli_agent)) => Some(Arc::clone(cli_agent)),
            None => {
                let last = open.current_cli_agent()?;
                let own = matches!(step.driver, AgentDriver::CliAgent(own) if own.kind() == last);
                if own {
                    None
                } else {
                    self.env.drivers.cli_agent(last)
                }
            }
        };
        cli_agent.map(AgentDriver::CliAgent)
    }

    pub(super) fn failure(&self, error: &agent::Error) -> Failure {
        Failure {
            kind: error.kind.as_str().to_owned(),
            message: self.env.redactor.redact(&error.message).into_owned(),
        }
    }

    async fn disk_full_error(&self, step: &Step<'_>, revision: u32, attempt: u32) -> Error {
        let error = Failure {
            kind: "no_room".into(),
            message: "not started: the disk is full".into(),
        };
        self.journal
            .enqueue(StepFailed {
                path: step.path.clone(),
                revision,
                attempt,
                error,
                usage: Usage::default(),
                retry_in_ms: None,
                suspended: None,
            })
            .await;
        Error::DiskFull {
            name: self.id.name.clone(),
        }
    }
}

/// The steps that are unfinished in the state that a run starts with.
pub(super) fn unfinished_steps(state: &State) -> HashMap<Path, OpenStep> {
    let open = state.open_steps.iter();
    open.map(|(path, open)| (path.clone(), open.clone()))
        .collect()
}

/// The usage with its cost, where the price is known and the agent reported no cost.
pub(crate) fn priced(price: Option<Price>, usage: Usage) -> Usage {
    match price {
        Some(price) if usage.cost == Cost::default() => price.with_cost(usage),
        _ => usage,
    }
}

/// Listens to a driver and keeps the reported usage even if no answer follows.
struct UsageListener<'a> {
    usage: Mutex<Usage>,
    observer: &'a dyn Observer,
    /// The step and the attempt.
    step: (&'a Path, u32),
}

impl Listener for UsageListener<'_> {
    fn on_event(&self, event: agent::Event<'_>) {
        match event {
            agent::Event::Usage(usage) => {
                *self.usage.lock().unwrap_or_else(PoisonError::into_inner) = usage;
            }
            agent::Event::Text(piece) => self.observer.text(self.step.0, self.step.1, piece),
            _ => {}
        }
    }
}

/// The events that mark steps as unknown that were in flight when a run was lost.
pub fn unknown_step_events(state: &State) -> Vec<Event> {
    state
        .in_flight()
        .map(|(path, open)| {
            StepUnknown {
                path: path.clone(),
                revision: open.revision,
                attempt: open.attempt,
            }
            .into()
        })
        .collect()
}
