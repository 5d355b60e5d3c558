//! Which crate may depend on which: the lists in ARCHITECTURE.md, and nothing else.

use std::collections::BTreeSet;
use std::process::Command;

use crate::{read, root};

type Dependencies = BTreeSet<(String, String)>;

/// The dependencies between `<!-- marker -->` and `<!-- /marker -->`: `- cli -> core, store`.
fn documented(marker: &str) -> Dependencies {
    let document = read("ARCHITECTURE.md");
    let (open, close) = (format!("<!-- {marker} -->"), format!("<!-- /{marker} -->"));
    let block = document
        .split_once(&open)
        .and_then(|(_, rest)| rest.split_once(&close));
    let (block, _) =
        block.unwrap_or_else(|| panic!("ARCHITECTURE.md has no block {open} … {close}"));
    let mut dependencies = Dependencies::new();
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
        dependencies.extend(targets.map(|target| (from.trim().to_owned(), target.to_owned())));
    }
    dependencies
}

/// The dependencies in the manifests.
fn declared(kind: Option<&str>) -> Dependencies {
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
    let mut dependencies = Dependencies::new();
    for package in metadata["packages"].as_array().unwrap() {
        let from = short(&package["name"]).unwrap();
        for dependency in package["dependencies"].as_array().unwrap() {
            if let Some(to) = short(&dependency["name"])
                && dependency["kind"].as_str() == kind
            {
                dependencies.insert((from.clone(), to));
            }
        }
    }
    dependencies
}

#[test]
fn crate_dependencies_match_the_architecture() {
    assert_eq!(declared(None), documented("arrows"));
}

#[test]
fn dev_dependencies_match_the_architecture() {
    assert_eq!(declared(Some("dev")), documented("dev-arrows"));
}

#[test]
fn core_has_no_dependencies_and_only_cli_joins() {
    let dependencies = declared(None);
    assert!(
        dependencies.iter().all(|(from, _)| from != "core"),
        "{dependencies:?}"
    );
    let siblings = ["store", "agents", "snapshot"];
    let known = |from: &str, to: &str| dependencies.contains(&(from.to_owned(), to.to_owned()));
    for from in siblings.iter().chain(&["engine"]) {
        assert!(
            siblings.iter().all(|to| !known(from, to)),
            "{from} knows a concrete part"
        );
    }
}
