//! What the server measures, and its text for Prometheus.
//!
//! Counting costs a few instructions; a scrape reads only what is in memory and four files of
//! `/proc` (P10). What is known about sessions is counted beside it, see [`sessions`].

mod exposition;
mod histogram;
pub(crate) mod process;
pub(crate) mod sessions;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use exposition::Text;
use histogram::Histogram;
use process::Process;
use sessions::Counts;

/// What was counted since the server started.
#[derive(Default)]
pub(crate) struct Metrics {
    routes: Mutex<BTreeMap<RouteKey, Route>>,
    readers: AtomicU64,
    events: AtomicU64,
    event_latency: Histogram,
    audit_failures: AtomicU64,
}

/// A method and a route. There are as many as routes, whatever clients send.
type RouteKey = (&'static str, String);

#[derive(Default)]
struct Route {
    by_status: BTreeMap<u16, u64>,
    latency: Histogram,
}

/// A reader of an event stream, until it is dropped.
pub(crate) struct OpenReader(Arc<Metrics>);

impl Drop for OpenReader {
    fn drop(&mut self) {
        self.0.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    pub(super) fn count_request(
        &self,
        method: &str,
        route: Option<&str>,
        status: u16,
        took: Duration,
    ) {
        let method = match method {
            "GET" => "GET",
            "HEAD" => "HEAD",
            "POST" => "POST",
            "PUT" => "PUT",
            "DELETE" => "DELETE",
            _ => "other",
        };
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (method, route.unwrap_or("none").to_owned());
        let counted = routes.entry(key).or_default();
        *counted.by_status.entry(status).or_default() += 1;
        counted.latency.add(took);
    }

    pub(super) fn count_audit_failure(&self) {
        self.audit_failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn open_reader(self: &Arc<Self>) -> OpenReader {
        self.readers.fetch_add(1, Ordering::Relaxed);
        OpenReader(Arc::clone(self))
    }

    /// An event was passed to a reader, this long after it was made.
    pub(crate) fn count_event(&self, age: Option<Duration>) {
        self.events.fetch_add(1, Ordering::Relaxed);
        if let Some(age) = age {
            self.event_latency.add(age);
        }
    }

    /// Everything as text for Prometheus.
    pub(crate) fn text(
        &self,
        counts: &Counts,
        process: &Process,
        version: &str,
        uptime: Duration,
    ) -> String {
        let mut text = Text::default();
        text.gauge("segno_build_info", "The version of the server");
        text.sample("segno_build_info", &[("version", version)], 1);
        text.gauge("segno_uptime_seconds", "How long the server runs");
        text.sample("segno_uptime_seconds", &[], uptime.as_secs_f64());
        add_sessions(&mut text, counts);
        self.add_requests(&mut text);
        text.gauge("segno_event_readers", "Open event streams");
        let readers = self.readers.load(Ordering::Relaxed);
        text.sample("segno_event_readers", &[], readers);
        text.counter("segno_events_sent_total", "Events passed to event streams");
        let events = self.events.load(Ordering::Relaxed);
        text.sample("segno_events_sent_total", &[], events);
        let name = "segno_event_latency_seconds";
        text.histogram(
            name,
            "From the time of an event until a stream passes it on",
        );
        self.event_latency.write(&mut text, name, &[]);
        let name = "segno_audit_failures_total";
        text.counter(name, "Requests whose line in the audit log is missing");
        let failures = self.audit_failures.load(Ordering::Relaxed);
        text.sample(name, &[], failures);
        add_process(&mut text, process);
        text.into_string()
    }

    fn add_requests(&self, text: &mut Text) {
        let routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        let name = "segno_http_requests_total";
        text.counter(name, "Answered requests");
        for ((method, route), counted) in routes.iter() {
            for (status, count) in &counted.by_status {
                let status = status.to_string();
                let labels = [("method", *method), ("route", route), ("status", &status)];
                text.sample(name, &labels, *count);
            }
        }
        let name = "segno_http_request_duration_seconds";
        text.histogram(name, "From the head of a request to the head of its answer");
        for ((method, route), counted) in routes.iter() {
            let labels = [("method", *method), ("route", route.as_str())];
            counted.latency.write(text, name, &labels);
        }
    }
}

fn add_sessions(text: &mut Text, counts: &Counts) {
    text.gauge("segno_sessions", "Sessions by the status in their journal");
    for (status, count) in &counts.by_status {
        text.sample("segno_sessions", &[("status", status)], *count);
    }
    let name = "segno_sessions_uncounted";
    text.gauge(name, "Sessions that have not been read since they changed");
    text.sample(name, &[], counts.uncounted);
    text.gauge("segno_sessions_damaged", "Sessions that cannot be read");
    text.sample("segno_sessions_damaged", &[], counts.damaged);
    text.gauge("segno_runs_active", "Sessions whose run is alive");
    text.sample("segno_runs_active", &[], counts.active);
    text.gauge("segno_questions_open", "Questions without an answer");
    text.sample("segno_questions_open", &[], counts.questions);
    // Gauges: a deleted session takes its share with it.
    text.gauge("segno_steps_finished", "Finished steps of all sessions");
    text.sample("segno_steps_finished", &[], counts.steps);
    text.gauge("segno_tokens", "Tokens of all sessions");
    let tokens = [
        ("input", counts.input_tokens),
        ("output", counts.output_tokens),
    ];
    for (direction, count) in tokens {
        text.sample("segno_tokens", &[("direction", direction)], count);
    }
    text.gauge("segno_cost_usd", "The cost of all sessions");
    text.sample("segno_cost_usd", &[], counts.cost_micro_usd as f64 / 1e6);
}

fn add_process(text: &mut Text, process: &Process) {
    let Process {
        resident_bytes,
        open_files,
        max_files,
        cpu_seconds,
    } = process;
    if let Some(bytes) = resident_bytes {
        text.gauge("process_resident_memory_bytes", "Memory of the server");
        text.sample("process_resident_memory_bytes", &[], *bytes);
    }
    if let Some(files) = open_files {
        text.gauge("process_open_fds", "Open file descriptors");
        text.sample("process_open_fds", &[], *files);
    }
    if let Some(files) = max_files {
        text.gauge("process_max_fds", "The limit of file descriptors");
        text.sample("process_max_fds", &[], *files);
    }
    if let Some(seconds) = cpu_seconds {
        text.counter("process_cpu_seconds_total", "CPU time of the server");
        text.sample("process_cpu_seconds_total", &[], *seconds);
    }
}
