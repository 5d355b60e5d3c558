//! Every error code has a page, and every page has a code.

use std::collections::BTreeSet;
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
        area.chars().all(|c| "ASJFWRCKH".contains(c))
            && digits.len() == 4
            && digits.chars().all(|c| c.is_ascii_digit())
    };
    words.filter(is_code).map(str::to_owned).collect()
}

#[test]
fn every_error_code_has_a_page_and_every_page_a_code() {
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(root().join("crates")).unwrap().flatten() {
        // Tests name codes that do not exist.
        if entry.file_name() != "testkit" {
            sources(&entry.path().join("src"), &mut texts);
        }
    }
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
