//! The state of all agents of a session: the fold of its changes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent_state::{Expected, Key, MAX_KEYS, MAX_TOTAL, MAX_VALUE, Refused, length};
use crate::journal::{AgentStateChanged, Seq};
use crate::note::Source;
use crate::step::Path;
use crate::time::Timestamp;

/// The values of all agents, by agent and key.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AgentStates(BTreeMap<String, BTreeMap<Key, StoredValue>>);

/// A value, and the change that set it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredValue {
    pub value: Value,
    /// The position of the change.
    pub seq: Seq,
    pub at: Timestamp,
    pub source: Source,
    pub by: String,
    /// The step in which it was set.
    pub path: Option<Path>,
}

impl AgentStates {
    pub fn get(&self, agent: &str, key: &Key) -> Option<&StoredValue> {
        self.0.get(agent)?.get(key)
    }

    /// The values of an agent, by key.
    pub fn values(&self, agent: &str) -> impl Iterator<Item = (&Key, &StoredValue)> {
        self.0.get(agent).into_iter().flatten()
    }

    /// All values, by agent and key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Key, &StoredValue)> {
        let agents = self.0.iter();
        agents.flat_map(|(agent, values)| {
            let values = values.iter();
            values.map(move |(key, stored)| (agent.as_str(), key, stored))
        })
    }

    /// The agents that have values, and how many.
    pub fn agents(&self) -> impl Iterator<Item = (&str, usize)> {
        let agents = self.0.iter();
        agents.map(|(agent, values)| (agent.as_str(), values.len()))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a change may take effect now. With `expected`, only if that is there.
    pub fn check(
        &self,
        change: &AgentStateChanged,
        expected: Option<&Expected>,
    ) -> Result<(), Refused> {
        let found = self.get(&change.agent, &change.key);
        let found = found.map(|stored| &stored.value);
        if expected.is_some_and(|expected| !expected.matches(found)) {
            return Err(Refused::Differs {
                agent: change.agent.clone(),
                key: change.key.clone(),
                found: found.cloned(),
            });
        }
        let Some(value) = &change.value else {
            return Ok(());
        };
        let bytes = length(value);
        if bytes > MAX_VALUE {
            return Err(Refused::TooLong { bytes });
        }
        if found.is_none() && self.values(&change.agent).count() >= MAX_KEYS {
            return Err(Refused::TooManyKeys {
                agent: change.agent.clone(),
            });
        }
        let all = self.iter().map(|(_, _, stored)| length(&stored.value));
        let bytes = all.sum::<usize>() - found.map_or(0, length) + bytes;
        if bytes > MAX_TOTAL {
            return Err(Refused::TooMuch { bytes });
        }
        Ok(())
    }

    /// Applies a change. Of several changes of a key, the last in the journal counts.
    pub fn apply(&mut self, event: &AgentStateChanged, seq: Seq, at: Timestamp) {
        let Some(value) = event.value.clone() else {
            if let Some(values) = self.0.get_mut(&event.agent) {
                values.remove(&event.key);
                if values.is_empty() {
                    self.0.remove(&event.agent);
                }
            }
            return;
        };
        let stored = StoredValue {
            value,
            seq,
            at,
            source: event.source,
            by: event.by.clone(),
            path: event.path.clone(),
        };
        let values = self.0.entry(event.agent.clone()).or_default();
        values.insert(event.key.clone(), stored);
    }
}

/// Where the changes of agents' state are in the journal, so that the state at an earlier event can be
/// read again.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentStateHistory(BTreeMap<String, BTreeMap<Key, Vec<ChangePosition>>>);

#[derive(Debug, Clone, Copy, PartialEq)]
struct ChangePosition {
    seq: Seq,
    by_user: bool,
}

impl AgentStateHistory {
    pub(super) fn add(&mut self, event: &AgentStateChanged, seq: Seq) {
        let keys = self.0.entry(event.agent.clone()).or_default();
        keys.entry(event.key.clone())
            .or_default()
            .push(ChangePosition {
                seq,
                by_user: event.source == Source::User,
            });
    }

    /// The change of each key that counts for a step of `agent` that first started at `start`: the last
    /// one before it, or by a user.
    pub fn at(&self, agent: &str, start: Seq) -> Vec<(&Key, Seq)> {
        let keys = self.0.get(agent).into_iter().flatten();
        let counting = keys.filter_map(|(key, changes)| {
            let mut newest = changes.iter().rev();
            let change = newest.find(|change| change.seq < start || change.by_user)?;
            Some((key, change.seq))
        });
        counting.collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(agent: &str, key: &str, value: Value) -> AgentStateChanged {
        AgentStateChanged {
            agent: agent.into(),
            key: Key::new(key).unwrap(),
            value: (!value.is_null()).then_some(value),
            source: Source::Agent,
            by: agent.into(),
            path: None,
            request: None,
        }
    }

    fn states(events: &[AgentStateChanged]) -> AgentStates {
        let mut states = AgentStates::default();
        for (seq, event) in (1..).zip(events) {
            states.apply(event, Seq(seq), Timestamp(0));
        }
        states
    }

    #[test]
    fn last_change_of_a_key_counts() {
        let states = states(&[
            event("a", "k", json!(1)),
            event("b", "k", json!("other")),
            event("a", "k", json!([2])),
            event("a", "gone", json!(true)),
            event("a", "gone", Value::Null),
            event("c", "never", Value::Null),
        ]);
        let all: Vec<_> = states
            .iter()
            .map(|(agent, key, stored)| (agent, key.as_str(), stored.value.clone(), stored.seq.0))
            .collect();
        assert_eq!(
            all,
            [("a", "k", json!([2]), 3), ("b", "k", json!("other"), 2)]
        );
    }

    #[test]
    fn deleted_last_key_leaves_nothing() {
        let states = states(&[event("a", "k", json!(1)), event("a", "k", Value::Null)]);
        assert!(states.is_empty());
    }

    #[test]
    fn step_sees_earlier_changes_and_those_of_users() {
        let mut history = AgentStateHistory::default();
        let user = |key, value| AgentStateChanged {
            source: Source::User,
            ..event("a", key, value)
        };
        let events = [
            event("a", "own", json!(1)),
            event("a", "edited", json!(1)),
            // The step starts at 3.
            event("a", "own", json!(2)),
            user("edited", json!(2)),
            event("a", "edited", json!(3)),
            event("a", "later", json!(1)),
            event("b", "own", json!(1)),
        ];
        for (seq, event) in [1, 2, 4, 5, 6, 7, 8].into_iter().zip(&events) {
            history.add(event, Seq(seq));
        }
        let at = |agent, start| {
            let keys = history.at(agent, Seq(start)).into_iter();
            keys.map(|(key, seq)| (key.as_str(), seq.0))
                .collect::<Vec<_>>()
        };
        assert_eq!(at("a", 3), [("edited", 5), ("own", 1)]);
        assert_eq!(at("a", 1), [("edited", 5)]);
        assert_eq!(at("a", 9), [("edited", 6), ("later", 7), ("own", 4)]);
        assert_eq!(at("c", 9), []);
    }

    #[test]
    fn change_needs_the_expected_value() {
        let states = states(&[event("a", "k", json!(1))]);
        for (key, value, expected, accepted) in [
            ("k", json!(2), json!(1), true),
            ("k", json!(2), json!(3), false),
            ("k", json!(2), Value::Null, false),
            ("new", json!(2), Value::Null, true),
            ("new", json!(2), json!(1), false),
            ("k", Value::Null, json!(1), true),
            ("k", Value::Null, json!(2), false),
        ] {
            let change = event("a", key, value);
            let expected = Expected::of(expected);
            let outcome = states.check(&change, Some(&expected));
            assert_eq!(outcome.is_ok(), accepted, "{change:?} {expected:?}");
        }
    }

    #[test]
    fn values_and_keys_have_limits() {
        let longest = json!("x".repeat(MAX_VALUE - 2));
        let longer = json!("x".repeat(MAX_VALUE - 1));
        let none = AgentStates::default();
        assert_eq!(none.check(&event("a", "k", longest.clone()), None), Ok(()));
        let bytes = MAX_VALUE + 1;
        let refused = none.check(&event("a", "k", longer), None);
        assert_eq!(refused, Err(Refused::TooLong { bytes }));

        let keys: Vec<_> = (0..MAX_KEYS)
            .map(|n| event("a", &format!("k{n}"), json!(n)))
            .collect();
        let full = states(&keys);
        let refused = full.check(&event("a", "more", json!(1)), None);
        assert_eq!(refused, Err(Refused::TooManyKeys { agent: "a".into() }));
        assert_eq!(full.check(&event("a", "k7", json!(1)), None), Ok(()));
        assert_eq!(full.check(&event("a", "k7", Value::Null), None), Ok(()));

        let long: Vec<_> = (0..MAX_TOTAL / MAX_VALUE)
            .map(|n| event("b", &format!("k{n}"), longest.clone()))
            .collect();
        let full = states(&long);
        let refused = full.check(&event("a", "more", json!(1)), None);
        let bytes = MAX_TOTAL + 1;
        assert_eq!(refused, Err(Refused::TooMuch { bytes }));
        // What a change replaces does not count.
        assert_eq!(full.check(&event("b", "k1", longest), None), Ok(()));
    }
}
