//! An agent chooses which steps follow.

use segno_core::agent::AccessMode;
use segno_core::step::Path;
use segno_spec::{Route, Routing};
use serde_json::Value;

use super::structured_output::{StructuredQuestion, Wording, ask_structured};
use super::{Ending, sequence};
use crate::answers::Answer;
use crate::error::{Error, InvalidAnswer};
use crate::scope::TemplateValue;
use crate::steps::Runner;
use crate::steps::json_answer::find_json;

pub(super) async fn run(runner: &Runner, config: &Routing) -> Result<Ending, Error> {
    let names: Vec<String> = config
        .routes
        .iter()
        .map(|route| format!("\"{}\"", route.name))
        .collect();
    let shape = format!(
        "Answer with JSON: {{\"route\": \"<name>\"}}, where the name is one of {}.",
        names.join(", ")
    );
    let structured = StructuredQuestion {
        path: Path::root("router"),
        agent: &config.agent,
        input: match &config.input {
            Some(source) => Wording::Template(source),
            None => Wording::Text(String::new()),
        },
        shape: &shape,
        alone: "the JSON",
        retries: config.max_retries,
        scope: &runner.rendering.scope,
        access: AccessMode::ReadWrite,
    };
    let (name, answer) = ask_structured(runner, structured, parse_route).await?;
    let unknown = |path: &Path, name: &str| Error::UnusableAnswer {
        name: runner.id.name.clone(),
        path: path.clone(),
        agent: config.agent.clone(),
        times: 1,
        reason: format!(
            "there is no route `{name}`; the routes are {}",
            names.join(", ")
        ),
    };
    let find = |name: &str| config.routes.iter().find(|route| route.name == name);
    let mut route = find(&name).ok_or_else(|| unknown(&Path::root("router"), &name))?;
    if let Some(review) = &config.review {
        let path = Path::root("review");
        let scope = runner
            .rendering
            .scope
            .with(router_values(config, route, answer));
        let said = runner.ask_human(&path, review, &scope).await?;
        let said = runner.text(said).await?;
        route = match said.trim() {
            kept if kept.eq_ignore_ascii_case("approved") => route,
            other => {
                let wanted = other
                    .get(..6)
                    .filter(|word| word.eq_ignore_ascii_case("route:"));
                let wanted = wanted.map(|_| other[6..].trim());
                let same = |route: &&Route, name: &str| route.name.eq_ignore_ascii_case(name);
                wanted
                    .and_then(|name| {
                        find(name).or_else(|| config.routes.iter().find(|route| same(route, name)))
                    })
                    .ok_or_else(|| InvalidAnswer {
                        path,
                        answer: other.to_owned(),
                        reason: format!(
                            "it must be `approved`, or `route:` followed by one of {}",
                            names.join(", ")
                        ),
                    })?
            }
        };
    }
    let scope = runner
        .rendering
        .scope
        .with(router_values(config, route, answer));
    let path = Path::root("routes").join(&route.name);
    let ending = sequence::run(runner, Some(&path), &route.steps, &scope).await?;
    let more = [
        ("chosen_route", TemplateValue::from(route.name.as_str())),
        ("router_agent", TemplateValue::from(config.agent.as_str())),
    ];
    Ok(Ending {
        last: ending.last,
        scope: ending.scope.with(more),
    })
}

fn router_values(
    config: &Routing,
    route: &Route,
    answer: Answer,
) -> [(&'static str, TemplateValue); 1] {
    let router = TemplateValue::fields([
        ("chosen_route", TemplateValue::from(route.name.as_str())),
        ("response", TemplateValue::Answer(answer)),
        ("agent", TemplateValue::from(config.agent.as_str())),
    ]);
    [("router", router)]
}

/// Why a text does not name one of the routes.
pub(super) fn check(config: &Routing, text: &str) -> Result<(), String> {
    let name = parse_route(text)?;
    let is_route = config.routes.iter().any(|route| route.name == name);
    let unknown = || format!("there is no route `{name}`");
    is_route.then_some(()).ok_or_else(unknown)
}

fn parse_route(text: &str) -> Result<String, String> {
    let named = |value: &Value| value["route"].is_string();
    let found = find_json(text, named).ok_or("it has no {\"route\": \"<name>\"}")?;
    Ok(found["route"].as_str().unwrap_or_default().to_owned())
}
