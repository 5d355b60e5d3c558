//! Previews of answers that are being written.

#![expect(
    clippy::disallowed_methods,
    reason = "the tests look at the files of a run"
)]

use segno_testkit::client::{EventStream, Request, StreamedEvent};
use segno_testkit::sandbox::{Sandbox, wait_until};
use serde_json::Value;

use super::{Serving, token};
use crate::commands::Live;
use crate::sandbox;

/// A chain whose agent writes a line, and waits for a file before it writes the next one.
fn speaking_chain(sandbox: &Sandbox, steps: usize) {
    let wait = |name: &str| format!("while [ ! -e {name} ]; do sleep 0.01; done");
    let body = format!(
        "if [ \"$SEGNO_STEP\" = steps/0 ]; then\n  echo 'first line'\n  {}\n  echo 'sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789 is a secret'\n  printf 'half a '\n  {}\n  echo line\nfi",
        wait("second"),
        wait("third")
    );
    sandbox.command_chain(steps, &body);
}

fn follow(serving: &Serving, token: &str, path: &str) -> EventStream {
    EventStream::open(&serving.address, Request::get(path).token(token)).unwrap()
}

/// The next preview of a stream.
fn next_preview(stream: &mut EventStream) -> StreamedEvent {
    loop {
        let event = stream.next_any().unwrap();
        if event.name == "preview" {
            return event;
        }
    }
}

/// Reads previews until the text that they make up satisfies a condition.
fn read_until(stream: &mut EventStream, wanted: impl Fn(&str) -> bool) -> String {
    let mut text = String::new();
    while !wanted(&text) {
        let event = next_preview(stream);
        assert_eq!(event.id, None);
        let offset = usize::try_from(event.data["offset"].as_u64().unwrap()).unwrap();
        text = text.chars().take(offset).collect();
        text.push_str(event.data["text"].as_str().unwrap());
    }
    text
}

/// Reads to the end of a session; returns the events and the previews after the first event of `kind`.
fn read_to_end(stream: &mut EventStream, kind: &str) -> (Vec<Value>, usize) {
    let (mut events, mut late) = (Vec::new(), 0);
    loop {
        let event = stream.next_any().unwrap();
        if event.name == "preview" {
            let is_late = events.iter().any(|event: &Value| event["kind"] == kind);
            late += usize::from(is_late);
            continue;
        }
        let is_end = event.data["kind"] == "run_ended";
        events.push(event.data);
        if is_end {
            return (events, late);
        }
    }
}

#[test]
fn reader_sees_an_answer_while_it_is_written() {
    let sandbox = sandbox();
    speaking_chain(&sandbox, 2);
    let live = Live::start(&sandbox, &["run", "chain.yaml"]);
    wait_until("the agent works", || sandbox.calls().len() == 1);
    let serving = Serving::start(&sandbox);
    let token = token(&sandbox, "read");
    let path = "/api/v1/sessions/chain/events";
    let mut stream = follow(&serving, &token, path);
    let first = next_preview(&mut stream);
    assert_eq!(first.id, None);
    assert_eq!(first.data["text"], "first line\n");
    assert_eq!(
        (&first.data["path"], &first.data["attempt"]),
        (&"steps/0".into(), &1.into())
    );
    assert!(first.data["session"].is_string());
    sandbox.write("second", "");
    let is_second = |text: &str| text.lines().count() == 2;
    let second = next_preview(&mut stream);
    assert_eq!(second.data["offset"], 11);
    let text = second.data["text"].as_str().unwrap();
    assert!(
        text.ends_with(" is a secret\n") && !text.contains("AbCdEf"),
        "{text}"
    );
    // Who joins in the middle gets the text so far.
    for path in [path, "/api/v1/events?sessions=chain"] {
        let mut late = follow(&serving, &token, path);
        let text = read_until(&mut late, is_second);
        assert!(text.starts_with("first line\n[secret:"), "{text}");
    }
    // So does who has the durable part.
    let mut late = follow(&serving, &token, &format!("{path}?after=3"));
    read_until(&mut late, is_second);
    sandbox.write("third", "");
    let (events, late) = read_to_end(&mut stream, "step_finished");
    let finished = events.iter().find(|event| event["kind"] == "step_finished");
    assert!(
        finished.unwrap()["output"]
            .as_str()
            .unwrap()
            .contains("half a line")
    );
    assert_eq!(late, 0);
    live.finish().expect_success();
    let left = std::fs::read_dir(sandbox.home().join("previews")).unwrap();
    assert_eq!(left.count(), 0);
    // Previews are not part of the journal.
    let logs = sandbox.segno(&["logs", "chain", "--json"]).expect_success();
    assert!(!logs.stdout.contains("\"kind\":\"preview\""));
}

#[test]
fn preview_of_a_killed_run_is_not_shown() {
    let sandbox = sandbox();
    speaking_chain(&sandbox, 1);
    let live = Live::start(&sandbox, &["run", "chain.yaml"]);
    let file = || {
        let files = std::fs::read_dir(sandbox.home().join("previews"));
        let file = files.into_iter().flatten().find_map(|file| {
            let path = file.unwrap().path();
            path.extension().is_none().then_some(path)
        });
        file.map(|file| std::fs::read_to_string(file).unwrap_or_default())
    };
    wait_until("a preview is there", || {
        file().is_some_and(|text| text.contains("first line"))
    });
    live.kill();
    assert!(file().unwrap().contains("first line"));
    let serving = Serving::start(&sandbox);
    let token = token(&sandbox, "read");
    let path = "/api/v1/sessions/chain/events";
    let mut stream = follow(&serving, &token, path);
    sandbox.write("second", "");
    sandbox.write("third", "");
    // The stream sends nothing but the journal, to its end.
    let next = |stream: &mut EventStream| stream.next_any().unwrap();
    assert_eq!(next(&mut stream).name, "stream");
    let known = sandbox.segno(&["logs", "chain", "--json"]).json().len();
    for _ in 0..known {
        assert_eq!(next(&mut stream).name, "message");
    }
    sandbox.segno(&["resume", "chain"]).expect_success();
    assert_eq!(file(), None);
    let (events, _) = read_to_end(&mut stream, "run_started");
    assert!(events.iter().any(|event| event["kind"] == "step_finished"));
}
