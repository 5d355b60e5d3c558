use super::*;
use crate::note_rules::extractor::output::plain;
use crate::note_rules::extractor::shell::commands;

macro_rules! golden {
    ($name:literal) => {
        include_str!(concat!("../../../../tests/golden/runners/", $name, ".txt"))
    };
}

/// A runner, its output, how many tests passed and failed, and which failed.
type Case<'a> = (Runner, &'a str, Option<u64>, u64, &'a [&'a str]);

fn read(runner: Runner, text: &str) -> Verdict {
    runner.read(&plain(text), View::Whole)
}

fn runner(line: &str) -> Option<Runner> {
    commands(line).iter().find_map(Runner::of)
}

#[test]
fn test_commands_are_recognized() {
    let known = [
        ("cargo test -p core", Runner::Cargo),
        ("cargo +nightly -q t --lib", Runner::Cargo),
        ("cargo nextest run --no-fail-fast", Runner::Nextest),
        ("cargo llvm-cov nextest run", Runner::Nextest),
        ("bash -lc \"cd x && cargo test\"", Runner::Cargo),
        ("timeout 60 pytest -q", Runner::Pytest),
        (
            "PYTHONPATH=. .venv/bin/python3 -m pytest tests | tail -5",
            Runner::Pytest,
        ),
        ("uv run pytest", Runner::Pytest),
        ("coverage run -m pytest", Runner::Pytest),
        ("npx jest --ci", Runner::Jest),
        ("npx --yes vitest run", Runner::Vitest),
        ("node_modules/.bin/vitest", Runner::Vitest),
        ("pnpm exec vitest run", Runner::Vitest),
        ("yarn jest", Runner::Jest),
        ("go test ./...", Runner::Go),
        ("npm test", Runner::Any),
        ("npm run test:unit -- --ci", Runner::Any),
        ("make -j4 check", Runner::Any),
        ("./run-tests.sh", Runner::Any),
        ("bash scripts/test.sh", Runner::Any),
    ];
    for (line, expected) in known {
        assert_eq!(runner(line), Some(expected), "{line}");
    }
}

#[test]
fn lookalike_commands_are_not_test_runs() {
    for line in [
        "cat test-output.txt",
        "echo cargo test",
        "grep -rn pytest .",
        "cargo build --tests",
        "cargo test --no-run",
        "cargo run --bin test",
        "cargo nextest list",
        "pytest --collect-only",
        "go vet ./...",
        "npm install jest",
        "pip install pytest",
        "test -f Cargo.toml",
        "make install",
        "git commit -m 'cargo test passes'",
        "cat > run.sh <<EOF\ncargo test\nEOF",
        "python -m http.server",
        "less tests/test",
    ] {
        assert_eq!(runner(line), None, "{line}");
    }
}

#[test]
fn failures_are_parsed_from_real_runner_output() {
    let py = [
        "test_purse.py::test_adds",
        "test_purse.py::test_each[2]",
        "test_purse.py::test_needs",
    ];
    let js = ["purse › adds", "alone"];
    let vi = ["purse.test.js > purse > adds", "purse.test.js > alone"];
    let go = ["TestAdds", "TestEach", "TestEach/two"];
    let rs = ["tests::adds"];
    let nextest = ["purse tests::adds"];
    let cases: [Case<'_>; 12] = [
        (Runner::Cargo, golden!("cargo-red"), Some(1), 1, &rs),
        (Runner::Cargo, golden!("cargo-red-quiet"), Some(2), 1, &rs),
        (
            Runner::Nextest,
            golden!("nextest-red"),
            Some(2),
            1,
            &nextest,
        ),
        (
            Runner::Nextest,
            golden!("nextest-red-colour"),
            Some(2),
            1,
            &nextest,
        ),
        (Runner::Pytest, golden!("pytest-red"), Some(2), 3, &py),
        (Runner::Pytest, golden!("pytest-red-quiet"), Some(2), 3, &py),
        (
            Runner::Pytest,
            golden!("pytest-red-colour"),
            Some(2),
            3,
            &py,
        ),
        (Runner::Jest, golden!("jest-red"), Some(2), 2, &js),
        (Runner::Jest, golden!("jest-red-colour"), Some(2), 2, &js),
        (Runner::Vitest, golden!("vitest-red"), Some(2), 2, &vi),
        (
            Runner::Vitest,
            golden!("vitest-red-colour"),
            Some(2),
            2,
            &vi,
        ),
        (Runner::Go, golden!("go-red"), None, 3, &go),
    ];
    for (runner, text, passed, failed, failing) in cases {
        for runner in [runner, Runner::Any] {
            let verdict = read(runner, text);
            assert!(
                verdict.is_red() && !verdict.is_clean(),
                "{runner:?} {verdict:?}\n{text}"
            );
            assert_eq!(verdict.failed, Some(failed), "{runner:?} {text}");
            assert_eq!(verdict.passed, passed, "{runner:?} {text}");
            let mut sorted = verdict.failing.clone();
            let mut expected = failing.to_vec();
            sorted.sort();
            expected.sort_unstable();
            assert_eq!(sorted, expected, "{runner:?} {text}");
            assert!(!verdict.summary.is_empty(), "{text}");
        }
    }
    let verdict = read(Runner::Go, golden!("go-red-verbose"));
    assert_eq!((verdict.passed, verdict.failed), (Some(3), Some(3)));
}

#[test]
fn success_is_parsed_from_real_runner_output() {
    let cases = [
        (Runner::Cargo, golden!("cargo-green"), Some(3)),
        (Runner::Nextest, golden!("nextest-green"), Some(3)),
        (Runner::Pytest, golden!("pytest-green"), Some(1)),
        (Runner::Pytest, golden!("pytest-green-quiet"), Some(1)),
        (Runner::Jest, golden!("jest-green"), Some(1)),
        (Runner::Vitest, golden!("vitest-green"), Some(1)),
        (Runner::Go, golden!("go-green"), None),
        (Runner::Go, golden!("go-green-verbose"), Some(1)),
    ];
    for (runner, text, passed) in cases {
        for runner in [runner, Runner::Any] {
            let verdict = read(runner, text);
            assert!(verdict.is_clean(), "{runner:?} {verdict:?}\n{text}");
            assert_eq!(
                (verdict.passed, verdict.failed),
                (passed, Some(0)),
                "{text}"
            );
        }
    }
}

#[test]
fn broken_runs_are_not_clean() {
    for (runner, text) in [
        (Runner::Cargo, golden!("cargo-broken")),
        (Runner::Nextest, golden!("nextest-broken")),
        (Runner::Pytest, golden!("pytest-broken")),
        (Runner::Pytest, golden!("pytest-none")),
        (Runner::Jest, golden!("jest-broken")),
        (Runner::Vitest, golden!("vitest-broken")),
        (Runner::Go, golden!("go-broken")),
        (Runner::Cargo, ""),
        (Runner::Any, "all tests passed, believe me"),
    ] {
        for runner in [runner, Runner::Any] {
            assert!(!read(runner, text).is_clean(), "{runner:?} {text}");
        }
    }
    let broken = read(Runner::Cargo, golden!("cargo-broken"));
    assert!(
        !broken.is_red(),
        "that it does not compile is no failing test"
    );
    assert!(broken.summary[0].starts_with("error: could not compile"));
    assert_eq!(
        read(Runner::Jest, golden!("jest-broken")).failing,
        ["./broken.test.js"]
    );
}

/// Wherever output is cut, success is never reported unless the runner's final result is there.
#[test]
fn truncated_output_is_never_clean() {
    let cases = [
        (Runner::Cargo, golden!("cargo-red")),
        (Runner::Nextest, golden!("nextest-red")),
        (Runner::Pytest, golden!("pytest-red")),
        (Runner::Jest, golden!("jest-red")),
        (Runner::Vitest, golden!("vitest-red")),
        (Runner::Go, golden!("go-red")),
    ];
    for (runner, text) in cases {
        let ends = text.match_indices(['\n', ' ']).map(|(at, _)| at);
        for at in ends {
            for runner in [runner, Runner::Any] {
                assert!(
                    !read(runner, &text[..at]).is_clean(),
                    "{runner:?} {}",
                    &text[..at]
                );
            }
        }
    }
    let green = golden!("cargo-green");
    let second = green.find("Running tests").unwrap();
    let partial_end = green[second..].find("running 1 test").unwrap() + second + 20;
    assert!(!read(Runner::Cargo, &green[..partial_end]).is_clean());
    let cut = format!("{green}\n[cut: these are the first 9 of 99 bytes]");
    assert!(!read(Runner::Cargo, &cut).is_clean());
    let middle = format!("… 99 lines truncated …\n{green}");
    let verdict = read(Runner::Cargo, &middle);
    assert!(verdict.is_clean());
    assert_eq!(verdict.passed, None, "how many passed before is not known");
}

#[test]
fn filtered_output_proves_only_failures() {
    let green = golden!("pytest-green");
    assert!(Runner::Pytest.read(green, View::End).is_clean());
    assert!(!Runner::Pytest.read(green, View::Part).is_clean());
    assert!(
        Runner::Pytest
            .read(golden!("pytest-red"), View::Part)
            .is_red()
    );
    assert_eq!(
        Runner::Cargo.read(golden!("cargo-green"), View::End).passed,
        None
    );
}
