//! `plan`: tasks one after the other in a git repository, each with a commit of its own.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::round::round;
use super::step;
use crate::spec::fields::Keys;
use crate::spec::place::{Place, shortened};
use crate::work::checklist::{Checklist, Task, is_id};

const KEYS: Keys = Keys {
    required: &["agent"],
    optional: &[
        "planner",
        "reviewer",
        "max_revisions",
        "approve",
        "issue",
        "tasks",
        "goal",
        "worktree",
    ],
};
const TASK_KEYS: Keys = Keys {
    required: &["id", "title"],
    optional: &["description", "depends_on", "done"],
};
const WORKTREE_KEYS: Keys = Keys {
    required: &["repository", "branch", "commit"],
    optional: &[],
};

const APPROVE: [(&str, Approve); 3] = [
    ("plan", Approve::Plan),
    ("tasks", Approve::Tasks),
    ("none", Approve::None),
];
const GOAL: [(&str, Goal); 2] = [("work", Goal::Work), ("plan", Goal::Plan)];

/// How often a reviewer may send a task back.
const REVISIONS: u32 = 2;

/// Who does, plans and reviews what.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// Who does the tasks.
    pub agent: String,
    /// Who makes the plan, if there is none.
    pub planner: String,
    /// Who looks at each task before it is committed.
    pub reviewer: Option<String>,
    /// How often a reviewer may send a task back before a person is asked.
    pub max_revisions: u32,
    /// What a person is asked about.
    pub approve: Approve,
    /// What all of it is for: text, no template.
    pub issue: String,
    /// The tasks, if they are known.
    pub tasks: Option<Checklist>,
    /// How far it goes.
    pub goal: Goal,
    /// The branch and folder that are made for it; `None` if it works where it is.
    pub worktree: Option<Worktree>,
}

/// What a person is asked about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Approve {
    /// A plan that an agent made, before work begins.
    #[default]
    Plan,
    /// The same, and each task before it is committed.
    Tasks,
    /// Nothing, unless a reviewer does not give way.
    None,
}

/// How far it goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Goal {
    /// Until the tasks are done.
    #[default]
    Work,
    /// Until there is a plan.
    Plan,
}

/// A branch to be made, in a folder of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Worktree {
    /// The repository.
    pub repository: PathBuf,
    /// The branch.
    pub branch: String,
    /// The commit that it begins at.
    pub commit: String,
}

pub(super) fn read(place: &Place<'_>, agents: &[&str]) -> Plan {
    let fields = place.fields(&KEYS);
    let someone = |key: &str| fields.get(key).map(|place| step::agent(&place, agents));
    let agent = someone("agent").unwrap_or_default();
    let plan = Plan {
        planner: someone("planner").unwrap_or_else(|| agent.clone()),
        reviewer: someone("reviewer"),
        max_revisions: fields
            .get("max_revisions")
            .map_or(REVISIONS, |place| place.integer(0..=100)),
        approve: fields
            .get("approve")
            .map_or(Approve::default(), |place| place.choice(&APPROVE)),
        issue: fields.read("issue", |place| place.text()),
        tasks: fields.get("tasks").map(|place| tasks(&place)),
        goal: fields
            .get("goal")
            .map_or(Goal::default(), |place| place.choice(&GOAL)),
        worktree: fields.get("worktree").map(|place| worktree(&place)),
        agent,
    };
    if plan.tasks.is_none() && plan.issue.trim().is_empty() {
        place.invalid("needs `tasks`, or an `issue` to make a plan for");
    }
    plan
}

fn worktree(place: &Place<'_>) -> Worktree {
    let fields = place.fields(&WORKTREE_KEYS);
    Worktree {
        repository: fields
            .read("repository", |place| place.line_of_text())
            .into(),
        branch: fields.read("branch", |place| place.line_of_text()),
        commit: fields.read("commit", |place| place.line_of_text()),
    }
}

fn tasks(place: &Place<'_>) -> Checklist {
    let places = place.list(1);
    let (mut tasks, mut needs) = (Vec::new(), Vec::new());
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for place in &places {
        let fields = place.fields(&TASK_KEYS);
        let id = fields.read("id", |place| {
            let id = place.line_of_text();
            if !id.is_empty() && !is_id(&id) {
                place.invalid("a task's id has 1 to 32 letters, digits and `. _ -`");
            }
            id
        });
        if !id.is_empty() && known.insert(id.clone(), tasks.len()).is_some() {
            place.invalid(format!("there are two tasks `{id}`"));
        }
        tasks.push(Task {
            id,
            title: fields.read("title", |place| place.line_of_text()),
            description: fields.read("description", |place| place.text()),
            depends_on: Vec::new(),
            done: fields.read("done", |place| place.choice_of_truth()),
        });
        needs.push(fields.read("depends_on", |place| place.list(0)));
    }
    for (task, needs) in tasks.iter_mut().zip(needs) {
        for need in needs {
            let name = need.line_of_text();
            match known.get(&name) {
                Some(place) if !task.depends_on.contains(place) => task.depends_on.push(*place),
                Some(_) => need.invalid(format!("`{name}` is given twice")),
                None if name.is_empty() => {}
                None => {
                    let message = format!("no such task: `{}`", shortened(&name));
                    need.unknown(message, &name, known.keys().map(String::as_str));
                }
            }
        }
    }
    let deps: Vec<&[usize]> = tasks.iter().map(|task| &task.depends_on[..]).collect();
    if let Some(round) = round(&deps) {
        let names: Vec<&str> = round
            .iter()
            .map(|place| tasks[*place].id.as_str())
            .collect();
        places[round[0]].invalid(format!("waits for itself: {}", names.join(" → ")));
    }
    Checklist {
        about: String::new(),
        tasks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Pattern, parse};

    fn spec(config: &str) -> String {
        format!(
            "{{version: 0, name: x, runtime: {{provider: command, command: [cat]}}, agents: {{a: {{prompt: A}}, b: {{prompt: B}}}}, pattern: {{type: plan, config: {config}}}}}"
        )
    }

    fn read(config: &str) -> Plan {
        match parse(&spec(config)).unwrap().pattern {
            Pattern::Plan(plan) => *plan,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_left_out_is_as_usual() {
        let plan = read("{agent: a, issue: It is slow.}");
        let usual = Plan {
            agent: "a".into(),
            planner: "a".into(),
            issue: "It is slow.".into(),
            max_revisions: 2,
            ..Plan::default()
        };
        assert_eq!(plan, usual);
    }

    #[test]
    fn all_that_can_be_said_is_read() {
        let plan = read(
            "{agent: a, planner: b, reviewer: b, max_revisions: 0, approve: tasks, goal: plan, issue: '{{ no template }}', worktree: {repository: /r, branch: segno/x, commit: c}, tasks: [{id: T1, title: one, done: true}, {id: T2, title: two, description: d, depends_on: [T1]}]}",
        );
        assert_eq!(
            (plan.planner.as_str(), plan.reviewer.as_deref()),
            ("b", Some("b"))
        );
        assert_eq!((plan.approve, plan.goal), (Approve::Tasks, Goal::Plan));
        assert_eq!(plan.issue, "{{ no template }}");
        assert_eq!(plan.worktree.unwrap().branch, "segno/x");
        let list = plan.tasks.unwrap();
        assert_eq!(
            list.text(),
            "- [x] T1: one\n- [ ] T2: two (after T1)\n  d\n"
        );
    }

    #[test]
    fn what_does_not_hold_together_is_refused() {
        for (config, expected) in [
            (
                "{agent: a}",
                "needs `tasks`, or an `issue` to make a plan for",
            ),
            ("{agent: c, issue: x}", "no such agent: `c`"),
            ("{agent: a, tasks: []}", "must hold at least 1"),
            (
                "{agent: a, tasks: [{id: a b, title: x}]}",
                "a task's id has 1 to 32 letters",
            ),
            (
                "{agent: a, tasks: [{id: x, title: x}, {id: x, title: x}]}",
                "there are two tasks `x`",
            ),
            (
                "{agent: a, tasks: [{id: x, title: x, depends_on: [y]}]}",
                "no such task: `y`",
            ),
            (
                "{agent: a, tasks: [{id: x, title: x, depends_on: [y]}, {id: y, title: y, depends_on: [x]}]}",
                "waits for itself: x → y → x",
            ),
            ("{agent: a, issue: x, approve: all}", "must be one of"),
            (
                "{agent: a, issue: x, worktree: {branch: b}}",
                "`repository` is missing",
            ),
        ] {
            let problems = parse(&spec(config)).unwrap_err().to_string();
            assert!(problems.contains(expected), "{config}: {problems}");
        }
    }
}
