//! Inside a crate the top-level modules have no import cycle.
//!
//! The test reads `crate::…` paths in the source, without comments and strings. Modules of tests
//! count, too: what a test needs is part of what a module needs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::root;

type Graph = BTreeMap<String, BTreeSet<String>>;

/// Source text without comments and literals, which may mention any module.
fn code(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(raw) = raw_string(rest) {
            raw
        } else if first == '"' {
            string(rest)
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        rest = &rest[skipped..];
    }
    code
}

/// The length of the raw string that `text` starts with.
fn raw_string(text: &str) -> Option<usize> {
    let after = text.strip_prefix('r')?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let body = after[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    Some(text.len() - body.len() + body.find(&close)? + close.len())
}

/// The length of the string literal that `text` starts with.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The modules that `code` names right after `crate::`, alone or in braces.
fn named(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        if code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_') {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        let Some(list) = rest.strip_prefix('{') else {
            found.insert(identifier(rest));
            continue;
        };
        let mut depth = 0;
        let mut item = 0;
        for (at, character) in list.char_indices() {
            match character {
                '{' => depth += 1,
                '}' if depth > 0 => depth -= 1,
                ',' | '}' if depth == 0 => {
                    found.insert(identifier(list[item..at].trim_start()));
                    item = at + 1;
                    if character == '}' {
                        break;
                    }
                }
                _ => {}
            }
        }
    }
    found
}

fn identifier(text: &str) -> String {
    text.chars()
        .take_while(|character| character.is_alphanumeric() || *character == '_')
        .collect()
}

/// Adds the imports of all files below `folder` to the module they belong to.
fn collect(folder: &Path, module: Option<&str>, graph: &mut Graph) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let owner = module.unwrap_or(&stem);
        if path.is_dir() {
            collect(&path, Some(owner), graph);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let imports = named(&code(&fs::read_to_string(&path).unwrap()));
            graph.entry(owner.to_owned()).or_default().extend(imports);
        }
    }
}

/// The modules of a crate with the modules that each one imports. `lib.rs` and `main.rs` are the
/// crate itself, which may name everything; `bin` holds programs of their own.
fn graph(source: &Path) -> Graph {
    let mut graph = Graph::new();
    collect(source, None, &mut graph);
    for root in ["lib", "main", "bin"] {
        graph.remove(root);
    }
    let modules: BTreeSet<String> = graph.keys().cloned().collect();
    for (module, imports) in &mut graph {
        imports.retain(|import| import != module && modules.contains(import));
    }
    graph
}

/// The modules that lie on a cycle: those that reach themselves.
fn cyclic(graph: &Graph) -> Vec<String> {
    let reaches = |from: &String| {
        let mut seen = BTreeSet::new();
        let mut open: Vec<&String> = graph[from].iter().collect();
        while let Some(module) = open.pop() {
            if seen.insert(module) {
                open.extend(&graph[module]);
            }
        }
        seen.contains(from)
    };
    graph
        .keys()
        .filter(|module| reaches(module))
        .cloned()
        .collect()
}

#[test]
fn top_modules_have_no_import_cycle() {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join("crates"))
        .unwrap()
        .map(Result::unwrap)
    {
        let graph = graph(&entry.path().join("src"));
        let cyclic = cyclic(&graph);
        for module in &cyclic {
            let on: Vec<&String> = graph[module]
                .iter()
                .filter(|on| cyclic.contains(on))
                .collect();
            let name = entry.file_name();
            found.push(format!("{}: {module} imports {on:?}", name.display()));
        }
    }
    assert!(found.is_empty(), "import cycles:\n{}", found.join("\n"));
}

#[test]
fn a_planted_cycle_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("lib.rs", "mod a; mod b; mod c; use crate::a;");
    write("a.rs", "use crate::b::Thing; // crate::c\n");
    write("b.rs", "use crate::{c::{Other, deep::One}};");
    write("c.rs", "const TEXT: &str = \"crate::a\";");
    assert!(cyclic(&graph(folder.path())).is_empty());
    fs::create_dir(folder.path().join("c")).unwrap();
    write("c/deep.rs", "fn planted() { crate::a::call() }");
    assert_eq!(cyclic(&graph(folder.path())), ["a", "b", "c"]);
}
