//! Summaries of transcripts, and how much memory they take.

use std::fs::File;
use std::io::{BufWriter, Cursor, Write};
use std::path::Path;
use std::process::Command;

use segno_agents::transcript::{BranchStatus, Reason, Report, TranscriptFormat, VersionSupport};
use segno_core::conversation::Tokens;
use segno_core::time::Timestamp;
use serde_json::json;

use crate::transcripts_reading::one;

fn examine(native: TranscriptFormat, name: &str) -> Report {
    native.examine(Cursor::new(one(native, name))).unwrap()
}

#[test]
fn claude_code_session_is_summarized() {
    let text = one(TranscriptFormat::ClaudeCode, "three");
    let report = examine(TranscriptFormat::ClaudeCode, "three");
    assert_eq!(report.bytes, text.len() as u64);
    let lines = text.split_inclusive(|&byte| byte == b'\n').count();
    assert_eq!(report.records, lines as u64);
    assert_eq!(report.adapted, VersionSupport::Known("2.1.325".into()));
    assert_eq!(report.branches, BranchStatus::Yes);
    let facts = &report.facts;
    assert_eq!(
        facts.session.as_deref(),
        Some("1be7fef8-80d5-4db8-b56b-16971ac56909")
    );
    assert_eq!(facts.cwd.as_deref(), Some("/home/user/project"));
    assert_eq!(facts.model.as_deref(), Some("claude-opus-5-5"));
    assert_eq!(facts.git_branch.as_deref(), Some("HEAD"));
    let summary = &report.summary;
    assert_eq!(summary.title.as_deref(), Some("t [[script:three]]"));
    assert_eq!(summary.first, Some(Timestamp(1_794_728_387_506)));
    assert_eq!(summary.unanswered, []);
    let files: Vec<_> = summary.files.iter().collect();
    assert_eq!(files, ["/home/user/project/hello.txt"]);
    assert_eq!(report.damage, []);
    assert!(!report.is_torn());
}

/// Claude Code writes its own count in the last `cost-state`.
#[test]
fn token_sums_match_the_cli_agent() {
    let text = one(TranscriptFormat::ClaudeCode, "three");
    let cost = text
        .split(|&byte| byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<serde_json::Value>(line).ok())
        .rfind(|record| record["type"] == "cost-state")
        .unwrap();
    let counted = &cost["modelUsage"]["claude-opus-5-5"];
    let usage = examine(TranscriptFormat::ClaudeCode, "three").summary.usage;
    assert_eq!(json!(usage.input), counted["inputTokens"]);
    assert_eq!(json!(usage.output), counted["outputTokens"]);
}

#[test]
fn codex_session_is_summarized() {
    let report = examine(TranscriptFormat::Codex, "three");
    let facts = &report.facts;
    assert_eq!(
        facts.session.as_deref(),
        Some("01a1de0e-ecf2-7713-ba2d-d960094eaabb")
    );
    assert_eq!(facts.model.as_deref(), Some("gpt-5.5"));
    assert_eq!(facts.version.as_deref(), Some("0.166.0"));
    let summary = &report.summary;
    assert_eq!(summary.title.as_deref(), Some("t [[script:three]]"));
    assert_eq!(summary.context, Some(10_178));
    let usage = Tokens {
        input: 49_249,
        output: 220,
        ..Tokens::default()
    };
    assert_eq!(summary.usage, usage);
    let files: Vec<_> = summary.files.iter().collect();
    assert_eq!(files, ["hello.txt"]);
}

#[test]
fn killed_session_has_an_open_call() {
    for native in [TranscriptFormat::ClaudeCode, TranscriptFormat::Codex] {
        let report = examine(native, "killed");
        let [call] = &report.summary.unanswered[..] else {
            panic!("{report:?}");
        };
        let input = call.input.as_ref().unwrap().to_string();
        assert!(input.contains("sleep 30"), "{input}");
    }
    let report = examine(TranscriptFormat::ClaudeCode, "killed-and-resumed");
    assert_eq!(report.summary.unanswered, []);
    assert_eq!(report.summary.context, Some(11_983 + 20));
}

#[test]
fn torn_file_is_reported() {
    let text = one(TranscriptFormat::Codex, "three");
    for (cut, reason) in [(5, Reason::Torn), (1, Reason::NoNewline)] {
        let torn = &text[..text.len() - cut];
        let report = TranscriptFormat::Codex.examine(Cursor::new(torn)).unwrap();
        assert!(report.is_torn());
        assert_eq!(report.damage[0].reason, reason);
        assert_eq!(report.bytes, torn.len() as u64);
    }
    let report = TranscriptFormat::Codex.examine(Cursor::new(b"")).unwrap();
    assert_eq!(
        (report.records, report.bytes, report.is_torn()),
        (0, 0, false)
    );
}

/// Examines a file and prints the peak memory in MiB. Runs in a process of its own.
#[test]
#[ignore = "only a part of the tests of memory"]
#[expect(clippy::disallowed_methods, reason = "tests read files as others do")]
fn measure() {
    let path = std::env::var_os("SEGNO_TEST_TRANSCRIPT").unwrap();
    let native = match std::env::var("SEGNO_TEST_AGENT").unwrap().as_str() {
        "codex" => TranscriptFormat::Codex,
        _ => TranscriptFormat::ClaudeCode,
    };
    let report = native.examine(File::open(path).unwrap()).unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let high = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    let kib: u64 = high.trim().trim_end_matches(" kB").parse().unwrap();
    println!(
        "MEASURED {} {} {}",
        kib / 1024,
        report.records,
        report.damage.len()
    );
}

fn measured(native: TranscriptFormat, path: &Path) -> [u64; 3] {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "transcripts_examining::measure",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env("SEGNO_TEST_TRANSCRIPT", path)
        .env("SEGNO_TEST_AGENT", native.name())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let line = said.lines().find_map(|line| line.split("MEASURED ").nth(1));
    let numbers: Vec<u64> = line
        .unwrap()
        .split(' ')
        .map(|word| word.parse().unwrap())
        .collect();
    numbers.try_into().unwrap()
}

#[expect(clippy::disallowed_methods, reason = "tests make files as others do")]
fn made(
    name: &str,
    fill: impl FnOnce(&mut BufWriter<File>),
) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let mut file = BufWriter::new(File::create(&path).unwrap());
    fill(&mut file);
    file.flush().unwrap();
    (folder, path)
}

/// `SEGNO_TEST_MEGABYTES=1024` makes it a gigabyte.
#[test]
fn huge_transcript_is_examined_in_bounded_memory() {
    let megabytes: u64 =
        std::env::var("SEGNO_TEST_MEGABYTES").map_or(300, |text| text.parse().unwrap());
    let pad = "x".repeat(500);
    let mut records = 0_u64;
    let (_folder, path) = made("huge.jsonl", |file| {
        let mut written = 0;
        while written < megabytes << 20 {
            let uuid = records;
            let parent = uuid.saturating_sub(1);
            let link = match uuid {
                0 => "null".to_owned(),
                _ => format!("\"{parent}\""),
            };
            let line = if records.is_multiple_of(2) {
                format!(
                    "{{\"parentUuid\":{link},\"type\":\"user\",\"uuid\":\"{uuid}\",\"timestamp\":\"2026-11-15T07:39:47.506Z\",\"message\":{{\"role\":\"user\",\"content\":[{{\"type\":\"tool_result\",\"tool_use_id\":\"c{parent}\",\"content\":\"{pad}\"}}]}}}}\n"
                )
            } else {
                format!(
                    "{{\"parentUuid\":{link},\"type\":\"assistant\",\"uuid\":\"{uuid}\",\"timestamp\":\"2026-11-15T07:39:47.506Z\",\"message\":{{\"id\":\"m{uuid}\",\"content\":[{{\"type\":\"tool_use\",\"id\":\"c{uuid}\",\"name\":\"Bash\",\"input\":{{\"command\":\"{pad}\"}}}}],\"usage\":{{\"input_tokens\":1,\"output_tokens\":1}}}}}}\n"
                )
            };
            file.write_all(line.as_bytes()).unwrap();
            written += line.len() as u64;
            records += 1;
        }
    });
    let [memory, read, damage] = measured(TranscriptFormat::ClaudeCode, &path);
    println!("{megabytes} MB: {memory} MiB");
    assert_eq!((read, damage), (records, 0));
    assert!(memory <= 64, "{memory} MiB");
}

#[test]
fn huge_line_is_skipped_in_bounded_memory() {
    for native in [TranscriptFormat::ClaudeCode, TranscriptFormat::Codex] {
        let (_folder, path) = made("line.jsonl", |file| {
            file.write_all(b"{\"type\":\"user\",\"message\":{\"content\":\"")
                .unwrap();
            let pad = vec![b'x'; 1 << 20];
            for _ in 0..200 {
                file.write_all(&pad).unwrap();
            }
            file.write_all(b"\"}}\n{\"type\":\"after\"}\n").unwrap();
        });
        let [memory, read, damage] = measured(native, &path);
        println!("200 MB in a line: {memory} MiB");
        assert_eq!((read, damage), (1, 1));
        assert!(memory <= 48, "{memory} MiB");
    }
}
