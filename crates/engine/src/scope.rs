//! What templates see: the workflow's variables, and the answers so far under the names that the
//! spec format gives them.
//!
//! A scope is shared: its lists and maps grow while steps finish, so a template sees what is there
//! when it is rendered. A nested scope adds or shadows names and leaves the outer scope unchanged.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::Value;
use minijinja::value::{Enumerator, Object, ObjectRepr, Serde};

use crate::answers::{Answer, Answers};
use crate::memory::Memory;

/// A value that a template can name.
#[derive(Debug, Clone)]
pub enum TemplateValue {
    Value(Value),
    /// The text of an answer, loaded when the template reads it.
    Answer(Answer),
    Fields(Arc<[(&'static str, TemplateValue)]>),
    List(List),
    /// Values by names from the spec.
    Map(Map),
}

impl TemplateValue {
    pub fn fields(fields: impl Into<Arc<[(&'static str, TemplateValue)]>>) -> Self {
        Self::Fields(fields.into())
    }

    /// Whether this is a step of a list with this `id`.
    fn has_id(&self, id: &str) -> bool {
        let Self::Fields(fields) = self else {
            return false;
        };
        let is_id = |(name, value): &(&str, Self)| matches!(value, Self::Value(value) if *name == "id" && value.as_str() == Some(id));
        fields.iter().any(is_id)
    }
}

impl<T: Into<Value>> From<T> for TemplateValue {
    fn from(value: T) -> Self {
        Self::Value(value.into())
    }
}

impl From<Answer> for TemplateValue {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

/// A list that grows. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct List(Arc<Mutex<Vec<TemplateValue>>>);

impl List {
    pub fn push(&self, item: impl Into<TemplateValue>) {
        self.lock().push(item.into());
    }

    pub fn len(&self) -> usize {
        self.lock().len()
    }

    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<TemplateValue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<List> for TemplateValue {
    fn from(list: List) -> Self {
        Self::List(list)
    }
}

/// Values by name, always in the order of the spec, whichever came first. Clones share the map.
#[derive(Debug, Clone)]
pub struct Map {
    positions: Arc<HashMap<String, usize>>,
    values: Arc<Mutex<BTreeMap<usize, (String, TemplateValue)>>>,
}

impl Map {
    /// An empty map for values with these names.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let positions = names.into_iter().map(str::to_owned).zip(0..).collect();
        Self {
            positions: Arc::new(positions),
            values: Arc::default(),
        }
    }

    /// Sets or replaces the value of a name.
    pub fn set(&self, name: &str, item: impl Into<TemplateValue>) {
        if let Some(position) = self.positions.get(name) {
            self.lock()
                .insert(*position, (name.to_owned(), item.into()));
        }
    }

    fn get(&self, name: &str) -> Option<TemplateValue> {
        let position = self.positions.get(name)?;
        self.lock().get(position).map(|(_, item)| item.clone())
    }

    fn names(&self) -> Vec<Value> {
        let values = self.lock();
        values.values().map(|(name, _)| Value::from(name)).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<usize, (String, TemplateValue)>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Map> for TemplateValue {
    fn from(map: Map) -> Self {
        Self::Map(map)
    }
}

/// Names and their values, and the memory of the agents that run in this scope.
#[derive(Clone)]
pub struct Scope {
    answers: Answers,
    names: Arc<Names>,
    memory: Memory,
}

struct Names {
    own: Vec<(String, TemplateValue)>,
    outer: Option<Arc<Names>>,
}

impl Scope {
    /// A scope with the variables of a workflow.
    pub fn new(answers: Answers, variables: &BTreeMap<String, serde_json::Value>) -> Self {
        let value = |value: &serde_json::Value| TemplateValue::Value(Value::from(Serde(value)));
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

    /// The same names for a separate line of steps, whose agents remember what these memories hold.
    #[must_use]
    pub(crate) fn remembering<'a>(&self, before: impl IntoIterator<Item = &'a Memory>) -> Self {
        Self {
            memory: Memory::after(before),
            ..self.clone()
        }
    }

    /// The memory of the agents that run in this scope.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// A nested scope with more names; they shadow the outer ones.
    #[must_use]
    pub fn with<N: Into<String>>(
        &self,
        names: impl IntoIterator<Item = (N, TemplateValue)>,
    ) -> Self {
        let own: Vec<_> = names
            .into_iter()
            .map(|(name, item)| (name.into(), item))
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

    /// Whether there is a value of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.get(name).is_some()
    }

    /// A nested scope with a step's own variables.
    #[must_use]
    pub fn with_vars(&self, vars: &BTreeMap<String, serde_json::Value>) -> Self {
        self.with(vars.iter().map(|(name, value)| {
            (
                name.as_str(),
                TemplateValue::Value(Value::from(Serde(value))),
            )
        }))
    }

    /// The scope for the template engine.
    pub(crate) fn value(&self) -> Value {
        Value::from_object(self.clone())
    }
}

impl Names {
    fn get(&self, name: &str) -> Option<&TemplateValue> {
        let own = self.own.iter().rev().find(|(known, _)| known == name);
        match (own, &self.outer) {
            (Some((_, item)), _) => Some(item),
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
        let item = self.names.get(key.as_str()?)?;
        Some(to_template(&self.answers, item))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let mut names = Vec::new();
        self.names.list(&mut names);
        names.sort();
        names.dedup();
        Enumerator::Values(names)
    }
}

fn to_template(answers: &Answers, item: &TemplateValue) -> Value {
    match item {
        TemplateValue::Value(value) => value.clone(),
        TemplateValue::Answer(answer) => answers.template_value(*answer),
        TemplateValue::Fields(_) | TemplateValue::List(_) | TemplateValue::Map(_) => {
            Value::from_object(View {
                answers: answers.clone(),
                item: item.clone(),
            })
        }
    }
}

/// Fields, a list or a map for the template engine.
#[derive(Debug)]
struct View {
    answers: Answers,
    item: TemplateValue,
}

impl Object for View {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        match &self.item {
            TemplateValue::List(_) => ObjectRepr::Seq,
            _ => ObjectRepr::Map,
        }
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let item = match &self.item {
            TemplateValue::Fields(fields) => {
                let name = key.as_str()?;
                let (_, item) = fields.iter().find(|(known, _)| *known == name)?;
                item.clone()
            }
            TemplateValue::List(list) => {
                let list = list.lock();
                if let Some(id) = key.as_str() {
                    return list
                        .iter()
                        .find(|item| item.has_id(id))
                        .map(|item| to_template(&self.answers, item));
                }
                // As in Python, a negative index counts from the end.
                let index = i64::try_from(key.clone()).ok()?;
                let from = if index < 0 {
                    i64::try_from(list.len()).ok()?
                } else {
                    0
                };
                list.get(usize::try_from(index + from).ok()?)?.clone()
            }
            TemplateValue::Map(map) => map.get(key.as_str()?)?,
            TemplateValue::Value(_) | TemplateValue::Answer(_) => return None,
        };
        Some(to_template(&self.answers, &item))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        match &self.item {
            TemplateValue::Fields(fields) => {
                Enumerator::Values(fields.iter().map(|(name, _)| Value::from(*name)).collect())
            }
            TemplateValue::List(list) => Enumerator::Seq(list.len()),
            TemplateValue::Map(map) => Enumerator::Values(map.names()),
            TemplateValue::Value(_) | TemplateValue::Answer(_) => Enumerator::NonEnumerable,
        }
    }
}
