//! One run of a session, from the lease to the last entry.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use segno_core::error::{Diagnose, Kind};
use segno_core::id::{Name, SessionId};
use segno_core::journal::{Event, Failure, OnChange, Run, RunEnded, StopRequested};
use segno_core::session::Status;
use segno_core::state::{Finished, State};
use segno_core::store::Message;
use tokio::sync::Semaphore;

use crate::answers::Answers;
use crate::boundaries::Boundaries;
use crate::budget::Budget;
use crate::error::Error;
use crate::flow::{self, Cast, Flow, Saved};
use crate::notes::Notes;
use crate::observe::Observer;
use crate::pen::Pen;
use crate::resume::Wish;
use crate::scope::Scope;
use crate::spec::Workflow;
use crate::stop::{Brake, Stop};
use crate::template::Templates;
use crate::trace::Tracer;
use crate::world::World;
use crate::{artifacts, claim, drift, patterns, reconcile};

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
    let boundaries = Boundaries::begin(world, &workflow.checkpoints, session, observer.clone());
    let observer = match &boundaries {
        Some((boundaries, _)) => Arc::clone(boundaries) as Arc<dyn Observer>,
        None => observer,
    };
    let (pen, scribe) = Pen::new(world, session, run, state, Arc::clone(&observer));
    let keeper = tokio::spawn(claim::keep(
        world.clone(),
        session,
        run,
        brake.clone(),
        Arc::clone(&observer),
    ));
    let answers = Answers::default();
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
        longest_wait: workflow.longest_wait,
        slots: Semaphore::new(workflow.runtime.max_parallel),
        budget,
        context_full: workflow.context_full,
        remembers: workflow.remembers,
        compaction: workflow.context.compaction.clone(),
        notes: workflow.context.notes.clone().map(Notes::new),
        asked,
        person: tokio::sync::Mutex::default(),
        begun,
        saved: Mutex::default(),
        told: Mutex::default(),
        scope: Scope::new(answers.clone(), &created.variables),
        answers,
        templates: Templates::new(),
        failing: AtomicBool::new(false),
    };
    let result = async {
        if !opening.is_empty() {
            pen.write(opening).await?;
        }
        perform(&flow, &workflow).await
    }
    .await;
    let ended = end(world, &flow, &brake, result).await;
    keeper.abort();
    let (saved, state) = (
        *flow.saved.lock().unwrap_or_else(PoisonError::into_inner),
        pen.state(),
    );
    drop((flow, pen));
    let _ = scribe.await;
    if let Some((boundaries, taker)) = boundaries {
        boundaries.close(taker).await;
    }
    if let Some((tracer, sender)) = tracer {
        tracer.close(world, sender).await;
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

async fn perform(flow: &Flow, workflow: &Workflow) -> Result<String, Error> {
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
    result: Result<String, Error>,
) -> Result<String, Error> {
    if result
        .as_ref()
        .is_err_and(|error| error.kind() == Kind::Fenced)
    {
        return result;
    }
    // A wish that came too late to be seen is answered by the end of the run.
    let mut taken = Vec::new();
    for (number, message) in world.store.pending(flow.session).await.unwrap_or_default() {
        // An answer stays until its question takes it.
        if let Message::Cancel { mode, by } = message {
            taken.push(number);
            brake.pull(Stop::Asked {
                by,
                mode,
                status: Status::Cancelled,
            });
        }
    }
    let asked = brake.pulled();
    let result = match (result, &asked) {
        // Whoever gives a session up does not want to hear that its last step failed.
        (
            Err(_),
            Some(
                stop @ Stop::Asked {
                    status: Status::Cancelled,
                    ..
                },
            ),
        ) => Err(flow.stopped(stop.clone())),
        (result, _) => result,
    };
    let mut events: Vec<Event> = Vec::new();
    let (status, error) = match &result {
        Ok(_) => (Status::Completed, None),
        Err(Error::Stopped { status, .. }) => {
            if let Some(Stop::Asked { by, mode, status }) = asked {
                events.push(StopRequested { by, mode, status }.into());
            }
            (*status, None)
        }
        Err(Error::Waiting { .. }) => (Status::Waiting, None),
        Err(error @ (Error::Budget { .. } | Error::ContextFull { .. })) => {
            (Status::Paused, Some(failure(world, error)))
        }
        Err(error) => (Status::Failed, Some(failure(world, error))),
    };
    if status != Status::Completed && flow.cast.has_companions() {
        let sight = reconcile::look(world, &flow.workspace).await;
        events.extend(drift::seen(&sight).map(Event::from));
    }
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
