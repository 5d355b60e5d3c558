//! How the server starts and stops.

use rustix::process::Signal;
use segno_testkit::sandbox::wait_until;

use super::{Request, Serving, token};
use crate::sandbox;

#[test]
fn second_server_is_refused_until_the_first_is_gone() {
    let sandbox = sandbox();
    let serving = Serving::start(&sandbox);
    sandbox
        .segno(&["serve", "--listen", "127.0.0.1:0"])
        .refused(
            21,
            &[
                "another server serves this home",
                &serving.address,
                "[N0111]",
            ],
        );
    serving.signal(Signal::KILL);
    drop(serving);
    sandbox.segno(&["open", "--print"]).refused(
        17,
        &["no server serves this home", "`segno serve`", "[N0112]"],
    );
    let again = Serving::start(&sandbox);
    again.send(&Request::get("/health")).expect(200);
}

#[test]
fn sigterm_ends_streams_and_exits_with_0() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let mut serving = Serving::start(&sandbox);
    let token = token(&sandbox, "read");
    let request = Request::get("/api/v1/sessions/chain/events").token(&token);
    let mut stream = serving.follow(request);
    stream.next_event().unwrap();
    serving.signal(Signal::TERM);
    while stream.next_any().is_some() {}
    assert_eq!(serving.wait(), Some(0));
    let server = sandbox.home().join("server");
    assert!(!server.join("address.json").exists());
    assert!(!server.join("socket").exists());
}

#[test]
fn addresses_of_other_networks_are_refused() {
    let sandbox = sandbox();
    for address in ["0.0.0.0:0", "192.168.1.5:4747", "[::]:0"] {
        sandbox
            .segno(&["serve", "--listen", address])
            .refused(2, &["can be reached from other machines", "ssh -L"]);
    }
}

#[test]
fn busy_port_is_named_with_a_way_out() {
    let sandbox = sandbox();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    sandbox.segno(&["serve", "--listen", &address]).refused(
        12,
        &[
            "cannot listen on",
            &address,
            "--listen 127.0.0.1:PORT",
            "[N0110]",
        ],
    );
}

#[test]
fn proxy_host_is_answered_only_if_it_is_named() {
    let sandbox = sandbox();
    let serving = Serving::start_with(&sandbox, &["--host", "segno.example", "--behind-https"]);
    let health = Request::get("/health");
    serving
        .send(&health.clone().host("segno.example"))
        .expect(200);
    serving
        .send(&health.clone().host("other.example"))
        .expect(421);
    let page = health.clone().host("segno.example");
    serving
        .send(&page.clone().header("Origin", "https://segno.example"))
        .expect(200);
    serving
        .send(&page.header("Origin", "http://segno.example"))
        .expect(403);
}

#[test]
fn server_answers_on_its_unix_socket_too() {
    use std::io::{BufReader, Write};
    use std::os::unix::net::UnixStream;
    let sandbox = sandbox();
    let serving = Serving::start(&sandbox);
    let token = token(&sandbox, "read");
    let mut stream = UnixStream::connect(sandbox.home().join("server/socket")).unwrap();
    let request = Request::get("/api/v1/sessions")
        .token(&token)
        .host("localhost");
    stream.write_all(&request.bytes(&serving.address)).unwrap();
    super::Response::read(&mut BufReader::new(stream))
        .unwrap()
        .expect(200);
}

#[test]
fn client_that_sends_no_head_does_not_hold_a_stop_back() {
    let sandbox = sandbox();
    let mut serving = Serving::start(&sandbox);
    let silent = serving.connect();
    serving.send(&Request::get("/health")).expect(200);
    serving.signal(Signal::TERM);
    let exit = serving.wait();
    assert_eq!(exit, Some(0));
    drop(silent);
}

#[test]
fn home_that_others_can_write_to_is_not_served() {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    let sandbox = sandbox();
    sandbox.segno(&["status"]).expect_success();
    fs::set_permissions(sandbox.home(), fs::Permissions::from_mode(0o777)).unwrap();
    sandbox
        .segno(&["serve", "--listen", "127.0.0.1:0"])
        .refused(12, &["others may write to it", "[F0104]"]);
    wait_until("nothing was left", || {
        !sandbox.home().join("server").exists()
    });
}
