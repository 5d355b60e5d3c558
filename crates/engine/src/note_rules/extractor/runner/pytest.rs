//! Parses the output of `pytest`.

use super::{Verdict, figures};

/// The labels in the last line.
const WORDS: [&str; 12] = [
    "passed",
    "failed",
    "error",
    "errors",
    "skipped",
    "deselected",
    "xfailed",
    "xpassed",
    "warning",
    "warnings",
    "rerun",
    "subtests passed",
];

pub(super) fn read(text: &str) -> Verdict {
    let mut verdict = Verdict::default();
    for line in text.lines() {
        if let Some(counts) = counts(line) {
            // The last count wins, in case one run shows the output of another.
            (verdict.passed, verdict.failed) = (None, None);
            verdict.ended = true;
            end(&mut verdict, counts);
            verdict.add_summary_line(line.trim_matches(['=', ' ']));
        } else if let Some(name) = failed_test(line) {
            verdict.add_failing(name);
        }
        verdict.broken |= line.starts_with("!!!") && line.contains("Interrupted");
        verdict.broken |= line.starts_with("ERROR: ") || line.starts_with("INTERNALERROR>");
    }
    verdict
}

/// `=== 1 failed, 2 passed in 0.05s ===`: the counts.
fn counts(line: &str) -> Option<&str> {
    let (counts, time) = line.trim_matches(['=', ' ']).rsplit_once(" in ")?;
    let seconds = time.split('s').next()?;
    seconds.parse::<f64>().ok()?;
    let known = |(_, what): (u64, &str)| WORDS.contains(&what);
    let all = counts.split(',').count();
    let is_count = figures(counts, ',').filter(|pair| known(*pair)).count() == all;
    (is_count || counts == "no tests ran").then_some(counts)
}

fn end(verdict: &mut Verdict, counts: &str) {
    let (mut passed, mut failed) = (0_u64, 0_u64);
    for (count, what) in figures(counts, ',') {
        match what {
            "passed" => passed = count,
            "failed" | "error" | "errors" => failed = failed.saturating_add(count),
            _ => {}
        }
    }
    verdict.count(passed, failed);
}

/// `FAILED a.py::b - why`, or `a.py::b FAILED  [ 50%]`.
fn failed_test(line: &str) -> Option<&str> {
    let named = line
        .strip_prefix("FAILED ")
        .or_else(|| line.strip_prefix("ERROR "));
    if let Some(rest) = named {
        let name = rest.split(" - ").next().unwrap_or(rest);
        return (name.contains("::") || name.contains(".py")).then_some(name);
    }
    let (name, rest) = line
        .split_once(" FAILED")
        .or_else(|| line.split_once(" ERROR"))?;
    let rest = rest.trim();
    let is_test = name.contains("::") && !name.starts_with(' ');
    let is_over = rest.is_empty() || (rest.starts_with('[') && rest.ends_with("%]"));
    (is_test && is_over).then_some(name)
}
