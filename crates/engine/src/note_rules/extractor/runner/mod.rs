//! Test runners: recognizes their commands and parses their output.
//!
//! Each submodule parses the output of one runner. None of them reports success unless the runner
//! finished and printed it.

mod cargo;
mod go;
mod jest;
mod nextest;
mod pytest;
mod vitest;

use segno_core::note::MAX_ITEMS;

use super::output::cut;
use super::shell::Simple;

/// How many summary lines are stored, and how long each may be.
const LINES: usize = 3;
const LINE: usize = 300;

/// The maximum length of a test's name.
const NAME: usize = 300;

/// Markers of omitted output.
const CUTS: [&str; 5] = [
    "<persisted-output>",
    "[cut: these are the first",
    "truncated",
    "[output cut",
    "Output too large",
];

/// A program that runs tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runner {
    Cargo,
    Nextest,
    Pytest,
    Jest,
    Vitest,
    Go,
    /// A command that runs some other runner, which its output reveals.
    Any,
}

/// How much of a runner's output is visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    Whole,
    /// The last lines.
    End,
    /// Some lines.
    Part,
}

/// The parsed result of a test run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) passed: Option<u64>,
    pub(crate) failed: Option<u64>,
    pub(crate) failing: Vec<String>,
    pub(crate) summary: Vec<String>,
    /// The runner printed its final result.
    ended: bool,
    /// The runner reported failures, whether or not it named them.
    bad: bool,
    /// The runner could not run the tests, or not all of them.
    broken: bool,
}

impl Verdict {
    /// Whether tests fail.
    pub(crate) fn is_red(&self) -> bool {
        self.bad || !self.failing.is_empty() || self.failed.is_some_and(|count| count > 0)
    }

    /// Whether all tests passed, and at least one did.
    pub(crate) fn is_clean(&self) -> bool {
        self.ended && !self.broken && !self.is_red() && self.passed != Some(0)
    }

    /// Whether the output contains no result.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn add_failing(&mut self, name: &str) {
        let name = cut(name.trim(), NAME);
        if !name.is_empty() && self.failing.len() < MAX_ITEMS && !self.failing.contains(&name) {
            self.failing.push(name);
        }
    }

    fn add_summary_line(&mut self, line: &str) {
        if self.summary.len() >= LINES {
            self.summary.remove(0);
        }
        self.summary.push(cut(line.trim(), LINE));
    }

    fn count(&mut self, passed: u64, failed: u64) {
        let add = |sum: &mut Option<u64>, more: u64| {
            *sum = Some(sum.unwrap_or_default().saturating_add(more));
        };
        add(&mut self.passed, passed);
        add(&mut self.failed, failed);
    }

    /// Merges the results of two runs in one command.
    pub(crate) fn and(mut self, other: &Self) -> Self {
        for name in &other.failing {
            self.add_failing(name);
        }
        for line in &other.summary {
            self.add_summary_line(line);
        }
        if let (Some(passed), Some(failed)) = (other.passed, other.failed) {
            self.count(passed, failed);
        }
        self.ended &= other.ended;
        self.bad |= other.bad;
        self.broken |= other.broken;
        self
    }
}

impl Runner {
    /// The test runner that a command starts, if any.
    pub(crate) fn of(simple: &Simple) -> Option<Self> {
        Self::of_words(&simple.words, 0)
    }

    fn of_words(words: &[String], depth: usize) -> Option<Self> {
        let (first, rest) = words.split_first()?;
        let program = first.rsplit('/').next().unwrap_or(first);
        let stem = program.split('.').next().unwrap_or(program);
        let plain = |word: &&String| !word.starts_with(['-', '+']);
        let verb = rest.iter().find(plain).map_or("", String::as_str);
        let inner = |skip: usize| {
            let at = rest.iter().position(|word| !word.starts_with('-'))? + skip;
            Self::of_words(rest.get(at..)?, depth + 1).filter(|_| depth < 4)
        };
        let module = |words: &[String]| {
            let at = words.iter().position(|word| word == "-m")?;
            Self::of_words(words.get(at + 1..)?, depth + 1).filter(|_| depth < 4)
        };
        match program {
            "cargo" | "cargo-nextest" => cargo_verb(rest),
            "pytest" | "py.test" | "pytest-3" => {
                lists_only(rest, &["--collect-only", "--co"], Self::Pytest)
            }
            "jest" => lists_only(rest, &["--listTests"], Self::Jest),
            "vitest" if verb == "list" => None,
            "vitest" => Some(Self::Vitest),
            "go" if verb == "test" => lists_only(rest, &["-list", "-c"], Self::Go),
            "npx" | "bunx" | "pnpx" => inner(0),
            "uv" | "poetry" | "pipenv" | "hatch" | "pdm" | "rye" if verb == "run" => inner(1),
            "npm" | "yarn" | "pnpm" | "bun" => script_verb(rest).or_else(|| match verb {
                "exec" | "dlx" | "x" => inner(1),
                "jest" | "vitest" => inner(0),
                _ => None,
            }),
            "make" | "gmake" | "just" | "task" | "ninja" => {
                let mut targets = rest.iter().filter(plain);
                targets.any(|word| is_test_word(word)).then_some(Self::Any)
            }
            "tox" | "nox" => Some(Self::Any),
            "coverage" => module(rest),
            _ if program.starts_with("python") || program == "py" => module(rest),
            // A script whose name says that it runs tests. `test` alone is a shell builtin.
            _ if first.contains('/') && is_test_script(stem) => Some(Self::Any),
            "bash" | "sh" | "node" => {
                let script = rest.iter().find(plain)?;
                let name = script.rsplit('/').next()?.split('.').next()?;
                is_test_script(name).then_some(Self::Any)
            }
            _ => None,
        }
    }

    /// Parses the output of a run.
    pub(crate) fn read(self, text: &str, view: View) -> Verdict {
        let mut verdict = self.parse_output(text);
        // The output after the last gap must report success by itself.
        let gap = CUTS.iter().filter_map(|sign| text.rfind(sign)).max();
        let after = gap.map(|at| self.parse_output(&text[at..]));
        if after.is_some_and(|after| !after.is_clean()) || view == View::Part {
            verdict.ended = false;
        }
        if !self.reports_totals() && (gap.is_some() || view != View::Whole) {
            verdict.passed = None;
            verdict.failed = None;
        }
        verdict
    }

    fn parse_output(self, text: &str) -> Verdict {
        match self {
            Self::Cargo => cargo::read(text),
            Self::Nextest => nextest::read(text),
            Self::Pytest => pytest::read(text),
            Self::Jest => jest::read(text),
            Self::Vitest => vitest::read(text),
            Self::Go => go::read(text),
            Self::Any => {
                // Nextest quotes the output of cargo's test harness, so it comes first.
                let known = [
                    nextest::read,
                    cargo::read,
                    pytest::read,
                    vitest::read,
                    jest::read,
                    go::read,
                ];
                let read = known.into_iter().map(|read| read(text));
                let verdicts: Vec<Verdict> = read.filter(|verdict| !verdict.is_empty()).collect();
                let ended = verdicts.iter().position(|verdict| verdict.ended);
                verdicts
                    .into_iter()
                    .nth(ended.unwrap_or(0))
                    .unwrap_or_default()
            }
        }
    }

    /// Whether the runner ends with totals for everything that it ran.
    fn reports_totals(self) -> bool {
        matches!(
            self,
            Self::Nextest | Self::Pytest | Self::Jest | Self::Vitest
        )
    }
}

fn cargo_verb(words: &[String]) -> Option<Runner> {
    if words
        .iter()
        .any(|word| word == "--no-run" || word == "--list")
    {
        return None;
    }
    let mut verbs = words.iter().filter(|word| !word.starts_with(['-', '+']));
    match verbs.next()?.as_str() {
        "test" | "t" => Some(Runner::Cargo),
        "nextest" => match verbs.next().map(String::as_str) {
            Some("run" | "r") => Some(Runner::Nextest),
            _ => None,
        },
        "llvm-cov" | "careful" | "hack" | "miri" => cargo_verb(&verbs.cloned().collect::<Vec<_>>()),
        _ => None,
    }
}

/// `npm test`, `npm run test:unit`.
fn script_verb(words: &[String]) -> Option<Runner> {
    let mut verbs = words.iter().filter(|word| !word.starts_with('-'));
    let first = verbs.next()?;
    let script = if first == "run" || first == "run-script" {
        verbs.next()?
    } else {
        first
    };
    let short = first == "t" || first == "tst";
    (short || is_test_word(script)).then_some(Runner::Any)
}

fn lists_only(words: &[String], flags: &[&str], runner: Runner) -> Option<Runner> {
    let lists = words.iter().any(|word| flags.contains(&word.as_str()));
    (!lists).then_some(runner)
}

fn is_test_word(word: &str) -> bool {
    let first = word.split([':', '-', '_', '.']).next();
    matches!(first, Some("test" | "tests" | "check"))
}

fn is_test_script(stem: &str) -> bool {
    let name = stem
        .trim_start_matches("run")
        .trim_start_matches(['-', '_']);
    matches!(name, "test" | "tests")
}

/// Parses `2 failed, 1 passed` into counts and labels.
fn figures(text: &str, apart: char) -> impl Iterator<Item = (u64, &str)> {
    text.split(apart).filter_map(|part| {
        let (count, what) = part.trim().split_once(' ')?;
        Some((count.parse().ok()?, what))
    })
}

#[cfg(test)]
mod tests;
