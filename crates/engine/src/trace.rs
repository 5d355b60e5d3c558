//! Turns a session's journal into spans for OTLP export. Spans are built from the journal alone, so
//! that the same journal gives the same spans, including those of earlier runs.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use segno_core::digest::Digest;
use segno_core::id::SessionId;
use segno_core::journal::{Event, JournalEvent, Run, Suspension, Text};
use segno_core::model::Part;
use segno_core::step::Path;
use segno_core::time::Timestamp;
use segno_core::usage::Usage;
use segno_spec::{Telemetry, Workflow};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::env::Env;
use crate::observe::Observer;

/// Longer texts are cut to this many bytes.
const MAX_TEXT_BYTES: usize = 4096;

/// How many spans may wait to be sent; more are dropped.
const QUEUE: usize = 4096;

/// How long the end of a run waits for a collector.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(10);

/// How many spans `TRACE` shows.
const MAX_SHOWN: usize = 1000;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Span {
    id: String,
    parent: Option<String>,
    name: String,
    start: Timestamp,
    end: Timestamp,
    attributes: Vec<(&'static str, Value)>,
    /// Why it failed.
    failed: Option<String>,
}

/// Builds spans from the events of a journal.
pub(crate) struct Trace {
    session: SessionId,
    workflow: String,
    /// Provider and model of each agent.
    agents: BTreeMap<String, (&'static str, Option<String>)>,
    hides_inputs: bool,
    hides_outputs: bool,
    run: Option<OpenRun>,
    steps: HashMap<Path, OpenStep>,
    finished: u64,
    skipped: u64,
}

struct OpenRun {
    number: Run,
    start: Timestamp,
}

struct OpenStep {
    id: String,
    start: Timestamp,
    agent: String,
    attempt: u32,
    usage: Usage,
    /// The time of the newest event in it.
    newest: Timestamp,
    turns: u32,
    /// The inputs of requested tool calls, by call.
    calls: HashMap<String, Value>,
    /// When tool calls started, by call.
    tools: HashMap<String, Timestamp>,
}

impl Trace {
    pub(crate) fn new(session: SessionId, workflow: &Workflow) -> Self {
        let provider = |agent: &segno_spec::Agent| {
            let model = agent.provider.model().map(str::to_owned);
            (agent.provider.name(), model)
        };
        let agents = workflow.agents.iter();
        let policy = workflow.telemetry.as_ref();
        Self {
            session,
            workflow: workflow.name.clone(),
            agents: agents
                .map(|(name, agent)| (name.clone(), provider(agent)))
                .collect(),
            hides_inputs: policy.is_none_or(|policy| policy.hides_inputs),
            hides_outputs: policy.is_some_and(|policy| policy.hides_outputs),
            run: None,
            steps: HashMap::new(),
            finished: 0,
            skipped: 0,
        }
    }

    /// The trace id.
    pub(crate) fn id(&self) -> String {
        self.stable_id("trace", 32)
    }

    /// Applies the next event; returns the spans that end with it.
    pub(crate) fn apply(&mut self, entry: &JournalEvent) -> Vec<Span> {
        let at = entry.at;
        match &entry.event {
            Event::RunStarted(_) => {
                self.run = Some(OpenRun {
                    number: entry.run,
                    start: at,
                });
                // A lost run has no end, and neither have the steps that it started.
                self.steps.clear();
            }
            Event::StepStarted(event) => {
                let key = format!("{} {} {}", event.path, event.revision, event.attempt);
                let step = OpenStep {
                    id: self.stable_id(&key, 16),
                    start: at,
                    agent: event.agent.clone(),
                    attempt: event.attempt,
                    usage: Usage::default(),
                    newest: at,
                    turns: 0,
                    calls: HashMap::new(),
                    tools: HashMap::new(),
                };
                self.steps.insert(event.path.clone(), step);
            }
            Event::ModelReplied(event) => {
                let spans = self.chat(&event.path, entry, event.usage);
                if let Some(step) = self.steps.get_mut(&event.path)
                    && let Text::Inline(parts) = &event.parts
                {
                    let parts: Vec<Part> = serde_json::from_str(parts).unwrap_or_default();
                    let calls = parts.into_iter().filter_map(|part| match part {
                        Part::Call(call) => Some((call.id, call.input)),
                        _ => None,
                    });
                    step.calls.extend(calls);
                }
                return spans;
            }
            Event::AgentMessages(event) => {
                if let Some(step) = self.steps.get_mut(&event.path) {
                    step.usage += event.usage;
                }
            }
            Event::ConversationCompacted(event) => {
                return self.chat(&event.path, entry, event.usage);
            }
            Event::ToolStarted(event) => {
                if let Some(step) = self.steps.get_mut(&event.path) {
                    step.tools.insert(event.call.clone(), at);
                }
            }
            Event::ToolFinished(event) => {
                let key = format!("{} {} {}", event.path, event.revision, event.call);
                let id = self.stable_id(&key, 16);
                let (hides_inputs, hides_outputs) = (self.hides_inputs, self.hides_outputs);
                let Some(step) = self.steps.get_mut(&event.path) else {
                    return Vec::new();
                };
                let start = step.tools.remove(&event.call).unwrap_or(step.newest);
                let mut attributes = vec![
                    ("gen_ai.operation.name", json!("execute_tool")),
                    ("gen_ai.tool.name", json!(event.tool)),
                    ("gen_ai.tool.call.id", json!(event.call)),
                ];
                if let Some(input) = step.calls.remove(&event.call).filter(|_| !hides_inputs) {
                    let input = input.to_string();
                    let input = truncate(&input);
                    attributes.push(("gen_ai.tool.call.arguments", json!(input)));
                }
                if let Text::Inline(output) = &event.output
                    && !hides_outputs
                {
                    attributes.push(("gen_ai.tool.call.result", json!(truncate(output))));
                }
                step.newest = at;
                return vec![Span {
                    id,
                    parent: Some(step.id.clone()),
                    name: format!("execute_tool {}", event.tool),
                    start,
                    end: at,
                    attributes,
                    failed: event.is_error.then(|| "the tool failed".to_owned()),
                }];
            }
            Event::StepFinished(event) => {
                self.finished += 1;
                let turns = self.steps.get(&event.path).map_or(0, |step| step.turns);
                let mut spans = if turns > 0 {
                    self.chat(&event.path, entry, event.usage)
                } else {
                    if let Some(step) = self.steps.get_mut(&event.path) {
                        step.usage += event.usage;
                    }
                    Vec::new()
                };
                spans.extend(self.step(&event.path, at, None));
                return spans;
            }
            Event::StepFailed(event) => {
                if let Some(step) = self.steps.get_mut(&event.path) {
                    step.usage += event.usage;
                }
                let why = format!("{}: {}", event.error.kind, event.error.message);
                return self.step(&event.path, at, Some(why)).into_iter().collect();
            }
            Event::StepPaused(event) => {
                return self.step(&event.path, at, None).into_iter().collect();
            }
            Event::RunEnded(event) => {
                let failed = event.error.as_ref().map(|error| error.message.clone());
                let status = event.status.to_string();
                return self.end(at, &status, failed).into_iter().collect();
            }
            _ => {}
        }
        Vec::new()
    }

    /// A model call inside a step.
    fn chat(&mut self, path: &Path, entry: &JournalEvent, usage: Usage) -> Vec<Span> {
        let id = self.stable_id(&format!("chat {}", entry.seq), 16);
        let Some(step) = self.steps.get_mut(path) else {
            return Vec::new();
        };
        step.usage += usage;
        step.turns += 1;
        let start = std::mem::replace(&mut step.newest, entry.at);
        let (parent, agent) = (step.id.clone(), step.agent.clone());
        let mut attributes = vec![("gen_ai.operation.name", json!("chat"))];
        attributes.extend(self.provider(&agent));
        attributes.extend(usage_attributes(usage));
        let model = self.agents.get(&agent).and_then(|(_, model)| model.clone());
        vec![Span {
            id,
            parent: Some(parent),
            name: format!("chat {}", model.unwrap_or_default()),
            start,
            end: entry.at,
            attributes,
            failed: None,
        }]
    }

    fn step(&mut self, path: &Path, end: Timestamp, failed: Option<String>) -> Option<Span> {
        let step = self.steps.remove(path)?;
        let mut attributes = vec![
            ("gen_ai.operation.name", json!("invoke_agent")),
            ("gen_ai.agent.name", json!(step.agent)),
            ("segno.session.id", json!(self.session.to_string())),
            ("segno.step", json!(path.as_str())),
            ("segno.attempt", json!(step.attempt)),
        ];
        attributes.extend(self.provider(&step.agent));
        attributes.extend(usage_attributes(step.usage));
        Some(Span {
            id: step.id,
            parent: self.run.as_ref().map(|run| self.run_id(run.number)),
            name: format!("invoke_agent {}", step.agent),
            start: step.start,
            end,
            attributes,
            failed,
        })
    }

    fn end(&mut self, end: Timestamp, status: &str, failed: Option<String>) -> Option<Span> {
        let run = self.run.take()?;
        Some(Span {
            id: self.run_id(run.number),
            parent: None,
            name: format!("invoke_workflow {}", self.workflow),
            start: run.start,
            end,
            attributes: vec![
                ("gen_ai.operation.name", json!("invoke_workflow")),
                ("gen_ai.conversation.id", json!(self.session.to_string())),
                ("segno.session.id", json!(self.session.to_string())),
                ("segno.session.status", json!(status)),
                ("segno.run", json!(run.number.0)),
                ("segno.resumed", json!(run.number.0 > 1)),
                ("segno.steps.skipped", json!(self.skipped)),
                // Each finished step is a point from which the session can resume.
                ("segno.checkpoint.count", json!(self.finished)),
            ],
            failed,
        })
    }

    fn provider(&self, agent: &str) -> Vec<(&'static str, Value)> {
        let Some((provider, model)) = self.agents.get(agent) else {
            return Vec::new();
        };
        let mut attributes = vec![("gen_ai.provider.name", json!(provider))];
        if let Some(model) = model {
            attributes.push(("gen_ai.request.model", json!(model)));
        }
        attributes
    }

    fn run_id(&self, run: Run) -> String {
        self.stable_id(&format!("run {}", run.0), 16)
    }

    /// Hexadecimal digits for `key` in this session, always the same.
    fn stable_id(&self, key: &str, count: usize) -> String {
        let session = self.session.to_string();
        let digest = Digest::of_fields(&[b"trace", session.as_bytes(), key.as_bytes()]);
        digest.to_string().chars().take(count).collect()
    }

    /// Whether this session is sampled at this ratio: always the same decision for a session.
    fn is_sampled(&self, ratio: f64) -> bool {
        let digits = self.stable_id("sample", 8);
        let number = u32::from_str_radix(&digits, 16).unwrap_or(0);
        f64::from(number) < ratio * (f64::from(u32::MAX) + 1.0)
    }
}

fn usage_attributes(usage: Usage) -> [(&'static str, Value); 2] {
    [
        ("gen_ai.usage.input_tokens", json!(usage.input_tokens)),
        ("gen_ai.usage.output_tokens", json!(usage.output_tokens)),
    ]
}

fn truncate(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT_BYTES)]
}

/// An export request in OTLP/JSON.
fn otlp(policy: &Telemetry, version: &str, trace: &str, spans: &[Span]) -> Value {
    let typed = |value: &Value| match value {
        Value::Bool(value) => json!({"boolValue": value}),
        Value::Number(number) => json!({"intValue": number.to_string()}),
        Value::String(text) => json!({"stringValue": text}),
        other => json!({"stringValue": other.to_string()}),
    };
    let pair = |key: &str, value: &Value| json!({"key": key, "value": typed(value)});
    let nanos = |at: Timestamp| (i128::from(at.0) * 1_000_000).to_string();
    let spans = spans.iter().map(|span| {
        let attributes = span.attributes.iter();
        let attributes: Vec<_> = attributes.map(|(key, value)| pair(key, value)).collect();
        let mut rendered = json!({
            "traceId": trace,
            "spanId": span.id,
            "name": span.name,
            // SPAN_KIND_INTERNAL.
            "kind": 1,
            "startTimeUnixNano": nanos(span.start),
            "endTimeUnixNano": nanos(span.end),
            "attributes": attributes,
            "status": match &span.failed {
                None => json!({"code": 1}),
                Some(why) => json!({"code": 2, "message": why}),
            },
        });
        if let Some(parent) = &span.parent {
            rendered["parentSpanId"] = json!(parent);
        }
        rendered
    });
    json!({"resourceSpans": [{
        "resource": {"attributes": [
            pair("service.name", &json!(policy.service)),
            pair("service.version", &json!(version)),
        ]},
        "scopeSpans": [{
            "scope": {"name": "segno", "version": version},
            "spans": spans.collect::<Vec<_>>(),
        }],
    }]})
}

/// The newest spans as readable JSON.
pub(crate) fn render_json(trace: &Trace, spans: &[Span]) -> String {
    let from = spans.len().saturating_sub(MAX_SHOWN);
    let listed = spans[from..].iter().map(|span| {
        let attributes = span.attributes.iter().cloned();
        let attributes: serde_json::Map<_, _> =
            attributes.map(|(key, value)| (key.to_owned(), value)).collect();
        json!({
            "name": span.name,
            "span_id": span.id,
            "parent_span_id": span.parent,
            "start_time": span.start.to_string(),
            "end_time": span.end.to_string(),
            "duration_ms": span.end.since(span.start).as_millis(),
            "attributes": attributes,
            "status": {"status_code": if span.failed.is_some() { "ERROR" } else { "OK" }, "description": span.failed},
        })
    });
    let begun = spans.iter().map(|span| span.start).min();
    let ended = spans.iter().map(|span| span.end).max();
    let took = ended
        .zip(begun)
        .map_or(0, |(end, start)| end.since(start).as_millis());
    let rendered = json!({
        "trace_id": trace.id(),
        "session": trace.session.to_string(),
        "spec_name": trace.workflow,
        "duration_ms": took,
        "span_count": spans.len(),
        "evicted_count": from,
        "spans": listed.collect::<Vec<_>>(),
    });
    serde_json::to_string_pretty(&rendered).unwrap_or_default()
}

/// Sends the spans of a run to a collector while the run is active, and forwards all events to the
/// inner observer. An unreachable collector never delays a run.
pub(crate) struct Tracer {
    inner: Arc<dyn Observer>,
    trace: Mutex<Trace>,
    queue: Mutex<Option<mpsc::Sender<Span>>>,
}

impl Tracer {
    /// Starts to send the spans of `run`; `None` if this session is not sampled or nothing
    /// exports them. `finished` steps were done before.
    pub(crate) fn begin(
        env: &Env,
        workflow: &Workflow,
        session: SessionId,
        run: Run,
        finished: u64,
        inner: Arc<dyn Observer>,
    ) -> Option<(Arc<Self>, JoinHandle<()>)> {
        let policy = workflow.telemetry.clone()?;
        let exporter = Arc::clone(env.exporter.as_ref()?);
        let mut trace = Trace::new(session, workflow);
        trace.finished = finished;
        trace.run = Some(OpenRun {
            number: run,
            start: env.clock.now(),
        });
        if !trace.is_sampled(policy.ratio) {
            return None;
        }
        let (queue, mut spans) = mpsc::channel(QUEUE);
        let (id, env, notices) = (trace.id(), env.clone(), Arc::clone(&inner));
        let sender = tokio::spawn(async move {
            let (mut batch, mut reported) = (Vec::new(), false);
            while spans.recv_many(&mut batch, 512).await > 0 {
                let body = otlp(&policy, env.version, &id, &batch);
                let sent = exporter.export(policy.endpoint.as_deref(), &body);
                // One notice is enough.
                if let Err(reason) = sent.await
                    && !std::mem::replace(&mut reported, true)
                {
                    notices.notice(&format!("telemetry is not exported: {reason}"));
                }
                batch.clear();
            }
        });
        let tracer = Self {
            inner,
            trace: Mutex::new(trace),
            queue: Mutex::new(Some(queue)),
        };
        Some((Arc::new(tracer), sender))
    }

    /// Sends the remaining spans, with a time limit.
    pub(crate) async fn close(&self, env: &Env, mut sender: JoinHandle<()>) {
        drop(
            self.queue
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        tokio::select! {
            _ = &mut sender => {}
            () = env.clock.sleep(FLUSH_TIMEOUT) => sender.abort(),
        }
    }
}

impl Observer for Tracer {
    fn event(&self, session: SessionId, entry: &JournalEvent) {
        let spans = {
            let mut trace = self.trace.lock().unwrap_or_else(PoisonError::into_inner);
            trace.apply(entry)
        };
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = &*queue {
            for span in spans {
                let _ = queue.try_send(span);
            }
        }
        drop(queue);
        self.inner.event(session, entry);
    }

    fn planned(&self, steps: usize) {
        self.inner.planned(steps);
    }

    fn skipped(&self, session: SessionId, path: &Path) {
        self.trace
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .skipped += 1;
        self.inner.skipped(session, path);
    }

    fn suspended(&self, session: SessionId, path: &Path, suspension: &Suspension) {
        self.inner.suspended(session, path, suspension);
    }

    fn text(&self, path: &Path, attempt: u32, piece: &str) {
        self.inner.text(path, attempt, piece);
    }

    fn notice(&self, message: &str) {
        self.inner.notice(message);
    }
}
