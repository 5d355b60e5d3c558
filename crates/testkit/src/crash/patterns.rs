//! Workloads of the seven patterns. A model server outside of segno answers them and counts the
//! requests. Every step has a different answer, and the result is composed of them, so that a
//! swapped answer is detected.

use super::kill::Workload;

/// The pattern of a spec.
pub(super) fn pattern_of(workload: Workload) -> String {
    match workload {
        Workload::Chain => steps(),
        Workload::Tasks => tasks(),
        Workload::Routing => ROUTING.to_owned(),
        Workload::Parallel => parallel(),
        Workload::Evaluator => EVALUATOR.to_owned(),
        Workload::Orchestrator => ORCHESTRATOR.to_owned(),
        Workload::Graph => GRAPH.to_owned(),
        Workload::Scripted | Workload::Long | Workload::Command => {
            unreachable!("these workloads have no model server")
        }
    }
}

/// The model's answer to a question. It depends only on the question, so that the same question
/// always has the same answer, and every step has a different one.
pub(super) fn answer(workload: Workload, question: &str) -> String {
    let number = || {
        let mut digits = question.split(|c: char| !c.is_ascii_digit());
        digits.find_map(|digits| digits.parse::<u32>().ok())
    };
    let n = number().unwrap_or(0);
    match workload {
        Workload::Routing if question.starts_with("Choose.") => {
            "I take {\"route\": \"long\"} here".to_owned()
        }
        Workload::Evaluator if question.starts_with("draft") => {
            let score = if n == 5 { 90 } else { n * 10 };
            format!("{{\"score\": {score}, \"issues\": [\"{n}\"]}}")
        }
        Workload::Evaluator => format!("draft {}", n + 1),
        Workload::Orchestrator if question.starts_with("Plan.") => {
            let round = question.matches("did ").count() / 4 + 1;
            let task = |task| format!("{{\"task\": \"{round} {task}\"}}");
            let tasks: Vec<String> = (0..4).map(task).collect();
            format!("[{}]", tasks.join(", "))
        }
        Workload::Orchestrator if question.len() == 3 => format!("did {question}"),
        Workload::Graph if question.starts_with("draft") => {
            let word = if n == 4 { "good" } else { "redo" };
            format!("{word} {n}")
        }
        Workload::Graph if !question.starts_with("good") => format!("draft {}", n + 1),
        _ => format!(
            "heard {}",
            segno_core::digest::Digest::of(question.as_bytes())
        ),
    }
}

/// Each step builds on the one before it.
fn steps() -> String {
    let input = |step: usize| match step {
        0 => "begin".to_owned(),
        step => format!("{step} {{{{ steps[{}].response }}}}", step - 1),
    };
    let steps: Vec<String> = (0..8)
        .map(|step| format!("{{agent: a, input: \"{}\"}}", input(step)))
        .collect();
    format!("{{type: chain, config: {{steps: [{}]}}}}", steps.join(", "))
}

/// Five columns of eight rows: each task needs the one above it, and in even rows the one to its
/// left.
fn tasks() -> String {
    let mut tasks = Vec::new();
    for row in 0..8 {
        for column in 0..5 {
            let mut deps = Vec::new();
            if row > 0 {
                deps.push(format!("t{}-{column}", row - 1));
            }
            if column > 0 && row % 2 == 0 {
                deps.push(format!("t{row}-{}", column - 1));
            }
            let inputs: Vec<String> = deps
                .iter()
                .map(|dep| format!("{{{{ tasks['{dep}'].response }}}}"))
                .collect();
            tasks.push(format!(
                "{{id: t{row}-{column}, agent: a, deps: [{}], input: \"{row} {column} {}\"}}",
                deps.join(", "),
                inputs.join(" ")
            ));
        }
    }
    format!(
        "{{type: workflow, config: {{tasks: [{}]}}}}",
        tasks.join(", ")
    )
}

const ROUTING: &str = "{type: routing, config: {router: {agent: b, input: Choose.}, routes: {short: {then: [{agent: a, input: x}]}, long: {then: [{agent: a, input: \"{{ router.chosen_route }}\"}, {agent: a}, {agent: a, input: \"{{ steps[0].response }} {{ steps[1].response }}\"}]}}}}";

fn parallel() -> String {
    let branches: Vec<String> = (0..5)
        .map(|branch| {
            let steps: Vec<String> = (0..4)
                .map(|step| format!("{{agent: a, input: \"{branch} {step}\"}}"))
                .collect();
            format!("{{id: b{branch}, steps: [{}]}}", steps.join(", "))
        })
        .collect();
    format!(
        "{{type: parallel, config: {{branches: [{}], reduce: {{agent: b, input: \"{{% for id, b in branches.items() %}}{{{{ id }}}}{{{{ b.response }}}}{{% endfor %}}\"}}}}}}",
        branches.join(", ")
    )
}

const EVALUATOR: &str = "{type: evaluator_optimizer, config: {producer: a, evaluator: {agent: b, input: \"{{ draft }}\"}, accept: {min_score: 80, max_iters: 5}, revise_prompt: \"{{ evaluation.issues[0] }} {{ draft }}\"}}";

const ORCHESTRATOR: &str = "{type: orchestrator_workers, config: {orchestrator: {agent: b, input: Plan., limits: {max_workers: 3, max_rounds: 3}}, worker_template: {agent: a}, reduce: {agent: a, input: \"{{ workers | tojson }}\"}, writeup: {agent: a, input: \"{{ reduce_response }} {{ round_count }}\"}}}";

const GRAPH: &str = "{type: graph, config: {nodes: {draft: {agent: a, input: \"{{ nodes.check.response }}\"}, check: {agent: b, input: \"{{ nodes.draft.response }}\"}, close: {agent: a, input: \"{{ nodes.check.response }} {{ nodes.draft.iteration }}\"}}, edges: [{from: draft, to: [check]}, {from: check, choose: [{when: \"{{ 'redo' in nodes.check.response }}\", to: draft}, {when: else, to: close}]}]}}";
