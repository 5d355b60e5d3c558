//! Workloads of the patterns other than the chain. Every step has an answer of its own, and the
//! result is put together from them, so that one in the place of another is noticed.

use std::fmt::Write;

use super::kill::Workload;

/// The pattern of a spec, and the script that answers it.
pub(super) fn of(workload: Workload) -> (String, String) {
    let mut script = Script("ledger: calls.log\nanswers:\n".to_owned());
    let pattern = match workload {
        Workload::Tasks => tasks(),
        Workload::Routing => routing(&mut script),
        Workload::Parallel => parallel(),
        Workload::Evaluator => evaluator(&mut script),
        Workload::Orchestrator => orchestrator(&mut script),
        Workload::Graph => graph(&mut script),
        Workload::Scripted | Workload::Long | Workload::Command => {
            unreachable!("chains are made elsewhere")
        }
    };
    script
        .0
        .push_str("default: {text: \"done\", usage: {input_tokens: 9, output_tokens: 1}}\n");
    (pattern, script.0)
}

struct Script(String);

impl Script {
    fn answer(&mut self, step: &str, text: &str) {
        writeln!(self.0, "  - {{step: '{step}', text: '{text}'}}").unwrap();
    }
}

/// Five columns of eight rows: each task needs the one above it and the one to its left.
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

fn routing(script: &mut Script) -> String {
    script.answer("router", "I take {\"route\": \"long\"} here");
    for step in 0..3 {
        script.answer(
            &format!("routes/long/steps/{step}"),
            &format!("part {step}"),
        );
    }
    "{type: routing, config: {router: {agent: b, input: Choose.}, routes: {short: {then: [{agent: a, input: x}]}, long: {then: [{agent: a, input: \"{{ router.chosen_route }}\"}, {agent: a}, {agent: a, input: \"{{ steps[0].response }} {{ steps[1].response }}\"}]}}}}".to_owned()
}

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

fn evaluator(script: &mut Script) -> String {
    for draft in 1..=5 {
        let score = if draft == 5 { 90 } else { draft * 10 };
        script.answer(
            &format!("iterations/{draft}/producer"),
            &format!("draft {draft}"),
        );
        script.answer(
            &format!("iterations/{draft}/evaluator"),
            &format!("{{\"score\": {score}, \"issues\": [\"{draft}\"]}}"),
        );
    }
    "{type: evaluator_optimizer, config: {producer: a, evaluator: {agent: b, input: \"{{ draft }}\"}, accept: {min_score: 80, max_iters: 5}, revise_prompt: \"{{ iteration }} {{ draft }} {{ evaluation.issues }}\"}}".to_owned()
}

fn orchestrator(script: &mut Script) -> String {
    for round in 1..=3 {
        let tasks: Vec<String> = (0..4)
            .map(|task| format!("{{\"task\": \"{round} {task}\"}}"))
            .collect();
        script.answer(
            &format!("rounds/{round}/orchestrator"),
            &format!("[{}]", tasks.join(", ")),
        );
        for worker in 0..4 {
            script.answer(
                &format!("rounds/{round}/workers/{worker}"),
                &format!("did {round} {worker}"),
            );
        }
    }
    "{type: orchestrator_workers, config: {orchestrator: {agent: b, input: Plan., limits: {max_workers: 3, max_rounds: 3}}, worker_template: {agent: a}, reduce: {agent: a, input: \"{{ workers | tojson }}\"}, writeup: {agent: a, input: \"{{ reduce_response }} {{ round_count }}\"}}}".to_owned()
}

fn graph(script: &mut Script) -> String {
    for visit in 1..=4 {
        let number = if visit == 1 {
            String::new()
        } else {
            format!("#{visit}")
        };
        script.answer(&format!("nodes/draft{number}"), &format!("draft {visit}"));
        let word = if visit == 4 { "good" } else { "redo" };
        script.answer(&format!("nodes/check{number}"), &format!("{word} {visit}"));
    }
    "{type: graph, config: {nodes: {draft: {agent: a, input: \"{{ nodes.check.response }}\"}, check: {agent: b, input: \"{{ nodes.draft.response }}\"}, close: {agent: a, input: \"{{ nodes.check.response }} {{ nodes.draft.iteration }}\"}}, edges: [{from: draft, to: [check]}, {from: check, choose: [{when: \"{{ 'redo' in nodes.check.response }}\", to: draft}, {when: else, to: close}]}]}}".to_owned()
}
