//! One step: written down as begun, asked, tried again, written down as finished.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use segno_core::agent::{self, Answer, Conduct, ErrorKind, Listener, Request};
use segno_core::digest::Digest;
use segno_core::fault::{Point, point};
use segno_core::journal::{
    Event, Failure, StepDiscarded, StepFailed, StepFinished, StepPaused, StepStarted, StepUnknown,
};
use segno_core::model::{Message, Model};
use segno_core::state::{Open, State};
use segno_core::step::Path;
use segno_core::store::Room;
use segno_core::time::Timestamp;
use segno_core::tool::Class;
use segno_core::usage::{Cost, Price, Usage};

use super::Flow;
use super::converse::{Talk, Trouble};
use super::heard::Heard;
use super::kit::Kit;
use super::suspension::Next;
use crate::answers::Source;
use crate::error::Error;
use crate::observe::Observer;
use crate::pen;
use crate::resume::StandIn;
use crate::spec::{Permission, Permissions};
use crate::stop::Stop;
use crate::world::Speaker;

/// A question to an agent, in its final words.
pub(super) struct Ask<'a> {
    pub(super) path: Path,
    /// Whose part it is.
    pub(super) agent: &'a str,
    /// Who does it: the same, unless it was handed over.
    pub(super) who: &'a str,
    pub(super) speaker: &'a Speaker,
    /// What the answer depends on besides prompt and input.
    pub(super) provider: &'a str,
    /// What the format calls its provider.
    pub(super) provider_name: &'static str,
    /// Who the agent is.
    pub(super) system: String,
    /// What it is asked.
    pub(super) input: Arc<str>,
    /// What it remembers, if it is a model.
    pub(super) earlier: Vec<Message>,
    /// Notes that it is shown below who it is. What it answers may not hang on them: others write
    /// them too.
    pub(super) notes: String,
    /// The tools' names.
    pub(super) tool_names: &'a [String],
    /// What a model may ask for.
    pub(super) kit: Option<&'a Kit>,
    /// What it may do with that.
    pub(super) permissions: &'a Permissions,
    /// What it is asked to do to the workspace.
    pub(super) conduct: Conduct,
    /// What it costs, if that is known.
    pub(super) price: Option<Price>,
    /// What sums up what was said, if it does not do so itself, and what that costs.
    pub(super) summarizer: Option<(&'a dyn Model, Option<Price>)>,
}

impl Ask<'_> {
    /// The digest of everything the answer depends on.
    pub(super) fn digest(&self) -> Digest {
        let words = [self.agent, self.provider, &self.system, &self.input];
        digest(words, self.tool_names, &self.earlier)
    }

    /// What happens if a tool is run twice; `None` if there is no such tool, or it may not be used.
    pub(super) fn class(&self, kit: &Kit, tool: &str) -> Option<Class> {
        let is_denied = self.permissions.of(tool) == Permission::Deny;
        let fits = |class: &Class| self.conduct == Conduct::Work || *class == Class::ReadOnly;
        kit.class(tool).filter(|class| !is_denied && fits(class))
    }
}

/// The digest of everything an answer depends on: who is asked, by which provider, who that is told to
/// be and what it is asked; the names of its tools; and what it remembers.
pub(crate) fn digest(words: [&str; 4], tools: &[String], earlier: &[Message]) -> Digest {
    let tools = tools.iter().map(String::as_str);
    let earlier = match earlier {
        [] => None,
        earlier => Some(serde_json::to_string(earlier).expect("messages are plain data")),
    };
    let fields = words.into_iter().chain(tools).chain(earlier.as_deref());
    let fields: Vec<&[u8]> = fields.map(str::as_bytes).collect();
    Digest::of_fields(&fields)
}

/// How one attempt went.
enum Attempt {
    Answered(Answer, Usage),
    Failed(agent::Error, Usage),
    Stopped(Stop),
    /// Stopped where nothing was in flight.
    Paused(Stop),
    Broken(Error),
}

impl Flow {
    /// The answer: the recorded one if the same was asked before, otherwise a new one.
    pub(super) async fn step(&self, ask: Ask<'_>) -> Result<Source, Error> {
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
        self.boundary().await?;
        self.perform(&ask, revision).await
    }

    async fn perform(&self, ask: &Ask<'_>, revision: u32) -> Result<Source, Error> {
        let (revision, begun) = match self.begun.get(&ask.path) {
            Some(open) if open.revision >= revision => {
                self.wait_out(ask, open).await?;
                (open.revision, open.attempt)
            }
            _ => (revision, 0),
        };
        let (kept_input, _) = pen::keep(&self.world, &ask.input).await?;
        let input_digest = ask.digest();
        let (mut talk, heard) = (None, Heard::default());
        let (mut attempt, mut failed) = (begun, 0);
        loop {
            attempt += 1;
            let slot = self.slots.acquire().await.expect("it is never closed");
            self.boundary().await?;
            let started = StepStarted {
                path: ask.path.clone(),
                revision,
                attempt,
                agent: ask.who.to_owned(),
                input: kept_input.clone(),
                input_digest,
            };
            // P6: the intent is durable before the effect.
            if self.pen.write(vec![started.into()]).await? == Room::Reserve {
                return Err(self.out_of_room(ask, revision, attempt));
            }
            let begun_at = self.world.clock.now();
            match self
                .attempt(ask, revision, attempt, &mut talk, &heard)
                .await
            {
                Attempt::Answered(answer, usage) => {
                    point(Point::StepAfterEffect);
                    return self
                        .finish(ask, revision, attempt, begun_at, answer, usage)
                        .await;
                }
                Attempt::Broken(error) => {
                    // Nothing was in flight: a person is asked whether it may go on.
                    if matches!(error, Error::Waiting { .. } | Error::ContextFull { .. }) {
                        self.pen.note(StepPaused {
                            path: ask.path.clone(),
                            revision,
                            attempt,
                        });
                    }
                    return Err(error);
                }
                Attempt::Paused(stop) => {
                    self.pen.note(StepPaused {
                        path: ask.path.clone(),
                        revision,
                        attempt,
                    });
                    return Err(self.stopped(stop));
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
                    // Whoever waits asks nobody.
                    drop(slot);
                    self.budget.spend(usage, false);
                    failed += u32::from(!matches!(error.kind, ErrorKind::RateLimited(Some(_))));
                    let now = self.world.clock.now();
                    let next = self.next(ask, failed, &error, now).await?;
                    self.pen.note(StepFailed {
                        path: ask.path.clone(),
                        revision,
                        attempt,
                        error: self.failure(&error),
                        usage,
                        retry_in_ms: next.wait_ms(now),
                        suspended: next.suspension().cloned(),
                    });
                    match next {
                        Next::Again(wait) => self.sleep_until(now.after(wait)).await?,
                        Next::Wait(suspension) => {
                            // P6: until when it waits is durable before it does.
                            self.pen.flush().await?;
                            self.sleep_until(suspension.until).await?;
                        }
                        Next::Leave(suspension, why) => {
                            return Err(self.suspended(ask, suspension, why));
                        }
                        Next::Stop(_, error) => return Err(error),
                        Next::GiveUp => return Err(self.given_up(ask, attempt - begun, &error)),
                    }
                }
            }
        }
    }

    fn given_up(&self, ask: &Ask<'_>, attempts: u32, error: &agent::Error) -> Error {
        let message = self.world.redactor.redact(&error.message).into_owned();
        Error::Step {
            name: self.name.clone(),
            path: ask.path.clone(),
            agent: ask.agent.to_owned(),
            attempts,
            error: Box::new(agent::Error::new(error.kind, message)),
        }
    }

    async fn attempt(
        &self,
        ask: &Ask<'_>,
        revision: u32,
        attempt: u32,
        talk: &mut Option<Talk>,
        heard: &Heard,
    ) -> Attempt {
        let ear = Ear {
            usage: Mutex::default(),
            observer: &*self.observer,
        };
        let system = format!("{}{}", ask.system, ask.notes);
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
            system: &system,
            input: &ask.input,
            workspace: &self.workspace,
            window: None,
            conduct: ask.conduct,
        };
        let timeout = async {
            match self.timeout {
                Some(limit) => self.world.clock.sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        point(Point::StepBeforeEffect);
        let stand_in = self.stand_in(ask);
        let asked = async {
            match stand_in.as_ref().unwrap_or(ask.speaker) {
                Speaker::Agent(driver) => {
                    let inherited = self.inherited(ask, revision).await?;
                    let told = inherited
                        .map(|(_, words)| words)
                        .or_else(|| self.retold(ask));
                    let input = told.as_deref().unwrap_or(request.input);
                    Ok(driver.ask(Request { input, ..request }, &ear).await?)
                }
                Speaker::Companion(companion) => {
                    self.accompany(&**companion, ask, revision, &request, heard, &ear)
                        .await
                }
                Speaker::Model(model) => {
                    self.converse(&**model, ask, revision, &request, talk, &ear)
                        .await
                }
            }
        };
        let answer = tokio::select! {
            answer = asked => answer,
            stop = self.brake.at_once() => return Attempt::Stopped(stop),
            () = timeout => Err(agent::Error::new(
                ErrorKind::Timeout,
                format!("no answer within {}", segno_core::time::human(self.timeout.unwrap_or_default())),
            ).into()),
        };
        let used = *ear.usage.lock().unwrap_or_else(PoisonError::into_inner);
        match answer {
            Ok(answer) => {
                let usage = answer.usage;
                Attempt::Answered(answer, usage)
            }
            Err(Trouble::Agent(error)) => Attempt::Failed(error, priced(ask.price, used)),
            Err(Trouble::Own(error)) => Attempt::Broken(error),
            Err(Trouble::Stopped(stop)) => Attempt::Paused(stop),
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
        self.budget.spend(usage, true);
        // In a task the steps do not count, but the task does, when it is done.
        if !self.brake.in_task() {
            self.pace.step();
        }
        let finished = StepFinished {
            path: ask.path.clone(),
            revision,
            attempt,
            output,
            usage,
            elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
        };
        match &self.exchange {
            // A message with an answer is dealt with: there is no moment in which only one is known.
            Some(exchange) => {
                let ended = exchange.answered(self).await;
                let events = vec![finished.into(), ended.into()];
                self.pen.write(events).await?;
            }
            None => self.pen.note(finished),
        }
        Ok(Source::Fresh {
            text: clean.into(),
            path: ask.path.clone(),
            revision,
        })
    }

    /// The program that goes on with a step that an earlier run began, if it is not who the spec names:
    /// the one that a person wants, or that had it last.
    pub(super) fn stand_in(&self, ask: &Ask<'_>) -> Option<Speaker> {
        let begun = self.begun.get(&ask.path)?;
        let companion = match &self.wish.with {
            Some(StandIn::Agent(_)) => None,
            Some(StandIn::Program(companion)) => Some(Arc::clone(companion)),
            None => {
                let last = begun.with()?;
                let own = matches!(ask.speaker, Speaker::Companion(own) if own.program() == last);
                if own {
                    None
                } else {
                    self.world.drivers.companion(last)
                }
            }
        };
        companion.map(Speaker::Companion)
    }

    pub(super) fn failure(&self, error: &agent::Error) -> Failure {
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
            suspended: None,
        });
        Error::NoRoom {
            name: self.name.clone(),
        }
    }
}

/// How each unfinished step stands, from the state that a run begins with.
pub(crate) fn begun(state: &State) -> HashMap<Path, Open> {
    let open = state.open.iter();
    open.map(|(path, open)| (path.clone(), open.clone()))
        .collect()
}

/// What was used, with what it cost where that is known.
pub(crate) fn priced(price: Option<Price>, usage: Usage) -> Usage {
    match price {
        Some(price) if usage.cost == Cost::default() => price.on(usage),
        _ => usage,
    }
}

/// Hears a driver, and remembers what was used even if no answer follows.
struct Ear<'a> {
    usage: Mutex<Usage>,
    observer: &'a dyn Observer,
}

impl Listener for Ear<'_> {
    fn hear(&self, event: agent::Event<'_>) {
        match event {
            agent::Event::Usage(usage) => {
                *self.usage.lock().unwrap_or_else(PoisonError::into_inner) = usage;
            }
            agent::Event::Text(piece) => self.observer.words(piece),
            _ => {}
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
