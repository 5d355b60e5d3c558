//! Malformed streams: no panic, no guess, and an error that says what is wrong.

use segno_core::agent::ErrorKind::{self, Crashed, NoConversation, Unknown};
use segno_core::cli_agent::CliAgentKind;
use segno_core::cli_agent::CliAgentKind::{ClaudeCode, Codex};
use serde_json::{Value, json};

use super::{CLAUDE, CODEX, fake, run_script, run_stream, way};
use crate::event_log::EventLog;
use crate::fixture::{Fixture, runtime, until};

const BOTH: [CliAgentKind; 2] = [ClaudeCode, Codex];

/// A minimal stream: its start, a message, and its end.
fn records(program: CliAgentKind, text: &str) -> [Value; 3] {
    match program {
        ClaudeCode => [
            json!({"type": "system", "subtype": "init", "session_id": CLAUDE}),
            json!({"type": "assistant", "session_id": CLAUDE, "message": {
                "id": "m", "role": "assistant", "model": "x",
                "content": [{"type": "text", "text": text}], "usage": {"input_tokens": 3},
            }}),
            json!({"type": "result", "subtype": "success", "is_error": false, "result": text, "session_id": CLAUDE}),
        ],
        _ => [
            json!({"type": "thread.started", "thread_id": CODEX}),
            json!({"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": text}}),
            json!({"type": "turn.completed", "usage": {"input_tokens": 3, "output_tokens": 1}}),
        ],
    }
}

fn lines(records: &[Value]) -> String {
    let mut lines: Vec<String> = records.iter().map(ToString::to_string).collect();
    lines.push(String::new());
    lines.join("\n")
}

/// A complete stream, with bytes inserted after its start and appended at its end.
fn with(program: CliAgentKind, between: &[u8], after: &[u8]) -> Vec<u8> {
    let [begin, said, end] = records(program, "The answer.");
    let mut stream = lines(&[begin]).into_bytes();
    stream.extend(between);
    stream.extend(lines(&[said, end]).into_bytes());
    stream.extend(after);
    stream
}

#[track_caller]
fn answers(program: CliAgentKind, what: &str, stream: &[u8], text: &str) -> Vec<String> {
    let (answer, events) = run_stream(program, stream, 0);
    match answer {
        Ok(answer) => assert_eq!(answer.text, text, "{program} {what}"),
        Err(error) => panic!("{program} {what}: {error}"),
    }
    events
}

#[track_caller]
fn fails(program: CliAgentKind, what: &str, stream: &[u8], code: u8, kind: ErrorKind, words: &str) {
    let (answer, _) = run_stream(program, stream, code);
    let error = answer.expect_err(what);
    assert_eq!(error.kind, kind, "{program} {what}: {error}");
    assert!(error.message.contains(words), "{program} {what}: {error}");
}

/// Lines that begin like a record and cannot be parsed.
fn damaged() -> Vec<(&'static str, Vec<u8>)> {
    let deep = format!("{{\"type\":\"x\",\"a\":{}\n", "[".repeat(10_000));
    vec![
        ("half a record", b"{\"type\":\"result\",\"is_err\n".to_vec()),
        ("a NUL", b"{\"type\":\"x\0\"}\n".to_vec()),
        ("no UTF-8", b"{\"type\":\"\xFF\"}\n".to_vec()),
        ("a key twice", b"{\"type\":\"x\",\"type\":\"y\"}\n".to_vec()),
        (
            "two records",
            b"{\"type\":\"x\"}{\"type\":\"y\"}\n".to_vec(),
        ),
        ("deep nesting", deep.into_bytes()),
    ]
}

#[test]
fn foreign_lines_are_skipped() {
    let noise: [(&str, &[u8]); 7] = [
        ("nothing", b""),
        ("garbage", b"\x00\x01\x02 \xFF\n\n\r\nhello\n"),
        ("colours", b"\x1b[31mwarning\x1b[0m\n"),
        ("lists and words", b"[1, 2]\nnull\n\"{\"\n"),
        (
            "a type of tomorrow",
            b"{\"type\":\"of_tomorrow\",\"x\":[1]}\n",
        ),
        ("no type", b"{\"level\":\"info\"}\n{\"type\":7}\n"),
        ("half a character", b"{\"type\":\"x\",\"y\":\"\\ud83d\"}\n"),
    ];
    for program in BOTH {
        let plain = answers(program, "plain", &with(program, b"", b""), "The answer.");
        for (what, noise) in noise {
            let events = answers(program, what, &with(program, noise, noise), "The answer.");
            assert_eq!(events, plain, "{program} {what}");
        }
        let text = String::from_utf8(with(program, b"", b"")).unwrap();
        let lines = format!("\u{FEFF}{}", text.replace('\n', "\r\n"));
        assert_eq!(
            answers(program, "BOM and CRLF", lines.as_bytes(), "The answer."),
            plain
        );
        let open = text.trim_end();
        assert_eq!(
            answers(program, "no last line end", open.as_bytes(), "The answer."),
            plain
        );
    }
}

#[test]
fn lines_lost_after_the_answer_are_an_error() {
    for program in BOTH {
        for (what, line) in damaged() {
            answers(program, what, &with(program, &line, b""), "The answer.");
            fails(
                program,
                what,
                &with(program, b"", &line),
                0,
                Crashed,
                "1 line after its",
            );
        }
        let cut = b"{\"type\":\"item.completed\",\"item\":{\"te";
        fails(
            program,
            "cut",
            &with(program, b"", cut),
            0,
            Crashed,
            "1 line after its",
        );
    }
}

#[test]
fn lost_answer_is_not_replaced_by_an_earlier_one() {
    let [begin, said, end] = records(Codex, "Not this.");
    let stream = format!("{begin}\n{said}\n{{\"type\":\"item.completed\",\"item\"\n{end}\n");
    fails(
        Codex,
        "lost message",
        stream.as_bytes(),
        0,
        Crashed,
        "1 line after its last message",
    );
}

#[test]
fn end_without_an_answer_is_an_error() {
    for (program, words) in [
        (ClaudeCode, "exited without a result"),
        (Codex, "exited in the middle of a turn"),
    ] {
        let [begin, said, end] = records(program, "Not this.");
        fails(program, "nothing", b"", 0, Crashed, words);
        let open = lines(&[begin.clone(), said.clone()]);
        fails(program, "no result", open.as_bytes(), 0, Crashed, words);
        fails(
            program,
            "no result, 1",
            open.as_bytes(),
            1,
            Crashed,
            "exited with code 1",
        );
        let whole = lines(&[begin.clone(), said.clone(), end.clone()]);
        fails(
            program,
            "a result, 1",
            whole.as_bytes(),
            1,
            Crashed,
            "exited with code 1",
        );
        let end = end.to_string();
        let half = format!("{open}{}", &end[..end.len() / 2]);
        fails(
            program,
            "half a result",
            half.as_bytes(),
            0,
            Crashed,
            "1 line cannot be read",
        );
    }
}

#[test]
fn last_of_two_results_counts() {
    for program in BOTH {
        let [begin, first, end] = records(program, "The first.");
        let [_, second, last] = records(program, "The second.");
        let stream = lines(&[begin, first, end, second, last]);
        answers(program, "two", stream.as_bytes(), "The second.");
    }
    let [begin, said, end] = records(ClaudeCode, "The first.");
    let failed = json!({"type": "result", "subtype": "success", "is_error": true, "result": "no more", "session_id": CLAUDE});
    let stream = lines(&[begin, said, end, failed]);
    fails(
        ClaudeCode,
        "failed after all",
        stream.as_bytes(),
        0,
        Unknown,
        "claude: no more",
    );
}

#[test]
fn wrong_or_missing_session_id_is_refused() {
    for program in BOTH {
        let [begin, said, end] = records(program, "Not this.");
        let own = lines(&[begin.clone(), said.clone(), end.clone()]);
        let other = own.replace("000000000001", "000000000002");
        let words = "uses conversation";
        fails(
            program,
            "another",
            other.as_bytes(),
            0,
            NoConversation,
            words,
        );
        let later = format!("{own}{other}");
        fails(
            program,
            "another later",
            later.as_bytes(),
            0,
            NoConversation,
            words,
        );
        let terminal = own.replace("00000000-0000", "\\u001b[2J");
        let (answer, _) = run_stream(program, terminal.as_bytes(), 0);
        assert!(!answer.unwrap_err().message.contains('\u{1b}'));
        let words = "did not report its conversation id";
        let mut nameless = [said, end];
        for record in &mut nameless {
            record.as_object_mut().unwrap().remove("session_id");
        }
        let (answer, events) = run_stream(program, lines(&nameless).as_bytes(), 0);
        assert!(answer.unwrap_err().message.contains(words));
        assert!(events.is_empty(), "{program} {events:?}");
    }
}

#[test]
fn contradictory_result_is_an_error() {
    let [begin, said, end] = records(ClaudeCode, "Not this.");
    let changed = |key: &str, value: Value| {
        let mut end = end.clone();
        end[key] = value;
        lines(&[begin.clone(), said.clone(), end])
    };
    for (what, stream, kind) in [
        ("no word", changed("is_error", Value::Null), Unknown),
        ("a text", changed("is_error", json!("false")), Unknown),
        (
            "subtype",
            changed("subtype", json!("error_during_execution")),
            Unknown,
        ),
        ("no text", changed("result", Value::Null), Unknown),
        ("a number", changed("result", json!(7)), Unknown),
    ] {
        fails(ClaudeCode, what, stream.as_bytes(), 0, kind, "claude");
    }
}

#[test]
fn impossible_token_counts_do_not_break_usage() {
    let most = u64::MAX;
    let usage = format!(
        "{{\"type\":\"turn.completed\",\"usage\":{{\"input_tokens\":{most},\"output_tokens\":1e400}}}}\n"
    );
    let usage = usage.replace("1e400", "-5");
    let [begin, said, _] = records(Codex, "The answer.");
    let stream = format!("{}{usage}", lines(&[begin, said]));
    answers(Codex, "too many", stream.as_bytes(), "The answer.");
    let [begin, said, mut end] = records(ClaudeCode, "The answer.");
    let model = json!({"inputTokens": most, "outputTokens": most, "cacheReadInputTokens": most, "costUSD": 1e300});
    end["model_usage_since_last_result"] = json!({"a": model.clone(), "b": model});
    end["modelUsage"] = json!({"x": {"contextWindow": 0}});
    let stream = lines(&[begin, said, end]);
    answers(ClaudeCode, "too many", stream.as_bytes(), "The answer.");
}

#[test]
fn endless_program_is_killed_when_dropped() {
    for program in BOTH {
        let (fixture, events) = (Fixture::new(), EventLog::default());
        let [begin, said, _] = records(program, "And on.");
        let script = format!(
            "echo '{begin}'; (setsid sleep 1000 &); while :; do echo '{said}'; echo complaint >&2; done"
        );
        let fake = fake(&fixture, program, &script);
        runtime().block_on(async {
            let mut asking = fake.ask(fixture.request(), way(program), &events);
            let seen = async {
                while events.lines().len() < 20 {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                ended = &mut asking => panic!("{program} ended: {ended:?}"),
                () = seen => {}
            }
        });
        until("it is gone", || fixture.processes().is_empty());
    }
}

#[test]
fn missing_cli_agent_is_not_found() {
    for program in BOTH {
        let (answer, events) = run_script(program, "exec /no/such/program");
        assert_eq!(answer.unwrap_err().kind, Crashed);
        assert!(events.is_empty());
    }
}
