//! Parses a human's decision about a plan or a task.

use segno_spec::checklist::{self, Checklist, Problem};

/// The valid answers about a task; a reason may follow.
pub(super) const YES_OR_NO: &str = r"(?i)^\s*(y|yes|approved?|n|no|reject(ed)?)\b";

/// The valid answers about a plan, including another plan.
pub(super) const YES_NO_OR_PLAN: &str =
    r"(?i)^\s*(y|yes|approved?|n|no|reject(ed)?)\b|(?m-i:^\s*([-*+]|[0-9]+[.)]) +\[[ xX]?\])";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Approve,
    /// With the reason.
    Reject(String),
    /// Use this plan instead.
    Plan(Checklist),
    /// A plan that is invalid.
    BadPlan(Vec<Problem>),
}

/// Parses an answer.
pub fn parse_decision(answer: &str) -> Decision {
    let answer = answer.trim();
    let end = answer.find(|sign: char| !sign.is_ascii_alphanumeric() && sign != '_');
    let (word, rest) = answer.split_at(end.unwrap_or(answer.len()));
    let is = |words: &[&str]| words.iter().any(|known| word.eq_ignore_ascii_case(known));
    if is(&["y", "yes", "approve", "approved"]) {
        return Decision::Approve;
    }
    if is(&["n", "no", "reject", "rejected"]) {
        let reason = rest.trim_start_matches([':', ',', ';', '.', '-', ' ', '\t', '\n']);
        return Decision::Reject(reason.to_owned());
    }
    match checklist::read(answer) {
        Ok(list) => Decision::Plan(list),
        Err(problems) => Decision::BadPlan(problems),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_approves_rejects_or_is_another_plan() {
        for yes in ["approve", " Approved.", "y", "YES, continue"] {
            assert_eq!(parse_decision(yes), Decision::Approve, "{yes}");
        }
        let no = |reason: &str| Decision::Reject(reason.to_owned());
        assert_eq!(parse_decision("no"), no(""));
        assert_eq!(parse_decision("reject: too long"), no("too long"));
        assert_eq!(
            parse_decision("Rejected - split T2\nplease"),
            no("split T2\nplease")
        );
        assert!(
            matches!(parse_decision("- [ ] T1: a"), Decision::Plan(list) if list.tasks.len() == 1)
        );
        assert!(matches!(parse_decision("maybe"), Decision::BadPlan(_)));
    }

    #[test]
    fn validation_accepts_what_decide_parses() {
        let fits = |pattern: &str, text: &str| regex::Regex::new(pattern).unwrap().is_match(text);
        for text in ["approve", "Reject it", "# Plan\n\n- [ ] a", "1. [x] a"] {
            assert!(fits(YES_NO_OR_PLAN, text), "{text}");
        }
        for text in ["maybe", "approving", "[ ] a"] {
            assert!(
                !fits(YES_NO_OR_PLAN, text) && !fits(YES_OR_NO, text),
                "{text}"
            );
        }
    }
}
