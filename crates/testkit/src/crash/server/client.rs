//! A client: it starts sessions with keys, follows them by server-sent events, and reconnects where
//! it was, until all of them are completed.

use std::collections::BTreeMap;
use std::io::{self, BufReader};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::fixture::{Fixture, name};
use crate::client::{EventStream, Request, Response, Streamed, StreamedEvent};
use crate::clock::Seeded;
use crate::crash::trial::Violation;
use crate::sandbox::is_overdue;

/// How many sessions a client starts.
pub(super) const SESSIONS: usize = 4;
/// How long a client waits before it tries again.
const PAUSE: Duration = Duration::from_millis(5);

/// What all clients know.
pub(super) struct Shared<'a> {
    pub(super) fixture: &'a Fixture,
    /// Where the newest server listens.
    pub(super) address: Mutex<String>,
    /// How many requests for a start were sent.
    pub(super) sent: AtomicUsize,
    /// How many clients have read an event of a stream.
    pub(super) following: AtomicUsize,
    /// How many clients are not done.
    pub(super) left: AtomicUsize,
    pub(super) begun: Instant,
}

impl Shared<'_> {
    fn address(&self) -> String {
        self.address.lock().unwrap().clone()
    }
}

/// A session, as its client saw it.
pub(super) struct Followed {
    pub(super) session: usize,
    pub(super) id: String,
    pub(super) events: Vec<Value>,
    /// The intent of each step, and how often the step had been called when its end was seen.
    pub(super) finished: Vec<(Value, usize)>,
    is_completed: bool,
}

impl Followed {
    /// What is wrong with this event as the next one.
    fn disorder(&self, data: &Value) -> Option<Violation> {
        let (name, next) = (name(self.session), self.events.len() as u64 + 1);
        match data["seq"].as_u64() {
            Some(seq) if seq == next => None,
            Some(seq) if seq < next => {
                let what = format!("{name} was sent event {seq} again");
                Some(Violation::Repeat(what))
            }
            _ => {
                let what = format!("{name} was sent {data} as event {next}");
                Some(Violation::Loss(what))
            }
        }
    }
}

/// What a client saw.
#[derive(Default)]
pub(super) struct Report {
    pub(super) followed: Vec<Followed>,
    /// Starts that were sent again with their keys.
    pub(super) repeats: u64,
    pub(super) reconnects: u64,
    pub(super) violations: Vec<Violation>,
}

/// Starts the sessions of this client, and follows them to their end.
pub(super) fn run(shared: &Shared<'_>, number: usize, seed: u64) -> Report {
    let mut client = Client {
        shared,
        rng: Seeded::new(seed.wrapping_mul(31).wrapping_add(number as u64)),
        report: Report::default(),
    };
    let own = number * SESSIONS..(number + 1) * SESSIONS;
    let is_started = own.into_iter().all(|session| client.start(session));
    if is_started {
        client.follow();
    }
    shared.left.fetch_sub(1, Ordering::SeqCst);
    client.report
}

struct Client<'a> {
    shared: &'a Shared<'a>,
    rng: Seeded,
    report: Report,
}

impl Client<'_> {
    /// Sends the request for a start until it is answered, always with the same key. Some requests
    /// are sent although they were answered, and some by a client that closes its connection.
    fn start(&mut self, session: usize) -> bool {
        let fixture = self.shared.fixture;
        let request = Request::post("/api/v1/sessions", &fixture.request(session))
            .token(&fixture.token)
            .header("Idempotency-Key", &format!("start-{session}"));
        let mut sent = 0;
        if self.rng.below(4) == 0 {
            self.shared.sent.fetch_add(1, Ordering::SeqCst);
            drop(request.send(&self.shared.address()));
            sent += 1;
        }
        let mut answers = 1 + usize::from(self.rng.below(3) == 0);
        let mut known: Option<String> = None;
        while answers > 0 {
            self.shared.sent.fetch_add(1, Ordering::SeqCst);
            sent += 1;
            match send(&request, &self.shared.address()) {
                Ok(answer) if answer.status == 201 => {
                    let id = answer.json()["session"].as_str().unwrap().to_owned();
                    if known.as_ref().is_some_and(|known| *known != id) {
                        let what = format!("a key of {} started {id}, too", name(session));
                        self.report.violations.push(Violation::Repeat(what));
                    }
                    known = Some(id);
                    answers -= 1;
                    continue;
                }
                // An earlier request with the key is still being handled.
                Ok(answer) if answer.status == 409 && answer.header("retry-after").is_some() => {}
                Ok(answer) => return self.give_up(format!("start of {session}: {answer:?}")),
                Err(_) if is_overdue(self.shared.begun) => {
                    return self.give_up(format!("{} was never started", name(session)));
                }
                Err(_) => {}
            }
            thread::sleep(PAUSE);
        }
        self.report.repeats += sent - 1;
        self.report.followed.push(Followed {
            session,
            id: known.expect("it was answered"),
            events: Vec::new(),
            finished: Vec::new(),
            is_completed: false,
        });
        true
    }

    fn give_up(&mut self, what: String) -> bool {
        self.report.violations.push(Violation::Stuck(what));
        false
    }

    fn follow(&mut self) {
        let ids: Vec<&str> = self.report.followed.iter().map(|it| &*it.id).collect();
        let path = format!("/api/v1/events?sessions={}", ids.join(","));
        let feed = Request::get(&path).token(&self.shared.fixture.token);
        let mut position: Option<String> = None;
        loop {
            let mut request = feed.clone();
            if let Some(position) = &position {
                request = request.header("Last-Event-ID", position);
            }
            let failed = match EventStream::open(&self.shared.address(), request) {
                Ok(mut stream) => {
                    self.read(&mut stream, &mut position);
                    None
                }
                Err(error) => Some(error),
            };
            if self.is_completed() || !self.report.violations.is_empty() {
                return;
            }
            if is_overdue(self.shared.begun) {
                let open = self.report.followed.iter().filter(|it| !it.is_completed);
                let open: Vec<String> = open
                    .map(|it| format!("{} after {:?}", name(it.session), it.events.last()))
                    .collect();
                self.give_up(format!("not completed: {open:?}; {failed:?}"));
                return;
            }
            self.report.reconnects += 1;
            thread::sleep(PAUSE);
        }
    }

    fn is_completed(&self) -> bool {
        self.report.followed.iter().all(|it| it.is_completed)
    }

    /// Reads a stream until all is completed, or the server has died, or it takes too long.
    fn read(&mut self, stream: &mut EventStream, position: &mut Option<String>) {
        while !self.is_completed() && !is_overdue(self.shared.begun) {
            match stream.next_streamed() {
                None => return,
                Some(Streamed::Heartbeat) => {}
                Some(Streamed::Event(event)) if event.name == "message" => {
                    if position.is_none() {
                        self.shared.following.fetch_add(1, Ordering::SeqCst);
                    }
                    self.take(&event);
                    *position = event.id;
                }
                Some(Streamed::Event(event)) if matches!(&*event.name, "stream" | "preview") => {}
                Some(Streamed::Event(event)) => {
                    let what = format!("a stream ended with {}", event.data);
                    self.report.violations.push(Violation::Damage(what));
                    return;
                }
            }
        }
    }

    /// Each event must be the next one of its session.
    fn take(&mut self, event: &StreamedEvent) {
        let violations = &mut self.report.violations;
        let followed = &mut self.report.followed;
        let data = &event.data;
        let Some(of) = followed.iter_mut().find(|it| data["session"] == *it.id) else {
            let what = format!("an event of another session: {data}");
            violations.push(Violation::Damage(what));
            return;
        };
        violations.extend(of.disorder(data));
        if data["kind"] == "step_finished" {
            let intents = of.events.iter().rev();
            let is_its = |it: &&Value| it["kind"] == "step_started" && it["path"] == data["path"];
            if let Some(intent) = intents.clone().find(is_its) {
                let calls = self.shared.fixture.calls_of(of.session, intent);
                of.finished.push((intent.clone(), calls));
            }
        }
        of.is_completed = data["kind"] == "run_ended" && data["status"] == "completed";
        of.events.push(data.clone());
        let positions = followed.iter().map(|it| it.events.len().to_string());
        let positions: Vec<String> = positions.collect();
        if event.id.as_deref() != Some(&positions.join(",")) {
            let what = format!("the position {:?} of {data} is not {positions:?}", event.id);
            violations.push(Violation::Damage(what));
        }
    }
}

fn send(request: &Request, address: &str) -> io::Result<Response> {
    Response::read(&mut BufReader::new(request.send(address)?))
}

/// The finished steps of all clients by session.
pub(super) fn by_session(reports: &[Report]) -> BTreeMap<usize, &Followed> {
    let followed = reports.iter().flat_map(|report| &report.followed);
    followed.map(|it| (it.session, it)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn gaps_and_repeats_are_noticed() {
        let followed = Followed {
            session: 0,
            id: String::new(),
            events: vec![json!({"seq": 1}), json!({"seq": 2})],
            finished: Vec::new(),
            is_completed: false,
        };
        let found = |seq: u64| followed.disorder(&json!({"seq": seq}));
        assert!(found(3).is_none());
        assert!(matches!(found(2), Some(Violation::Repeat(_))));
        assert!(matches!(found(4), Some(Violation::Loss(_))));
    }
}
