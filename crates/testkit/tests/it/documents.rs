//! Tests and files that documents name exist.
//!
//! `docs/promises.md` and `docs/coverage.md` say which test proves what. A test that was renamed or
//! deleted would leave the claim standing without its proof.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::{read, root};

/// Test names with the modules that each occurs in: folders, file stem and `mod` blocks do not
/// matter in their order, only that a name's module is among them.
type Tests = BTreeMap<String, Vec<BTreeSet<String>>>;

/// Adds every function of the Rust files below `folder`. Cases of conformance suites are functions
/// that a macro calls, so that not only `#[test]` counts.
fn collect(folder: &Path, modules: &BTreeSet<String>, tests: &mut Tests) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let mut modules = modules.clone();
        modules.insert(stem);
        if path.is_dir() {
            collect(&path, &modules, tests);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            for name in functions(&fs::read_to_string(&path).unwrap()) {
                tests.entry(name).or_default().push(modules.clone());
            }
        }
    }
}

fn functions(source: &str) -> impl Iterator<Item = String> + '_ {
    source.match_indices("fn ").map(|(at, found)| {
        let name = source[at + found.len()..].split(|character: char| !is_word(character));
        name.into_iter().next().unwrap_or_default().to_owned()
    })
}

fn is_word(character: char) -> bool {
    character.is_ascii_lowercase() || character.is_ascii_digit() || character == '_'
}

/// The names in a document that look like tests: four words or more, joined by `_`; or two behind
/// a module.
fn named(document: &str) -> BTreeSet<String> {
    let separates = |character: char| !is_word(character) && character != ':';
    let words = document.split(separates).map(|word| word.trim_matches(':'));
    words
        .filter(|word| {
            let name = word.rsplit("::").next().unwrap_or_default();
            let least = if word.contains("::") { 2 } else { 4 };
            name.split('_').filter(|part| !part.is_empty()).count() >= least
        })
        .map(str::to_owned)
        .collect()
}

/// The names in `document` that are neither a test nor a module of tests.
fn missing(document: &str, tests: &Tests) -> Vec<String> {
    let is_module = |name: &str| tests.values().flatten().any(|it| it.contains(name));
    let exists = |name: &String| {
        let mut parts: Vec<&str> = name.split("::").collect();
        let test = parts.pop().unwrap_or_default();
        if !parts.is_empty() && is_module(test) {
            return true;
        }
        let places = tests.get(test).map_or(&[][..], Vec::as_slice);
        // A module inside a file (`tests`, or one of a suite) is not seen here.
        places.iter().any(|modules| {
            parts
                .iter()
                .all(|part| modules.contains(*part) || *part == "tests")
        })
    };
    named(document)
        .into_iter()
        .filter(|name| !exists(name))
        .collect()
}

fn all_tests() -> Tests {
    let mut tests = Tests::new();
    collect(&root().join("crates"), &BTreeSet::new(), &mut tests);
    tests
}

#[test]
fn every_test_that_a_document_names_exists() {
    let tests = all_tests();
    for document in ["docs/promises.md", "docs/coverage.md", "ARCHITECTURE.md"] {
        let missing = missing(&read(document), &tests);
        assert!(
            missing.is_empty(),
            "{document}: no such test:\n{}",
            missing.join("\n")
        );
    }
}

#[test]
fn every_file_that_promises_name_exists() {
    let document = read("docs/promises.md");
    let quoted = document.split('`').skip(1).step_by(2);
    for path in quoted.filter(|text| text.contains("/src/")) {
        let found = root().join("crates").join(path).exists();
        assert!(found, "docs/promises.md: there is no crates/{path}");
    }
}

#[test]
fn a_planted_name_is_found() {
    let tests = all_tests();
    let planted = "`documents::a_planted_name_is_found`, `documents::a_proof_that_nobody_wrote`, \
                   dependencies::a_planted_name_is_found, documents::short_name, \
                   commands::handoff_reader";
    assert_eq!(
        missing(planted, &tests),
        [
            "dependencies::a_planted_name_is_found",
            "documents::a_proof_that_nobody_wrote",
            "documents::short_name"
        ]
    );
}

/// The rows of `docs/coverage.md`: the id of each, and the column of its class in the table of
/// counts.
fn coverage_rows(document: &str) -> Vec<(String, usize)> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [id, text, proof] = cells[..] else {
            return None;
        };
        let number = id.strip_prefix(['A', 'B', 'C', 'D', 'E'])?;
        number.parse::<u32>().ok()?;
        let class = if text.starts_with("Open:") {
            3
        } else if proof.contains("not proved") {
            2
        } else {
            usize::from(text.starts_with("Otherwise:"))
        };
        Some((id.to_owned(), class))
    };
    document.lines().filter_map(row).collect()
}

/// The counts that the head of `docs/coverage.md` gives for a section.
fn stated_counts(document: &str, section: &str) -> Vec<usize> {
    let start = format!("| {section}");
    let line = document.lines().find(|line| line.starts_with(&start));
    let cells = line.unwrap_or_else(|| panic!("no counts of {section}"));
    let cells = cells.split('|').map(str::trim);
    cells.filter_map(|cell| cell.parse().ok()).collect()
}

#[test]
fn coverage_counts_its_rows() {
    let document = read("docs/coverage.md");
    let rows = coverage_rows(&document);
    let ids: BTreeSet<&str> = rows.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!((ids.len(), rows.len()), (375, 375), "one line for each row");
    for (section, prefix) in [
        ("A. ", "A"),
        ("B. ", "B"),
        ("C. ", "C"),
        ("D. ", "D"),
        ("E. ", "E"),
        ("all ", ""),
    ] {
        let mut counts = vec![0; 5];
        for (_, class) in rows.iter().filter(|(id, _)| id.starts_with(prefix)) {
            counts[*class] += 1;
            counts[4] += 1;
        }
        assert_eq!(stated_counts(&document, section), counts, "{section}");
    }
}
