//! An agent chooses which steps follow.

use segno_core::agent::Conduct;
use segno_core::step::Path;
use serde_json::Value;

use super::insist::{Demand, Wording, find, insist};
use super::{Ending, sequence};
use crate::answers::Answer;
use crate::error::Error;
use crate::flow::Flow;
use crate::scope::Seen;
use crate::spec::{Route, Routing};

pub(super) async fn run(flow: &Flow, config: &Routing) -> Result<Ending, Error> {
    let names: Vec<String> = config
        .routes
        .iter()
        .map(|route| format!("\"{}\"", route.name))
        .collect();
    let shape = format!(
        "Answer with JSON: {{\"route\": \"<name>\"}}, where the name is one of {}.",
        names.join(", ")
    );
    let demand = Demand {
        path: Path::first("router"),
        agent: &config.agent,
        input: match &config.input {
            Some(source) => Wording::Template(source),
            None => Wording::Words(String::new()),
        },
        shape: &shape,
        alone: "the JSON",
        retries: config.max_retries,
        scope: &flow.scope,
        conduct: Conduct::Work,
    };
    let (name, answer) = insist(flow, demand, route_in).await?;
    let unknown = |place: &Path, name: &str| Error::Unusable {
        name: flow.name.clone(),
        path: place.clone(),
        agent: config.agent.clone(),
        times: 1,
        reason: format!("there is no route `{name}`, only {}", names.join(", ")),
    };
    let find = |name: &str| config.routes.iter().find(|route| route.name == name);
    let mut route = find(&name).ok_or_else(|| unknown(&Path::first("router"), &name))?;
    if let Some(review) = &config.review {
        let path = Path::first("review");
        let scope = flow.scope.with(chosen(config, route, answer));
        let said = flow.ask_person(&path, review, &scope).await?;
        let said = flow.text(said).await?;
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
                    .ok_or_else(|| Error::NotAnAnswer {
                        path,
                        answer: other.to_owned(),
                        reason: format!(
                            "it must be `approved` or `route:` and one of {}",
                            names.join(", ")
                        ),
                    })?
            }
        };
    }
    let scope = flow.scope.with(chosen(config, route, answer));
    let place = Path::first("routes").then(&route.name);
    let ending = sequence::run(flow, Some(&place), &route.steps, &scope).await?;
    let more = [
        ("chosen_route", Seen::from(route.name.as_str())),
        ("router_agent", Seen::from(config.agent.as_str())),
    ];
    Ok(Ending {
        last: ending.last,
        scope: ending.scope.with(more),
    })
}

fn chosen(config: &Routing, route: &Route, answer: Answer) -> [(&'static str, Seen); 1] {
    let router = Seen::fields([
        ("chosen_route", Seen::from(route.name.as_str())),
        ("response", Seen::Answer(answer)),
        ("agent", Seen::from(config.agent.as_str())),
    ]);
    [("router", router)]
}

fn route_in(text: &str) -> Result<String, String> {
    let named = |value: &Value| value["route"].is_string();
    let found = find(text, named).ok_or("it has no {\"route\": \"<name>\"}")?;
    Ok(found["route"].as_str().unwrap_or_default().to_owned())
}
