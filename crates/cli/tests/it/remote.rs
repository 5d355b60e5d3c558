//! Checkpoints in a remote: pushed, pulled on a machine that has nothing, and everything that goes
//! wrong in between. The S3 server is a real one.

#![expect(
    clippy::disallowed_methods,
    reason = "the machine is the subject: tests wipe homes and look at files"
)]

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use segno_testkit::bucket::BucketServer;
use segno_testkit::proxy::{Failure, Proxy, Request};
use segno_testkit::sandbox::{ProcessOutput, Sandbox, run_to_end, wait_for_output, wait_until};
use serde_json::Value;

use crate::commands::{self, of_kind};
use crate::sandbox;

const KEY: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

/// A sandbox whose checkpoints are pushed to a bucket.
struct RemoteFixture<'a> {
    sandbox: &'a Sandbox,
    host: String,
}

impl<'a> RemoteFixture<'a> {
    fn new(sandbox: &'a Sandbox, host: &str) -> Self {
        sandbox.configure("[remote]\nurl = \"s3://bucket/team\"\n");
        let host = host.to_owned();
        Self { sandbox, host }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.sandbox.command(words);
        command
            .env("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
            .env("AWS_SECRET_ACCESS_KEY", KEY)
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ENDPOINT_URL", &self.host);
        command
    }

    fn segno(&self, words: &[&str]) -> ProcessOutput {
        run_to_end(self.command(words))
    }

    fn create_checkpoint(&self) -> Value {
        let output = self
            .segno(&["checkpoint", "create", "--json"])
            .expect_success();
        output.json().remove(0)
    }

    fn remote_checkpoints(&self) -> Vec<Value> {
        let output = self.segno(&["checkpoint", "list", "--remote", "--json"]);
        output.expect_success().json()
    }
}

fn id(checkpoint: &Value) -> &str {
    checkpoint["checkpoint"].as_str().unwrap()
}

/// A chain of three steps whose last one fails, in a folder with some files, one of them long.
fn failed_session(fixture: &RemoteFixture<'_>) {
    fixture.sandbox.write("src/main.rs", "fn main() {}\n");
    fixture.sandbox.write(".env", "not in git, and kept\n");
    fixture.sandbox.write("long.txt", &noise(3_000_000));
    commands::failing_chain(fixture.sandbox);
    fixture.segno(&["run", "chain.yaml"]).refused(10, &[]);
}

/// Text that hardly compresses.
fn noise(length: usize) -> String {
    let mut state = 1_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        char::from(b'!' + u8::try_from((state >> 33) % 90).unwrap())
    };
    (0..length).map(|_| next()).collect()
}

fn wipe(sandbox: &Sandbox) {
    fs::remove_dir_all(sandbox.home()).unwrap();
    fs::remove_dir_all(sandbox.work()).unwrap();
    fs::create_dir(sandbox.work()).unwrap();
}

/// Every file below the workspace, with its content.
fn files(sandbox: &Sandbox) -> Vec<(String, Vec<u8>)> {
    let work = sandbox.work();
    let mut files: Vec<_> = commands::tree(&work)
        .into_iter()
        .filter(|path| path.is_file())
        .map(|path| {
            let name = path.strip_prefix(&work).unwrap().display().to_string();
            (name, fs::read(&path).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn a_session_is_rebuilt_from_the_bucket_alone() {
    let server = BucketServer::start();
    let sandbox = sandbox();
    let fixture = RemoteFixture::new(&sandbox, &server.host());
    failed_session(&fixture);
    let before = files(&sandbox);
    let created = fixture.create_checkpoint();
    assert_eq!(created["pushed"], true);
    wipe(&sandbox);
    let fixture = RemoteFixture::new(&sandbox, &server.host());
    let output = fixture
        .segno(&["checkpoint", "pull", "chain", "--json"])
        .expect_success();
    let lines = output.json();
    assert_eq!(of_kind(&lines, "session_created").len(), 1, "{lines:?}");
    assert_eq!(of_kind(&lines, "pulled")[0]["new"], 1);
    // A pulled checkpoint verifies, and restoring it needs `--trust` because it comes from
    // elsewhere.
    fixture
        .segno(&["checkpoint", "verify", id(&created)])
        .expect_success();
    let restore = ["checkpoint", "restore", id(&created)];
    fixture.segno(&restore).refused(2, &["K0205", "--trust"]);
    fixture
        .segno(&[&restore[..], &["--trust"]].concat())
        .expect_success();
    assert_eq!(files(&sandbox), before);
    commands::fix_answers(&sandbox);
    fixture.segno(&["resume"]).expect_success();
    assert_eq!(
        sandbox.calls(),
        ["steps/0", "steps/1", "steps/2", "steps/2"],
        "no finished step was repeated"
    );
    let again = fixture
        .segno(&["checkpoint", "pull", "--all", "--json"])
        .expect_success();
    let lines = again.json();
    assert_eq!(of_kind(&lines, "pulled")[0]["objects"], 0, "{lines:?}");
    assert_eq!(of_kind(&lines, "session_exists")[0]["relation"], "ahead");
}

#[test]
fn push_sends_only_new_packs_and_workflow_checkpoints() {
    let server = BucketServer::start();
    let sandbox = sandbox();
    let fixture = RemoteFixture::new(&sandbox, &server.host());
    failed_session(&fixture);
    fixture.create_checkpoint();
    let before = server.names("team/packs/").len();
    sandbox.write("more.txt", "more\n");
    fixture.create_checkpoint();
    let output = fixture
        .segno(&["checkpoint", "push", "--all"])
        .expect_success();
    assert!(
        output
            .stdout
            .contains("everything is already in the remote"),
        "{}",
        output.stdout
    );
    assert_eq!(
        server.names("team/packs/").len(),
        before + 1,
        "the long file is there once"
    );
    commands::fix_answers(&sandbox);
    let spec = sandbox.read("chain.yaml") + "continuity: {checkpoint: {on: [complete]}}\n";
    sandbox.write("chain.yaml", &spec);
    fixture.segno(&["resume"]).expect_success();
    let triggers: Vec<Value> = fixture
        .remote_checkpoints()
        .iter()
        .map(|line| line["trigger"].clone())
        .collect();
    assert_eq!(triggers, ["complete", "manual", "manual"]);
}

#[test]
fn unsent_checkpoint_is_stored_and_sent_with_the_next() {
    let server = BucketServer::start();
    let sandbox = sandbox();
    let fixture = RemoteFixture::new(&sandbox, "http://127.0.0.1:1");
    failed_session(&fixture);
    let words = ["checkpoint", "create"];
    let output = fixture
        .segno(&words)
        .refused(12, &["stored here, not pushed", "[K0301]", "push --all"]);
    assert!(
        output.stdout.starts_with("created checkpoint "),
        "{}",
        output.stdout
    );
    let fixture = RemoteFixture::new(&sandbox, &server.host());
    fixture.create_checkpoint();
    assert_eq!(fixture.remote_checkpoints().len(), 2);
}

#[test]
fn workflow_runs_while_its_remote_is_unreachable() {
    let sandbox = sandbox();
    let fixture = RemoteFixture::new(&sandbox, "http://127.0.0.1:1");
    commands::failing_chain(&sandbox);
    commands::fix_answers(&sandbox);
    let spec = sandbox.read("chain.yaml") + "continuity: {checkpoint: {on: [complete]}}\n";
    sandbox.write("chain.yaml", &spec);
    let output = fixture.segno(&["run", "chain.yaml"]).expect_success();
    let warning = "checkpoints are stored locally, but were not pushed: remote s3://bucket/team cannot be used";
    assert!(output.stderr.contains(warning), "{}", output.stderr);
    let listed = fixture
        .segno(&["checkpoint", "list", "--json"])
        .expect_success();
    assert_eq!(listed.json().len(), 1);
}

#[test]
fn pull_keeps_the_local_session_and_reports_a_newer_one() {
    let server = BucketServer::start();
    let sandbox = sandbox();
    let fixture = RemoteFixture::new(&sandbox, &server.host());
    failed_session(&fixture);
    let (home, other) = (sandbox.home(), sandbox.home().with_extension("other"));
    let copied = Command::new("cp").arg("-a").args([&home, &other]).status();
    assert!(copied.unwrap().success());
    commands::fix_answers(&sandbox);
    fixture.segno(&["resume"]).expect_success();
    fixture.create_checkpoint();
    fs::remove_dir_all(&home).unwrap();
    fs::rename(&other, &home).unwrap();
    let output = fixture
        .segno(&["checkpoint", "pull", "--all"])
        .expect_success();
    assert!(output.stderr.contains("is unchanged"), "{}", output.stderr);
    assert!(output.stderr.contains("--permanent"), "{}", output.stderr);
    let expected = |status: &str| vec![("chain".to_owned(), status.to_owned())];
    assert_eq!(commands::session_statuses(&sandbox), expected("failed"));
    fixture
        .segno(&["sessions", "delete", "chain", "--permanent", "--yes"])
        .expect_success();
    fixture
        .segno(&["checkpoint", "pull", "--all"])
        .expect_success();
    assert_eq!(commands::session_statuses(&sandbox), expected("completed"));
}

#[test]
fn large_checkpoint_prints_a_hint() {
    let sandbox = sandbox();
    commands::failing_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    let noise = fs::File::open("/dev/urandom").unwrap();
    let mut long = fs::File::create(sandbox.work().join("long")).unwrap();
    std::io::copy(&mut noise.take(101 * 1024 * 1024), &mut long).unwrap();
    let output = sandbox.segno(&["checkpoint", "create"]).expect_success();
    assert!(
        output.stderr.contains("hint: 101.0 MB are new"),
        "{}",
        output.stderr
    );
}

#[test]
fn above_mb_keeps_small_checkpoints_local() {
    let server = BucketServer::start();
    let sandbox = sandbox();
    let fixture = RemoteFixture::new(&sandbox, &server.host());
    sandbox.configure("[remote]\nurl = \"s3://bucket/team\"\nabove_mb = 2\n");
    commands::failing_chain(&sandbox);
    fixture.segno(&["run", "chain.yaml"]).refused(10, &[]);
    let small = fixture.create_checkpoint();
    assert_eq!(small["pushed"], false);
    sandbox.write("long.txt", &noise(3_000_000));
    assert_eq!(fixture.create_checkpoint()["pushed"], true);
    assert_eq!(fixture.remote_checkpoints().len(), 1);
    fixture
        .segno(&["checkpoint", "push", id(&small)])
        .expect_success();
    assert_eq!(
        fixture.remote_checkpoints().len(),
        2,
        "who asks for it gets it"
    );
}

/// Kills a push at each of its requests: the bucket lists no incomplete checkpoint, and the next
/// push completes it.
#[test]
fn killed_push_is_completed_by_the_next() {
    let server = BucketServer::start();
    let sandbox = sandbox();
    sandbox.configure("");
    commands::failing_chain(&sandbox);
    sandbox.write("long.txt", &noise(3_000_000));
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    let output = sandbox
        .segno(&["checkpoint", "create", "--json"])
        .expect_success();
    let created = output.json().remove(0);
    let mut kills = 0;
    loop {
        let proxy = Proxy::start(server.address(), move |n, _| {
            if n == kills {
                Failure::Stalled
            } else {
                Failure::None
            }
        });
        let fixture = RemoteFixture::new(&sandbox, &proxy.host());
        let url = format!("[remote]\nurl = \"s3://bucket/k{kills}\"\n");
        sandbox.configure(&url);
        let mut child = fixture
            .command(&["checkpoint", "push", "--all"])
            .spawn()
            .unwrap();
        let mut is_over = false;
        wait_until("it stands still or is done", || {
            is_over = child.try_wait().unwrap().is_some();
            is_over || proxy.requests().len() > kills
        });
        child.kill().unwrap();
        child.wait().unwrap();
        drop(proxy);
        let fixture = RemoteFixture {
            sandbox: &sandbox,
            host: server.host(),
        };
        let announcements = server.names(&format!("k{kills}/checkpoints/"));
        if !announcements.is_empty() {
            assert_complete(&fixture, &server, &format!("k{kills}"));
        }
        fixture
            .segno(&["checkpoint", "push", id(&created)])
            .expect_success();
        assert_complete(&fixture, &server, &format!("k{kills}"));
        if is_over {
            break;
        }
        kills += 1;
    }
    assert!(kills >= 10, "{kills} kills");
}

/// Kills a pull at each of its requests: the home lists no incomplete checkpoint, and the next pull
/// completes it.
#[test]
fn killed_pull_is_completed_by_the_next() {
    let server = BucketServer::start();
    let sandbox = sandbox();
    let fixture = RemoteFixture::new(&sandbox, &server.host());
    failed_session(&fixture);
    let created = fixture.create_checkpoint();
    let mut kills = 0;
    loop {
        wipe(&sandbox);
        let proxy = Proxy::start(server.address(), move |n, _| {
            if n == kills {
                Failure::Stalled
            } else {
                Failure::None
            }
        });
        let fixture = RemoteFixture::new(&sandbox, &proxy.host());
        let mut child = fixture
            .command(&["checkpoint", "pull", "--all"])
            .spawn()
            .unwrap();
        let mut is_over = false;
        wait_until("it stands still or is done", || {
            is_over = child.try_wait().unwrap().is_some();
            is_over || proxy.requests().len() > kills
        });
        child.kill().unwrap();
        child.wait().unwrap();
        let fixture = RemoteFixture::new(&sandbox, &server.host());
        if !is_over {
            assert!(
                commands::session_statuses(&sandbox).is_empty(),
                "kill {kills}"
            );
            let listed = fixture.segno(&["checkpoint", "list", "--all", "--json"]);
            assert!(listed.expect_success().json().is_empty(), "kill {kills}");
        }
        fixture
            .segno(&["checkpoint", "pull", "--all"])
            .expect_success();
        fixture
            .segno(&["checkpoint", "verify", id(&created)])
            .expect_success();
        assert_eq!(commands::session_statuses(&sandbox).len(), 1);
        if is_over {
            break;
        }
        kills += 1;
    }
    assert!(kills >= 5, "{kills} kills");
}

/// Asserts that every object that the announcement names is in the bucket.
fn assert_complete(fixture: &RemoteFixture<'_>, server: &BucketServer, prefix: &str) {
    assert_eq!(fixture.remote_checkpoints().len(), 1);
    let announcement = server.get(&server.names(&format!("{prefix}/checkpoints/"))[0]);
    let announcement = String::from_utf8(announcement).unwrap();
    let announcement: Value = serde_json::from_str(announcement.lines().next().unwrap()).unwrap();
    let there = server.names(&format!("{prefix}/"));
    for part in announcement["parts"].as_array().unwrap() {
        let name = part["name"].as_str().unwrap();
        assert!(
            there.iter().any(|object| object.contains(name)),
            "{name} in {there:?}"
        );
    }
}

#[test]
fn concurrent_pushes_do_not_conflict() {
    let server = BucketServer::start();
    let sandbox = sandbox();
    let fixture = RemoteFixture::new(&sandbox, "http://127.0.0.1:1");
    failed_session(&fixture);
    fixture.segno(&["checkpoint", "create"]).refused(12, &[]);
    let fixture = RemoteFixture::new(&sandbox, &server.host());
    let both = [(), ()].map(|()| {
        let mut command = fixture.command(&["checkpoint", "push", "--all"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    });
    both.into_iter()
        .for_each(|child| drop(wait_for_output(child).expect_success()));
    assert_complete(&fixture, &server, "team");
    wipe(&sandbox);
    let fixture = RemoteFixture::new(&sandbox, &server.host());
    fixture
        .segno(&["checkpoint", "pull", "--all"])
        .expect_success();
}

#[test]
fn every_damaged_object_is_named_and_not_stored() {
    let server = BucketServer::start();
    let sandbox = sandbox();
    let fixture = RemoteFixture::new(&sandbox, &server.host());
    failed_session(&fixture);
    let created = fixture.create_checkpoint();
    let objects = server.names("team/");
    assert!(objects.len() >= 5, "{objects:?}");
    for object in &objects {
        let good = server.get(object);
        for position in [0, good.len() / 2, good.len() - 1] {
            let mut bad = good.clone();
            bad[position] ^= 1;
            server.put(object, &bad);
            wipe(&sandbox);
            let fixture = RemoteFixture::new(&sandbox, &server.host());
            let name = object.strip_prefix("team/").unwrap();
            fixture
                .segno(&["checkpoint", "pull", "--all"])
                .refused(23, &[name, "is damaged", "[K0305]"]);
            let listed = fixture
                .segno(&["checkpoint", "list", "--all", "--json"])
                .expect_success();
            assert!(listed.json().is_empty(), "{object} {position}");
            assert!(
                commands::session_statuses(&sandbox).is_empty(),
                "{object} {position}"
            );
        }
        server.put(object, &good[..good.len() - 1]);
        let fixture = RemoteFixture::new(&sandbox, &server.host());
        fixture
            .segno(&["checkpoint", "pull", "--all"])
            .refused(23, &["is damaged"]);
        server.put(object, &good);
        // The next pull uses what was fetched meanwhile.
        fixture
            .segno(&["checkpoint", "pull", "--all"])
            .expect_success();
        fixture
            .segno(&["checkpoint", "verify", id(&created)])
            .expect_success();
    }
    for object in &objects {
        let good = server.get(object);
        if object.contains("/checkpoints/") {
            continue;
        }
        server.delete(object);
        wipe(&sandbox);
        let fixture = RemoteFixture::new(&sandbox, &server.host());
        fixture
            .segno(&["checkpoint", "pull", "--all"])
            .refused(17, &["has no ", "[K0304]"]);
        server.put(object, &good);
    }
}

#[test]
fn gc_deletes_unreferenced_packs_after_the_grace_period() {
    let server = BucketServer::start();
    let sandbox = sandbox();
    let fixture = RemoteFixture::new(&sandbox, &server.host());
    failed_session(&fixture);
    fixture.create_checkpoint();
    // In its own pack, which only the second checkpoint needs.
    sandbox.write("passing.txt", &noise(2_000_000).replace('a', "bc"));
    fixture.create_checkpoint();
    fs::remove_file(sandbox.work().join("passing.txt")).unwrap();
    fixture.create_checkpoint();
    let all = server.names("team/packs/").len();
    fixture
        .segno(&["checkpoint", "prune", "--keep", "1", "--max-age-days", "0"])
        .expect_success();
    assert_eq!(
        fixture.remote_checkpoints().len(),
        3,
        "they can be had back"
    );
    sandbox.configure("[remote]\nurl = \"s3://bucket/team\"\n[trash]\nkeep_days = 0\n");
    fixture.segno(&["doctor", "--gc"]).expect_success();
    assert_eq!(
        fixture.remote_checkpoints().len(),
        1,
        "their letters went with them"
    );
    let gc = |hours: &str| {
        let output = fixture
            .segno(&["doctor", "--gc", "--grace-hours", hours, "--json"])
            .expect_success();
        output.json().remove(0)["remote"].clone()
    };
    assert_eq!(gc("24")["deleted"], 0);
    assert!(gc("24")["waiting"].as_u64().unwrap() > 0);
    assert_eq!(server.names("team/packs/").len(), all);
    let swept = gc("0");
    assert!(swept["deleted"].as_u64().unwrap() > 0, "{swept}");
    assert!(server.names("team/packs/").len() < all);
    assert_eq!(gc("0")["waiting"], 0);
    assert!(server.names("team/trash/").is_empty());
    wipe(&sandbox);
    let fixture = RemoteFixture::new(&sandbox, &server.host());
    fixture
        .segno(&["checkpoint", "pull", "--all"])
        .expect_success();
}

#[test]
fn push_rescues_parts_that_gc_marked_for_deletion() {
    let server = BucketServer::start();
    let sandbox = sandbox();
    let fixture = RemoteFixture::new(&sandbox, &server.host());
    failed_session(&fixture);
    let created = fixture.create_checkpoint();
    let announcement = server.names("team/checkpoints/").remove(0);
    server.delete(&announcement);
    let gc = |hours: &str| {
        fixture
            .segno(&["doctor", "--gc", "--grace-hours", hours])
            .expect_success()
    };
    gc("24");
    assert!(!server.names("team/trash/").is_empty());
    fixture
        .segno(&["checkpoint", "push", id(&created)])
        .expect_success();
    assert!(server.names("team/trash/").is_empty());
    gc("0");
    gc("0");
    assert_complete(&fixture, &server, "team");
}

/// Two gc runs without a grace period come between the last part and the announcement: they find no
/// checkpoint that needs the parts, and delete all of them.
#[test]
fn push_resends_parts_that_gc_deleted_meanwhile() {
    let server = BucketServer::start();
    let sandbox = sandbox();
    let fixture = RemoteFixture::new(&sandbox, "http://127.0.0.1:1");
    failed_session(&fixture);
    fixture.segno(&["checkpoint", "create"]).refused(12, &[]);
    let (go, wait_for_it) = std::sync::mpsc::channel();
    let wait_for_it = std::sync::Mutex::new(wait_for_it);
    let proxy = Proxy::start(server.address(), move |_, request| {
        if request.method == "PUT" && request.path.contains("/checkpoints/") {
            let _ = wait_for_it.lock().unwrap().recv();
        }
        Failure::None
    });
    let fixture = RemoteFixture::new(&sandbox, &proxy.host());
    let mut push = fixture.command(&["checkpoint", "push", "--all"]);
    push.stdout(Stdio::piped()).stderr(Stdio::piped());
    let push = push.spawn().unwrap();
    wait_until("the letter is on its way", || {
        let is_announcement =
            |request: &Request| request.method == "PUT" && request.path.contains("/checkpoints/");
        proxy.requests().iter().any(is_announcement)
    });
    let direct = RemoteFixture::new(&sandbox, &server.host());
    for _ in 0..2 {
        direct
            .segno(&["doctor", "--gc", "--grace-hours", "0"])
            .expect_success();
    }
    assert!(server.names("team/packs/").is_empty());
    go.send(()).unwrap();
    wait_for_output(push).expect_success();
    assert_complete(&direct, &server, "team");
    wipe(&sandbox);
    let direct = RemoteFixture::new(&sandbox, &server.host());
    direct
        .segno(&["checkpoint", "pull", "--all"])
        .expect_success();
}

#[test]
fn unreadable_announcement_stops_gc() {
    let server = BucketServer::start();
    let sandbox = sandbox();
    let fixture = RemoteFixture::new(&sandbox, &server.host());
    failed_session(&fixture);
    let created = fixture.create_checkpoint();
    let announcement = server.names("team/checkpoints/").remove(0);
    let before = server.names("team/").len();
    server.put(&announcement, b"{}\n");
    for _ in 0..2 {
        let name = announcement.strip_prefix("team/").unwrap();
        fixture
            .segno(&["doctor", "--gc", "--grace-hours", "0"])
            .refused(23, &[name, "[K0305]"]);
    }
    assert_eq!(server.names("team/").len(), before);
    fixture
        .segno(&["checkpoint", "push", id(&created)])
        .expect_success();
    fixture
        .segno(&["doctor", "--gc", "--grace-hours", "0"])
        .expect_success();
    assert_complete(&fixture, &server, "team");
}

#[test]
fn every_remote_error_is_reported() {
    let server = BucketServer::start();
    let sandbox = sandbox();
    let words = ["checkpoint", "pull", "--all"];
    sandbox
        .segno(&words)
        .refused(2, &["no remote is configured", "[K0309]"]);
    let fixture = RemoteFixture::new(&sandbox, &server.host());
    let output = fixture
        .segno(&["checkpoint", "list", "--remote"])
        .expect_success();
    assert!(
        output.stdout.contains("no checkpoints in the remote"),
        "{}",
        output.stdout
    );
    let output = fixture.segno(&["doctor", "--remote"]).expect_success();
    assert!(
        output
            .stdout
            .contains("the remote responds, and has 0 checkpoints"),
        "{}",
        output.stdout
    );
    fixture
        .segno(&["checkpoint", "pull", "report"])
        .refused(17, &["`report`", "[K0310]", "--remote"]);
    sandbox.configure("[remote]\nurl = \"s3://nowhere\"\n");
    fixture
        .segno(&words)
        .refused(17, &["s3://nowhere does not exist", "[K0303]"]);
    sandbox.configure("[remote]\nurl = \"file:///not/there\"\n");
    fixture
        .segno(&words)
        .refused(17, &["[K0303]", "mkdir -m 700 /not/there"]);
    sandbox.configure("[remote]\nurl = \"https://a.b/c\"\n");
    fixture
        .segno(&words)
        .refused(2, &["is not the URL of a remote", "[K0306]"]);
    sandbox.configure("[remote]\nurl = 7\n");
    fixture
        .segno(&words)
        .refused(2, &["`remote.url` must be a string", "[C0102]"]);
    let strict = BucketServer::requiring_known_keys();
    let fixture = RemoteFixture::new(&sandbox, &strict.host());
    let output = fixture
        .segno(&words)
        .refused(12, &["denies access", "[K0302]", "AWS_ACCESS_KEY_ID"]);
    assert!(!output.stderr.contains(KEY), "{}", output.stderr);
}

#[test]
fn folder_works_as_a_remote() {
    let sandbox = sandbox();
    let share = sandbox.work().parent().unwrap().join("share");
    fs::create_dir(&share).unwrap();
    let fixture = RemoteFixture::new(&sandbox, "");
    let url = format!("[remote]\nurl = \"file://{}\"\n", share.display());
    sandbox.configure(&url);
    failed_session(&fixture);
    let before = files(&sandbox);
    let created = fixture.create_checkpoint();
    wipe(&sandbox);
    sandbox.configure(&url);
    fixture
        .segno(&["checkpoint", "pull", "--all"])
        .expect_success();
    fixture
        .segno(&["checkpoint", "restore", id(&created), "--trust"])
        .expect_success();
    assert_eq!(files(&sandbox), before);
}

fn all_objects(server: &BucketServer) -> Vec<(String, Vec<u8>)> {
    let names = server.names("team/");
    names
        .into_iter()
        .map(|name| (name.clone(), server.get(&name)))
        .collect()
}

#[test]
fn encrypted_remote_is_readable_only_with_the_key() {
    let server = BucketServer::start();
    let sandbox = sandbox();
    let key = sandbox.work().parent().unwrap().join("the key");
    let words = ["config", "key", "new", key.to_str().unwrap()];
    sandbox.segno(&words).expect_success();
    let fixture = RemoteFixture::new(&sandbox, &server.host());
    let remote = "[remote]\nurl = \"s3://bucket/team\"\n";
    let with_key = format!("{remote}[encryption]\nkey_file = {:?}\n", key.display());
    sandbox.configure(&with_key);
    sandbox.write("nobody-should-see-this-name.txt", "nor this text\n");
    failed_session(&fixture);
    // Several generations, so that some packs hold deltas against others.
    let mut text = "a line that stays the same\n".repeat(2000);
    for round in 0..3 {
        text = format!("{text}round {round}\n");
        sandbox.write("growing.txt", &text);
        fixture.create_checkpoint();
    }
    let before = files(&sandbox);
    let created = fixture.create_checkpoint();
    for (name, bytes) in all_objects(&server) {
        assert!(bytes.starts_with(b"SEGNOSF1"), "{name}");
    }
    wipe(&sandbox);
    let fixture = RemoteFixture::new(&sandbox, &server.host());
    fixture
        .segno(&["checkpoint", "pull", "--all"])
        .refused(12, &["K0302", "no key is set"]);
    sandbox.configure(&with_key);
    fixture
        .segno(&["checkpoint", "pull", "--all"])
        .expect_success();
    fixture.segno(&["checkpoint", "verify"]).expect_success();
    fixture
        .segno(&["checkpoint", "restore", id(&created), "--trust"])
        .expect_success();
    assert_eq!(files(&sandbox), before);
}
