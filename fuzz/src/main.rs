//! Runs a target without libFuzzer: `segno-fuzz TARGET MINUTES [SEED]`.
//!
//! The golden transcripts are the corpus. What breaks a promise is written to `artifacts/`, by its
//! seed, and ends the run.

#![expect(
    clippy::disallowed_methods,
    reason = "a tool that runs by the clock and keeps what it finds"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use segno_agents::transcript::Native;
use segno_fuzz::mutate::{Chance, mutate};
use segno_fuzz::transcript::hold;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let native = match words.first().map(String::as_str) {
        Some("claude_transcript") => Native::ClaudeCode,
        Some("codex_rollout") => Native::Codex,
        _ => {
            eprintln!("usage: segno-fuzz claude_transcript|codex_rollout MINUTES [SEED]");
            return ExitCode::from(2);
        }
    };
    let number = |at: usize, otherwise: u64| {
        let word = words.get(at);
        word.and_then(|word| word.parse().ok()).unwrap_or(otherwise)
    };
    let (minutes, first) = (number(1, 1), number(2, 1));
    let corpus = corpus(native);
    println!(
        "{}: seed {first}, {} transcripts, {minutes} min",
        words[0],
        corpus.len()
    );
    let end = Instant::now() + Duration::from_secs(minutes * 60);
    let (mut seed, mut bytes) = (first, 0);
    while Instant::now() < end {
        let case = mutate(&corpus, &mut Chance(seed));
        bytes += case.len();
        if catch_unwind(AssertUnwindSafe(|| hold(native, &case))).is_err() {
            let path = keep(&words[0], seed, &case);
            eprintln!("seed {seed} breaks a promise: {}", path.display());
            return ExitCode::FAILURE;
        }
        seed += 1;
    }
    println!(
        "{}: {} cases, {} MB, nothing broke",
        words[0],
        seed - first,
        bytes >> 20
    );
    ExitCode::SUCCESS
}

fn corpus(native: Native) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../crates/agents/tests/golden")
        .join(native.name())
        .join("transcripts");
    let files = std::fs::read_dir(&folder).expect("the golden transcripts are beside this");
    let mut paths: Vec<_> = files
        .map(|file| file.expect("a folder can be listed").path())
        .collect();
    paths.sort();
    let read = |path: &PathBuf| std::fs::read(path).expect("a golden transcript can be read");
    paths.iter().map(read).collect()
}

fn keep(target: &str, seed: u64, case: &[u8]) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("artifacts")
        .join(target);
    let path = folder.join(format!("seed-{seed}"));
    std::fs::create_dir_all(&folder).expect("the folder of the fuzzer can be written");
    std::fs::write(&path, case).expect("the folder of the fuzzer can be written");
    path
}
