//! A run's way through its steps.
//!
//! Patterns are plain functions that call [`Flow::step`]. A step that the journal knows as finished
//! returns its recorded answer at once; any other is written down as begun, asked of its agent, and
//! written down as finished (P6, P7). That is all there is to resuming, for every pattern.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use segno_core::agent::{self, Answer, Driver, ErrorKind, Listener, Request};
use segno_core::digest::Digest;
use segno_core::fault::{Point, point};
use segno_core::id::{Name, SessionId};
use segno_core::journal::{
    Event, Failure, OnChange, Run, StepDiscarded, StepFailed, StepFinished, StepStarted,
    StepUnknown,
};
use segno_core::retry::Policy;
use segno_core::state::{Finished, FinishedStep, State};
use segno_core::step::Path;
use segno_core::store::Room;
use segno_core::time::Timestamp;
use segno_core::usage::Usage;

use crate::error::Error;
use crate::observe::Observer;
use crate::outputs::Source;
use crate::pen::{self, Pen};
use crate::stop::{Brake, Stop};
use crate::world::World;

/// What a run carries along.
pub struct Flow {
    pub(crate) world: World,
    pub(crate) session: SessionId,
    pub(crate) name: Name,
    pub(crate) run: Run,
    pub(crate) workspace: PathBuf,
    pub(crate) pen: Pen,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) brake: Brake,
    pub(crate) finished: Finished,
    pub(crate) on_change: OnChange,
    pub(crate) retry: Policy,
    pub(crate) timeout: Option<std::time::Duration>,
    /// How often each unfinished step was begun by earlier runs, and in which revision.
    pub(crate) begun: HashMap<Path, (u32, u32)>,
    pub(crate) saved: Mutex<Saved>,
}

/// What earlier runs had done already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Saved {
    /// Steps that were not run again.
    pub steps: u64,
    /// What they had taken.
    pub usage: Usage,
}

/// A question to an agent.
pub struct Ask<'a> {
    /// The step.
    pub path: Path,
    /// The agent's name.
    pub agent: &'a str,
    /// How it is spoken to.
    pub driver: &'a dyn Driver,
    /// What the answer depends on besides prompt and input.
    pub provider: &'a str,
    /// Who it is.
    pub system: String,
    /// What it is asked.
    pub input: String,
}

impl Ask<'_> {
    /// The digest of everything the answer depends on.
    fn digest(&self) -> Digest {
        let fields = [self.agent, self.provider, &self.system, &self.input];
        Digest::of_fields(&fields.map(str::as_bytes))
    }
}

/// How one attempt went.
enum Attempt {
    Answered(Answer, Usage),
    Failed(agent::Error, Usage),
    Stopped(Stop),
}

impl Flow {
    /// The recorded answer of a finished step, where it counts whatever is asked now.
    pub fn recall(&self, path: &Path) -> Option<Source> {
        let done = self
            .finished
            .get(path)
            .filter(|_| self.on_change != OnChange::Rerun)?;
        Some(self.skip(path, done))
    }

    /// The answer of a step: the recorded one if it is finished, otherwise a new one.
    pub async fn step(&self, ask: Ask<'_>) -> Result<Source, Error> {
        if let Some(answer) = self.recall(&ask.path) {
            return Ok(answer);
        }
        let mut revision = 0;
        if let Some(done) = self.finished.get(&ask.path) {
            if done.input_digest == ask.digest() {
                return Ok(self.skip(&ask.path, done));
            }
            self.pen.note(StepDiscarded {
                path: ask.path.clone(),
                revision: done.revision,
            });
            revision = done.revision + 1;
        }
        if let Some(stop) = self.brake.pulled() {
            return Err(self.stopped(stop));
        }
        self.perform(&ask, revision).await
    }

    fn skip(&self, path: &Path, done: &FinishedStep) -> Source {
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        saved.steps += 1;
        saved.usage += done.usage;
        self.observer.skipped(self.session, path);
        Source::Journal(done.seq)
    }

    async fn perform(&self, ask: &Ask<'_>, revision: u32) -> Result<Source, Error> {
        let (revision, begun) = match self.begun.get(&ask.path) {
            Some((known, attempts)) if *known >= revision => (*known, *attempts),
            _ => (revision, 0),
        };
        let (kept_input, _) = pen::keep(&self.world, &ask.input).await?;
        let input_digest = ask.digest();
        for failed in 1.. {
            let attempt = begun + failed;
            let started = StepStarted {
                path: ask.path.clone(),
                revision,
                attempt,
                agent: ask.agent.to_owned(),
                input: kept_input.clone(),
                input_digest,
            };
            // P6: the intent is durable before the effect.
            if self.pen.write(vec![started.into()]).await? == Room::Reserve {
                return Err(self.out_of_room(ask, revision, attempt));
            }
            let begun_at = self.world.clock.now();
            match self.attempt(ask, attempt).await {
                Attempt::Answered(answer, usage) => {
                    point(Point::StepAfterEffect);
                    return self
                        .finish(ask, revision, attempt, begun_at, answer, usage)
                        .await;
                }
                Attempt::Stopped(stop) => {
                    if !matches!(stop, Stop::Fenced(_)) {
                        self.pen.note(StepUnknown {
                            path: ask.path.clone(),
                            revision,
                            attempt,
                        });
                    }
                    return Err(self.stopped(stop));
                }
                Attempt::Failed(error, usage) => {
                    let wait = self.wait(failed, &error);
                    self.pen.note(StepFailed {
                        path: ask.path.clone(),
                        revision,
                        attempt,
                        error: self.failure(&error),
                        usage,
                        retry_in_ms: wait
                            .map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
                    });
                    let Some(wait) = wait else {
                        let message = self.world.redactor.redact(&error.message).into_owned();
                        return Err(Error::Step {
                            name: self.name.clone(),
                            path: ask.path.clone(),
                            agent: ask.agent.to_owned(),
                            attempts: failed,
                            error: Box::new(agent::Error { message, ..error }),
                        });
                    };
                    tokio::select! {
                        () = self.world.clock.sleep(wait) => {}
                        stop = self.brake.any() => return Err(self.stopped(stop)),
                    }
                }
            }
        }
        unreachable!("attempts end when the policy says so")
    }

    async fn attempt(&self, ask: &Ask<'_>, attempt: u32) -> Attempt {
        let ear = Ear::default();
        let key = Digest::of_fields(&[
            self.session.to_string().as_bytes(),
            ask.path.as_str().as_bytes(),
            ask.digest().as_bytes(),
        ]);
        let request = Request {
            session: self.session,
            run: self.run,
            path: &ask.path,
            attempt,
            key,
            agent: ask.agent,
            system: &ask.system,
            input: &ask.input,
            workspace: &self.workspace,
        };
        let timeout = async {
            match self.timeout {
                Some(limit) => self.world.clock.sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        point(Point::StepBeforeEffect);
        let answer = tokio::select! {
            answer = ask.driver.ask(request, &ear) => answer,
            stop = self.brake.at_once() => return Attempt::Stopped(stop),
            () = timeout => Err(agent::Error::new(
                ErrorKind::Timeout,
                format!("no answer within {}", segno_core::time::human(self.timeout.unwrap_or_default())),
            )),
        };
        let heard = *ear.usage.lock().unwrap_or_else(PoisonError::into_inner);
        match answer {
            Ok(answer) => {
                let usage = answer.usage;
                Attempt::Answered(answer, usage)
            }
            Err(error) => Attempt::Failed(error, heard),
        }
    }

    async fn finish(
        &self,
        ask: &Ask<'_>,
        revision: u32,
        attempt: u32,
        begun_at: Timestamp,
        answer: Answer,
        usage: Usage,
    ) -> Result<Source, Error> {
        // What is kept is what is used, so that a later run computes with the same text (P7).
        let (output, clean) = pen::keep(&self.world, &answer.text).await?;
        let elapsed = self.world.clock.now().since(begun_at);
        self.pen.note(StepFinished {
            path: ask.path.clone(),
            revision,
            attempt,
            output,
            usage,
            elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
        });
        Ok(Source::Fresh {
            text: clean.into(),
            path: ask.path.clone(),
            revision,
        })
    }

    fn wait(&self, failed: u32, error: &agent::Error) -> Option<std::time::Duration> {
        if !error.kind.is_passing() {
            return None;
        }
        let wait = self.retry.wait(failed, self.world.random.chance())?;
        // A server that says when to come back knows better, within the bounds that were set.
        match error.kind {
            ErrorKind::RateLimited(Some(told)) => {
                Some(told.max(wait).min(self.retry.longest.max(wait)))
            }
            _ => Some(wait),
        }
    }

    fn failure(&self, error: &agent::Error) -> Failure {
        Failure {
            kind: error.kind.as_str().to_owned(),
            message: self.world.redactor.redact(&error.message).into_owned(),
        }
    }

    fn out_of_room(&self, ask: &Ask<'_>, revision: u32, attempt: u32) -> Error {
        let error = Failure {
            kind: "no_room".into(),
            message: "not begun: the disk is full".into(),
        };
        self.pen.note(StepFailed {
            path: ask.path.clone(),
            revision,
            attempt,
            error,
            usage: Usage::default(),
            retry_in_ms: None,
        });
        Error::NoRoom {
            name: self.name.clone(),
        }
    }

    pub(crate) fn stopped(&self, stop: Stop) -> Error {
        match stop {
            Stop::Asked { by, status, .. } => Error::Stopped {
                name: self.name.clone(),
                status,
                by,
            },
            Stop::Fenced(error) => Error::Store(error),
        }
    }
}

/// How often each unfinished step was begun, from the state that a run begins with.
pub(crate) fn begun(state: &State) -> HashMap<Path, (u32, u32)> {
    let attempts = |(path, open): (&Path, &segno_core::state::Open)| {
        (path.clone(), (open.revision, open.attempt))
    };
    state.open.iter().map(attempts).collect()
}

/// Hears a driver, and remembers what was used even if no answer follows.
#[derive(Default)]
struct Ear {
    usage: Mutex<Usage>,
}

impl Listener for Ear {
    fn hear(&self, event: agent::Event<'_>) {
        if let agent::Event::Usage(usage) = event {
            *self.usage.lock().unwrap_or_else(PoisonError::into_inner) = usage;
        }
    }
}

/// The events that say which steps were in flight when a run was lost.
pub(crate) fn unknown(state: &State) -> Vec<Event> {
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
