//! Compares two versions of a workflow step by step.
//!
//! A step is identified by its name: the `id` of a step in a list, the name of a task or node, the
//! key of a step that its pattern has once. A step of a list without an `id` is identified by its
//! position together with what it asks (agent, input and `vars`): if another question is at its
//! position, it is another step.

use std::collections::{HashMap, HashSet};

use segno_core::step::Path;

use super::outline::{OutlineStep, outline};
use super::workflow::Workflow;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It is the same step, but its definition, or its agent's, is different.
    Changed,
    /// At its position in a list is another step.
    Replaced {
        /// Where the step itself is, if the new version still has it.
        now: Option<Path>,
    },
    Added,
    Removed {
        /// Where the new version asks the same, under a path that the old version did not have.
        now: Option<Path>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepChange {
    pub path: Path,
    pub change: Change,
    /// Whether the path exists in both versions and asks something else, not merely with other
    /// settings.
    pub asks_other: bool,
}

/// The steps whose own definition, or whose agent's, differs, in the order of the specs. What an
/// agent inherits from `runtime` is part of the agent. The values of inputs are not compared.
pub fn changed_steps(old: &Workflow, new: &Workflow) -> Vec<StepChange> {
    let (was, is) = (outline(old), outline(new));
    let known: HashMap<&Path, &OutlineStep> = was.iter().map(|step| (&step.path, step)).collect();
    let still: HashSet<&Path> = is.iter().map(|step| &step.path).collect();
    let agent = |workflow: &Workflow, step: &OutlineStep| {
        let name = step.agent.as_ref()?;
        workflow.agents.get(name).cloned()
    };
    let same = |before: &OutlineStep, now: &OutlineStep| {
        before.definition == now.definition
            && before.agent == now.agent
            && agent(old, before) == agent(new, now)
    };
    // Steps of the new version that are not what the old version had under their path, by question.
    let mut elsewhere: HashMap<&str, &Path> = HashMap::new();
    for step in is.iter().rev() {
        let stayed = known
            .get(&step.path)
            .is_some_and(|before| before.question == step.question);
        if !stayed {
            elsewhere.insert(&step.question, &step.path);
        }
    }
    let now = |step: &OutlineStep| {
        let found = elsewhere.get(step.question.as_str());
        found.map(|path| (*path).clone())
    };
    let here = is.iter().filter_map(|step| {
        let Some(before) = known.get(&step.path) else {
            return Some(StepChange {
                path: step.path.clone(),
                change: Change::Added,
                asks_other: false,
            });
        };
        let asks_other = before.question != step.question;
        let change = if asks_other && before.is_positional {
            Change::Replaced { now: now(before) }
        } else if same(before, step) {
            return None;
        } else {
            Change::Changed
        };
        Some(StepChange {
            path: step.path.clone(),
            change,
            asks_other,
        })
    });
    let gone = was.iter().filter(|step| !still.contains(&step.path));
    let gone = gone.map(|step| StepChange {
        path: step.path.clone(),
        change: Change::Removed { now: now(step) },
        asks_other: false,
    });
    here.chain(gone).collect()
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
        let replaced = |step: usize| [(format!("steps/{step}"), Change::Replaced { now: None })];
        assert_eq!(changes("name: demo", "name: other"), []);
        assert_eq!(changes("input: one", "input: two"), replaced(0));
        assert_eq!(
            changes("{agent: b}", "{agent: b, vars: {x: 1}}"),
            replaced(1)
        );
        assert_eq!(
            changes("{agent: b}", "{agent: b, tool_overrides: [head]}"),
            changed(&[1])
        );
        assert_eq!(changes("{agent: b}", "{agent: a}"), replaced(1));
        assert_eq!(changes("prompt: A", "prompt: AA"), changed(&[0, 2]));
        assert_eq!(changes("[tac]", "[tac, -b]"), changed(&[1]));
        assert_eq!(changes("[cat]", "[cat, -n]"), changed(&[0, 2]));
    }

    #[test]
    fn added_and_removed_steps_are_listed() {
        let last = ", {agent: a}]";
        assert_eq!(
            changes(last, "]"),
            [("steps/2".to_owned(), Change::Removed { now: None })]
        );
        let more = ", {agent: a}, {agent: b}]";
        assert_eq!(changes(last, more), [("steps/3".to_owned(), Change::Added)]);
    }

    #[test]
    fn step_inserted_in_front_replaces_steps_without_an_id() {
        assert_eq!(
            changes(
                "[{agent: a, input: one}",
                "[{agent: b, input: new}, {agent: a, input: one}"
            ),
            [
                (
                    "steps/0".to_owned(),
                    Change::Replaced {
                        now: Some(path("steps/1"))
                    }
                ),
                (
                    "steps/1".to_owned(),
                    Change::Replaced {
                        now: Some(path("steps/2"))
                    }
                ),
                (
                    "steps/2".to_owned(),
                    Change::Replaced {
                        now: Some(path("steps/3"))
                    }
                ),
                ("steps/3".to_owned(), Change::Added),
            ]
        );
    }

    #[test]
    fn a_step_that_gets_an_id_moves() {
        assert_eq!(
            changes("{agent: b}", "{id: check, agent: b}"),
            [
                ("steps/check".to_owned(), Change::Added),
                (
                    "steps/1".to_owned(),
                    Change::Removed {
                        now: Some(path("steps/check"))
                    }
                ),
            ]
        );
    }

    #[test]
    fn steps_with_ids_keep_them_wherever_they_are() {
        let named = SPEC
            .replace("{agent: a, input: one}", "{id: x, agent: a, input: one}")
            .replace("{agent: b},", "{id: y, agent: b},")
            .replace("{agent: a}]", "{id: z, agent: a}]");
        let reordered = named.replace(
            "[{id: x, agent: a, input: one}, {id: y, agent: b},",
            "[{id: y, agent: b}, {id: x, agent: a, input: uno},",
        );
        assert_ne!(named, reordered);
        let changes = changed_steps(&parse(&named).unwrap(), &parse(&reordered).unwrap());
        assert_eq!(
            changes,
            [StepChange {
                path: path("steps/x"),
                change: Change::Changed,
                asks_other: true
            }]
        );
    }

    fn path(text: &str) -> Path {
        Path::new(text).unwrap()
    }
}
