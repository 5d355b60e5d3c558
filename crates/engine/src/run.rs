//! Executes one run of a session, from the acquired lease to the last event.
//!
//! `execute` starts the journal writer, the lease keeper, the checkpointer and the tracer, runs
//! the workflow's pattern, and journals how the run ended. It guarantees that the end of a run is
//! durable before the run reports success (P14), and that a fenced run writes nothing.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, PoisonError};

use segno_core::error::{Diagnose, Kind};
use segno_core::id::{Name, SessionId};
use segno_core::journal::{Event, Failure, OnChange, Run, RunEnded};
use segno_core::session::Status;
use segno_core::state::{FinishedSteps, State};
use segno_core::store::InboxMessage;
use segno_spec::template::Templates;
use segno_spec::{Pattern, Workflow};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::answers::Answers;
use crate::auto_pause::AutoPause;
use crate::budget::Budget;
use crate::checkpointer::Checkpointer;
use crate::env::Env;
use crate::error::Error;
use crate::extraction::{self, Reader};
use crate::journal::Writer;
use crate::observe::Observer;
use crate::previews::Previews;
use crate::resume::Overrides;
use crate::resume::context::Outline;
use crate::scope::Scope;
use crate::steps::chat::Exchange;
use crate::steps::notes_file::NotesFile;
use crate::steps::{Agents, EarlierRuns, Limits, Policy, Rendering, RunIdentity, Runner, Saved};
use crate::stop::{Stop, StopToken};
use crate::trace::Tracer;
use crate::{agent_state, artifacts, lease, note_events, patterns};

/// A run that reached the end of its workflow.
#[derive(Debug)]
pub struct Outcome {
    pub session: SessionId,
    pub name: Name,
    pub run: Run,
    pub output: String,
    /// What earlier runs had already finished.
    pub saved: Saved,
    /// The session's state after the run.
    pub state: State,
}

/// What a run starts with, once it holds the lease.
pub struct RunStart {
    pub session: SessionId,
    /// The current name, which may differ from the name at the start.
    pub name: Name,
    pub run: Run,
    pub workflow: Workflow,
    pub agents: Agents,
    pub state: State,
    pub finished: FinishedSteps,
    /// The events that this run writes first.
    pub opening: Vec<Event>,
    pub on_change: OnChange,
    /// How to resume the unfinished steps.
    pub overrides: Overrides,
    /// The message to answer, if the session is a chat.
    pub exchange: Option<Box<Exchange>>,
}

impl RunStart {
    /// The first run of a session that was just created.
    pub fn first(
        session: SessionId,
        name: Name,
        workflow: Workflow,
        agents: Agents,
        state: State,
    ) -> Self {
        Self {
            session,
            name,
            run: Run(1),
            workflow,
            agents,
            state,
            finished: FinishedSteps::default(),
            opening: Vec::new(),
            on_change: OnChange::Warn,
            overrides: Overrides::default(),
            exchange: None,
        }
    }
}

/// Runs a session until it ends or stops. Every outcome is journaled, except by a fenced run: that
/// one must not write any more.
pub async fn execute(
    env: &Env,
    start: RunStart,
    observer: Arc<dyn Observer>,
    stop_token: StopToken,
) -> Result<Outcome, Error> {
    let RunStart {
        session,
        name,
        run,
        workflow,
        agents,
        state,
        finished,
        opening,
        on_change,
        overrides,
        exchange,
    } = start;
    let created = state
        .created
        .clone()
        .expect("a running session has a creation event");
    let earlier = EarlierRuns::new(&state, finished, &opening, overrides);
    let budget = Budget::new(workflow.budgets(), &state, Arc::clone(&env.clock));
    let tracer = Tracer::begin(
        env,
        &workflow,
        session,
        run,
        state.finished,
        observer.clone(),
    );
    let observer = match &tracer {
        Some((tracer, _)) => Arc::clone(tracer) as Arc<dyn Observer>,
        None => observer,
    };
    let (checkpointer, checkpoint_task) =
        Checkpointer::start(env, &workflow.checkpoints, session, observer);
    let observer = Arc::clone(&checkpointer) as Arc<dyn Observer>;
    let (previews, preview_task) = Previews::start(env, session, run, observer);
    let observer = Arc::clone(&previews) as Arc<dyn Observer>;
    let (journal, writer) = Writer::new(env, session, run, state, Arc::clone(&observer));
    let answers = Answers::default();
    let unit = match &workflow.pattern {
        Pattern::Plan(_) => "task",
        _ => "step",
    };
    let runner = Runner {
        env: env.clone(),
        id: RunIdentity {
            session,
            name: name.clone(),
            run,
            workspace: PathBuf::from(&created.workspace),
        },
        journal: journal.clone(),
        observer,
        stop_token: stop_token.clone(),
        agents,
        policy: Policy {
            on_change,
            retry: workflow.runtime.retry,
            timeout: workflow.runtime.timeout,
            rate_limits: workflow.rate_limits,
            context_full: workflow.context_full,
            context_limits: workflow.context_limits,
            has_memory: workflow.has_memory,
            resume_context: workflow.handoff.resume_context,
            compaction: workflow.context.compaction.clone(),
            pass_env: workflow.environment.pass.clone(),
        },
        earlier,
        limits: Limits {
            slots: Semaphore::new(workflow.runtime.max_parallel),
            max_parallel: workflow.runtime.max_parallel,
            rate_limited: AtomicU32::new(0),
            budget,
            auto_pause: AutoPause::new(workflow.pauses, unit, Arc::clone(&env.clock)),
            one_question: tokio::sync::Mutex::default(),
            inbox_read_at: Mutex::default(),
            failing: AtomicBool::new(false),
        },
        rendering: Rendering {
            scope: Scope::new(answers.clone(), &created.variables),
            answers,
            templates: Templates::new(),
            unrendered_prompts: Mutex::default(),
        },
        outline: Outline::new(&workflow),
        notes: workflow.context.notes.clone().map(NotesFile::new),
        exchange,
    };
    let opened = journal_opening(env, &runner, opening).await;
    let lease_keeper = tokio::spawn(lease::keep_lease(
        env.clone(),
        session,
        run,
        journal.clone(),
        stop_token.clone(),
        workflow.pauses.within,
        Arc::clone(&runner.observer),
    ));
    let result = match opened {
        Ok(()) => run_pattern(&runner, &workflow).await,
        Err(error) => Err(error),
    };
    // Before the end is journaled, so that the checkpoint of the pause has the notes.
    if let (Err(error), Some(reader)) = (&result, reader(&runner, &workflow))
        && is_worth_reading(error)
    {
        extraction::extract(&runner, &reader).await;
    }
    let ended = journal_end(env, &runner, &stop_token, lease_keeper, result).await;
    let (saved, state) = (
        *runner
            .earlier
            .saved
            .lock()
            .unwrap_or_else(PoisonError::into_inner),
        journal.state(),
    );
    drop((runner, journal));
    let _ = writer.await;
    previews.close(preview_task).await;
    checkpointer.close(checkpoint_task).await;
    if let Some((tracer, sender)) = tracer {
        tracer.close(env, sender).await;
    }
    let output = ended?;
    Ok(Outcome {
        session,
        name,
        run,
        output,
        saved,
        state,
    })
}

/// The agent that extracts notes from the conversation, where the spec names one.
fn reader(runner: &Runner, workflow: &Workflow) -> Option<Reader> {
    let reading = workflow.handoff.reader.as_ref()?;
    let (driver, price) = runner.agents.driver_and_price(&reading.reader)?;
    Some(Reader {
        agent: reading.reader.clone(),
        driver,
        price,
        within: reading.within,
    })
}

/// Whether a run that ends with this error leaves a session that a user may resume, and whose
/// conversation may be read.
fn is_worth_reading(error: &Error) -> bool {
    match error {
        // Reading must not exceed a budget that is used up.
        Error::Budget { .. } => false,
        Error::Stopped { status, .. } => *status == Status::Paused,
        Error::ContextFull { .. } | Error::Suspended { .. } => true,
        error => error.kind() == Kind::RunFailed,
    }
}

/// Journals the start of the run, together with the notes that were added while no run was active,
/// so that the first agent already sees them.
async fn journal_opening(env: &Env, runner: &Runner, mut opening: Vec<Event>) -> Result<(), Error> {
    let is_first = opening.is_empty();
    let (notes, taken) = note_events::inbox_notes(env, runner.id.session).await?;
    opening.extend(notes);
    if !opening.is_empty() {
        runner.journal.write_and_consume(opening, taken).await?;
    }
    agent_state::consume_inbox(env, runner.id.session, &runner.journal).await?;
    // A resume has compared the workspace with the recorded status before.
    if is_first && runner.exchange.is_none() && runner.records_workspace() {
        runner.record_workspace_status().await;
    }
    Ok(())
}

/// Runs the workflow's pattern, or answers the chat message, and writes the artifacts.
async fn run_pattern(runner: &Runner, workflow: &Workflow) -> Result<String, Error> {
    if let Some(exchange) = &runner.exchange {
        return exchange.run(runner).await;
    }
    let ending = patterns::run(runner, &workflow.pattern).await?;
    // Everything up to here is durable before an artifact claims that it is done.
    runner.journal.flush().await?;
    artifacts::write(runner, workflow, &ending).await?;
    match ending.last {
        Some(last) => Ok(runner.text(last).await?.to_string()),
        None => Ok(String::new()),
    }
}

/// Journals how the run ended.
async fn journal_end(
    env: &Env,
    runner: &Runner,
    stop_token: &StopToken,
    lease_keeper: JoinHandle<()>,
    result: Result<String, Error>,
) -> Result<String, Error> {
    if result
        .as_ref()
        .is_err_and(|error| error.kind() == Kind::Fenced)
    {
        lease_keeper.abort();
        return result;
    }
    let seen = if runner.records_workspace() && result.is_err() {
        runner.changed_workspace_status().await
    } else {
        None
    };
    // The lease keeper must stop first, so that each inbox message is consumed once.
    lease_keeper.abort();
    let _ = lease_keeper.await;
    let _ = runner.journal.flush().await;
    // What cannot be appended now stays in the inbox for the next run.
    let _ = agent_state::consume_inbox(env, runner.id.session, &runner.journal).await;
    // The end of the run consumes the requests that arrived too late to take effect.
    let (mut events, mut taken): (Vec<Event>, _) = (Vec::new(), Vec::new());
    for (number, message) in env
        .store
        .pending(runner.id.session)
        .await
        .unwrap_or_default()
    {
        match message {
            // An answer stays in the inbox until its question consumes it, a change of an agent's
            // state until it is decided.
            InboxMessage::Answer { .. } | InboxMessage::AgentState { .. } => continue,
            InboxMessage::Stop(asked) => {
                stop_token.request_stop(Stop::from_inbox(asked, &env.redactor));
            }
            note => events.extend(note_events::to_event(env, note)),
        }
        taken.push(number);
    }
    let asked = stop_token.requested();
    let result = match (result, &asked) {
        // A user who cancels a session is not interested in the failure of its last step.
        (Err(_), Some(stop @ Stop::Requested(asked))) if asked.status == Status::Cancelled => {
            Err(runner.stop_error(stop.clone()))
        }
        // A step that fails ends, too: the pause that waited for its end takes effect.
        (Err(error), Some(stop @ Stop::Requested(_))) if is_failure(&error) => {
            let failure = failure(env, &error).message;
            runner
                .observer
                .notice(&format!("{failure}; stopped as requested"));
            Err(runner.stop_error(stop.clone()))
        }
        (result, _) => result,
    };
    let (status, error) = match &result {
        Ok(_) => {
            let idle = runner
                .exchange
                .as_ref()
                .map(|exchange| exchange.idle_status());
            (idle.unwrap_or(Status::Completed), None)
        }
        Err(Error::Stopped { status, .. }) => {
            if let (Some(exchange), Status::Waiting) = (&runner.exchange, status) {
                events.push(exchange.stopped_event(runner).await);
            }
            if let Some(Stop::Requested(asked)) = asked {
                events.push(asked.into());
            }
            (*status, None)
        }
        Err(Error::WaitingForHuman { .. }) => (Status::Waiting, None),
        Err(
            error @ (Error::Budget { .. }
            | Error::ContextFull { .. }
            | Error::ConversationOpen(_)
            | Error::Suspended { .. }),
        ) => (Status::Paused, Some(failure(env, error))),
        Err(error) => (Status::Failed, Some(failure(env, error))),
    };
    events.extend(seen);
    let output = match &result {
        // Without room for it, the session is completed all the same: its steps have the result.
        Ok(output) if runner.exchange.is_none() => {
            let stored = crate::journal::redact_and_store(env, output).await;
            stored.ok().map(|(text, _)| text)
        }
        _ => None,
    };
    let ended = RunEnded {
        status,
        error,
        output,
    };
    events.push(ended.into());
    match (runner.journal.close(events, taken).await, result) {
        // P14: a run whose end is not durable has not succeeded.
        (Err(error), Ok(_)) => Err(error.into()),
        (Err(error), Err(_)) if error.kind() == Kind::Fenced => Err(error.into()),
        (_, result) => result,
    }
}

/// Whether the work failed, rather than the machine, and nobody had stopped it before.
fn is_failure(error: &Error) -> bool {
    error.kind() == Kind::RunFailed && !matches!(error, Error::Stopped { .. })
}

fn failure(env: &Env, error: &Error) -> Failure {
    Failure {
        kind: error.code().to_owned(),
        message: env.redactor.redact(&error.to_string()).into_owned(),
    }
}
