//! Golden files have the installed versions, are small, and contain nothing machine-specific.

use std::path::Path;

use segno_testkit::model::files;
use segno_testkit::programs::Program;

use crate::root;

const LIMIT: usize = 60_000;

#[test]
fn golden_files_match_installed_versions() {
    let golden = root().join("crates/agents/tests/golden");
    for (name, program) in [
        ("claude_code", Program::ClaudeCode),
        ("codex", Program::Codex),
        ("acp/claude", Program::ClaudeAcp),
        ("acp/codex", Program::CodexAcp),
    ] {
        let folder = golden.join(name).join(program.version());
        assert!(folder.is_dir(), "{} is missing", folder.display());
        let pin = format!("@{}", program.version());
        assert!(crate::read("Makefile").contains(&pin), "{name}{pin}");
    }
}

#[test]
fn golden_files_are_small_and_machine_independent() {
    let golden = files(&root().join("crates/agents/tests/golden"));
    let lines = |path: &str| {
        Path::new(path)
            .extension()
            .is_some_and(|kind| kind == "jsonl")
    };
    assert!(golden.keys().filter(|path| lines(path)).count() > 30);
    for (path, text) in golden {
        assert!(text.len() < LIMIT, "{path} has {} bytes", text.len());
        for word in ["segno-stage-", "node_modules", "/tmp/segno"] {
            assert!(!text.contains(word), "{path} has {word}");
        }
    }
}
