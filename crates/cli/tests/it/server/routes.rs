//! What the routes answer: the shapes of the OpenAPI document, and what the commands print.

use segno_server::ENDPOINTS;
use segno_testkit::sandbox::Sandbox;
use serde_json::{Value, json};

use super::{Request, Serving, token};
use crate::commands::write_asking_workflow;
use crate::sandbox;

/// Checks answers against the schemas of the document that the server itself serves.
pub(super) struct Api<'a> {
    serving: &'a Serving,
    pub(super) token: String,
    document: Value,
}

impl<'a> Api<'a> {
    pub(super) fn new(sandbox: &Sandbox, serving: &'a Serving) -> Self {
        let document = serving
            .send(&Request::get("/openapi.json"))
            .expect(200)
            .json();
        Self {
            serving,
            token: token(sandbox, "operate"),
            document,
        }
    }

    /// Sends a request to a route, and compares the answer with the route's schema.
    #[track_caller]
    fn call(&self, method: &str, route: &str, path: &str, body: Option<&Value>) -> Value {
        let request = match body {
            None => Request::get(path),
            Some(body) => Request::post(path, body),
        };
        let answer = self.serving.send(&request.token(&self.token));
        assert!((200..300).contains(&answer.status), "{path}: {answer:?}");
        let answer = answer.json();
        let operation = &self.document["paths"][route][method];
        let responses = operation["responses"].as_object().unwrap();
        let (_, success) = responses
            .iter()
            .find(|(status, _)| status.starts_with('2'))
            .unwrap();
        let schema = &success["content"]["application/json"]["schema"];
        self.check(schema, &answer, path);
        answer
    }

    #[track_caller]
    fn check(&self, schema: &Value, value: &Value, what: &str) {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "components": self.document["components"],
            "allOf": [schema],
        });
        let validator = jsonschema::validator_for(&schema).unwrap();
        let problems: Vec<_> = validator
            .iter_errors(value)
            .map(|it| it.to_string())
            .collect();
        assert!(problems.is_empty(), "{what}: {problems:#?}\n{value:#}");
    }

    #[track_caller]
    pub(super) fn get(&self, route: &str, path: &str) -> Value {
        self.call("get", route, path, None)
    }

    #[track_caller]
    pub(super) fn post(&self, route: &str, path: &str, body: &Value) -> Value {
        self.call("post", route, path, Some(body))
    }
}

#[test]
fn answers_have_the_documented_shapes_and_what_commands_print() {
    let sandbox = sandbox();
    write_asking_workflow(&sandbox);
    sandbox.segno(&["run", "report.yaml"]).refused(19, &[]);
    let words = ["note", "decision", "use WAL", "--why", "it is durable"];
    sandbox.segno(&words).expect_success();
    let serving = Serving::start(&sandbox);
    let api = Api::new(&sandbox, &serving);
    let list = api.get("/api/v1/sessions", "/api/v1/sessions");
    let printed = sandbox.segno(&["sessions", "list", "--json"]).json();
    assert_eq!(list["items"], json!(printed));
    let session = "/api/v1/sessions/{session}";
    let shown = api.get(session, "/api/v1/sessions/report");
    assert_eq!(
        shown,
        sandbox.segno(&["show", "report", "--json"]).json()[0]
    );
    let steps = api.get(&format!("{session}/steps"), "/api/v1/sessions/report/steps");
    assert_eq!(steps["items"], shown["steps"]);
    let context = api.get(
        &format!("{session}/context"),
        "/api/v1/sessions/report/context",
    );
    assert_eq!(
        context,
        sandbox.segno(&["context", "report", "--json"]).json()[0]
    );
    let plan = api.get(
        &format!("{session}/resume-plan"),
        "/api/v1/sessions/report/resume-plan",
    );
    assert_eq!(
        plan,
        sandbox
            .segno(&["resume", "report", "--dry-run", "--json"])
            .json()[0]
    );
    let questions = api.get(
        &format!("{session}/questions"),
        "/api/v1/sessions/report/questions",
    );
    assert_eq!(
        questions["items"],
        json!(sandbox.segno(&["answer", "report", "--json"]).json())
    );
    let events = api.get(
        &format!("{session}/events"),
        "/api/v1/sessions/report/events",
    );
    assert_eq!(
        events["items"],
        json!(sandbox.segno(&["logs", "report", "--json"]).json())
    );
    let search = api.get("/api/v1/search", "/api/v1/search?q=TIDE");
    assert_eq!(
        search["items"],
        json!(sandbox.segno(&["search", "tide", "--json"]).json())
    );
    for category in [
        "decisions",
        "errors",
        "feedback",
        "todos",
        "tests",
        "git_changes",
        "steps",
        "conversation",
    ] {
        let path = format!("/api/v1/sessions/report/history/{category}");
        let page = api.get(&format!("{session}/history/{{category}}"), &path);
        assert_eq!(page["category"], category);
        let expected = match category {
            "decisions" | "steps" => 1,
            "conversation" => 3,
            "git_changes" => continue,
            _ => 0,
        };
        assert_eq!(
            page["items"].as_array().unwrap().len(),
            expected,
            "{page:#}"
        );
    }
    api.get("/health", "/health");
    api.get("/ready", "/ready");
}

#[test]
fn sessions_are_paged_and_filtered() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    for number in 0..5 {
        let name = format!("chain-{number}");
        sandbox
            .segno(&["run", "chain.yaml", "--force", "--name", &name])
            .expect_success();
    }
    let serving = Serving::start(&sandbox);
    let token = token(&sandbox, "read");
    let names = |query: &str| {
        let page = serving
            .get(&token, &format!("/api/v1/sessions?{query}"))
            .expect(200)
            .json();
        let names = page["items"].as_array().unwrap().iter();
        let names: Vec<String> = names
            .map(|it| it["name"].as_str().unwrap().to_owned())
            .collect();
        (names.join(" "), page["next"].as_str().map(str::to_owned))
    };
    let (first, next) = names("limit=2");
    assert_eq!(first, "chain-4 chain-3");
    let (second, next) = names(&format!("limit=2&before={}", next.unwrap()));
    assert_eq!(second, "chain-2 chain-1");
    assert_eq!(
        names(&format!("limit=2&before={}", next.unwrap())),
        ("chain-0".into(), None)
    );
    assert_eq!(names("status=paused,failed").0, "");
    assert_eq!(names("status=completed&prefix=chain-3").0, "chain-3");
    assert_eq!(names("workspace=/nowhere").0, "");
    assert_eq!(names("kind=chat,agent").0, "");
    assert_eq!(names("kind=workflow&text=CHAIN-2").0, "chain-2");
    for query in [
        "status=sleeping",
        "kind=lunch",
        "limit=-1",
        "limit=0",
        "limit=501",
        "limit=x",
        "before=now",
        "unknown=1",
    ] {
        let path = format!("/api/v1/sessions?{query}");
        assert_eq!(
            serving.get(&token, &path).expect(400).json()["code"],
            "N0106",
            "{query}"
        );
    }
}

#[test]
fn session_is_answered_paused_and_cancelled_over_http() {
    let sandbox = sandbox();
    write_asking_workflow(&sandbox);
    sandbox.segno(&["run", "report.yaml"]).refused(19, &[]);
    let serving = Serving::start(&sandbox);
    let api = Api::new(&sandbox, &serving);
    let session = "/api/v1/sessions/{session}";
    let pause = serving.post(&api.token, "/api/v1/sessions/report/pause", &json!({}));
    assert_eq!(pause.expect(409).json()["code"], "S0116");
    let head = api.get(session, "/api/v1/sessions/report")["events"].clone();
    let answer = api.post(
        &format!("{session}/answer"),
        "/api/v1/sessions/report/answer",
        &json!({"text": "yes"}),
    );
    assert_eq!(answer["path"], "steps/1");
    let again = serving.post(
        &api.token,
        "/api/v1/sessions/report/answer",
        &json!({"text": "no"}),
    );
    assert_eq!(again.expect(400).json()["code"], "R0111");
    let noted = api.post(
        &format!("{session}/notes"),
        "/api/v1/sessions/report/notes",
        &json!({"notes": [{"todo": {"text": "write the docs", "progress": "pending"}}]}),
    );
    assert_eq!(noted["notes"], json!(["t1"]));
    let cancel = Request::post("/api/v1/sessions/report/cancel", &json!({})).token(&api.token);
    let stale = cancel.clone().header("If-Match", &format!("\"{head}\""));
    assert_eq!(serving.send(&stale).expect(412).json()["code"], "N0107");
    let cancelled = api.post(
        &format!("{session}/cancel"),
        "/api/v1/sessions/report/cancel",
        &json!({}),
    );
    assert_eq!(cancelled["kind"], "cancelled");
    assert_eq!(
        api.get(session, "/api/v1/sessions/report")["status"],
        "cancelled"
    );
    let log = sandbox.segno(&["logs", "report", "--json"]).json();
    let by = log
        .iter()
        .find(|event| event["kind"] == "stop_requested")
        .unwrap();
    assert_eq!(by["by"], "test-operate (server)");
}

#[test]
fn running_session_is_paused_over_http() {
    let sandbox = sandbox();
    sandbox.scripted_chain(200, 50);
    let run = sandbox.start(&["run", "chain.yaml"]);
    let serving = Serving::start(&sandbox);
    let token = token(&sandbox, "operate");
    segno_testkit::sandbox::wait_until("the session runs", || {
        serving.get(&token, "/api/v1/sessions/chain").json()["status"] == "running"
    });
    let body = json!({"reason": "lunch"});
    serving
        .post(&token, "/api/v1/sessions/chain/pause", &body)
        .expect(202);
    segno_testkit::sandbox::wait_for_output(run).refused(130, &["test-operate (server)"]);
    let shown = serving.get(&token, "/api/v1/sessions/chain").json();
    assert_eq!(
        (&shown["status"], &shown["stopped"]["reason"]),
        (&"paused".into(), &"lunch".into())
    );
}

#[test]
fn pause_over_http_can_wait_for_its_checkpoint() {
    let sandbox = sandbox();
    sandbox.scripted_chain(200, 50);
    let serving = Serving::start(&sandbox);
    let api = Api::new(&sandbox, &serving);
    for (route, body) in [
        ("/api/v1/sessions/{session}/pause", json!({"wait": true})),
        ("/api/workflows/{session}/pause", json!({})),
    ] {
        let run = sandbox.start(&["run", "chain.yaml", "--auto-resume"]);
        segno_testkit::sandbox::wait_until("the session runs", || {
            serving.get(&api.token, "/api/v1/sessions/chain").json()["status"] == "running"
        });
        let paused = api.post(route, &route.replace("{session}", "chain"), &body);
        segno_testkit::sandbox::wait_for_output(run).refused(130, &[]);
        assert_eq!(paused["status"], "paused");
        let list = api.get(
            "/api/workflows/{session}/snapshots",
            "/api/workflows/chain/snapshots",
        );
        let newest = &list["snapshots"][0]["id"];
        assert!(newest.is_string());
        assert!(
            [&paused["checkpoint"], &paused["snapshot_id"]].contains(&newest),
            "{paused}"
        );
    }
}

#[test]
fn checkpoints_are_taken_listed_shown_and_verified() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let serving = Serving::start(&sandbox);
    let api = Api::new(&sandbox, &serving);
    let all = "/api/v1/sessions/{session}/checkpoints";
    let taken = api.post(
        all,
        "/api/v1/sessions/chain/checkpoints",
        &json!({"note": "before"}),
    );
    let id = taken["checkpoint"].as_str().unwrap();
    let list = api.get(all, "/api/v1/sessions/chain/checkpoints");
    let printed = sandbox
        .segno(&["checkpoint", "list", "chain", "--json"])
        .json();
    assert_eq!(list["items"][0]["checkpoint"], printed[0]["checkpoint"]);
    assert_eq!(list["items"][0]["note"], "before");
    let one = format!("{all}/{{checkpoint}}");
    let path = format!("/api/v1/sessions/chain/checkpoints/{id}");
    let shown = api.get(&one, &path);
    assert_eq!(shown["plan"]["done"], 1);
    for section in [
        "plan",
        "decisions",
        "errors",
        "feedback",
        "tests",
        "git",
        "usage",
    ] {
        let part = api.get(&format!("{one}/{{section}}"), &format!("{path}/{section}"));
        assert_eq!(part["content"], shown[section], "{section}");
    }
    let verified = api.post(
        &format!("{one}/verify"),
        &format!("{path}/verify"),
        &json!({}),
    );
    assert_eq!(verified["problems"], json!([]));
    // The addresses of the earlier design.
    let old = format!("/api/workflows/chain/snapshots/{id}");
    let alias = "/api/workflows/{session}/snapshots/{checkpoint}";
    let (shown, old_shown) = (api.get(&one, &path), api.get(alias, &old));
    for (name, value) in shown.as_object().unwrap() {
        assert_eq!(old_shown[name], *value, "{name}");
    }
    assert_eq!(old_shown["id"], id);
    assert_eq!(old_shown["workflow_id"], shown["session"]);
    assert_eq!(old_shown["task_dag"], shown["plan"]);
    for (part, section) in [
        ("decisions", "decisions"),
        ("errors", "errors"),
        ("reviewer-feedback", "feedback"),
        ("git-changes", "git"),
    ] {
        let list = api.get(&format!("{alias}/{{part}}"), &format!("{old}/{part}"));
        assert_eq!(list, shown[section], "{part}");
        let absent = old.replace(id, "01K0000000000000000000000Z");
        let list = api.get(&format!("{alias}/{{part}}"), &format!("{absent}/{part}"));
        assert_eq!(list, json!([]), "{part}");
    }
    serving
        .get(&api.token, &format!("{path}/surprise"))
        .expect(400);
    // A checkpoint of one session is not found in another.
    sandbox
        .segno(&["run", "chain.yaml", "--force", "--name", "other"])
        .expect_success();
    let other = serving.get(
        &api.token,
        &format!("/api/v1/sessions/other/checkpoints/{id}"),
    );
    assert_eq!(other.expect(404).json()["code"], "N0105");
}

#[test]
fn document_describes_every_route() {
    let sandbox = sandbox();
    let serving = Serving::start(&sandbox);
    let document = serving
        .send(&Request::get("/openapi.json"))
        .expect(200)
        .json();
    assert_eq!(document["openapi"], "3.1.0");
    let mut ids = Vec::new();
    for endpoint in ENDPOINTS {
        let method = endpoint.method.as_str().to_lowercase();
        let operation = &document["paths"][endpoint.path][&method];
        assert!(
            operation["summary"].is_string(),
            "{method} {}",
            endpoint.path
        );
        ids.push(operation["operationId"].as_str().unwrap().to_owned());
    }
    ids.sort();
    let all = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), all);
    // Every schema that is named exists.
    let text = document.to_string();
    for part in text.split("#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(
            document["components"]["schemas"][name].is_object(),
            "{name}"
        );
    }
}

#[test]
fn error_pages_explain_every_code_that_is_answered() {
    let sandbox = sandbox();
    let serving = Serving::start(&sandbox);
    let problem = serving
        .send(&Request::get("/api/v1/sessions"))
        .expect(401)
        .json();
    let page = problem["type"].as_str().unwrap();
    let text = serving.send(&Request::get(page)).expect(200).body;
    assert!(text.contains("N0102"), "{text}");
    serving
        .send(&Request::get("/errors/..%2f..%2fREADME"))
        .expect(404);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "tests use files as others do")]
fn damaged_session_is_named_and_hides_no_other() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    for name in ["good", "bad"] {
        sandbox
            .segno(&["run", "chain.yaml", "--force", "--name", name])
            .expect_success();
    }
    let shown = sandbox.segno(&["show", "bad", "--json"]).json();
    let id = shown[0]["session"].as_str().unwrap();
    let database = sandbox.home().join("sessions").join(id).join("journal.db");
    std::fs::write(database, b"not a database").unwrap();
    let serving = Serving::start(&sandbox);
    let token = token(&sandbox, "read");
    let list = serving.get(&token, "/api/v1/sessions").expect(200).json();
    assert_eq!(list["items"][0]["name"], "good");
    assert_eq!(list["damaged"][0]["severity"], "damage");
    let answer = serving.get(&token, &format!("/api/v1/sessions/{id}"));
    assert_eq!(answer.expect(500).json()["code"], "J0104");
    serving.get(&token, "/api/v1/sessions/good").expect(200);
}
