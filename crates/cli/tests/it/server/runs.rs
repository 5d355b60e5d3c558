//! Sessions that are started and resumed over HTTP.

use std::collections::BTreeMap;

use segno_testkit::sandbox::{Sandbox, wait_until};
use serde_json::{Value, json};

use super::{Request, Serving, token};
use crate::sandbox;
use crate::worker::{Runs, kill_run, wait_for_file, wait_for_status};

/// The text of `chain.yaml`, whose files are named by absolute paths.
pub(super) fn chain_text(sandbox: &Sandbox) -> String {
    let work = sandbox.work().display().to_string();
    let spec = sandbox.read("chain.yaml");
    let spec = spec.replace("answers.yaml", &format!("{work}/answers.yaml"));
    spec.replace("./agent.sh", &format!("{work}/agent.sh"))
}

/// A request for a session of this spec.
fn new_session(sandbox: &Sandbox, spec: &str, name: &str) -> Value {
    json!({"spec": spec, "name": name, "workspace": sandbox.work(), "force": true})
}

fn events(sandbox: &Sandbox, name: &str) -> Vec<Value> {
    let output = sandbox.segno(&["logs", name, "--json"]).expect_success();
    output.json()
}

#[test]
fn session_started_over_http_completes() {
    let sandbox = sandbox();
    sandbox.scripted_chain(3, 0);
    let serving = Serving::start(&sandbox);
    let _runs = Runs(&sandbox);
    let token = token(&sandbox, "operate");
    let body = new_session(&sandbox, &chain_text(&sandbox), "first");
    let answer = serving.post(&token, "/api/v1/sessions", &body).expect(201);
    let location = answer.header("location").unwrap().to_owned();
    assert_eq!(answer.json()["status"], "pending");
    wait_for_status(&sandbox, "first", "completed");
    let shown = serving.get(&token, &location).expect(200).json();
    assert_eq!(shown["name"], "first");
    assert_eq!(sandbox.calls(), ["steps/0", "steps/1", "steps/2"]);
    // Who asked is in the journal.
    let requested = &events(&sandbox, "first")[1];
    assert_eq!(requested["kind"], "run_requested");
    assert_eq!(requested["by"], "test-operate (server)");
    // A name that is taken is refused, and starts nothing.
    let again = serving.post(&token, "/api/v1/sessions", &body).expect(409);
    assert_eq!(again.json()["code"], "S0102");
    assert_eq!(sandbox.calls().len(), 3);
}

#[test]
fn broken_requests_create_no_session() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    let serving = Serving::start(&sandbox);
    let token = token(&sandbox, "operate");
    let spec = chain_text(&sandbox);
    let work = sandbox.work();
    for (body, status, words) in [
        (json!({}), 400, "workspace"),
        (json!({"workspace": work}), 400, "spec: it is missing"),
        (json!({"workspace": "work", "spec": spec}), 400, "absolute"),
        (
            json!({"workspace": work.join("nowhere"), "spec": spec}),
            400,
            "is not a folder",
        ),
        (
            json!({"workspace": work, "spec": "version: 0"}),
            422,
            "is not a valid spec",
        ),
        (
            json!({"workspace": work, "spec": spec, "variables": {"nobody": "1"}}),
            422,
            "inputs are not valid",
        ),
        (
            json!({"workspace": work, "spec": spec, "name": "../x"}),
            400,
            "name",
        ),
        (
            json!({"workspace": work, "spec": spec, "out": "../out"}),
            400,
            "out",
        ),
        (
            json!({"workspace": work, "spec": spec, "run": "now"}),
            400,
            "unknown field",
        ),
        (
            json!({"workspace": work, "chat": {"agent": "nobody", "message": "hi"}}),
            400,
            "unknown agent",
        ),
        (
            json!({"workspace": work, "chat": {"agent": "claude", "message": " "}}),
            400,
            "message is empty",
        ),
    ] {
        let answer = serving.post(&token, "/api/v1/sessions", &body);
        assert_eq!(answer.status, status, "{body}: {answer:?}");
        assert!(answer.body.contains(words), "{body}: {answer:?}");
    }
    let listed = serving.get(&token, "/api/v1/sessions").expect(200).json();
    assert_eq!(listed["items"], json!([]));
}

#[test]
fn paused_session_is_resumed_over_http() {
    let sandbox = sandbox();
    sandbox.scripted_chain(3, 0);
    let spec = sandbox.read("chain.yaml");
    let pausing = format!("{spec}continuity: {{pause: {{after_steps: 1}}}}\n");
    sandbox.write("chain.yaml", &pausing);
    sandbox.segno(&["run", "chain.yaml"]).refused(130, &[]);
    let serving = Serving::start(&sandbox);
    let _runs = Runs(&sandbox);
    let token = token(&sandbox, "operate");
    let resume = "/api/v1/sessions/chain/resume";
    let body = json!({"on_drift": "accept", "strategy": "native"});
    let answer = serving.post(&token, resume, &body).expect(202).json();
    assert_eq!(answer["status"], "pending");
    wait_until("two steps are done", || sandbox.calls().len() == 2);
    wait_for_status(&sandbox, "chain", "paused");
    // The address of the earlier design.
    let old = "/api/workflows/chain/resume";
    let answer = serving.post(&token, old, &json!({})).expect(200).json();
    assert_eq!(answer["status"], "pending");
    assert!(answer["workflow_id"].is_string());
    wait_until("three steps are done", || sandbox.calls().len() == 3);
    wait_for_status(&sandbox, "chain", "completed");
    assert_eq!(sandbox.calls(), ["steps/0", "steps/1", "steps/2"]);
    let answer = serving.post(&token, resume, &json!({})).expect(409).json();
    assert_eq!(answer["code"], "S0108");
    let wrong = json!({"strategy": "best"});
    serving.post(&token, resume, &wrong).expect(400);
}

#[test]
fn running_session_is_not_resumed_again() {
    let sandbox = sandbox();
    sandbox.command_chain(1, &wait_for_file("go"));
    let serving = Serving::start(&sandbox);
    let _runs = Runs(&sandbox);
    let token = token(&sandbox, "operate");
    let body = new_session(&sandbox, &chain_text(&sandbox), "one");
    serving.post(&token, "/api/v1/sessions", &body).expect(201);
    wait_until("the agent works", || sandbox.calls().len() == 1);
    let resume = serving.post(&token, "/api/v1/sessions/one/resume", &json!({}));
    assert_eq!(resume.expect(409).json()["code"], "S0107");
    let workers = serving.get(&token, "/api/v1/workers").expect(200).json();
    assert_eq!(workers["workers"][0]["pid"], serving.pid());
    assert_eq!(
        workers["workers"][0]["sessions"].as_array().unwrap().len(),
        1
    );
    sandbox.write("go", "");
    wait_for_status(&sandbox, "one", "completed");
    assert_eq!(sandbox.calls().len(), 1);
}

#[test]
fn chat_over_http_answers_each_message_once() {
    let sandbox = sandbox();
    sandbox.write(
        "answers.yaml",
        "ledger: calls.log\ndefault: {text: \"you said {{ prompt }}\"}\n",
    );
    let answers = sandbox.work().join("answers.yaml").display().to_string();
    let spec = format!(
        "version: 0\nname: talk\nruntime: {{provider: scripted, script: {answers}}}\nagents: {{a: {{prompt: p}}}}\npattern: {{type: chain, config: {{steps: [{{agent: a, input: x}}]}}}}\n"
    );
    let token = token(&sandbox, "operate");
    let messages = "/api/v1/sessions/talk/messages";
    {
        // Without a worker, the first message waits, and no second one replaces it.
        let serving = Serving::start_with(&sandbox, &["--no-worker"]);
        let body = json!({"workspace": sandbox.work(), "name": "talk", "spec": spec,
                          "chat": {"message": "one"}});
        let answer = serving.post(&token, "/api/v1/sessions", &body).expect(201);
        assert_eq!(answer.json()["status"], "pending");
        let second = serving.post(&token, messages, &json!({"text": "lost?"}));
        assert_eq!(second.expect(409).json()["code"], "R0146");
        sandbox.segno(&["chat", "--session", "talk", "lost?"]);
    }
    let serving = Serving::start(&sandbox);
    let _runs = Runs(&sandbox);
    wait_for_status(&sandbox, "talk", "paused");
    serving
        .post(&token, messages, &json!({"text": "two"}))
        .expect(202);
    wait_until("the second answer is there", || sandbox.calls().len() == 2);
    wait_for_status(&sandbox, "talk", "paused");
    let said: Vec<String> = events(&sandbox, "talk")
        .iter()
        .filter(|event| event["kind"] == "step_started")
        .map(|event| event["input"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(said, ["one", "two"]);
    // A workflow takes no messages.
    sandbox.scripted_chain(1, 0);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let path = "/api/v1/sessions/chain/messages";
    let answer = serving
        .post(&token, path, &json!({"text": "hi"}))
        .expect(409);
    assert_eq!(answer.json()["code"], "R0144");
}

/// The server is killed again and again, and every second time the runs, too.
#[test]
fn killed_server_loses_no_session_and_repeats_no_answer() {
    let sandbox = sandbox();
    sandbox.command_chain(4, "sleep 0.1");
    let spec = format!(
        "{}\ncontinuity: {{resume: {{delay_s: 0, max_attempts: 9}}}}\n",
        chain_text(&sandbox)
    );
    let token = token(&sandbox, "operate");
    let names: Vec<String> = (0..4).map(|number| format!("s{number}")).collect();
    let mut seen: BTreeMap<String, (Vec<u64>, bool)> = BTreeMap::new();
    let _runs = Runs(&sandbox);
    for round in 0..40 {
        let serving = Serving::start(&sandbox);
        if round == 0 {
            for name in &names {
                let body = new_session(&sandbox, &spec, name);
                serving.post(&token, "/api/v1/sessions", &body).expect(201);
            }
        }
        let mut is_over = true;
        for name in &names {
            let path = format!("/api/v1/sessions/{name}");
            is_over &= serving.get(&token, &path).json()["status"] == "completed";
            let (seqs, is_read) = seen.entry(name.clone()).or_default();
            if *is_read || round >= 8 {
                continue;
            }
            // Each client continues where it was.
            let mut request = Request::get(&format!("{path}/events")).token(&token);
            if let Some(last) = seqs.last() {
                request = request.header("Last-Event-ID", &last.to_string());
            }
            let mut stream = serving.follow(request);
            for _ in 0..3 {
                let event = stream.next_event().unwrap().data;
                seqs.push(event["seq"].as_u64().unwrap());
                *is_read = event["kind"] == "run_ended" && event["status"] == "completed";
                if *is_read {
                    break;
                }
            }
        }
        if is_over {
            break;
        }
        if round % 2 == 1 && round < 8 {
            let running = |name: &&String| {
                let shown = serving.get(&token, &format!("/api/v1/sessions/{name}"));
                shown.json()["status"] == "running"
            };
            if let Some(name) = names.iter().find(running) {
                kill_run(&sandbox, name);
            }
        }
        if round < 8 {
            // Dropping it kills it.
            continue;
        }
        for name in &names {
            wait_for_status(&sandbox, name, "completed");
        }
    }
    for name in &names {
        let journal = events(&sandbox, name);
        let (seqs, _) = &seen[name];
        let expected: Vec<u64> = (1..=seqs.len() as u64).collect();
        assert_eq!(seqs, &expected, "{name}");
        for step in 0..4 {
            let path = format!("steps/{step}");
            let of = |kind: &str| {
                let mut events = journal.iter();
                events
                    .by_ref()
                    .filter(|event| event["kind"] == kind && event["path"] == path)
                    .count()
            };
            assert_eq!(of("step_finished"), 1, "{name} {path}");
        }
    }
    // Counted by the agents themselves: a call is repeated only if its run was killed before the
    // answer was durable, which the journals say.
    let started: usize = names
        .iter()
        .flat_map(|name| events(&sandbox, name))
        .filter(|event| event["kind"] == "step_started")
        .count();
    assert!(sandbox.calls().len() <= started, "{started}");
}

#[test]
fn unknown_outcome_is_resolved_over_http() {
    let sandbox = sandbox();
    crate::commands::waiting_chain(&sandbox, 3, 1);
    let (live, _) = crate::commands::start_waiting(&sandbox, &[]);
    live.kill();
    sandbox.write("go", "");
    let serving = Serving::start(&sandbox);
    let _runs = Runs(&sandbox);
    let token = token(&sandbox, "operate");
    let steps = "/api/v1/sessions/chain/steps";
    let step = serving.get(&token, steps).expect(200).json()["items"][1].clone();
    assert_eq!(step["status"], "unknown");
    assert_eq!(step["resolve"].as_array().unwrap().len(), 3);
    let resume = "/api/v1/sessions/chain/resume";
    for (body, status, code) in [
        (json!({"in_flight": "done"}), 400, "N0106"),
        (json!({"in_flight": "done", "result": 7}), 400, "N0106"),
        (
            json!({"in_flight": "repeat", "step": "steps/1"}),
            400,
            "N0106",
        ),
        (json!({"in_flight": "maybe"}), 400, "N0106"),
        (
            json!({"in_flight": "failed", "step": "steps/0"}),
            409,
            "R0164",
        ),
    ] {
        let answer = serving.post(&token, resume, &body);
        assert_eq!(answer.status, status, "{body}: {answer:?}");
        assert_eq!(answer.json()["code"], code, "{body}: {answer:?}");
    }
    let body = json!({"in_flight": "done", "result": "paid", "step": "steps/1"});
    let request = Request::post(resume, &body).token(&token);
    let request = request.header("Idempotency-Key", "one");
    for _ in 0..2 {
        serving.send(&request).expect(202);
    }
    wait_for_status(&sandbox, "chain", "completed");
    assert_eq!(sandbox.calls(), ["steps/0", "steps/1", "steps/2"]);
    let logs = sandbox.segno(&["logs", "chain", "--json"]).expect_success();
    let events = logs.json();
    let said: Vec<_> = events
        .iter()
        .filter(|event| event["kind"] == "step_resolved")
        .collect();
    assert_eq!(said.len(), 1);
    let by = said[0]["by"].as_str().unwrap();
    assert!(by.starts_with("test-operate (server"), "{by}");
    let finished = |event: &&serde_json::Value| event["kind"] == "step_finished";
    assert_eq!(
        events.iter().filter(finished).nth(1).unwrap()["output"],
        "paid"
    );
}
