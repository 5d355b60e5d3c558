//! From node to node, along the first edge whose condition holds.

use minijinja::Value;
use segno_core::step::Path;

use super::{Ending, sequence};
use crate::error::Error;
use crate::flow::{Flow, Input};
use crate::scope::{Map, Scope, Seen};
use crate::spec::{Edge, Graph, Node, Step};

pub(super) async fn run(flow: &Flow, config: &Graph) -> Result<Ending, Error> {
    let nodes = Map::new(config.nodes.iter().map(|node| node.id.as_str()));
    for node in &config.nodes {
        nodes.set(&node.id, unvisited(node));
    }
    let base = flow.scope.with([
        ("nodes", Seen::from(nodes.clone())),
        ("hitl_response", Seen::Value(Value::from(()))),
    ]);
    let mut scope = base.clone();
    let mut visits = vec![0; config.nodes.len()];
    let (mut here, mut last, mut steps) = (0, None, 0_u32);
    loop {
        let node = &config.nodes[here];
        if visits[here] == config.max_iterations {
            return Err(Error::Loop {
                name: flow.name.clone(),
                node: node.id.clone(),
                visits: visits[here],
            });
        }
        visits[here] += 1;
        steps += 1;
        let path = Path::first("nodes").then(&node.id).again(visits[here]);
        let otherwise = last.map_or_else(
            || Input::Words(format!("Do what node `{}` is for.", node.id)),
            Input::Answer,
        );
        let answer = sequence::one(flow, path, &node.step, otherwise, &scope).await?;
        let mut fields = vec![
            ("response", Seen::Answer(answer)),
            ("agent", node.step.agent().into()),
            ("status", "success".into()),
            ("iteration", Seen::from(visits[here])),
        ];
        if let Step::Person(person) = &node.step {
            fields.extend(sequence::asked(person));
            scope = base.with([("hitl_response", Seen::Answer(answer))]);
        }
        nodes.set(&node.id, Seen::fields(fields));
        last = Some(answer);
        match next(flow, config, here, &scope).await? {
            Some(there) => here = there,
            None => break,
        }
    }
    let counts = Map::new(config.nodes.iter().map(|node| node.id.as_str()));
    for (node, count) in config.nodes.iter().zip(&visits) {
        counts.set(&node.id, *count);
    }
    let state = flow.pen.state();
    let more = [
        ("terminal_node", Seen::from(config.nodes[here].id.as_str())),
        ("total_steps", Seen::from(steps)),
        ("iteration_counts", Seen::from(counts)),
        ("cumulative_tokens", Seen::from(state.usage.tokens())),
        ("name", Seen::from(flow.name.to_string())),
        ("timestamp", Seen::from(state.updated_at.to_string())),
    ];
    Ok(Ending {
        last,
        scope: scope.with(more),
    })
}

/// A node that was not visited yet is there, with nothing in it.
fn unvisited(node: &Node) -> Seen {
    Seen::fields([
        ("response", Seen::Value(Value::from(()))),
        ("agent", node.step.agent().into()),
        ("status", "not_executed".into()),
        ("iteration", Seen::from(0)),
    ])
}

/// Where the way from a node leads; `None` if it ends there.
async fn next(
    flow: &Flow,
    config: &Graph,
    here: usize,
    scope: &Scope,
) -> Result<Option<usize>, Error> {
    match config.edges.get(&here) {
        None => Ok(None),
        Some(Edge::To(there)) => Ok(Some(*there)),
        Some(Edge::Choose(choices)) => {
            for choice in choices {
                let holds = match &choice.when {
                    None => true,
                    Some(when) => flow.holds(&config.nodes[here].id, when, scope).await?,
                };
                if holds {
                    return Ok(Some(choice.to));
                }
            }
            Ok(None)
        }
    }
}
