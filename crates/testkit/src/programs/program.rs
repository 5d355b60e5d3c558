//! The programs, and where `make tools` installs them.

use std::fs;
use std::path::{Path, PathBuf};

/// An agent or adapter that tests run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Program {
    ClaudeCode,
    /// Codex: the native program, without the script that npm starts.
    Codex,
    /// Claude Code behind the Agent Client Protocol.
    ClaudeAcp,
    /// Codex behind the Agent Client Protocol.
    CodexAcp,
}

impl Program {
    /// The version that `make tools` installs and that the tests were written for.
    pub fn version(self) -> &'static str {
        match self {
            Self::ClaudeCode => "2.1.325",
            Self::Codex => "0.166.0",
            Self::ClaudeAcp => "0.99.0",
            Self::CodexAcp => "2.6.0",
        }
    }

    /// The start of its command line: the program, or node and the script.
    pub fn words(self) -> Vec<PathBuf> {
        let claude = "@anthropic-ai/claude-code/bin/claude.exe";
        match self {
            Self::ClaudeCode => vec![installed(claude)],
            Self::Codex => vec![codex()],
            Self::ClaudeAcp => vec![
                installed(NODE),
                installed("@agentclientprotocol/claude-agent-acp/dist/index.js"),
            ],
            Self::CodexAcp => vec![
                installed(NODE),
                installed("@agentclientprotocol/codex-acp/dist/index.js"),
            ],
        }
    }
}

pub(super) const NODE: &str = "node/bin/node";

/// Where `make tools` installs packages from npm.
pub fn modules() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    workspace.unwrap().join("target/npm/node_modules")
}

pub(super) fn installed(path: &str) -> PathBuf {
    let path = modules().join(path);
    // Not the canonical path: programs look for their files beside themselves.
    assert!(
        path.exists(),
        "{} is missing; `make tools` installs it",
        path.display()
    );
    path
}

/// The native program is in a package that is named after the platform.
fn codex() -> PathBuf {
    let folder = installed("@openai");
    let packages = fs::read_dir(&folder).unwrap().flatten();
    let targets = packages.filter_map(|package| fs::read_dir(package.path().join("vendor")).ok());
    let programs =
        targets.flat_map(|targets| targets.flatten().map(|one| one.path().join("bin/codex")));
    let mut found = programs.filter(|path| path.exists());
    found.next().unwrap_or_else(|| {
        let folder = folder.display();
        panic!("{folder} has no codex for this machine; `make tools` installs it")
    })
}
