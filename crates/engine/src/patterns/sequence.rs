//! Runs steps in order: a chain, a route, a branch. Also runs a single step, for agent or human.

use segno_core::agent::AccessMode;
use segno_core::step::Path;
use segno_spec::{HumanQuestion, ListStep, Step};

use super::Ending;
use crate::answers::Answer;
use crate::error::Error;
use crate::scope::{List, Scope, TemplateValue};
use crate::steps::{Input, Question, Runner};

/// Runs steps one after the other, below `prefix` if there is one. Each sees the earlier answers as
/// `steps[n]`, and as `steps.ID` if the step has an id, the last of them as `last_response`, and the last human answer as `hitl_response`. A
/// step without an input gets the answer of the step before it.
pub(super) async fn run(
    runner: &Runner,
    prefix: Option<&Path>,
    steps: &[ListStep],
    outer: &Scope,
) -> Result<Ending, Error> {
    let prefix = match prefix {
        Some(prefix) => prefix.join("steps"),
        None => Path::root("steps"),
    };
    let done = List::default();
    let scope = outer
        .with([("steps", TemplateValue::from(done.clone()))])
        .remembering([]);
    let (mut last, mut human_answer) = (None, None);
    for (index, listed) in steps.iter().enumerate() {
        let (path, step) = (listed.path(&prefix, index), &listed.step);
        let step_scope = scope.with(named([
            ("last_response", last),
            ("hitl_response", human_answer),
        ]));
        let default_input = last.map_or(Input::Text(String::new()), Input::Answer);
        let answer = run_one(runner, path, step, default_input, &step_scope).await?;
        let mut fields = vec![
            ("index", TemplateValue::from(index)),
            ("agent", step.agent().into()),
        ];
        if let Some(id) = &listed.id {
            fields.push(("id", TemplateValue::from(id.as_str())));
        }
        if let Step::Human(human_step) = step {
            fields.extend(question_fields(human_step));
            human_answer = Some(answer);
        }
        fields.push(("response", TemplateValue::Answer(answer)));
        done.push(TemplateValue::fields(fields));
        last = Some(answer);
    }
    let scope = scope.with(named([("hitl_response", human_answer)]));
    Ok(Ending { last, scope })
}

/// The answers that exist, under their names.
fn named<const N: usize>(
    answers: [(&'static str, Option<Answer>); N],
) -> impl Iterator<Item = (&'static str, TemplateValue)> {
    let given = answers.into_iter();
    given.filter_map(|(name, answer)| Some((name, TemplateValue::Answer(answer?))))
}

/// Runs one step. `otherwise` is the input if the spec has none.
pub(super) async fn run_one(
    runner: &Runner,
    path: Path,
    step: &Step,
    default_input: Input<'_>,
    scope: &Scope,
) -> Result<Answer, Error> {
    match step {
        Step::Human(human_step) => runner.ask_human(&path, human_step, scope).await,
        Step::Agent(step) => {
            let question = Question {
                path,
                agent: &step.agent,
                input: step.input.as_deref().map_or(default_input, Input::Template),
                scope: &scope.with_vars(&step.vars),
                tools: step.tools.as_deref(),
                access: AccessMode::ReadWrite,
            };
            runner.ask(question).await
        }
    }
}

/// What templates see of a question to a human, besides its answer.
pub(super) fn question_fields(human_step: &HumanQuestion) -> [(&'static str, TemplateValue); 2] {
    [
        ("type", TemplateValue::from("hitl")),
        ("prompt", TemplateValue::from(human_step.prompt.as_str())),
    ]
}
