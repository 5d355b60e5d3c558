//! What the guard refuses, for every route (P13).

use std::io::{BufReader, Write};

use segno_server::access::Scope;
use segno_server::{ENDPOINTS, Endpoint, Method};
use segno_testkit::sandbox::Sandbox;
use serde_json::json;

use super::{Request, Response, Serving, token};
use crate::sandbox;

/// A home with a paused session `chain` and a session `other`, each with a checkpoint.
struct Home {
    sandbox: Sandbox,
    checkpoint: String,
    /// The checkpoint of `other`.
    others: String,
}

impl Home {
    fn new() -> Self {
        let sandbox = sandbox();
        sandbox.scripted_chain(2, 0);
        let spec = sandbox.read("chain.yaml");
        sandbox.write(
            "chain.yaml",
            &format!("{spec}continuity: {{pause: {{after_steps: 1}}}}\n"),
        );
        let create = |name: &str| {
            let words = ["run", "chain.yaml", "--force", "--name", name];
            sandbox.segno(&words).refused(130, &[]);
            let words = ["checkpoint", "create", name, "--json"];
            let taken = sandbox.segno(&words).json();
            taken[0]["checkpoint"].as_str().unwrap().to_owned()
        };
        let (checkpoint, others) = (create("chain"), create("other"));
        Self {
            sandbox,
            checkpoint,
            others,
        }
    }

    /// A request that the route would accept, but for what it is changed to.
    fn request(&self, endpoint: &Endpoint) -> Request {
        let path = endpoint
            .path
            .replace("{session}", "chain")
            .replace("{checkpoint}", &self.checkpoint)
            .replace("{category}", "steps")
            .replace("{section}", "plan")
            .replace("{part}", "errors")
            .replace("{artifact}", "out.txt")
            .replace("{code}", "N0101");
        match endpoint.method {
            Method::Get => Request::get(&path),
            Method::Post => Request::post(&path, &json!({})),
        }
    }

    /// Everything that a request could have changed.
    fn state(&self) -> String {
        let print = |words: &[&str]| self.sandbox.segno(words).expect_success().stdout;
        let files = std::fs::read_dir(self.sandbox.work()).unwrap().flatten();
        let mut files: Vec<_> = files.map(|file| file.file_name()).collect();
        files.sort();
        [
            print(&["logs", "chain", "--json"]),
            print(&["logs", "other", "--json"]),
            print(&["sessions", "list", "--json"]),
            print(&["checkpoint", "list", "chain", "--json"]),
            print(&["checkpoint", "list", "other", "--json"]),
            format!("{files:?}"),
        ]
        .concat()
    }
}

/// A server that must refuse requests.
struct Refusing {
    serving: Serving,
    read: String,
    operate: String,
    admin: String,
}

impl Refusing {
    #[track_caller]
    fn refuses(&self, request: &Request, status: u16, code: &str, what: &str) {
        let answer = self.serving.send(request);
        assert_eq!(answer.status, status, "{what}: {answer:?}");
        let body = answer.json();
        assert_eq!(body["code"], code, "{what}");
        assert_eq!(body["status"], status, "{what}");
        let kind = answer.header("content-type");
        assert_eq!(kind, Some("application/problem+json"));
    }

    /// For all routes, before anything else.
    fn refuses_other_sites(&self, good: &Request, what: &str) {
        self.refuses(&good.clone().host("evil.example"), 421, "N0101", what);
        for (name, value) in [
            ("Origin", "http://evil.example"),
            ("Origin", "null"),
            ("Sec-Fetch-Site", "cross-site"),
        ] {
            self.refuses(&good.clone().header(name, value), 403, "N0101", what);
        }
    }

    fn refuses_other_tokens(&self, bare: &Request, scope: Scope, what: &str) {
        self.refuses(bare, 401, "N0102", what);
        // After many wrong tokens, the next one is refused for their number.
        let wrong = self.serving.send(&bare.clone().token("segno_1_2"));
        assert!(matches!(wrong.status, 401 | 429), "{what}: {wrong:?}");
        let basic = bare.clone().header("Authorization", "Basic YTpi");
        self.refuses(&basic, 401, "N0102", what);
        let small = [(Scope::Read, &self.read), (Scope::Operate, &self.operate)];
        for (_, token) in small.iter().filter(|(small, _)| *small < scope) {
            self.refuses(&bare.clone().token(token), 403, "N0104", what);
        }
    }

    fn refuses_other_bodies(&self, good: &Request, what: &str) {
        for (name, value) in [
            ("Content-Type", "text/plain"),
            ("Content-Type", "application/json; charset=latin1"),
            ("Content-Encoding", "gzip"),
        ] {
            self.refuses(&good.clone().header(name, value), 415, "N0106", what);
        }
        let long = vec![b' '; (1 << 20) + 1];
        self.refuses(&good.clone().body(&long), 413, "N0106", what);
        let deep = "[".repeat(100_000);
        for body in [
            deep.as_bytes(),
            b"{\"surprise\": 1}",
            b"{\"now\": 1, \"now\": 1}",
            b"\xff",
        ] {
            self.refuses(&good.clone().body(body), 400, "N0106", what);
        }
        if what.contains("{session}") {
            let stale = good.clone().header("If-Match", "\"999\"");
            self.refuses(&stale, 412, "N0107", what);
        }
    }

    /// What the path names must exist, and belong together.
    fn refuses_other_names(&self, home: &Home, endpoint: &Endpoint, good: &Request, what: &str) {
        let other = |from: &str, to: &str| {
            let path = good.path().replace(from, to);
            good.clone().at(&path)
        };
        if endpoint.path.contains("{session}") {
            self.refuses(&other("/chain", "/nobody"), 404, "S0101", what);
        }
        if endpoint.path.ends_with("{part}") {
            for absent in [&home.others, "01K0000000000000000000000Z"] {
                let answer = self.serving.send(&other(&home.checkpoint, absent));
                assert_eq!(answer.expect(200).json(), json!([]), "{what}");
            }
        } else if endpoint.path.contains("{checkpoint}") {
            self.refuses(&other(&home.checkpoint, &home.others), 404, "N0105", what);
            let unknown = other(&home.checkpoint, "01K0000000000000000000000Z");
            let answer = self.serving.send(&unknown);
            assert_eq!(answer.status, 404, "{what}: {answer:?}");
        }
        for (last, unknown, status, code) in [
            ("{category}", "/steps", 400, "N0106"),
            ("{section}", "/plan", 400, "N0106"),
            ("{part}", "/errors", 400, "N0106"),
            ("{artifact}", "/out.txt", 404, "N0113"),
        ] {
            if endpoint.path.ends_with(last) {
                self.refuses(&other(unknown, "/nothing"), status, code, what);
            }
        }
    }
}

#[test]
fn every_route_refuses_what_it_must() {
    let home = Home::new();
    let sandbox = &home.sandbox;
    let server = Refusing {
        serving: Serving::start(sandbox),
        read: token(sandbox, "read"),
        operate: token(sandbox, "operate"),
        admin: token(sandbox, "admin"),
    };
    let before = home.state();
    for endpoint in ENDPOINTS {
        let what = format!("{} {}", endpoint.method.as_str(), endpoint.path);
        let bare = home.request(endpoint);
        let good = bare.clone().token(&server.admin);
        server.refuses_other_sites(&good, &what);
        let method = match endpoint.method {
            Method::Get => "DELETE",
            Method::Post => "PUT",
        };
        let other = good.clone().method(method);
        server.refuses(&other, 405, "N0105", &what);
        let Some(scope) = endpoint.scope else {
            continue;
        };
        server.refuses_other_tokens(&bare, scope, &what);
        server.refuses_other_names(&home, endpoint, &good, &what);
        if endpoint.method == Method::Post {
            server.refuses_other_bodies(&good, &what);
        }
    }
    assert_eq!(home.state(), before, "a refused request changed something");
}

#[test]
fn answers_carry_the_headers_that_protect_browsers() {
    let sandbox = sandbox();
    let serving = Serving::start(&sandbox);
    for path in ["/", "/login", "/health", "/nothing"] {
        let answer = serving.send(&Request::get(path));
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
}

#[test]
fn malformed_http_gets_no_answer_from_a_route() {
    let sandbox = sandbox();
    let serving = Serving::start(&sandbox);
    let token = token(&sandbox, "operate");
    let address = &serving.address;
    let raw = |text: String| {
        let mut stream = serving.connect();
        stream.write_all(text.as_bytes()).unwrap();
        Response::read(&mut BufReader::new(stream)).unwrap().status
    };
    let auth = format!("Authorization: Bearer {token}\r\nConnection: close\r\n");
    let get = |path: &str, more: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{more}{auth}\r\n")
    };
    assert_eq!(raw(get("/health", &format!("Host: {address}\r\n"))), 421);
    assert_eq!(raw(format!("GET /health HTTP/1.1\r\n{auth}\r\n")), 421);
    assert_eq!(raw(get("http://evil.example/health", "")), 421);
    assert_eq!(raw(get(&format!("http://{address}/health"), "")), 200);
    let many = "X-More: 1\r\n".repeat(200);
    assert_eq!(raw(get("/health", &many)), 431);
    let twice = format!("Authorization: Bearer {token}\r\n");
    assert_eq!(raw(get("/api/v1/sessions", &twice)), 401);
    assert_eq!(
        raw(get(&format!("/api/v1/sessions?token={token}"), "")),
        400
    );
    for path in [
        "/api/v1/sessions/%2e%2e",
        "/api/v1/sessions/%00",
        "/../etc/passwd",
    ] {
        let status = raw(get(path, ""));
        assert!((400..500).contains(&status), "{path}: {status}");
    }
    let smuggled = format!(
        "POST /api/v1/sessions/x/pause HTTP/1.1\r\nHost: {address}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n{auth}\r\n0\r\n\r\nGET /health HTTP/1.1\r\n\r\n"
    );
    let status = raw(smuggled);
    assert!((400..500).contains(&status), "{status}");
}

#[test]
fn guessing_tokens_is_slowed_down_for_nobody_else() {
    let sandbox = sandbox();
    let serving = Serving::start(&sandbox);
    let good = token(&sandbox, "read");
    let guess = format!("segno_{}_{}", "0".repeat(16), "0".repeat(64));
    let statuses: Vec<u16> = (0..25)
        .map(|_| serving.get(&guess, "/api/v1/sessions").status)
        .collect();
    assert_eq!(statuses[..20], [401; 20]);
    assert_eq!(statuses[20..], [429; 5]);
    let answer = serving.get(&guess, "/api/v1/sessions");
    let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds), "{seconds}");
    serving.get(&good, "/api/v1/sessions").expect(200);
}
