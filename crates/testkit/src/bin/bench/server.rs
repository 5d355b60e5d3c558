//! (k) `segno serve`: the first page of a large home, how fast it starts, what it costs while nothing
//! happens, and how soon readers of its event streams have an event.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use segno_core::store::{Journal, Sessions};
use segno_core::time::Timestamp;
use segno_testkit::sandbox::{Sandbox, memory_dir};

use crate::disk::Disk;
use crate::figures::{Bar, Row, Samples, Table, millis};
use crate::{Plan, listing, log_progress, parts};

const SESSIONS: u32 = 10_000;
const IDLE_SESSIONS: u32 = 1_000;
/// How many requests are one sample.
const REQUESTS: u32 = 50;
/// How long an idle server is watched.
const IDLE: Duration = Duration::from_secs(20);
/// How many steps a run has.
const STEPS: usize = 500;
const EVENTS: usize = 200;
/// How far apart the events are.
const PACE: Duration = Duration::from_millis(20);

pub(crate) fn measure(plan: &Plan, disk: &mut Disk, table: &mut Table) {
    let sandbox = Sandbox::new(&plan.segno);
    first_page(&sandbox, disk, table, plan.rounds());
    idle(&sandbox, table);
    steps(plan, disk, table);
    for (readers, most) in [(1, 50.0), (1_000, 250.0)] {
        log_progress(&format!("  {readers} readers of one journal"));
        streams(&sandbox, plan, table, readers, most);
    }
}

/// A running server.
struct Serving {
    child: Child,
    address: String,
    token: String,
    started_ms: f64,
}

impl Serving {
    fn start(sandbox: &Sandbox, home: &Path) -> Self {
        let with_home = |words: &[&str]| {
            let mut command: Command = sandbox.command(words);
            command.env("SEGNO_HOME", home);
            command
        };
        let name = format!("bench-{}", std::process::id());
        let _ = with_home(&["token", "revoke", &name]).output().unwrap();
        let created = with_home(&["token", "create", &name]).output().unwrap();
        let token = String::from_utf8(created.stdout).unwrap().trim().to_owned();
        let mut command = with_home(&["serve", "--listen", "127.0.0.1:0", "--json"]);
        let begun = Instant::now();
        let command = command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        let url = line["urls"][0].as_str().unwrap();
        let mut serving = Self {
            child,
            address: url.trim_start_matches("http://").to_owned(),
            token,
            started_ms: 0.0,
        };
        let status = Client::open(&serving.address)
            .get("/ready", &serving.token)
            .0;
        assert_eq!(status, 200);
        serving.started_ms = millis(begun.elapsed());
        serving
    }

    fn proc_file(&self, name: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{name}", self.child.id())).unwrap()
    }

    fn megabytes(&self, field: &str) -> f64 {
        let status = self.proc_file("status");
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kilobytes = line.unwrap().trim().trim_end_matches(" kB");
        kilobytes.parse::<f64>().unwrap() / 1024.0
    }

    /// The CPU time so far, in seconds.
    fn cpu(&self) -> f64 {
        let stat = self.proc_file("stat");
        let after_name = stat.rsplit_once(')').unwrap().1;
        let ticks = after_name.split_whitespace().skip(11).take(2);
        ticks.map(|it| it.parse::<f64>().unwrap()).sum::<f64>() / 100.0
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection that is used for many requests.
struct Client(BufReader<TcpStream>);

impl Client {
    fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(BufReader::new(stream))
    }

    fn get(&mut self, path: &str, token: &str) -> (u16, Vec<u8>) {
        let host = self.0.get_ref().peer_addr().unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n");
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        let (mut status, mut length) = (0, 0);
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the server left");
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().unwrap();
            } else if let Some(rest) = line.strip_prefix("http/1.1 ") {
                status = rest[..3].parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        (status, body)
    }

    /// The milliseconds that one request takes, on average.
    fn time(&mut self, path: &str, token: &str) -> f64 {
        let begun = Instant::now();
        for _ in 0..REQUESTS {
            assert_eq!(self.get(path, token).0, 200);
        }
        millis(begun.elapsed()) / f64::from(REQUESTS)
    }
}

fn first_page(sandbox: &Sandbox, disk: &mut Disk, table: &mut Table, rounds: usize) {
    let folder = memory_dir();
    log_progress(&format!("  creating {SESSIONS} sessions"));
    listing::make(folder.path(), 0..SESSIONS);
    let home = folder.path().join("home");
    let bare = bare_server(folder.path().join("bare.db"));
    // The first list of a home reads every session once.
    let mut serving = Serving::start(sandbox, &home);
    let page = "/api/v1/sessions?limit=50";
    Client::open(&serving.address).get(page, &serving.token);
    let mut started = Samples::default();
    for _ in 0..rounds {
        drop(serving);
        disk.probe();
        serving = Serving::start(sandbox, &home);
        started.push(serving.started_ms);
    }
    let what = format!("{SESSIONS} sessions: start to ready");
    table.add(Row::single("k", what, "ms", started).bar(Bar::AtMost(300.0)));
    let (mut ours, mut baseline) = (Samples::default(), Samples::default());
    let mut client = Client::open(&serving.address);
    let mut bare = Client::open(&bare);
    for round in 0..=rounds {
        disk.probe();
        let pair = (
            client.time(page, &serving.token),
            bare.time(page, &serving.token),
        );
        if round > 0 {
            ours.push(pair.0);
            baseline.push(pair.1);
        }
    }
    let what = format!("{SESSIONS} sessions: first page over HTTP");
    let row = Row::pair("k", what, "ms", ours, baseline);
    table.add(row.bar(Bar::AtMost(1.5)));
}

/// The least that a first page costs: one connection, 50 rows of SQLite, JSON of the same length.
fn bare_server(file: PathBuf) -> String {
    let connection = Connection::open(file).unwrap();
    connection
        .execute_batch("CREATE TABLE session (id INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;")
        .unwrap();
    let body = format!(
        "{{\"v\":1,\"kind\":\"session\",\"text\":\"{}\"}}",
        "x".repeat(300)
    );
    for id in 0..SESSIONS {
        let values = rusqlite::params![id, body];
        connection
            .execute("INSERT INTO session VALUES (?1, ?2)", values)
            .unwrap();
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        let mut stream = BufReader::new(stream);
        loop {
            let mut line = String::new();
            if !matches!(stream.read_line(&mut line), Ok(1..)) {
                return;
            }
            if line != "\r\n" {
                continue;
            }
            let query = "SELECT body FROM session ORDER BY id DESC LIMIT 50";
            let mut query = connection.prepare_cached(query).unwrap();
            let rows = query.query_map([], |row| row.get::<_, String>(0)).unwrap();
            let rows: Vec<String> = rows.map(Result::unwrap).collect();
            let body = format!("{{\"items\":[{}]}}", rows.join(","));
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            let answer = [head.as_bytes(), body.as_bytes()].concat();
            stream.get_mut().write_all(&answer).unwrap();
        }
    });
    address
}

fn idle(sandbox: &Sandbox, table: &mut Table) {
    let folder = memory_dir();
    listing::make(folder.path(), 0..IDLE_SESSIONS);
    let serving = Serving::start(sandbox, &folder.path().join("home"));
    Client::open(&serving.address).get("/api/v1/sessions", &serving.token);
    let (before, begun) = (serving.cpu(), Instant::now());
    std::thread::sleep(IDLE);
    let share = (serving.cpu() - before) / begun.elapsed().as_secs_f64() * 100.0;
    let of = |what: &str| format!("idle, {IDLE_SESSIONS} sessions: {what}");
    let row = Row::single("k", of("share of a core"), "%", Samples(vec![share]));
    table.add(row.bar(Bar::AtMost(1.0)));
    let memory = Samples(vec![serving.megabytes("VmRSS:")]);
    let row = Row::single("k", of("memory"), "MB", memory);
    table.add(row.bar(Bar::AtMost(60.0)));
}

/// A step of a session that the server runs, and the same step of `segno run`, by the times of the
/// journal: from the first step until the run ended.
fn steps(plan: &Plan, disk: &mut Disk, table: &mut Table) {
    let sandbox = Sandbox::new(&plan.segno);
    sandbox.scripted_chain(STEPS, 0);
    let spec = sandbox.read("chain.yaml");
    let answers = sandbox.work().join("answers.yaml");
    let spec = spec.replace("answers.yaml", &answers.display().to_string());
    sandbox.write("chain.yaml", &spec);
    let serving = Serving::start(&sandbox, &sandbox.home());
    let (mut served, mut run) = (Samples::default(), Samples::default());
    for round in 0..=plan.rounds() {
        disk.probe();
        let (there, here) = (format!("there-{round}"), format!("here-{round}"));
        let name = |name| ["run", "chain.yaml", "--force", "--name", name];
        let handed_over = [&name(&there)[..], &["--detach"]].concat();
        sandbox.segno(&handed_over).expect_success();
        let words = ["logs", "--follow", &there, "--json"];
        let there = per_step(&sandbox.segno(&words).expect_success().json());
        sandbox.segno(&name(&here)).expect_success();
        let words = ["logs", &here, "--json"];
        let here = per_step(&sandbox.segno(&words).expect_success().json());
        if round > 0 {
            served.push(there);
            run.push(here);
        }
    }
    drop(serving);
    let what = "a step of a run in the background, in `segno run`";
    table.add(Row::pair("k", what, "ms", served, run).bar(Bar::AtMost(1.05)));
}

/// The milliseconds of a step, by the events of a journal.
fn per_step(events: &[serde_json::Value]) -> f64 {
    let at = |kind: &str| {
        let mut events = events.iter();
        let found = events.find(|event| event["kind"] == kind).unwrap();
        Timestamp::parse(found["at"].as_str().unwrap()).unwrap()
    };
    let whole = at("run_ended").since(at("step_started"));
    millis(whole) / STEPS as f64
}

/// From a commit until each reader has the event. One more reader never reads.
fn streams(sandbox: &Sandbox, plan: &Plan, table: &mut Table, readers: usize, most: f64) {
    let folder = plan.fresh();
    let store = parts::store(folder.path());
    let runtime = parts::runtime();
    let (new, batches) = parts::session(1, EVENTS);
    let id = new.id;
    runtime.block_on(store.create(new)).unwrap();
    let serving = Serving::start(sandbox, &folder.path().join("home"));
    let request = format!(
        "GET /api/v1/sessions/{id}/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nAccept: text/event-stream\r\n\r\n",
        serving.address, serving.token
    );
    let connect = || {
        let mut stream = TcpStream::connect(&serving.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    };
    let silent = connect();
    let last = batches.last().unwrap().head().seq.0;
    let before = batches[0].expected.seq.0;
    let ready = Arc::new(Barrier::new(readers + 1));
    let threads: Vec<_> = (0..readers)
        .map(|_| {
            let (stream, ready) = (connect(), Arc::clone(&ready));
            let read = move || read_events(stream, before, last, &ready);
            let thread = std::thread::Builder::new().stack_size(256 << 10);
            thread.spawn(read).unwrap()
        })
        .collect();
    ready.wait();
    let mut committed = Vec::new();
    for batch in batches {
        let seqs: Vec<u64> = batch.records.iter().map(|record| record.seq.0).collect();
        runtime.block_on(store.append(batch)).unwrap();
        let now = Instant::now();
        committed.extend(seqs.into_iter().map(|seq| (seq, now)));
        std::thread::sleep(PACE);
    }
    let mut late = Samples::default();
    for thread in threads {
        let seen = thread.join().unwrap();
        assert_eq!(seen.len(), committed.len(), "a reader missed events");
        for ((seq, at), (expected, committed)) in seen.iter().zip(&committed) {
            assert_eq!(seq, expected, "a gap, or an event twice");
            late.push(millis(at.saturating_duration_since(*committed)));
        }
    }
    let p99 = Samples(vec![late.quantile(0.99)]);
    let what = format!("commit to event, {readers} readers, 99th percentile");
    table.add(Row::single("k", what, "ms", p99).bar(Bar::AtMost(most)));
    let memory = Samples(vec![serving.megabytes("VmHWM:")]);
    let what = format!("{readers} readers and one that never reads: memory");
    table.add(Row::single("k", what, "MB", memory).bar(Bar::AtMost(200.0)));
    drop(silent);
}

/// When each event after `before` was read.
fn read_events(stream: TcpStream, before: u64, last: u64, ready: &Barrier) -> Vec<(u64, Instant)> {
    let mut stream = BufReader::new(stream);
    let mut seen = Vec::new();
    let mut line = String::new();
    loop {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the server left");
        let Some(seq) = line.strip_prefix("id: ") else {
            continue;
        };
        let seq: u64 = seq.trim().parse().unwrap();
        if seq == before {
            ready.wait();
        } else if seq > before {
            seen.push((seq, Instant::now()));
        }
        if seq == last {
            return seen;
        }
    }
}
