//! `continuity.handoff`: who reads what was said when a session stops, so that decisions are known to
//! whoever goes on.

use std::collections::BTreeMap;
use std::time::Duration;

use super::agents::Agent;
use super::fields::Keys;
use super::place::Place;
use super::provider::Provider;

const KEYS: Keys = Keys {
    required: &["reader"],
    optional: &["within_s"],
};

/// How long it may take unless a spec says otherwise.
const USUAL: Duration = Duration::from_secs(20);

/// Who reads what was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// An agent of the spec.
    pub reader: String,
    /// How long all of it may take.
    pub within: Duration,
}

impl Reading {
    pub(super) fn read(place: &Place<'_>, agents: &BTreeMap<String, Agent>) -> Self {
        let fields = place.fields(&KEYS);
        let reader = fields.read("reader", |place| {
            let name = place.text();
            match agents.get(&name).map(|agent| &agent.provider) {
                None => {
                    let message = format!("there is no agent `{name}`");
                    place.unknown(message, &name, agents.keys().map(String::as_str));
                }
                // It would act where nobody runs the session.
                Some(Provider::Acp { .. } | Provider::Program { .. }) => place.unsupported(format!(
                    "agent `{name}` works by itself in the folder; a reader must be one that only answers: a model, `command` or `scripted`"
                )),
                Some(_) => {}
            }
            name
        });
        let within = fields.get("within_s");
        Self {
            reader,
            within: within.map_or(USUAL, |place| {
                Duration::from_secs(place.integer(1..=600).into())
            }),
        }
    }
}
