//! Chooses the resume strategy: how an agent continues, best strategy first.
//!
//! There is one mechanism for every agent and every reason to resume: [`choose_strategy`] takes the available
//! evidence and returns the first strategy that applies, why the better ones do not apply, and what is
//! lost. Only evidence about the conversation counts: a program that cannot be started, lacks its
//! credentials or is killed says nothing about its transcript. A strategy that failed for the
//! conversation's sake is not tried again in the same attempt; the next one looks again.
//!
//! Which conversation continues, if a step has had several, is for the state of the step to say.

use crate::cli_agent::Health;
use crate::usage::{ContextLimits, ContextUsage};
use crate::words::words;

words! {
    /// A resume strategy.
    Strategy {
        /// The CLI agent resumes from its own transcript, unchanged.
        Native = "native",
        /// The CLI agent resumes from its own transcript, after a repair.
        Repaired = "repaired",
        /// The CLI agent resumes from a stored copy of its transcript, which is written to the agent's
        /// own location.
        #[serde(rename = "rehomed")]
        Restored = "restored",
        /// The same agent starts a new conversation with a resume context.
        #[serde(rename = "compiled")]
        Summarized = "summarized",
        /// Another agent starts with a resume context.
        #[serde(rename = "other")]
        Handoff = "handoff",
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
    pub transcript: Option<Health>,
    /// Whether a copy of the transcript is stored.
    pub has_copy: bool,
    /// Whether the agent refused the conversation although its transcript exists, or would refuse it.
    pub refused: bool,
    /// The context usage.
    pub context_usage: Option<ContextUsage>,
    /// When the context counts as full.
    pub context_limits: ContextLimits,
    /// Strategies that were tried and failed, or must not be tried.
    pub ruled_out: Vec<Strategy>,
}

/// The chosen strategy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub strategy: Strategy,
    /// Why each better strategy does not apply.
    pub rejected: Vec<(Strategy, String)>,
    /// What the agent will no longer know.
    pub lost: Vec<String>,
    /// What only the agent can tell, when it is started.
    pub unknown: Vec<String>,
}

/// Returns the first strategy that applies.
pub fn choose_strategy(evidence: &Evidence) -> Plan {
    let mut because = Vec::new();
    for strategy in Strategy::ALL {
        match refusal(*strategy, evidence) {
            None => {
                return plan(*strategy, evidence, because);
            }
            Some(reason) => because.push((*strategy, reason)),
        }
    }
    // Whatever else fails, an agent can receive a resume context from the journal.
    let strategy = if evidence.other_agent {
        Strategy::Handoff
    } else {
        Strategy::Summarized
    };
    plan(strategy, evidence, because)
}

fn plan(strategy: Strategy, evidence: &Evidence, rejected: Vec<(Strategy, String)>) -> Plan {
    let unexamined =
        strategy == Strategy::Native && evidence.transcript == Some(Health::Unexamined);
    let unknown = unexamined.then(|| {
        "whether the agent still has the conversation: only the agent can tell, and it is not started for this plan".to_owned()
    });
    Plan {
        strategy,
        rejected,
        lost: lost(strategy, evidence),
        unknown: unknown.into_iter().collect(),
    }
}

/// Why a strategy does not apply; `None` if it applies.
fn refusal(strategy: Strategy, evidence: &Evidence) -> Option<String> {
    if evidence.ruled_out.contains(&strategy) {
        return Some("it was tried and failed".to_owned());
    }
    let own = matches!(
        strategy,
        Strategy::Native | Strategy::Repaired | Strategy::Restored
    );
    if own && evidence.other_agent {
        return Some("another agent continues".to_owned());
    }
    if own && evidence.id.is_none() {
        return Some("the agent reported no conversation id".to_owned());
    }
    if own
        && let Some(percent) = evidence
            .context_usage
            .as_ref()
            .and_then(ContextUsage::percent)
        && percent >= evidence.context_limits.full
    {
        return Some(format!("{percent} % of the context is used"));
    }
    let refused = match (strategy, &evidence.transcript) {
        (Strategy::Native | Strategy::Repaired, _) if evidence.refused => {
            "the agent does not find its transcript, because the folder was renamed"
        }
        (Strategy::Native, None) => "the agent has no transcript of it",
        (Strategy::Native | Strategy::Repaired, Some(Health::Empty)) => {
            "the agent's transcript is empty"
        }
        (Strategy::Native | Strategy::Repaired, Some(Health::Unreadable(why))) => {
            return Some(format!("the agent's transcript cannot be read: {why}"));
        }
        (Strategy::Native, Some(Health::Damaged(what))) => {
            return Some(format!("the agent's transcript is damaged: {what}"));
        }
        (Strategy::Repaired, None) => "there is no transcript to repair",
        (Strategy::Repaired, Some(Health::Intact)) => "the transcript needs no repair",
        (Strategy::Repaired | Strategy::Restored, Some(Health::Unexamined)) => {
            "only the agent can read and write its transcripts"
        }
        (Strategy::Restored, Some(Health::Intact | Health::Damaged(_) | Health::Unreadable(_)))
            if !evidence.refused =>
        {
            "the transcript exists"
        }
        (Strategy::Restored, _) if !evidence.has_copy => "no copy of the transcript is stored",
        (Strategy::Summarized, _) if evidence.other_agent => "another agent continues",
        (Strategy::Handoff, _) if !evidence.other_agent => "no other agent was requested",
        _ => return None,
    };
    Some(refused.to_owned())
}

fn lost(strategy: Strategy, evidence: &Evidence) -> Vec<String> {
    let mut lost = Vec::new();
    match strategy {
        Strategy::Native => {}
        Strategy::Repaired => lost.push("the damaged lines of the transcript".to_owned()),
        Strategy::Restored => {
            lost.push("messages after the copy was stored that are not in the journal".into());
        }
        Strategy::Summarized | Strategy::Handoff => {
            lost.push("the agent's thinking, and the exact content of its context".to_owned());
        }
    }
    if strategy == Strategy::Handoff && evidence.id.is_some() {
        lost.push("data that only the first agent can read".to_owned());
    }
    lost
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence() -> Evidence {
        Evidence {
            id: Some("a".into()),
            transcript: Some(Health::Intact),
            ..Evidence::default()
        }
    }

    #[test]
    fn first_applicable_strategy_is_chosen() {
        let damaged = Some(Health::Damaged("line 3".into()));
        let full = Some(ContextUsage {
            used: 85,
            window: Some(100),
        });
        for (evidence, strategy) in [
            (evidence(), Strategy::Native),
            (
                Evidence {
                    transcript: damaged.clone(),
                    ..evidence()
                },
                Strategy::Repaired,
            ),
            (
                Evidence {
                    transcript: None,
                    ..evidence()
                },
                Strategy::Summarized,
            ),
            (
                Evidence {
                    transcript: None,
                    has_copy: true,
                    ..evidence()
                },
                Strategy::Restored,
            ),
            (
                Evidence {
                    transcript: Some(Health::Empty),
                    has_copy: true,
                    ..evidence()
                },
                Strategy::Restored,
            ),
            (
                Evidence {
                    transcript: Some(Health::Empty),
                    ..evidence()
                },
                Strategy::Summarized,
            ),
            (
                Evidence {
                    transcript: Some(Health::Unexamined),
                    ..evidence()
                },
                Strategy::Native,
            ),
            (
                Evidence {
                    transcript: Some(Health::Unexamined),
                    ruled_out: vec![Strategy::Native],
                    ..evidence()
                },
                Strategy::Summarized,
            ),
            (
                Evidence {
                    id: None,
                    ..evidence()
                },
                Strategy::Summarized,
            ),
            (
                Evidence {
                    other_agent: true,
                    ..evidence()
                },
                Strategy::Handoff,
            ),
            (
                Evidence {
                    context_usage: full,
                    ..evidence()
                },
                Strategy::Summarized,
            ),
            (
                Evidence {
                    ruled_out: vec![Strategy::Native],
                    ..evidence()
                },
                Strategy::Summarized,
            ),
            (
                Evidence {
                    ruled_out: vec![Strategy::Native],
                    refused: true,
                    has_copy: true,
                    ..evidence()
                },
                Strategy::Restored,
            ),
            (
                Evidence {
                    refused: true,
                    has_copy: true,
                    ..evidence()
                },
                Strategy::Restored,
            ),
            (
                Evidence {
                    ruled_out: vec![Strategy::Repaired],
                    transcript: damaged,
                    ..evidence()
                },
                Strategy::Summarized,
            ),
        ] {
            let plan = choose_strategy(&evidence);
            assert_eq!(plan.strategy, strategy, "{evidence:?}");
            let above: Vec<Strategy> = plan
                .rejected
                .iter()
                .map(|(strategy, _)| *strategy)
                .collect();
            let expected = Strategy::ALL
                .iter()
                .copied()
                .take_while(|known| *known != strategy);
            assert_eq!(
                above,
                expected.collect::<Vec<_>>(),
                "every better strategy has its reason"
            );
        }
    }

    #[test]
    fn last_strategy_applies_even_if_all_failed() {
        let mut tried = evidence();
        tried.ruled_out = vec![
            Strategy::Native,
            Strategy::Repaired,
            Strategy::Restored,
            Strategy::Summarized,
        ];
        assert_eq!(choose_strategy(&tried).strategy, Strategy::Summarized);
    }
}
