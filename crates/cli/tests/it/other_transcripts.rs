//! Conversations of Gemini and opencode become sessions. The transcripts have the form that Gemini
//! 0.61.0 and opencode 1.18.33 give them.

#![expect(
    clippy::disallowed_methods,
    reason = "a test writes and replaces transcripts as programs do"
)]

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use segno_testkit::opencode::OpenCodeDatabase;
use segno_testkit::sandbox::{ProcessOutput, Sandbox, run_to_end};
use serde_json::{Value, json};

use crate::sandbox;

struct Home(Sandbox);

impl Home {
    fn new() -> Self {
        Self(sandbox())
    }

    fn segno(&self, words: &[&str]) -> ProcessOutput {
        let mut command = self.0.command(words);
        let unset = ["XDG_DATA_HOME", "GEMINI_CLI_HOME"];
        for name in unset {
            command.env_remove(name);
        }
        command.env("HOME", self.0.work());
        run_to_end(command)
    }

    fn import(&self, agent: &str) -> Value {
        let imported = self.segno(&["agents", "import", agent, "--all", "--json"]);
        let mut lines = imported.expect_success().json();
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines.remove(0)
    }

    /// The messages that a search finds, oldest first: who, when and what.
    fn found(&self, text: &str) -> Vec<(String, String, String)> {
        let found = self.segno(&["search", text, "--all", "--json"]);
        let mut lines = found.expect_success().json();
        lines.reverse();
        let word = |line: &Value, key: &str| line[key].as_str().unwrap().to_owned();
        let fields = |line: &Value| (word(line, "who"), word(line, "at"), word(line, "snippet"));
        lines.iter().map(fields).collect()
    }

    fn shown(&self, session: &Value) -> Value {
        let shown = self.segno(&["show", session.as_str().unwrap(), "--json"]);
        shown.expect_success().json().remove(0)
    }

    fn gemini_file(&self) -> PathBuf {
        let project = self.0.work().join(".gemini/tmp/garden");
        fs::create_dir_all(project.join("chats")).unwrap();
        fs::write(
            project.join(".project_root"),
            self.0.work().to_str().unwrap(),
        )
        .unwrap();
        project.join("chats/session-2026-11-15T10-00-5e550000.jsonl")
    }

    fn opencode(&self) -> OpenCodeDatabase {
        OpenCodeDatabase::create(&self.0.work().join(".local/share/opencode"))
    }
}

const GEMINI: &str = "5e550000-0000-4000-8000-00000000000a";

fn at(second: u32) -> String {
    format!("2026-11-15T10:00:{second:02}.000Z")
}

/// The records of a turn in which Gemini calls a tool. The message with the call is written twice:
/// without the call, and with it and its result.
fn gemini_turn(turn: u32) -> Vec<Value> {
    let id = |part: u32| format!("00000000-0000-4000-8000-{turn:06}{part:06}");
    let second = turn * 10;
    let said = json!({
        "id": id(1), "timestamp": at(second + 1), "type": "gemini", "content": "I look at the turnip.",
        "thoughts": [{"subject": "Roots", "description": "A turnip is one."}],
        "tokens": {"input": 110, "output": 5, "cached": 10, "thoughts": 2, "tool": 0, "total": 117},
        "model": "gemini-test",
    });
    let call = format!("read_{turn}");
    let response = json!([{"functionResponse": {"id": call, "name": "read_file", "response": {"output": "one turnip"}}}]);
    let mut called = said.clone();
    called["toolCalls"] = json!([{
        "id": call, "name": "read_file", "args": {"file_path": "/turnip"}, "result": response,
        "status": "success", "timestamp": at(second + 2),
    }]);
    vec![
        json!({"id": id(0), "timestamp": at(second), "type": "user", "content": [{"text": format!("Which turnip is {turn}?")}]}),
        json!({"$set": {"lastUpdated": at(second)}}),
        said,
        called,
        json!({"id": id(2), "timestamp": at(second + 2), "type": "user", "content": response}),
        json!({"id": id(3), "timestamp": at(second + 3), "type": "gemini", "content": format!("It is turnip {turn}."), "thoughts": [], "tokens": {"input": 120, "output": 7, "cached": 0, "thoughts": 0, "tool": 0, "total": 127}, "model": "gemini-test"}),
    ]
}

fn gemini_begin() -> Vec<Value> {
    vec![
        json!({"sessionId": GEMINI, "projectHash": "ab", "startTime": at(0), "lastUpdated": at(0), "kind": "main"}),
        json!({"$set": {"messages": [{"id": "c", "timestamp": at(0), "type": "user", "content": [{"text": "<session_context>\nturnip\n</session_context>"}]}]}}),
    ]
}

fn lines(records: &[Value]) -> String {
    let lines: Vec<String> = records.iter().map(Value::to_string).collect();
    lines.join("\n") + "\n"
}

fn append(file: &PathBuf, records: &[Value]) {
    let mut options = fs::OpenOptions::new();
    let mut file = options.create(true).append(true).open(file).unwrap();
    file.write_all(lines(records).as_bytes()).unwrap();
}

#[test]
fn gemini_conversation_is_imported_and_updated() {
    let home = Home::new();
    let file = home.gemini_file();
    append(&file, &gemini_begin());
    append(&file, &gemini_turn(0));
    let beside = file.with_file_name(format!("{GEMINI}.jsonl"));
    fs::write(beside, lines(&gemini_turn(3))).unwrap();
    let imported = home.import("gemini");
    assert_eq!(imported["outcome"], "new", "{imported}");
    assert_eq!(imported["conversation"], GEMINI, "{imported}");
    assert_eq!(imported["damage"], json!([]), "{imported}");
    let shown = home.shown(&imported["session"]);
    assert_eq!(shown["workspace"], home.0.work().to_str().unwrap());
    assert_eq!(shown["created_at"], at(0));
    assert_eq!(shown["updated_at"], at(3));
    assert_eq!(shown["chat"]["messages"], 1, "{shown}");
    assert_eq!(shown["chat"]["answers"], 1, "{shown}");
    assert_eq!(shown["usage"]["output_tokens"], 14, "{shown}");
    assert_eq!(shown["usage"]["input_tokens"], 230, "{shown}");
    let owned = |who: &str, second: u32, text: &str| (who.to_owned(), at(second), text.to_owned());
    let first = [
        owned("user", 0, "Which turnip is 0?"),
        owned("agent", 1, "Roots A turnip is one."),
        owned("agent", 1, "I look at the turnip."),
        owned("agent", 1, r#"read_file {"file_path":"/turnip"}"#),
        owned("tool", 1, "one turnip"),
        owned("agent", 3, "It is turnip 0."),
    ];
    let mut found = home.found("turnip");
    found.sort_by_key(|(_, at, _)| at.clone());
    for message in &first {
        let count = found.iter().filter(|found| *found == message).count();
        assert_eq!(count, 1, "{message:?}: {found:#?}");
    }
    assert_eq!(found.len(), first.len(), "{found:#?}");
    append(&file, &gemini_turn(1));
    assert_eq!(home.import("gemini")["outcome"], "updated");
    assert_eq!(home.import("gemini")["outcome"], "unchanged");
    // Gemini may write the file anew; only what was said since is added.
    let turns = [
        gemini_begin(),
        gemini_turn(0),
        gemini_turn(1),
        gemini_turn(2),
    ];
    let again = turns[1..].concat();
    fs::write(&file, lines(&turns[0][..1]) + &lines(&again)).unwrap();
    assert_eq!(home.import("gemini")["outcome"], "updated");
    assert_eq!(home.import("gemini")["outcome"], "unchanged");
    let shown = home.shown(&imported["session"]);
    assert_eq!(shown["chat"]["messages"], 3, "{shown}");
    for turn in 0..3 {
        assert_eq!(home.found(&format!("Which turnip is {turn}?")).len(), 1);
        assert_eq!(home.found(&format!("It is turnip {turn}.")).len(), 1);
    }
    // Gemini loads no conversation over ACP, and the plan says so.
    let name = shown["name"].as_str().unwrap();
    let plan = home.segno(&["resume", name, "--dry-run"]).expect_success();
    assert!(plan.stdout.contains("summarized (acp)"), "{plan:?}");
}

const OPENCODE: &str = "ses_e21ef33a8ffeYjlb0U465fw42M";
/// 2026-11-15T10:00:00Z
const BEGUN: i64 = 1_794_736_800_000;

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn tool(call: &str, state: &Value) -> Value {
    json!({"type": "tool", "tool": "read", "callID": call, "state": state})
}

#[test]
fn opencode_conversation_is_imported_while_opencode_runs() {
    let home = Home::new();
    let database = home.opencode();
    let work = home.0.work();
    database.add_session(OPENCODE, None, work.to_str().unwrap(), BEGUN);
    database.add_session("ses_child", Some(OPENCODE), "/", BEGUN);
    database.add_session("../../etc", None, "/", BEGUN);
    database.ask(OPENCODE, "msg_0", BEGUN, "Which turnip?");
    let done = json!({"status": "completed", "input": {"path": "/turnip"}, "output": "one turnip"});
    let parts = [text("I look."), tool("call_1", &done)];
    database.answer(OPENCODE, "msg_1", BEGUN + 1000, Some(BEGUN + 2000), &parts);
    // The model is still answering.
    database.answer(OPENCODE, "msg_2", BEGUN + 3000, None, &[text("It is")]);
    let log = database.log_bytes();
    let imported = home.import("opencode");
    assert_eq!(imported["outcome"], "new", "{imported}");
    assert_eq!(imported["conversation"], OPENCODE, "{imported}");
    assert_eq!(imported["items"], 3, "{imported}");
    assert_eq!(home.import("opencode")["outcome"], "unchanged");
    database.answer(
        OPENCODE,
        "msg_2",
        BEGUN + 3000,
        Some(BEGUN + 4000),
        &[text("It is mine.")],
    );
    let updated = home.import("opencode");
    assert_eq!(
        (&updated["outcome"], &updated["items"]),
        (&json!("updated"), &json!(1))
    );
    assert!(database.log_bytes() >= log, "no checkpoint was made");
    let shown = home.shown(&imported["session"]);
    assert_eq!(shown["created_at"], "2026-11-15T10:00:00.000Z");
    assert_eq!(shown["updated_at"], "2026-11-15T10:00:03.000Z");
    assert_eq!(shown["chat"]["agent"], "opencode", "{shown}");
    assert_eq!(shown["chat"]["messages"], 1, "{shown}");
    assert_eq!(shown["usage"]["output_tokens"], 14, "{shown}");
    let conversation = &shown["conversations"][0];
    assert_eq!(conversation["conversation"], OPENCODE, "{shown}");
    let name = shown["name"].as_str().unwrap();
    let plan = home.segno(&["resume", name, "--dry-run"]).expect_success();
    assert!(plan.stdout.contains("native (acp)"), "{plan:?}");
    assert!(plan.stdout.contains("only the agent can tell"), "{plan:?}");
    // opencode empties the outputs of old calls; the session keeps them.
    let emptied = json!({"status": "completed", "input": {"path": "/turnip"}, "output": ""});
    let parts = [text("I look."), tool("call_1", &emptied)];
    database.answer(OPENCODE, "msg_1", BEGUN + 1000, Some(BEGUN + 2000), &parts);
    assert_eq!(home.import("opencode")["outcome"], "unchanged");
    database.ask(OPENCODE, "msg_3", BEGUN + 5000, "And whose turnip?");
    let updated = home.import("opencode");
    assert_eq!(
        (&updated["outcome"], &updated["items"]),
        (&json!("updated"), &json!(1))
    );
    assert_eq!(home.found("one turnip").len(), 1);
    assert_eq!(home.found("turnip?").len(), 2);
}

#[test]
fn hostile_rows_of_opencode_are_named() {
    let home = Home::new();
    let database = home.opencode();
    database.add_session(OPENCODE, None, "/nowhere", BEGUN);
    database.ask(OPENCODE, "msg_0", BEGUN, "Which turnip?");
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    database.put_text(
        OPENCODE,
        "msg_1",
        BEGUN + 1000,
        &format!("{{\"role\":{deep}}}"),
    );
    database.put_text(OPENCODE, "msg_2", BEGUN + 2000, "not JSON\0");
    database.put_text(
        OPENCODE,
        "msg_3",
        BEGUN + 3000,
        &format!("\"{}\"", "x".repeat(17 << 20)),
    );
    database.ask(OPENCODE, "msg_4", BEGUN + 4000, "Still there?");
    let imported = home.import("opencode");
    assert_eq!(imported["outcome"], "new", "{imported}");
    assert_eq!(
        imported["damage"].as_array().unwrap().len(),
        3,
        "{imported}"
    );
    assert_eq!(home.found("Still there?").len(), 1);
    fs::write(database.path(), "SQLite format 3\0 but not really").unwrap();
    let refused = home.segno(&["agents", "import", "opencode", "--all"]);
    assert_eq!(refused.code(), 12, "{refused:?}");
    assert!(
        refused
            .stderr
            .contains("opencode's database cannot be read"),
        "{refused:?}"
    );
}

#[test]
fn watch_mirrors_gemini_and_opencode() {
    let home = Home::new();
    append(&home.gemini_file(), &gemini_begin());
    append(&home.gemini_file(), &gemini_turn(0));
    let database = home.opencode();
    database.add_session(OPENCODE, None, "/nowhere", BEGUN);
    database.ask(OPENCODE, "msg_0", BEGUN, "Which turnip?");
    let watch = |words: &[&str]| {
        let words = [&["agents", "watch", "--once", "--json"], words].concat();
        let lines = home.segno(&words).expect_success().json();
        let outcome = |line: &Value| format!("{} {}", line["agent"], line["outcome"]);
        let mut outcomes: Vec<String> = lines.iter().map(outcome).collect();
        outcomes.sort();
        outcomes
    };
    assert_eq!(watch(&["gemini"]), [r#""gemini" "new""#]);
    assert_eq!(watch(&[]), [r#""opencode" "new""#]);
    assert!(watch(&[]).is_empty());
    append(&home.gemini_file(), &gemini_turn(1));
    database.answer(
        OPENCODE,
        "msg_1",
        BEGUN + 1000,
        Some(BEGUN + 2000),
        &[text("Mine.")],
    );
    assert_eq!(
        watch(&[]),
        [r#""gemini" "updated""#, r#""opencode" "updated""#]
    );
}
