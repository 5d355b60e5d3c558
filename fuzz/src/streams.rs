//! Targets for streams of agents and servers: the result does not depend on how the bytes are split
//! into pieces.

use std::path::Path;

use segno_agents::{acp, anthropic, bedrock, claude_code, codex, mcp, openai};
use serde_json::Value;

use crate::mutate::Rng;
use crate::seeds;
use crate::target::Target;

/// The conversation ids in the recordings.
const CLAUDE_ID: &str = "00000000-0000-4000-8000-000000000001";
const CODEX_ID: &str = "00000000-0000-7000-8000-000000000001";

/// Larger than any case.
const WHOLE: usize = 1 << 30;

/// `claude -p --output-format=stream-json`.
pub const CLAUDE: Target = Target {
    name: "claude_stream",
    seeds: || {
        seeds::files(
            "crates/agents/tests/golden/claude_code/2.1.325",
            ".stream.jsonl",
        )
    },
    dictionary: &[
        b"\"type\":\"result\",",
        b"\"type\":\"assistant\",",
        b"\"is_error\":true,",
        b"\"session_id\":\"00000000-0000-4000-8000-000000000001\",",
        b"\"rate_limit_event\"",
        b"\"costUSD\":-1e308,",
        b"limit reached|99999999999999999999",
    ],
    fix_checksums: |_, _| (),
    check: |bytes| {
        check_pieces(bytes, |piece| {
            claude_code::probe::parse_stream(CLAUDE_ID, bytes, piece)
        });
    },
};

/// `codex exec --json`.
pub const CODEX: Target = Target {
    name: "codex_stream",
    seeds: || seeds::files("crates/agents/tests/golden/codex/0.166.0", ".stream.jsonl"),
    dictionary: &[
        b"\"type\":\"turn.completed\",",
        b"\"type\":\"turn.failed\",",
        b"\"type\":\"item.completed\",",
        b"\"thread_id\":\"00000000-0000-7000-8000-000000000001\"",
        b"try again in 99999999999999999999 days",
        b"try again in 9 days 99999999999999999 hours",
    ],
    fix_checksums: |_, _| (),
    check: |bytes| {
        for id in [None, Some(CODEX_ID)] {
            check_pieces(bytes, |piece| codex::probe::parse_stream(id, bytes, piece));
        }
    },
};

/// The rollout of Codex, read while it grows.
pub const CODEX_TAIL: Target = Target {
    name: "codex_tail",
    seeds: || seeds::files("crates/agents/tests/golden/codex/transcripts", ".jsonl"),
    dictionary: &[
        b"\"type\":\"token_count\",",
        b"\"model_context_window\":18446744073709551615,",
        b"\"last_token_usage\":{\"input_tokens\":18446744073709551615,\"output_tokens\":9},",
        b"\"thread_token_usage\":{\"input_tokens\":1,\"output_tokens\":2},",
    ],
    fix_checksums: |_, _| (),
    check: |bytes| {
        check_pieces(bytes, |piece| {
            codex::probe::read_token_counts(CODEX_ID, bytes, piece)
        });
    },
};

/// When a rate limit is lifted: from messages and from response headers.
pub const LIMITS: Target = Target {
    name: "limits",
    seeds: || {
        [
            "You've hit your usage limit. Try again in 2 days 3 hours 4 minutes.",
            "You've hit your usage limit. Try again at 1:59 AM.",
            "You've hit your usage limit. Try again at Nov 20th, 2026 1:59 AM.",
            "{\"error\":{\"type\":\"usage_limit_reached\",\"resets_at\":1794803700,\"resets_in_seconds\":60}}",
            "retry-after: 30\ndate: Sun, 06 Nov 1994 08:49:37 GMT\n",
            "retry-after: Sun, 06 Nov 1994 08:49:37 GMT\ndate: Sun, 06 Nov 1994 08:49:00 GMT\n",
            "anthropic-ratelimit-tokens-remaining: 0\nanthropic-ratelimit-tokens-reset: 2026-11-16T05:00:00Z\ndate: Mon, 16 Nov 2026 04:59:00 GMT\n",
            "x-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 6m0.5s\n",
        ]
        .map(|seed| seed.as_bytes().to_vec())
        .to_vec()
    },
    dictionary: &[
        b"99999999999999999999",
        b"1e308",
        b"try again in ",
        b"try again at ",
        b"12:00 AM",
        b"feb 29",
    ],
    fix_checksums: |_, _| (),
    check: |bytes| {
        let words = String::from_utf8_lossy(bytes);
        assert_eq!(
            codex::probe::parse_retry_delay(&words),
            codex::probe::parse_retry_delay(&words)
        );
        assert_eq!(
            anthropic::probe::parse_retry_after(bytes),
            anthropic::probe::parse_retry_after(bytes)
        );
    },
};

/// The Agent Client Protocol, and the state that its updates are merged into.
pub const ACP: Target = Target {
    name: "acp",
    seeds: || {
        let mut seeds = recorded_messages("crates/agents/tests/golden/acp/claude/0.99.0", ".jsonl");
        seeds.extend(recorded_messages(
            "crates/agents/tests/golden/acp/codex/2.6.0",
            ".jsonl",
        ));
        seeds
    },
    dictionary: &[
        b"\"status\":\"completed\",",
        b"\"stopReason\":\"end_turn\",",
        b"\"sessionUpdate\":\"tool_call_update\",",
        b"\"method\":\"session/request_permission\",",
        b"\"path\":\"../../etc/passwd\",",
        b"\"amount\":-1e308,\"currency\":\"USD\"",
    ],
    fix_checksums: |_, _| (),
    check: |bytes| {
        let heard = || acp::probe::parse_stream(bytes, Path::new("/nonexistent"));
        assert_eq!(heard(), heard());
    },
};

/// Event streams of the Messages API.
pub const ANTHROPIC: Target = Target {
    name: "anthropic_events",
    seeds: || seeds::own("anthropic_events"),
    dictionary: &[
        b"data: ",
        b"\r\n\r\n",
        b"\r\r",
        b"\"type\":\"message_stop\"",
        b"\"index\":9",
        b"\"partial_json\":\"",
    ],
    fix_checksums: |_, _| (),
    check: |bytes| check_pieces(bytes, |piece| anthropic::probe::parse_stream(bytes, piece)),
};

/// Event streams of chat completions.
pub const OPENAI: Target = Target {
    name: "openai_events",
    seeds: || seeds::own("openai_events"),
    dictionary: &[
        b"data: ",
        b"data: [DONE]\n\n",
        b"\r\n\r\n",
        b"\"index\":999",
        b"\"finish_reason\":\"stop\"",
        b"\"error\":{}",
    ],
    fix_checksums: |_, _| (),
    check: |bytes| check_pieces(bytes, |piece| openai::probe::parse_stream(bytes, piece)),
};

/// Event frames of Amazon Bedrock.
pub const BEDROCK: Target = Target {
    name: "bedrock_frames",
    seeds: bedrock_answers,
    dictionary: &[
        b":message-type",
        b":event-type",
        b":exception-type",
        b"\x07\x00\x05event",
        b"\"contentBlockIndex\":9",
        b"\x00\x00\x00\x10",
    ],
    fix_checksums: |bytes, rng| fix_frames(bytes, rng),
    check: |bytes| check_pieces(bytes, |piece| bedrock::probe::parse_stream(bytes, piece)),
};

/// Messages of MCP servers.
pub const MCP: Target = Target {
    name: "mcp",
    seeds: || seeds::own("mcp"),
    dictionary: &[
        b"\"jsonrpc\":\"2.0\",",
        b"\"id\":1,",
        b"\"isError\":true,",
        b"\"content\":[],",
        b"\"inputSchema\":{},",
    ],
    fix_checksums: |_, _| (),
    check: |bytes| {
        assert_eq!(
            mcp::probe::parse_messages(bytes),
            mcp::probe::parse_messages(bytes)
        )
    },
};

/// The result is the same at once, repeated, and in pieces.
fn check_pieces(bytes: &[u8], heard: impl Fn(usize) -> String) {
    let whole = heard(WHOLE);
    assert_eq!(whole, heard(WHOLE));
    // Pieces of one byte would take too long for a large case.
    assert_eq!(whole, heard(bytes.len() / 50 + 1));
}

/// Extracts the messages of the agent from a recording of both sides.
fn recorded_messages(folder: &str, end: &str) -> Vec<Vec<u8>> {
    let said = |recording: Vec<u8>| {
        let lines = recording.split(|byte| *byte == b'\n');
        let values = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
        let said = values.filter_map(|value| Some(format!("{}\n", value.get("received")?)));
        said.collect::<String>().into_bytes()
    };
    let recordings = seeds::files(folder, end);
    recordings.into_iter().map(said).collect()
}

/// Answers of Bedrock, encoded as frames.
fn bedrock_answers() -> Vec<Vec<u8>> {
    let answer = |events: &[(&str, &str)]| {
        let frames = events.iter().map(|(kind, payload)| frame(kind, payload));
        frames.collect::<Vec<_>>().concat()
    };
    let words = r#"{"contentBlockIndex":0,"delta":{"text":"hello"}}"#;
    let stop = ("messageStop", r#"{"stopReason":"end_turn"}"#);
    let used = (
        "metadata",
        r#"{"usage":{"inputTokens":10,"outputTokens":5,"cacheReadInputTokens":2}}"#,
    );
    vec![
        answer(&[
            ("messageStart", r#"{"role":"assistant"}"#),
            ("contentBlockDelta", words),
            ("contentBlockStop", r#"{"contentBlockIndex":0}"#),
            stop,
            used,
        ]),
        answer(&[
            (
                "contentBlockStart",
                r#"{"contentBlockIndex":1,"start":{"toolUse":{"toolUseId":"t","name":"f"}}}"#,
            ),
            (
                "contentBlockDelta",
                r#"{"contentBlockIndex":1,"delta":{"toolUse":{"input":"{\"x\":1}"}}}"#,
            ),
            (
                "contentBlockDelta",
                r#"{"contentBlockIndex":2,"delta":{"reasoningContent":{"text":"hm","signature":"s"}}}"#,
            ),
            ("messageStop", r#"{"stopReason":"tool_use"}"#),
            used,
        ]),
        frame("", r#"{"message":"too many"}"#),
    ]
}

fn frame(kind: &str, payload: &str) -> Vec<u8> {
    let (sort, name) = match kind {
        "" => ("exception", "throttlingException"),
        kind => ("event", kind),
    };
    let mut headers = Vec::new();
    for (key, value) in [
        (":message-type", sort),
        (
            if kind.is_empty() {
                ":exception-type"
            } else {
                ":event-type"
            },
            name,
        ),
    ] {
        headers.push(u8::try_from(key.len()).expect("a header name fits into its length field"));
        headers.extend(key.bytes());
        headers.push(7);
        let length = u16::try_from(value.len()).expect("a header value fits into its length field");
        headers.extend(length.to_be_bytes());
        headers.extend(value.bytes());
    }
    let total = 16 + headers.len() + payload.len();
    let mut frame = Vec::new();
    for length in [total, headers.len()] {
        let length = u32::try_from(length).expect("a frame fits into its length field");
        frame.extend(length.to_be_bytes());
    }
    frame.extend(checksum(&frame).to_be_bytes());
    frame.extend(headers);
    frame.extend(payload.bytes());
    frame.extend(checksum(&frame).to_be_bytes());
    frame
}

/// Corrects the checksums of the frames, and mostly their lengths. Stops early at random.
fn fix_frames(bytes: &mut [u8], rng: &mut Rng) {
    let mut at = 0;
    while at + 16 <= bytes.len() && rng.below(12) > 0 {
        let left = bytes.len() - at;
        let said = u32::from_be_bytes(
            bytes[at..at + 4]
                .try_into()
                .expect("the slice has four bytes"),
        );
        let total = usize::try_from(said).unwrap_or(left).clamp(16, left);
        if rng.below(4) > 0 {
            let total = u32::try_from(total).expect("a case fits into its length field");
            bytes[at..at + 4].copy_from_slice(&total.to_be_bytes());
        }
        let check = checksum(&bytes[at..at + 8]);
        bytes[at + 8..at + 12].copy_from_slice(&check.to_be_bytes());
        let end = at + total - 4;
        let check = checksum(&bytes[at..end]);
        bytes[end..at + total].copy_from_slice(&check.to_be_bytes());
        at += total;
    }
}

/// CRC-32, as in gzip.
fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum: u32, _| {
            if sum & 1 == 1 {
                0xEDB8_8320 ^ sum >> 1
            } else {
                sum >> 1
            }
        })
    })
}
