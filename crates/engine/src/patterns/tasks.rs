//! Runs tasks of a dependency graph, each as soon as its dependencies are done.

use std::fmt::Write;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use segno_core::step::Path;
use segno_spec::{Step, Task, Tasks};

use super::{Ending, concurrent, sequence};
use crate::answers::Answer;
use crate::error::Error;
use crate::memory::Memory;
use crate::scope::{Map, Scope, TemplateValue};
use crate::steps::{Input, Runner};

pub(super) async fn run(runner: &Runner, config: &Tasks) -> Result<Ending, Error> {
    let tasks = &config.tasks;
    runner.observer.planned(tasks.len());
    let done = Map::new(tasks.iter().map(|task| task.id.as_str()));
    let scope = runner
        .rendering
        .scope
        .with([("tasks", TemplateValue::from(done.clone()))]);
    let mut missing: Vec<usize> = tasks.iter().map(|task| task.deps.len()).collect();
    let mut needed_by = vec![Vec::new(); tasks.len()];
    for (index, task) in tasks.iter().enumerate() {
        task.deps.iter().for_each(|dep| needed_by[*dep].push(index));
    }
    let mut answers: Vec<Option<Answer>> = vec![None; tasks.len()];
    // A task remembers its dependencies, not what happened to finish before it.
    let mut memories: Vec<Memory> = vec![Memory::default(); tasks.len()];
    let mut running = FuturesUnordered::new();
    let mut ready: Vec<usize> = (0..tasks.len())
        .filter(|task| missing[*task] == 0)
        .collect();
    let mut worst = None;
    loop {
        for index in ready.drain(..) {
            let task = &tasks[index];
            let human_answer = last_human_answer(tasks, &answers, index);
            let task_scope = match human_answer {
                Some(answer) => scope.with([("hitl_response", TemplateValue::Answer(answer))]),
                None => scope.clone(),
            };
            let task_scope = task_scope.remembering(task.deps.iter().map(|dep| &memories[*dep]));
            memories[index] = task_scope.memory().clone();
            let given: Vec<_> = task.deps.iter().map(|dep| (*dep, answers[*dep])).collect();
            running.push(async move {
                let answer = run_task(runner, tasks, task, &given, &task_scope).await;
                (index, answer)
            });
        }
        let Some((index, result)) = running.next().await else {
            break;
        };
        match result {
            Ok(answer) => {
                answers[index] = Some(answer);
                done.set(&tasks[index].id, task_fields(&tasks[index], answer));
                for next in &needed_by[index] {
                    missing[*next] -= 1;
                    if missing[*next] == 0 {
                        ready.push(*next);
                    }
                }
            }
            Err(error) => worst = Some(concurrent::record_error(runner, worst, error)),
        }
    }
    if let Some(error) = worst {
        return Err(error);
    }
    let last = last(tasks).and_then(|index| answers[index]);
    Ok(Ending { last, scope })
}

async fn run_task(
    runner: &Runner,
    tasks: &[Task],
    task: &Task,
    given: &[(usize, Option<Answer>)],
    scope: &Scope,
) -> Result<Answer, Error> {
    let path = Path::root("tasks").join(&task.id);
    // A task without an input works on the answers of its dependencies.
    let mut default_input = task.description.clone().unwrap_or_default();
    if let Step::Agent(step) = &task.step
        && step.input.is_none()
        && !runner.will_skip(&path)
    {
        for (dep, answer) in given {
            if let Some(answer) = answer {
                let text = runner.text(*answer).await?;
                let blank = if default_input.is_empty() { "" } else { "\n\n" };
                let _ = write!(default_input, "{blank}{}:\n{text}", tasks[*dep].id);
            }
        }
    }
    sequence::run_one(runner, path, &task.step, Input::Text(default_input), scope).await
}

fn task_fields(task: &Task, answer: Answer) -> TemplateValue {
    let mut fields = vec![
        ("response", TemplateValue::Answer(answer)),
        ("status", "success".into()),
        ("agent", task.step.agent().into()),
    ];
    if let Step::Human(human_step) = &task.step {
        fields.extend(sequence::question_fields(human_step));
    }
    TemplateValue::fields(fields)
}

/// The last human answer among the tasks that this one depends on: the last in the spec.
fn last_human_answer(tasks: &[Task], answers: &[Option<Answer>], index: usize) -> Option<Answer> {
    let mut before = vec![false; tasks.len()];
    let mut ahead = vec![index];
    while let Some(task) = ahead.pop() {
        for dep in &tasks[task].deps {
            if !std::mem::replace(&mut before[*dep], true) {
                ahead.push(*dep);
            }
        }
    }
    let people = (0..tasks.len()).rev();
    people
        .filter(|task| before[*task] && matches!(tasks[*task].step, Step::Human(_)))
        .find_map(|task| answers[task])
}

/// The final task: of those with the longest dependency path, the last in the spec.
fn last(tasks: &[Task]) -> Option<usize> {
    let mut depth = vec![None; tasks.len()];
    let mut ahead: Vec<usize> = (0..tasks.len()).collect();
    while let Some(task) = ahead.pop() {
        let unknown: Vec<usize> = tasks[task]
            .deps
            .iter()
            .copied()
            .filter(|dep| depth[*dep].is_none())
            .collect();
        if unknown.is_empty() {
            let deps = tasks[task].deps.iter().filter_map(|dep| depth[*dep]);
            depth[task] = Some(deps.max().map_or(0, |deepest: usize| deepest + 1));
        } else {
            ahead.push(task);
            ahead.extend(unknown);
        }
    }
    (0..tasks.len()).max_by_key(|task| (depth[*task], *task))
}
