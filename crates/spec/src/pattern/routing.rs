//! `routing`: an agent chooses which steps follow.

use super::step::{self, HumanQuestion, ListStep};
use crate::cursor::Cursor;
use crate::fields::Keys;

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

/// An agent's choice between routes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Routing {
    pub agent: String,
    /// The prompt of the router, a template.
    pub input: Option<String>,
    /// How often the router is asked again after an answer that names no route.
    pub max_retries: u32,
    /// Asks a human about the choice.
    pub review: Option<HumanQuestion>,
    pub routes: Vec<Route>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    pub name: String,
    pub steps: Vec<ListStep>,
}

pub(super) fn read(cursor: &Cursor<'_>, agents: &[&str]) -> Routing {
    let fields = cursor.fields(&KEYS);
    let mut routing = Routing::default();
    if let Some(router) = fields.get("router") {
        let fields = router.fields(&ROUTER_KEYS);
        routing.agent = fields.read("agent", |cursor| step::agent(&cursor, agents));
        routing.input = fields.get("input").map(|cursor| cursor.template());
        routing.max_retries = fields
            .get("max_retries")
            .map_or(2, |cursor| cursor.integer(0..=100));
        routing.review = fields
            .get("review_router")
            .map(|cursor| step::review(&cursor));
    }
    if let Some(routes) = fields.get("routes") {
        let entries = routes.identifier_entries();
        if routes.is_map() && entries.is_empty() {
            routes.invalid("must have at least 1 item");
        }
        for (name, cursor) in entries {
            let fields = cursor.fields(&ROUTE_KEYS);
            let steps = fields.read("then", |cursor| step::list_of_steps(&cursor, agents));
            routing.routes.push(Route {
                name: name.to_owned(),
                steps,
            });
        }
    }
    if let Some(review) = &mut routing.review {
        // Rejects an unusable answer when it is given, not when it is used.
        let names: Vec<String> = routing
            .routes
            .iter()
            .map(|route| regex::escape(&route.name))
            .collect();
        let meant = format!(r"(?i)^\s*(approved|route:\s*({}))\s*$", names.join("|"));
        let fits =
            |word: &String| regex::Regex::new(&meant).is_ok_and(|regex| regex.is_match(word));
        if !review.default.as_ref().is_none_or(fits) {
            cursor.invalid(
                "the `default` of `review_router` must be `approved`, or `route:` followed by a route",
            );
        }
        review.validation.get_or_insert(meant);
    }
    routing
}
