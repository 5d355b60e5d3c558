//! Steps in order: a chain, a route, a branch. And one step of either sort.

use segno_core::agent::Conduct;
use segno_core::step::Path;

use super::Ending;
use crate::answers::Answer;
use crate::error::Error;
use crate::flow::{Flow, Input, Question};
use crate::scope::{List, Scope, Seen};
use crate::spec::{Person, Step};

/// Runs steps one after the other, below `place` if there is one. Each sees the answers before it
/// as `steps[n]`, the last of them as `last_response`, and what a person said last as
/// `hitl_response`; one without an input is asked what the step before it answered.
pub(super) async fn run(
    flow: &Flow,
    place: Option<&Path>,
    steps: &[Step],
    outer: &Scope,
) -> Result<Ending, Error> {
    let place = match place {
        Some(place) => place.then("steps"),
        None => Path::first("steps"),
    };
    let done = List::default();
    let scope = outer
        .with([("steps", Seen::from(done.clone()))])
        .remembering([]);
    let (mut last, mut said) = (None, None);
    for (index, step) in steps.iter().enumerate() {
        let path = place.then(index);
        let around = scope.with(named([("last_response", last), ("hitl_response", said)]));
        let otherwise = last.map_or(Input::Words(String::new()), Input::Answer);
        let answer = one(flow, path, step, otherwise, &around).await?;
        let mut fields = vec![("index", Seen::from(index)), ("agent", step.agent().into())];
        if let Step::Person(person) = step {
            fields.extend(asked(person));
            said = Some(answer);
        }
        fields.push(("response", Seen::Answer(answer)));
        done.push(Seen::fields(fields));
        last = Some(answer);
    }
    let scope = scope.with(named([("hitl_response", said)]));
    Ok(Ending { last, scope })
}

/// The names of the answers that there are.
fn named<const N: usize>(
    answers: [(&'static str, Option<Answer>); N],
) -> impl Iterator<Item = (&'static str, Seen)> {
    let given = answers.into_iter();
    given.filter_map(|(name, answer)| Some((name, Seen::Answer(answer?))))
}

/// Asks one step. `otherwise` is what an agent is asked if the spec does not say.
pub(super) async fn one(
    flow: &Flow,
    path: Path,
    step: &Step,
    otherwise: Input<'_>,
    scope: &Scope,
) -> Result<Answer, Error> {
    match step {
        Step::Person(person) => flow.ask_person(&path, person, scope).await,
        Step::Agent(step) => {
            let question = Question {
                path,
                agent: &step.agent,
                input: step.input.as_deref().map_or(otherwise, Input::Template),
                scope: &scope.with_vars(&step.vars),
                tools: step.tools.as_deref(),
                conduct: Conduct::Work,
            };
            flow.ask(question).await
        }
    }
}

/// What templates see of a question to a person, besides its answer.
pub(super) fn asked(person: &Person) -> [(&'static str, Seen); 2] {
    [
        ("type", Seen::from("hitl")),
        ("prompt", Seen::from(person.prompt.as_str())),
    ]
}
