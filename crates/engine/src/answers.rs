//! The answers of finished steps, kept so that templates can use them.
//!
//! A long workflow's answers do not all fit in memory, so only what was used lately is kept. A
//! template that touches an answer which is not at hand is rendered once more after that answer
//! was fetched from the journal; what it touched is what is fetched.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::Value;
use segno_core::id::SessionId;
use segno_core::journal::{Event, Seq};
use segno_core::step::Path;
use segno_core::store::Error as StoreError;

use crate::pen::{self, Pen};
use crate::world::World;

/// How many bytes of answers are kept at hand.
const AT_HAND: usize = 8 * 1024 * 1024;

/// The answers that a run has, its own and those of earlier runs. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Answers {
    inside: Arc<Mutex<Inside>>,
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer(usize);

#[derive(Debug, Default)]
struct Inside {
    all: Vec<Kept>,
    /// Which are at hand, least recently fetched first.
    fetched: VecDeque<usize>,
    bytes: usize,
    /// What a rendering touched and did not find at hand.
    missed: BTreeSet<usize>,
}

#[derive(Debug)]
struct Kept {
    place: Place,
    text: Option<Arc<str>>,
}

/// Where in the journal an answer stands.
#[derive(Debug, Clone)]
enum Place {
    Seq(Seq),
    Step(Path, u32),
    /// Nowhere: it is kept.
    Here,
}

/// Where an answer can be found.
#[derive(Debug, Clone)]
pub enum Source {
    /// It was just given, and will stand in the journal.
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
    /// It was put together from others, or came from a person: short, or made anew by every run.
    Held(Arc<str>),
}

impl Answers {
    /// Takes one in.
    pub fn add(&self, source: Source) -> Answer {
        let mut inside = self.lock();
        let index = inside.all.len();
        let (place, text) = match source {
            Source::Fresh {
                text,
                path,
                revision,
            } => (Place::Step(path, revision), Some(text)),
            Source::Journal(seq) => (Place::Seq(seq), None),
            Source::Held(text) => {
                inside.all.push(Kept {
                    place: Place::Here,
                    text: Some(text),
                });
                return Answer(index);
            }
        };
        inside.all.push(Kept { place, text: None });
        if let Some(text) = text {
            inside.keep(index, text);
            inside.trim();
        }
        Answer(index)
    }

    /// Its text for a template, if it is at hand; otherwise it is remembered as missed.
    pub(crate) fn touch(&self, answer: Answer) -> Value {
        let mut inside = self.lock();
        if let Some(text) = &inside.all[answer.0].text {
            return Value::from(Arc::clone(text));
        }
        inside.missed.insert(answer.0);
        Value::from("")
    }

    /// What was touched and missed since this was last asked.
    pub(crate) fn missed(&self) -> Vec<Answer> {
        let missed = std::mem::take(&mut self.lock().missed);
        missed.into_iter().map(Answer).collect()
    }

    /// Keeps a fetched text at hand. [`Self::settle`] lets go of others for it: not before everything
    /// that one rendering touches is at hand at once.
    pub(crate) fn hold(&self, answer: Answer, text: Arc<str>) {
        self.lock().keep(answer.0, text);
    }

    /// Lets go of what is more than may be at hand.
    pub(crate) fn settle(&self) {
        self.lock().trim();
    }

    /// The text of one answer.
    pub async fn text(
        &self,
        world: &World,
        pen: &Pen,
        session: SessionId,
        answer: Answer,
    ) -> Result<Arc<str>, StoreError> {
        let (place, text) = {
            let inside = self.lock();
            let kept = &inside.all[answer.0];
            (kept.place.clone(), kept.text.clone())
        };
        if let Some(text) = text {
            return Ok(text);
        }
        let entry = match place {
            Place::Seq(seq) => world.store.entry(session, seq).await?,
            Place::Step(path, revision) => {
                // It may still be on its way into the journal.
                pen.flush().await?;
                world.store.finished(session, path, revision).await?
            }
            Place::Here => unreachable!("what is kept is never let go"),
        };
        match &entry.event {
            Event::StepFinished(event) => Ok(pen::recall(world, &event.output).await?.into()),
            Event::QuestionAnswered(event) => Ok(pen::recall(world, &event.answer).await?.into()),
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

impl Inside {
    fn keep(&mut self, index: usize, text: Arc<str>) {
        if self.all[index].text.is_none() {
            self.bytes += text.len();
            self.all[index].text = Some(text);
            self.fetched.push_back(index);
        }
    }

    /// Lets go of what was least recently given or fetched. The newest stays, however large.
    fn trim(&mut self) {
        while self.bytes > AT_HAND && self.fetched.len() > 1 {
            let oldest = self.fetched.pop_front().expect("there is more than one");
            if let Some(text) = self.all[oldest].text.take() {
                self.bytes -= text.len();
            }
        }
    }
}
