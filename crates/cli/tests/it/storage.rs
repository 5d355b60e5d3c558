//! Checkpoints in a storage elsewhere: sent, fetched on a machine that has nothing, and everything
//! that goes wrong in between. The server of S3 is a real one.

#![expect(
    clippy::disallowed_methods,
    reason = "the machine is the subject: tests wipe homes and look at files"
)]

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use segno_testkit::bucket::BucketServer;
use segno_testkit::proxy::{Mishap, Proxy, Request};
use segno_testkit::sandbox::{Said, Sandbox, finish, until, wait};
use serde_json::Value;

use crate::commands::{self, of_kind};
use crate::sandbox;

const KEY: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

/// A sandbox whose checkpoints go to a bucket.
struct Far<'a> {
    sandbox: &'a Sandbox,
    host: String,
}

impl<'a> Far<'a> {
    fn new(sandbox: &'a Sandbox, host: &str) -> Self {
        sandbox.configure("[storage]\nurl = \"s3://bucket/team\"\n");
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

    fn segno(&self, words: &[&str]) -> Said {
        finish(self.command(words))
    }

    fn take(&self) -> Value {
        let said = self.segno(&["checkpoint", "create", "--json"]).good();
        said.json().remove(0)
    }

    fn stored(&self) -> Vec<Value> {
        let said = self.segno(&["checkpoint", "list", "--remote", "--json"]);
        said.good().json()
    }
}

fn id(checkpoint: &Value) -> &str {
    checkpoint["checkpoint"].as_str().unwrap()
}

/// A chain of three steps whose last one fails, in a folder with some files, one of them long.
fn failed_session(far: &Far<'_>) {
    far.sandbox.write("src/main.rs", "fn main() {}\n");
    far.sandbox.write(".env", "not in git, and kept\n");
    far.sandbox.write("long.txt", &noise(3_000_000));
    commands::failing_chain(far.sandbox);
    far.segno(&["run", "chain.yaml"]).refused(10, &[]);
}

/// Text that does not shrink much.
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
    let far = Far::new(&sandbox, &server.host());
    failed_session(&far);
    let before = files(&sandbox);
    let taken = far.take();
    assert_eq!(taken["sent"], true);
    wipe(&sandbox);
    let far = Far::new(&sandbox, &server.host());
    let said = far.segno(&["checkpoint", "pull", "chain", "--json"]).good();
    let lines = said.json();
    assert_eq!(of_kind(&lines, "session_made").len(), 1, "{lines:?}");
    assert_eq!(of_kind(&lines, "fetched")[0]["new"], 1);
    // What was fetched is checked, and comes from elsewhere.
    far.segno(&["checkpoint", "verify", id(&taken)]).good();
    let restore = ["checkpoint", "restore", id(&taken)];
    far.segno(&restore).refused(2, &["K0205", "--trust"]);
    far.segno(&[&restore[..], &["--trust"]].concat()).good();
    assert_eq!(files(&sandbox), before);
    commands::mend(&sandbox);
    far.segno(&["resume"]).good();
    assert_eq!(
        sandbox.calls(),
        ["steps/0", "steps/1", "steps/2", "steps/2"],
        "no finished step was repeated"
    );
    let again = far.segno(&["checkpoint", "pull", "--all", "--json"]).good();
    let lines = again.json();
    assert_eq!(of_kind(&lines, "fetched")[0]["objects"], 0, "{lines:?}");
    assert_eq!(of_kind(&lines, "session_stays")[0]["relation"], "ahead");
}

#[test]
fn only_what_is_new_is_sent_and_all_that_a_workflow_keeps() {
    let server = BucketServer::start();
    let sandbox = sandbox();
    let far = Far::new(&sandbox, &server.host());
    failed_session(&far);
    far.take();
    let before = server.names("team/packs/").len();
    sandbox.write("more.txt", "more\n");
    far.take();
    let said = far.segno(&["checkpoint", "push", "--all"]).good();
    assert!(
        said.stdout.contains("everything was sent before"),
        "{}",
        said.stdout
    );
    assert_eq!(
        server.names("team/packs/").len(),
        before + 1,
        "the long file is there once"
    );
    commands::mend(&sandbox);
    let spec = sandbox.read("chain.yaml") + "continuity: {checkpoint: {on: [complete]}}\n";
    sandbox.write("chain.yaml", &spec);
    far.segno(&["resume"]).good();
    let triggers: Vec<Value> = far
        .stored()
        .iter()
        .map(|line| line["trigger"].clone())
        .collect();
    assert_eq!(triggers, ["complete", "manual", "manual"]);
}

#[test]
fn a_checkpoint_that_cannot_be_sent_is_kept_and_sent_with_the_next() {
    let server = BucketServer::start();
    let sandbox = sandbox();
    let far = Far::new(&sandbox, "http://127.0.0.1:1");
    failed_session(&far);
    let words = ["checkpoint", "create"];
    let said = far
        .segno(&words)
        .refused(12, &["kept here, not sent", "[K0301]", "push --all"]);
    assert!(said.stdout.starts_with("kept chain as "), "{}", said.stdout);
    let far = Far::new(&sandbox, &server.host());
    far.take();
    assert_eq!(far.stored().len(), 2);
}

#[test]
fn a_workflow_goes_on_without_its_storage() {
    let sandbox = sandbox();
    let far = Far::new(&sandbox, "http://127.0.0.1:1");
    commands::failing_chain(&sandbox);
    commands::mend(&sandbox);
    let spec = sandbox.read("chain.yaml") + "continuity: {checkpoint: {on: [complete]}}\n";
    sandbox.write("chain.yaml", &spec);
    let said = far.segno(&["run", "chain.yaml"]).good();
    let told = "checkpoints are kept here, and not sent: storage s3://bucket/team cannot be used";
    assert!(said.stderr.contains(told), "{}", said.stderr);
    let kept = far.segno(&["checkpoint", "list", "--json"]).good();
    assert_eq!(kept.json().len(), 1);
}

#[test]
fn a_session_that_is_here_stays_as_it_is_and_what_was_sent_beyond_it_is_told() {
    let server = BucketServer::start();
    let sandbox = sandbox();
    let far = Far::new(&sandbox, &server.host());
    failed_session(&far);
    let (home, other) = (sandbox.home(), sandbox.home().with_extension("other"));
    let copied = Command::new("cp").arg("-a").args([&home, &other]).status();
    assert!(copied.unwrap().success());
    commands::mend(&sandbox);
    far.segno(&["resume"]).good();
    far.take();
    fs::remove_dir_all(&home).unwrap();
    fs::rename(&other, &home).unwrap();
    let said = far.segno(&["checkpoint", "pull", "--all"]).good();
    assert!(said.stderr.contains("stays as it is"), "{}", said.stderr);
    assert!(said.stderr.contains("--now"), "{}", said.stderr);
    let stands = |status: &str| vec![("chain".to_owned(), status.to_owned())];
    assert_eq!(commands::standings(&sandbox), stands("failed"));
    far.segno(&["sessions", "delete", "chain", "--now", "--yes"])
        .good();
    far.segno(&["checkpoint", "pull", "--all"]).good();
    assert_eq!(commands::standings(&sandbox), stands("completed"));
}

#[test]
fn whoever_keeps_very_much_at_once_is_told() {
    let sandbox = sandbox();
    commands::failing_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    let noise = fs::File::open("/dev/urandom").unwrap();
    let mut long = fs::File::create(sandbox.work().join("long")).unwrap();
    std::io::copy(&mut noise.take(101 * 1024 * 1024), &mut long).unwrap();
    let said = sandbox.segno(&["checkpoint", "create"]).good();
    assert!(
        said.stderr.contains("hint: 101.0 MB are new"),
        "{}",
        said.stderr
    );
}

#[test]
fn small_checkpoints_stay_here_if_the_person_says_so() {
    let server = BucketServer::start();
    let sandbox = sandbox();
    let far = Far::new(&sandbox, &server.host());
    sandbox.configure("[storage]\nurl = \"s3://bucket/team\"\nabove_mb = 2\n");
    commands::failing_chain(&sandbox);
    far.segno(&["run", "chain.yaml"]).refused(10, &[]);
    let small = far.take();
    assert_eq!(small["sent"], false);
    sandbox.write("long.txt", &noise(3_000_000));
    assert_eq!(far.take()["sent"], true);
    assert_eq!(far.stored().len(), 1);
    far.segno(&["checkpoint", "push", id(&small)]).good();
    assert_eq!(far.stored().len(), 2, "who asks for it gets it");
}

/// Killed at every request that a push makes: nothing is listed before it is whole, and the next
/// push completes it.
#[test]
fn a_push_that_is_killed_anywhere_is_completed_by_the_next() {
    let server = BucketServer::start();
    let sandbox = sandbox();
    sandbox.configure("");
    commands::failing_chain(&sandbox);
    sandbox.write("long.txt", &noise(3_000_000));
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    let said = sandbox.segno(&["checkpoint", "create", "--json"]).good();
    let taken = said.json().remove(0);
    let mut kills = 0;
    loop {
        let proxy = Proxy::start(server.address(), move |n, _| {
            if n == kills {
                Mishap::Stalled
            } else {
                Mishap::None
            }
        });
        let far = Far::new(&sandbox, &proxy.host());
        let url = format!("[storage]\nurl = \"s3://bucket/k{kills}\"\n");
        sandbox.configure(&url);
        let mut child = far
            .command(&["checkpoint", "push", "--all"])
            .spawn()
            .unwrap();
        let mut is_over = false;
        until("it stands still or is done", || {
            is_over = child.try_wait().unwrap().is_some();
            is_over || proxy.asked().len() > kills
        });
        child.kill().unwrap();
        child.wait().unwrap();
        drop(proxy);
        let far = Far {
            sandbox: &sandbox,
            host: server.host(),
        };
        let letters = server.names(&format!("k{kills}/checkpoints/"));
        if !letters.is_empty() {
            whole(&far, &server, &format!("k{kills}"));
        }
        far.segno(&["checkpoint", "push", id(&taken)]).good();
        whole(&far, &server, &format!("k{kills}"));
        if is_over {
            break;
        }
        kills += 1;
    }
    assert!(kills >= 10, "{kills} kills");
}

/// Killed at every request that a pull makes: nothing is kept before it is whole, and the next pull
/// completes it.
#[test]
fn a_pull_that_is_killed_anywhere_is_completed_by_the_next() {
    let server = BucketServer::start();
    let sandbox = sandbox();
    let far = Far::new(&sandbox, &server.host());
    failed_session(&far);
    let taken = far.take();
    let mut kills = 0;
    loop {
        wipe(&sandbox);
        let proxy = Proxy::start(server.address(), move |n, _| {
            if n == kills {
                Mishap::Stalled
            } else {
                Mishap::None
            }
        });
        let far = Far::new(&sandbox, &proxy.host());
        let mut child = far
            .command(&["checkpoint", "pull", "--all"])
            .spawn()
            .unwrap();
        let mut is_over = false;
        until("it stands still or is done", || {
            is_over = child.try_wait().unwrap().is_some();
            is_over || proxy.asked().len() > kills
        });
        child.kill().unwrap();
        child.wait().unwrap();
        let far = Far::new(&sandbox, &server.host());
        if !is_over {
            assert!(commands::standings(&sandbox).is_empty(), "kill {kills}");
            let kept = far.segno(&["checkpoint", "list", "--all", "--json"]);
            assert!(kept.good().json().is_empty(), "kill {kills}");
        }
        far.segno(&["checkpoint", "pull", "--all"]).good();
        far.segno(&["checkpoint", "verify", id(&taken)]).good();
        assert_eq!(commands::standings(&sandbox).len(), 1);
        if is_over {
            break;
        }
        kills += 1;
    }
    assert!(kills >= 5, "{kills} kills");
}

/// Everything that is listed in the bucket is there.
fn whole(far: &Far<'_>, server: &BucketServer, prefix: &str) {
    assert_eq!(far.stored().len(), 1);
    let letter = server.get(&server.names(&format!("{prefix}/checkpoints/"))[0]);
    let letter = String::from_utf8(letter).unwrap();
    let letter: Value = serde_json::from_str(letter.lines().next().unwrap()).unwrap();
    let there = server.names(&format!("{prefix}/"));
    for part in letter["parts"].as_array().unwrap() {
        let name = part["name"].as_str().unwrap();
        assert!(
            there.iter().any(|object| object.contains(name)),
            "{name} in {there:?}"
        );
    }
}

#[test]
fn two_pushes_at_once_do_not_disturb_each_other() {
    let server = BucketServer::start();
    let sandbox = sandbox();
    let far = Far::new(&sandbox, "http://127.0.0.1:1");
    failed_session(&far);
    far.segno(&["checkpoint", "create"]).refused(12, &[]);
    let far = Far::new(&sandbox, &server.host());
    let both = [(), ()].map(|()| {
        let mut command = far.command(&["checkpoint", "push", "--all"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    });
    both.into_iter().for_each(|child| drop(wait(child).good()));
    whole(&far, &server, "team");
    wipe(&sandbox);
    let far = Far::new(&sandbox, &server.host());
    far.segno(&["checkpoint", "pull", "--all"]).good();
}

#[test]
fn every_damaged_object_is_named_and_nothing_of_it_is_kept() {
    let server = BucketServer::start();
    let sandbox = sandbox();
    let far = Far::new(&sandbox, &server.host());
    failed_session(&far);
    let taken = far.take();
    let objects = server.names("team/");
    assert!(objects.len() >= 5, "{objects:?}");
    for object in &objects {
        let good = server.get(object);
        for place in [0, good.len() / 2, good.len() - 1] {
            let mut bad = good.clone();
            bad[place] ^= 1;
            server.put(object, &bad);
            wipe(&sandbox);
            let far = Far::new(&sandbox, &server.host());
            let name = object.strip_prefix("team/").unwrap();
            far.segno(&["checkpoint", "pull", "--all"])
                .refused(23, &[name, "is damaged", "[K0305]"]);
            let kept = far.segno(&["checkpoint", "list", "--all", "--json"]).good();
            assert!(kept.json().is_empty(), "{object} {place}");
            assert!(commands::standings(&sandbox).is_empty(), "{object} {place}");
        }
        server.put(object, &good[..good.len() - 1]);
        let far = Far::new(&sandbox, &server.host());
        far.segno(&["checkpoint", "pull", "--all"])
            .refused(23, &["is damaged"]);
        server.put(object, &good);
        // What was fetched meanwhile is used.
        far.segno(&["checkpoint", "pull", "--all"]).good();
        far.segno(&["checkpoint", "verify", id(&taken)]).good();
    }
    for object in &objects {
        let good = server.get(object);
        if object.contains("/checkpoints/") {
            continue;
        }
        server.delete(object);
        wipe(&sandbox);
        let far = Far::new(&sandbox, &server.host());
        far.segno(&["checkpoint", "pull", "--all"])
            .refused(17, &["has no ", "[K0304]"]);
        server.put(object, &good);
    }
}

#[test]
fn what_nobody_needs_goes_late_and_what_is_needed_again_stays() {
    let server = BucketServer::start();
    let sandbox = sandbox();
    let far = Far::new(&sandbox, &server.host());
    failed_session(&far);
    far.take();
    // In a pack of its own, which only the second needs.
    sandbox.write("passing.txt", &noise(2_000_000).replace('a', "bc"));
    far.take();
    fs::remove_file(sandbox.work().join("passing.txt")).unwrap();
    far.take();
    let all = server.names("team/packs/").len();
    far.segno(&["checkpoint", "prune", "--keep", "1", "--max-age-days", "0"])
        .good();
    assert_eq!(far.stored().len(), 3, "they can be had back");
    sandbox.configure("[storage]\nurl = \"s3://bucket/team\"\n[trash]\nkeep_days = 0\n");
    far.segno(&["gc"]).good();
    assert_eq!(far.stored().len(), 1, "their letters went with them");
    let gc = |hours: &str| {
        let said = far.segno(&["gc", "--grace-hours", hours, "--json"]).good();
        said.json().remove(0)["storage"].clone()
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
    let far = Far::new(&sandbox, &server.host());
    far.segno(&["checkpoint", "pull", "--all"]).good();
}

#[test]
fn a_push_saves_what_a_sweep_has_announced() {
    let server = BucketServer::start();
    let sandbox = sandbox();
    let far = Far::new(&sandbox, &server.host());
    failed_session(&far);
    let taken = far.take();
    let letter = server.names("team/checkpoints/").remove(0);
    server.delete(&letter);
    let gc = |hours: &str| far.segno(&["gc", "--grace-hours", hours]).good();
    gc("24");
    assert!(!server.names("team/trash/").is_empty());
    far.segno(&["checkpoint", "push", id(&taken)]).good();
    assert!(server.names("team/trash/").is_empty());
    gc("0");
    gc("0");
    whole(&far, &server, "team");
}

/// Two sweeps that leave no grace come between the last part and the letter: they see nobody who needs
/// the parts, and delete them all.
#[test]
fn a_push_sends_again_what_a_sweep_took_from_under_it() {
    let server = BucketServer::start();
    let sandbox = sandbox();
    let far = Far::new(&sandbox, "http://127.0.0.1:1");
    failed_session(&far);
    far.segno(&["checkpoint", "create"]).refused(12, &[]);
    let (go, wait_for_it) = std::sync::mpsc::channel();
    let wait_for_it = std::sync::Mutex::new(wait_for_it);
    let proxy = Proxy::start(server.address(), move |_, request| {
        if request.method == "PUT" && request.path.contains("/checkpoints/") {
            let _ = wait_for_it.lock().unwrap().recv();
        }
        Mishap::None
    });
    let far = Far::new(&sandbox, &proxy.host());
    let mut push = far.command(&["checkpoint", "push", "--all"]);
    push.stdout(Stdio::piped()).stderr(Stdio::piped());
    let push = push.spawn().unwrap();
    until("the letter is on its way", || {
        let is_letter =
            |request: &Request| request.method == "PUT" && request.path.contains("/checkpoints/");
        proxy.asked().iter().any(is_letter)
    });
    let near = Far::new(&sandbox, &server.host());
    for _ in 0..2 {
        near.segno(&["gc", "--grace-hours", "0"]).good();
    }
    assert!(server.names("team/packs/").is_empty());
    go.send(()).unwrap();
    wait(push).good();
    whole(&near, &server, "team");
    wipe(&sandbox);
    let near = Far::new(&sandbox, &server.host());
    near.segno(&["checkpoint", "pull", "--all"]).good();
}

#[test]
fn a_letter_that_cannot_be_read_keeps_everything() {
    let server = BucketServer::start();
    let sandbox = sandbox();
    let far = Far::new(&sandbox, &server.host());
    failed_session(&far);
    let taken = far.take();
    let letter = server.names("team/checkpoints/").remove(0);
    let before = server.names("team/").len();
    server.put(&letter, b"{}\n");
    for _ in 0..2 {
        let name = letter.strip_prefix("team/").unwrap();
        far.segno(&["gc", "--grace-hours", "0"])
            .refused(23, &[name, "[K0305]"]);
    }
    assert_eq!(server.names("team/").len(), before);
    far.segno(&["checkpoint", "push", id(&taken)]).good();
    far.segno(&["gc", "--grace-hours", "0"]).good();
    whole(&far, &server, "team");
}

#[test]
fn whatever_is_wrong_with_a_storage_is_told() {
    let server = BucketServer::start();
    let sandbox = sandbox();
    let words = ["checkpoint", "pull", "--all"];
    sandbox
        .segno(&words)
        .refused(2, &["no storage is set", "[K0309]"]);
    let far = Far::new(&sandbox, &server.host());
    let said = far.segno(&["checkpoint", "list", "--remote"]).good();
    assert!(
        said.stdout.contains("no checkpoints there"),
        "{}",
        said.stdout
    );
    let said = far.segno(&["doctor", "--storage"]).good();
    assert!(
        said.stdout
            .contains("the storage answers, and has 0 checkpoints"),
        "{}",
        said.stdout
    );
    far.segno(&["checkpoint", "pull", "report"])
        .refused(17, &["`report`", "[K0310]", "--remote"]);
    sandbox.configure("[storage]\nurl = \"s3://nowhere\"\n");
    far.segno(&words)
        .refused(17, &["s3://nowhere does not exist", "[K0303]"]);
    sandbox.configure("[storage]\nurl = \"file:///not/there\"\n");
    far.segno(&words)
        .refused(17, &["[K0303]", "mkdir -m 700 /not/there"]);
    sandbox.configure("[storage]\nurl = \"https://a.b/c\"\n");
    far.segno(&words).refused(2, &["is no storage", "[K0306]"]);
    sandbox.configure("[storage]\nurl = 7\n");
    far.segno(&words)
        .refused(2, &["`storage.url` must be a text", "[C0102]"]);
    let strict = BucketServer::suspicious();
    let far = Far::new(&sandbox, &strict.host());
    let said = far
        .segno(&words)
        .refused(12, &["refuses", "[K0302]", "AWS_ACCESS_KEY_ID"]);
    assert!(!said.stderr.contains(KEY), "{}", said.stderr);
}

#[test]
fn a_folder_is_a_storage_too() {
    let sandbox = sandbox();
    let share = sandbox.work().parent().unwrap().join("share");
    fs::create_dir(&share).unwrap();
    let far = Far::new(&sandbox, "");
    let url = format!("[storage]\nurl = \"file://{}\"\n", share.display());
    sandbox.configure(&url);
    failed_session(&far);
    let before = files(&sandbox);
    let taken = far.take();
    wipe(&sandbox);
    sandbox.configure(&url);
    far.segno(&["checkpoint", "pull", "--all"]).good();
    far.segno(&["checkpoint", "restore", id(&taken), "--trust"])
        .good();
    assert_eq!(files(&sandbox), before);
}

/// Every object of the storage.
fn everything(server: &BucketServer) -> Vec<(String, Vec<u8>)> {
    let names = server.names("team/");
    names
        .into_iter()
        .map(|name| (name.clone(), server.get(&name)))
        .collect()
}

#[test]
fn with_a_key_nothing_in_the_storage_can_be_read_and_another_machine_with_the_key_can() {
    let server = BucketServer::start();
    let sandbox = sandbox();
    let key = sandbox.work().parent().unwrap().join("the key");
    let words = ["key", "new", key.to_str().unwrap()];
    sandbox.segno(&words).good();
    let far = Far::new(&sandbox, &server.host());
    let storage = "[storage]\nurl = \"s3://bucket/team\"\n";
    let with_key = format!("{storage}[encryption]\nkey_file = {:?}\n", key.display());
    sandbox.configure(&with_key);
    sandbox.write("nobody-should-see-this-name.txt", "nor this text\n");
    failed_session(&far);
    // Generations, so that there are packs with changes of others.
    let mut text = "a line that stays the same\n".repeat(2000);
    for round in 0..3 {
        text = format!("{text}round {round}\n");
        sandbox.write("growing.txt", &text);
        far.take();
    }
    let before = files(&sandbox);
    let taken = far.take();
    for (name, bytes) in everything(&server) {
        assert!(bytes.starts_with(b"SEGNOSF1"), "{name}");
    }
    wipe(&sandbox);
    let far = Far::new(&sandbox, &server.host());
    far.segno(&["checkpoint", "pull", "--all"])
        .refused(12, &["K0302", "no key is set"]);
    sandbox.configure(&with_key);
    far.segno(&["checkpoint", "pull", "--all"]).good();
    far.segno(&["checkpoint", "verify"]).good();
    far.segno(&["checkpoint", "restore", id(&taken), "--trust"])
        .good();
    assert_eq!(files(&sandbox), before);
}
