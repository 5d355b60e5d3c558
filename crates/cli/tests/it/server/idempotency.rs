//! Requests with an `Idempotency-Key` have one effect, even if the server is killed or many repeat them.

use std::thread;

use rustix::process::Signal;
use segno_testkit::sandbox::{Sandbox, wait_until};
use serde_json::{Value, json};

use super::{Request, Response, Serving, token};
use crate::commands::write_asking_workflow;
use crate::sandbox;

const NOTES: &str = "/api/v1/sessions/report/notes";
const ANSWER: &str = "/api/v1/sessions/report/answer";
const CHECKPOINTS: &str = "/api/v1/sessions/report/checkpoints";

/// A session that waits for an answer.
fn asking() -> Sandbox {
    let sandbox = sandbox();
    write_asking_workflow(&sandbox);
    sandbox.segno(&["run", "report.yaml"]).refused(19, &[]);
    sandbox
}

fn note(text: &str) -> Value {
    json!({"notes": [{"todo": {"text": text, "progress": "pending"}}]})
}

fn keyed(token: &str, path: &str, body: &Value, key: &str) -> Request {
    let request = Request::post(path, body).token(token);
    request.header("Idempotency-Key", key)
}

/// How often a word is in the journal and in what waits for a run.
fn count(sandbox: &Sandbox, event: &str) -> usize {
    let logs = sandbox.segno(&["logs", "report", "--json"]).json();
    logs.iter().filter(|line| line["kind"] == event).count()
}

fn is_replayed(response: &Response) -> bool {
    response.header("idempotency-replayed") == Some("true")
}

#[test]
fn same_request_gets_the_first_outcome_again() {
    let sandbox = asking();
    let token = token(&sandbox, "operate");
    let body = note("once");
    let first = {
        let serving = Serving::start(&sandbox);
        let first = serving.send(&keyed(&token, NOTES, &body, "k1")).expect(200);
        assert!(!is_replayed(&first));
        let again = serving.send(&keyed(&token, NOTES, &body, "k1")).expect(200);
        assert!(is_replayed(&again));
        assert_eq!(again.body, first.body);
        serving.signal(Signal::KILL);
        first
    };
    let serving = Serving::start(&sandbox);
    let again = serving.send(&keyed(&token, NOTES, &body, "k1")).expect(200);
    assert!(is_replayed(&again));
    assert_eq!(again.body, first.body);
    assert_eq!(count(&sandbox, "memos_written"), 1);
    // Another key is another request.
    serving.send(&keyed(&token, NOTES, &body, "k2")).expect(200);
    assert_eq!(count(&sandbox, "memos_written"), 2);
}

#[test]
fn key_of_another_request_is_refused() {
    let sandbox = asking();
    let serving = Serving::start(&sandbox);
    let operate = token(&sandbox, "operate");
    serving
        .send(&keyed(&operate, NOTES, &note("one"), "k"))
        .expect(200);
    let other = serving.send(&keyed(&operate, NOTES, &note("two"), "k"));
    assert_eq!(other.expect(422).json()["code"], "N0120");
    // Another token or route has keys of its own.
    let admin = token(&sandbox, "admin");
    serving
        .send(&keyed(&admin, NOTES, &note("two"), "k"))
        .expect(200);
    serving
        .send(&keyed(&operate, CHECKPOINTS, &json!({}), "k"))
        .expect(201);
    for key in ["", "two words", &"k".repeat(129)] {
        let refused = serving.send(&keyed(&operate, NOTES, &note("three"), key));
        assert_eq!(refused.expect(400).json()["code"], "N0106", "{key}");
    }
    assert_eq!(count(&sandbox, "memos_written"), 2);
}

#[test]
fn refused_request_leaves_its_key_free() {
    let sandbox = asking();
    let serving = Serving::start(&sandbox);
    let token = token(&sandbox, "operate");
    let wrong = json!({"text": "yes", "step": "steps/9"});
    serving
        .send(&keyed(&token, ANSWER, &wrong, "k"))
        .expect(400);
    let right = json!({"text": "yes"});
    serving
        .send(&keyed(&token, ANSWER, &right, "k"))
        .expect(200);
    let again = serving
        .send(&keyed(&token, ANSWER, &right, "k"))
        .expect(200);
    assert!(is_replayed(&again));
}

#[test]
fn hundred_clients_with_one_key_have_one_effect() {
    let sandbox = asking();
    let serving = Serving::start(&sandbox);
    let token = token(&sandbox, "operate");
    let request = keyed(&token, CHECKPOINTS, &json!({"note": "x"}), "all");
    let answers: Vec<Response> = thread::scope(|scope| {
        let clients: Vec<_> = (0..100)
            .map(|_| scope.spawn(|| serving.send(&request)))
            .collect();
        clients.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let mut bodies = Vec::new();
    for answer in answers {
        match answer.status {
            201 => bodies.push(answer.body),
            // It waited for as long as anyone waits.
            409 => assert!(answer.header("retry-after").is_some(), "{answer:?}"),
            _ => panic!("{answer:?}"),
        }
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1);
    let list = serving.get(&token, CHECKPOINTS).json();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
}

#[test]
fn client_that_leaves_does_not_stop_its_request() {
    use std::io::Write;
    let sandbox = asking();
    let serving = Serving::start(&sandbox);
    let token = token(&sandbox, "operate");
    let request = keyed(&token, CHECKPOINTS, &json!({}), "gone");
    let mut stream = serving.connect();
    stream.write_all(&request.bytes(&serving.address)).unwrap();
    drop(stream);
    // Either it had not arrived, or its outcome is found.
    serving.send(&request).expect(201);
    let list = serving.get(&token, CHECKPOINTS).json();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
}

#[cfg(feature = "failpoints")]
mod killed {
    use super::*;
    use crate::worker::wait_for_status;

    const POINTS: [&str; 3] = [
        "request.after_intent",
        "request.after_effect",
        "request.after_outcome",
    ];

    /// Sends a request to a server that is killed at a failpoint, and again to the next one.
    fn killed_and_repeated(sandbox: &Sandbox, point: &str, request: &Request) -> Response {
        let mut command = sandbox.command(&["serve", "--listen", "127.0.0.1:0", "--json"]);
        command.env("SEGNO_FAILPOINT", point);
        let mut serving = Serving::of(command);
        serving.send_to_nobody(request);
        assert_eq!(serving.wait(), None, "{point} was not reached");
        drop(serving);
        Serving::start(sandbox).send(request)
    }

    #[test]
    fn effects_between_runs_happen_once() {
        for point in POINTS {
            let sandbox = asking();
            let token = token(&sandbox, "operate");
            let noted = keyed(&token, NOTES, &note("once"), "note");
            let answer = killed_and_repeated(&sandbox, point, &noted).expect(200);
            assert_eq!(answer.json()["notes"].as_array().unwrap().len(), 1);
            assert_eq!(count(&sandbox, "memos_written"), 1, "{point}");
            let taken = keyed(&token, CHECKPOINTS, &json!({"note": "x"}), "checkpoint");
            let taken = killed_and_repeated(&sandbox, point, &taken).expect(201);
            let list = sandbox.segno(&["checkpoint", "list", "report", "--json"]);
            let list = list.json();
            assert_eq!(list.len(), 1, "{point}");
            assert_eq!(list[0]["checkpoint"], taken.json()["checkpoint"]);
            let answered = keyed(&token, ANSWER, &json!({"text": "yes"}), "answer");
            let answer = killed_and_repeated(&sandbox, point, &answered).expect(200);
            assert_eq!(answer.json()["path"], "steps/1");
            sandbox.segno(&["resume", "report"]).expect_success();
            assert_eq!(count(&sandbox, "question_answered"), 1, "{point}");
            let serving = Serving::start(&sandbox);
            serving.send(&answered).expect(200);
        }
    }

    #[test]
    fn sessions_are_started_and_resumed_once() {
        for point in POINTS {
            let sandbox = sandbox();
            sandbox.scripted_chain(1, 0);
            let answers = sandbox.work().join("answers.yaml").display().to_string();
            let spec = sandbox.read("chain.yaml").replace("answers.yaml", &answers);
            let token = token(&sandbox, "operate");
            let body = json!({"spec": spec, "name": "report", "workspace": sandbox.work()});
            let start = keyed(&token, "/api/v1/sessions", &body, "start");
            let started = killed_and_repeated(&sandbox, point, &start).expect(201);
            assert!(started.header("location").is_some(), "{point}");
            let serving = Serving::start(&sandbox);
            wait_for_status(&sandbox, "report", "completed");
            drop(serving);
            let all = sandbox.segno(&["sessions", "list", "--json"]).json();
            assert_eq!((all.len(), sandbox.calls().len()), (1, 1), "{point}");
            let fork = sandbox.segno(&["fork", "report", "--before", "steps/0", "--name", "again"]);
            fork.expect_success();
            let path = "/api/v1/sessions/again/resume";
            let resume = keyed(&token, path, &json!({}), "resume");
            killed_and_repeated(&sandbox, point, &resume).expect(202);
            let _serving = Serving::start(&sandbox);
            wait_for_status(&sandbox, "again", "completed");
            let logs = sandbox.segno(&["logs", "again", "--json"]).json();
            let requests = logs.iter().filter(|line| line["kind"] == "run_requested");
            assert_eq!((requests.count(), sandbox.calls().len()), (1, 2), "{point}");
        }
    }

    #[test]
    fn cancellation_happens_once() {
        for point in POINTS {
            let sandbox = asking();
            let token = token(&sandbox, "operate");
            let path = "/api/v1/sessions/report/cancel";
            let cancel = keyed(&token, path, &json!({}), "cancel");
            let answer = killed_and_repeated(&sandbox, point, &cancel).expect(200);
            assert_eq!(answer.json()["kind"], "cancelled");
            assert_eq!(count(&sandbox, "stop_requested"), 1, "{point}");
        }
    }

    #[test]
    fn pause_of_a_running_session_is_sent_once() {
        for point in POINTS {
            let sandbox = sandbox();
            sandbox.scripted_chain(50, 200);
            let run = sandbox.start(&["run", "chain.yaml", "--name", "report"]);
            wait_until("the session runs", || {
                let shown = sandbox.segno(&["show", "report", "--json"]);
                shown.stdout.contains("\"running\"")
            });
            let token = token(&sandbox, "operate");
            let path = "/api/v1/sessions/report/pause";
            let pause = keyed(&token, path, &json!({}), "pause");
            killed_and_repeated(&sandbox, point, &pause).expect(202);
            segno_testkit::sandbox::wait_for_output(run).refused(130, &[]);
            assert_eq!(count(&sandbox, "stop_requested"), 1, "{point}");
            // The next run is not paused by what was meant for this one.
            let serving = Serving::start(&sandbox);
            let run = sandbox.start(&["resume", "report"]);
            wait_until("the session runs again", || {
                let shown = sandbox.segno(&["show", "report", "--json"]);
                shown.stdout.contains("\"running\"")
            });
            let again = serving.send(&pause).expect(202);
            assert!(is_replayed(&again), "{point}");
            sandbox.segno(&["cancel", "report"]).expect_success();
            drop(segno_testkit::sandbox::wait_for_output(run));
            assert_eq!(count(&sandbox, "stop_requested"), 2, "{point}");
        }
    }

    /// A pause that was begun, and whose message may have been consumed by a run that has ended, is
    /// not sent to a later run.
    #[test]
    fn pause_with_an_unknown_outcome_is_not_repeated() {
        let sandbox = sandbox();
        sandbox.scripted_chain(50, 200);
        let run = sandbox.start(&["run", "chain.yaml", "--name", "report"]);
        let is_running = || {
            let shown = sandbox.segno(&["show", "report", "--json"]);
            shown.stdout.contains("\"running\"")
        };
        wait_until("the session runs", is_running);
        let token = token(&sandbox, "operate");
        let pause = keyed(&token, "/api/v1/sessions/report/pause", &json!({}), "pause");
        let mut command = sandbox.command(&["serve", "--listen", "127.0.0.1:0", "--json"]);
        command.env("SEGNO_FAILPOINT", "request.after_intent");
        let mut serving = Serving::of(command);
        serving.send_to_nobody(&pause);
        assert_eq!(serving.wait(), None);
        drop(serving);
        sandbox.segno(&["pause", "report"]).expect_success();
        drop(segno_testkit::sandbox::wait_for_output(run));
        let run = sandbox.start(&["resume", "report"]);
        wait_until("the session runs again", is_running);
        let serving = Serving::start(&sandbox);
        let answer = serving.send(&pause).expect(409);
        assert_eq!(answer.json()["code"], "N0122");
        sandbox.segno(&["cancel", "report"]).expect_success();
        drop(segno_testkit::sandbox::wait_for_output(run));
    }
}
