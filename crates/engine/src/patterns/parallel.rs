//! Runs branches concurrently, and a step that joins their answers.

use std::fmt::Write;

use segno_core::step::Path;
use segno_spec::{Branch, Parallel};

use super::{Ending, concurrent, sequence};
use crate::answers::{Answer, Source};
use crate::error::Error;
use crate::scope::{Map, TemplateValue};
use crate::steps::{Input, Runner};

pub(super) async fn run(runner: &Runner, config: &Parallel) -> Result<Ending, Error> {
    let steps: usize = config
        .branches
        .iter()
        .map(|branch| branch.steps.len())
        .sum();
    runner
        .observer
        .planned(steps + usize::from(config.reduce.is_some()));
    let work = config.branches.iter().map(|branch| async {
        let prefix = Path::root("branches").join(&branch.id);
        sequence::run(
            runner,
            Some(&prefix),
            &branch.steps,
            &runner.rendering.scope,
        )
        .await
    });
    let endings = concurrent::run_all(runner, work).await?;
    let branches = Map::new(config.branches.iter().map(|branch| branch.id.as_str()));
    let mut answers = Vec::new();
    for (branch, ending) in config.branches.iter().zip(&endings) {
        let answer = ending.last.expect("a branch has at least one step");
        answers.push((branch, answer));
        let fields = [
            ("response", TemplateValue::Answer(answer)),
            ("status", "success".into()),
        ];
        branches.set(&branch.id, TemplateValue::fields(fields));
    }
    let scope = runner
        .rendering
        .scope
        .with([("branches", TemplateValue::from(branches))]);
    let path = Path::root("reduce");
    let text = if runner.will_skip(&path) {
        String::new()
    } else {
        joined(runner, answers).await?
    };
    let last = if let Some(reduce) = &config.reduce {
        sequence::run_one(runner, path, reduce, Input::Text(text), &scope).await?
    } else {
        runner.rendering.answers.add(Source::InMemory(text.into()))
    };
    Ok(Ending {
        last: Some(last),
        scope,
    })
}

/// The answers of all branches, sorted by branch id.
async fn joined(runner: &Runner, mut answers: Vec<(&Branch, Answer)>) -> Result<String, Error> {
    answers.sort_by_key(|(branch, _)| branch.id.as_str());
    let mut joined = String::new();
    for (branch, answer) in answers {
        let between = if joined.is_empty() { "" } else { "\n\n---\n\n" };
        let text = runner.text(answer).await?;
        let _ = write!(joined, "{between}Branch {}:\n{text}", branch.id);
    }
    Ok(joined)
}
