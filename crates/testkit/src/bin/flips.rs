//! Flips every bit of a small store, one at a time, and reports the effect of each flip.
//!
//! `flips [--segno PATH] [--sample N] [--seed S] [--bits N] [--only TEXT] [--leaves log|database]
//! [--folder DIR] [--at BYTE] [--part sessions|checkpoints]`
//!
//! Without `--sample`, it flips all bits of the database, its log and the acknowledgement markers,
//! and one bit of every 64th byte of the blob, which is hashed as a whole. `--bits` flips only so
//! many bits of each byte, `--only` restricts it to files whose path contains this text; `--at`
//! flips one byte and prints everything. Exits with 1 if any answer changed.
//!
//! Then it does the same with the files of checkpoints, and also truncates them at every byte:
//! whatever `checkpoint verify` does not name must be restored unchanged.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a developer tool: it reports errors by panicking, and prints for humans"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use segno_testkit::clock::Seeded;
use segno_testkit::damage::checkpoints::{CheckpointSpecimen, CheckpointVerdict, Judge};
use segno_testkit::damage::{AfterKill, Damage, Depth, Specimen, StoreCopy, Verdict};

/// How many examples of each kind are shown.
const EXAMPLES: usize = 3;

struct Options {
    binary: PathBuf,
    sample: Option<usize>,
    seed: u64,
    folder: Option<PathBuf>,
    only: Option<String>,
    bits: u8,
    at: Option<usize>,
    stores: Vec<AfterKill>,
    checkpoints: bool,
}

fn parse_options() -> Options {
    let beside = std::env::current_exe().unwrap();
    let mut options = Options {
        binary: beside.with_file_name("segno"),
        sample: None,
        seed: u64::from(std::process::id()),
        folder: None,
        only: None,
        bits: 8,
        at: None,
        stores: vec![AfterKill::Log, AfterKill::Database],
        checkpoints: true,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words
            .next()
            .unwrap_or_else(|| panic!("`{word}` needs a value"));
        match word.as_str() {
            "--segno" => options.binary = value.into(),
            "--sample" => options.sample = Some(value.parse().unwrap()),
            "--seed" => options.seed = value.parse().unwrap(),
            "--folder" => options.folder = Some(value.into()),
            "--at" => options.at = Some(value.parse().unwrap()),
            "--bits" => options.bits = value.parse().unwrap(),
            "--only" => options.only = Some(value),
            "--leaves" if value == "log" => options.stores = vec![AfterKill::Log],
            "--leaves" => options.stores = vec![AfterKill::Database],
            "--part" if value == "checkpoints" => options.stores.clear(),
            "--part" => options.checkpoints = false,
            _ => panic!("unknown option `{word}`"),
        }
    }
    options
}

#[derive(Default)]
struct Row {
    flips: u64,
    found: u64,
    refused: u64,
    without_effect: u64,
    changed: u64,
    nothing_usable: u64,
    spread: u64,
}

#[derive(Default)]
struct Tally {
    rows: BTreeMap<PathBuf, Row>,
    examples: BTreeMap<String, (u64, Vec<String>)>,
}

impl Tally {
    fn count(&mut self, damage: &Damage, verdict: &Verdict) {
        let row = self.rows.entry(damage.file()).or_default();
        row.flips += 1;
        row.found += u64::from(verdict.found);
        row.refused += u64::from(!verdict.refused.is_empty());
        row.without_effect += u64::from(verdict.without_effect());
        row.changed += u64::from(!verdict.changed.is_empty());
        row.nothing_usable += u64::from(verdict.nothing_usable);
        row.spread += u64::from(verdict.spread);
        for changed in &verdict.changed {
            self.show(&format!("CHANGED: {changed}"), damage, changed);
        }
        if verdict.spread {
            self.show("spread by the resume", damage, "");
        }
        if let (Some((question, reason)), false) = (verdict.refused.iter().next(), verdict.found) {
            let text = format!("{question}: {reason}");
            self.show("refused on use, but not found by doctor", damage, &text);
        }
        if let (Some(reason), true) = (verdict.refused.values().next(), verdict.nothing_usable) {
            // The text of the schema can break in as many ways as it has letters.
            let reason = reason.split(" (").next().unwrap_or_default();
            self.show(&format!("no session usable: {reason}"), damage, "");
        }
    }

    /// Counts a kind of outcome. Kinds are compared by their words without numbers and identifiers.
    fn show(&mut self, kind: &str, damage: &Damage, text: &str) {
        let word = |word: &str| !word.contains(|c: char| c.is_ascii_digit() || c == '/');
        let words: Vec<&str> = kind.split_whitespace().filter(|w| word(w)).collect();
        let kind = words.join(" ").chars().take(240).collect();
        let (count, examples) = self.examples.entry(kind).or_default();
        *count += 1;
        if examples.len() < EXAMPLES {
            examples.push(format!("{damage:?} {text}"));
        }
    }

    fn print(&self) {
        println!(
            "{:<44} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
            "file", "flips", "doctor", "refused", "none", "CHANGED", "unusable", "spread"
        );
        for (file, row) in &self.rows {
            let name: String = file.display().to_string().chars().take(44).collect();
            println!(
                "{name:<44} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
                row.flips,
                row.found,
                row.refused,
                row.without_effect,
                row.changed,
                row.nothing_usable,
                row.spread
            );
        }
        for (kind, (count, examples)) in &self.examples {
            println!("\n{count:>8} {kind}");
            examples
                .iter()
                .for_each(|example| println!("           {example}"));
        }
    }
}

fn all_flips(specimen: &Specimen, only: Option<&str>, bits: u8) -> Vec<Damage> {
    let mut flips = Vec::new();
    for file in specimen.targets() {
        if only.is_some_and(|only| !file.to_string_lossy().contains(only)) {
            continue;
        }
        let blob = file.starts_with("blobs");
        let (step, bits) = if blob { (64, 1) } else { (1, bits) };
        for byte in (0..specimen.files[&file].len()).step_by(step) {
            for turn in 0..bits {
                let bit = first_bit(byte).wrapping_add(turn) % 8;
                let file = file.clone();
                flips.push(Damage::Flip { file, byte, bit });
            }
        }
    }
    flips
}

/// The first bit of a byte to flip: all eight take turns.
fn first_bit(byte: usize) -> u8 {
    u8::try_from(byte % 8).unwrap()
}

/// Resumes for one bit of every byte; only reads for the others.
fn depth(damage: &Damage, sampled: bool) -> Depth {
    match damage {
        Damage::Flip { byte, bit, .. } if !sampled && first_bit(*byte) != *bit => Depth::Reading,
        _ if sampled => Depth::Whole,
        _ => Depth::Needed,
    }
}

fn judge_flips(specimen: &Specimen, flips: &[Damage], options: &Options) -> Tally {
    let (next, tally) = (AtomicUsize::new(0), Mutex::new(Tally::default()));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let copy = options
                    .folder
                    .as_deref()
                    .map_or_else(StoreCopy::new, StoreCopy::within);
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(damage) = flips.get(index) else {
                        break;
                    };
                    let depth = depth(damage, options.sample.is_some());
                    let verdict = specimen.judge(&copy, damage, depth);
                    for changed in &verdict.changed {
                        eprintln!("CHANGED {damage:?} {changed}");
                    }
                    tally.lock().unwrap().count(damage, &verdict);
                    if index.is_multiple_of(5_000) {
                        let rate = index as f64 / begun.elapsed().as_secs_f64();
                        eprintln!("{index} of {} ({rate:.0} per second)", flips.len());
                    }
                }
            });
        }
    });
    tally.into_inner().unwrap()
}

fn main() -> ExitCode {
    let options = parse_options();
    println!("seed {}", options.seed);
    let rng = Seeded::new(options.seed);
    let mut changed = false;
    for leaves in &options.stores {
        let specimen = Specimen::make(Path::new(&options.binary), *leaves);
        let flips = match options.sample {
            Some(count) => (0..count).map(|_| specimen.random_damage(&rng)).collect(),
            None => all_flips(&specimen, options.only.as_deref(), options.bits),
        };
        if let Some(at) = options.at {
            let there =
                |damage: &&Damage| matches!(damage, Damage::Flip { byte, .. } if *byte == at);
            for damage in flips.iter().filter(there) {
                let verdict = specimen.judge(&StoreCopy::new(), damage, Depth::Whole);
                println!("{damage:?}: {verdict:#?}");
            }
            continue;
        }
        let begun = Instant::now();
        let tally = judge_flips(&specimen, &flips, &options);
        println!("\nstore after the kill: {leaves:?}, {:?}", begun.elapsed());
        tally.print();
        changed |= tally.rows.values().any(|row| row.changed > 0);
    }
    if options.checkpoints {
        changed |= checkpoints(&options, &rng);
    }
    ExitCode::from(u8::from(changed))
}

/// The real binary also judges one of so many damages.
const BY_BINARY: usize = 97;

/// The results of the damages to one kind of file.
#[derive(Default)]
struct Line {
    damages: u64,
    named: u64,
    harmless: u64,
    wrong: u64,
}

/// Damages the files of checkpoints. Returns true if anything is wrong.
fn checkpoints(options: &Options, rng: &Seeded) -> bool {
    let specimen = CheckpointSpecimen::make(&options.binary);
    let is_meant = |damage: &Damage| {
        let only = options.only.as_deref().unwrap_or_default();
        let at = options
            .at
            .is_none_or(|at| matches!(damage, Damage::Flip { byte, .. } if *byte == at));
        at && damage.file().to_string_lossy().contains(only)
    };
    let damages: Vec<Damage> = match options.sample {
        Some(count) => (0..count).map(|_| specimen.random_damage(rng)).collect(),
        None => specimen
            .damages(options.bits)
            .into_iter()
            .filter(is_meant)
            .collect(),
    };
    let (next, lines) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let (begun, by_binary) = (Instant::now(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let judge = Judge::new(&specimen);
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(damage) = damages.get(index) else {
                        break;
                    };
                    let verdict = judge.judge(damage);
                    count(&mut lines.lock().unwrap(), damage, &verdict);
                    if index.is_multiple_of(BY_BINARY) {
                        by_binary.fetch_add(1, Ordering::Relaxed);
                        let verdict = judge.judge_binary(damage);
                        count(&mut lines.lock().unwrap(), damage, &verdict);
                    }
                }
            });
        }
    });
    println!("\ncheckpoints, {:?}", begun.elapsed());
    let heads = ["file", "damages", "named", "harmless", "WRONG"];
    println!(
        "{:<24} {:>8} {:>8} {:>8} {:>8}",
        heads[0], heads[1], heads[2], heads[3], heads[4]
    );
    let mut all = Line::default();
    for (kind, line) in lines.into_inner().unwrap() {
        let Line {
            damages,
            named,
            harmless,
            wrong,
        } = line;
        println!("{kind:<24} {damages:>8} {named:>8} {harmless:>8} {wrong:>8}");
        all.damages += damages;
        all.named += named;
        all.harmless += harmless;
        all.wrong += wrong;
    }
    println!(
        "checkpoints: damages {} (of these {} by the binary), named {}, harmless {}, wrong {}",
        all.damages,
        by_binary.into_inner(),
        all.named,
        all.harmless,
        all.wrong
    );
    all.wrong > 0
}

fn count(lines: &mut BTreeMap<String, Line>, damage: &Damage, verdict: &CheckpointVerdict) {
    let file = damage.file();
    let mut parts: Vec<_> = file.iter().map(|part| part.to_string_lossy()).collect();
    parts.truncate(if parts[0] == "snapshots" { 2 } else { 1 });
    let line = lines.entry(parts.join("/")).or_default();
    line.damages += 1;
    line.named += u64::from(!verdict.reported.is_empty());
    line.harmless += u64::from(verdict.reported.is_empty());
    if !verdict.violations.is_empty() {
        line.wrong += 1;
        eprintln!("WRONG {damage:?}: {:?}", verdict.violations);
    }
}
