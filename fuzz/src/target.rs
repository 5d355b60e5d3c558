//! The targets: one for each parser of bytes from outside.

use segno_agents::transcript::Native;

use crate::mutate::Chance;
use crate::{kept, runner, seeds, spec, streams, transcript};

/// One parser, and how it is tried.
pub struct Target {
    /// What it is called.
    pub name: &'static str,
    /// What cases are made of.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Words that mean something to it.
    pub words: &'static [&'static [u8]],
    /// Makes lengths and checksums right again, which would otherwise keep every change out; it may
    /// leave some wrong.
    pub mend: fn(&mut Vec<u8>, &mut Chance),
    /// Panics if a promise is broken.
    pub hold: fn(&[u8]),
}

impl Target {
    /// Every one.
    pub const ALL: [Target; 19] = [
        Target {
            name: "claude_transcript",
            seeds: || {
                seeds::files(
                    "crates/agents/tests/golden/claude_code/transcripts",
                    ".jsonl",
                )
            },
            words: transcript::WORDS,
            mend: |_, _| (),
            hold: |bytes| transcript::hold(Native::ClaudeCode, bytes),
        },
        Target {
            name: "codex_rollout",
            seeds: || seeds::files("crates/agents/tests/golden/codex/transcripts", ".jsonl"),
            words: transcript::WORDS,
            mend: |_, _| (),
            hold: |bytes| transcript::hold(Native::Codex, bytes),
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
        kept::BUNDLE,
        kept::LETTER,
        kept::ARCHIVE,
        kept::GIT_INDEX,
        kept::PATTERNS,
        spec::SPEC,
        spec::CHECKLIST,
        runner::RUNNER_OUTPUT,
    ];

    /// The one of this name.
    pub fn named(name: &str) -> Option<&'static Target> {
        const ALL: &[Target] = &Target::ALL;
        ALL.iter().find(|target| target.name == name)
    }
}
