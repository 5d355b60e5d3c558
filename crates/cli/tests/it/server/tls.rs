//! Encrypted connections, with a client that checks certificates.

use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use rustix::process::Signal;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use segno_testkit::sandbox::{Sandbox, wait_until};

use super::{Request, Response, Serving, token};
use crate::sandbox;

#[expect(clippy::disallowed_methods, reason = "tests use files as others do")]
fn certificate(sandbox: &Sandbox) -> Vec<u8> {
    std::fs::read(sandbox.home().join("server/tls.pem")).unwrap()
}

/// Sends a request over TLS, and trusts only the certificate in `pem`.
fn send(serving: &Serving, pem: &[u8], request: &Request) -> std::io::Result<Response> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let session = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(session, serving.connect());
    stream.write_all(&request.bytes(&serving.address))?;
    Response::read(&mut BufReader::new(stream))
}

fn start(sandbox: &Sandbox) -> Serving {
    Serving::start_with(sandbox, &["--tls", "self-signed"])
}

#[test]
fn self_signed_certificate_is_made_once() {
    let sandbox = sandbox();
    let serving = start(&sandbox);
    let pem = certificate(&sandbox);
    let answer = send(&serving, &pem, &Request::get("/health")).unwrap();
    answer.expect(200);
    let token = token(&sandbox, "read");
    let list = Request::get("/api/v1/sessions").token(&token);
    send(&serving, &pem, &list).unwrap().expect(200);
    let file = sandbox.home().join("server/tls.pem");
    let mode = std::fs::metadata(file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let opened = sandbox.segno(&["open", "--print", "--json"]).json();
    let fingerprint = opened[0]["fingerprint"].as_str().unwrap().to_owned();
    assert_eq!(fingerprint.len(), 95);
    assert!(opened[0]["url"].as_str().unwrap().starts_with("https://"));
    drop(serving);
    let serving = start(&sandbox);
    assert_eq!(certificate(&sandbox), pem);
    send(&serving, &pem, &Request::get("/health"))
        .unwrap()
        .expect(200);
    let opened = sandbox.segno(&["open", "--print", "--json"]).json();
    assert_eq!(opened[0]["fingerprint"], fingerprint.as_str());
}

#[test]
fn plain_and_silent_clients_hold_nobody_up() {
    let sandbox = sandbox();
    let mut serving = start(&sandbox);
    let pem = certificate(&sandbox);
    let silent: Vec<TcpStream> = (0..50).map(|_| serving.connect()).collect();
    let mut half = serving.connect();
    half.write_all(&[0x16, 0x03, 0x01]).unwrap();
    serving.send_to_nobody(&Request::get("/health"));
    send(&serving, &pem, &Request::get("/health"))
        .unwrap()
        .expect(200);
    serving.signal(Signal::TERM);
    assert_eq!(serving.wait(), Some(0));
    drop(silent);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "tests use files as others do")]
fn sighup_reloads_the_certificate_or_keeps_the_old_one() {
    let sandbox = sandbox();
    // Two certificates, as a user has them.
    let first = {
        drop(start(&sandbox));
        certificate(&sandbox)
    };
    std::fs::remove_file(sandbox.home().join("server/tls.pem")).unwrap();
    let second = {
        drop(start(&sandbox));
        certificate(&sandbox)
    };
    assert_ne!(first, second);
    let file = sandbox.work().join("cert.pem");
    std::fs::write(&file, &first).unwrap();
    let path = file.to_str().unwrap();
    let words = ["--tls-cert", path, "--tls-key", path];
    let serving = Serving::start_with(&sandbox, &words);
    let answers = |pem: &[u8]| send(&serving, pem, &Request::get("/health")).is_ok();
    assert!(answers(&first) && !answers(&second));
    std::fs::write(&file, "no certificate").unwrap();
    serving.signal(Signal::HUP);
    assert!(answers(&first));
    std::fs::write(&file, &second).unwrap();
    serving.signal(Signal::HUP);
    wait_until("the new certificate is used", || answers(&second));
    assert!(!answers(&first));
}

#[test]
fn wrong_files_are_refused_before_anything_listens() {
    let sandbox = sandbox();
    sandbox.write("wrong.pem", "wrong");
    let words = |cert: &'static str| {
        let files = ["--tls-cert", cert, "--tls-key", "wrong.pem"];
        [&["serve", "--listen", "127.0.0.1:0"][..], &files].concat()
    };
    sandbox
        .segno(&words("wrong.pem"))
        .refused(2, &["wrong.pem", "cannot be used for TLS", "[N0124]"]);
    sandbox
        .segno(&words("absent.pem"))
        .refused(12, &["absent.pem", "[F0201]"]);
    let words = ["serve", "--tls", "self-signed", "--behind-https"];
    sandbox.segno(&words).refused(2, &["--behind-https"]);
    sandbox
        .segno(&["serve", "--tls-cert", "wrong.pem"])
        .refused(2, &["--tls-key"]);
}

#[test]
fn all_addresses_are_served_only_encrypted_and_named() {
    let sandbox = sandbox();
    let words = ["serve", "--listen", "0.0.0.0:0", "--tls", "self-signed"];
    sandbox
        .segno(&words)
        .refused(2, &["every address", "--host NAME"]);
    let words = [&words[..], &["--host", "box.example", "--json"]].concat();
    let mut serving = Serving::of(sandbox.command(&words));
    let pem = certificate(&sandbox);
    let port = serving.address.rsplit_once(':').unwrap().1.to_owned();
    serving.address = format!("127.0.0.1:{port}");
    for (host, status) in [
        (format!("box.example:{port}"), 200),
        (format!("127.0.0.1:{port}"), 200),
        ("box.example".to_owned(), 421),
    ] {
        let request = Request::get("/health").host(&host);
        send(&serving, &pem, &request).unwrap().expect(status);
    }
}
