//! Parses the output of `jest`.

use super::{Verdict, figures};

pub(super) fn read(text: &str) -> Verdict {
    let mut verdict = Verdict::default();
    let mut suite = "";
    for line in text.lines() {
        if let Some(counts) = line.strip_prefix("Tests: ") {
            (verdict.passed, verdict.failed) = (None, None);
            verdict.ended = true;
            end(&mut verdict, counts);
            verdict.add_summary_line(line);
        } else if let Some(counts) = line.strip_prefix("Test Suites: ") {
            verdict.bad |= figures(counts, ',').any(|(count, what)| what == "failed" && count > 0);
            verdict.add_summary_line(line);
        } else if let Some(path) = line.strip_prefix("FAIL ") {
            suite = path;
        } else if let Some(name) = line.trim_start().strip_prefix("● ") {
            match name {
                "Console" => {}
                "Test suite failed to run" => verdict.add_failing(suite),
                name => verdict.add_failing(name),
            }
        }
    }
    verdict
}

fn end(verdict: &mut Verdict, counts: &str) {
    let (mut passed, mut failed) = (0, 0);
    for (count, what) in figures(counts, ',') {
        match what {
            "passed" => passed = count,
            "failed" => failed = count,
            _ => {}
        }
    }
    verdict.count(passed, failed);
}
