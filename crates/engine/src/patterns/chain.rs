//! One step after the other; the first failure ends it; the result is the last answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::Serde;
use segno_core::agent::Driver;
use segno_core::step::Path;

use crate::error::Error;
use crate::flow::{Ask, Flow};
use crate::outputs::{Outputs, RenderError};
use crate::spec::{Chain, Workflow};
use crate::template::Templates;

/// Runs the chain and returns the answers.
pub async fn run(
    flow: &Flow,
    workflow: &Workflow,
    chain: &Chain,
    drivers: &BTreeMap<String, Arc<dyn Driver>>,
    variables: &BTreeMap<String, serde_json::Value>,
    templates: &Templates,
) -> Result<Outputs, Error> {
    flow.observer.planned(chain.steps.len());
    let outputs = Outputs::default();
    let identities: BTreeMap<&str, String> = workflow
        .agents
        .iter()
        .map(|(name, agent)| (name.as_str(), agent.provider.identity()))
        .collect();
    for (index, step) in chain.steps.iter().enumerate() {
        let path = Path::chain_step(index);
        // Nothing is rendered for a step that will not be asked.
        if let Some(answer) = flow.recall(&path) {
            outputs.push(&step.agent, answer);
            continue;
        }
        let agent = &workflow.agents[&step.agent];
        let context = || context(variables, &step.vars, &outputs);
        let render = async |place: &str, source: &str| {
            outputs
                .render(&flow.world, flow.session, templates, source, context)
                .await
                .map_err(|error| match error {
                    RenderError::Template(error) => Error::Template {
                        place: format!("{place} of {path}"),
                        error,
                    },
                    RenderError::Store(error) => Error::Store(error),
                })
        };
        let system = render("the agent's prompt", &agent.prompt).await?;
        let input = match (&step.input, index.checked_sub(1)) {
            (Some(source), _) => render("the input", source).await?,
            (None, Some(previous)) => outputs
                .fetch(&flow.world, flow.session, previous)
                .await?
                .to_string(),
            (None, None) => String::new(),
        };
        let ask = Ask {
            path,
            agent: &step.agent,
            driver: &*drivers[&step.agent],
            provider: &identities[step.agent.as_str()],
            system,
            input,
        };
        let answer = flow.step(ask).await?;
        outputs.push(&step.agent, answer);
    }
    Ok(outputs)
}

/// What a step's templates see.
fn context(
    variables: &BTreeMap<String, serde_json::Value>,
    own: &BTreeMap<String, serde_json::Value>,
    outputs: &Outputs,
) -> Value {
    let given = variables
        .iter()
        .chain(own)
        .map(|(name, value)| (name.as_str(), Value::from(Serde(value))));
    let steps = [("steps", outputs.value())];
    Value::from_pairs(given.chain(steps))
}
