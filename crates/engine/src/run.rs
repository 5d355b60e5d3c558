//! One run of a session, from the lease to the last entry.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use segno_core::error::{Diagnose, Kind};
use segno_core::id::{Name, SessionId};
use segno_core::journal::{Event, Failure, OnChange, Run, RunEnded};
use segno_core::session::Status;
use segno_core::state::{Finished, State};
use segno_core::store::Message;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::answers::Answers;
use crate::boundaries::Boundaries;
use crate::brief::Outline;
use crate::budget::Budget;
use crate::chat::Exchange;
use crate::error::Error;
use crate::extraction::{self, Reader};
use crate::flow::{self, Cast, Flow, Saved};
use crate::notes::Notes;
use crate::observe::Observer;
use crate::pace::Pace;
use crate::pen::Pen;
use crate::resume::Wish;
use crate::scope::Scope;
use crate::spec::{Pattern, Workflow};
use crate::stop::{Brake, Stop};
use crate::template::Templates;
use crate::trace::Tracer;
use crate::world::World;
use crate::{artifacts, claim, drift, memos, patterns, reconcile};

/// A run that reached the end of its workflow.
#[derive(Debug)]
pub struct Outcome {
    /// The session.
    pub session: SessionId,
    /// Its name.
    pub name: Name,
    /// The run.
    pub run: Run,
    /// The workflow's result.
    pub output: String,
    /// What earlier runs had done already.
    pub saved: Saved,
    /// The session's state.
    pub state: State,
}

/// What a run begins with, once its session is its own.
pub(crate) struct Begin {
    pub(crate) session: SessionId,
    /// What it is called now, which may not be what it was started as.
    pub(crate) name: Name,
    pub(crate) run: Run,
    pub(crate) workflow: Workflow,
    pub(crate) cast: Cast,
    pub(crate) state: State,
    pub(crate) finished: Finished,
    /// Entries that this run writes first.
    pub(crate) opening: Vec<Event>,
    pub(crate) on_change: OnChange,
    /// How what was begun before is to go on.
    pub(crate) wish: Wish,
    /// What is to be answered, if the session is a chat.
    pub(crate) exchange: Option<Box<Exchange>>,
}

impl Begin {
    /// The first run of a session that was just made.
    pub(crate) fn first(
        session: SessionId,
        name: Name,
        workflow: Workflow,
        cast: Cast,
        state: State,
    ) -> Self {
        Self {
            session,
            name,
            run: Run(1),
            workflow,
            cast,
            state,
            finished: Finished::default(),
            opening: Vec::new(),
            on_change: OnChange::Warn,
            wish: Wish::default(),
            exchange: None,
        }
    }
}

/// Runs a session to its end, or to where it stops. Whatever happens is written down, except by a
/// run that was overtaken: that one has nothing more to say.
pub(crate) async fn execute(
    world: &World,
    begin: Begin,
    observer: Arc<dyn Observer>,
    brake: Brake,
) -> Result<Outcome, Error> {
    let Begin {
        session,
        name,
        run,
        workflow,
        cast,
        state,
        finished,
        opening,
        on_change,
        wish,
        exchange,
    } = begin;
    let created = state
        .created
        .clone()
        .expect("a session that runs was created");
    let begun = flow::begun(&state);
    let asked = state.questions.clone();
    let budget = Budget::new(workflow.budgets(), &state, Arc::clone(&world.clock));
    let tracer = Tracer::begin(
        world,
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
    let (boundaries, taker) = Boundaries::begin(world, &workflow.checkpoints, session, observer);
    let observer = Arc::clone(&boundaries) as Arc<dyn Observer>;
    let (pen, scribe) = Pen::new(world, session, run, state, Arc::clone(&observer));
    let answers = Answers::default();
    let unit = match &workflow.pattern {
        Pattern::Plan(_) => "task",
        _ => "step",
    };
    let flow = Flow {
        world: world.clone(),
        session,
        name: name.clone(),
        run,
        workspace: PathBuf::from(&created.workspace),
        pen: pen.clone(),
        observer,
        brake: brake.clone(),
        finished,
        on_change,
        wish,
        cast,
        retry: workflow.runtime.retry,
        timeout: workflow.runtime.timeout,
        patience: workflow.patience,
        slots: Semaphore::new(workflow.runtime.max_parallel),
        budget,
        context_full: workflow.context_full,
        pace: Pace::new(workflow.pauses, unit, Arc::clone(&world.clock)),
        remembers: workflow.remembers,
        compaction: workflow.context.compaction.clone(),
        notes: workflow.context.notes.clone().map(Notes::new),
        asked,
        person: tokio::sync::Mutex::default(),
        begun,
        saved: Mutex::default(),
        outline: Outline::new(&workflow),
        told: Mutex::default(),
        scope: Scope::new(answers.clone(), &created.variables),
        answers,
        templates: Templates::new(),
        exchange,
        looked: Mutex::default(),
        failing: AtomicBool::new(false),
    };
    let opened = open(world, &flow, opening).await;
    let keeper = tokio::spawn(claim::keep(
        world.clone(),
        session,
        run,
        pen.clone(),
        brake.clone(),
        workflow.pauses.within,
        Arc::clone(&flow.observer),
    ));
    let result = match opened {
        Ok(()) => perform(&flow, &workflow).await,
        Err(error) => Err(error),
    };
    let ended = end(world, &flow, &brake, keeper, result).await;
    let (saved, state) = (
        *flow.saved.lock().unwrap_or_else(PoisonError::into_inner),
        pen.state(),
    );
    let reader = reader(&flow, &workflow);
    let observer = Arc::clone(&flow.observer);
    drop((flow, pen));
    let _ = scribe.await;
    boundaries.close(taker).await;
    if let Some((tracer, sender)) = tracer {
        tracer.close(world, sender).await;
    }
    // What is used up is not exceeded for it.
    let spent = matches!(ended, Err(Error::Budget { .. }));
    if let Some(reader) = reader.filter(|_| ended.is_err() && !spent) {
        // The pause is done: what follows may take its time, fail or be broken off.
        extraction::extract(world, session, &state, &reader, &brake, &*observer).await;
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

/// Who reads what was said, where the spec names one.
fn reader(flow: &Flow, workflow: &Workflow) -> Option<Reader> {
    let reading = workflow.reading.as_ref()?;
    let (speaker, price) = flow.cast.voice(&reading.reader)?;
    Some(Reader {
        agent: reading.reader.clone(),
        speaker,
        price,
        within: reading.within,
        workspace: flow.workspace.clone(),
    })
}

/// Writes down how the run begins. What was noted while nobody ran the session is known before anything
/// is asked.
async fn open(world: &World, flow: &Flow, mut opening: Vec<Event>) -> Result<(), Error> {
    let (memos, taken) = memos::waiting(world, flow.session).await?;
    opening.extend(memos);
    if !opening.is_empty() {
        flow.pen.take(opening, taken).await?;
    }
    Ok(())
}

async fn perform(flow: &Flow, workflow: &Workflow) -> Result<String, Error> {
    if let Some(exchange) = &flow.exchange {
        return exchange.perform(flow).await;
    }
    let ending = patterns::run(flow, &workflow.pattern).await?;
    // Everything up to here is durable before a file says that it is done.
    flow.pen.flush().await?;
    artifacts::write(flow, workflow, &ending).await?;
    match ending.last {
        Some(last) => Ok(flow.text(last).await?.to_string()),
        None => Ok(String::new()),
    }
}

/// Writes down how the run ended.
async fn end(
    world: &World,
    flow: &Flow,
    brake: &Brake,
    keeper: JoinHandle<()>,
    result: Result<String, Error>,
) -> Result<String, Error> {
    if result
        .as_ref()
        .is_err_and(|error| error.kind() == Kind::Fenced)
    {
        keeper.abort();
        return result;
    }
    let companions = flow.cast.has_companions() || flow.wish.with.is_some();
    let seen = if companions && result.is_err() {
        drift::seen(&reconcile::look(world, &flow.workspace, None).await)
    } else {
        None
    };
    // Whatever the keeper is about to take is taken once.
    keeper.abort();
    let _ = keeper.await;
    let _ = flow.pen.flush().await;
    // What came too late to be seen is answered by the end of the run.
    let (mut events, mut taken): (Vec<Event>, _) = (Vec::new(), Vec::new());
    for (number, message) in world.store.pending(flow.session).await.unwrap_or_default() {
        match message {
            // An answer stays until its question takes it.
            Message::Answer { .. } => continue,
            Message::Stop(asked) => brake.pull(Stop::heard(asked, &world.redactor)),
            memo => events.extend(memos::event(world, memo)),
        }
        taken.push(number);
    }
    let asked = brake.pulled();
    let result = match (result, &asked) {
        // Whoever gives a session up does not want to hear that its last step failed.
        (Err(_), Some(stop @ Stop::Asked(asked))) if asked.status == Status::Cancelled => {
            Err(flow.stopped(stop.clone()))
        }
        (result, _) => result,
    };
    let (status, error) = match &result {
        Ok(_) => {
            let rest = flow.exchange.as_ref().map(|exchange| exchange.rest());
            (rest.unwrap_or(Status::Completed), None)
        }
        Err(Error::Stopped { status, .. }) => {
            if let (Some(exchange), Status::Waiting) = (&flow.exchange, status) {
                events.push(exchange.stopped(flow).await);
            }
            if let Some(Stop::Asked(asked)) = asked {
                events.push(asked.into());
            }
            (*status, None)
        }
        Err(Error::Waiting { .. }) => (Status::Waiting, None),
        Err(
            error @ (Error::Budget { .. } | Error::ContextFull { .. } | Error::Suspended { .. }),
        ) => (Status::Paused, Some(failure(world, error))),
        Err(error) => (Status::Failed, Some(failure(world, error))),
    };
    events.extend(seen.map(Event::from));
    events.push(RunEnded { status, error }.into());
    match (flow.pen.close(events, taken).await, result) {
        // P14: a run whose end is not durable has not succeeded.
        (Err(error), Ok(_)) => Err(error.into()),
        (Err(error), Err(_)) if error.kind() == Kind::Fenced => Err(error.into()),
        (_, result) => result,
    }
}

fn failure(world: &World, error: &Error) -> Failure {
    Failure {
        kind: error.code().to_owned(),
        message: world.redactor.redact(&error.to_string()).into_owned(),
    }
}
