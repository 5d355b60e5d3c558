//! One vocabulary: retired words do not come back into code, help, errors or documents.
//!
//! The glossary in ARCHITECTURE.md has the words to use. A retired word is a private metaphor for
//! something that the field has a word for, or an idiom without a subject. Strings in tests are data
//! (prompts, answers, recorded output) and are not checked; neither are attributes and quoted keys
//! that keep the spelling of a format.

use std::fs;
use std::path::{Path, PathBuf};

use crate::root;

/// Retired words and phrases, each with the word that replaces it.
const RETIRED: &[(&str, &str)] = &[
    ("brake", "stop token"),
    ("brief", "resume context"),
    ("broom", "process guard"),
    ("carries on", "resumes"),
    ("carry on", "resume"),
    ("companion", "CLI agent"),
    ("companions", "CLI agents"),
    ("compiled context", "resume context"),
    ("crew", "agents"),
    ("deed", "operation, git step"),
    ("deeds", "operations"),
    ("depot", "remote"),
    ("depots", "remotes"),
    ("ear", "receiver"),
    ("errand", "child process"),
    ("gleaning", "note rules"),
    ("go on", "resume, continue"),
    ("goes on", "resumes, continues"),
    ("going on", "resuming"),
    ("gone on", "resumed"),
    ("had back", "restored"),
    ("have back", "restore"),
    ("interlude", "between runs"),
    ("kit", "toolset"),
    ("ladder", "resume strategies"),
    ("left out", "excluded"),
    ("let go of", "deleted, released"),
    ("lets go of", "deletes, releases"),
    ("memo", "note"),
    ("memos", "notes"),
    ("papers", "attachments"),
    ("parcel", "incoming"),
    ("pen", "journal writer"),
    ("performer", "agent"),
    ("portrait", "session state"),
    ("rehomed", "restored"),
    ("rung", "resume strategy"),
    ("rungs", "resume strategies"),
    ("scribe", "journal writer"),
    ("scroll", "manifest cursor"),
    ("speaker", "agent, driver"),
    ("vault", "snapshot store"),
    ("vaults", "snapshot stores"),
    ("warden", "process guard"),
    ("wardens", "process guards"),
    ("warehouse", "remote"),
    ("weave", "merge"),
    ("went on", "resumed, continued"),
    ("what it is to", "the trait for"),
    ("whoever", "name the subject"),
    ("wish", "request"),
    ("wishes", "requests"),
    ("witness", "acknowledgement marker"),
    ("woven", "merged"),
];

/// Spellings that are bytes on disk or names of others, and so cannot change.
const FIXED: &[&str] = &[
    ".parcel-cache",
    ".svelte-kit",
    "brief_edited",
    "memo_withdrawn",
    "memos_written",
    "segno left out",
    "segno vault",
    "vault-token",
];

/// A line without what stands between two quotes on it, and without a raw string.
fn without(line: &str, quote: char) -> String {
    let line = line
        .split("r#")
        .next()
        .unwrap_or_default()
        .replace("\\\"", "");
    line.split(quote).step_by(2).collect::<Vec<_>>().join(" ")
}

/// Whether the strings of a file are data of tests.
fn is_test(name: &str) -> bool {
    name.contains("/tests/")
        || name.starts_with("crates/secrets/")
        || name.starts_with("crates/testkit/")
        || name.ends_with("/tests.rs")
}

/// A text as lower-case words: identifiers are split at `_` and at capital letters.
fn words(line: &str) -> String {
    let mut words = String::from(" ");
    let mut before = ' ';
    for character in line.chars() {
        let ends = !character.is_alphanumeric() && character != '\'';
        let humps = character.is_uppercase() && (before.is_lowercase() || before.is_numeric());
        if (ends || humps) && !words.ends_with(' ') {
            words.push(' ');
        }
        if !ends {
            words.extend(character.to_lowercase());
        }
        before = character;
    }
    words.push(' ');
    words
}

/// What is wrong with a text, line by line.
fn violations(name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    // A phrase may be broken by the end of a line, also inside a comment.
    let mut carried = String::new();
    for (number, line) in text.lines().enumerate() {
        if line.contains("#[serde(rename") {
            continue;
        }
        // Formats keep the spelling of their keys, which their pages quote.
        let mut line = if is_test(name) {
            without(line, '"')
        } else if name.starts_with("docs/formats/") {
            without(line, '`')
        } else {
            line.to_owned()
        };
        for spelling in FIXED {
            line = line.replace(spelling, "");
        }
        let words = words(&line);
        let joined = format!("{carried}{}", words.trim_start());
        for (retired, instead) in RETIRED {
            let needle = format!(" {retired} ");
            let broken = retired.contains(' ') && joined.contains(&needle);
            if words.contains(&needle) || broken {
                let line = number + 1;
                found.push(format!(
                    "{name}:{line}: `{retired}` is retired; say {instead}"
                ));
            }
        }
        let last = words.trim_end().rsplit(' ').next().unwrap_or_default();
        carried = format!(" {last} ");
    }
    found
}

fn files(folder: &Path, ending: &[&str], into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() {
            if name != "target" && name != "golden" && name != "fixtures" {
                files(&path, ending, into);
            }
        } else if ending
            .iter()
            .any(|ending| name.to_string_lossy().ends_with(ending))
        {
            into.push(path);
        }
    }
}

#[test]
fn no_retired_word_is_used() {
    let root = root();
    let mut paths = Vec::new();
    for folder in ["crates", "fuzz"] {
        files(&root.join(folder), &[".rs", ".snap"], &mut paths);
    }
    files(&root.join("docs"), &[".md"], &mut paths);
    files(&root.join("examples"), &[".md", ".yaml"], &mut paths);
    for page in [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "CHANGELOG.md",
        "Makefile",
    ] {
        paths.push(root.join(page));
    }
    let own = Path::new(file!()).file_name().unwrap();
    let mut found = Vec::new();
    for path in paths.iter().filter(|path| path.file_name() != Some(own)) {
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        found.extend(violations("file name", &name));
        found.extend(violations(&name, &fs::read_to_string(path).unwrap()));
    }
    assert!(
        found.is_empty(),
        "{} retired words:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn a_planted_word_is_found() {
    for planted in [
        "/// Writes a letter to the depot.",
        "fn goes_on_after_a_kill() {}",
        "pub struct MemoId;",
        "let brake = Brake::new();",
        "error: the session cannot go on",
        "// whoever\n// goes",
        "//! what was started goes\n//! on later",
    ] {
        assert!(!violations("planted", planted).is_empty(), "{planted}");
    }
}

#[test]
fn words_that_only_look_alike_pass() {
    for plain in [
        "the category goes only there",
        "`memos_written`",
        "let open = opening;",
        "toolkit, testkit, briefly",
        "#[expect(clippy::cast_possible_truncation)]",
    ] {
        assert_eq!(violations("plain", plain), Vec::<String>::new());
    }
}
