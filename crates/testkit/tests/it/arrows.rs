//! Which crate may know which: the lists in ARCHITECTURE.md, and nothing else.

use std::collections::BTreeSet;
use std::process::Command;

use crate::{read, root};

type Arrows = BTreeSet<(String, String)>;

/// The arrows between `<!-- marker -->` and `<!-- /marker -->`: `- cli -> core, store`.
fn listed(marker: &str) -> Arrows {
    let document = read("ARCHITECTURE.md");
    let (open, close) = (format!("<!-- {marker} -->"), format!("<!-- /{marker} -->"));
    let block = document
        .split_once(&open)
        .and_then(|(_, rest)| rest.split_once(&close));
    let (block, _) =
        block.unwrap_or_else(|| panic!("ARCHITECTURE.md has no block {open} … {close}"));
    let mut arrows = Arrows::new();
    for line in block.lines() {
        let Some((from, to)) = line
            .trim()
            .strip_prefix("- ")
            .and_then(|line| line.split_once("->"))
        else {
            continue;
        };
        let targets = to
            .split(',')
            .map(str::trim)
            .filter(|target| !target.is_empty() && *target != "nobody");
        arrows.extend(targets.map(|target| (from.trim().to_owned(), target.to_owned())));
    }
    arrows
}

/// The arrows that the manifests have.
fn drawn(kind: Option<&str>) -> Arrows {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--offline",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let short = |name: &serde_json::Value| {
        name.as_str()
            .unwrap()
            .strip_prefix("segno-")
            .map(str::to_owned)
    };
    let mut arrows = Arrows::new();
    for package in metadata["packages"].as_array().unwrap() {
        let from = short(&package["name"]).unwrap();
        for dependency in package["dependencies"].as_array().unwrap() {
            if let Some(to) = short(&dependency["name"])
                && dependency["kind"].as_str() == kind
            {
                arrows.insert((from.clone(), to));
            }
        }
    }
    arrows
}

#[test]
fn no_crate_knows_another_that_the_map_does_not_show() {
    assert_eq!(drawn(None), listed("arrows"));
}

#[test]
fn no_test_knows_a_crate_that_the_map_does_not_show() {
    assert_eq!(drawn(Some("dev")), listed("dev-arrows"));
}

#[test]
fn the_core_knows_nobody_and_only_the_command_line_joins() {
    let arrows = drawn(None);
    assert!(arrows.iter().all(|(from, _)| from != "core"), "{arrows:?}");
    let siblings = ["store", "agents", "snapshot"];
    let known = |from: &str, to: &str| arrows.contains(&(from.to_owned(), to.to_owned()));
    for from in siblings.iter().chain(&["engine"]) {
        assert!(
            siblings.iter().all(|to| !known(from, to)),
            "{from} knows a concrete part"
        );
    }
}
