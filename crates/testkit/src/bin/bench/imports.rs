//! (j) `segno agents import claude --all`: many conversations at once, and again when nothing is new.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Instant;

use segno_testkit::sandbox::Sandbox;
use serde_json::json;

use crate::disk::Disk;
use crate::figures::{Bar, Row, Samples, Table, millis};
use crate::{Plan, log_progress};

/// How many transcripts there are.
const TRANSCRIPTS: u32 = 300;
/// How many records each has.
const RECORDS: u32 = 40;

pub(crate) fn measure(plan: &Plan, disk: &mut Disk, table: &mut Table) {
    let (mut first, mut again) = (Samples::default(), Samples::default());
    for round in 1..=plan.rounds() {
        log_progress(&format!("  round {round}"));
        let sandbox = Sandbox::new(&plan.segno);
        write_transcripts(&sandbox.work());
        disk.probe();
        let run = |expected: &str| {
            let mut command = sandbox.command(&["agents", "import", "claude", "--all"]);
            command.env("CLAUDE_CONFIG_DIR", sandbox.work().join("claude"));
            let begun = Instant::now();
            let output = command.output().unwrap();
            let elapsed = millis(begun.elapsed());
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.ends_with(expected), "{output:?}");
            elapsed
        };
        first.push(run("300 imported\n"));
        again.push(run("300 unchanged\n"));
    }
    let row = Row::single("j", "import of 300 transcripts", "ms", first);
    table.add(row.bar(Bar::AtMost(5_000.0)));
    let again = Row::single("j", "  again, without news", "ms", again);
    table.add(again);
}

fn write_transcripts(work: &Path) {
    let folder = work.join("claude/projects/-work");
    fs::create_dir_all(&folder).unwrap();
    for number in 0..TRANSCRIPTS {
        let id = format!("5e550000-0000-4000-8000-{number:012}");
        let mut text = String::new();
        for record in 0..RECORDS {
            let _ = writeln!(text, "{}", line(work, number, &id, record));
        }
        fs::write(folder.join(format!("{id}.jsonl")), text).unwrap();
    }
}

/// A record: a message, a call, its result and an answer follow each other.
fn line(work: &Path, number: u32, id: &str, record: u32) -> serde_json::Value {
    let uuid = |record: u32| format!("{number:08x}-0000-4000-8000-{record:012}");
    let call = |record: u32| format!("toolu_{number}_{record}");
    let by_model = |content: serde_json::Value| {
        json!({
            "id": format!("msg_{number}_{record}"), "type": "message", "role": "assistant",
            "model": "claude-test", "content": content,
            "usage": {"input_tokens": 100, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 0, "output_tokens": 7},
        })
    };
    let (kind, message) = match record % 4 {
        0 => {
            let text = format!("Task {number}, part {record}: look at the next file.");
            ("user", json!({"role": "user", "content": text}))
        }
        1 => {
            let text = format!("I look at it. {}", "word ".repeat(60));
            let call = json!({"type": "tool_use", "id": call(record), "name": "Bash", "input": {"command": "cat file"}});
            (
                "assistant",
                by_model(json!([{"type": "text", "text": text}, call])),
            )
        }
        2 => {
            let content = "line of output\n".repeat(150);
            let result =
                json!({"type": "tool_result", "tool_use_id": call(record - 1), "content": content});
            ("user", json!({"role": "user", "content": [result]}))
        }
        _ => {
            let text = format!("It is done. {}", "word ".repeat(80));
            (
                "assistant",
                by_model(json!([{"type": "text", "text": text}])),
            )
        }
    };
    json!({
        "type": kind, "uuid": uuid(record), "parentUuid": record.checked_sub(1).map(uuid),
        "sessionId": id, "cwd": work, "version": "2.1.325", "isSidechain": false,
        "timestamp": format!("2026-11-{:02}T10:00:{record:02}.000Z", 1 + number % 14),
        "message": message,
    })
}
