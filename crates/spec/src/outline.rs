//! Lists the steps of a workflow: for comparing two versions of it, and for showing what will run.

use segno_core::step::Path;

use super::pattern::{Approve, Edge, Graph, ListStep, Orchestrator, Pattern, Plan, Routing, Step};
use super::workflow::Workflow;

/// A step of a workflow, as its spec defines it. If a step can run several times, the path is that
/// of the first time, without a number.
#[derive(Debug, Clone, PartialEq)]
pub struct OutlineStep {
    pub path: Path,
    /// The agent; `None` for a human step.
    pub agent: Option<String>,
    /// The definition of the step in the spec, as one text for comparison.
    pub definition: String,
    /// The part of the definition that says what is asked, before templates are rendered.
    pub question: String,
    /// Whether only its position in a list identifies the step, because it has no id.
    pub is_positional: bool,
    /// The steps that it follows.
    pub after: Vec<Predecessor>,
    /// The tools of the step, if it overrides those of its agent.
    pub tools: Option<Vec<String>>,
}

/// A step that another step follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Predecessor {
    pub path: Path,
    /// The condition; `None` if it always follows.
    pub when: Option<String>,
}

impl Predecessor {
    fn when(path: &Path, when: impl Into<String>) -> Self {
        Self {
            path: path.clone(),
            when: Some(when.into()),
        }
    }
}

impl From<Path> for Predecessor {
    fn from(path: Path) -> Self {
        Self { path, when: None }
    }
}

/// The steps of a workflow, in the order of its spec.
pub fn outline(workflow: &Workflow) -> Vec<OutlineStep> {
    match &workflow.pattern {
        Pattern::Chain(chain) => sequence(None, &chain.steps, Vec::new()),
        Pattern::Workflow(tasks) => {
            let path = |index: usize| Path::root("tasks").join(&tasks.tasks[index].id);
            let tasks = tasks.tasks.iter().enumerate();
            tasks
                .map(|(index, task)| {
                    let after = task.deps.iter().map(|dep| path(*dep).into());
                    step(path(index), &task.step, after.collect())
                })
                .collect()
        }
        Pattern::Routing(pattern) => routing(pattern),
        Pattern::Parallel(parallel) => {
            let (mut parts, mut ends) = (Vec::new(), Vec::new());
            for branch in &parallel.branches {
                let path = Path::root("branches").join(&branch.id);
                parts.extend(sequence(Some(&path), &branch.steps, Vec::new()));
                ends.extend(parts.last().map(|part| part.path.clone().into()));
            }
            if let Some(reduce) = &parallel.reduce {
                parts.push(step(Path::root("reduce"), reduce, ends));
            }
            parts
        }
        Pattern::Evaluator(pattern) => {
            let [producer, evaluator, review] = ["producer", "evaluator", "review"].map(Path::root);
            let below = format!("score below {}", pattern.min_score);
            let judge = format!("{:?}", (&pattern.input, pattern.min_score));
            let mut parts = vec![
                agent(
                    producer.clone(),
                    &pattern.producer,
                    format!("{:?}", pattern.revise_prompt),
                    Vec::new(),
                ),
                agent(
                    evaluator.clone(),
                    &pattern.evaluator,
                    judge,
                    vec![producer.into()],
                ),
            ];
            let again = if let Some(gate) = &pattern.review_gate {
                let after = vec![Predecessor::when(&evaluator, below)];
                parts.push(person(review.clone(), format!("{gate:?}"), after));
                Predecessor::when(&review, "unless stopped")
            } else {
                Predecessor::when(&evaluator, below)
            };
            parts[0].after.push(again);
            parts
        }
        Pattern::Orchestrator(pattern) => orchestrator(pattern),
        Pattern::Graph(pattern) => graph(pattern),
        Pattern::Plan(pattern) => plan(pattern),
    }
}

fn routing(routing: &Routing) -> Vec<OutlineStep> {
    let asked = format!("{:?}", (&routing.input, routing.max_retries));
    let mut parts = vec![agent(
        Path::root("router"),
        &routing.agent,
        asked,
        Vec::new(),
    )];
    if let Some(review) = &routing.review {
        let after = vec![parts[0].path.clone().into()];
        parts.push(person(Path::root("review"), format!("{review:?}"), after));
    }
    let last = parts[parts.len() - 1].path.clone();
    for route in &routing.routes {
        let path = Path::root("routes").join(&route.name);
        let chosen = Predecessor::when(&last, route.name.as_str());
        parts.extend(sequence(Some(&path), &route.steps, vec![chosen]));
    }
    parts
}

fn orchestrator(pattern: &Orchestrator) -> Vec<OutlineStep> {
    let asked = format!("{:?}", (&pattern.input, pattern.min_workers));
    let mut parts = vec![agent(
        Path::root("orchestrator"),
        &pattern.agent,
        asked,
        Vec::new(),
    )];
    let last = |parts: &[OutlineStep]| vec![parts[parts.len() - 1].path.clone().into()];
    if let Some(review) = &pattern.decomposition_review {
        let path = Path::root("decomposition_review");
        let review = person(path, format!("{review:?}"), last(&parts));
        parts.push(review);
    }
    let workers = Path::root("workers");
    let asked = format!("{:?}", pattern.worker_tools);
    parts.push(OutlineStep {
        tools: pattern.worker_tools.clone(),
        ..agent(workers.clone(), &pattern.worker, asked, last(&parts))
    });
    if pattern.max_rounds > 1 {
        let again = Predecessor::when(&workers, format!("up to {} rounds", pattern.max_rounds));
        parts[0].after.push(again);
    }
    if let Some(review) = &pattern.reduce_review {
        let path = Path::root("reduce_review");
        let review = person(path, format!("{review:?}"), last(&parts));
        parts.push(review);
    }
    for (name, join) in [("reduce", &pattern.reduce), ("writeup", &pattern.writeup)] {
        if let Some(join) = join {
            let part = step(Path::root(name), join, last(&parts));
            parts.push(part);
        }
    }
    parts
}

fn graph(graph: &Graph) -> Vec<OutlineStep> {
    let path = |index: usize| Path::root("nodes").join(&graph.nodes[index].id);
    let ways = |from: usize, to: usize| -> Vec<Predecessor> {
        match graph.edges.get(&from) {
            Some(Edge::To(there)) if *there == to => vec![path(from).into()],
            Some(Edge::Choose(choices)) => choices
                .iter()
                .filter(|choice| choice.to == to)
                .map(|choice| {
                    Predecessor::when(&path(from), choice.when.as_deref().unwrap_or("else"))
                })
                .collect(),
            _ => Vec::new(),
        }
    };
    let nodes = graph.nodes.iter().enumerate();
    nodes
        .map(|(index, node)| {
            let before = (0..graph.nodes.len()).flat_map(|from| ways(from, index));
            step(path(index), &node.step, before.collect())
        })
        .collect()
}

/// Either the planning step and generic task steps, or the known tasks. Git operations are not
/// listed.
fn plan(plan: &Plan) -> Vec<OutlineStep> {
    let Some(list) = &plan.tasks else {
        let planner = Path::root("plan").join("planner");
        let asked = format!("{:?}", plan.issue);
        let mut parts = vec![agent(planner.clone(), &plan.planner, asked, Vec::new())];
        if plan.approve != Approve::None {
            let after = vec![planner.into()];
            let path = Path::root("plan").join("approval");
            parts.push(person(path, "a plan".to_owned(), after));
        }
        let last = parts[parts.len() - 1].path.clone();
        let work = Path::root("tasks").join("work");
        parts.push(agent(
            work.clone(),
            &plan.agent,
            String::new(),
            vec![last.into()],
        ));
        if let Some(reviewer) = &plan.reviewer {
            let path = Path::root("tasks").join("review");
            parts.push(agent(path, reviewer, String::new(), vec![work.into()]));
        }
        return parts;
    };
    let path = |index: usize| Path::root("tasks").join(&list.tasks[index].id);
    let mut parts = Vec::new();
    for (index, task) in list.tasks.iter().enumerate().filter(|(_, task)| !task.done) {
        let last = |before: &usize| {
            let step = if plan.reviewer.is_some() {
                "review"
            } else {
                "work"
            };
            Predecessor::from(path(*before).join(step))
        };
        let needed = task
            .depends_on
            .iter()
            .filter(|before| !list.tasks[**before].done);
        let work = path(index).join("work");
        let asked = format!("{:?}", (&task.title, &task.description));
        parts.push(agent(
            work.clone(),
            &plan.agent,
            asked,
            needed.map(last).collect(),
        ));
        if let Some(reviewer) = &plan.reviewer {
            let path = path(index).join("review");
            let mut review = agent(path, reviewer, String::new(), vec![work.into()]);
            review.definition = format!("{:?}", plan.max_revisions);
            parts.push(review);
        }
    }
    parts
}

/// Where the outline has the step whose run a journal records at `path`: without the numbers of
/// visits, iterations and rounds. A part of a step, such as a repair, stays below the step.
pub fn outline_path(path: &Path) -> String {
    let segments = path.as_str().split('/');
    let plain = segments.map(|segment| segment.split('#').next().unwrap_or(segment));
    let plain: Vec<&str> = plain.collect();
    match plain[..] {
        ["rounds", _, "review"] => "decomposition_review".to_owned(),
        ["rounds" | "iterations", _, ref step @ ..] | ref step => step.join("/"),
    }
}

/// Steps in sequence; the first one follows `after`.
fn sequence(
    path: Option<&Path>,
    steps: &[ListStep],
    mut after: Vec<Predecessor>,
) -> Vec<OutlineStep> {
    let path = match path {
        Some(path) => path.join("steps"),
        None => Path::root("steps"),
    };
    let steps = steps.iter().enumerate();
    steps
        .map(|(index, given)| {
            let path = given.path(&path, index);
            let before = std::mem::replace(&mut after, vec![path.clone().into()]);
            OutlineStep {
                is_positional: given.id.is_none(),
                ..step(path, &given.step, before)
            }
        })
        .collect()
}

fn step(path: Path, step: &Step, after: Vec<Predecessor>) -> OutlineStep {
    match step {
        Step::Agent(asked) => OutlineStep {
            tools: asked.tools.clone(),
            question: format!("{:?}", (&asked.agent, &asked.input, &asked.vars)),
            ..agent(path, &asked.agent, format!("{asked:?}"), after)
        },
        Step::Human(asked) => OutlineStep {
            question: asked.prompt.clone(),
            ..person(path, format!("{asked:?}"), after)
        },
    }
}

fn agent(path: Path, agent: &str, definition: String, after: Vec<Predecessor>) -> OutlineStep {
    OutlineStep {
        path,
        agent: Some(agent.to_owned()),
        question: format!("{:?}", (agent, &definition)),
        definition,
        is_positional: false,
        after,
        tools: None,
    }
}

fn person(path: Path, definition: String, after: Vec<Predecessor>) -> OutlineStep {
    OutlineStep {
        path,
        agent: None,
        question: definition.clone(),
        definition,
        is_positional: false,
        after,
        tools: None,
    }
}
