//! Tokens, and browsers that log in.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use segno_testkit::sandbox::Sandbox;
use serde_json::json;

use super::{Request, Serving, token};
use crate::sandbox;

fn login_code(sandbox: &Sandbox, more: &[&str]) -> String {
    let words = [&["open", "--json"], more].concat();
    let line = sandbox.segno(&words).expect_success().json().remove(0);
    let url = line["url"].as_str().unwrap().to_owned();
    let (_, code) = url.split_once("/login?code=").unwrap();
    code.to_owned()
}

fn log_in(serving: &Serving, code: &str) -> super::Response {
    let form = format!("code={code}");
    let request = Request::new("POST", "/login")
        .header("Content-Type", "application/x-www-form-urlencoded")
        .header("Origin", &format!("http://{}", serving.address))
        .body(form.as_bytes());
    serving.send(&request)
}

#[test]
fn login_code_works_once_and_a_preview_does_not_use_it() {
    let sandbox = sandbox();
    let serving = Serving::start(&sandbox);
    let code = login_code(&sandbox, &[]);
    let page = serving.send(&Request::get(&format!("/login?code={code}")));
    assert!(page.expect(200).body.contains(&code));
    let answer = log_in(&serving, &code).expect(303);
    assert_eq!(answer.header("location"), Some("/"));
    let cookie = answer.header("set-cookie").unwrap().to_owned();
    for word in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=2592000"] {
        assert!(cookie.contains(word), "{cookie}");
    }
    let cookie = cookie.split(';').next().unwrap();
    let list = Request::get("/api/v1/sessions").header("Cookie", cookie);
    serving.send(&list).expect(200);
    assert_eq!(log_in(&serving, &code).expect(401).json()["code"], "N0102");
}

#[test]
fn cookie_changes_nothing_without_the_origin_of_the_page() {
    let sandbox = sandbox();
    let serving = Serving::start(&sandbox);
    let answer = log_in(&serving, &login_code(&sandbox, &[])).expect(303);
    let cookie = answer.header("set-cookie").unwrap();
    let cookie = cookie.split(';').next().unwrap();
    let pause = Request::post("/api/v1/sessions/x/pause", &json!({})).header("Cookie", cookie);
    assert_eq!(serving.send(&pause).expect(403).json()["code"], "N0101");
    let own = pause.header("Origin", &format!("http://{}", serving.address));
    assert_eq!(serving.send(&own).expect(404).json()["code"], "S0101");
}

#[test]
fn browser_gets_the_scope_that_was_asked_for() {
    let sandbox = sandbox();
    let serving = Serving::start(&sandbox);
    let code = login_code(&sandbox, &["--scope", "read"]);
    let answer = log_in(&serving, &code).expect(303);
    let cookie = answer.header("set-cookie").unwrap();
    let cookie = cookie.split(';').next().unwrap();
    let pause = Request::post("/api/v1/sessions/x/pause", &json!({}))
        .header("Cookie", cookie)
        .header("Origin", &format!("http://{}", serving.address));
    assert_eq!(serving.send(&pause).expect(403).json()["code"], "N0104");
}

#[test]
fn hostile_code_in_the_address_stays_text() {
    let sandbox = sandbox();
    let serving = Serving::start(&sandbox);
    let page = serving.send(&Request::get(
        "/login?code=%22%3E%3Cscript%3Ealert(1)%3C/script%3E",
    ));
    let body = page.expect(200).body;
    assert!(!body.contains("<script>"), "{body}");
    assert!(body.contains("&quot;&gt;&lt;script&gt;"), "{body}");
}

#[test]
fn revoked_and_expired_tokens_are_refused_at_once() {
    let sandbox = sandbox();
    let serving = Serving::start(&sandbox);
    let token = token(&sandbox, "read");
    serving.get(&token, "/api/v1/sessions").expect(200);
    sandbox
        .segno(&["token", "revoke", "test-read"])
        .expect_success();
    serving.get(&token, "/api/v1/sessions").expect(401);
    sandbox
        .segno(&["token", "revoke", "test-read"])
        .refused(17, &["there is no token `test-read`", "[N0108]"]);
    let words = ["token", "create", "short", "--days", "1"];
    let short = sandbox.segno(&words).expect_success();
    let short = short.stdout.trim();
    serving.get(short, "/api/v1/sessions").expect(200);
    let mut file = token_files(&sandbox).into_iter();
    let file = file.find(|path| read(path).contains("short")).unwrap();
    write(&file, &expire(&read(&file)));
    serving.get(short, "/api/v1/sessions").expect(401);
}

/// The record with an end in the past.
fn expire(record: &str) -> String {
    let mut record: serde_json::Value = serde_json::from_str(record).unwrap();
    record["expires_at_ms"] = 1.into();
    record.to_string()
}

#[expect(clippy::disallowed_methods, reason = "tests use files as others do")]
fn write(path: &Path, content: &str) {
    fs::write(path, content).unwrap();
}

#[expect(clippy::disallowed_methods, reason = "tests use files as others do")]
fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

fn token_files(sandbox: &Sandbox) -> Vec<std::path::PathBuf> {
    let folder = sandbox.home().join("server/tokens");
    let files = fs::read_dir(folder).unwrap();
    files.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn no_token_is_on_disk_and_all_files_are_private() {
    let sandbox = sandbox();
    let serving = Serving::start(&sandbox);
    let token = token(&sandbox, "admin");
    let code = login_code(&sandbox, &[]);
    log_in(&serving, &login_code(&sandbox, &[])).expect(303);
    let secret = token.rsplit('_').next().unwrap();
    let mut folders = vec![sandbox.home().join("server")];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        let mode = fs::metadata(&folder).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o700, "{}", folder.display());
        for entry in fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            let path = entry.path();
            let kind = entry.file_type().unwrap();
            let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o077;
            if kind.is_dir() {
                folders.push(path);
                continue;
            }
            if !kind.is_file() {
                continue;
            }
            assert_eq!(mode, 0, "{}", path.display());
            let name = path.display().to_string();
            let content = read(&path);
            for hidden in [secret, code.as_str()] {
                assert!(
                    !content.contains(hidden) && !name.contains(hidden),
                    "{name}"
                );
            }
            files += 1;
        }
    }
    // Two tokens, a code, the lock, the address and the audit log.
    assert_eq!(files, 6);
}

#[test]
fn token_names_are_unique_and_plain() {
    let sandbox = sandbox();
    token(&sandbox, "read");
    sandbox
        .segno(&["token", "create", "test-read"])
        .refused(17, &["the name `test-read` is taken", "[N0108]"]);
    sandbox
        .segno(&["token", "create", "a\u{1b}[31m"])
        .refused(2, &["without control characters", "[N0108]"]);
    let list = sandbox.segno(&["token", "list", "--json"]).expect_success();
    let list = list.json();
    assert_eq!(list.len(), 1);
    assert_eq!(list[0]["scope"], "read");
    assert!(!list[0].to_string().contains("segno_"));
}
