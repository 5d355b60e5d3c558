//! Walks a graph from node to node, along the first edge whose condition holds.

use minijinja::Value;
use segno_core::step::Path;
use segno_spec::{Edge, Graph, Node, Step};

use super::{Ending, sequence};
use crate::error::Error;
use crate::scope::{Map, Scope, TemplateValue};
use crate::steps::{Input, Runner};

pub(super) async fn run(runner: &Runner, config: &Graph) -> Result<Ending, Error> {
    let nodes = Map::new(config.nodes.iter().map(|node| node.id.as_str()));
    for node in &config.nodes {
        nodes.set(&node.id, unvisited(node));
    }
    let base = runner.rendering.scope.with([
        ("nodes", TemplateValue::from(nodes.clone())),
        ("hitl_response", TemplateValue::Value(Value::from(()))),
    ]);
    let mut scope = base.clone();
    let mut visits = vec![0; config.nodes.len()];
    let (mut current, mut last, mut steps) = (0, None, 0_u32);
    loop {
        let node = &config.nodes[current];
        if visits[current] == config.max_iterations {
            return Err(Error::TooManyVisits {
                name: runner.id.name.clone(),
                node: node.id.clone(),
                visits: visits[current],
            });
        }
        visits[current] += 1;
        steps += 1;
        let path = Path::root("nodes").join(&node.id).nth(visits[current]);
        let default_input = last.map_or_else(
            || Input::Text(format!("Do the work of node `{}`.", node.id)),
            Input::Answer,
        );
        let answer = sequence::run_one(runner, path, &node.step, default_input, &scope).await?;
        let mut fields = vec![
            ("response", TemplateValue::Answer(answer)),
            ("agent", node.step.agent().into()),
            ("status", "success".into()),
            ("iteration", TemplateValue::from(visits[current])),
        ];
        if let Step::Human(human_step) = &node.step {
            fields.extend(sequence::question_fields(human_step));
            scope = base.with([("hitl_response", TemplateValue::Answer(answer))]);
        }
        nodes.set(&node.id, TemplateValue::fields(fields));
        last = Some(answer);
        match next(runner, config, current, &scope).await? {
            Some(following) => current = following,
            None => break,
        }
    }
    let counts = Map::new(config.nodes.iter().map(|node| node.id.as_str()));
    for (node, count) in config.nodes.iter().zip(&visits) {
        counts.set(&node.id, *count);
    }
    let state = runner.journal.state();
    let more = [
        (
            "terminal_node",
            TemplateValue::from(config.nodes[current].id.as_str()),
        ),
        ("total_steps", TemplateValue::from(steps)),
        ("iteration_counts", TemplateValue::from(counts)),
        (
            "cumulative_tokens",
            TemplateValue::from(state.usage.tokens()),
        ),
        ("name", TemplateValue::from(runner.id.name.to_string())),
        (
            "timestamp",
            TemplateValue::from(state.updated_at.to_string()),
        ),
    ];
    Ok(Ending {
        last,
        scope: scope.with(more),
    })
}

/// A node that was not visited yet, with empty fields.
fn unvisited(node: &Node) -> TemplateValue {
    TemplateValue::fields([
        ("response", TemplateValue::Value(Value::from(()))),
        ("agent", node.step.agent().into()),
        ("status", "not_executed".into()),
        ("iteration", TemplateValue::from(0)),
    ])
}

/// The next node; `None` if the walk ends here.
async fn next(
    runner: &Runner,
    config: &Graph,
    current: usize,
    scope: &Scope,
) -> Result<Option<usize>, Error> {
    match config.edges.get(&current) {
        None => Ok(None),
        Some(Edge::To(following)) => Ok(Some(*following)),
        Some(Edge::Choose(choices)) => {
            for choice in choices {
                let holds = match &choice.when {
                    None => true,
                    Some(when) => runner.holds(&config.nodes[current].id, when, scope).await?,
                };
                if holds {
                    return Ok(Some(choice.to));
                }
            }
            Ok(None)
        }
    }
}
