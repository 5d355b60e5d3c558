//! What is different between two versions of a workflow, step by step.

use segno_core::step::Path;

use super::agents::Agent;
use super::pattern::{Pattern, Step};
use super::workflow::Workflow;

/// What happened to a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is asked something else, or someone else is asked.
    Changed,
    /// It was not there before.
    Added,
    /// It is there no more.
    Removed,
}

/// A step that is not what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepChange {
    /// The step.
    pub path: Path,
    /// What happened to it.
    pub change: Change,
}

/// The steps whose own definition, or whose agent's, differs: in the order of their paths. What a
/// step inherits from `runtime` is part of its agent. Values of inputs are not looked at.
pub fn changed_steps(old: &Workflow, new: &Workflow) -> Vec<StepChange> {
    let (was, is) = (definitions(old), definitions(new));
    let change = |n: usize| match (was.get(n), is.get(n)) {
        (Some(was), Some(is)) if was == is => None,
        (Some(_), Some(_)) => Some(Change::Changed),
        (None, _) => Some(Change::Added),
        (_, None) => Some(Change::Removed),
    };
    (0..was.len().max(is.len()))
        .filter_map(|n| {
            Some(StepChange {
                path: Path::chain_step(n),
                change: change(n)?,
            })
        })
        .collect()
}

fn definitions(workflow: &Workflow) -> Vec<(&Step, Option<&Agent>)> {
    let Pattern::Chain(chain) = &workflow.pattern;
    let steps = chain.steps.iter();
    steps
        .map(|step| (step, workflow.agents.get(&step.agent)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    const SPEC: &str = r"
version: 0
name: demo
runtime: {provider: command, command: [cat]}
agents: {a: {prompt: A}, b: {prompt: B, command: [tac]}}
pattern: {type: chain, config: {steps: [{agent: a, input: one}, {agent: b}, {agent: a}]}}
";

    fn changes(from: &str, to: &str) -> Vec<(String, Change)> {
        assert!(SPEC.contains(from), "{from}");
        let (old, new) = (
            parse(SPEC).unwrap(),
            parse(&SPEC.replace(from, to)).unwrap(),
        );
        let changes = changed_steps(&old, &new).into_iter();
        changes
            .map(|step| (step.path.to_string(), step.change))
            .collect()
    }

    #[test]
    fn a_step_changes_with_its_words_its_agent_and_what_the_agent_inherits() {
        let changed = |steps: &[usize]| -> Vec<(String, Change)> {
            let steps = steps.iter();
            steps
                .map(|n| (format!("steps/{n}"), Change::Changed))
                .collect()
        };
        assert_eq!(changes("name: demo", "name: other"), []);
        assert_eq!(changes("input: one", "input: two"), changed(&[0]));
        assert_eq!(
            changes("{agent: b}", "{agent: b, vars: {x: 1}}"),
            changed(&[1])
        );
        assert_eq!(changes("{agent: b}", "{agent: a}"), changed(&[1]));
        assert_eq!(changes("prompt: A", "prompt: AA"), changed(&[0, 2]));
        assert_eq!(changes("[tac]", "[tac, -b]"), changed(&[1]));
        assert_eq!(changes("[cat]", "[cat, -n]"), changed(&[0, 2]));
    }

    #[test]
    fn steps_come_and_go_at_the_end() {
        let last = ", {agent: a}]";
        assert_eq!(
            changes(last, "]"),
            [("steps/2".to_owned(), Change::Removed)]
        );
        let more = ", {agent: a}, {agent: b}]";
        assert_eq!(changes(last, more), [("steps/3".to_owned(), Change::Added)]);
    }
}
