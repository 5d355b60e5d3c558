//! Branches side by side, and a step that joins them.

use std::fmt::Write;

use segno_core::step::Path;

use super::{Ending, sequence, together};
use crate::answers::{Answer, Source};
use crate::error::Error;
use crate::flow::{Flow, Input};
use crate::scope::{Map, Seen};
use crate::spec::{Branch, Parallel};

pub(super) async fn run(flow: &Flow, config: &Parallel) -> Result<Ending, Error> {
    let steps: usize = config
        .branches
        .iter()
        .map(|branch| branch.steps.len())
        .sum();
    flow.observer
        .planned(steps + usize::from(config.reduce.is_some()));
    let work = config.branches.iter().map(|branch| async {
        let place = Path::first("branches").then(&branch.id);
        sequence::run(flow, Some(&place), &branch.steps, &flow.scope).await
    });
    let endings = together::all(flow, work).await?;
    let branches = Map::new(config.branches.iter().map(|branch| branch.id.as_str()));
    let mut answers = Vec::new();
    for (branch, ending) in config.branches.iter().zip(&endings) {
        let answer = ending.last.expect("a branch has at least one step");
        answers.push((branch, answer));
        let fields = [
            ("response", Seen::Answer(answer)),
            ("status", "success".into()),
        ];
        branches.set(&branch.id, Seen::fields(fields));
    }
    let scope = flow.scope.with([("branches", Seen::from(branches))]);
    let path = Path::first("reduce");
    let text = if flow.has(&path) {
        String::new()
    } else {
        joined(flow, answers).await?
    };
    let last = if let Some(reduce) = &config.reduce {
        sequence::one(flow, path, reduce, Input::Words(text), &scope).await?
    } else {
        flow.answers.add(Source::Held(text.into()))
    };
    Ok(Ending {
        last: Some(last),
        scope,
    })
}

/// What all branches answered, ordered by their names.
async fn joined(flow: &Flow, mut answers: Vec<(&Branch, Answer)>) -> Result<String, Error> {
    answers.sort_by_key(|(branch, _)| branch.id.as_str());
    let mut joined = String::new();
    for (branch, answer) in answers {
        let between = if joined.is_empty() { "" } else { "\n\n---\n\n" };
        let text = flow.text(answer).await?;
        let _ = write!(joined, "{between}Branch {}:\n{text}", branch.id);
    }
    Ok(joined)
}
