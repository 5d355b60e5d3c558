//! The problems of a spec, each with its location and, for a typo, the word that was probably
//! meant.

use std::fmt;

use segno_core::error::{Diagnose, Diagnosis, Kind};

/// More problems are counted, not shown.
const MOST_SHOWN: usize = 50;

/// Who must change something: the author of the spec, or Segno.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The format does not allow it.
    Invalid,
    /// The format allows it, but this version does not support it.
    Unsupported,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The location as a JSON pointer; empty for the document.
    pub pointer: String,
    /// Counted from one.
    pub line: Option<usize>,
    pub message: String,
    /// The known word that is most similar.
    pub nearest: Option<String>,
    pub fault: Fault,
}

/// For example: `/runtime/provder (line 4): unknown key; did you mean `provider`?`
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let location = match self.pointer.as_str() {
            "" => "document",
            pointer => pointer,
        };
        let line = self.line.map(|line| format!(" (line {line})"));
        let meant = self
            .nearest
            .as_ref()
            .map(|word| format!("; did you mean `{word}`?"));
        let text = [
            location,
            &line.unwrap_or_default(),
            ": ",
            &self.message,
            &meant.unwrap_or_default(),
        ]
        .concat();
        f.write_str(&printable(&text))
    }
}

/// All problems of a spec, in the order of their lines; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems {
    shown: Vec<Problem>,
    not_shown: usize,
    all_unsupported: bool,
}

impl Problems {
    /// Sorts `problems` by line and keeps the first 50; `None` if there are none.
    pub(super) fn of(mut problems: Vec<Problem>) -> Option<Self> {
        if problems.is_empty() {
            return None;
        }
        problems.sort_by(|a, b| {
            let line = |problem: &Problem| problem.line.unwrap_or(0);
            line(a)
                .cmp(&line(b))
                .then_with(|| a.pointer.cmp(&b.pointer))
        });
        problems.dedup();
        let all_unsupported = problems
            .iter()
            .all(|problem| problem.fault == Fault::Unsupported);
        let not_shown = problems.len().saturating_sub(MOST_SHOWN);
        problems.truncate(MOST_SHOWN);
        Some(Self {
            shown: problems,
            not_shown,
            all_unsupported,
        })
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.shown.iter()
    }

    /// How many problems are not shown.
    pub fn not_shown(&self) -> usize {
        self.not_shown
    }

    /// `Unsupported` if the spec is valid and only needs features that this version lacks.
    pub fn fault(&self) -> Fault {
        if self.all_unsupported {
            Fault::Unsupported
        } else {
            Fault::Invalid
        }
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self {
            all_unsupported: problem.fault == Fault::Unsupported,
            shown: vec![problem],
            not_shown: 0,
        }
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, problem) in self.shown.iter().enumerate() {
            let end = if n == 0 { "" } else { "\n" };
            write!(f, "{end}{problem}")?;
        }
        if self.not_shown > 0 {
            write!(f, "\nand {} more", self.not_shown)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

impl Diagnose for Problems {
    fn diagnosis(&self) -> Diagnosis {
        match self.fault() {
            Fault::Invalid => Diagnosis::new(Kind::InvalidSpec, "W0101"),
            Fault::Unsupported => Diagnosis::new(Kind::Unsupported, "W0102"),
        }
    }
}

/// Escapes control characters, so that a spec cannot control the reader's terminal.
fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// The candidates most similar to `word`, the nearest first; at most a third of a candidate's
/// letters differ.
pub fn similar<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    most: usize,
) -> Vec<String> {
    let alike = |candidate: &str| {
        let edits = distance(word, candidate);
        (edits <= (candidate.chars().count() / 3).max(1)).then_some(edits)
    };
    if word.len() > 512 {
        return Vec::new();
    }
    let mut found: Vec<_> = candidates
        .into_iter()
        .filter_map(|candidate| Some((alike(candidate)?, candidate)))
        .collect();
    found.sort_by_key(|(edits, _)| *edits);
    let found = found.into_iter().take(most);
    found.map(|(_, candidate)| candidate.to_owned()).collect()
}

/// The candidate that `word` is probably a typo of: at most a third of its letters differ.
pub(super) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    if word.len() > 64 {
        return None;
    }
    let lower = word.to_lowercase();
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= 64)
        .map(|candidate| (distance(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(edits, candidate)| *edits <= (candidate.chars().count() / 3).max(1))
        .min()
        .map(|(_, candidate)| candidate.to_owned())
}

/// The edit distance: letters added, removed, replaced, or swapped with their neighbour.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows = vec![(0..=to.len()).collect::<Vec<_>>()];
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let replaced = rows[i][j] + usize::from(a != b);
            let mut least = replaced.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(line: usize, fault: Fault) -> Problem {
        Problem {
            pointer: format!("/{line}"),
            line: Some(line),
            message: "odd".to_owned(),
            nearest: None,
            fault,
        }
    }

    #[test]
    fn typo_finds_the_nearest_word() {
        let words = ["provider", "model_id", "region"];
        for slip in ["provder", "Provider", "porvider", "providers"] {
            assert_eq!(nearest(slip, words).as_deref(), Some("provider"), "{slip}");
        }
        assert_eq!(nearest("model", words), None);
        assert_eq!(nearest("zebra", words), None);
        assert_eq!(nearest("", words), None);
        assert_eq!(nearest(&"provider".repeat(1000), words), None);
    }

    #[test]
    fn problems_are_sorted_by_line_and_capped_at_50() {
        let many = (1..=60).rev().map(|n| problem(n, Fault::Unsupported));
        let problems = Problems::of(many.collect()).unwrap();
        assert_eq!(problems.iter().next().unwrap().line, Some(1));
        assert_eq!((problems.iter().count(), problems.not_shown()), (50, 10));
        assert!(problems.to_string().ends_with("\nand 10 more"));
    }

    #[test]
    fn one_invalid_problem_makes_the_spec_invalid() {
        let code = |faults: &[Fault]| {
            let problems = faults.iter().map(|fault| problem(1, *fault)).collect();
            Problems::of(problems).unwrap().code()
        };
        assert_eq!(code(&[Fault::Unsupported; 2]), "W0102");
        assert_eq!(code(&[Fault::Unsupported, Fault::Invalid]), "W0101");
    }

    #[test]
    fn control_characters_in_problems_are_escaped() {
        let mut sly = problem(1, Fault::Invalid);
        sly.pointer = "/\u{1b}[2J".to_owned();
        assert_eq!(sly.to_string(), "/\\u{1b}[2J (line 1): odd");
    }
}
