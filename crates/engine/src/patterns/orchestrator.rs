//! An agent that hands out work, in rounds; others do it side by side.

use std::fmt::Write;

use minijinja::Value as Shown;
use minijinja::value::Serde;
use segno_core::agent::Conduct;
use segno_core::step::Path;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::insist::{Demand, Wording, find, insist};
use super::{Ending, sequence, together};
use crate::answers::{Answer, Source};
use crate::error::Error;
use crate::flow::{Flow, Input, Question};
use crate::scope::{List, Scope, Seen};
use crate::spec::{Orchestrator, Person, Step};

/// How often an answer that is no list of tasks is asked for again.
const RETRIES: u32 = 2;

const SHAPE: &str = "Answer with a JSON list of tasks, [{\"task\": \"<what to do>\"}, …], or [] if nothing is to be done.";

/// Work that was done.
struct Done {
    task: Value,
    answer: Answer,
}

pub(super) async fn run(flow: &Flow, config: &Orchestrator) -> Result<Ending, Error> {
    let workers = List::default();
    let mut scope = flow.scope.with([("workers", Seen::from(workers.clone()))]);
    let (mut done, mut rounds) = (Vec::new(), 0);
    for round in 1..=config.max_rounds {
        let place = Path::first("rounds").then(round);
        let around = scope.with(counted(&workers, rounds));
        let tasks = decompose(flow, config, &place, round, &done, &around).await?;
        if tasks.is_empty() {
            break;
        }
        rounds = round;
        if let Some(review) = &config.decomposition_review {
            let listed = serde_json::to_string_pretty(&tasks).unwrap_or_default();
            let more = [
                ("orchestrator_response", Seen::from(listed)),
                ("subtasks", Seen::Value(Shown::from(Serde(&tasks)))),
                ("task_count", Seen::from(tasks.len())),
                ("round", Seen::from(round)),
            ];
            let path = place.then("review");
            scope = reviewed(flow, &path, review, &scope, &around.with(more)).await?;
        }
        let answers = work(flow, config, &place, &tasks, &scope).await?;
        for (task, answer) in tasks.into_iter().zip(answers) {
            workers.push(Seen::fields([
                ("response", Seen::Answer(answer)),
                ("status", "success".into()),
                ("task", Seen::from(wording(&task))),
                ("agent", config.worker.as_str().into()),
                ("round", Seen::from(round)),
            ]));
            done.push(Done { task, answer });
        }
    }
    scope = scope.with(counted(&workers, rounds));
    if let Some(review) = &config.reduce_review {
        let more = [("worker_count", Seen::from(workers.len()))];
        let path = Path::first("reduce_review");
        scope = reviewed(flow, &path, review, &scope, &scope.with(more)).await?;
    }
    let mut last = None;
    for (name, seen, step) in [
        ("reduce", "reduce_response", &config.reduce),
        ("writeup", "writeup_response", &config.writeup),
    ] {
        if let Some(step) = step {
            let answer = join(flow, Path::first(name), step, last, &done, &scope).await?;
            scope = scope.with([(seen, Seen::Answer(answer))]);
            last = Some(answer);
        }
    }
    if last.is_none() {
        let text = listed(flow, &done).await?;
        last = Some(flow.answers.add(Source::Held(text.into())));
    }
    Ok(Ending { last, scope })
}

fn counted(workers: &List, rounds: u32) -> [(&'static str, Seen); 2] {
    [
        ("num_workers", Seen::from(workers.len())),
        ("round_count", Seen::from(rounds)),
    ]
}

/// The tasks of a round.
async fn decompose(
    flow: &Flow,
    config: &Orchestrator,
    place: &Path,
    round: u32,
    done: &[Done],
    scope: &Scope,
) -> Result<Vec<Value>, Error> {
    let path = place.then("orchestrator");
    let input = match &config.input {
        Some(source) if round == 1 => Wording::Template(source),
        _ if flow.has(&path) => Wording::Words(String::new()),
        input => {
            let mut words = match input {
                Some(source) => flow.render("the input", &path, source, scope).await?,
                None => format!(
                    "Break the work down into tasks that can be done side by side. What is given:\n{}",
                    flow.variables_as_json()
                ),
            };
            if round > 1 {
                let results = listed(flow, done).await?;
                let _ = write!(
                    words,
                    "\n\nWhat was done so far:\n\n{results}\n\nIf something is still to be done, hand it out; if not, answer with []."
                );
            }
            Wording::Words(words)
        }
    };
    let demand = Demand {
        path,
        agent: &config.agent,
        input,
        shape: SHAPE,
        alone: "the JSON",
        retries: RETRIES,
        scope,
        conduct: Conduct::Work,
    };
    let least = config.min_workers as usize;
    let (tasks, _) = insist(flow, demand, |text| tasks_in(text, least)).await?;
    Ok(tasks)
}

fn tasks_in(text: &str, least: usize) -> Result<Vec<Value>, String> {
    let is_task = |value: &Value| value.is_string() || value.is_object();
    let wanted = |value: &Value| match value {
        Value::Array(items) => items.iter().all(is_task),
        value => value.get("task").is_some(),
    };
    let found = find(text, wanted).ok_or("it has no list of tasks")?;
    let tasks = match found {
        Value::Array(tasks) => tasks,
        one => vec![one],
    };
    if !tasks.is_empty() && tasks.len() < least {
        return Err(format!(
            "it has {} tasks, and at least {least} are needed",
            tasks.len()
        ));
    }
    Ok(tasks)
}

/// What a worker is asked.
fn wording(task: &Value) -> String {
    let words = task.as_str().or_else(|| task["task"].as_str());
    words.map_or_else(|| task.to_string(), str::to_owned)
}

/// Has the tasks of a round done.
async fn work(
    flow: &Flow,
    config: &Orchestrator,
    place: &Path,
    tasks: &[Value],
    scope: &Scope,
) -> Result<Vec<Answer>, Error> {
    let place = &place.then("workers");
    let most = config.max_workers.map_or(tasks.len(), |most| most as usize);
    let desks = Semaphore::new(most.max(1));
    let work = tasks.iter().enumerate().map(|(index, task)| {
        let (scope, desks) = (scope.remembering([]), &desks);
        async move {
            let _desk = desks.acquire().await.expect("it is never closed");
            let question = Question {
                path: place.then(index),
                agent: &config.worker,
                input: Input::Words(wording(task)),
                scope: &scope,
                tools: config.worker_tools.as_deref(),
                conduct: Conduct::Work,
            };
            flow.ask(question).await
        }
    });
    together::all(flow, work).await
}

/// Asks a person, whose words the steps after it see.
async fn reviewed(
    flow: &Flow,
    path: &Path,
    review: &Person,
    scope: &Scope,
    shown: &Scope,
) -> Result<Scope, Error> {
    let said = flow.ask_person(path, review, shown).await?;
    Ok(scope.with([("hitl_response", Seen::Answer(said))]))
}

/// Has the results joined. A step without an input works on the step before it, or on the results.
async fn join(
    flow: &Flow,
    path: Path,
    step: &Step,
    before: Option<Answer>,
    done: &[Done],
    scope: &Scope,
) -> Result<Answer, Error> {
    let otherwise = match before {
        Some(answer) => Input::Answer(answer),
        None if flow.has(&path) => Input::Words(String::new()),
        None => Input::Words(listed(flow, done).await?),
    };
    sequence::one(flow, path, step, otherwise, scope).await
}

async fn listed(flow: &Flow, done: &[Done]) -> Result<String, Error> {
    let mut listed = String::new();
    for (index, work) in done.iter().enumerate() {
        let between = if index == 0 { "" } else { "\n\n" };
        let (task, text) = (wording(&work.task), flow.text(work.answer).await?);
        let _ = write!(listed, "{between}Worker {index} ({task}):\n{text}");
    }
    Ok(listed)
}
