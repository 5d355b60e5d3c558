//! Target for `segno_engine::note_rules::NoteExtractor`, which reads the output of commands: it must not conclude
//! more than the output says.

use segno_core::conversation::{
    Answer, AssistantPart, ConversationItem, ItemContent, Outcome, Part,
};
use segno_core::note::{Note, Phase};
use segno_core::tool::ToolCall;
use segno_engine::note_rules::NoteExtractor;

use crate::seeds;
use crate::target::Target;

/// Commands, among them one that only shows a file.
const COMMANDS: [&str; 8] = [
    "cat log.txt",
    "cargo test",
    "cargo nextest run",
    "pytest -q",
    "npx jest",
    "npx vitest run",
    "go test ./...",
    "make test 2>&1 | tail -20",
];

pub const RUNNER_OUTPUT: Target = Target {
    name: "runner_output",
    seeds: || seeds::files("crates/engine/tests/golden/runners", ".txt"),
    dictionary: &[
        b"test result: ok. 1 passed; 0 failed; ",
        b"\nfailures:\n    ",
        b" in 0.01s",
        b"Summary [",
        b"--- FAIL: ",
        b"ok  \t",
        b"FAILED ",
        b"\x1b[31m",
        b"Exit code 1\n",
    ],
    fix_checksums: |_, _| (),
    check,
};

fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    // The bytes are also used as a command.
    for command in COMMANDS.into_iter().chain([&*text]) {
        let mut last = None;
        for outcome in [Outcome::Succeeded, Outcome::Failed] {
            let mut reader = NoteExtractor::default();
            reader.read(&asked(command));
            let found = reader.read(&answered(&text, outcome));
            for (_, written) in &found {
                let note = &written.note;
                assert_eq!(&note.clone().truncated(), note, "notes are short");
                if let Note::Tests(tests) = note {
                    assert_ne!(command, COMMANDS[0], "printing a file is not a test run");
                    let well = matches!(tests.phase, Phase::Green | Phase::Refactor);
                    assert!(!well, "there were no notes before");
                }
            }
            last = Some((reader, found));
        }
        let Some((mut reader, found)) = last else {
            continue;
        };
        // The same output again must not report the same error again.
        reader.read(&asked(command));
        let again = reader.read(&answered(&text, Outcome::Failed));
        let errors = |note: &Note| matches!(note, Note::Error(_));
        let told = found.iter().filter(|(_, written)| errors(&written.note));
        assert!(told.count() <= 1, "one call yields at most one error");
        assert!(!again.iter().any(|(_, written)| errors(&written.note)));
    }
}

fn asked(command: &str) -> ConversationItem {
    ConversationItem::new(ItemContent::Assistant {
        message: None,
        model: None,
        parts: vec![AssistantPart::Call(ToolCall {
            id: "c".to_owned(),
            name: "Bash".to_owned(),
            input: serde_json::json!({"command": command}),
        })],
        usage: None,
    })
}

fn answered(text: &str, outcome: Outcome) -> ConversationItem {
    ConversationItem::new(ItemContent::Result(Answer {
        id: "c".to_owned(),
        parts: vec![Part::Text {
            text: text.to_owned(),
        }],
        outcome,
    }))
}
