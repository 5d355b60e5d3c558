//! Caches the answers of finished steps for templates.
//!
//! The answers of a long workflow do not all fit in memory, so only recently used ones are cached.
//! If a template reads an answer that is not cached, the answer is loaded from the journal and the
//! template is rendered again; only what the template reads is loaded.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::Value;
use segno_core::id::SessionId;
use segno_core::journal::{Event, Seq};
use segno_core::step::Path;
use segno_core::store::Error as StoreError;

use crate::env::Env;
use crate::journal::{self, Writer};

/// How many bytes of answers are cached.
const CACHE_BYTES: usize = 8 * 1024 * 1024;

/// The answers of a run, its own and those of earlier runs. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Answers {
    cache: Arc<Mutex<Cache>>,
}

/// A handle to one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer(usize);

#[derive(Debug, Default)]
struct Cache {
    all: Vec<Slot>,
    /// The cached answers, least recently loaded first.
    fetched: VecDeque<usize>,
    bytes: usize,
    /// Answers that a rendering read and that were not cached.
    missed: BTreeSet<usize>,
}

#[derive(Debug)]
struct Slot {
    location: Location,
    text: Option<Arc<str>>,
}

/// Where an answer is in the journal.
#[derive(Debug, Clone)]
enum Location {
    Seq(Seq),
    Step(Path, u32),
    /// Not in the journal: it stays in memory.
    InMemory,
}

/// Where an answer comes from.
#[derive(Debug, Clone)]
pub enum Source {
    /// It was just given, and will be in the journal.
    Fresh {
        text: Arc<str>,
        /// The step that gave it.
        path: Path,
        revision: u32,
    },
    /// It is in the journal, in this event.
    Journal(Seq),
    /// It was built from other answers, or came from a human: short, or rebuilt by every run.
    InMemory(Arc<str>),
}

impl Answers {
    pub fn add(&self, source: Source) -> Answer {
        let mut cache = self.lock();
        let index = cache.all.len();
        let (location, text) = match source {
            Source::Fresh {
                text,
                path,
                revision,
            } => (Location::Step(path, revision), Some(text)),
            Source::Journal(seq) => (Location::Seq(seq), None),
            Source::InMemory(text) => {
                cache.all.push(Slot {
                    location: Location::InMemory,
                    text: Some(text),
                });
                return Answer(index);
            }
        };
        cache.all.push(Slot {
            location,
            text: None,
        });
        if let Some(text) = text {
            cache.insert(index, text);
            cache.evict();
        }
        Answer(index)
    }

    /// The text for a template if it is cached; otherwise an empty string, and the answer counts as
    /// missed.
    pub(crate) fn template_value(&self, answer: Answer) -> Value {
        let mut cache = self.lock();
        if let Some(text) = &cache.all[answer.0].text {
            return Value::from(Arc::clone(text));
        }
        cache.missed.insert(answer.0);
        Value::from("")
    }

    /// The answers that were missed since the last call.
    pub(crate) fn take_missed(&self) -> Vec<Answer> {
        let missed = std::mem::take(&mut self.lock().missed);
        missed.into_iter().map(Answer).collect()
    }

    /// Caches a loaded text. Only `evict` drops others for it, so that everything that one
    /// rendering reads is cached at the same time.
    pub(crate) fn cache(&self, answer: Answer, text: Arc<str>) {
        self.lock().insert(answer.0, text);
    }

    /// Drops texts until the cache fits its limit.
    pub(crate) fn evict(&self) {
        self.lock().evict();
    }

    /// Returns the text of an answer, from the cache or the journal.
    pub async fn text(
        &self,
        env: &Env,
        journal: &Writer,
        session: SessionId,
        answer: Answer,
    ) -> Result<Arc<str>, StoreError> {
        let (location, text) = {
            let cache = self.lock();
            let slot = &cache.all[answer.0];
            (slot.location.clone(), slot.text.clone())
        };
        if let Some(text) = text {
            return Ok(text);
        }
        let entry = match location {
            Location::Seq(seq) => env.store.event(session, seq).await?,
            Location::Step(path, revision) => {
                // The event may still be in the writer's queue.
                journal.flush().await?;
                env.store.finished_event(session, path, revision).await?
            }
            Location::InMemory => unreachable!("texts that are only in memory are never evicted"),
        };
        match &entry.event {
            Event::StepFinished(event) => Ok(journal::load_text(env, &event.output).await?.into()),
            Event::QuestionAnswered(event) => {
                Ok(journal::load_text(env, &event.answer).await?.into())
            }
            other => Err(StoreError::Damaged {
                object: format!("the journal of session {session}"),
                reason: format!("event {} is a {}, not an answer", entry.seq, other.kind()),
            }),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    fn insert(&mut self, index: usize, text: Arc<str>) {
        if self.all[index].text.is_none() {
            self.bytes += text.len();
            self.all[index].text = Some(text);
            self.fetched.push_back(index);
        }
    }

    /// Drops the least recently added or loaded texts. The newest stays, however large.
    fn evict(&mut self) {
        while self.bytes > CACHE_BYTES && self.fetched.len() > 1 {
            let oldest = self
                .fetched
                .pop_front()
                .expect("the loop condition requires more than one element");
            if let Some(text) = self.all[oldest].text.take() {
                self.bytes -= text.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_answers_leave_the_cache_and_count_as_missed() {
        let answers = Answers::default();
        let fresh = |step: usize| Source::Fresh {
            text: "x".repeat(CACHE_BYTES / 4).into(),
            path: Path::root("steps").join(step.to_string()),
            revision: 0,
        };
        let added: Vec<Answer> = (0..6).map(|step| answers.add(fresh(step))).collect();
        assert_eq!(answers.lock().bytes, CACHE_BYTES);
        for answer in &added {
            answers.template_value(*answer);
        }
        assert_eq!(answers.take_missed(), added[..2]);
        // What one rendering loads stays until the rendering ends.
        answers.cache(added[0], "x".repeat(CACHE_BYTES).into());
        answers.template_value(added[5]);
        assert_eq!(answers.take_missed(), []);
        answers.evict();
        answers.template_value(added[0]);
        assert_eq!(answers.take_missed(), []);
        assert_eq!(answers.lock().bytes, CACHE_BYTES);
    }
}
