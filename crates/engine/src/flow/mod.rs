//! A run's way through its steps.
//!
//! Patterns are plain functions that call [`Flow::ask`]. A step that the journal knows as finished
//! returns its recorded answer at once; any other is written down as begun, asked of its agent, and
//! written down as finished (P6, P7). That is all there is to resuming, for every pattern.

mod accompany;
mod cast;
mod converse;
mod deed;
mod followup;
mod heard;
mod inheritance;
mod kit;
mod person;
mod shorten;
mod step;
mod suspension;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use segno_core::agent::Conduct;
use segno_core::id::{Name, SessionId};
use segno_core::journal::{Event, OnChange, Run, Seq};
use segno_core::model::{Message, Part};
use segno_core::retry::Policy;
use segno_core::snapshot::Sight;
use segno_core::state::{self, Finished, FinishedStep};
use segno_core::step::Path;
use segno_core::usage::Usage;
use tokio::sync::Semaphore;

use crate::answers::{Answer, Answers, Source};
use crate::brief::Outline;
use crate::budget::Budget;
use crate::chat::Exchange;
use crate::claim;
use crate::error::Error;
use crate::memory::Words;
use crate::notes::{Note, Notes};
use crate::observe::Observer;
use crate::pace::Pace;
use crate::patterns::find;
use crate::pen::{self, Pen};
use crate::reconcile;
use crate::resume::{StandIn, Wish};
use crate::scope::Scope;
use crate::spec::{Compaction, ContextFull, Patience, Schema};
use crate::stop::{Brake, Stop};
use crate::template::Templates;
use crate::world::{Speaker, World};

pub(crate) use accompany::{asked, less};
pub(crate) use cast::Cast;
use cast::Performer;
pub(crate) use converse::answer;
pub(crate) use person::fits;
use step::Ask;
pub(crate) use step::{begun, digest, priced, unknown};

/// How many bytes of earlier questions and answers a model is sent again.
const MEMORY: usize = 256 * 1024;

/// How long a look at the inbox holds. It takes a good part of what the shortest step does, and nobody asks
/// for a pause, is told what it waits for, and sees that end within this time.
const FRESH: Duration = Duration::from_millis(10);

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
    /// How what earlier runs began is to go on.
    pub(crate) wish: Wish,
    pub(crate) cast: Cast,
    pub(crate) retry: Policy,
    pub(crate) timeout: Option<Duration>,
    /// How limits are met where the other side says when they are lifted.
    pub(crate) patience: Patience,
    /// How many agents may be asked at once.
    pub(crate) slots: Semaphore,
    pub(crate) budget: Budget,
    /// When it pauses by itself.
    pub(crate) pace: Pace,
    /// What is done when the context of an agent's program is nearly full.
    pub(crate) context_full: ContextFull,
    /// Whether agents remember the steps before.
    pub(crate) remembers: bool,
    /// When a conversation is made shorter.
    pub(crate) compaction: Option<Compaction>,
    /// Notes of what agents did, where they are taken.
    pub(crate) notes: Option<Notes>,
    /// What people were asked by earlier runs and have not answered.
    pub(crate) asked: BTreeMap<Path, state::Question>,
    /// Held while a person is being asked.
    pub(crate) person: tokio::sync::Mutex<()>,
    /// How each step stands that earlier runs began and did not finish.
    pub(crate) begun: HashMap<Path, state::Open>,
    pub(crate) saved: Mutex<Saved>,
    /// What the workflow says about itself, for agents that know nothing of the work before.
    pub(crate) outline: Outline,
    /// Agents whose prompts cannot be filled in, and of which a person was told.
    pub(crate) told: Mutex<BTreeSet<String>>,
    /// The variables that every template sees.
    pub(crate) scope: Scope,
    pub(crate) answers: Answers,
    pub(crate) templates: Templates,
    /// What is being answered, if the session is a chat.
    pub(crate) exchange: Option<Box<Exchange>>,
    /// When the inbox was last looked at before something was begun.
    pub(crate) looked: Mutex<Option<Duration>>,
    /// Set when something failed: what runs beside it begins nothing new.
    pub(crate) failing: AtomicBool,
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
pub struct Question<'a> {
    /// The step.
    pub path: Path,
    /// Who is asked.
    pub agent: &'a str,
    /// What is asked.
    pub input: Input<'a>,
    /// What its templates see.
    pub scope: &'a Scope,
    /// What may be asked for, instead of what the agent may ask for.
    pub tools: Option<&'a [String]>,
    /// What it is asked to do to the workspace.
    pub conduct: Conduct,
}

/// What an agent is asked.
pub enum Input<'a> {
    /// What a template becomes.
    Template(&'a str),
    /// A template, and what is to be said after it.
    Followed(&'a str, &'a str),
    /// These words.
    Words(String),
    /// An earlier answer.
    Answer(Answer),
    /// The agent's own prompt.
    Prompt,
}

impl Flow {
    /// The answer of a step: the recorded one if it is finished, otherwise a new one. An answer that
    /// does not fit its agent's schema is asked for once more.
    pub async fn ask(&self, question: Question<'_>) -> Result<Answer, Error> {
        let Some(schema) = &self.cast.get(question.agent).output_schema else {
            return self.ask_once(question).await;
        };
        let (path, agent) = (question.path.clone(), question.agent);
        let (scope, tools, conduct) = (question.scope, question.tools, question.conduct);
        let answer = self.ask_once(question).await?;
        let text = self.text(answer).await?;
        let Err(reason) = fits_schema(schema, &text) else {
            return Ok(answer);
        };
        let words = format!(
            "This answer of yours cannot be used: {reason}.\n\n{text}\n\nAnswer again with JSON alone that fits this schema:\n{}",
            schema.text()
        );
        let repair = Question {
            path: path.then("repair"),
            agent,
            input: Input::Words(words),
            scope,
            tools,
            conduct,
        };
        let answer = self.ask_once(repair).await?;
        match fits_schema(schema, &self.text(answer).await?) {
            Ok(()) => Ok(answer),
            Err(reason) => Err(Error::Unusable {
                name: self.name.clone(),
                path: path.then("repair"),
                agent: agent.to_owned(),
                times: 2,
                reason,
            }),
        }
    }

    pub(crate) async fn ask_once(&self, question: Question<'_>) -> Result<Answer, Error> {
        // Nothing is rendered for a step that will not be asked.
        if let Some((asked, source)) = self.recall(&question.path) {
            let answer = self.answers.add(source);
            let asked = Words::Journal(asked);
            self.remember(
                &question.path,
                question.agent,
                question.scope,
                asked,
                answer,
            );
            self.make_up_note(&question, answer).await?;
            return Ok(answer);
        }
        let Question {
            path,
            agent,
            input,
            scope,
            tools,
            conduct,
        } = question;
        let performer = self.cast.get(agent);
        let system = self.prompt(agent, &performer.prompt, scope).await? + &performer.skills;
        let input = match input {
            Input::Template(source) => self.render("the input", &path, source, scope).await?,
            Input::Followed(source, more) => {
                let text = self.render("the input", &path, source, scope).await?;
                format!("{text}\n\n{more}")
            }
            Input::Words(words) => words,
            Input::Answer(answer) => self.text(answer).await?.to_string(),
            Input::Prompt => system.clone(),
        };
        if let Some(schema) = &performer.input_schema
            && let Ok(value) = serde_json::from_str(&input)
            && let Err(reason) = schema.check(&value)
        {
            return Err(Error::WrongInput {
                name: self.name.clone(),
                path,
                agent: agent.to_owned(),
                reason,
            });
        }
        let input: Arc<str> = input.into();
        let (who, actor) = self.actor(&path, agent);
        let kit = self.cast.kit(tools.unwrap_or(&actor.tools));
        let tools = tools.unwrap_or(&performer.tools);
        let mut notes = match &self.notes {
            Some(notes) => notes.shown(self).await?,
            None => String::new(),
        };
        notes.push_str(&self.lore().await?);
        let ask = Ask {
            path: path.clone(),
            agent,
            who,
            earlier: match (&self.exchange, &actor.speaker) {
                (Some(exchange), Speaker::Model(_)) => self.before(exchange),
                (Some(_), _) => Vec::new(),
                (None, _) => self.remembered(agent, scope).await?,
            },
            notes,
            speaker: &actor.speaker,
            provider: &performer.identity,
            provider_name: actor.provider,
            tool_names: tools,
            system,
            input: Arc::clone(&input),
            kit,
            permissions: &actor.permissions,
            conduct,
            price: actor.price,
            summarizer: actor
                .summarizer
                .as_ref()
                .map(|(model, price)| (&**model, *price)),
        };
        let answer = self.answers.add(self.step(ask).await?);
        if let Some(notes) = &self.notes {
            // The answer is on the disk before a file speaks of it.
            self.pen.flush().await?;
            let note = Note {
                step: path.as_str(),
                agent,
                question: &input,
                tools,
                answer: &self.text(answer).await?,
            };
            notes.add(self, note).await?;
        }
        self.remember(&path, agent, scope, Words::Here(input), answer);
        Ok(answer)
    }

    /// Who does what the spec asks of `agent`: itself, unless a step that was begun before is with, or
    /// goes to, another.
    fn actor<'a>(&'a self, path: &Path, agent: &'a str) -> (&'a str, &'a Performer) {
        let begun = self.begun.get(path);
        let wanted = begun.and_then(|begun| match &self.wish.with {
            Some(StandIn::Agent(name)) => Some(name),
            Some(StandIn::Program(_)) => None,
            None => begun.handed.map(|_| &begun.agent),
        });
        let found = wanted.and_then(|name| Some((name.as_str(), self.cast.find(name)?)));
        found.unwrap_or_else(|| (agent, self.cast.get(agent)))
    }

    /// Takes the note of a step whose run was lost before it could.
    async fn make_up_note(&self, question: &Question<'_>, answer: Answer) -> Result<(), Error> {
        let (Some(notes), Some(done)) = (&self.notes, self.finished.get(&question.path)) else {
            return Ok(());
        };
        let step = question.path.as_str();
        if notes.has(self, step).await? {
            return Ok(());
        }
        let note = Note {
            step,
            agent: question.agent,
            question: &self.asked_at(done.asked).await?,
            tools: question
                .tools
                .unwrap_or(&self.cast.get(question.agent).tools),
            answer: &self.text(answer).await?,
        };
        notes.add(self, note).await
    }

    /// Lets a model remember what it was asked and answered.
    fn remember(&self, path: &Path, agent: &str, scope: &Scope, asked: Words, answer: Answer) {
        let model = matches!(self.cast.get(agent).speaker, Speaker::Model(_));
        if self.remembers && model {
            scope.memory().add(path, agent, asked, answer);
        }
    }

    /// What an agent remembers, as far as it fits: the newest.
    async fn remembered(&self, agent: &str, scope: &Scope) -> Result<Vec<Message>, Error> {
        let (mut room, mut messages) = (MEMORY, Vec::new());
        for exchange in scope.memory().of(agent).into_iter().rev() {
            let asked = match exchange.question {
                Words::Here(words) => words,
                Words::Journal(seq) => self.asked_at(seq).await?.into(),
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

    /// What a step was asked.
    async fn asked_at(&self, seq: Seq) -> Result<String, Error> {
        let entry = self.world.store.entry(self.session, seq).await?;
        match &entry.event {
            Event::StepStarted(event) => Ok(pen::recall(&self.world, &event.input).await?),
            other => Err(Error::Senseless {
                session: self.session,
                reason: format!("record {seq} is a {}, not a question", other.kind()),
            }),
        }
    }

    /// Who an agent is. A prompt that cannot be rendered is sent as it stands, and a person is told.
    async fn prompt(&self, agent: &str, source: &str, scope: &Scope) -> Result<String, Error> {
        match self.render("the prompt", &agent, source, scope).await {
            Err(Error::Template { error, .. }) => {
                let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
                if told.insert(agent.to_owned()) {
                    self.observer.notice(&format!(
                        "the prompt of agent `{agent}` is sent as it stands, because it cannot be filled in: {error}"
                    ));
                }
                Ok(source.to_owned())
            }
            rendered => rendered,
        }
    }

    /// The text of an answer.
    pub async fn text(&self, answer: Answer) -> Result<Arc<str>, Error> {
        let text = self
            .answers
            .text(&self.world, &self.pen, self.session, answer);
        Ok(text.await?)
    }

    /// What a template becomes; `what` and `whose` name it if it fails.
    pub async fn render(
        &self,
        what: &str,
        whose: &impl std::fmt::Display,
        source: &str,
        scope: &Scope,
    ) -> Result<String, Error> {
        let rendered = self.fetching(|| self.templates.render(source, scope.value()));
        rendered.await?.map_err(|error| Error::Template {
            place: format!("{what} of {whose}"),
            error,
        })
    }

    /// Whether a condition holds, on the way from a node.
    pub async fn holds(&self, node: &str, source: &str, scope: &Scope) -> Result<bool, Error> {
        let held = self.fetching(|| self.templates.holds(source, scope.value()));
        held.await?.map_err(|error| Error::Template {
            place: format!("the condition `{source}` after node {node}"),
            error,
        })
    }

    /// Tries again until every answer that was touched is at hand.
    async fn fetching<T>(&self, attempt: impl Fn() -> T) -> Result<T, Error> {
        loop {
            let result = attempt();
            let missed = self.answers.missed();
            if missed.is_empty() {
                self.answers.settle();
                return Ok(result);
            }
            for answer in missed {
                let text = self.text(answer).await?;
                self.answers.hold(answer, text);
            }
        }
    }

    /// Whether a step is finished and will not be asked: then its input need not be made.
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.on_change != OnChange::Rerun && self.finished.get(path).is_some()
    }

    /// How the workspace looks just now, and what the session has changed in it.
    async fn sight(&self) -> Sight {
        let began = self.pen.look(|state| state.began().map(str::to_owned));
        reconcile::look(&self.world, &self.workspace, began.as_deref()).await
    }

    /// The workflow's variables, for an agent to read.
    pub(crate) fn variables_as_json(&self) -> String {
        let variables = self.pen.look(|state| {
            let created = state.created.as_ref();
            created.map(|created| created.variables.clone())
        });
        serde_json::to_string_pretty(&variables.unwrap_or_default()).unwrap_or_default()
    }

    /// The recorded answer of a finished step, where it counts whatever is asked now.
    fn recall(&self, path: &Path) -> Option<(Seq, Source)> {
        let done = self
            .finished
            .get(path)
            .filter(|_| self.on_change != OnChange::Rerun)?;
        Some((done.asked, self.skip(path, done)))
    }

    fn skip(&self, path: &Path, done: &FinishedStep) -> Source {
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        saved.steps += 1;
        saved.usage += done.usage;
        self.observer.skipped(self.session, path);
        Source::Journal(done.seq)
    }

    /// Passes by everything that is finished below a place.
    pub(crate) fn pass(&self, place: &Path) {
        let below = format!("{place}/");
        let finished = self.finished.iter();
        let mut passed: Vec<_> = finished
            .filter(|(path, _)| path.as_str().starts_with(&below))
            .collect();
        passed.sort_by_key(|(_, done)| done.seq);
        for (path, done) in passed {
            self.skip(path, done);
        }
    }

    /// Whether something new may be begun.
    pub(crate) async fn boundary(&self) -> Result<(), Error> {
        self.hear_wishes().await;
        if let Some(stop) = self.pace.due() {
            self.brake.pull(stop);
        }
        if let Some(stop) = self.braked() {
            return Err(self.stopped(stop));
        }
        if self.failing.load(Ordering::Relaxed) {
            return Err(Error::Beside);
        }
        for neared in self.budget.check(&self.name)? {
            self.pen.note(neared);
        }
        Ok(())
    }

    /// Hears who wants the run to stop: whoever was told that it stops after this step can rely on it.
    async fn hear_wishes(&self) {
        let now = self.world.clock.elapsed();
        {
            let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
            if looked.is_some_and(|at| now.saturating_sub(at) < FRESH) {
                return;
            }
            *looked = Some(now);
        }
        claim::hear_wishes(&self.world, self.session, &self.brake, &*self.observer).await;
    }

    /// Who wants the run to stop here, if anyone does.
    fn braked(&self) -> Option<Stop> {
        let stop = self.brake.pulled();
        stop.filter(|stop| stop.is_immediate() || !self.brake.in_task())
    }

    pub(crate) fn stopped(&self, stop: Stop) -> Error {
        match stop {
            Stop::Asked(asked) => Error::Stopped {
                name: self.name.clone(),
                status: asked.status,
                by: asked.by,
            },
            Stop::Fenced(error) => Error::Store(error),
        }
    }
}

/// Whether an answer has JSON in it that fits.
fn fits_schema(schema: &Schema, text: &str) -> Result<(), String> {
    if find(text, |value| schema.check(value).is_ok()).is_some() {
        return Ok(());
    }
    match find(text, |_| true) {
        Some(value) => schema.check(&value),
        None => Err("it is not JSON".to_owned()),
    }
}
