//! The answers of earlier steps, as templates see them.
//!
//! A long workflow's answers do not all fit in memory, so only what was used lately is kept. A
//! template that touches an answer which is not at hand is rendered once more after that answer
//! was fetched from the journal; what it touched is what is fetched.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::Value;
use minijinja::value::{Enumerator, Object, ObjectRepr};
use segno_core::id::SessionId;
use segno_core::journal::{Event, Seq};
use segno_core::step::Path;
use segno_core::store::Error as StoreError;

use crate::pen;
use crate::template::{self, Templates};
use crate::world::World;

/// How many bytes of answers are kept at hand.
const AT_HAND: usize = 8 * 1024 * 1024;

/// The answers of a sequence of steps, oldest first.
#[derive(Debug, Default)]
pub struct Outputs {
    inside: Arc<Mutex<Inside>>,
}

#[derive(Debug, Default)]
struct Inside {
    steps: Vec<Kept>,
    /// Which are at hand, least recently fetched first.
    fetched: VecDeque<usize>,
    bytes: usize,
    /// What a rendering touched and did not find at hand.
    missed: BTreeSet<usize>,
}

#[derive(Debug)]
struct Kept {
    agent: String,
    place: Place,
    text: Option<Arc<str>>,
}

/// Where in the journal an answer stands.
#[derive(Debug, Clone)]
enum Place {
    Seq(Seq),
    Step(Path, u32),
}

/// Where an answer can be found.
#[derive(Debug, Clone)]
pub enum Source {
    /// It was just given, and stands in the journal as soon as anything follows it.
    Fresh {
        /// The answer.
        text: Arc<str>,
        /// The step that gave it.
        path: Path,
        /// In which revision.
        revision: u32,
    },
    /// It stands in the journal, here.
    Journal(Seq),
}

impl Outputs {
    /// Adds the answer of the next step.
    pub fn push(&self, agent: &str, source: Source) {
        let mut inside = self.lock();
        let index = inside.steps.len();
        let (place, text) = match source {
            Source::Fresh {
                text,
                path,
                revision,
            } => (Place::Step(path, revision), Some(text)),
            Source::Journal(seq) => (Place::Seq(seq), None),
        };
        inside.steps.push(Kept {
            agent: agent.to_owned(),
            place,
            text: None,
        });
        if let Some(text) = text {
            inside.keep(index, text);
            inside.trim();
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lock().steps.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The list as templates see it: `steps[n].response`, `.index`, `.agent`.
    pub fn value(&self) -> Value {
        Value::from_object(Steps(Arc::clone(&self.inside)))
    }

    /// The last answer, fetched when it is touched: `last_response`.
    pub fn last(&self) -> Value {
        match self.len().checked_sub(1) {
            Some(index) => Step {
                inside: Arc::clone(&self.inside),
                index,
            }
            .response(),
            None => Value::from(""),
        }
    }

    /// Renders a template, fetching what it touches. `context` is made anew for each try.
    pub async fn render(
        &self,
        world: &World,
        session: SessionId,
        templates: &Templates,
        source: &str,
        context: impl Fn() -> Value,
    ) -> Result<String, RenderError> {
        if !Templates::fills_in(source) {
            return templates
                .render(source, Value::UNDEFINED)
                .map_err(RenderError::Template);
        }
        loop {
            self.lock().missed.clear();
            let rendered = templates.render(source, context());
            let missed = std::mem::take(&mut self.lock().missed);
            if missed.is_empty() {
                // Not before: everything that one rendering touches must be at hand at once.
                self.lock().trim();
                return rendered.map_err(RenderError::Template);
            }
            for index in missed {
                let text = self.fetch(world, session, index).await?;
                self.lock().keep(index, text);
            }
        }
    }

    /// The text of one answer.
    pub async fn fetch(
        &self,
        world: &World,
        session: SessionId,
        index: usize,
    ) -> Result<Arc<str>, StoreError> {
        let (place, text) = {
            let inside = self.lock();
            let kept = &inside.steps[index];
            (kept.place.clone(), kept.text.clone())
        };
        if let Some(text) = text {
            return Ok(text);
        }
        let entry = match place {
            Place::Seq(seq) => world.store.entry(session, seq).await?,
            Place::Step(path, revision) => world.store.finished(session, path, revision).await?,
        };
        match &entry.event {
            Event::StepFinished(event) => Ok(pen::recall(world, &event.output).await?.into()),
            other => Err(StoreError::Damaged {
                object: format!("the journal of session {session}"),
                reason: format!(
                    "record {} is a {} and should be an answer",
                    entry.seq,
                    other.kind()
                ),
            }),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a template has no text.
#[derive(Debug)]
pub enum RenderError {
    /// The template's own fault.
    Template(template::Error),
    /// An answer could not be fetched.
    Store(StoreError),
}

impl From<StoreError> for RenderError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Inside {
    fn keep(&mut self, index: usize, text: Arc<str>) {
        self.bytes += text.len();
        self.steps[index].text = Some(text);
        self.fetched.push_back(index);
    }

    /// Lets go of what was least recently given or fetched. The newest stays, however large: it may
    /// not be in the journal yet. All others are.
    fn trim(&mut self) {
        while self.bytes > AT_HAND && self.fetched.len() > 1 {
            let oldest = self.fetched.pop_front().expect("there is more than one");
            if let Some(text) = self.steps[oldest].text.take() {
                self.bytes -= text.len();
            }
        }
    }
}

#[derive(Debug)]
struct Steps(Arc<Mutex<Inside>>);

impl Object for Steps {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let count = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .steps
            .len();
        // As in Python, negative ones count from the end.
        let index = i64::try_from(key.clone()).ok()?;
        let from = if index < 0 {
            i64::try_from(count).ok()?
        } else {
            0
        };
        let index = usize::try_from(index + from).ok()?;
        (index < count).then(|| {
            Value::from_object(Step {
                inside: Arc::clone(&self.0),
                index,
            })
        })
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .steps
                .len(),
        )
    }
}

#[derive(Debug)]
struct Step {
    inside: Arc<Mutex<Inside>>,
    index: usize,
}

impl Step {
    fn response(&self) -> Value {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = &inside.steps[self.index].text {
            return Value::from(Arc::clone(text));
        }
        inside.missed.insert(self.index);
        Value::from("")
    }
}

impl Object for Step {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match key.as_str()? {
            "response" => Some(self.response()),
            "index" => Some(Value::from(self.index)),
            "agent" => {
                let inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
                Some(Value::from(inside.steps[self.index].agent.clone()))
            }
            _ => None,
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Str(&["index", "agent", "response"])
    }
}
