//! Chooses the resume strategy: how an agent continues, best strategy first.
//!
//! There is one mechanism for every agent and every reason to resume: [`choose`] takes the available
//! evidence and returns the first strategy that applies, why the better ones do not apply, and what is
//! lost. A strategy that was tried and failed is not tried again.

use crate::companion::{Gauge, Health};
use crate::session::words;

words! {
    /// A resume strategy.
    Rung {
        /// The CLI agent resumes from its own transcript, unchanged.
        Native = "native",
        /// The CLI agent resumes from its own transcript, after a repair.
        Repaired = "repaired",
        /// The CLI agent resumes from a stored copy of its transcript, which is written to the agent's
        /// own location.
        Rehomed = "rehomed",
        /// The same agent starts a new conversation with a resume context.
        Compiled = "compiled",
        /// Another agent starts with a resume context.
        Other = "other",
    }
}

/// What is known about a conversation before it is resumed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The CLI agent's own id of the conversation, if it reported one.
    pub id: Option<String>,
    /// Whether another agent continues than the one that started.
    pub other_agent: bool,
    /// The state of the CLI agent's own transcript; `None` if there is none.
    pub record: Option<Health>,
    /// Whether a copy of the transcript is stored.
    pub copy: bool,
    /// The context usage.
    pub gauge: Option<Gauge>,
    /// Strategies that were tried and failed, or must not be tried.
    pub left: Vec<Rung>,
}

/// The chosen strategy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub rung: Rung,
    /// Why each better strategy does not apply.
    pub because: Vec<(Rung, String)>,
    /// What the agent will no longer know.
    pub lost: Vec<String>,
}

/// Returns the first strategy that applies.
pub fn choose(evidence: &Evidence) -> Plan {
    let mut because = Vec::new();
    for rung in Rung::ALL {
        match refusal(*rung, evidence) {
            None => {
                return Plan {
                    rung: *rung,
                    lost: lost(*rung, evidence),
                    because,
                };
            }
            Some(reason) => because.push((*rung, reason)),
        }
    }
    // Whatever else fails, an agent can receive a resume context from the journal.
    let rung = if evidence.other_agent {
        Rung::Other
    } else {
        Rung::Compiled
    };
    Plan {
        rung,
        lost: lost(rung, evidence),
        because,
    }
}

/// Why a strategy does not apply; `None` if it applies.
fn refusal(rung: Rung, evidence: &Evidence) -> Option<String> {
    if evidence.left.contains(&rung) {
        return Some("it was tried, and failed".to_owned());
    }
    let own = matches!(rung, Rung::Native | Rung::Repaired | Rung::Rehomed);
    if own && evidence.other_agent {
        return Some("another agent goes on".to_owned());
    }
    if own && evidence.id.is_none() {
        return Some("the program told no name for its conversation".to_owned());
    }
    if own
        && let Some(percent) = evidence.gauge.as_ref().and_then(Gauge::percent)
        && percent >= Gauge::FULL
    {
        return Some(format!("{percent} % of the context is used"));
    }
    let refused = match (rung, &evidence.record) {
        (Rung::Native, None) => "the program has no record of it",
        (Rung::Native | Rung::Repaired, Some(Health::Empty)) => "the program's record is empty",
        (Rung::Native | Rung::Repaired, Some(Health::Unreadable(why))) => {
            return Some(format!("the program's record cannot be read: {why}"));
        }
        (Rung::Native, Some(Health::Damaged(what))) => {
            return Some(format!("the program's record is damaged: {what}"));
        }
        (Rung::Repaired, None) => "there is no record to put in order",
        (Rung::Repaired, Some(Health::Whole)) => "there is nothing to put in order",
        (Rung::Rehomed, Some(Health::Whole | Health::Damaged(_) | Health::Unreadable(_))) => {
            "the record is here"
        }
        (Rung::Rehomed, _) if !evidence.copy => "no copy of the record is kept",
        (Rung::Compiled, _) if evidence.other_agent => "another agent goes on",
        (Rung::Other, _) if !evidence.other_agent => "no other agent is asked for",
        _ => return None,
    };
    Some(refused.to_owned())
}

fn lost(rung: Rung, evidence: &Evidence) -> Vec<String> {
    let mut lost = Vec::new();
    match rung {
        Rung::Native => {}
        Rung::Repaired => lost.push("what stood in the damaged lines of the record".to_owned()),
        Rung::Rehomed => {
            lost.push("what was said after the copy was kept, but for what the journal has".into());
        }
        Rung::Compiled | Rung::Other => {
            lost.push("the agent's thinking, and what its context held word for word".to_owned());
        }
    }
    if rung == Rung::Other && evidence.id.is_some() {
        lost.push("what only the first agent's program can read".to_owned());
    }
    lost
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence() -> Evidence {
        Evidence {
            id: Some("a".into()),
            record: Some(Health::Whole),
            ..Evidence::default()
        }
    }

    #[test]
    fn first_applicable_strategy_is_chosen() {
        let damaged = Some(Health::Damaged("line 3".into()));
        let full = Some(Gauge {
            used: 85,
            window: Some(100),
        });
        for (evidence, rung) in [
            (evidence(), Rung::Native),
            (
                Evidence {
                    record: damaged.clone(),
                    ..evidence()
                },
                Rung::Repaired,
            ),
            (
                Evidence {
                    record: None,
                    ..evidence()
                },
                Rung::Compiled,
            ),
            (
                Evidence {
                    record: None,
                    copy: true,
                    ..evidence()
                },
                Rung::Rehomed,
            ),
            (
                Evidence {
                    record: Some(Health::Empty),
                    copy: true,
                    ..evidence()
                },
                Rung::Rehomed,
            ),
            (
                Evidence {
                    record: Some(Health::Empty),
                    ..evidence()
                },
                Rung::Compiled,
            ),
            (
                Evidence {
                    id: None,
                    ..evidence()
                },
                Rung::Compiled,
            ),
            (
                Evidence {
                    other_agent: true,
                    ..evidence()
                },
                Rung::Other,
            ),
            (
                Evidence {
                    gauge: full,
                    ..evidence()
                },
                Rung::Compiled,
            ),
            (
                Evidence {
                    left: vec![Rung::Native],
                    ..evidence()
                },
                Rung::Compiled,
            ),
            (
                Evidence {
                    left: vec![Rung::Repaired],
                    record: damaged,
                    ..evidence()
                },
                Rung::Compiled,
            ),
        ] {
            let plan = choose(&evidence);
            assert_eq!(plan.rung, rung, "{evidence:?}");
            let above: Vec<Rung> = plan.because.iter().map(|(rung, _)| *rung).collect();
            let expected = Rung::ALL.iter().copied().take_while(|known| *known != rung);
            assert_eq!(
                above,
                expected.collect::<Vec<_>>(),
                "every higher rung has its reason"
            );
        }
    }

    #[test]
    fn last_strategy_applies_even_if_all_failed() {
        let mut tried = evidence();
        tried.left = vec![Rung::Native, Rung::Repaired, Rung::Rehomed, Rung::Compiled];
        assert_eq!(choose(&tried).rung, Rung::Compiled);
    }
}
