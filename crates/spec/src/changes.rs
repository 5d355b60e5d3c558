//! Compares two versions of a workflow step by step.

use std::collections::{HashMap, HashSet};

use segno_core::step::Path;

use super::outline::{OutlineStep, outline};
use super::workflow::Workflow;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The definition of the step, or its agent, is different.
    Changed,
    Added,
    Removed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepChange {
    pub path: Path,
    pub change: Change,
}

/// The steps whose own definition, or whose agent's, differs, in the order of the specs. What an
/// agent inherits from `runtime` is part of the agent. The values of inputs are not compared.
pub fn changed_steps(old: &Workflow, new: &Workflow) -> Vec<StepChange> {
    let (was, is) = (outline(old), outline(new));
    let known: HashMap<&Path, &OutlineStep> = was.iter().map(|part| (&part.path, part)).collect();
    let still: HashSet<&Path> = is.iter().map(|part| &part.path).collect();
    let same = |before: &OutlineStep, now: &OutlineStep| {
        let agent = |workflow: &Workflow, part: &OutlineStep| {
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
    fn step_changes_with_its_prompt_agent_and_runtime() {
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
    fn added_and_removed_steps_are_listed() {
        let last = ", {agent: a}]";
        assert_eq!(
            changes(last, "]"),
            [("steps/2".to_owned(), Change::Removed)]
        );
        let more = ", {agent: a}, {agent: b}]";
        assert_eq!(changes(last, more), [("steps/3".to_owned(), Change::Added)]);
    }
}
