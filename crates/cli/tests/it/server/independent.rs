//! Programs that nobody here wrote use the API as the OpenAPI document describes it.
//! `make tools` installs them.

use std::path::{Path, PathBuf};
use std::process::Command;

use segno_testkit::programs::modules;
use segno_testkit::sandbox::{ProcessOutput, Sandbox, run_to_end};
use serde_json::{Value, json};

use super::{Request, Serving, token};
use crate::commands::write_asking_workflow;
use crate::sandbox;

/// How many requests each operation gets at most in a phase.
const REQUESTS: &str = "12";

/// A home with a finished session, a paused one and one that asks.
fn home() -> Sandbox {
    let sandbox = sandbox();
    sandbox.scripted_chain(2, 0);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let spec = sandbox.read("chain.yaml");
    let pause = "continuity: {pause: {after_steps: 1}}";
    sandbox.write("chain.yaml", &format!("{spec}{pause}\n"));
    let words = ["run", "chain.yaml", "--force", "--name", "paused"];
    sandbox.segno(&words).refused(130, &[]);
    write_asking_workflow(&sandbox);
    sandbox.segno(&["run", "report.yaml"]).refused(19, &[]);
    let words = ["note", "decision", "use WAL", "--why", "it is durable"];
    sandbox.segno(&words).expect_success();
    let words = ["checkpoint", "create", "chain"];
    sandbox.segno(&words).expect_success();
    sandbox
}

/// The document that the server serves, with names that exist: a random one would only be unknown.
fn document(sandbox: &Sandbox, serving: &Serving) -> Value {
    let answer = serving.send(&Request::get("/openapi.json")).expect(200);
    let mut document = answer.json();
    let listed = sandbox.segno(&["checkpoint", "list", "chain", "--json"]);
    let ids = listed.json();
    let ids = ids.iter().map(|one| one["checkpoint"].clone());
    let names = json!(["chain", "paused", "report", "nobody"]);
    let checkpoints = json!(ids.chain([json!("nothing")]).collect::<Vec<_>>());
    let paths = document["paths"].as_object_mut().unwrap();
    // Streams do not end.
    paths.remove("/api/v1/events");
    paths.remove("/api/v1/changes");
    for (path, operations) in paths {
        for operation in operations.as_object_mut().unwrap().values_mut() {
            for parameter in operation["parameters"].as_array_mut().unwrap() {
                let name = parameter["name"].as_str().unwrap();
                parameter["schema"] = match name {
                    // For an absent one, this route has an empty list.
                    "checkpoint" if path.ends_with("{part}") => {
                        json!({"type": "string", "minLength": 1, "examples": checkpoints})
                    }
                    "checkpoint" | "with" => json!({"type": "string", "enum": checkpoints}),
                    "session" => json!({"type": "string", "enum": names}),
                    _ => continue,
                };
            }
        }
    }
    document
}

fn python(program: &str) -> PathBuf {
    let folder = match std::env::var_os("SEGNO_PYTHON") {
        Some(python) => Path::new(&python).parent().unwrap().to_owned(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python/bin"),
    };
    let program = folder.join(program);
    assert!(
        program.exists(),
        "{} is missing; run `make tools`",
        program.display()
    );
    program
}

#[test]
fn generated_requests_find_no_broken_contract() {
    let sandbox = home();
    // Without a worker, generated requests to start and resume sessions only wait.
    let serving = Serving::start_with(&sandbox, &["--no-worker"]);
    let document = document(&sandbox, &serving);
    let paths = document["paths"].as_object().unwrap().values();
    let operations: usize = paths.map(|path| path.as_object().unwrap().len()).sum();
    let schema = sandbox.write("openapi.json", &document.to_string());
    let mut command = Command::new(python("schemathesis"));
    sandbox.set_env(&mut command);
    command
        .arg("run")
        .arg(schema)
        .args(["--url", &format!("http://{}", serving.address)])
        .args(["--header", &format!("Authorization: Bearer {}", token(&sandbox, "operate"))])
        .args(["--phases", "examples,coverage,fuzzing"])
        .args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance,negative_data_rejection,unsupported_method,allow_header_conformance"])
        .args(["--max-examples", REQUESTS, "--seed", "1", "--generation-deterministic"])
        .args(["--continue-on-failure", "--warnings", "off", "--no-color"]);
    let output = run_to_end(command);
    assert_eq!(output.code(), 0, "{}\n{}", output.stdout, output.stderr);
    let tested = format!("Tested: {operations}\n");
    assert!(output.stdout.contains(&tested), "{}", output.stdout);
}

/// Runs a program of npm.
#[track_caller]
fn npm(sandbox: &Sandbox, script: &str, words: &[&str]) -> ProcessOutput {
    let mut command = Command::new(modules().join("node/bin/node"));
    sandbox.set_env(&mut command);
    command.arg(modules().join(script)).args(words);
    run_to_end(command)
}

/// A client, in types that are generated from the document.
const CLIENT: &str = include_str!("client.ts");

/// Generates types from the document of the server and compiles the client with them.
fn compile_client(sandbox: &Sandbox, serving: &Serving) {
    let served = serving.send(&Request::get("/openapi.json")).expect(200);
    sandbox.write("client/openapi.json", &served.body);
    let settings = json!({
        "compilerOptions": {
            "strict": true, "target": "es2022", "module": "nodenext",
            "lib": ["es2022", "dom", "dom.iterable"], "types": [], "outDir": "out",
        },
        "files": ["client.ts"],
    });
    sandbox.write("client/tsconfig.json", &settings.to_string());
    sandbox.write("client/package.json", "{\"type\": \"module\"}");
    let folder = sandbox.work().join("client");
    std::os::unix::fs::symlink(modules(), folder.join("node_modules")).unwrap();
    let words = ["client/openapi.json", "-o", "client/schema.d.ts"];
    npm(sandbox, "openapi-typescript/bin/cli.js", &words).expect_success();
    // A field that does not exist is an error, so the types are really used.
    let wrong = CLIENT.replace(".snapshot_id", ".snapshot");
    sandbox.write("client/client.ts", &wrong);
    let words = ["--noEmit", "--strict", "-p", "client"];
    let refused = npm(sandbox, "typescript/bin/tsc", &words);
    assert!(refused.stdout.contains("snapshot_id"), "{}", refused.stdout);
    sandbox.write("client/client.ts", CLIENT);
    npm(sandbox, "typescript/bin/tsc", &["-p", "client"]).expect_success();
}

#[test]
fn generated_client_compiles_and_pauses_a_session() {
    let sandbox = home();
    let serving = Serving::start(&sandbox);
    let token = token(&sandbox, "operate");
    compile_client(&sandbox, &serving);
    sandbox.scripted_chain(200, 50);
    let words = ["run", "chain.yaml", "--force", "--name", "live"];
    let run = sandbox.start(&[&words[..], &["--auto-resume"]].concat());
    segno_testkit::sandbox::wait_until("the session runs", || {
        serving.get(&token, "/api/v1/sessions/live").json()["status"] == "running"
    });
    let mut command = Command::new(modules().join("node/bin/node"));
    sandbox.set_env(&mut command);
    command
        .arg("client/out/client.js")
        .arg(format!("http://{}", serving.address))
        .args([&token, "live"]);
    let output = run_to_end(command).expect_success();
    segno_testkit::sandbox::wait_for_output(run).refused(130, &[]);
    let printed: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(printed["status"], "paused");
    assert_eq!(printed["newest"], printed["snapshot"]);
    assert_eq!(printed["decisions"], json!([]));
}
