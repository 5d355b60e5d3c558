//! Records the output and the transcripts of the real agents as golden files for the tests of their
//! parsers: `cargo run -p segno-testkit --bin record`. Every scene is a run of an agent against a
//! scripted model; [`Neutralizer`] removes what depends on the machine, the time or the vendor's
//! prompts.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a developer tool: it reports errors by panicking, and prints for humans"
)]

mod neutralizer;
mod scenes;

use std::path::{Path, PathBuf};

use segno_testkit::programs::Program;
use serde_json::Value;

use neutralizer::Neutralizer;

/// The size limit of a golden file, in bytes.
const LIMIT: usize = 60_000;

/// The golden files of one program.
struct GoldenFolder {
    folder: PathBuf,
}

impl GoldenFolder {
    fn of(name: &str, program: Program) -> Self {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let golden = crates.join("agents/tests/golden");
        let folder = golden.join(name).join(program.version());
        std::fs::create_dir_all(&folder).unwrap();
        Self { folder }
    }

    fn write(&self, name: &str, neutralizer: &mut Neutralizer, lines: &[Value]) {
        lines
            .iter()
            .for_each(|line| neutralizer.collect_names(line));
        let lines: Vec<String> = lines
            .iter()
            .map(|line| format!("{}\n", neutralizer.neutralize(line)))
            .collect();
        let text = lines.concat();
        assert!(text.len() < LIMIT, "{name} has {} bytes", text.len());
        neutralizer.check(name, &text);
        std::fs::write(self.folder.join(name), &text).unwrap();
        println!("{:>6} {}", text.len(), self.folder.join(name).display());
    }

    /// Writes the golden file for a file of an agent, which has one JSON value per line.
    fn write_file(&self, name: &str, neutralizer: &mut Neutralizer, path: &Path) {
        let text = std::fs::read_to_string(path).unwrap();
        let parse =
            |line| serde_json::from_str(line).unwrap_or_else(|_| Value::String(line.into()));
        let lines: Vec<Value> = text.lines().map(parse).collect();
        self.write(name, neutralizer, &lines);
    }
}

fn main() {
    let claude = GoldenFolder::of("claude_code", Program::ClaudeCode);
    let codex = GoldenFolder::of("codex", Program::Codex);
    scenes::shared(&claude, segno_testkit::programs::Agent::Claude);
    scenes::shared(&codex, segno_testkit::programs::Agent::Codex);
    scenes::background(&claude);
    scenes::delegated(&claude);
    scenes::compacted(&claude);
    scenes::compacted_codex(&codex);
    scenes::adapter(
        &GoldenFolder::of("acp/claude", Program::ClaudeAcp),
        Program::ClaudeAcp,
    );
    scenes::adapter(
        &GoldenFolder::of("acp/codex", Program::CodexAcp),
        Program::CodexAcp,
    );
}
