//! `routing`: an agent chooses which steps follow.

use super::step::{self, Person, Step};
use crate::spec::fields::Keys;
use crate::spec::place::Place;

const KEYS: Keys = Keys {
    required: &["router", "routes"],
    optional: &[],
};
const ROUTER_KEYS: Keys = Keys {
    required: &["agent"],
    optional: &["input", "max_retries", "review_router"],
};
const ROUTE_KEYS: Keys = Keys {
    required: &["then"],
    optional: &[],
};

/// A choice, and what may follow.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Routing {
    /// Who chooses.
    pub agent: String,
    /// What it is asked, a template.
    pub input: Option<String>,
    /// How often an answer that names no route is asked for again.
    pub max_retries: u32,
    /// A person who looks at the choice.
    pub review: Option<Person>,
    /// What may follow, in the order of the spec.
    pub routes: Vec<Route>,
}

/// Steps that may follow.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// Its name.
    pub name: String,
    /// At least one.
    pub steps: Vec<Step>,
}

pub(super) fn read(place: &Place<'_>, agents: &[&str]) -> Routing {
    let fields = place.fields(&KEYS);
    let mut routing = Routing::default();
    if let Some(router) = fields.get("router") {
        let fields = router.fields(&ROUTER_KEYS);
        routing.agent = fields.read("agent", |place| step::agent(&place, agents));
        routing.input = fields.get("input").map(|place| place.template());
        routing.max_retries = fields
            .get("max_retries")
            .map_or(2, |place| place.integer(0..=100));
        routing.review = fields
            .get("review_router")
            .map(|place| step::review(&place));
    }
    if let Some(routes) = fields.get("routes") {
        let entries = routes.named();
        if routes.is_map() && entries.is_empty() {
            routes.invalid("must hold at least 1");
        }
        for (name, place) in entries {
            let fields = place.fields(&ROUTE_KEYS);
            let steps = fields.read("then", |place| place.list(1));
            routing.routes.push(Route {
                name: name.to_owned(),
                steps: steps
                    .iter()
                    .map(|place| step::read(place, agents))
                    .collect(),
            });
        }
    }
    if let Some(review) = &mut routing.review {
        // An answer that means nothing is refused when it is given, not when it is used.
        let names: Vec<String> = routing
            .routes
            .iter()
            .map(|route| regex::escape(&route.name))
            .collect();
        let meant = format!(r"(?i)^\s*(approved|route:\s*({}))\s*$", names.join("|"));
        let fits =
            |word: &String| regex::Regex::new(&meant).is_ok_and(|regex| regex.is_match(word));
        if !review.default.as_ref().is_none_or(fits) {
            place.invalid(
                "the `default` of `review_router` must be `approved` or `route:` and a route",
            );
        }
        review.validation.get_or_insert(meant);
    }
    routing
}
