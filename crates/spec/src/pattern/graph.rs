//! `graph`: from node to node, along the first edge whose condition is true.

use std::collections::{BTreeMap, BTreeSet};

use super::step::{self, AgentStep, Step};
use crate::cursor::{Cursor, shortened};
use crate::fields::Keys;

const KEYS: Keys = Keys {
    required: &["nodes", "edges"],
    optional: &["max_iterations"],
};
const NODE_KEYS: Keys = Keys {
    required: &["agent"],
    optional: &["input"],
};
const PERSON_KEYS: Keys = Keys {
    required: &["type", "prompt"],
    optional: &["context_display", "default", "timeout_seconds"],
};
const EDGE_KEYS: Keys = Keys {
    required: &["from"],
    optional: &["to", "choose"],
};
const CHOICE_KEYS: Keys = Keys {
    required: &["when", "to"],
    optional: &[],
};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Graph {
    /// The first node is the start.
    pub nodes: Vec<Node>,
    /// At most one edge per node, by the node's index.
    pub edges: BTreeMap<usize, Edge>,
    /// The limit of visits per node.
    pub max_iterations: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub id: String,
    pub step: Step,
}

/// How a graph continues after a node.
#[derive(Debug, Clone, PartialEq)]
pub enum Edge {
    /// Always continues at this node.
    To(usize),
    /// Continues at the first choice whose condition is true; ends if there is none.
    Choose(Vec<Choice>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// An expression; `None` is always true.
    pub when: Option<String>,
    pub to: usize,
}

pub(super) fn read(cursor: &Cursor<'_>, agents: &[&str]) -> Graph {
    let fields = cursor.fields(&KEYS);
    let cursors = fields.read("nodes", |cursor| {
        let nodes = cursor.identifier_entries();
        if cursor.is_map() && nodes.is_empty() {
            cursor.invalid("must have at least 1 item");
        }
        nodes
    });
    let names: Vec<&str> = cursors.iter().map(|(name, _)| *name).collect();
    let nodes: Vec<Node> = cursors
        .iter()
        .map(|(name, cursor)| Node {
            id: (*name).to_owned(),
            step: node(cursor, agents),
        })
        .collect();
    let mut edges = BTreeMap::new();
    for cursor in fields.read("edges", |cursor| cursor.list(1)) {
        if let Some((from, edge)) = edge(&cursor, &names)
            && edges.insert(from, edge).is_some()
        {
            cursor.invalid(format!(
                "would be ignored: `{}` already has an outgoing edge",
                names[from]
            ));
        }
    }
    let graph = Graph {
        nodes,
        edges,
        max_iterations: fields
            .get("max_iterations")
            .map_or(10, |cursor| cursor.integer(1..=1_000_000)),
    };
    check_reachability(&graph, &cursors, cursor);
    graph
}

fn node(cursor: &Cursor<'_>, agents: &[&str]) -> Step {
    if step::is_person(cursor) {
        return Step::Human(step::person(&cursor.fields(&PERSON_KEYS)));
    }
    let fields = cursor.fields(&NODE_KEYS);
    Step::Agent(AgentStep {
        agent: fields.read("agent", |cursor| step::agent(&cursor, agents)),
        input: fields.get("input").map(|cursor| cursor.template()),
        vars: BTreeMap::new(),
        tools: None,
    })
}

fn edge(cursor: &Cursor<'_>, names: &[&str]) -> Option<(usize, Edge)> {
    let fields = cursor.fields(&EDGE_KEYS);
    let from = fields.get("from").and_then(|cursor| find(&cursor, names));
    let edge = match (fields.get("to"), fields.get("choose")) {
        (Some(to), None) => {
            let targets = to.list(1);
            if targets.len() > 1 {
                to.unsupported("has several target nodes, but only one edge is followed: use `choose`, or pattern `workflow`");
            }
            targets
                .first()
                .and_then(|cursor| find(cursor, names))
                .map(Edge::To)
        }
        (None, Some(choose)) => {
            let choices = choose.list(1);
            let choices: Vec<Option<Choice>> =
                choices.iter().map(|cursor| choice(cursor, names)).collect();
            choices.into_iter().collect::<Option<_>>().map(Edge::Choose)
        }
        _ => {
            cursor.invalid("needs either `to` or `choose`, not both");
            None
        }
    };
    Some((from?, edge?))
}

fn choice(cursor: &Cursor<'_>, names: &[&str]) -> Option<Choice> {
    let fields = cursor.fields(&CHOICE_KEYS);
    let when = fields.get("when").map(|cursor| cursor.condition());
    let to = fields.get("to").and_then(|cursor| find(&cursor, names));
    Some(Choice {
        when: when?,
        to: to?,
    })
}

fn find(cursor: &Cursor<'_>, names: &[&str]) -> Option<usize> {
    let name = cursor.single_line();
    let found = names.iter().position(|known| *known == name);
    if found.is_none() && !name.is_empty() && !names.is_empty() {
        let message = format!("unknown node `{}`", shortened(&name));
        cursor.unknown(message, &name, names.iter().copied());
    }
    found
}

/// Checks that every node is reachable and that the graph can end.
fn check_reachability(graph: &Graph, cursors: &[(&str, Cursor<'_>)], config: &Cursor<'_>) {
    let successors = |node: usize| match graph.edges.get(&node) {
        None => Vec::new(),
        Some(Edge::To(to)) => vec![*to],
        Some(Edge::Choose(choices)) => choices.iter().map(|choice| choice.to).collect(),
    };
    let ends = |node: usize| match graph.edges.get(&node) {
        None => true,
        Some(Edge::To(_)) => false,
        Some(Edge::Choose(choices)) => choices.iter().all(|choice| choice.when.is_some()),
    };
    if !graph.nodes.is_empty() && !(0..graph.nodes.len()).any(ends) {
        config.invalid("never ends: every node has an outgoing edge");
    }
    let mut reached = BTreeSet::from([0]);
    let mut ahead = vec![0];
    while let Some(node) = ahead.pop() {
        for next in successors(node) {
            if reached.insert(next) {
                ahead.push(next);
            }
        }
    }
    for (index, (name, cursor)) in cursors.iter().enumerate() {
        if !reached.contains(&index) {
            let first = cursors[0].0;
            cursor.invalid(format!("`{name}` cannot be reached from `{first}`"));
        }
    }
}
