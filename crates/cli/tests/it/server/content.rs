//! Routes for what a session contains: messages, files, questions; and copies of it.

#![expect(clippy::disallowed_methods, reason = "tests use files as others do")]

use std::path::Path;

use serde_json::{Value, json};

use super::routes::Api;
use super::{Request, Serving, token};
use crate::commands::write_asking_workflow;
use crate::sandbox;

const SESSION: &str = "/api/v1/sessions/{session}";
const CHECKPOINT: &str = "/api/v1/sessions/{session}/checkpoints/{checkpoint}";

#[test]
fn conversation_is_read_page_by_page() {
    let sandbox = sandbox();
    sandbox.scripted_chain(3, 0);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let serving = Serving::start(&sandbox);
    let api = Api::new(&sandbox, &serving);
    let route = format!("{SESSION}/conversation");
    let path = "/api/v1/sessions/chain/conversation";
    let whole = api.get(&route, path);
    let roles = |page: &Value| {
        let items = page["items"].as_array().unwrap().iter();
        let role = |item: &Value| item["role"].as_str().unwrap().to_owned();
        items.map(role).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        roles(&whole),
        "user assistant user assistant user assistant"
    );
    assert_eq!(whole["items"][0]["content"], "begin");
    assert_eq!(whole["next"], Value::Null);
    let (mut items, mut query) = (Vec::new(), "?limit=2".to_owned());
    loop {
        let page = api.get(&route, &format!("{path}{query}"));
        items.extend(page["items"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else {
            break;
        };
        query = format!("?limit=2&after={next}");
    }
    assert_eq!(json!(items), whole["items"]);
    serving
        .get(&api.token, &format!("{path}?after=x"))
        .expect(400);
}

#[test]
fn artifacts_are_downloaded_as_they_were_written() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let serving = Serving::start(&sandbox);
    let api = Api::new(&sandbox, &serving);
    let list = api.get(
        &format!("{SESSION}/artifacts"),
        "/api/v1/sessions/chain/artifacts",
    );
    assert_eq!(list["items"][0]["path"], "out.txt");
    let place = Path::new(list["folder"].as_str().unwrap()).join("out.txt");
    let get = |name: &str| {
        let path = format!("/api/v1/sessions/chain/artifacts/{name}");
        serving.get(&api.token, &path)
    };
    let file = get("out.txt").expect(200);
    assert_eq!(file.body, std::fs::read_to_string(&place).unwrap());
    assert_eq!(
        file.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert_eq!(
        file.header("content-disposition"),
        Some("attachment; filename=\"out.txt\"; filename*=UTF-8''out.txt")
    );
    assert_eq!(file.header("x-content-type-options"), Some("nosniff"));
    // Only what the journal names, whatever else is in the folder.
    for name in ["chain.yaml", "..%2Fhome%2Fconfig.toml", "%2Fetc%2Fpasswd"] {
        assert_eq!(get(name).expect(404).json()["code"], "N0113", "{name}");
    }
    // Not what was put in its place, be it the same file behind a link.
    std::fs::rename(&place, place.with_extension("moved")).unwrap();
    std::os::unix::fs::symlink("out.moved", &place).unwrap();
    assert_eq!(get("out.txt").expect(409).json()["code"], "N0114");
    std::fs::remove_file(&place).unwrap();
    std::fs::write(&place, "something else").unwrap();
    let problem = get("out.txt").expect(409).json();
    assert_eq!(problem["code"], "N0114");
}

#[test]
fn questions_of_all_sessions_are_listed() {
    let sandbox = sandbox();
    write_asking_workflow(&sandbox);
    for name in ["first", "second"] {
        let words = ["run", "report.yaml", "--force", "--name", name];
        sandbox.segno(&words).refused(19, &[]);
    }
    let serving = Serving::start(&sandbox);
    let api = Api::new(&sandbox, &serving);
    let route = "/api/v1/questions";
    let all = api.get(route, route);
    let asking = |page: &Value| {
        let items = page["items"].as_array().unwrap().iter();
        let name = |item: &Value| item["name"].as_str().unwrap().to_owned();
        items.map(name).collect::<Vec<_>>()
    };
    assert_eq!(asking(&all), ["second", "first"]);
    let page = api.get(route, "/api/v1/questions?limit=1");
    assert_eq!(asking(&page), ["second"]);
    let next = page["next"].as_str().unwrap();
    let page = api.get(route, &format!("/api/v1/questions?before={next}"));
    assert_eq!(asking(&page), ["first"]);
    let words = ["answer", "second", "yes"];
    sandbox.segno(&words).expect_success();
    assert_eq!(asking(&api.get(route, route)), ["first"]);
}

#[test]
fn doctor_verifies_for_administrators() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let serving = Serving::start(&sandbox);
    let mut api = Api::new(&sandbox, &serving);
    api.token = token(&sandbox, "admin");
    let found = api.get("/api/v1/doctor", "/api/v1/doctor");
    let printed = sandbox.segno(&["doctor", "--json"]).json();
    let report = printed.iter().find(|line| line["kind"] == "report");
    assert_eq!(found["report"], *report.unwrap());
    assert_eq!(found["findings"], json!([]));
}

#[test]
fn checkpoint_files_are_listed_compared_and_restored() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let allowed = sandbox.work().join("allowed");
    std::fs::create_dir(&allowed).unwrap();
    let folder = allowed.to_str().unwrap().to_owned();
    let serving = Serving::start_with(&sandbox, &["--allow-folder", &folder]);
    let api = Api::new(&sandbox, &serving);
    let create = || {
        let words = ["checkpoint", "create", "chain", "--json"];
        let taken = sandbox.segno(&words).json();
        taken[0]["checkpoint"].as_str().unwrap().to_owned()
    };
    let first = create();
    sandbox.write("new.txt", "new");
    let second = create();
    let path = |what: &str| format!("/api/v1/sessions/chain/checkpoints/{second}/{what}");
    let files = api.get(&format!("{CHECKPOINT}/files"), &path("files"));
    let has = |page: &Value, name: &str| {
        let items = page["items"].as_array().unwrap();
        items.iter().any(|item| item["path"] == name)
    };
    assert!(has(&files, "new.txt") && has(&files, "allowed"), "{files}");
    let one = api.get(&format!("{CHECKPOINT}/files"), &path("files?limit=1"));
    let next = path(&format!("files?after={}", one["next"]));
    let rest = api.get(&format!("{CHECKPOINT}/files"), &next);
    assert_eq!(
        [one["items"].as_array(), rest["items"].as_array()].map(|it| it.unwrap().len()),
        [1, files["items"].as_array().unwrap().len() - 1]
    );
    let back = path(&format!("diff?with={first}"));
    let diff = api.get(&format!("{CHECKPOINT}/diff"), &back);
    let words = ["checkpoint", "diff", &second, &first, "--json"];
    let printed = sandbox.segno(&words).json();
    assert_eq!(diff["difference"], *printed.last().unwrap());
    assert_eq!(diff["files"][0], printed[0]);
    let route = format!("{CHECKPOINT}/restore");
    let target = format!("{folder}/back");
    let body = json!({"into": target, "dry_run": true});
    let planned = api.post(&route, &path("restore"), &body);
    assert_eq!(planned["kind"], "would_restore");
    assert!(!allowed.join("back").exists());
    let done = api.post(&route, &path("restore"), &json!({"into": target}));
    assert_eq!(done["written"], planned["written"]);
    assert_eq!(sandbox.read("allowed/back/new.txt"), "new");
    sandbox.write("new.txt", "changed");
    let done = api.post(&route, &path("restore"), &json!({}));
    assert!(done["rescue"].is_string(), "{done}");
    assert_eq!(sandbox.read("new.txt"), "new");
    std::os::unix::fs::symlink("/", allowed.join("link")).unwrap();
    for into in [
        folder.clone(),
        target.clone(),
        format!("{folder}/../elsewhere"),
        format!("{folder}/link/tmp/segno-elsewhere"),
        "relative".to_owned(),
    ] {
        let answer = serving.post(&api.token, &path("restore"), &json!({"into": into}));
        assert_eq!(answer.expect(403).json()["code"], "N0115", "{into}");
    }
}

#[test]
fn session_is_forked_and_stopped_over_http() {
    let sandbox = sandbox();
    sandbox.scripted_chain(200, 50);
    let run = sandbox.start(&["run", "chain.yaml", "--auto-resume"]);
    let serving = Serving::start(&sandbox);
    let api = Api::new(&sandbox, &serving);
    segno_testkit::sandbox::wait_until("the session runs", || {
        serving.get(&api.token, "/api/v1/sessions/chain").json()["status"] == "running"
    });
    let body = json!({"reason": "lunch", "wait": true});
    let stopped = api.post(
        &format!("{SESSION}/stop"),
        "/api/v1/sessions/chain/stop",
        &body,
    );
    segno_testkit::sandbox::wait_for_output(run).refused(130, &[]);
    assert_eq!(stopped["status"], "paused");
    let route = format!("{SESSION}/fork");
    let path = "/api/v1/sessions/chain/fork";
    let fork = api.post(&route, path, &json!({"name": "copy"}));
    assert_eq!(
        (&fork["name"], &fork["status"]),
        (&"copy".into(), &"paused".into())
    );
    let from = json!({"from": stopped["checkpoint"]});
    let beside = api.post(&route, path, &from);
    assert_eq!(beside["checkpoint"], stopped["checkpoint"]);
    for (body, status, code) in [
        (json!({"name": "copy"}), 409, "S0102"),
        (json!({"name": "a/b"}), 400, "N0106"),
        (json!({"before": "nothing"}), 404, "S0114"),
        (json!({"before": "steps/0", "into": "/tmp"}), 403, "N0115"),
        (json!({"before": "steps/0", "from": "x"}), 400, "N0106"),
    ] {
        let answer = serving.send(&Request::post(path, &body).token(&api.token));
        let problem = answer.expect(status).json();
        assert_eq!(problem["code"], code, "{body}");
    }
}

#[test]
fn session_without_a_plan_has_none() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let serving = Serving::start(&sandbox);
    let api = Api::new(&sandbox, &serving);
    let plan = api.get(&format!("{SESSION}/plan"), "/api/v1/sessions/chain/plan");
    assert_eq!(plan["plan"], Value::Null);
}

#[test]
fn reference_page_names_every_route() {
    let sandbox = sandbox();
    let serving = Serving::start(&sandbox);
    let page = serving.send(&Request::get("/api")).expect(200).body;
    for endpoint in segno_server::ENDPOINTS {
        let line = format!(
            "<code>{} {}</code>",
            endpoint.method.as_str(),
            endpoint.path
        );
        assert!(page.contains(&line), "{line}");
    }
    assert!(!page.contains("<script"), "{page}");
}
