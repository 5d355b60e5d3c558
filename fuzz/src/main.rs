//! Runs targets without libFuzzer: `segno-fuzz TARGET|all MINUTES [SEED]`, or `segno-fuzz list`.
//!
//! A case that violates a property, takes too long, or exceeds the memory limit is written to
//! `artifacts/` under its seed, and ends the run.

#![expect(
    clippy::disallowed_methods,
    reason = "a developer tool: it runs for a given time and writes its findings to files"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use segno_fuzz::mutate::{Rng, mutate};
use segno_fuzz::target::Target;

/// Time limit of a case. No case has more than a few hundred kilobytes.
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// Memory limit of this process in MiB: for its corpus and the largest case.
const MEMORY_LIMIT: u64 = 512;
/// Memory is checked every so many cases.
const MEMORY_CHECK_INTERVAL: u64 = 256;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, otherwise: u64| {
        let word = args.get(at);
        word.and_then(|word| word.parse().ok()).unwrap_or(otherwise)
    };
    let (minutes, seed) = (number(1, 1), number(2, 1));
    let run = |target: &Target| fuzz(target, Duration::from_secs(minutes * 60), seed);
    match args.first().map(String::as_str) {
        Some("list") => {
            for target in &Target::ALL {
                println!("{}", target.name);
            }
            ExitCode::SUCCESS
        }
        Some("all") if Target::ALL.iter().all(run) => ExitCode::SUCCESS,
        Some("all") => ExitCode::FAILURE,
        Some(name) => match Target::named(name) {
            Some(target) if run(target) => ExitCode::SUCCESS,
            Some(_) => ExitCode::FAILURE,
            None => {
                eprintln!("error: unknown target `{name}`; `segno-fuzz list` lists the targets");
                ExitCode::from(2)
            }
        },
        None => {
            eprintln!("usage: segno-fuzz TARGET|all MINUTES [SEED], or segno-fuzz list");
            ExitCode::from(2)
        }
    }
}

/// Fuzzes a target for this long. Returns whether all properties held.
fn fuzz(target: &Target, time: Duration, first: u64) -> bool {
    let name = target.name;
    let corpus = (target.seeds)();
    println!(
        "{name}: seed {first}, {} seeds, {} min",
        corpus.len(),
        time.as_secs() / 60
    );
    let begun = Instant::now();
    let (mut seed, mut bytes, mut longest) = (first, 0, Duration::ZERO);
    while begun.elapsed() < time {
        let mut rng = Rng(seed);
        let mut case = mutate(&corpus, target.dictionary, &mut rng);
        (target.fix_checksums)(&mut case, &mut rng);
        bytes += case.len();
        let started = Instant::now();
        let held = catch_unwind(AssertUnwindSafe(|| (target.check)(&case)));
        longest = longest.max(started.elapsed());
        let wrong = if held.is_err() {
            Some("violates a guarantee")
        } else if longest > TIME_LIMIT {
            Some("takes too long")
        } else if seed.is_multiple_of(MEMORY_CHECK_INTERVAL) && memory() > MEMORY_LIMIT {
            Some("may have taken too much memory")
        } else {
            None
        };
        if let Some(wrong) = wrong {
            let path = store_case(name, seed, &case);
            eprintln!("{name}: seed {seed} {wrong}: {}", path.display());
            return false;
        }
        seed += 1;
    }
    println!(
        "{name}: {} cases, {} MB in {} s, slowest {} ms, peak {} MB: no violation",
        seed - first,
        bytes >> 20,
        begun.elapsed().as_secs(),
        longest.as_millis(),
        memory()
    );
    true
}

/// Peak memory of this process in MiB.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|peak| peak.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or_default() / 1024
}

fn store_case(target: &str, seed: u64, case: &[u8]) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("artifacts")
        .join(target);
    let path = folder.join(format!("seed-{seed}"));
    std::fs::create_dir_all(&folder).expect("the folder of the fuzzer can be written");
    std::fs::write(&path, case).expect("the folder of the fuzzer can be written");
    path
}
