//! Servers of MCP: real ones, which `make test` puts where this finds them (`SEGNO_NPM` names another
//! place), and one that misbehaves.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use segno_agents::mcp::{Limits, Means, Transport};
use segno_agents::{Client, Launch, Mcp, McpError, McpServer};
use segno_core::error::Kind;
use segno_core::model::ToolCall;
use segno_core::ports::{Boxed, Clock};
use segno_core::time::Timestamp;
use segno_core::tool::{Class, Tools};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::world::{World, read, runtime, until};

/// Time that passes only when it is turned.
struct Hand(watch::Sender<Duration>);

impl Hand {
    fn new() -> Arc<Self> {
        Arc::new(Self(watch::channel(Duration::ZERO).0))
    }

    fn turn(&self, by: Duration) {
        self.0.send_modify(|now| *now += by);
    }
}

impl Clock for Hand {
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

fn means(clock: Arc<dyn Clock>) -> Means {
    Means {
        warden: Launch {
            program: env!("CARGO_BIN_EXE_segno-warden").into(),
            args: Vec::new(),
        },
        client: Client::new().unwrap(),
        clock,
        limits: Limits::default(),
    }
}

/// A program in the world's folder, marked as the world's.
fn program(world: &World, id: &str, argv: &[&str]) -> McpServer {
    let mark = ("SEGNO_SESSION".to_owned(), world.session().to_string());
    McpServer {
        id: id.to_owned(),
        transport: Transport::Program {
            argv: argv.iter().map(ToString::to_string).collect(),
            env: vec![mark, ("ADDED".to_owned(), "by the spec".to_owned())],
            folder: world.folder().to_owned(),
        },
    }
}

fn address(id: &str, url: String, headers: &[(&str, &str)]) -> McpServer {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    McpServer {
        id: id.to_owned(),
        transport: Transport::Address {
            url,
            headers: headers.iter().map(owned).collect(),
        },
    }
}

fn script() -> String {
    format!("{}/tests/it/mcp.py", env!("CARGO_MANIFEST_DIR"))
}

/// The server that misbehaves.
fn odd(world: &World, mode: &str) -> McpServer {
    program(world, "odd", &["python3", &script(), mode])
}

/// A real server's entry point.
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

fn everything(world: &World) -> McpServer {
    program(world, "everything", &["node", &real("server-everything")])
}

fn filesystem(world: &World, id: &str) -> McpServer {
    let folder = world.folder().to_str().unwrap();
    program(world, id, &["node", &real("server-filesystem"), folder])
}

async fn connect(server: McpServer) -> Mcp {
    let connected = Mcp::connect(server, means(Hand::new())).await;
    connected.unwrap_or_else(|error| panic!("{error}"))
}

async fn refused(server: McpServer) -> McpError {
    let connected = Mcp::connect(server, means(Hand::new())).await;
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
    let offers = tools.offers().iter();
    offers.map(|offer| offer.tool.name.as_str()).collect()
}

fn class(tools: &dyn Tools, name: &str) -> Class {
    let mut offers = tools.offers().iter();
    offers.find(|offer| offer.tool.name == name).unwrap().class
}

/// Waits in a thread, so that others can go on meanwhile.
async fn until_there(world: &World, name: &'static str) {
    let there = World::lent(world.folder());
    let waiting = move || until(name, || there.has(name));
    tokio::task::spawn_blocking(waiting).await.unwrap();
}

/// A server over HTTP, which ends with the test.
struct Web {
    child: Child,
    port: u16,
}

impl Web {
    fn odd(world: &World) -> Self {
        let mut child = Command::new("python3")
            .args([&script(), "http"])
            .current_dir(world.folder())
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
fn a_real_program_offers_its_tools_and_answers() {
    let world = World::new();
    runtime().block_on(async {
        let mcp = connect(everything(&world)).await;
        let echo = &mcp.offers()[names(&mcp).iter().position(|n| *n == "echo").unwrap()];
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
        assert!(!world.living().is_empty());
    });
    until("the server is gone", || world.living().is_empty());
}

#[test]
fn a_real_server_works_with_files_and_says_what_may_be_repeated() {
    let world = World::new();
    runtime().block_on(async {
        let mcp = connect(filesystem(&world, "files")).await;
        let path = world.folder().join("note.txt");
        let written = json!({"path": path, "content": "kept"});
        call(&mcp, "write_file", written).await.unwrap();
        assert_eq!(read(&path), b"kept");
        let text = call(&mcp, "read_text_file", json!({"path": path})).await;
        assert_eq!(text.unwrap(), "kept");
        let outside = call(&mcp, "read_text_file", json!({"path": "/etc/passwd"})).await;
        assert!(outside.unwrap_err().contains("denied"));
        assert_eq!(class(&mcp, "read_text_file"), Class::ReadOnly);
        assert_eq!(class(&mcp, "write_file"), Class::Repeatable);
        assert_eq!(class(&mcp, "edit_file"), Class::Effectful);
    });
}

#[test]
fn a_real_server_over_http_answers_in_streams() {
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
fn an_address_may_answer_in_json_and_wants_its_headers_and_session() {
    let world = World::new();
    let web = Web::odd(&world);
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
        until_there(&world, "left").await;
    });
}

#[test]
fn an_address_that_forgot_the_session_or_hung_up_is_called_anew() {
    let world = World::new();
    let web = Web::odd(&world);
    runtime().block_on(async {
        let mcp = connect(address(
            "web",
            web.url(),
            &[("Authorization", "Bearer tok")],
        ))
        .await;
        call(&mcp, "forget", json!({})).await.unwrap();
        let lost = call(&mcp, "echo", json!({})).await.unwrap_err();
        let told = "MCP server `web` refused the call: 404 Not Found: session not found";
        assert_eq!(lost, told);
        assert_eq!(call(&mcp, "echo", json!({})).await.unwrap(), "{}");
        let cut = call(&mcp, "hang_up", json!({})).await.unwrap_err();
        assert!(cut.contains("ended before the answer"), "{cut}");
        assert!(
            cut.contains("whether the call had an effect is not known"),
            "{cut}"
        );
        assert_eq!(call(&mcp, "echo", json!({})).await.unwrap(), "{}");
    });
}

#[test]
fn an_address_that_refuses_is_named_without_its_key() {
    let world = World::new();
    let web = Web::odd(&world);
    runtime().block_on(async {
        let url = format!("{}?key=secret", web.url());
        let error = refused(address("web", url, &[("Authorization", "Bearer secret")])).await;
        let told = format!(
            "MCP server `web` cannot be used: calling 127.0.0.1:{}: 401",
            web.port
        );
        assert!(error.to_string().starts_with(&told), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
        assert!(error.hint().unwrap().contains("headers"));
        for (url, headers, reason) in [
            ("file:///etc", vec![], "`file` is neither http nor https"),
            ("nowhere", vec![], "this is no address"),
            (
                "http://x",
                vec![("a b", "c")],
                "the name of header `a b` is not allowed",
            ),
            (
                "http://x",
                vec![("a", "\n")],
                "the value of header `a` is not allowed",
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
fn a_program_has_the_folder_and_the_environment_and_nothing_of_it_stays() {
    let world = World::new();
    let runtime = runtime();
    let mcp = runtime.block_on(async {
        let mcp = connect(odd(&world, "plain")).await;
        let told = call(&mcp, "where", json!({})).await.unwrap();
        let told: Value = serde_json::from_str(&told).unwrap();
        let folder = world.folder().canonicalize().unwrap();
        assert_eq!(
            told,
            json!([folder, "by the spec", std::env::var("HOME").unwrap()])
        );
        mcp
    });
    // The warden, Python, and a child of its in a session of its own.
    until("all are there", || world.living().len() == 3);
    // Nobody runs the runtime: the end does not depend on anyone waiting for it.
    drop(mcp);
    until("all are gone", || world.living().is_empty());
}

#[test]
fn nothing_stays_when_segno_is_killed() {
    let world = World::new();
    let mut segno = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "mcp::holds_a_program_until_it_is_killed",
            "--ignored",
        ])
        .env("SEGNO_TEST_FOLDER", world.folder())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until("a call is under way", || world.has("silent"));
    until("all are there", || world.living().len() == 3);
    segno.kill().unwrap();
    segno.wait().unwrap();
    until("all are gone", || world.living().is_empty());
}

#[test]
#[ignore = "is killed by `nothing_stays_when_segno_is_killed`"]
fn holds_a_program_until_it_is_killed() {
    let folder = std::env::var_os("SEGNO_TEST_FOLDER").unwrap();
    let world = World::lent(Path::new(&folder));
    runtime().block_on(async {
        let mcp = connect(odd(&world, "plain")).await;
        call(&mcp, "where", json!({})).await.unwrap();
        let ended = call(&mcp, "silent", json!({})).await;
        panic!("ended: {ended:?}");
    });
}

#[test]
fn a_server_that_dies_in_a_call_says_so_and_is_started_for_the_next() {
    let world = World::new();
    runtime().block_on(async {
        let mcp = connect(odd(&world, "plain")).await;
        let first = world.living();
        let died = call(&mcp, "crash", json!({})).await.unwrap_err();
        assert_eq!(
            died,
            "MCP server `odd` went away during the call: `python3` ended with exit code 3: out of \
             cheese; whether the call had an effect is not known; the server is asked anew at the \
             next call"
        );
        world.assert_empty();
        assert_eq!(
            call(&mcp, "echo", json!({"a": 1})).await.unwrap(),
            r#"{"a": 1}"#
        );
        let second = world.living();
        assert!(!second.is_empty() && second.iter().all(|pid| !first.contains(pid)));
    });
}

#[test]
fn a_server_that_died_between_calls_is_not_missed() {
    let world = World::new();
    let runtime = runtime();
    let mcp = runtime.block_on(connect(odd(&world, "plain")));
    let is_python = |pid: &i32| read(format!("/proc/{pid}/comm")).starts_with(b"python");
    let python = world.living().into_iter().find(is_python).unwrap();
    let mut kill = Command::new("kill");
    let killed = kill.args(["-9", &python.to_string()]).status();
    assert!(killed.unwrap().success());
    until("it is gone", || world.living().is_empty());
    // Nobody has run the runtime meanwhile, so nobody has heard of it.
    let answer = runtime.block_on(call(&mcp, "echo", json!({})));
    assert_eq!(answer.unwrap(), "{}");
}

#[test]
fn a_server_that_cannot_be_started_again_says_why() {
    let world = World::new();
    let copy = world.folder().join("odd.py");
    std::fs::copy(script(), &copy).unwrap();
    runtime().block_on(async {
        let server = program(&world, "odd", &["python3", copy.to_str().unwrap(), "plain"]);
        let mcp = connect(server).await;
        call(&mcp, "crash", json!({})).await.unwrap_err();
        crate::world::write(&copy, b"import sys; sys.exit('gone for good')");
        let error = call(&mcp, "echo", json!({})).await.unwrap_err();
        let told = "MCP server `odd` cannot be used: starting `python3`: `python3` ended with exit \
                    code 1: gone for good";
        assert_eq!(error, told);
    });
}

#[test]
fn a_call_that_takes_too_long_is_cancelled_and_the_server_stays() {
    let (world, clock) = (World::new(), Hand::new());
    runtime().block_on(async {
        let mcp = Mcp::connect(odd(&world, "plain"), means(clock.clone()));
        let mcp = mcp.await.unwrap_or_else(|error| panic!("{error}"));
        let living = world.living();
        let turn = async {
            until_there(&world, "silent").await;
            clock.turn(Limits::default().call);
        };
        let (late, ()) = tokio::join!(call(&mcp, "silent", json!({})), turn);
        let told = "MCP server `odd` did not answer within 120 s and was told to stop; whether the \
                    call had an effect is not known";
        assert_eq!(late.unwrap_err(), told);
        until_there(&world, "cancelled").await;
        assert_eq!(call(&mcp, "echo", json!({})).await.unwrap(), "{}");
        assert_eq!(world.living(), living);
    });
}

#[test]
fn a_call_that_is_given_up_is_cancelled() {
    let (here, there) = (World::new(), World::new());
    let web = Web::odd(&there);
    runtime().block_on(async {
        let header = [("Authorization", "Bearer tok")];
        let web = connect(address("web", web.url(), &header)).await;
        let program = connect(odd(&here, "plain")).await;
        for (world, mcp) in [(&here, program), (&there, web)] {
            tokio::select! {
                ended = call(&mcp, "silent", json!({})) => panic!("ended: {ended:?}"),
                () = until_there(world, "silent") => {}
            }
            until_there(world, "cancelled").await;
            assert_eq!(call(&mcp, "echo", json!({})).await.unwrap(), "{}");
        }
    });
}

#[test]
fn a_server_that_never_answers_is_ended_after_the_limit() {
    let clock = Hand::new();
    for (mode, last_words) in [
        ("deaf", "downloading the internet"),
        (
            "chatter",
            "(it wrote `Server is ready!`, which is no message)",
        ),
    ] {
        let world = World::new();
        let error = runtime().block_on(async {
            let turn = async {
                until_there(&world, "deaf").await;
                clock.turn(Limits::default().connect);
            };
            let connect = Mcp::connect(odd(&world, mode), means(clock.clone()));
            tokio::join!(connect, turn).0.err().unwrap()
        });
        let told = format!(
            "MCP server `odd` cannot be used: starting `python3`: no answer within 30 s: {last_words}"
        );
        assert_eq!(error.to_string(), told);
        assert!(error.hint().unwrap().contains("download"), "{error:?}");
        assert_eq!(error.kind(), Kind::Unavailable);
        world.assert_empty();
    }
}

#[test]
fn a_server_that_cannot_be_used_is_named_with_the_reason() {
    let world = World::new();
    let missing = program(&world, "odd", &["/nowhere/at-all"]);
    let mut homeless = odd(&world, "plain");
    if let Transport::Program { folder, .. } = &mut homeless.transport {
        *folder = "/nowhere".into();
    }
    let runtime = runtime();
    for (server, kind, reason, hint) in [
        (
            odd(&world, "noise"),
            Kind::Unavailable,
            "`python3` ended with exit code 2: missing option (it wrote `Usage: odd [options]`, \
             which is no message)",
            "by hand",
        ),
        (
            odd(&world, "version"),
            Kind::Invalid,
            "it speaks version 1999-01-01 of MCP, and Segno speaks 2024-11-05",
            "by hand",
        ),
        (
            odd(&world, "endless"),
            Kind::Invalid,
            "its list of tools has no end",
            "by hand",
        ),
        (
            odd(&world, "many"),
            Kind::Invalid,
            "its list of tools has no end, or more than 1000 entries",
            "by hand",
        ),
        (
            missing,
            Kind::NotFound,
            "`/nowhere/at-all` cannot be started: No such file",
            "installed",
        ),
        (homeless, Kind::Invalid, "/nowhere is not a folder", ""),
        (
            program(&world, "odd", &[]),
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
        world.assert_empty();
    }
}

#[test]
fn all_pages_are_read_and_what_strangers_say_is_cleaned() {
    let world = World::new();
    runtime().block_on(async {
        let mcp = connect(odd(&world, "pages")).await;
        assert_eq!(
            names(&mcp),
            ["one", "twice", "odd.name/ü", "repeat", "wordy"]
        );
        assert_eq!(class(&mcp, "one"), Class::ReadOnly);
        assert_eq!(class(&mcp, "repeat"), Class::Repeatable);
        assert_eq!(class(&mcp, "twice"), Class::Effectful);
        assert_eq!(mcp.offers()[1].tool.description, "first");
        let wordy = &mcp.offers()[4].tool;
        assert!(wordy.description.starts_with("[31mxxx"));
        assert_eq!(wordy.description.chars().count(), 4097);
        let field = &wordy.schema["properties"]["description"];
        assert_eq!(
            *field,
            json!({"type": "string", "description": "ab", "pattern": "\u{7}"})
        );
        assert_eq!(wordy.schema["type"], "object");
        let none = connect(odd(&world, "no_tools")).await;
        assert!(none.offers().is_empty());
    });
}

#[test]
fn strange_answers_are_answers_or_errors_but_never_silence() {
    let world = World::new();
    runtime().block_on(async {
        let mcp = connect(odd(&world, "plain")).await;
        let living = world.living();
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
            "MCP server `odd` answered with something that is no result"
        );
        let refused = call(&mcp, "forget", json!({})).await.unwrap_err();
        assert_eq!(refused, "there is no such [1mtool");
        let unfit = call(&mcp, "echo", json!([1])).await.unwrap_err();
        assert_eq!(unfit, "the input must be an object");
        assert_eq!(world.living(), living);
        let endless = call(&mcp, "endless_line", json!({})).await.unwrap_err();
        assert!(
            endless.contains("a message has more than 16777216 bytes"),
            "{endless}"
        );
        assert_eq!(call(&mcp, "echo", json!({})).await.unwrap(), "{}");
    });
}

#[test]
fn a_server_gets_the_folder_and_nothing_else() {
    let world = World::new();
    runtime().block_on(async {
        let mcp = connect(odd(&world, "plain")).await;
        let answers = call(&mcp, "ask", json!({})).await.unwrap();
        let answers: Value = serde_json::from_str(&answers).unwrap();
        let folder = format!("file://{}/", world.folder().display());
        assert_eq!(answers[0]["roots"], json!([{"uri": folder}]));
        assert_eq!(answers[1]["code"], -32601);
        assert_eq!(answers[2]["action"], "decline");
        assert_eq!(answers[3], json!({}));
        assert_eq!(answers[4]["code"], -32601);
    });
}
