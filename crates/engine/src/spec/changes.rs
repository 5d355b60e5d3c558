//! What is different between two versions of a workflow, step by step.

use std::collections::{HashMap, HashSet};

use segno_core::step::Path;

use super::outline::{Part, outline};
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

/// The steps whose own definition, or whose agent's, differs, in the order of the specs. What a step
/// inherits from `runtime` is part of its agent. Values of inputs are not looked at.
pub fn changed_steps(old: &Workflow, new: &Workflow) -> Vec<StepChange> {
    let (was, is) = (outline(old), outline(new));
    let known: HashMap<&Path, &Part> = was.iter().map(|part| (&part.path, part)).collect();
    let still: HashSet<&Path> = is.iter().map(|part| &part.path).collect();
    let same = |before: &Part, now: &Part| {
        let agent = |workflow: &Workflow, part: &Part| {
            let name = part.agent.as_ref()?;
            workflow.agents.get(name).cloned()
        };
        before.definition == now.definition
            && before.agent == now.agent
            && agent(old, before) == agent(new, now)
    };
    let here = is.iter().filter_map(|part| {
        let change = match known.get(&part.path) {
            None => Change::Added,
            Some(before) if same(before, part) => return None,
            Some(_) => Change::Changed,
        };
        Some((&part.path, change))
    });
    let gone = was.iter().filter(|part| !still.contains(&part.path));
    let gone = gone.map(|part| (&part.path, Change::Removed));
    here.chain(gone)
        .map(|(path, change)| StepChange {
            path: path.clone(),
            change,
        })
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
