//! `plan`: tasks in sequence in a git repository, one commit per task.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::cycle::find_cycle;
use super::step;
use crate::checklist::{Checklist, Task, is_id};
use crate::cursor::{Cursor, shortened};
use crate::fields::Keys;

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

/// The default of `max_revisions`.
const REVISIONS: u32 = 2;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// Does the tasks.
    pub agent: String,
    /// Makes the plan, if `tasks` is absent.
    pub planner: String,
    /// Reviews each task before its commit.
    pub reviewer: Option<String>,
    /// How often the reviewer may return a task before a human is asked.
    pub max_revisions: u32,
    pub approve: Approve,
    /// The goal of the whole plan: text, not a template.
    pub issue: String,
    pub tasks: Option<Checklist>,
    pub goal: Goal,
    /// The branch and worktree to create; `None` to work in the current folder.
    pub worktree: Option<Worktree>,
}

/// What a human must approve.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Approve {
    /// A plan that an agent made, before the work starts.
    #[default]
    Plan,
    /// The plan, and each task before its commit.
    Tasks,
    /// Nothing, unless the reviewer still rejects a task after `max_revisions`.
    None,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Goal {
    #[default]
    Work,
    Plan,
}

/// A branch to create, in a worktree of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Worktree {
    pub repository: PathBuf,
    pub branch: String,
    /// The commit that the branch starts at.
    pub commit: String,
}

pub(super) fn read(cursor: &Cursor<'_>, agents: &[&str]) -> Plan {
    let fields = cursor.fields(&KEYS);
    let agent_at = |key: &str| fields.get(key).map(|cursor| step::agent(&cursor, agents));
    let agent = agent_at("agent").unwrap_or_default();
    let plan = Plan {
        planner: agent_at("planner").unwrap_or_else(|| agent.clone()),
        reviewer: agent_at("reviewer"),
        max_revisions: fields
            .get("max_revisions")
            .map_or(REVISIONS, |cursor| cursor.integer(0..=100)),
        approve: fields
            .get("approve")
            .map_or(Approve::default(), |cursor| cursor.choice(&APPROVE)),
        issue: fields.read("issue", |cursor| cursor.text()),
        tasks: fields.get("tasks").map(|cursor| tasks(&cursor)),
        goal: fields
            .get("goal")
            .map_or(Goal::default(), |cursor| cursor.choice(&GOAL)),
        worktree: fields.get("worktree").map(|cursor| worktree(&cursor)),
        agent,
    };
    if plan.tasks.is_none() && plan.issue.trim().is_empty() {
        cursor.invalid("needs `tasks`, or an `issue` to plan for");
    }
    plan
}

fn worktree(cursor: &Cursor<'_>) -> Worktree {
    let fields = cursor.fields(&WORKTREE_KEYS);
    Worktree {
        repository: fields
            .read("repository", |cursor| cursor.single_line())
            .into(),
        branch: fields.read("branch", |cursor| cursor.single_line()),
        commit: fields.read("commit", |cursor| cursor.single_line()),
    }
}

fn tasks(cursor: &Cursor<'_>) -> Checklist {
    let cursors = cursor.list(1);
    let (mut tasks, mut needs) = (Vec::new(), Vec::new());
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for cursor in &cursors {
        let fields = cursor.fields(&TASK_KEYS);
        let id = fields.read("id", |cursor| {
            let id = cursor.single_line();
            if !id.is_empty() && !is_id(&id) {
                cursor.invalid("a task's id has 1 to 32 letters, digits and `. _ -`");
            }
            id
        });
        if !id.is_empty() && known.insert(id.clone(), tasks.len()).is_some() {
            cursor.invalid(format!("duplicate task `{id}`"));
        }
        tasks.push(Task {
            id,
            title: fields.read("title", |cursor| cursor.single_line()),
            description: fields.read("description", |cursor| cursor.text()),
            depends_on: Vec::new(),
            done: fields.read("done", |cursor| cursor.boolean()),
        });
        needs.push(fields.read("depends_on", |cursor| cursor.list(0)));
    }
    for (task, needs) in tasks.iter_mut().zip(needs) {
        for need in needs {
            let name = need.single_line();
            match known.get(&name) {
                Some(index) if !task.depends_on.contains(index) => task.depends_on.push(*index),
                Some(_) => need.invalid(format!("`{name}` is listed twice")),
                None if name.is_empty() => {}
                None => {
                    let message = format!("unknown task `{}`", shortened(&name));
                    need.unknown(message, &name, known.keys().map(String::as_str));
                }
            }
        }
    }
    let deps: Vec<&[usize]> = tasks.iter().map(|task| &task.depends_on[..]).collect();
    if let Some(cycle) = find_cycle(&deps) {
        let names: Vec<&str> = cycle
            .iter()
            .map(|index| tasks[*index].id.as_str())
            .collect();
        cursors[cycle[0]].invalid(format!("depends on itself: {}", names.join(" → ")));
    }
    Checklist {
        about: String::new(),
        tasks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pattern, parse};

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
    fn omitted_keys_get_defaults() {
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
    fn every_key_is_read() {
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
    fn inconsistent_plan_is_rejected() {
        for (config, expected) in [
            ("{agent: a}", "needs `tasks`, or an `issue` to plan for"),
            ("{agent: c, issue: x}", "unknown agent `c`"),
            ("{agent: a, tasks: []}", "must have 1 or more items"),
            (
                "{agent: a, tasks: [{id: a b, title: x}]}",
                "a task's id has 1 to 32 letters",
            ),
            (
                "{agent: a, tasks: [{id: x, title: x}, {id: x, title: x}]}",
                "duplicate task `x`",
            ),
            (
                "{agent: a, tasks: [{id: x, title: x, depends_on: [y]}]}",
                "unknown task `y`",
            ),
            (
                "{agent: a, tasks: [{id: x, title: x, depends_on: [y]}, {id: y, title: y, depends_on: [x]}]}",
                "depends on itself: x → y → x",
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
