//! Parses the output of `vitest`.

use super::{Verdict, figures};

pub(super) fn read(text: &str) -> Verdict {
    let mut verdict = Verdict::default();
    for line in text.lines() {
        let words = line.trim_start();
        if let Some(counts) = words.strip_prefix("Tests  ") {
            verdict.ended = true;
            end(&mut verdict, counts);
            verdict.add_summary_line(words);
        } else if let Some(counts) = words.strip_prefix("Test Files  ") {
            verdict.bad |= counted(counts).any(|(count, what)| what == "failed" && count > 0);
            verdict.add_summary_line(words);
        } else if words.starts_with("Errors  ") {
            verdict.bad = true;
            verdict.add_summary_line(words);
        } else if let Some(name) = words.strip_prefix("FAIL  ") {
            verdict.add_failing(name);
        }
    }
    verdict
}

/// `2 failed | 1 passed (3)`
fn counted(counts: &str) -> impl Iterator<Item = (u64, &str)> {
    let counts = counts.split(" (").next().unwrap_or(counts);
    figures(counts, '|')
}

fn end(verdict: &mut Verdict, counts: &str) {
    (verdict.passed, verdict.failed) = (None, None);
    let (mut passed, mut failed) = (0, 0);
    for (count, what) in counted(counts) {
        match what.trim() {
            "passed" => passed = count,
            "failed" => failed = count,
            _ => {}
        }
    }
    verdict.count(passed, failed);
}
