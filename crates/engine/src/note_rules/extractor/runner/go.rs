//! Parses the output of `go test`: one line per package, and test names on failure or in verbose mode.

use super::Verdict;

pub(super) fn read(text: &str) -> Verdict {
    let mut verdict = Verdict::default();
    // Passed tests are listed only in verbose mode.
    let (mut shown, mut passed, mut failed) = (false, 0_u64, 0_u64);
    for line in text.lines() {
        let words = line.trim_start();
        if let Some(rest) = words.strip_prefix("--- FAIL: ") {
            failed += 1;
            verdict.add_failing(rest.split(" (").next().unwrap_or(rest));
        } else if words.starts_with("--- PASS: ") {
            (shown, passed) = (true, passed + 1);
        } else if let Some(package) = line.strip_prefix("FAIL\t") {
            verdict.ended = true;
            verdict.bad = true;
            verdict.broken |=
                package.contains("[build failed]") || package.contains("[setup failed]");
            verdict.add_summary_line(line);
        } else if line == "FAIL" {
            verdict.bad = true;
        } else if let Some(package) = line.strip_prefix("ok  \t") {
            let empty = package.contains("[no tests to run]");
            verdict.ended |= !empty;
            verdict.add_summary_line(line);
        } else if line.starts_with("panic: ") {
            verdict.broken = true;
        }
    }
    if shown || failed > 0 {
        verdict.failed = Some(failed);
        verdict.passed = shown.then_some(passed);
    } else if verdict.ended && !verdict.bad {
        verdict.failed = Some(0);
    }
    verdict
}
