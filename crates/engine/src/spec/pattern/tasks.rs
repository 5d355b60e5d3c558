//! `workflow`: tasks, each begun as soon as the tasks it needs are done.

use std::collections::{BTreeMap, BTreeSet};

use super::round::round;
use super::step::{self, AgentStep, Step};
use crate::spec::fields::Keys;
use crate::spec::place::{Place, shortened};

const KEYS: Keys = Keys {
    required: &["tasks"],
    optional: &[],
};
const TASK_KEYS: Keys = Keys {
    required: &["id", "agent"],
    optional: &["deps", "description", "input"],
};
const PERSON_KEYS: Keys = Keys {
    required: &["id", "type", "prompt"],
    optional: &[
        "deps",
        "description",
        "context_display",
        "default",
        "timeout_seconds",
    ],
};

/// Tasks in the order of the spec; none needs itself, by whatever detour.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tasks {
    /// At least one.
    pub tasks: Vec<Task>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Its name.
    pub id: String,
    /// The tasks that must be done before, by their places.
    pub deps: Vec<usize>,
    /// What it is for.
    pub description: Option<String>,
    /// What is asked.
    pub step: Step,
}

pub(super) fn read(place: &Place<'_>, agents: &[&str]) -> Tasks {
    let fields = place.fields(&KEYS);
    let places = fields.read("tasks", |place| place.list(1));
    let mut tasks = Vec::new();
    let mut needs = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for place in &places {
        let (task, deps) = task(place, agents);
        if !task.id.is_empty() && known.insert(task.id.clone(), tasks.len()).is_some() {
            place.invalid(format!("there are two tasks `{}`", task.id));
        }
        tasks.push(task);
        needs.push(deps);
    }
    for (task, deps) in tasks.iter_mut().zip(needs) {
        let mut seen = BTreeSet::new();
        for dep in deps {
            let name = dep.line_of_text();
            match known.get(&name) {
                _ if name.is_empty() => {}
                Some(_) if !seen.insert(name.clone()) => {
                    dep.invalid(format!("`{name}` is given twice"));
                }
                Some(index) => task.deps.push(*index),
                None => {
                    let message = format!("no such task: `{}`", shortened(&name));
                    dep.unknown(message, &name, known.keys().map(String::as_str));
                }
            }
        }
    }
    let deps: Vec<&[usize]> = tasks.iter().map(|task| &task.deps[..]).collect();
    if let Some(round) = round(&deps) {
        let names: Vec<&str> = round.iter().map(|task| tasks[*task].id.as_str()).collect();
        places[round[0]].invalid(format!("waits for itself: {}", names.join(" → ")));
    }
    Tasks { tasks }
}

fn task<'a>(place: &Place<'a>, agents: &[&str]) -> (Task, Vec<Place<'a>>) {
    let person = step::is_person(place);
    let fields = place.fields(if person { &PERSON_KEYS } else { &TASK_KEYS });
    let step = if person {
        Step::Person(step::person(&fields))
    } else {
        Step::Agent(AgentStep {
            agent: fields.read("agent", |place| step::agent(&place, agents)),
            input: fields.get("input").map(|place| place.template()),
            vars: BTreeMap::new(),
            tools: None,
        })
    };
    let task = Task {
        id: fields.read("id", |place| place.identifier()),
        deps: Vec::new(),
        description: fields.get("description").map(|place| place.text()),
        step,
    };
    (task, fields.read("deps", |place| place.list(0)))
}
