//! (c) A chain of steps through the real binary: what a step costs compared with the bare loop,
//! whether that stays the same in a long chain, how often it syncs and how much disk space it uses.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Instant;

use segno_testkit::sandbox::{self, Sandbox};

use crate::disk::{Disk, allocated};
use crate::figures::{Bar, Row, Samples, Table, millis};
use crate::{Plan, bare, log_progress, parts, peers};

/// The length that is compared with other tools.
const USUAL: usize = 1000;
const SHORT: usize = 100;
/// The length that the flatness bar applies to; shorter chains are shown without a verdict.
const LONGEST: usize = 100_000;

/// Writes a chain with scripted answers of 2 KB into the sandbox.
pub(crate) fn write(sandbox: &Sandbox, steps: usize) {
    let answer = parts::answer(0);
    let usage = "{input_tokens: 100, output_tokens: 20, cost_usd: 0.001}";
    sandbox.write(
        "answers.yaml",
        &format!("default: {{text: \"{answer}\", usage: {usage}}}\n"),
    );
    let runtime = "{provider: scripted, script: answers.yaml}";
    sandbox.write("chain.yaml", &sandbox::chain_spec(runtime, steps));
}

/// The results of one length, in milliseconds per step.
#[derive(Default)]
struct Length {
    ours: Samples,
    bare: Samples,
    /// The whole process, in milliseconds.
    whole: Samples,
    /// The cost of a step, divided by the cost in a short chain of the same round.
    ours_over_short: Samples,
    bare_over_short: Samples,
}

pub(crate) fn measure(plan: &Plan, disk: &mut Disk, table: &mut Table) {
    let mut lengths: BTreeMap<usize, Length> = BTreeMap::new();
    let (mut empty, mut plain) = (Samples::default(), Samples::default());
    let mut refused = BTreeSet::new();
    let mut others: BTreeMap<(String, bool), (Samples, Samples)> = BTreeMap::new();
    for round in 0..plan.rounds() {
        log_progress(&format!("  round {} of {}", round + 1, plan.rounds()));
        disk.probe();
        let (mut short, mut short_bare) = (Samples::default(), Samples::default());
        let nothing: Samples = (0..5)
            .map(|_| run(plan, 1, &["--json"]).expect("the shortest chain runs"))
            .collect();
        empty.push(nothing.median());
        for steps in turns(plan, round) {
            if refused.contains(&steps) {
                continue;
            }
            let whole = match run(plan, steps, &["--json"]) {
                Ok(whole) => whole,
                Err(reason) => {
                    table.note(format!("a chain of {steps} was not measured: {reason}"));
                    refused.insert(steps);
                    continue;
                }
            };
            let bare = bare_loop(plan, steps);
            let ours = (whole - nothing.median()) / (steps - 1) as f64;
            let length = lengths.entry(steps).or_default();
            length.whole.push(whole);
            length.ours.push(ours);
            length.bare.push(bare);
            if steps == SHORT {
                short.push(ours);
                short_bare.push(bare);
            }
            length.ours_over_short.push(ours / short.median());
            length.bare_over_short.push(bare / short_bare.median());
            if steps == USUAL {
                let lines = run(plan, steps, &[]).expect("the same chain ran before");
                plain.push((lines - nothing.median()) / (steps - 1) as f64);
                if let Some(folder) = plan.peers.as_ref().filter(|_| round < 3) {
                    let (found, reasons) = peers::round(steps, folder);
                    for peer in found {
                        let key = (peer.name, peer.durable);
                        let (baseline, floor) = others.entry(key).or_default();
                        baseline.push(peer.ms_per_step);
                        floor.push(bare);
                    }
                    if round == 0 {
                        reasons.into_iter().for_each(|reason| table.note(reason));
                    }
                }
            }
        }
    }
    tabulate(table, lengths, empty, &plain);
    for ((name, durable), (baseline, floor)) in others {
        let mark = if durable { "" } else { ", not durable" };
        let what = format!("peer: {name}{mark}");
        table.add(Row::pair("c", what, "ms", baseline, floor));
    }
    sizes(plan, table);
}

/// The lengths of a round: short chains first and repeatedly, long ones in the first rounds only.
fn turns(plan: &Plan, round: usize) -> Vec<usize> {
    let mut turns = vec![SHORT; 5];
    turns.push(USUAL);
    if round < 5 {
        turns.push(10_000);
    }
    if round < 3 && !plan.quick {
        turns.extend([40_000, LONGEST]);
    }
    turns
}

fn tabulate(table: &mut Table, lengths: BTreeMap<usize, Length>, empty: Samples, plain: &Samples) {
    let longest = lengths.keys().last().copied().unwrap_or_default();
    for (steps, length) in lengths {
        let what = format!("chain of {steps}, per step");
        let row = Row::pair("c", what, "ms", length.ours, length.bare.clone());
        table.add(if steps == USUAL {
            row.bar(Bar::AtMost(1.5))
        } else {
            row
        });
        if steps == USUAL {
            let what = format!("chain of {steps}, per step, lines instead of --json");
            table.add(Row::pair("c", what, "ms", plain.clone(), length.bare));
        }
        let what = format!("chain of {steps}, whole process");
        table.add(Row::single("c", what, "ms", length.whole));
        if steps == longest {
            let what = format!("cost of a step, {steps} over {SHORT}");
            let row = Row::single("c", what, "×", length.ours_over_short);
            table.add(if steps == LONGEST {
                row.bar(Bar::AtMost(1.1))
            } else {
                row
            });
            let what = "  the same for the bare loop";
            table.add(Row::single("c", what, "×", length.bare_over_short));
        }
    }
    table.add(Row::single("c", "chain of 1, whole process", "ms", empty));
}

/// Runs the whole process. Returns its milliseconds, or the reason why it failed.
fn run(plan: &Plan, steps: usize, options: &[&str]) -> Result<f64, String> {
    let sandbox = Sandbox::new(&plan.segno);
    write(&sandbox, steps);
    let errors = sandbox.work().join("errors");
    let mut command = sandbox.command(&["run", "chain.yaml"]);
    command
        .args(options)
        .stdout(Stdio::null())
        .stderr(File::create(&errors).unwrap());
    let begun = Instant::now();
    let status = command.status().unwrap();
    let time = millis(begun.elapsed());
    if status.success() {
        return Ok(time);
    }
    let said = std::fs::read_to_string(errors).unwrap_or_default();
    Err(said.lines().take(2).collect::<Vec<_>>().join(" "))
}

/// The cost of a step in the bare loop, in milliseconds. The batches are built before the time is
/// measured.
fn bare_loop(plan: &Plan, steps: usize) -> f64 {
    let folder = plan.fresh();
    let (_, batches) = parts::session(1, steps);
    let times = bare::one_by_one(folder.path(), &batches);
    times.into_iter().map(millis).sum::<f64>() / steps as f64
}

/// Syncs and bytes per step, as the slope between a chain of one step and a usual one, so that the
/// costs of opening and closing cancel out.
fn sizes(plan: &Plan, table: &mut Table) {
    let (one, many) = (traced(plan, 1), traced(plan, USUAL));
    let per_step = |one: f64, many: f64| Samples(vec![(many - one) / (USUAL - 1) as f64]);
    match (one.syncs, many.syncs) {
        (Some(first), Some(all)) => {
            let row = Row::single("c", "syncs per step", "", per_step(first, all));
            table.add(row.bar(Bar::AtMost(1.2)));
            table.note(format!(
                "{all} syncs in a chain of {USUAL}, {first} in a chain of 1"
            ));
        }
        _ => table.note("syncs were not counted: strace cannot be run here"),
    }
    let row = Row::single(
        "c",
        "on disk per step",
        "KB",
        per_step(one.bytes / 1024.0, many.bytes / 1024.0),
    );
    table.add(row.bar(Bar::AtMost(6.0)));
    table.note(format!(
        "the home takes {:.0} KB after a chain of {USUAL}, {:.0} KB after a chain of 1",
        many.bytes / 1024.0,
        one.bytes / 1024.0
    ));
}

struct Traced {
    syncs: Option<f64>,
    bytes: f64,
}

/// Runs a chain under strace. This run is not timed.
fn traced(plan: &Plan, steps: usize) -> Traced {
    let sandbox = Sandbox::new(&plan.segno);
    write(&sandbox, steps);
    let report = sandbox.work().join("syncs");
    let mut strace = Command::new("strace");
    sandbox.set_env(&mut strace);
    strace
        .args([
            "-f",
            "-c",
            "-e",
            "trace=fsync,fdatasync,sync_file_range,msync",
            "-o",
        ])
        .arg(&report)
        .arg(sandbox.binary())
        .args(["run", "chain.yaml"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let traced = strace.status().is_ok_and(|status| status.success());
    if !traced {
        sandbox.segno(&["run", "chain.yaml"]).expect_success();
    }
    let count = |report: String| -> f64 {
        let rows = report.lines().filter(|line| line.contains("sync"));
        rows.filter_map(|line| line.split_whitespace().nth(3)?.parse::<f64>().ok())
            .sum()
    };
    Traced {
        syncs: traced.then(|| count(std::fs::read_to_string(report).unwrap_or_default())),
        bytes: allocated(&sandbox.home()) as f64,
    }
}
