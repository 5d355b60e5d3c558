//! The fuzz targets: one for each parser of external bytes.

use segno_agents::transcript::TranscriptFormat;

use crate::mutate::Rng;
use crate::{files, redact, runner, seeds, spec, streams, transcript};

/// A parser, and how to fuzz it.
pub struct Target {
    pub name: &'static str,
    /// The seeds that cases are mutated from.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Byte strings that the parser gives a meaning.
    pub dictionary: &'static [&'static [u8]],
    /// Corrects lengths and checksums, which would otherwise reject every mutation. May leave some
    /// wrong.
    pub fix_checksums: fn(&mut Vec<u8>, &mut Rng),
    /// Panics if a property is violated.
    pub check: fn(&[u8]),
}

impl Target {
    pub const ALL: [Target; 20] = [
        Target {
            name: "claude_transcript",
            seeds: || {
                seeds::files(
                    "crates/agents/tests/golden/claude_code/transcripts",
                    ".jsonl",
                )
            },
            dictionary: transcript::WORDS,
            fix_checksums: |_, _| (),
            check: |bytes| transcript::check(TranscriptFormat::ClaudeCode, bytes),
        },
        Target {
            name: "codex_rollout",
            seeds: || seeds::files("crates/agents/tests/golden/codex/transcripts", ".jsonl"),
            dictionary: transcript::WORDS,
            fix_checksums: |_, _| (),
            check: |bytes| transcript::check(TranscriptFormat::Codex, bytes),
        },
        streams::CLAUDE,
        streams::CODEX,
        streams::CODEX_TAIL,
        streams::LIMITS,
        streams::ACP,
        streams::ANTHROPIC,
        streams::OPENAI,
        streams::BEDROCK,
        streams::MCP,
        files::BUNDLE,
        files::ANNOUNCEMENT,
        files::ARCHIVE,
        files::GIT_INDEX,
        files::PATTERNS,
        spec::SPEC,
        spec::CHECKLIST,
        runner::RUNNER_OUTPUT,
        redact::REDACT,
    ];

    /// Finds a target by name.
    pub fn named(name: &str) -> Option<&'static Target> {
        const ALL: &[Target] = &Target::ALL;
        ALL.iter().find(|target| target.name == name)
    }
}
