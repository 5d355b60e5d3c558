//! Parses the output of `cargo nextest run`.

use super::{Verdict, figures};

/// The statuses of a test that did not pass.
const BAD: [&str; 9] = [
    "FAIL",
    "TIMEOUT",
    "SIGSEGV",
    "SIGABRT",
    "SIGKILL",
    "SIGTERM",
    "ABORT",
    "LEAK-FAIL",
    "SIGBUS",
];

pub(super) fn read(text: &str) -> Verdict {
    let mut verdict = Verdict::default();
    for line in text.lines() {
        let words = line.trim_start();
        if let Some(rest) = words.strip_prefix("Summary [") {
            summary(&mut verdict, rest);
            verdict.add_summary_line(words);
        } else if let Some(name) = failed_test(line) {
            verdict.add_failing(&name);
        } else if words.starts_with("error: test run failed") {
            verdict.bad = true;
        } else if line.starts_with("error:") || line.starts_with("error[") {
            verdict.broken = true;
            if line.starts_with("error: could not compile") {
                verdict.add_summary_line(line);
            }
        }
    }
    verdict
}

/// `   0.152s] 3 tests run: 2 passed (1 slow), 1 failed, 1 timed out, 1 skipped`
fn summary(verdict: &mut Verdict, rest: &str) {
    let Some((run, counts)) = rest.split_once(": ") else {
        return;
    };
    verdict.ended = true;
    // `3/5 tests run`: the run was aborted.
    let run = run.rsplit("] ").next().unwrap_or(run);
    verdict.broken |= run.split_once(' ').is_some_and(|(of, _)| of.contains('/'));
    let (mut passed, mut failed) = (0_u64, 0_u64);
    let mut depth = 0_u32;
    let outside = counts.chars().filter(|c| {
        depth = match c {
            '(' => depth + 1,
            ')' => depth.saturating_sub(1),
            _ => depth,
        };
        depth == 0 && *c != ')'
    });
    let outside: String = outside.collect();
    for (count, what) in figures(&outside, ',') {
        match what.trim() {
            "passed" => passed = count,
            "failed" | "timed out" | "exec failed" => failed = failed.saturating_add(count),
            _ => {}
        }
    }
    verdict.count(passed, failed);
}

/// `FAIL [   0.150s] (3/3) purse tests::adds`: the part after the time and the position.
fn failed_test(line: &str) -> Option<String> {
    let words = line.strip_prefix("  ")?.trim_start();
    let words = match words.strip_prefix("TRY ") {
        Some(rest) => rest.split_once(' ')?.1,
        None => words,
    };
    let (status, rest) = words.split_once(" [")?;
    if !BAD.contains(&status.trim()) {
        return None;
    }
    let (_, rest) = rest.split_once(']')?;
    let rest = rest.trim_start();
    let rest = match rest.strip_prefix('(') {
        Some(rest) => rest.split_once(')')?.1.trim_start(),
        None => rest,
    };
    Some(rest.to_owned())
}
