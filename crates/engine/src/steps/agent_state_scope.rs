//! What templates see of an agent's state: `agent_state.KEY`.
//!
//! A step sees the state as it was when the step first started, and what a user changed since. So a
//! step that runs again has the same input, whatever it stored itself, and continues where it stopped
//! (P7); and a value that a user corrects takes effect.

use std::collections::BTreeMap;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::Serde;
use segno_core::agent_state::Key;
use segno_core::journal::{Event, Seq};
use segno_core::note::Source;
use segno_core::step::Path;

use super::Runner;
use crate::error::Error;
use crate::history;
use crate::scope::{Scope, TemplateValue};

/// The name in templates. A variable of this name takes precedence.
const NAME: &str = "agent_state";

impl Runner {
    /// The scope for the templates of a step, with the agent's state if one of them names it.
    pub(super) async fn with_agent_state(
        &self,
        path: &Path,
        agent: &str,
        scope: &Scope,
        sources: [&str; 2],
    ) -> Result<Scope, Error> {
        let named = sources.iter().any(|source| source.contains(NAME));
        if !named || scope.has(NAME) {
            return Ok(scope.clone());
        }
        let values = self.agent_state(path, agent).await?;
        let values = TemplateValue::Value(Value::from(Serde(values)));
        Ok(scope.with([(NAME, values)]))
    }

    /// The values of an agent that a step sees.
    async fn agent_state(
        &self,
        path: &Path,
        agent: &str,
    ) -> Result<BTreeMap<String, serde_json::Value>, Error> {
        let finished = &self.earlier.finished;
        let states = self
            .journal
            .with_state(|state| Arc::clone(&state.agent_states));
        let current = states.values(agent);
        let Some(start) = finished.first_started(path) else {
            let current = current.map(|(key, stored)| (key.to_string(), stored.value.clone()));
            return Ok(current.collect());
        };
        let mut values = BTreeMap::new();
        for (key, seq) in finished.agent_states().at(agent, start) {
            if let Some(value) = self.changed_value(key, seq).await? {
                values.insert(key.to_string(), value);
            }
        }
        // What a user changed while this run is active.
        let edited = current.filter(|(_, stored)| {
            stored.source == Source::User && stored.seq > self.earlier.last_event
        });
        values.extend(edited.map(|(key, stored)| (key.to_string(), stored.value.clone())));
        Ok(values)
    }

    /// The value that event `seq` gave to `key`.
    async fn changed_value(&self, key: &Key, seq: Seq) -> Result<Option<serde_json::Value>, Error> {
        let entry = self.env.store.event(self.id.session, seq).await?;
        match entry.event {
            Event::AgentStateChanged(change) if change.key == *key => Ok(change.value),
            other => Err(history::Error::InvalidJournal {
                session: self.id.session,
                reason: format!("event {seq} is a {}, not a change of `{key}`", other.kind()),
            }
            .into()),
        }
    }
}
