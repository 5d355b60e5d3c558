//! `workflow`: tasks with dependencies; each starts as soon as its dependencies are done.

use std::collections::{BTreeMap, BTreeSet};

use super::cycle::find_cycle;
use super::step::{self, AgentStep, Step};
use crate::cursor::{Cursor, shortened};
use crate::fields::Keys;

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

/// Tasks in the order of the spec, without dependency cycles.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tasks {
    pub tasks: Vec<Task>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    pub id: String,
    /// The tasks that must be done before, by index.
    pub deps: Vec<usize>,
    pub description: Option<String>,
    pub step: Step,
}

pub(super) fn read(cursor: &Cursor<'_>, agents: &[&str]) -> Tasks {
    let fields = cursor.fields(&KEYS);
    let cursors = fields.read("tasks", |cursor| cursor.list(1));
    let mut tasks = Vec::new();
    let mut needs = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for cursor in &cursors {
        let (task, deps) = task(cursor, agents);
        if !task.id.is_empty() && known.insert(task.id.clone(), tasks.len()).is_some() {
            cursor.invalid(format!("duplicate task `{}`", task.id));
        }
        tasks.push(task);
        needs.push(deps);
    }
    for (task, deps) in tasks.iter_mut().zip(needs) {
        let mut seen = BTreeSet::new();
        for dep in deps {
            let name = dep.single_line();
            match known.get(&name) {
                _ if name.is_empty() => {}
                Some(_) if !seen.insert(name.clone()) => {
                    dep.invalid(format!("`{name}` is listed twice"));
                }
                Some(index) => task.deps.push(*index),
                None => {
                    let message = format!("unknown task `{}`", shortened(&name));
                    dep.unknown(message, &name, known.keys().map(String::as_str));
                }
            }
        }
    }
    let deps: Vec<&[usize]> = tasks.iter().map(|task| &task.deps[..]).collect();
    if let Some(cycle) = find_cycle(&deps) {
        let names: Vec<&str> = cycle.iter().map(|task| tasks[*task].id.as_str()).collect();
        cursors[cycle[0]].invalid(format!("depends on itself: {}", names.join(" → ")));
    }
    Tasks { tasks }
}

fn task<'a>(cursor: &Cursor<'a>, agents: &[&str]) -> (Task, Vec<Cursor<'a>>) {
    let person = step::is_person(cursor);
    let fields = cursor.fields(if person { &PERSON_KEYS } else { &TASK_KEYS });
    let step = if person {
        Step::Human(step::person(&fields))
    } else {
        Step::Agent(AgentStep {
            agent: fields.read("agent", |cursor| step::agent(&cursor, agents)),
            input: fields.get("input").map(|cursor| cursor.template()),
            vars: BTreeMap::new(),
            tools: None,
        })
    };
    let task = Task {
        id: fields.read("id", |cursor| cursor.identifier()),
        deps: Vec::new(),
        description: fields.get("description").map(|cursor| cursor.text()),
        step,
    };
    (task, fields.read("deps", |cursor| cursor.list(0)))
}
