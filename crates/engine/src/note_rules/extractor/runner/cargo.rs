//! Parses the output of `cargo test`: libtest's lines for each test binary, and cargo's around them.

use super::{Verdict, figures};

pub(super) fn read(text: &str) -> Verdict {
    let mut verdict = Verdict::default();
    // How many test binaries started, and how many of them printed a result.
    let (mut started, mut finished) = (0_u64, 0_u64);
    let mut listing = false;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("test result: ") {
            finished += 1;
            result(&mut verdict, rest);
            verdict.add_summary_line(line);
        } else if let Some(name) = failed_test(line) {
            verdict.add_failing(name);
        } else if let Some(count) = line.strip_prefix("running ") {
            started += u64::from(count.ends_with(" tests") || count.ends_with(" test"));
        } else if line.starts_with("error: test failed") || line.ends_with(" failed:") {
            verdict.bad |= line.starts_with("error: ");
        } else if line.starts_with("error:") || line.starts_with("error[") {
            verdict.broken = true;
            if line.starts_with("error: could not compile") {
                verdict.add_summary_line(line);
            }
        }
        match line.strip_prefix("    ") {
            Some(name) if listing && !name.starts_with(' ') => verdict.add_failing(name),
            _ => listing = line == "failures:",
        }
    }
    verdict.ended = finished > 0 && finished >= started;
    verdict
}

/// `ok. 1 passed; 0 failed; …`
fn result(verdict: &mut Verdict, rest: &str) {
    let Some((word, counts)) = rest.split_once(". ") else {
        verdict.broken = true;
        return;
    };
    verdict.bad |= word == "FAILED";
    let (mut passed, mut failed) = (0, 0);
    for (count, what) in figures(counts, ';') {
        match what {
            "passed" => passed = count,
            "failed" => failed = count,
            _ => {}
        }
    }
    verdict.count(passed, failed);
}

/// `test name ... FAILED`, or `---- name stdout ----`.
fn failed_test(line: &str) -> Option<&str> {
    if let Some(rest) = line.strip_prefix("test ") {
        let name = rest.strip_suffix(" ... FAILED")?;
        return Some(name.strip_suffix(" - should panic").unwrap_or(name));
    }
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}
