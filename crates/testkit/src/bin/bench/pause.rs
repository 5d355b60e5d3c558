//! (h) Pausing and resuming a session of 1,000 steps in a workspace of 5,000 files: from the end of
//! a step to the durable checkpoint, and from the command to the start of the first step. And the
//! time to build the resume context of a session of 100,000 events.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Instant;

use segno_sessions::resume_context;
use segno_testkit::sandbox::Sandbox;

use crate::disk::Disk;
use crate::figures::{Bar, Row, Samples, Table, millis};
use crate::{Plan, chain, log_progress, long, parts};

const STEPS: usize = 1000;
const FILES: usize = 5000;
/// How many files change between two pauses.
const EDITS: usize = 15;
const EVENTS: usize = 100_000;

pub(crate) fn measure(plan: &Plan, disk: &mut Disk, table: &mut Table) {
    pause_and_resume(plan, disk, table);
    resume_contexts(plan, disk, table);
}

fn pause_and_resume(plan: &Plan, disk: &mut Disk, table: &mut Table) {
    let rounds = if plan.quick { 8 } else { 24 };
    let sandbox = Sandbox::new(&plan.segno);
    chain::write(&sandbox, STEPS + rounds + 1);
    let spec = sandbox.read("chain.yaml");
    let write_spec = |steps: usize| {
        let policy = format!(
            "continuity: {{pause: {{after_steps: {steps}}}, checkpoint: {{on: [pause]}}}}\npattern:"
        );
        sandbox.write("chain.yaml", &spec.replacen("pattern:", &policy, 1));
    };
    (0..FILES).for_each(|number| edit(&sandbox.work(), number, 0));
    write_spec(STEPS);
    log_progress(&format!("  running {STEPS} steps beside {FILES} files"));
    let first = Timed::new(&sandbox, &["run", "chain.yaml", "--json"], STEPS);
    write_spec(1);
    let (mut paused, mut resumed, mut walked) =
        (Samples::default(), Samples::default(), Samples::default());
    for round in 1..=rounds {
        disk.probe();
        (0..EDITS).for_each(|number| edit(&sandbox.work(), number * 331, round));
        let begun = Instant::now();
        assert!(count_files(&sandbox.work()) >= FILES);
        walked.push(millis(begun.elapsed()));
        let timed = Timed::new(&sandbox, &["resume", "--json"], 1);
        resumed.push(timed.to_first);
        paused.push(timed.to_end);
    }
    let of = |what: &str| format!("{STEPS} steps, {FILES} files: {what}");
    let first = Row::single(
        "h",
        of("first pause, step done to checkpoint"),
        "ms",
        [first.to_end].into_iter().collect(),
    );
    table.add(first.bar(Bar::AtMost(150.0)));
    let what = of(&format!("pause, {EDITS} files edited"));
    table.add(Row::single("h", what, "ms", paused).bar(Bar::AtMost(150.0)));
    table.add(Row::single(
        "h",
        "  for comparison: a walk that stats every file",
        "ms",
        walked,
    ));
    let what = of("resume, from command to first step");
    table.add(Row::single("h", what, "ms", resumed).bar(Bar::AtMost(100.0)));
}

/// A process that runs `steps` steps and then pauses. Times are in milliseconds.
struct Timed {
    /// From the start of the process to its first step.
    to_first: f64,
    /// From the end of the last step to the end of the process.
    to_end: f64,
}

impl Timed {
    fn new(sandbox: &Sandbox, words: &[&str], steps: usize) -> Self {
        let begun = Instant::now();
        let mut child: Child = sandbox
            .command(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (mut to_first, mut done, mut last) = (None, 0, begun);
        let stdout = child.stdout.take().unwrap();
        for line in BufReader::new(stdout).lines() {
            let line = line.unwrap();
            if line.contains("\"step_started\"") {
                to_first.get_or_insert_with(|| millis(begun.elapsed()));
            }
            if line.contains("\"step_finished\"") {
                (done, last) = (done + 1, Instant::now());
            }
        }
        let status = child.wait().unwrap();
        let to_end = millis(last.elapsed());
        assert_eq!((status.code(), done), (Some(130), steps), "the run paused");
        Self {
            to_first: to_first.unwrap(),
            to_end,
        }
    }
}

/// Writes one of the files, a little over 4 KB.
fn edit(folder: &Path, number: usize, round: usize) {
    let folder = folder.join(format!("src/{}", number / 100));
    fs::create_dir_all(&folder).unwrap();
    let text = format!("{round} of {number}; {}", parts::answer(number).repeat(2));
    fs::write(folder.join(format!("{number}.txt")), text).unwrap();
}

/// Reads the metadata of every file; returns how many there are.
fn count_files(folder: &Path) -> usize {
    let mut found = 0;
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let metadata = entry.metadata().unwrap();
        found += if metadata.is_dir() {
            count_files(&entry.path())
        } else {
            1
        };
    }
    found
}

fn resume_contexts(plan: &Plan, disk: &mut Disk, table: &mut Table) {
    let sandbox = Sandbox::new(&plan.segno);
    let root = sandbox.home().parent().unwrap().to_owned();
    log_progress(&format!("  creating a session of {EVENTS} events"));
    let session = long::make(&root, EVENTS);
    let runtime = parts::runtime();
    let (mut compiled, mut shown) = (Samples::default(), Samples::default());
    for _ in 0..15 {
        disk.probe();
        let env = parts::env(parts::store(&root));
        let begun = Instant::now();
        let resume_context = runtime.block_on(async {
            let summary = env.store.summary(session).await.unwrap();
            resume_context::collect(&env, summary)
                .await
                .unwrap()
                .compile()
        });
        compiled.push(millis(begun.elapsed()));
        assert!(resume_context.text().contains("## Next"));
        drop(env);
        let begun = Instant::now();
        sandbox
            .segno(&["context", &session.to_string()])
            .expect_success();
        shown.push(millis(begun.elapsed()));
    }
    let of = |what: &str| format!("{EVENTS} events: {what}");
    table.add(
        Row::single("h", of("building the resume context"), "ms", compiled).bar(Bar::AtMost(50.0)),
    );
    table.add(Row::single("h", of("segno context"), "ms", shown));
}
