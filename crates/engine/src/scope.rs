//! What templates see: the workflow's variables, and what was answered so far under the names that
//! the format gives it.
//!
//! A scope is made once and shared: the lists and maps in it grow while steps finish, so that a
//! template sees what was there when it was rendered. A scope inside another adds names or hides
//! them, and leaves the other as it is.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::Value;
use minijinja::value::{Enumerator, Object, ObjectRepr, Serde};

use crate::answers::{Answer, Answers};
use crate::memory::Memory;

/// Something that a template can name.
#[derive(Debug, Clone)]
pub enum Seen {
    /// A value.
    Value(Value),
    /// The text of an answer, which is fetched when it is touched.
    Answer(Answer),
    /// Fields.
    Fields(Arc<[(&'static str, Seen)]>),
    /// Things in order.
    List(List),
    /// Things by the names that the spec's author gave them.
    Map(Map),
}

impl Seen {
    /// Fields, in this order.
    pub fn fields(fields: impl Into<Arc<[(&'static str, Seen)]>>) -> Self {
        Self::Fields(fields.into())
    }
}

impl<T: Into<Value>> From<T> for Seen {
    fn from(value: T) -> Self {
        Self::Value(value.into())
    }
}

impl From<Answer> for Seen {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

/// A list that grows. Clones are the same list.
#[derive(Debug, Clone, Default)]
pub struct List(Arc<Mutex<Vec<Seen>>>);

impl List {
    /// Adds to its end.
    pub fn push(&self, seen: impl Into<Seen>) {
        self.lock().push(seen.into());
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<List> for Seen {
    fn from(list: List) -> Self {
        Self::List(list)
    }
}

/// Things by name, always in the order of the spec, whichever came first. Clones are the same map.
#[derive(Debug, Clone)]
pub struct Map {
    places: Arc<HashMap<String, usize>>,
    things: Arc<Mutex<BTreeMap<usize, (String, Seen)>>>,
}

impl Map {
    /// An empty one, for things with these names.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let places = names.into_iter().map(str::to_owned).zip(0..).collect();
        Self {
            places: Arc::new(places),
            things: Arc::default(),
        }
    }

    /// Puts something under its name, instead of what was there.
    pub fn set(&self, name: &str, seen: impl Into<Seen>) {
        if let Some(place) = self.places.get(name) {
            self.lock().insert(*place, (name.to_owned(), seen.into()));
        }
    }

    fn get(&self, name: &str) -> Option<Seen> {
        let place = self.places.get(name)?;
        self.lock().get(place).map(|(_, seen)| seen.clone())
    }

    fn names(&self) -> Vec<Value> {
        let things = self.lock();
        things.values().map(|(name, _)| Value::from(name)).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<usize, (String, Seen)>> {
        self.things.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Map> for Seen {
    fn from(map: Map) -> Self {
        Self::Map(map)
    }
}

/// Names, and what is behind them; and what agents that are asked here remember.
#[derive(Clone)]
pub struct Scope {
    answers: Answers,
    names: Arc<Names>,
    memory: Memory,
}

struct Names {
    own: Vec<(String, Seen)>,
    outer: Option<Arc<Names>>,
}

impl Scope {
    /// The variables of a workflow.
    pub fn new(answers: Answers, variables: &BTreeMap<String, serde_json::Value>) -> Self {
        let value = |value: &serde_json::Value| Seen::Value(Value::from(Serde(value)));
        let own = variables
            .iter()
            .map(|(name, given)| (name.clone(), value(given)));
        Self {
            answers,
            names: Arc::new(Names {
                own: own.collect(),
                outer: None,
            }),
            memory: Memory::default(),
        }
    }

    /// The same for a line of steps of its own, in which agents remember what these memories hold.
    #[must_use]
    pub(crate) fn remembering<'a>(&self, before: impl IntoIterator<Item = &'a Memory>) -> Self {
        Self {
            memory: Memory::after(before),
            ..self.clone()
        }
    }

    /// What agents that are asked here remember.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The same with more names; they hide others of that name.
    #[must_use]
    pub fn with<N: Into<String>>(&self, names: impl IntoIterator<Item = (N, Seen)>) -> Self {
        let own: Vec<_> = names
            .into_iter()
            .map(|(name, seen)| (name.into(), seen))
            .collect();
        if own.is_empty() {
            return self.clone();
        }
        Self {
            answers: self.answers.clone(),
            names: Arc::new(Names {
                own,
                outer: Some(Arc::clone(&self.names)),
            }),
            memory: self.memory.clone(),
        }
    }

    /// The same with a step's own variables.
    #[must_use]
    pub fn with_vars(&self, vars: &BTreeMap<String, serde_json::Value>) -> Self {
        self.with(
            vars.iter()
                .map(|(name, value)| (name.as_str(), Seen::Value(Value::from(Serde(value))))),
        )
    }

    /// As the template engine takes it.
    pub(crate) fn value(&self) -> Value {
        Value::from_object(self.clone())
    }
}

impl Names {
    fn get(&self, name: &str) -> Option<&Seen> {
        let own = self.own.iter().rev().find(|(known, _)| known == name);
        match (own, &self.outer) {
            (Some((_, seen)), _) => Some(seen),
            (None, Some(outer)) => outer.get(name),
            (None, None) => None,
        }
    }

    fn list(&self, into: &mut Vec<Value>) {
        into.extend(self.own.iter().map(|(name, _)| Value::from(name)));
        if let Some(outer) = &self.outer {
            outer.list(into);
        }
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").finish_non_exhaustive()
    }
}

impl Object for Scope {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let seen = self.names.get(key.as_str()?)?;
        Some(shown(&self.answers, seen))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let mut names = Vec::new();
        self.names.list(&mut names);
        names.sort();
        names.dedup();
        Enumerator::Values(names)
    }
}

fn shown(answers: &Answers, seen: &Seen) -> Value {
    match seen {
        Seen::Value(value) => value.clone(),
        Seen::Answer(answer) => answers.touch(*answer),
        Seen::Fields(_) | Seen::List(_) | Seen::Map(_) => Value::from_object(View {
            answers: answers.clone(),
            seen: seen.clone(),
        }),
    }
}

/// Fields, a list or a map, as a template walks through it.
#[derive(Debug)]
struct View {
    answers: Answers,
    seen: Seen,
}

impl Object for View {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        match &self.seen {
            Seen::List(_) => ObjectRepr::Seq,
            _ => ObjectRepr::Map,
        }
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let seen = match &self.seen {
            Seen::Fields(fields) => {
                let name = key.as_str()?;
                let (_, seen) = fields.iter().find(|(known, _)| *known == name)?;
                seen.clone()
            }
            Seen::List(list) => {
                let list = list.lock();
                // As in Python, negative ones count from the end.
                let index = i64::try_from(key.clone()).ok()?;
                let from = if index < 0 {
                    i64::try_from(list.len()).ok()?
                } else {
                    0
                };
                list.get(usize::try_from(index + from).ok()?)?.clone()
            }
            Seen::Map(map) => map.get(key.as_str()?)?,
            Seen::Value(_) | Seen::Answer(_) => return None,
        };
        Some(shown(&self.answers, &seen))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        match &self.seen {
            Seen::Fields(fields) => {
                Enumerator::Values(fields.iter().map(|(name, _)| Value::from(*name)).collect())
            }
            Seen::List(list) => Enumerator::Seq(list.len()),
            Seen::Map(map) => Enumerator::Values(map.names()),
            Seen::Value(_) | Seen::Answer(_) => Enumerator::NonEnumerable,
        }
    }
}
