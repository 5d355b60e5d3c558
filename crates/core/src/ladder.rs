//! The ways in which an agent's work can go on, best first, and what each of them needs.
//!
//! One mechanism for every agent and every reason to resume: [`choose`] looks at what there is and
//! names the first rung that holds, why those above it do not, and what is lost. A rung that was
//! tried and failed is not tried again.

use crate::companion::{Gauge, Health};
use crate::session::words;

words! {
    /// A way to go on.
    Rung {
        /// From the program's own record, as it stands.
        Native = "native",
        /// From the program's own record, after it was put in order.
        Repaired = "repaired",
        /// From a kept copy of the program's record, put where the program looks for it.
        Rehomed = "rehomed",
        /// The same program begins anew, and is told what was said and done.
        Compiled = "compiled",
        /// Another agent is told what was said and done.
        Other = "other",
    }
}

/// What is known about some work before it goes on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The program's name for the conversation, if it has told one.
    pub id: Option<String>,
    /// Whether another agent is to go on than the one who began.
    pub other_agent: bool,
    /// How the program's own record stands; `None` if there is none.
    pub record: Option<Health>,
    /// Whether a copy of the record is kept.
    pub copy: bool,
    /// How full the context was.
    pub gauge: Option<Gauge>,
    /// What was tried already and failed, or may not be tried.
    pub left: Vec<Rung>,
}

/// What is going to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The rung.
    pub rung: Rung,
    /// Why those above it do not hold.
    pub because: Vec<(Rung, String)>,
    /// What the agent will not know any more.
    pub lost: Vec<String>,
}

/// The first rung that holds.
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
    // Whatever else fails, an agent can be told what the journal knows.
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

/// Why a rung does not hold.
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
    fn the_first_rung_that_holds_is_taken() {
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
    fn a_rung_that_failed_is_left_once_and_the_last_one_always_holds() {
        let mut tried = evidence();
        tried.left = vec![Rung::Native, Rung::Repaired, Rung::Rehomed, Rung::Compiled];
        assert_eq!(choose(&tried).rung, Rung::Compiled);
    }
}
