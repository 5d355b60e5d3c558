//! `graph`: from node to node, along the first edge whose condition holds.

use std::collections::{BTreeMap, BTreeSet};

use super::step::{self, AgentStep, Step};
use crate::spec::fields::Keys;
use crate::spec::place::{Place, shortened};

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

/// Nodes and the ways between them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Graph {
    /// The first is where it begins.
    pub nodes: Vec<Node>,
    /// At most one leaves each node.
    pub edges: BTreeMap<usize, Edge>,
    /// How often each node may be visited.
    pub max_iterations: u32,
}

/// A place where something is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its name.
    pub id: String,
    /// What is asked.
    pub step: Step,
}

/// The way from a node.
#[derive(Debug, Clone, PartialEq)]
pub enum Edge {
    /// Always there.
    To(usize),
    /// Where the first condition that holds leads; if none holds, this is the end.
    Choose(Vec<Choice>),
}

/// A condition, and where it leads.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// An expression; `None` always holds.
    pub when: Option<String>,
    /// The node.
    pub to: usize,
}

pub(super) fn read(place: &Place<'_>, agents: &[&str]) -> Graph {
    let fields = place.fields(&KEYS);
    let places = fields.read("nodes", |place| {
        let nodes = place.named();
        if place.is_map() && nodes.is_empty() {
            place.invalid("must hold at least 1");
        }
        nodes
    });
    let names: Vec<&str> = places.iter().map(|(name, _)| *name).collect();
    let nodes: Vec<Node> = places
        .iter()
        .map(|(name, place)| Node {
            id: (*name).to_owned(),
            step: node(place, agents),
        })
        .collect();
    let mut edges = BTreeMap::new();
    for place in fields.read("edges", |place| place.list(1)) {
        if let Some((from, edge)) = edge(&place, &names)
            && edges.insert(from, edge).is_some()
        {
            place.invalid(format!(
                "would be ignored: another edge leaves `{}` already",
                names[from]
            ));
        }
    }
    let graph = Graph {
        nodes,
        edges,
        max_iterations: fields
            .get("max_iterations")
            .map_or(10, |place| place.integer(1..=1_000_000)),
    };
    check_ways(&graph, &places, place);
    graph
}

fn node(place: &Place<'_>, agents: &[&str]) -> Step {
    if step::is_person(place) {
        return Step::Person(step::person(&place.fields(&PERSON_KEYS)));
    }
    let fields = place.fields(&NODE_KEYS);
    Step::Agent(AgentStep {
        agent: fields.read("agent", |place| step::agent(&place, agents)),
        input: fields.get("input").map(|place| place.template()),
        vars: BTreeMap::new(),
        tools: None,
    })
}

fn edge(place: &Place<'_>, names: &[&str]) -> Option<(usize, Edge)> {
    let fields = place.fields(&EDGE_KEYS);
    let from = fields.get("from").and_then(|place| find(&place, names));
    let edge = match (fields.get("to"), fields.get("choose")) {
        (Some(to), None) => {
            let targets = to.list(1);
            if targets.len() > 1 {
                to.unsupported("leads to several nodes, and one way is taken from each: use `choose`, or pattern `workflow`");
            }
            targets
                .first()
                .and_then(|place| find(place, names))
                .map(Edge::To)
        }
        (None, Some(choose)) => {
            let choices = choose.list(1);
            let choices: Vec<Option<Choice>> =
                choices.iter().map(|place| choice(place, names)).collect();
            choices.into_iter().collect::<Option<_>>().map(Edge::Choose)
        }
        _ => {
            place.invalid("needs either `to` or `choose`, and not both");
            None
        }
    };
    Some((from?, edge?))
}

fn choice(place: &Place<'_>, names: &[&str]) -> Option<Choice> {
    let fields = place.fields(&CHOICE_KEYS);
    let when = fields.get("when").map(|place| place.condition());
    let to = fields.get("to").and_then(|place| find(&place, names));
    Some(Choice {
        when: when?,
        to: to?,
    })
}

fn find(place: &Place<'_>, names: &[&str]) -> Option<usize> {
    let name = place.line_of_text();
    let found = names.iter().position(|known| *known == name);
    if found.is_none() && !name.is_empty() && !names.is_empty() {
        let message = format!("no such node: `{}`", shortened(&name));
        place.unknown(message, &name, names.iter().copied());
    }
    found
}

/// Every node can be reached, and somewhere it ends.
fn check_ways(graph: &Graph, places: &[(&str, Place<'_>)], config: &Place<'_>) {
    let ways = |node: usize| match graph.edges.get(&node) {
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
        config.invalid("has no end: from every node an edge leads on");
    }
    let mut reached = BTreeSet::from([0]);
    let mut ahead = vec![0];
    while let Some(node) = ahead.pop() {
        for next in ways(node) {
            if reached.insert(next) {
                ahead.push(next);
            }
        }
    }
    for (index, (name, place)) in places.iter().enumerate() {
        if !reached.contains(&index) {
            let first = places[0].0;
            place.invalid(format!("no way leads from `{first}` to `{name}`"));
        }
    }
}
