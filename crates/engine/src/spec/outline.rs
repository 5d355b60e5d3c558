//! What a workflow is made of, step by step: for comparing two versions of it, and for showing what
//! will run.

use segno_core::step::Path;

use super::pattern::{Edge, Pattern, Step};
use super::workflow::Workflow;

/// A step of a workflow, as its spec defines it. Where the same step can be asked several times,
/// its path here is that of the first time, without a number.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Where it stands.
    pub path: Path,
    /// Who is asked; `None` for a person.
    pub agent: Option<String>,
    /// Everything that the spec says about it.
    pub definition: String,
    /// The parts after which it comes.
    pub after: Vec<Path>,
    /// What may be asked for, if the step chooses itself.
    pub tools: Option<Vec<String>>,
}

/// The parts of a workflow, in the order of its spec.
pub fn outline(workflow: &Workflow) -> Vec<Part> {
    let mut parts = Vec::new();
    match &workflow.pattern {
        Pattern::Chain(chain) => {
            line(&mut parts, None, &chain.steps, &[]);
        }
        Pattern::Workflow(tasks) => {
            let place = |index: usize| Path::first("tasks").then(&tasks.tasks[index].id);
            for (index, task) in tasks.tasks.iter().enumerate() {
                let after = task.deps.iter().map(|dep| place(*dep)).collect();
                parts.push(step(place(index), &task.step, after));
            }
        }
        Pattern::Routing(routing) => {
            let router = Path::first("router");
            parts.push(agent(
                router.clone(),
                &routing.agent,
                format!("{:?}", (&routing.input, routing.max_retries)),
                Vec::new(),
            ));
            let mut last = router;
            if let Some(review) = &routing.review {
                let place = Path::first("review");
                parts.push(person(place.clone(), format!("{review:?}"), vec![last]));
                last = place;
            }
            for route in &routing.routes {
                let place = Path::first("routes").then(&route.name);
                line(
                    &mut parts,
                    Some(&place),
                    &route.steps,
                    std::slice::from_ref(&last),
                );
            }
        }
        Pattern::Parallel(parallel) => {
            let mut ends = Vec::new();
            for branch in &parallel.branches {
                let place = Path::first("branches").then(&branch.id);
                ends.extend(line(&mut parts, Some(&place), &branch.steps, &[]));
            }
            if let Some(reduce) = &parallel.reduce {
                parts.push(step(Path::first("reduce"), reduce, ends));
            }
        }
        Pattern::Evaluator(pattern) => {
            let [producer, evaluator, review] =
                ["producer", "evaluator", "review"].map(Path::first);
            let revise = format!("{:?}", pattern.revise_prompt);
            parts.push(agent(
                producer.clone(),
                &pattern.producer,
                revise,
                Vec::new(),
            ));
            let judge = format!("{:?}", (&pattern.input, pattern.min_score));
            parts.push(agent(
                evaluator.clone(),
                &pattern.evaluator,
                judge,
                vec![producer],
            ));
            if let Some(gate) = &pattern.review_gate {
                parts.push(person(review, format!("{gate:?}"), vec![evaluator]));
            }
        }
        Pattern::Orchestrator(pattern) => {
            let orchestrator = Path::first("orchestrator");
            let asked = format!("{:?}", (&pattern.input, pattern.min_workers));
            parts.push(agent(
                orchestrator.clone(),
                &pattern.agent,
                asked,
                Vec::new(),
            ));
            let mut last = orchestrator;
            let mut follow = |parts: &mut Vec<Part>, part: Part| {
                last = part.path.clone();
                parts.push(part);
                last.clone()
            };
            let mut before = parts[0].path.clone();
            if let Some(review) = &pattern.decomposition_review {
                let place = Path::first("decomposition_review");
                before = follow(
                    &mut parts,
                    person(place, format!("{review:?}"), vec![before]),
                );
            }
            let workers = agent(
                Path::first("workers"),
                &pattern.worker,
                format!("{:?}", pattern.worker_tools),
                vec![before],
            );
            let workers = Part {
                tools: pattern.worker_tools.clone(),
                ..workers
            };
            before = follow(&mut parts, workers);
            if let Some(review) = &pattern.reduce_review {
                let place = Path::first("reduce_review");
                before = follow(
                    &mut parts,
                    person(place, format!("{review:?}"), vec![before]),
                );
            }
            for (name, join) in [("reduce", &pattern.reduce), ("writeup", &pattern.writeup)] {
                if let Some(join) = join {
                    before = follow(&mut parts, step(Path::first(name), join, vec![before]));
                }
            }
        }
        Pattern::Graph(graph) => {
            let place = |index: usize| Path::first("nodes").then(&graph.nodes[index].id);
            let leads = |from: usize, to: usize| match graph.edges.get(&from) {
                None => false,
                Some(Edge::To(there)) => *there == to,
                Some(Edge::Choose(choices)) => choices.iter().any(|choice| choice.to == to),
            };
            for (index, node) in graph.nodes.iter().enumerate() {
                let before = (0..graph.nodes.len()).filter(|from| leads(*from, index));
                parts.push(step(place(index), &node.step, before.map(place).collect()));
            }
        }
    }
    parts
}

/// Steps in order; the last of them.
fn line(
    parts: &mut Vec<Part>,
    place: Option<&Path>,
    steps: &[Step],
    after: &[Path],
) -> Option<Path> {
    let place = match place {
        Some(place) => place.then("steps"),
        None => Path::first("steps"),
    };
    let mut after = after.to_vec();
    for (index, given) in steps.iter().enumerate() {
        let path = place.then(index);
        parts.push(step(
            path.clone(),
            given,
            std::mem::replace(&mut after, vec![path]),
        ));
    }
    after.pop()
}

fn step(path: Path, step: &Step, after: Vec<Path>) -> Part {
    match step {
        Step::Agent(asked) => Part {
            tools: asked.tools.clone(),
            ..agent(path, &asked.agent, format!("{asked:?}"), after)
        },
        Step::Person(asked) => person(path, format!("{asked:?}"), after),
    }
}

fn agent(path: Path, agent: &str, definition: String, after: Vec<Path>) -> Part {
    Part {
        path,
        agent: Some(agent.to_owned()),
        definition,
        after,
        tools: None,
    }
}

fn person(path: Path, definition: String, after: Vec<Path>) -> Part {
    Part {
        path,
        agent: None,
        definition,
        after,
        tools: None,
    }
}
