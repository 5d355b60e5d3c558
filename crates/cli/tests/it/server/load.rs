//! Many readers of event streams at once: a fixed sample of what the benchmark measures.

use std::io::Write;
use std::thread;

use segno_testkit::sandbox::{wait_for_output, wait_until};

use super::{Request, Serving, token};
use crate::sandbox;

const READERS: usize = 40;
const SILENT: usize = 5;
const RESTLESS: usize = 5;

/// The numbers of the events until the run has ended. With `patience`, the reader leaves after so
/// many events, and continues where it was.
fn read(serving: &Serving, token: &str, patience: Option<usize>) -> Vec<u64> {
    let mut seen: Vec<u64> = Vec::new();
    loop {
        let mut request = Request::get("/api/v1/sessions/chain/events").token(token);
        if let Some(last) = seen.last() {
            request = request.header("Last-Event-ID", &last.to_string());
        }
        let mut stream = serving.follow(request);
        let mut left = patience.unwrap_or(usize::MAX);
        while left > 0 {
            let event = stream.next_event().unwrap();
            seen.push(event.id.unwrap().parse().unwrap());
            left -= 1;
            if event.data["kind"] == "run_ended" {
                return seen;
            }
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "tests use files as others do")]
fn readers_in_a_storm_miss_nothing_and_cost_little() {
    let sandbox = sandbox();
    sandbox.scripted_chain(60, 10);
    let serving = Serving::start(&sandbox);
    let token = token(&sandbox, "read");
    let run = sandbox.start(&["run", "chain.yaml"]);
    wait_until("the session exists", || {
        serving.get(&token, "/api/v1/sessions/chain").status == 200
    });
    let silent: Vec<_> = (0..SILENT)
        .map(|_| {
            let request = Request::get("/api/v1/sessions/chain/events").token(&token);
            let request = request.header("Accept", "text/event-stream");
            let mut stream = serving.connect();
            stream.write_all(&request.bytes(&serving.address)).unwrap();
            stream
        })
        .collect();
    let numbers: Vec<Vec<u64>> = thread::scope(|scope| {
        let (serving, token) = (&serving, &token);
        let steady = (0..READERS).map(|_| None);
        let restless = (0..RESTLESS).map(|number| Some(1 + number % 3));
        let readers: Vec<_> = steady
            .chain(restless)
            .map(|patience| scope.spawn(move || read(serving, token, patience)))
            .collect();
        readers.into_iter().map(|it| it.join().unwrap()).collect()
    });
    wait_for_output(run).expect_success();
    let logs = sandbox.segno(&["logs", "chain", "--json"]).json();
    let all: Vec<u64> = (1..=logs.len() as u64).collect();
    for seen in numbers {
        assert_eq!(seen, all);
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", serving.pid())).unwrap();
    let peak = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
    let peak: u64 = peak
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    assert!(peak < 200 * 1024, "{peak} KB");
    drop(silent);
}
