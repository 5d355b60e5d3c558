//! (e) Long workflows through the real binary: whether a step costs the same however many there
//! are, and how much memory the run uses. `--plot FILE` draws both.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::process::Stdio;
use std::time::Instant;

use segno_testkit::sandbox::Sandbox;

use crate::disk::Disk;
use crate::figures::{Row, Samples, Table, millis};
use crate::snapshots::process::wait_for_peak_memory;
use crate::{Plan, chain, log_progress};

/// The lengths, each about three times the one before it.
const CHAINS: &[usize] = &[100, 300, 1000, 3000, 10_000];
const TASKS: &[usize] = &[100, 300, 1000, 3000];

/// The results of one length.
#[derive(Default, Clone)]
struct Length {
    /// Milliseconds per step.
    time: Samples,
    /// The peak, in megabytes.
    memory: Samples,
}

type Lengths = BTreeMap<usize, Length>;

pub(crate) fn measure(plan: &Plan, disk: &mut Disk, table: &mut Table) {
    let (mut chains, mut tasks) = (Lengths::new(), Lengths::new());
    for round in 0..plan.rounds().div_ceil(2) {
        log_progress(&format!("  round {}", round + 1));
        disk.probe();
        let (nothing, _) = run(plan, |sandbox| chain::write(sandbox, 1));
        let add_sample = |lengths: &mut Lengths, steps: usize, (whole, memory): (f64, f64)| {
            let length = lengths.entry(steps).or_default();
            length.time.push((whole - nothing) / (steps - 1) as f64);
            length.memory.push(memory);
        };
        for steps in CHAINS {
            let ran = run(plan, |sandbox| chain::write(sandbox, *steps));
            add_sample(&mut chains, *steps, ran);
        }
        for steps in TASKS {
            let ran = run(plan, |sandbox| write_tasks(sandbox, *steps));
            add_sample(&mut tasks, *steps, ran);
        }
    }
    let all = [("chain", chains), ("workflow", tasks)];
    for (pattern, lengths) in &all {
        for (steps, length) in lengths {
            let what = |of: &str| format!("{pattern} of {steps}, {of}");
            table.add(Row::single(
                "e",
                what("per step"),
                "ms",
                length.time.clone(),
            ));
            table.add(Row::single(
                "e",
                what("peak memory"),
                "MB",
                length.memory.clone(),
            ));
        }
    }
    if let Some(file) = &plan.plot {
        fs::write(file, plot(&all)).unwrap();
    }
}

/// Tasks that each depend on two earlier ones, as in a build: many can run in parallel.
fn write_tasks(sandbox: &Sandbox, count: usize) {
    chain::write(sandbox, 1);
    let mut tasks = String::new();
    for task in 0..count {
        let deps = match task {
            0..10 => String::new(),
            // Both dependencies are the same task.
            _ if task - 10 == task / 2 => format!("t{}", task / 2),
            _ => format!("t{}, t{}", task - 10, task / 2),
        };
        let input = match task {
            0..10 => format!("question {task}"),
            _ => format!("and {{{{ tasks.t{}.response | truncate(40) }}}}", task / 2),
        };
        let _ = writeln!(
            tasks,
            "    - {{id: t{task}, agent: a, deps: [{deps}], input: \"{input}\"}}"
        );
    }
    sandbox.write(
        "chain.yaml",
        &format!("version: 0\nname: long\nruntime: {{provider: scripted, script: answers.yaml, max_parallel: 16}}\nagents: {{a: {{prompt: Answer.}}}}\npattern:\n  type: workflow\n  config:\n    tasks:\n{tasks}"),
    );
}

/// Runs the spec that `write` writes. Returns the milliseconds of the whole process and its peak
/// memory in megabytes.
fn run(plan: &Plan, write: impl Fn(&Sandbox)) -> (f64, f64) {
    let sandbox = Sandbox::new(&plan.segno);
    write(&sandbox);
    let mut command = sandbox.command(&["run", "chain.yaml", "--json"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let begun = Instant::now();
    let child = command.spawn().unwrap();
    let (memory, ended) = wait_for_peak_memory(child);
    assert!(ended.success(), "the workflow completes");
    (millis(begun.elapsed()), memory)
}

const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 200.0;
const COLOURS: [&str; 2] = ["#2563eb", "#d97706"];

/// Draws both curves of both patterns.
fn plot(all: &[(&str, Lengths)]) -> String {
    let mut out = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 880 300\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#444\">\n<rect width=\"880\" height=\"300\" fill=\"white\"/>\n",
    );
    chart(&mut out, 60.0, "milliseconds per step", all, |length| {
        &length.time
    });
    chart(&mut out, 490.0, "peak memory in megabytes", all, |length| {
        &length.memory
    });
    for (n, (pattern, _)) in all.iter().enumerate() {
        let (x, colour) = (60 + 130 * n, COLOURS[n]);
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"282\" width=\"12\" height=\"4\" fill=\"{colour}\"/><text x=\"{}\" y=\"289\">{pattern}</text>",
            x + 18
        );
    }
    out + "</svg>\n"
}

fn chart(
    out: &mut String,
    left: f64,
    title: &str,
    all: &[(&str, Lengths)],
    of: impl Fn(&Length) -> &Samples,
) {
    let medians = all
        .iter()
        .flat_map(|(_, lengths)| lengths.values().map(|l| of(l).median()));
    let top = nice(medians.fold(0.0, f64::max));
    let (first, last) = (CHAINS[0] as f64, CHAINS[CHAINS.len() - 1] as f64);
    let x = |steps: f64| left + WIDTH * (steps / first).ln() / (last / first).ln();
    let y = |value: f64| 40.0 + HEIGHT * (1.0 - value / top);
    let _ = writeln!(
        out,
        "<text x=\"{left}\" y=\"24\" font-weight=\"bold\">{title}</text>"
    );
    for part in 0..=4 {
        let value = top * f64::from(part) / 4.0;
        let _ = writeln!(
            out,
            "<line x1=\"{left}\" x2=\"{}\" y1=\"{1}\" y2=\"{1}\" stroke=\"#ddd\"/><text x=\"{2}\" y=\"{3}\" text-anchor=\"end\">{4}</text>",
            left + WIDTH,
            y(value),
            left - 6.0,
            y(value) + 4.0,
            (value * 1000.0).round() / 1000.0
        );
    }
    for steps in CHAINS {
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{steps}</text>",
            x(*steps as f64),
            y(0.0) + 18.0
        );
    }
    for ((_, lengths), colour) in all.iter().zip(COLOURS) {
        let points: Vec<String> = lengths
            .iter()
            .map(|(steps, length)| format!("{:.1},{:.1}", x(*steps as f64), y(of(length).median())))
            .collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            points.join(" ")
        );
        for (steps, length) in lengths {
            let samples = of(length);
            let _ = writeln!(
                out,
                "<line x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{1:.1}\" y2=\"{2:.1}\" stroke=\"{colour}\"/>",
                x(*steps as f64),
                y(samples.quantile(0.0)),
                y(samples.quantile(1.0))
            );
        }
    }
}

/// A round number above `value`.
fn nice(value: f64) -> f64 {
    let unit = 10f64.powf(value.max(0.001).log10().floor());
    [1.0, 2.0, 4.0, 8.0, 10.0]
        .into_iter()
        .map(|n| n * unit)
        .find(|top| *top >= value * 1.15)
        .unwrap_or(20.0 * unit)
}
