//! Records what the real agents say and keep, as golden files for the tests of those who read it:
//! `cargo run -p segno-testkit --bin record`. Every scene is a run of an agent against a scripted
//! model; [`Neutral`] takes out what belongs to the machine, the moment or the vendor's prompts.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a panic is how a tool for developers answers, and its output is for them"
)]

mod neutral;
mod scenes;

use std::path::{Path, PathBuf};

use neutral::Neutral;
use segno_testkit::programs::Program;
use serde_json::Value;

/// How large a golden file may be.
const LIMIT: usize = 60_000;

/// Where the files of one program go.
struct Album {
    folder: PathBuf,
}

impl Album {
    fn of(name: &str, program: Program) -> Self {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let golden = crates.join("agents/tests/golden");
        let folder = golden.join(name).join(program.version());
        std::fs::create_dir_all(&folder).unwrap();
        Self { folder }
    }

    fn keep(&self, name: &str, neutral: &mut Neutral, lines: &[Value]) {
        lines.iter().for_each(|line| neutral.learn(line));
        let lines: Vec<String> = lines
            .iter()
            .map(|line| format!("{}\n", neutral.line(line)))
            .collect();
        let text = lines.concat();
        assert!(text.len() < LIMIT, "{name} has {} bytes", text.len());
        neutral.check(name, &text);
        std::fs::write(self.folder.join(name), &text).unwrap();
        println!("{:>6} {}", text.len(), self.folder.join(name).display());
    }

    /// Keeps a file of an agent, which has a JSON value in each line.
    fn keep_file(&self, name: &str, neutral: &mut Neutral, path: &Path) {
        let text = std::fs::read_to_string(path).unwrap();
        let parse =
            |line| serde_json::from_str(line).unwrap_or_else(|_| Value::String(line.into()));
        let lines: Vec<Value> = text.lines().map(parse).collect();
        self.keep(name, neutral, &lines);
    }
}

fn main() {
    let claude = Album::of("claude_code", Program::ClaudeCode);
    let codex = Album::of("codex", Program::Codex);
    scenes::shared(&claude, segno_testkit::programs::Agent::Claude);
    scenes::shared(&codex, segno_testkit::programs::Agent::Codex);
    scenes::background(&claude);
    scenes::delegated(&claude);
    scenes::compacted(&claude);
    scenes::compacted_codex(&codex);
    scenes::adapter(
        &Album::of("acp/claude", Program::ClaudeAcp),
        Program::ClaudeAcp,
    );
    scenes::adapter(
        &Album::of("acp/codex", Program::CodexAcp),
        Program::CodexAcp,
    );
}
