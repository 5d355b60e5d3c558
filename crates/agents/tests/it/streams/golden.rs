//! Recordings of the real programs' streams, and what each is parsed to.

use std::path::PathBuf;

use segno_core::cli_agent::CliAgentKind;

use super::run_script;

/// Summarizes a recording: how many events of each kind, the usage, and the outcome.
fn summary(program: CliAgentKind, name: &str, end: &str) -> String {
    let version = match program {
        CliAgentKind::ClaudeCode => "claude_code/2.1.325",
        _ => "codex/0.166.0",
    };
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let path = golden.join(version).join(format!("{name}.stream.jsonl"));
    assert!(path.exists(), "{}", path.display());
    let script = format!("cat > /dev/null; cat '{}'; {end}", path.display());
    let (answer, events) = run_script(program, &script);
    assert!(events[0].starts_with("native "), "{name}: {events:#?}");
    let count = |word: &str| events.iter().filter(|line| line.starts_with(word)).count();
    let last = |word: &str| {
        let found = events.iter().rev().find(|line| line.starts_with(word));
        found.cloned().unwrap_or_else(|| format!("{word}-"))
    };
    let ended = match answer {
        Ok(answer) => format!("answered {:?}", answer.text),
        Err(error) => {
            let message = match error.message.split_once("/program` ") {
                Some((_, rest)) => format!("`program` {rest}"),
                None => error.message,
            };
            format!("{}: {message}", error.kind.as_str())
        }
    };
    format!(
        "{name}: {} texts {} thoughts {} calls {} results {} others | {} | {} | {ended}",
        count("text "),
        count("thought "),
        count("call "),
        count("result "),
        events.len()
            - count("native ")
            - count("text ")
            - count("thought ")
            - count("call ")
            - count("result ")
            - count("usage ")
            - count("context ")
            - count("report "),
        last("usage "),
        last("context "),
    )
}

#[test]
fn claude_code_recordings_parse_as_expected() {
    let runs = [
        ("normal", ":"),
        ("background", ":"),
        ("delegated", ":"),
        ("compacted", ":"),
        ("compacted-resumed", ":"),
        ("resumed", ":"),
        ("killed", "kill -9 $$"),
        ("sigint", ":"),
        ("sigterm", "exit 143"),
        ("limited", "exit 1"),
        // It was compacted, and continued.
        ("too-long", ":"),
        ("unauthorized", "exit 1"),
    ];
    let found = runs.map(|(name, end)| summary(CliAgentKind::ClaudeCode, name, end));
    let expected = r#"
normal: 9 texts 2 thoughts 9 calls 9 results 0 others | usage 12600 59400 | context 1801 Some(1000000) | answered "Done: the plan, three files and a count. [standard:8]"
background: 3 texts 0 thoughts 1 calls 1 results 0 others | usage 3300 16200 | context 1201 Some(1000000) | answered "It is over. [background:2]"
delegated: 2 texts 0 thoughts 2 calls 2 results 1 others | usage 4200 20800 | context 1101 Some(1000000) | answered "It was seen. [above:1]"
compacted: 0 texts 0 thoughts 0 calls 0 results 3 others | usage 1000 5000 | context - | answered ""
compacted-resumed: 1 texts 0 thoughts 0 calls 0 results 0 others | usage 1200 5800 | context 1201 Some(1000000) | answered "And on. [long:2]"
resumed: 2 texts 0 thoughts 1 calls 1 results 0 others | usage 2300 11200 | context 1201 Some(1000000) | answered "Done. [brief:2]"
killed: 2 texts 0 thoughts 2 calls 1 results 0 others | usage 2100 0 | context 1101 Some(1000000) | crashed: `program` was killed by signal 9
sigint: 2 texts 0 thoughts 2 calls 2 results 1 others | usage 2100 10400 | context 1101 Some(1000000) | crashed: claude: [ede_diagnostic] result_type=user last_content_type=n/a stop_reason=tool_use
sigterm: 2 texts 0 thoughts 2 calls 2 results 0 others | usage 2100 0 | context 1101 Some(1000000) | crashed: `program` exited with code 143
limited: 2 texts 0 thoughts 1 calls 1 results 1 others | usage 1000 5000 | context 1001 Some(1000000) | rate_limited: claude: API Error: Request rejected (429) · This request would exceed your rate limit
too-long: 2 texts 0 thoughts 1 calls 1 results 2 others | usage 3000 15000 | context 1001 Some(1000000) | answered "No script of this server is named."
unauthorized: 2 texts 0 thoughts 1 calls 1 results 1 others | usage 1000 5000 | context 1001 Some(1000000) | auth: claude: Invalid API key · Fix external API key
"#;
    assert_eq!(found.join("\n"), expected.trim());
}

/// The turns, the duration and the cost of the conversation, as each run reports them.
#[test]
fn claude_code_recordings_report_their_runs() {
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/claude_code/2.1.325");
    let reports = |name: &str| {
        let path = golden.join(format!("{name}.stream.jsonl"));
        let script = format!("cat > /dev/null; cat '{}'", path.display());
        let (_, events) = run_script(CliAgentKind::ClaudeCode, &script);
        let reports = events
            .into_iter()
            .filter(|line| line.starts_with("report "));
        reports.collect::<Vec<_>>().join(", ")
    };
    let found = ["normal", "background", "resumed", "killed"].map(reports);
    let expected = [
        "report Some(10) Some(1) Some(59400)",
        "report Some(2) Some(1) Some(10400), report Some(1) Some(1) Some(16200)",
        // The killed run before it reported nothing, and its cost is in no total.
        "report Some(2) Some(1) Some(11200)",
        "",
    ];
    assert_eq!(found, expected);
}

#[test]
fn codex_recordings_parse_as_expected() {
    let runs = [
        ("normal", ":"),
        ("resumed", ":"),
        ("compacted", ":"),
        ("killed", "kill -9 $$"),
        ("sigint", "exit 1"),
        ("sigterm", "kill -15 $$"),
        ("limited", "exit 1"),
        ("too-long", "exit 1"),
        ("unauthorized", "exit 1"),
    ];
    let found = runs.map(|(name, end)| summary(CliAgentKind::Codex, name, end));
    let expected = r#"
normal: 9 texts 2 thoughts 9 calls 9 results 0 others | usage 12600 0 | context - | answered "Done: the plan, three files and a count. [standard:8]"
resumed: 2 texts 0 thoughts 1 calls 1 results 0 others | usage 3300 0 | context - | answered "Done. [brief:2]"
compacted: 2 texts 0 thoughts 1 calls 1 results 0 others | usage 252100 0 | context - | answered "And on. [long:1]"
killed: 2 texts 0 thoughts 1 calls 1 results 0 others | usage - | context - | crashed: `program` was killed by signal 9
sigint: 2 texts 0 thoughts 1 calls 1 results 0 others | usage - | context - | crashed: `program` exited with code 1
sigterm: 2 texts 0 thoughts 1 calls 1 results 0 others | usage - | context - | crashed: `program` was killed by signal 15
limited: 1 texts 0 thoughts 1 calls 1 results 1 others | usage - | context - | rate_limited: codex: You’ve hit your usage limit. Try again at 2:02 AM.
too-long: 1 texts 0 thoughts 1 calls 1 results 1 others | usage - | context - | context_full: codex: {"error":{"code":"context_length_exceeded","message":"Your input exceeds the context window of this model.","type":"invalid_request_error"}}
unauthorized: 1 texts 0 thoughts 1 calls 1 results 2 others | usage - | context - | auth: codex: unexpected status 401 Unauthorized: Incorrect API key provided, url: http://127.0.0.1:1/v1/responses
"#;
    assert_eq!(found.join("\n"), expected.trim());
}
