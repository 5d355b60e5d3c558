//! Notes from API models: derived by rules from their tools, and extracted by a reader model.

use segno_testkit::model::{ModelResponse, ModelServer};
use serde_json::{Value, json};

use super::{APIS, chain, run};
use crate::sandbox;

fn tool(name: &str, input: Value) -> ModelResponse {
    ModelResponse::Tools(String::new(), vec![(name.to_owned(), input)])
}

#[test]
fn tool_results_become_notes_with_their_call() {
    for (provider, _) in APIS {
        let sandbox = sandbox();
        let server = ModelServer::start(|number, _| match number {
            0 | 3 => tool("file_read", json!({"path": "coins.txt"})),
            1 => tool(
                "python_exec",
                json!({"code": "raise SystemExit('no purse ' + 'ghp_' + '0123456789abcdefghijklmnopqrstuvwxyz')"}),
            ),
            2 => tool("file_write", json!({"path": "coins.txt", "content": "2\n"})),
            _ => ModelResponse::Text("done".into()),
        });
        chain(&sandbox, provider, &server.host(), "", &["count"]);
        let spec = sandbox.read("ask.yaml");
        let tools = "tools: {python: [file_read, file_write, python_exec]}\nagents:";
        sandbox.write("ask.yaml", &spec.replace("agents:", tools));
        run(&sandbox, &["run", "ask.yaml"]).expect_success();
        let notes = sandbox
            .segno(&["note", "list", "ask", "--json"])
            .expect_success()
            .json();
        let errors: Vec<&Value> = notes
            .iter()
            .filter(|note| !note["note"]["error"].is_null())
            .collect();
        assert_eq!(errors.len(), 2, "{provider} {notes:#?}");
        let read = &errors[0]["note"]["error"];
        assert_eq!(
            (&read["subject"], &read["resolution"]),
            (&json!("file_read coins.txt"), &json!("fixed"))
        );
        let code = &errors[1]["note"]["error"];
        assert_eq!(code["resolution"], "unresolved");
        assert!(
            code["text"].as_str().unwrap().contains("no purse"),
            "{code}"
        );
        // The note is stored like the tool's result: without secrets.
        let exported = sandbox.segno(&["sessions", "export", "ask", "-o", "-"]);
        assert!(!exported.expect_success().stdout.contains("ghp_0123"));
        for error in errors {
            assert_eq!(
                (&error["source"], &error["by"]),
                (&json!("driver"), &json!("a"))
            );
            assert!(error["call"].is_string(), "{error}");
        }
        let files = notes.iter().find(|note| !note["note"]["files"].is_null());
        assert_eq!(
            files.unwrap()["note"]["files"]["paths"],
            json!(["coins.txt"])
        );
    }
}

#[test]
fn reader_model_adds_notes_and_may_fail() {
    let good = json!({
        "decisions": [{"decision_type": "skip", "description": "No coins are counted."}],
        "errors": [],
    });
    let busy = ModelResponse::Status(529, "", "busy".into());
    for (play, noted) in [
        (ModelResponse::Text(good.to_string()), 1),
        (ModelResponse::Text("I cannot help with that.".into()), 0),
        (ModelResponse::HangUp, 0),
        (busy, 0),
    ] {
        for (provider, _) in APIS {
            let (sandbox, play) = (sandbox(), play.clone());
            let server = ModelServer::start(move |number, _| match number {
                0 => ModelResponse::Text("I count none.".into()),
                _ => play.clone(),
            });
            chain(&sandbox, provider, &server.host(), "", &["count", "again"]);
            let spec = sandbox.read("ask.yaml");
            let more = "continuity: {pause: {after_steps: 1}, handoff: {reader: a, within_s: 60}}";
            sandbox.write("ask.yaml", &format!("{spec}{more}\n"));
            let output = run(&sandbox, &["run", "ask.yaml"]);
            assert_eq!(output.code(), 130, "{output:?}");
            let notes = sandbox
                .segno(&["note", "list", "ask", "--json"])
                .expect_success();
            assert_eq!(notes.json().len(), noted, "{provider} {output:?}");
            let complains = output.stderr.contains("`a` extracted no notes");
            assert_eq!(complains, noted == 0, "{provider} {output:?}");
            let asked = server.requests()[1].body.to_string();
            assert!(asked.contains("I count none."), "{asked}");
            assert!(!asked.contains("You are brief."), "{asked}");
            let shown = sandbox.segno(&["status", "--json"]).expect_success().json();
            assert_eq!(shown[0]["notes"]["decisions"], noted);
        }
    }
}

#[test]
fn resumed_conversation_is_told_only_new_notes() {
    for noted in [false, true] {
        let sandbox = sandbox();
        let server = ModelServer::start(|number, _| match number {
            1 => tool("current_time", json!({})),
            2 | 3 => ModelResponse::Status(400, "", "wrong".into()),
            _ => ModelResponse::Text("done".into()),
        });
        let host = server.host();
        chain(&sandbox, "anthropic", &host, "", &["count", "again"]);
        let spec = sandbox.read("ask.yaml");
        let tools = "tools: {python: [current_time]}\nagents:";
        sandbox.write("ask.yaml", &spec.replace("agents:", tools));
        run(&sandbox, &["run", "ask.yaml"]).refused(10, &["steps/1"]);
        if noted {
            let note = ["note", "decision", "Use SQLite", "--session", "ask"];
            sandbox.segno(&note).expect_success();
        }
        run(&sandbox, &["resume"]).refused(10, &["steps/1"]);
        run(&sandbox, &["resume"]).expect_success();
        let asked = server.requests();
        assert_eq!(asked.len(), 5);
        let system = |number: usize| asked[number].body["system"].as_str().unwrap();
        assert_eq!(system(2), "You are brief.");
        assert_eq!(system(3) == system(2), !noted, "{}", system(3));
        assert_eq!(system(3).contains("Use SQLite"), noted, "{}", system(3));
        assert_eq!(system(4), system(3), "it is told the same again");
    }
}
