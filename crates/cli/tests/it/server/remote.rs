//! Commands that work with the sessions of a server (`--server`).

#![expect(
    clippy::disallowed_methods,
    reason = "the tests look at the files of the user"
)]

use std::path::PathBuf;

use segno_testkit::sandbox::{ProcessOutput, Sandbox, run_to_end, wait_until};
use serde_json::Value;

use super::runs::chain_text;
use super::{Request, Response, Serving, token};
use crate::commands::write_asking_workflow;
use crate::sandbox;
use crate::worker::{Runs, wait_for_status};

/// A user of a server, with a home of their own.
struct User<'a> {
    server: &'a Sandbox,
    home: PathBuf,
    url: String,
}

impl<'a> User<'a> {
    /// A user who is logged in with a token of this scope.
    fn logged_in(server: &'a Sandbox, serving: &Serving, scope: &str) -> Self {
        let user = Self {
            server,
            home: server.home().with_file_name(format!("home-of-{scope}")),
            url: format!("http://{}", serving.address),
        };
        user.log_in(&token(server, scope)).expect_success();
        user
    }

    fn log_in(&self, token: &str) -> ProcessOutput {
        self.with_stdin(&["login", &self.url], token)
    }

    fn with_stdin(&self, words: &[&str], text: &str) -> ProcessOutput {
        let file = self.server.write("stdin.txt", &format!("{text}\n"));
        let mut command = self.server.command(words);
        command.env("SEGNO_HOME", &self.home);
        command.stdin(std::fs::File::open(file).unwrap());
        run_to_end(command)
    }

    /// A command with the sessions of the server.
    fn segno(&self, words: &[&str]) -> ProcessOutput {
        let words = [&["--server", &self.url], words].concat();
        let mut command = self.server.command(&words);
        command.env("SEGNO_HOME", &self.home);
        run_to_end(command)
    }
}

/// `chain.yaml` with the files that it names by their absolute paths: a server has no folder of its
/// own for a spec.
fn write_absolute_chain(sandbox: &Sandbox) {
    let text = chain_text(sandbox);
    sandbox.write("chain.yaml", &text);
}

/// The same command with the server and on its machine.
#[track_caller]
fn same(user: &User<'_>, words: &[&str]) {
    let there = user.server.segno(words);
    let remote = user.segno(words);
    assert_eq!(remote.code(), there.code(), "{words:?}: {}", remote.stderr);
    assert_eq!(remote.stdout, there.stdout, "{words:?}");
}

/// What a command printed as JSON, without what differs from moment to moment.
#[track_caller]
fn same_json(user: &User<'_>, words: &[&str]) {
    let mut there = user.server.segno(words).expect_success().json();
    let remote = user.segno(words).expect_success().json();
    for line in &mut there {
        // How much of the disk a checkpoint needs is asked on the machine.
        if line["kind"] == "checkpoint" {
            line["own_bytes"] = Value::Null;
            line["shared_bytes"] = Value::Null;
        }
    }
    assert_eq!(remote, there, "{words:?}");
    assert!(!remote.is_empty(), "{words:?} prints nothing");
}

#[test]
fn commands_that_read_print_the_same_with_a_server() {
    let sandbox = sandbox();
    write_asking_workflow(&sandbox);
    sandbox.segno(&["run", "report.yaml"]).refused(19, &[]);
    sandbox.scripted_chain(3, 0);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let words = ["note", "decision", "use WAL", "--session", "report"];
    sandbox.segno(&words).expect_success();
    let taken = sandbox.segno(&["checkpoint", "create", "report", "--json"]);
    let taken = taken.expect_success().json();
    let checkpoint = taken[0]["checkpoint"].as_str().unwrap().to_owned();
    let serving = Serving::start_with(&sandbox, &["--no-worker"]);
    let user = User::logged_in(&sandbox, &serving, "read");
    for words in [
        &["sessions", "list", "--all", "--json"][..],
        &["status", "--json"],
        &["status", "report", "--json"],
        &["show", "report", "--json"],
        &["show", "chain", "--json"],
        &["logs", "report", "--json"],
        &["answer", "report", "--json"],
        &["context", "report", "--json"],
        &["note", "list", "report", "--json"],
        &["note", "show", "d1", "--session", "report", "--json"],
        &["checkpoint", "list", "report", "--json"],
        &["checkpoint", "show", &checkpoint, "--json"],
        &["search", "tide", "--all", "--json"],
    ] {
        same_json(&user, words);
    }
    for words in [
        &["show", "chain"][..],
        &["show", "chain", "--output"],
        &["show", "report", "--output"],
        &["logs", "chain", "--full"],
        &["logs", "--full"],
        &["answer", "report"],
        &["context", "report"],
        &["checkpoint", "show", &checkpoint, "--decisions"],
        &["state", "list", "chain"],
        &["show", "nobody"],
    ] {
        same(&user, words);
    }
    // Nothing of this is on the machine of the user.
    let mut command = sandbox.command(&["sessions", "list", "--all", "--json"]);
    command.env("SEGNO_HOME", &user.home);
    assert_eq!(run_to_end(command).expect_success().stdout, "");
}

#[test]
fn commands_that_change_sessions_work_with_a_server() {
    let sandbox = sandbox();
    write_asking_workflow(&sandbox);
    sandbox.segno(&["run", "report.yaml"]).refused(19, &[]);
    let serving = Serving::start(&sandbox);
    let _runs = Runs(&sandbox);
    let user = User::logged_in(&sandbox, &serving, "operate");
    user.segno(&["note", "decision", "use WAL", "--session", "report"])
        .expect_success();
    user.segno(&[
        "note",
        "correct",
        "d1",
        "--why",
        "durable",
        "--session",
        "report",
    ])
    .expect_success();
    user.segno(&["note", "decision", "use TOML", "--session", "report"])
        .expect_success();
    user.segno(&["note", "withdraw", "d2", "--session", "report"])
        .expect_success();
    let notes = sandbox.segno(&["note", "list", "report", "--json"]);
    let notes = notes.expect_success().json();
    assert_eq!(notes.len(), 1, "{notes:#?}");
    let decision = &notes[0]["note"]["decision"];
    assert_eq!(decision["why"], "durable", "{notes:#?}");
    let taken = user.segno(&["checkpoint", "create", "report", "-m", "mine", "--json"]);
    let taken = taken.expect_success().json();
    let checkpoint = taken[0]["checkpoint"].as_str().unwrap();
    user.segno(&["checkpoint", "verify", checkpoint])
        .expect_success();
    sandbox.write("report.yaml", "changed");
    user.segno(&["checkpoint", "restore", checkpoint])
        .expect_success();
    assert_ne!(sandbox.read("report.yaml"), "changed");
    let forked = user.segno(&["fork", "report", "--name", "other", "--json"]);
    assert_eq!(forked.expect_success().json()[0]["name"], "other");
    user.segno(&["cancel", "other"]).expect_success();
    wait_for_status(&sandbox, "other", "cancelled");
    // The answer continues the session, and its run is shown to the end.
    let answered = user.segno(&["answer", "report", "yes", "--resume"]);
    let answered = answered.expect_success();
    assert!(
        answered.stdout.contains("is answered"),
        "{}",
        answered.stdout
    );
    wait_for_status(&sandbox, "report", "completed");
    let result = sandbox
        .segno(&["show", "report", "--output"])
        .expect_success();
    assert!(
        answered.stdout.ends_with(&result.stdout),
        "{}",
        answered.stdout
    );
}

#[test]
fn run_with_a_server_shows_its_steps_and_prints_its_result() {
    let sandbox = sandbox();
    sandbox.scripted_chain(3, 0);
    write_absolute_chain(&sandbox);
    let serving = Serving::start(&sandbox);
    let _runs = Runs(&sandbox);
    let user = User::logged_in(&sandbox, &serving, "operate");
    let here = sandbox
        .segno(&["run", "chain.yaml", "--force"])
        .expect_success();
    let calls = sandbox.calls().len();
    let there = user.segno(&["run", "chain.yaml", "--name", "there", "--force"]);
    let there = there.expect_success();
    assert_eq!(there.stdout, here.stdout);
    assert!(there.stderr.contains("steps/2"), "{}", there.stderr);
    assert!(there.stderr.contains("completed there"), "{}", there.stderr);
    assert_eq!(sandbox.calls().len(), calls + 3);
    // A run that fails says so with the exit code that it has here.
    let fails = "answers: [{step: steps/1, fail: {kind: auth, message: no key}}]";
    sandbox.write(
        "answers.yaml",
        &format!("ledger: calls.log\n{fails}\ndefault: {{text: fine}}\n"),
    );
    let here = sandbox.segno(&["run", "chain.yaml", "--name", "fails", "--force"]);
    let there = user.segno(&["run", "chain.yaml", "--name", "fails-there", "--force"]);
    assert_ne!(here.code(), 0);
    assert_eq!(there.code(), here.code(), "{}", there.stderr);
}

#[test]
fn pause_with_a_server_waits_for_the_checkpoint() {
    let sandbox = sandbox();
    sandbox.command_chain(3, "echo \"$STEP\"; while [ ! -e go ]; do sleep 0.05; done");
    write_absolute_chain(&sandbox);
    let serving = Serving::start(&sandbox);
    let _runs = Runs(&sandbox);
    let user = User::logged_in(&sandbox, &serving, "operate");
    let words = ["run", "chain.yaml", "--detach", "--name", "slow", "--json"];
    let requested = user.segno(&words).expect_success().json();
    assert_eq!(requested[0]["workers"], 1);
    wait_for_status(&sandbox, "slow", "running");
    wait_until("the first step is called", || !sandbox.calls().is_empty());
    let paused = user.segno(&["pause", "slow", "--force", "-r", "lunch", "--json"]);
    let paused = paused.expect_success().json();
    assert_eq!(paused[0]["status"], "paused");
    assert_eq!(paused[0]["reason"], "lunch");
    let checkpoint = paused[0]["checkpoint"].as_str().unwrap();
    let listed = sandbox.segno(&["checkpoint", "list", "slow", "--json"]);
    assert_eq!(listed.expect_success().json()[0]["checkpoint"], checkpoint);
    sandbox.write("go", "");
    user.segno(&["resume", "slow"]).expect_success();
    wait_for_status(&sandbox, "slow", "completed");
}

#[test]
fn unknown_outcome_is_decided_with_a_server() {
    let sandbox = sandbox();
    sandbox.command_chain(2, "touch called; [ -e go ] || sleep 600");
    write_absolute_chain(&sandbox);
    let serving = Serving::start(&sandbox);
    let _runs = Runs(&sandbox);
    let user = User::logged_in(&sandbox, &serving, "operate");
    let mut run = sandbox.start(&["run", "chain.yaml"]);
    wait_until("the step is called", || {
        sandbox.work().join("called").exists()
    });
    run.kill().unwrap();
    run.wait().unwrap();
    sandbox.write("go", "");
    let words = [
        "resume",
        "chain",
        "--in-flight",
        "done",
        "--result",
        "by hand",
    ];
    let resumed = user.segno(&words).expect_success();
    assert!(
        resumed.stderr.contains("completed chain"),
        "{}",
        resumed.stderr
    );
    assert_eq!(sandbox.calls(), ["steps/0", "steps/1"]);
    let shown = sandbox.segno(&["logs", "chain", "--full"]).expect_success();
    assert!(shown.stdout.contains("by hand"), "{}", shown.stdout);
}

#[test]
fn commands_that_need_a_home_are_refused_with_a_server() {
    let sandbox = sandbox();
    let serving = Serving::start(&sandbox);
    let user = User::logged_in(&sandbox, &serving, "read");
    for words in [
        &["doctor"][..],
        &["sessions", "delete", "x"],
        &["checkpoint", "push"],
        &["chat", "hello"],
        &["work", "PLAN.md"],
        &["config", "show"],
    ] {
        let output = user.segno(words);
        output.refused(2, &["does not work with a server", "[N0144]"]);
    }
    // A server of the environment is for sessions; what is about this machine still works.
    let mut command = sandbox.command(&["config", "show"]);
    command.env("SEGNO_SERVER", &user.url);
    run_to_end(command).expect_success();
    let mut command = sandbox.command(&["doctor"]);
    command.env("SEGNO_SERVER", &user.url);
    run_to_end(command).refused(2, &["[N0144]", "--server local"]);
    let mut command = sandbox.command(&["--server", "local", "doctor"]);
    command.env("SEGNO_SERVER", &user.url);
    run_to_end(command).expect_success();
}

#[test]
fn errors_of_a_server_are_those_of_its_machine() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let serving = Serving::start(&sandbox);
    let user = User::logged_in(&sandbox, &serving, "operate");
    for words in [
        &["cancel", "chain"][..],
        &["resume", "chain"],
        &["pause", "chain"],
        &["show", "nobody"],
        &["checkpoint", "show", "01ARZ3NDEKTSV4RRFFQ69G5FAV"],
        &["answer", "chain", "yes"],
    ] {
        let there = sandbox.segno(words);
        let remote = user.segno(words);
        assert_ne!(there.code(), 0, "{words:?}");
        assert_eq!(remote.code(), there.code(), "{words:?}: {}", remote.stderr);
        assert_eq!(remote.stderr, there.stderr, "{words:?}");
    }
    // A token that may only read changes nothing.
    let reader = User::logged_in(&sandbox, &serving, "read");
    let words = ["note", "todo", "clean up", "--session", "chain"];
    reader.segno(&words).refused(12, &["[N0104]"]);
}

#[test]
fn login_checks_the_token_and_keeps_it_private() {
    use std::os::unix::fs::PermissionsExt;

    let sandbox = sandbox();
    let serving = Serving::start(&sandbox);
    let user = User::logged_in(&sandbox, &serving, "read");
    let file = user.home.join("servers.json");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = std::fs::read_to_string(&file).unwrap();
    user.log_in("segno_0000000000000000_00")
        .refused(12, &["[N0102]"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    user.log_in("").refused(2, &["there is no token on stdin"]);
    user.with_stdin(&["login", "build-machine:4747"], "t")
        .refused(2, &["[N0145]", "https://HOST:PORT"]);
    user.with_stdin(&["login", "http://build-machine:4747"], "t")
        .refused(12, &["[N0143]", "without encryption"]);
    let mut command = sandbox.command(&["logout", &user.url]);
    command.env("SEGNO_HOME", &user.home);
    run_to_end(command).expect_success();
    user.segno(&["status"])
        .refused(12, &["[N0146]", "segno login"]);
    assert!(!std::fs::read_to_string(&file).unwrap().contains("segno_"));
}

#[test]
fn server_that_is_gone_or_another_program_is_named() {
    let sandbox = sandbox();
    let serving = Serving::start(&sandbox);
    let user = User::logged_in(&sandbox, &serving, "operate");
    drop(serving);
    let output = user
        .segno(&["status"])
        .refused(12, &["does not answer", "[N0140]"]);
    assert!(!output.stderr.contains("segno_"), "{}", output.stderr);
    let other = other_program();
    let user = User {
        url: other.url.clone(),
        ..user
    };
    let mut command = sandbox.command(&["--server", &user.url, "status"]);
    command
        .env("SEGNO_HOME", &user.home)
        .env("SEGNO_TOKEN", "t");
    run_to_end(command).refused(12, &["not as a server", "[N0141]"]);
}

/// A web server that is not Segno's.
struct Other {
    url: String,
}

fn other_program() -> Other {
    use std::io::{Read, Write};

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(
                b"HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello",
            );
        }
    });
    Other { url }
}

#[test]
fn self_signed_server_is_trusted_by_its_fingerprint_only() {
    let sandbox = sandbox();
    let serving = Serving::start_with(&sandbox, &["--tls", "self-signed"]);
    let user = User {
        server: &sandbox,
        home: sandbox.home().with_file_name("home-of-tls"),
        url: format!("https://{}", serving.address),
    };
    let token = token(&sandbox, "read");
    let refused = user
        .log_in(&token)
        .refused(12, &["[N0142]", "--fingerprint"]);
    let fingerprint = refused.stderr.split("--fingerprint ").nth(1).unwrap();
    let fingerprint = fingerprint.split('`').next().unwrap().to_owned();
    let address = std::fs::read_to_string(sandbox.home().join("server/address.json")).unwrap();
    let address: Value = serde_json::from_str(&address).unwrap();
    assert_eq!(address["fingerprint"], fingerprint.as_str());
    let words = ["login", &user.url, "--fingerprint", &fingerprint];
    user.with_stdin(&words, &token).expect_success();
    user.segno(&["status"]).expect_success();
    let other = fingerprint.replacen(|digit: char| digit.is_ascii_digit(), "F", 1);
    let words = ["login", &user.url, "--fingerprint", &other];
    user.with_stdin(&words, &token)
        .refused(12, &["[N0142]", "another fingerprint"]);
}

#[test]
fn journal_that_was_changed_on_its_way_is_refused() {
    use std::io::{BufReader, Read, Write};

    let sandbox = sandbox();
    sandbox.scripted_chain(2, 0);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let serving = Serving::start(&sandbox);
    let user = User::logged_in(&sandbox, &serving, "read");
    // Something in between that changes one word of one event.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (address, token) = (serving.address.clone(), token(&sandbox, "operate"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if reader.read(&mut byte).unwrap() == 0 {
                    break;
                }
                head.push(byte[0]);
            }
            let path = String::from_utf8_lossy(&head);
            let path = path.split(' ').nth(1).unwrap_or("/").to_owned();
            let mut there = std::net::TcpStream::connect(&address).unwrap();
            there
                .write_all(&Request::get(&path).token(&token).bytes(&address))
                .unwrap();
            let answer = Response::read(&mut BufReader::new(there)).unwrap();
            let mut body = answer.body;
            if path.contains("/records") {
                body = body.replacen("steps/0", "steps/7", 1);
            }
            let head = format!(
                "HTTP/1.1 {} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                answer.status,
                body.len()
            );
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(body.as_bytes());
        }
    });
    let between = User { url, ..user };
    let mut command = sandbox.command(&["--server", &between.url, "logs", "chain"]);
    command
        .env("SEGNO_HOME", &between.home)
        .env("SEGNO_TOKEN", "t");
    run_to_end(command).refused(17, &["does not match its hash", "[J0104]"]);
}
