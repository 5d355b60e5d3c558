//! Decides what a worker does about a session that nobody runs. Pure, so that a table can test it.
//!
//! A worker asks for a run by itself only where no user decided: a lost run, a lifted limit, an
//! answered question. What a user stopped, cancelled or has to decide stays as it is.

use std::time::Duration;

use segno_core::session::Status;
use segno_core::state::{Question, State};
use segno_core::time::{Timestamp, format_duration};
use segno_spec::{AutoResume, OnLost};

/// The code of a run that ended because of a provider's limit.
const LIMIT: &str = "R0123";

/// What a worker does about a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Run it: someone asked for that.
    Run,
    /// Ask for a run, not before `at`.
    Resume { at: Timestamp, evidence: String },
    /// Leave it to a user, who is told the reason.
    Park { reason: String },
    /// Leave it as it is.
    Rest,
}

/// What a worker knows about a session that nobody runs.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The status, given that nobody runs the session.
    pub status: Status,
    pub state: &'a State,
    pub policy: AutoResume,
    /// Whether the inbox has an answer to a question.
    pub is_answered: bool,
    pub now: Timestamp,
}

/// Decides what a worker does.
pub fn judge(facts: &Facts<'_>) -> Verdict {
    let found = match facts.status {
        Status::Pending => return Verdict::Run,
        Status::Interrupted => Some(lost(facts)),
        Status::Paused => limit_lifted(facts),
        Status::Waiting => answered(facts),
        _ => None,
    };
    let Some((since, evidence)) = found else {
        return Verdict::Rest;
    };
    match is_allowed(facts, since) {
        Ok(()) => Verdict::Resume {
            at: since.after(delay(facts)),
            evidence,
        },
        Err(None) => Verdict::Rest,
        Err(Some(reason)) => Verdict::Park { reason },
    }
}

/// Since when a lost run could be resumed, and why it should.
fn lost(facts: &Facts<'_>) -> (Timestamp, String) {
    let state = facts.state;
    let since = state.ended_at.unwrap_or(state.updated_at);
    let evidence = match &state.stopped {
        Some(stopped) => format!("its run was ended by {}", stopped.by),
        None => "the process of its run is gone".to_owned(),
    };
    (since, evidence)
}

/// When the limit that paused a session is lifted.
fn limit_lifted(facts: &Facts<'_>) -> Option<(Timestamp, String)> {
    let error = facts.state.error.as_ref()?;
    if error.kind != LIMIT || facts.state.stopped.is_some() {
        return None;
    }
    let steps = facts.state.open_steps.values();
    let until = steps.filter_map(|step| step.not_before).min()?;
    Some((until, "the limit of the provider is lifted".to_owned()))
}

/// When a question is answered, at the latest by its default.
fn answered(facts: &Facts<'_>) -> Option<(Timestamp, String)> {
    if facts.is_answered {
        return Some((facts.now, "its question is answered".to_owned()));
    }
    let questions = facts.state.questions.values();
    let until = questions.filter_map(Question::until).min()?;
    let evidence = "the time to answer its question is over".to_owned();
    Some((until, evidence))
}

/// Whether a worker may resume the session by itself. An error without a reason means that nobody
/// expects it to.
fn is_allowed(facts: &Facts<'_>, since: Timestamp) -> Result<(), Option<String>> {
    let (policy, background) = (facts.policy, facts.state.background.as_deref());
    let is_handed_over = background.is_some_and(|background| background.by_user);
    let chosen = policy.policy.unwrap_or(if is_handed_over {
        OnLost::Auto
    } else {
        OnLost::Ask
    });
    match chosen {
        OnLost::Ask => return Err(None),
        OnLost::Notify => return Err(Some("its run was lost".to_owned())),
        OnLost::Auto => {}
    }
    if facts.now.since(since) > policy.max_age {
        let age = format_duration(policy.max_age);
        return Err(Some(format!("it was lost more than {age} ago")));
    }
    let Some(background) = background else {
        return Ok(());
    };
    if let Some(error) = &background.error {
        return Err(Some(format!("its run could not start: {}", error.message)));
    }
    if background.without_progress >= policy.max_attempts {
        let times = background.without_progress;
        return Err(Some(format!(
            "it was resumed {times} times in a row without an answer of an agent"
        )));
    }
    if background.automatic >= policy.max_total {
        let times = background.automatic;
        return Err(Some(format!("it was resumed automatically {times} times")));
    }
    Ok(())
}

/// Doubled for each attempt in a row.
fn delay(facts: &Facts<'_>) -> Duration {
    let background = facts.state.background.as_ref();
    let attempts = background.map_or(0, |background| background.without_progress);
    facts.policy.delay.saturating_mul(1 << attempts.min(10))
}

#[cfg(test)]
mod tests {
    use segno_core::id::SessionId;
    use segno_core::journal::Failure;
    use segno_core::state::Background;

    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000_000);

    fn state(ended: Duration) -> State {
        State {
            ended_at: Some(NOW.before(ended)),
            ..State::empty(SessionId::new(Timestamp(0), [0; 10]))
        }
    }

    fn handed_over() -> Background {
        Background {
            request: None,
            by_user: true,
            without_progress: 0,
            automatic: 0,
            error: None,
        }
    }

    fn verdict(status: Status, state: &State, policy: AutoResume) -> Verdict {
        judge(&Facts {
            status,
            state,
            policy,
            is_answered: false,
            now: NOW,
        })
    }

    fn with_policy(policy: Option<OnLost>) -> AutoResume {
        AutoResume {
            policy,
            ..AutoResume::default()
        }
    }

    #[test]
    fn lost_runs_are_resumed_only_where_that_is_wanted() {
        let mut mine = state(Duration::from_secs(1));
        let mut theirs = mine.clone();
        theirs.background = Some(Box::new(handed_over()));
        let is_resumed = |state: &State, policy| {
            let verdict = verdict(Status::Interrupted, state, with_policy(policy));
            matches!(verdict, Verdict::Resume { .. })
        };
        assert!(!is_resumed(&mine, None));
        assert!(is_resumed(&mine, Some(OnLost::Auto)));
        assert!(is_resumed(&theirs, None));
        assert!(!is_resumed(&theirs, Some(OnLost::Ask)));
        mine.ended_at = None;
        mine.updated_at = NOW;
        assert!(is_resumed(&mine, Some(OnLost::Auto)));
    }

    #[test]
    fn what_a_user_decided_stays() {
        let mut state = state(Duration::from_secs(1));
        state.background = Some(Box::new(handed_over()));
        let auto = with_policy(Some(OnLost::Auto));
        for status in [
            Status::Paused,
            Status::Failed,
            Status::Completed,
            Status::Cancelled,
            Status::Expired,
            Status::Waiting,
        ] {
            assert_eq!(verdict(status, &state, auto), Verdict::Rest, "{status}");
        }
        assert_eq!(verdict(Status::Pending, &state, auto), Verdict::Run);
    }

    #[test]
    fn attempts_are_delayed_and_capped() {
        let mut state = state(Duration::from_secs(1));
        let ended = state.ended_at.unwrap();
        let mut background = handed_over();
        for (without_progress, delay_s) in [(0, 5), (1, 10)] {
            background.without_progress = without_progress;
            state.background = Some(Box::new(background.clone()));
            let at = ended.after(Duration::from_secs(delay_s));
            let found = verdict(Status::Interrupted, &state, AutoResume::default());
            assert!(matches!(found, Verdict::Resume { at: found, .. } if found == at));
        }
        let refused = Failure {
            kind: "R0103".into(),
            message: "the outcome of step steps/0 is unknown".into(),
        };
        for (change, words) in [
            (
                Background {
                    without_progress: 2,
                    ..background.clone()
                },
                "2 times in a row",
            ),
            (
                Background {
                    automatic: 20,
                    without_progress: 0,
                    ..background.clone()
                },
                "automatically 20 times",
            ),
            (
                Background {
                    error: Some(refused),
                    ..handed_over()
                },
                "outcome of step steps/0 is unknown",
            ),
        ] {
            state.background = Some(Box::new(change));
            let found = verdict(Status::Interrupted, &state, AutoResume::default());
            assert!(
                matches!(&found, Verdict::Park { reason } if reason.contains(words)),
                "{found:?}"
            );
        }
        let mut old = self::state(Duration::from_hours(25));
        old.background = Some(Box::new(handed_over()));
        let found = verdict(Status::Interrupted, &old, AutoResume::default());
        assert!(matches!(found, Verdict::Park { .. }), "{found:?}");
    }
}
