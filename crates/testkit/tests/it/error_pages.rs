//! Every error code has a page, every page has a code, and the exit code that the index documents
//! is that of the error's kind.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::root;

fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(std::fs::read_to_string(path).unwrap());
        }
    }
}

/// Literals of the form `"S0101"`.
fn codes(text: &str) -> BTreeSet<String> {
    let words = text.split('"');
    let is_code = |word: &&str| {
        let (area, digits) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
        area.chars().all(|c| "ASJFWRCKHN".contains(c))
            && digits.len() == 4
            && digits.chars().all(|c| c.is_ascii_digit())
    };
    words.filter(is_code).map(str::to_owned).collect()
}

/// The source of all crates. Tests name codes that do not exist.
fn all_sources() -> Vec<String> {
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(root().join("crates")).unwrap().flatten() {
        if entry.file_name() != "testkit" {
            sources(&entry.path().join("src"), &mut texts);
        }
    }
    texts
}

#[test]
fn every_error_code_has_a_page_and_every_page_a_code() {
    let texts = all_sources();
    let used: BTreeSet<String> = texts.iter().flat_map(|text| codes(text)).collect();
    let pages: BTreeSet<String> = std::fs::read_dir(root().join("docs/errors"))
        .unwrap()
        .flatten()
        .filter_map(|entry| Some(entry.path().file_stem()?.to_str()?.to_owned()))
        .filter(|stem| stem != "index")
        .collect();
    assert!(used.len() > 20, "{used:?}");
    assert_eq!(used, pages);
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// The exit code of each kind: the lines `Kind::A | Kind::B => 12,` of the command line.
fn exit_codes() -> BTreeMap<String, String> {
    let mut exits = BTreeMap::new();
    for line in read("crates/cli/src/failure.rs").lines() {
        let Some((kinds, exit)) = line.trim().split_once(" => ") else {
            continue;
        };
        for kind in kinds
            .split(" | ")
            .filter_map(|it| it.strip_prefix("Kind::"))
        {
            exits.insert(kind.to_owned(), exit.trim_end_matches(',').to_owned());
        }
    }
    exits
}

/// The documented exit codes of each error code: the rows `| [S0101](S0101.md) | meaning | 17 |`.
fn documented() -> BTreeMap<String, Vec<String>> {
    let index = read("docs/errors/index.md");
    let rows = index.lines().filter_map(|line| line.strip_prefix("| ["));
    let row = |row: &str| {
        let code = row.split(']').next().unwrap().to_owned();
        let exits = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        (code, exits.split(", ").map(str::to_owned).collect())
    };
    rows.map(row).collect()
}

#[test]
fn documented_exit_codes_follow_from_the_kind() {
    let (exits, documented) = (exit_codes(), documented());
    let mut checked = BTreeSet::new();
    for text in all_sources() {
        // `Diagnosis::new(Kind::NotFound, "S0101")`
        for (at, _) in text.match_indices("Kind::") {
            let rest = &text[at + "Kind::".len()..];
            let Some((kind, rest)) = rest.split_once(',') else {
                continue;
            };
            let Some(code) = rest.trim_start().strip_prefix('"') else {
                continue;
            };
            let code = code.split('"').next().unwrap();
            if let (Some(exit), Some(expected)) = (exits.get(kind), documented.get(code)) {
                assert!(expected.contains(exit), "{code} is {kind}: {exit}");
                checked.insert(code.to_owned());
            }
        }
    }
    assert!(checked.len() > 100, "{checked:?}");
}
