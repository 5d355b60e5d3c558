//! An agent hands out tasks in rounds; workers run them concurrently.

use std::fmt::Write;

use minijinja::Value as Shown;
use minijinja::value::Serde;
use segno_core::agent::AccessMode;
use segno_core::step::Path;
use segno_spec::{HumanQuestion, Orchestrator, Step};
use serde_json::Value;
use tokio::sync::Semaphore;

use super::structured_output::{StructuredQuestion, Wording, ask_structured};
use super::{Ending, concurrent, sequence};
use crate::answers::{Answer, Source};
use crate::error::Error;
use crate::scope::{List, Scope, TemplateValue};
use crate::steps::json_answer::find_json;
use crate::steps::{Input, Question, Runner};

/// How often an answer without a list of tasks is asked for again.
const RETRIES: u32 = 2;

const SHAPE: &str = "Answer with a JSON list of tasks, [{\"task\": \"<what to do>\"}, …], or [] if there is nothing to do.";

/// A finished task.
struct Done {
    task: Value,
    answer: Answer,
}

pub(super) async fn run(runner: &Runner, config: &Orchestrator) -> Result<Ending, Error> {
    let workers = List::default();
    let mut scope = runner
        .rendering
        .scope
        .with([("workers", TemplateValue::from(workers.clone()))]);
    let (mut done, mut rounds) = (Vec::new(), 0);
    for round in 1..=config.max_rounds {
        let prefix = Path::root("rounds").join(round);
        let round_scope = scope.with(count_values(&workers, rounds));
        let tasks = decompose(runner, config, &prefix, round, &done, &round_scope).await?;
        if tasks.is_empty() {
            break;
        }
        rounds = round;
        if let Some(review) = &config.decomposition_review {
            let listed = serde_json::to_string_pretty(&tasks).unwrap_or_default();
            let more = [
                ("orchestrator_response", TemplateValue::from(listed)),
                ("subtasks", TemplateValue::Value(Shown::from(Serde(&tasks)))),
                ("task_count", TemplateValue::from(tasks.len())),
                ("round", TemplateValue::from(round)),
            ];
            let path = prefix.join("review");
            scope = ask_review(runner, &path, review, &scope, &round_scope.with(more)).await?;
        }
        let answers = run_workers(runner, config, &prefix, &tasks, &scope).await?;
        for (task, answer) in tasks.into_iter().zip(answers) {
            workers.push(TemplateValue::fields([
                ("response", TemplateValue::Answer(answer)),
                ("status", "success".into()),
                ("task", TemplateValue::from(task_text(&task))),
                ("agent", config.worker.as_str().into()),
                ("round", TemplateValue::from(round)),
            ]));
            done.push(Done { task, answer });
        }
    }
    scope = scope.with(count_values(&workers, rounds));
    if let Some(review) = &config.reduce_review {
        let more = [("worker_count", TemplateValue::from(workers.len()))];
        let path = Path::root("reduce_review");
        scope = ask_review(runner, &path, review, &scope, &scope.with(more)).await?;
    }
    let mut last = None;
    for (name, seen, step) in [
        ("reduce", "reduce_response", &config.reduce),
        ("writeup", "writeup_response", &config.writeup),
    ] {
        if let Some(step) = step {
            let answer = run_join(runner, Path::root(name), step, last, &done, &scope).await?;
            scope = scope.with([(seen, TemplateValue::Answer(answer))]);
            last = Some(answer);
        }
    }
    if last.is_none() {
        let text = render_results(runner, &done).await?;
        last = Some(runner.rendering.answers.add(Source::InMemory(text.into())));
    }
    Ok(Ending { last, scope })
}

fn count_values(workers: &List, rounds: u32) -> [(&'static str, TemplateValue); 2] {
    [
        ("num_workers", TemplateValue::from(workers.len())),
        ("round_count", TemplateValue::from(rounds)),
    ]
}

/// Asks the agent for the tasks of a round.
async fn decompose(
    runner: &Runner,
    config: &Orchestrator,
    prefix: &Path,
    round: u32,
    done: &[Done],
    scope: &Scope,
) -> Result<Vec<Value>, Error> {
    let path = prefix.join("orchestrator");
    let input = match &config.input {
        Some(source) if round == 1 => Wording::Template(source),
        _ if runner.will_skip(&path) => Wording::Text(String::new()),
        input => {
            let mut words = match input {
                Some(source) => runner.render("the input", &path, source, scope).await?,
                None => format!(
                    "Break the work down into tasks that can run in parallel. The input:\n{}",
                    runner.variables_as_json()
                ),
            };
            if round > 1 {
                let results = render_results(runner, done).await?;
                let _ = write!(
                    words,
                    "\n\nResults so far:\n\n{results}\n\nIf work remains, answer with the next tasks; otherwise answer with []."
                );
            }
            Wording::Text(words)
        }
    };
    let structured = StructuredQuestion {
        path,
        agent: &config.agent,
        input,
        shape: SHAPE,
        alone: "the JSON",
        retries: RETRIES,
        scope,
        access: AccessMode::ReadWrite,
    };
    let least = config.min_workers as usize;
    let (tasks, _) = ask_structured(runner, structured, |text| parse_tasks(text, least)).await?;
    Ok(tasks)
}

/// Why a text is not a list of tasks.
pub(super) fn check(config: &Orchestrator, text: &str) -> Result<(), String> {
    parse_tasks(text, config.min_workers as usize).map(drop)
}

fn parse_tasks(text: &str, least: usize) -> Result<Vec<Value>, String> {
    let is_task = |value: &Value| value.is_string() || value.is_object();
    let wanted = |value: &Value| match value {
        Value::Array(items) => items.iter().all(is_task),
        value => value.get("task").is_some(),
    };
    let found = find_json(text, wanted).ok_or("it has no list of tasks")?;
    let tasks = match found {
        Value::Array(tasks) => tasks,
        one => vec![one],
    };
    if !tasks.is_empty() && tasks.len() < least {
        return Err(format!(
            "it has {} tasks; at least {least} are required",
            tasks.len()
        ));
    }
    Ok(tasks)
}

/// The input of a worker.
fn task_text(task: &Value) -> String {
    let words = task.as_str().or_else(|| task["task"].as_str());
    words.map_or_else(|| task.to_string(), str::to_owned)
}

/// Runs the tasks of a round.
async fn run_workers(
    runner: &Runner,
    config: &Orchestrator,
    prefix: &Path,
    tasks: &[Value],
    scope: &Scope,
) -> Result<Vec<Answer>, Error> {
    let prefix = &prefix.join("workers");
    let limit = config
        .max_workers
        .map_or(tasks.len(), |limit| limit as usize);
    let worker_slots = Semaphore::new(limit.max(1));
    let work = tasks.iter().enumerate().map(|(index, task)| {
        let (scope, worker_slots) = (scope.remembering([]), &worker_slots);
        async move {
            let _slot = worker_slots.acquire().await.expect("it is never closed");
            let question = Question {
                path: prefix.join(index),
                agent: &config.worker,
                input: Input::Text(task_text(task)),
                scope: &scope,
                tools: config.worker_tools.as_deref(),
                access: AccessMode::ReadWrite,
            };
            runner.ask(question).await
        }
    });
    concurrent::run_all(runner, work).await
}

/// Asks a human; later steps see the answer.
async fn ask_review(
    runner: &Runner,
    path: &Path,
    review: &HumanQuestion,
    scope: &Scope,
    shown: &Scope,
) -> Result<Scope, Error> {
    let said = runner.ask_human(path, review, shown).await?;
    Ok(scope.with([("hitl_response", TemplateValue::Answer(said))]))
}

/// Runs a step that joins the results. Without an input it gets the previous join's answer, or the
/// results.
async fn run_join(
    runner: &Runner,
    path: Path,
    step: &Step,
    before: Option<Answer>,
    done: &[Done],
    scope: &Scope,
) -> Result<Answer, Error> {
    let default_input = match before {
        Some(answer) => Input::Answer(answer),
        None if runner.will_skip(&path) => Input::Text(String::new()),
        None => Input::Text(render_results(runner, done).await?),
    };
    sequence::run_one(runner, path, step, default_input, scope).await
}

async fn render_results(runner: &Runner, done: &[Done]) -> Result<String, Error> {
    let mut listed = String::new();
    for (index, work) in done.iter().enumerate() {
        let between = if index == 0 { "" } else { "\n\n" };
        let (task, text) = (task_text(&work.task), runner.text(work.answer).await?);
        let _ = write!(listed, "{between}Worker {index} ({task}):\n{text}");
    }
    Ok(listed)
}
