//! MCP servers: real ones, which `make test` installs (`SEGNO_NPM` names another folder), and one
//! that misbehaves.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use segno_agents::mcp::{ConnectionConfig, Limits, Transport};
use segno_agents::{Client, Launch, Mcp, McpError, McpServer};
use segno_core::error::Kind;
use segno_core::ports::{Boxed, Clock};
use segno_core::time::Timestamp;
use segno_core::tool::ToolCall;
use segno_core::tool::{EffectClass, Tools};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::fixture::{Fixture, read, runtime, until};

/// A clock that a test advances.
struct ManualClock(watch::Sender<Duration>);

impl ManualClock {
    fn new() -> Arc<Self> {
        Arc::new(Self(watch::channel(Duration::ZERO).0))
    }

    fn advance(&self, by: Duration) {
        self.0.send_modify(|now| *now += by);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn elapsed(&self) -> Duration {
        *self.0.borrow()
    }

    fn sleep(&self, duration: Duration) -> Boxed<'_, ()> {
        let (until, mut time) = (self.elapsed() + duration, self.0.subscribe());
        Box::pin(async move {
            time.wait_for(|now| *now >= until).await.unwrap();
        })
    }
}

fn means(clock: Arc<dyn Clock>) -> ConnectionConfig {
    ConnectionConfig {
        guard: Launch {
            program: env!("CARGO_BIN_EXE_segno-process-guard").into(),
            args: Vec::new(),
        },
        client: Client::new().unwrap(),
        clock,
        limits: Limits::default(),
    }
}

/// A program in the fixture's folder, with the fixture's marker in its environment.
fn program(fixture: &Fixture, id: &str, argv: &[&str]) -> McpServer {
    let mark = ("SEGNO_SESSION".to_owned(), fixture.session().to_string());
    McpServer {
        id: id.to_owned(),
        transport: Transport::Stdio {
            argv: argv.iter().map(ToString::to_string).collect(),
            env: vec![mark, ("ADDED".to_owned(), "by the spec".to_owned())],
            folder: fixture.folder().to_owned(),
        },
    }
}

fn address(id: &str, url: String, headers: &[(&str, &str)]) -> McpServer {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    McpServer {
        id: id.to_owned(),
        transport: Transport::Http {
            url,
            headers: headers.iter().map(owned).collect(),
        },
    }
}

fn script() -> String {
    format!("{}/tests/it/mcp.py", env!("CARGO_MANIFEST_DIR"))
}

/// The server that misbehaves.
fn odd(fixture: &Fixture, mode: &str) -> McpServer {
    program(fixture, "odd", &["python3", &script(), mode])
}

/// The entry point of a real server.
fn real(name: &str) -> String {
    let place = match std::env::var_os("SEGNO_NPM") {
        Some(place) => PathBuf::from(place),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/npm"),
    };
    let server = format!("node_modules/@modelcontextprotocol/{name}/dist/index.js");
    let path = place.join(server);
    assert!(
        path.exists(),
        "{} is missing: `make test` puts it there",
        path.display()
    );
    path.to_str().unwrap().to_owned()
}

fn everything(fixture: &Fixture) -> McpServer {
    program(fixture, "everything", &["node", &real("server-everything")])
}

fn filesystem(fixture: &Fixture, id: &str) -> McpServer {
    let folder = fixture.folder().to_str().unwrap();
    program(fixture, id, &["node", &real("server-filesystem"), folder])
}

async fn connect(server: McpServer) -> Mcp {
    let connected = Mcp::connect(server, means(ManualClock::new())).await;
    connected.unwrap_or_else(|error| panic!("{error}"))
}

async fn refused(server: McpServer) -> McpError {
    let connected = Mcp::connect(server, means(ManualClock::new())).await;
    connected.err().unwrap()
}

async fn call(tools: &dyn Tools, name: &str, input: Value) -> Result<String, String> {
    let call = ToolCall {
        id: "1".to_owned(),
        name: name.to_owned(),
        input,
    };
    tools.run(&call, Path::new("/")).await
}

fn names(tools: &dyn Tools) -> Vec<&str> {
    let offers = tools.offered_tools().iter();
    offers.map(|offer| offer.tool.name.as_str()).collect()
}

fn class(tools: &dyn Tools, name: &str) -> EffectClass {
    let mut offers = tools.offered_tools().iter();
    offers.find(|offer| offer.tool.name == name).unwrap().class
}

/// Waits in a thread, so that other tasks can run meanwhile.
async fn until_there(fixture: &Fixture, name: &'static str) {
    let there = Fixture::in_folder(fixture.folder());
    let waiting = move || until(name, || there.has(name));
    tokio::task::spawn_blocking(waiting).await.unwrap();
}

/// A server over HTTP, which ends with the test.
struct Web {
    child: Child,
    port: u16,
}

impl Web {
    fn odd(fixture: &Fixture) -> Self {
        let mut child = Command::new("python3")
            .args([&script(), "http"])
            .current_dir(fixture.folder())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let port = listening(&mut child);
        Self { child, port }
    }

    fn everything() -> Self {
        let mut child = Command::new("node")
            .args([&real("server-everything"), "streamableHttp"])
            .env("PORT", "0")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let port = listening(&mut child);
        Self { child, port }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The port that a process listens on, once it does.
fn listening(child: &mut Child) -> u16 {
    let pid = child.id();
    until("the server listens", || port(pid).is_some());
    port(pid).unwrap()
}

fn port(pid: u32) -> Option<u16> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let links: Vec<String> = links.map(|link| link.display().to_string()).collect();
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(read).concat();
    String::from_utf8(tables).unwrap().lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let ours = links.contains(&format!("socket:[{}]", fields.get(9)?));
        let (_, port) = fields[1].rsplit_once(':')?;
        (ours && fields[3] == "0A").then(|| u16::from_str_radix(port, 16).ok())?
    })
}

#[test]
fn real_stdio_server_lists_and_runs_tools() {
    let fixture = Fixture::new();
    runtime().block_on(async {
        let mcp = connect(everything(&fixture)).await;
        let echo = &mcp.offered_tools()[names(&mcp).iter().position(|n| *n == "echo").unwrap()];
        assert_eq!(echo.tool.schema["properties"]["message"]["type"], "string");
        let said = call(&mcp, "echo", json!({"message": "hi"})).await;
        assert_eq!(said.unwrap(), "Echo: hi");
        let sum = call(&mcp, "get-sum", json!({"a": 2, "b": 3})).await;
        assert!(sum.unwrap().contains('5'));
        let image = call(&mcp, "get-tiny-image", json!({})).await.unwrap();
        assert!(image.contains("[image: image/png, "), "{image}");
        let links = call(&mcp, "get-resource-links", json!({"count": 2})).await;
        assert!(links.unwrap().contains("[link: "));
        let wrong = call(&mcp, "get-sum", json!({"a": "two"})).await;
        assert!(wrong.unwrap_err().contains("number"));
        let env = call(&mcp, "get-env", json!({})).await.unwrap();
        assert!(env.contains("by the spec") && env.contains("PATH"), "{env}");
        assert!(!fixture.processes().is_empty());
    });
    until("the server is gone", || fixture.processes().is_empty());
}

#[test]
fn real_server_reads_and_writes_files() {
    let fixture = Fixture::new();
    runtime().block_on(async {
        let mcp = connect(filesystem(&fixture, "files")).await;
        let path = fixture.folder().join("note.txt");
        let written = json!({"path": path, "content": "kept"});
        call(&mcp, "write_file", written).await.unwrap();
        assert_eq!(read(&path), b"kept");
        let text = call(&mcp, "read_text_file", json!({"path": path})).await;
        assert_eq!(text.unwrap(), "kept");
        let outside = call(&mcp, "read_text_file", json!({"path": "/etc/passwd"})).await;
        assert!(outside.unwrap_err().contains("denied"));
        assert_eq!(class(&mcp, "read_text_file"), EffectClass::ReadOnly);
        assert_eq!(class(&mcp, "write_file"), EffectClass::Repeatable);
        assert_eq!(class(&mcp, "edit_file"), EffectClass::Effectful);
    });
}

#[test]
fn real_http_server_responds_in_streams() {
    let web = Web::everything();
    runtime().block_on(async {
        let mcp = connect(address("web", web.url(), &[])).await;
        let said = call(&mcp, "echo", json!({"message": "hi"})).await;
        assert_eq!(said.unwrap(), "Echo: hi");
        let (one, two) = tokio::join!(
            call(&mcp, "get-sum", json!({"a": 2, "b": 3})),
            call(
                &mcp,
                "trigger-long-running-operation",
                json!({"duration": 1, "steps": 2})
            ),
        );
        assert!(one.unwrap().contains('5') && two.unwrap().contains("completed"));
    });
}

#[test]
fn http_server_gets_headers_and_session() {
    let fixture = Fixture::new();
    let web = Web::odd(&fixture);
    runtime().block_on(async {
        let mcp = connect(address(
            "web",
            web.url(),
            &[("Authorization", "Bearer tok")],
        ))
        .await;
        assert_eq!(
            call(&mcp, "echo", json!({"a": 1})).await.unwrap(),
            r#"{"a": 1}"#
        );
        let huge = call(&mcp, "huge", json!({})).await.unwrap();
        assert!(huge.ends_with("x\n[cut: these are the first 2097152 of 12582912 bytes]"));
        drop(mcp);
        until_there(&fixture, "left").await;
    });
}

#[test]
fn lost_http_session_is_reconnected() {
    let fixture = Fixture::new();
    let web = Web::odd(&fixture);
    runtime().block_on(async {
        let mcp = connect(address(
            "web",
            web.url(),
            &[("Authorization", "Bearer tok")],
        ))
        .await;
        call(&mcp, "forget", json!({})).await.unwrap();
        let lost = call(&mcp, "echo", json!({})).await.unwrap_err();
        let expected = "MCP server `web` rejected the call: 404 Not Found: session not found";
        assert_eq!(lost, expected);
        assert_eq!(call(&mcp, "echo", json!({})).await.unwrap(), "{}");
        let cut = call(&mcp, "hang_up", json!({})).await.unwrap_err();
        assert!(cut.contains("ended before the response"), "{cut}");
        assert!(
            cut.contains("whether the call had an effect is unknown"),
            "{cut}"
        );
        assert_eq!(call(&mcp, "echo", json!({})).await.unwrap(), "{}");
    });
}

#[test]
fn refusing_http_server_is_named_without_its_key() {
    let fixture = Fixture::new();
    let web = Web::odd(&fixture);
    runtime().block_on(async {
        let url = format!("{}?key=secret", web.url());
        let error = refused(address("web", url, &[("Authorization", "Bearer secret")])).await;
        let expected = format!(
            "MCP server `web` cannot be used: connecting to 127.0.0.1:{}: 401",
            web.port
        );
        assert!(error.to_string().starts_with(&expected), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
        assert!(error.hint().unwrap().contains("headers"));
        for (url, headers, reason) in [
            (
                "file:///etc",
                vec![],
                "the URL scheme `file` is neither http nor https",
            ),
            ("nowhere", vec![], "the URL is invalid"),
            (
                "http://x",
                vec![("a b", "c")],
                "the name of header `a b` is invalid",
            ),
            (
                "http://x",
                vec![("a", "\n")],
                "the value of header `a` is invalid",
            ),
        ] {
            let error = refused(address("web", url.to_owned(), &headers)).await;
            assert!(error.reason.starts_with(reason), "{error}");
            assert_eq!(error.kind(), Kind::Invalid);
        }
    });
    let url = web.url();
    drop(web);
    let error = runtime().block_on(refused(address("web", url, &[])));
    assert!(error.reason.contains("cannot be reached"), "{error}");
    assert_eq!(error.kind(), Kind::Unavailable);
}

#[test]
fn stdio_server_gets_folder_and_env_and_ends() {
    let fixture = Fixture::new();
    let runtime = runtime();
    let mcp = runtime.block_on(async {
        let mcp = connect(odd(&fixture, "plain")).await;
        let expected = call(&mcp, "where", json!({})).await.unwrap();
        let expected: Value = serde_json::from_str(&expected).unwrap();
        let folder = fixture.folder().canonicalize().unwrap();
        assert_eq!(
            expected,
            json!([folder, "by the spec", std::env::var("HOME").unwrap()])
        );
        mcp
    });
    // The guard, Python, and a child of Python in a session of its own.
    until("all are there", || fixture.processes().len() == 3);
    // The runtime does not run: the tree ends although no task waits for it.
    drop(mcp);
    until("all are gone", || fixture.processes().is_empty());
}

#[test]
fn nothing_stays_when_segno_is_killed() {
    let fixture = Fixture::new();
    let mut segno = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "mcp::holds_a_program_until_it_is_killed",
            "--ignored",
        ])
        .env("SEGNO_TEST_FOLDER", fixture.folder())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until("a call is under way", || fixture.has("silent"));
    until("all are there", || fixture.processes().len() == 3);
    segno.kill().unwrap();
    segno.wait().unwrap();
    until("all are gone", || fixture.processes().is_empty());
}

#[test]
#[ignore = "is killed by `nothing_stays_when_segno_is_killed`"]
fn holds_a_program_until_it_is_killed() {
    let folder = std::env::var_os("SEGNO_TEST_FOLDER").unwrap();
    let fixture = Fixture::in_folder(Path::new(&folder));
    runtime().block_on(async {
        let mcp = connect(odd(&fixture, "plain")).await;
        call(&mcp, "where", json!({})).await.unwrap();
        let ended = call(&mcp, "silent", json!({})).await;
        panic!("ended: {ended:?}");
    });
}

#[test]
fn server_that_dies_in_a_call_is_restarted() {
    let fixture = Fixture::new();
    runtime().block_on(async {
        let mcp = connect(odd(&fixture, "plain")).await;
        let first = fixture.processes();
        let died = call(&mcp, "crash", json!({})).await.unwrap_err();
        assert_eq!(
            died,
            "MCP server `odd` disconnected during the call: `python3` exited with code 3: out of \
             cheese; whether the call had an effect is unknown; the next call \
             reconnects"
        );
        fixture.assert_empty();
        assert_eq!(
            call(&mcp, "echo", json!({"a": 1})).await.unwrap(),
            r#"{"a": 1}"#
        );
        let second = fixture.processes();
        assert!(!second.is_empty() && second.iter().all(|pid| !first.contains(pid)));
    });
}

#[test]
fn server_that_died_between_calls_is_restarted() {
    let fixture = Fixture::new();
    let runtime = runtime();
    let mcp = runtime.block_on(connect(odd(&fixture, "plain")));
    let is_python = |pid: &i32| read(format!("/proc/{pid}/comm")).starts_with(b"python");
    let python = fixture.processes().into_iter().find(is_python).unwrap();
    let mut kill = Command::new("kill");
    let killed = kill.args(["-9", &python.to_string()]).status();
    assert!(killed.unwrap().success());
    until("it is gone", || fixture.processes().is_empty());
    // The runtime has not run meanwhile, so no task has noticed the end.
    let answer = runtime.block_on(call(&mcp, "echo", json!({})));
    assert_eq!(answer.unwrap(), "{}");
}

#[test]
fn failed_restart_is_reported() {
    let fixture = Fixture::new();
    let copy = fixture.folder().join("odd.py");
    std::fs::copy(script(), &copy).unwrap();
    runtime().block_on(async {
        let server = program(
            &fixture,
            "odd",
            &["python3", copy.to_str().unwrap(), "plain"],
        );
        let mcp = connect(server).await;
        call(&mcp, "crash", json!({})).await.unwrap_err();
        crate::fixture::write(&copy, b"import sys; sys.exit('gone for good')");
        let error = call(&mcp, "echo", json!({})).await.unwrap_err();
        let expected = "MCP server `odd` cannot be used: starting `python3`: `python3` exited with \
                    code 1: gone for good";
        assert_eq!(error, expected);
    });
}

#[test]
fn call_timeout_cancels_and_keeps_the_server() {
    let (fixture, clock) = (Fixture::new(), ManualClock::new());
    runtime().block_on(async {
        let mcp = Mcp::connect(odd(&fixture, "plain"), means(clock.clone()));
        let mcp = mcp.await.unwrap_or_else(|error| panic!("{error}"));
        let living = fixture.processes();
        let turn = async {
            until_there(&fixture, "silent").await;
            clock.advance(Limits::default().call);
        };
        let (late, ()) = tokio::join!(call(&mcp, "silent", json!({})), turn);
        let expected = "MCP server `odd` did not respond within 120 s, and the call was cancelled; whether \
                    it had an effect is unknown";
        assert_eq!(late.unwrap_err(), expected);
        until_there(&fixture, "cancelled").await;
        assert_eq!(call(&mcp, "echo", json!({})).await.unwrap(), "{}");
        assert_eq!(fixture.processes(), living);
    });
}

#[test]
fn dropped_call_is_cancelled() {
    let (here, there) = (Fixture::new(), Fixture::new());
    let web = Web::odd(&there);
    runtime().block_on(async {
        let header = [("Authorization", "Bearer tok")];
        let web = connect(address("web", web.url(), &header)).await;
        let program = connect(odd(&here, "plain")).await;
        for (fixture, mcp) in [(&here, program), (&there, web)] {
            tokio::select! {
                ended = call(&mcp, "silent", json!({})) => panic!("ended: {ended:?}"),
                () = until_there(fixture, "silent") => {}
            }
            until_there(fixture, "cancelled").await;
            assert_eq!(call(&mcp, "echo", json!({})).await.unwrap(), "{}");
        }
    });
}

#[test]
fn server_that_never_responds_is_killed() {
    let clock = ManualClock::new();
    for (mode, last_words) in [
        ("deaf", "downloading the internet"),
        (
            "chatter",
            "(it wrote `Server is ready!`, which is not a message)",
        ),
    ] {
        let fixture = Fixture::new();
        let error = runtime().block_on(async {
            let turn = async {
                until_there(&fixture, "deaf").await;
                clock.advance(Limits::default().connect);
            };
            let connect = Mcp::connect(odd(&fixture, mode), means(clock.clone()));
            tokio::join!(connect, turn).0.err().unwrap()
        });
        let expected = format!(
            "MCP server `odd` cannot be used: starting `python3`: no response within 30 s: {last_words}"
        );
        assert_eq!(error.to_string(), expected);
        assert!(error.hint().unwrap().contains("download"), "{error:?}");
        assert_eq!(error.kind(), Kind::Unavailable);
        fixture.assert_empty();
    }
}

#[test]
fn unusable_server_is_named_with_the_reason() {
    let fixture = Fixture::new();
    let missing = program(&fixture, "odd", &["/nowhere/at-all"]);
    let mut homeless = odd(&fixture, "plain");
    if let Transport::Stdio { folder, .. } = &mut homeless.transport {
        *folder = "/nowhere".into();
    }
    let runtime = runtime();
    for (server, kind, reason, hint) in [
        (
            odd(&fixture, "noise"),
            Kind::Unavailable,
            "`python3` exited with code 2: missing option (it wrote `Usage: odd [options]`, \
             which is not a message)",
            "by hand",
        ),
        (
            odd(&fixture, "version"),
            Kind::Invalid,
            "it speaks MCP version 1999-01-01; Segno speaks 2024-11-05",
            "by hand",
        ),
        (
            odd(&fixture, "endless"),
            Kind::Invalid,
            "its tool list is endless",
            "by hand",
        ),
        (
            odd(&fixture, "many"),
            Kind::Invalid,
            "its tool list is endless or has more than 1000 tools",
            "by hand",
        ),
        (
            missing,
            Kind::NotFound,
            "`/nowhere/at-all` was not found",
            "installed",
        ),
        (homeless, Kind::Invalid, "/nowhere is not a folder", ""),
        (
            program(&fixture, "odd", &[]),
            Kind::Invalid,
            "it has no command",
            "",
        ),
    ] {
        let error = runtime.block_on(refused(server));
        assert_eq!(error.server, "odd");
        assert!(error.reason.starts_with(reason), "{error}");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.hint().unwrap_or_default().contains(hint), "{error:?}");
        fixture.assert_empty();
    }
}

#[test]
fn all_tool_pages_are_read_and_sanitized() {
    let fixture = Fixture::new();
    runtime().block_on(async {
        let mcp = connect(odd(&fixture, "pages")).await;
        assert_eq!(
            names(&mcp),
            ["one", "twice", "odd.name/ü", "repeat", "wordy"]
        );
        assert_eq!(class(&mcp, "one"), EffectClass::ReadOnly);
        assert_eq!(class(&mcp, "repeat"), EffectClass::Repeatable);
        assert_eq!(class(&mcp, "twice"), EffectClass::Effectful);
        assert_eq!(mcp.offered_tools()[1].tool.description, "first");
        let wordy = &mcp.offered_tools()[4].tool;
        assert!(wordy.description.starts_with("[31mxxx"));
        assert_eq!(wordy.description.chars().count(), 4097);
        let field = &wordy.schema["properties"]["description"];
        assert_eq!(
            *field,
            json!({"type": "string", "description": "ab", "pattern": "\u{7}"})
        );
        assert_eq!(wordy.schema["type"], "object");
        let none = connect(odd(&fixture, "no_tools")).await;
        assert!(none.offered_tools().is_empty());
    });
}

#[test]
fn malformed_responses_become_results_or_errors() {
    let fixture = Fixture::new();
    runtime().block_on(async {
        let mcp = connect(odd(&fixture, "plain")).await;
        let living = fixture.processes();
        assert_eq!(
            call(&mcp, "garbage", json!({})).await.unwrap(),
            "after garbage"
        );
        assert_eq!(
            call(&mcp, "no_text", json!({})).await.unwrap(),
            r#"{"n":1}"#
        );
        assert_eq!(
            call(&mcp, "fail", json!({})).await.unwrap_err(),
            "no such luck"
        );
        let huge = call(&mcp, "huge", json!({})).await.unwrap();
        assert!(huge.ends_with("x\n[cut: these are the first 2097152 of 3145728 bytes]"));
        let broken = call(&mcp, "broken", json!({})).await.unwrap_err();
        assert_eq!(
            broken,
            "MCP server `odd` responded with something that is not a tool result"
        );
        let refused = call(&mcp, "forget", json!({})).await.unwrap_err();
        assert_eq!(refused, "there is no such [1mtool");
        let unfit = call(&mcp, "echo", json!([1])).await.unwrap_err();
        assert_eq!(unfit, "the input must be an object");
        assert_eq!(fixture.processes(), living);
        let endless = call(&mcp, "endless_line", json!({})).await.unwrap_err();
        assert!(
            endless.contains("a message has more than 16777216 bytes"),
            "{endless}"
        );
        assert_eq!(call(&mcp, "echo", json!({})).await.unwrap(), "{}");
    });
}

#[test]
fn server_gets_the_root_and_nothing_else() {
    let fixture = Fixture::new();
    runtime().block_on(async {
        let mcp = connect(odd(&fixture, "plain")).await;
        let answers = call(&mcp, "ask", json!({})).await.unwrap();
        let answers: Value = serde_json::from_str(&answers).unwrap();
        let folder = format!("file://{}/", fixture.folder().display());
        assert_eq!(answers[0]["roots"], json!([{"uri": folder}]));
        assert_eq!(answers[1]["code"], -32601);
        assert_eq!(answers[2]["action"], "decline");
        assert_eq!(answers[3], json!({}));
        assert_eq!(answers[4]["code"], -32601);
    });
}
