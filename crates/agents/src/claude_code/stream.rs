//! What Claude Code writes to its stdout, line by line, as it works.
//!
//! A `result` is not the end: work in the background may bring another turn and another result. The
//! end is the end of the process, and whether it went well is said by the last result and the exit
//! code together.

use std::time::Duration;

use segno_core::agent::{Answer, Error, ErrorKind, Event, Listener};
use segno_core::companion::Gauge;
use segno_core::conversation::{Entry, Said, Thread, Tokens};
use segno_core::ports::Clock;
use segno_core::usage::{Cost, Usage};
use serde_json::Value;

use super::transcript;
use super::window::Window;
use crate::command::output::Line;
use crate::program::{Damaged, another, kind_of_status, lines, record, until};
use crate::transcript::{Facts, Object, text};

/// Folds the lines of one process.
pub(super) struct Stream<'a> {
    /// The conversation that it is to be.
    expected: &'a str,
    listener: &'a dyn Listener,
    clock: &'a dyn Clock,
    facts: Facts,
    /// The model, as the program calls it: more exactly than what the model calls itself.
    model: Option<String>,
    named: bool,
    /// What results told of.
    settled: Usage,
    /// What messages since the last result took, as far as it can be seen.
    open: Usage,
    /// The message that was counted last.
    counted: Option<String>,
    gauge: Option<Gauge>,
    window: Window,
    /// The last result.
    last: Option<Object>,
    /// When a limit is lifted that was run into, in seconds since 1970.
    resets_at: Option<u64>,
    /// Records since the last result that cannot be read.
    lost: u64,
}

impl<'a> Stream<'a> {
    pub(super) fn new(
        expected: &'a str,
        window: Window,
        listener: &'a dyn Listener,
        clock: &'a dyn Clock,
    ) -> Self {
        Self {
            expected,
            listener,
            clock,
            facts: Facts::default(),
            model: None,
            named: false,
            settled: Usage::default(),
            open: Usage::default(),
            counted: None,
            gauge: None,
            window,
            last: None,
            resets_at: None,
            lost: 0,
        }
    }

    /// Takes the next line.
    pub(super) fn line(&mut self, line: Line<'_>) -> Result<(), Error> {
        let record = match record(line) {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(()),
            Err(Damaged) => {
                self.lost += 1;
                return Ok(());
            }
        };
        self.check_name(&record)?;
        match text(&record, "type") {
            Some("assistant" | "user") => self.said(&record),
            Some("system") => self.system(&record),
            Some("rate_limit_event") => self.limit(&record),
            Some("result") => self.result(record),
            // What another version may tell, and what does not matter.
            _ => {}
        }
        Ok(())
    }

    /// Every record names its conversation.
    fn check_name(&mut self, record: &Object) -> Result<(), Error> {
        let sort = text(record, "type");
        // A conversation that is not found is told of under a name of its own.
        let is_error = record.get("is_error") == Some(&Value::Bool(true));
        let failed = sort == Some("result") && is_error && !self.named;
        let Some(told) = text(record, "session_id") else {
            let speaks = matches!(sort, Some("assistant" | "user" | "result"));
            if speaks && !self.named {
                let message = "claude did not say which conversation it uses";
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            return Ok(());
        };
        if told != self.expected && !failed {
            return Err(another("claude", self.expected, told));
        }
        if !self.named && !failed {
            self.named = true;
            self.listener.hear(Event::Native(told));
        }
        Ok(())
    }

    fn said(&mut self, record: &Object) {
        let thread = match text(record, "parent_tool_use_id") {
            Some(call) => Thread::Agent(call.to_owned()),
            None => Thread::Main,
        };
        for entry in transcript::entries(record, &mut self.facts) {
            let entry = Entry {
                thread: thread.clone(),
                ..entry
            };
            if let Said::Assistant { message, usage, .. } = &entry.said {
                self.count(message.as_deref(), *usage, &entry.thread);
            }
            self.listener.hear(Event::Said(&entry));
        }
    }

    /// Counts a message once, though it comes in several records. What it wrote is not known before
    /// the result.
    fn count(&mut self, message: Option<&str>, usage: Option<Tokens>, thread: &Thread) {
        let Some(tokens) = usage else { return };
        if message.is_none() || message != self.counted.as_deref() {
            self.open += Usage::from(tokens);
            self.counted = message.map(str::to_owned);
            self.listener.hear(Event::Usage(self.settled + self.open));
        }
        if *thread == Thread::Main {
            self.gauge(Gauge {
                used: tokens.sum(),
                window: self.window.of(self.model()),
            });
        }
    }

    fn model(&self) -> Option<&str> {
        self.model.as_deref().or(self.facts.model.as_deref())
    }

    fn gauge(&mut self, gauge: Gauge) {
        if self.gauge != Some(gauge) {
            self.gauge = Some(gauge);
            self.listener.hear(Event::Context(gauge));
        }
    }

    fn system(&mut self, record: &Object) {
        match text(record, "subtype") {
            Some("compact_boundary") => self.said(record),
            Some("init") => self.model = text(record, "model").map(str::to_owned),
            Some("api_retry") => {
                let number = |key| record.get(key).and_then(Value::as_u64);
                let status = number("error_status").map(|status| format!(" ({status})"));
                let wait = Duration::from_millis(number("retry_delay_ms").unwrap_or_default());
                let notice = format!(
                    "claude tries again in {}: {}{}",
                    segno_core::time::human(wait),
                    text(record, "error").unwrap_or("its call failed"),
                    status.unwrap_or_default()
                );
                self.listener.hear(Event::Notice(&notice));
            }
            _ => {}
        }
    }

    fn limit(&mut self, record: &Object) {
        let info = record.get("rate_limit_info");
        let rejected = info.and_then(|info| info.get("status")) == Some(&Value::from("rejected"));
        if let Some(at) = info
            .and_then(|info| info.get("resetsAt"))
            .and_then(Value::as_u64)
            && rejected
        {
            self.resets_at = Some(at);
        }
    }

    fn result(&mut self, record: Object) {
        let models = record
            .get("model_usage_since_last_result")
            .and_then(Value::as_object);
        if let Some(models) = models {
            for of in models.values() {
                self.settled += used(of);
            }
            self.open = Usage::default();
        }
        self.listener.hear(Event::Usage(self.settled + self.open));
        let windows = record.get("modelUsage").and_then(Value::as_object);
        let names = [self.model.as_deref(), self.facts.model.as_deref()];
        let window = windows.and_then(|models| {
            let own = names
                .into_iter()
                .flatten()
                .find_map(|name| models.get(name));
            own.or_else(|| models.values().next())?
                .get("contextWindow")?
                .as_u64()
        });
        self.window.told = window.or(self.window.told);
        if let Some(gauge) = self.gauge {
            self.gauge(Gauge {
                window: self.window.of(self.model()),
                ..gauge
            });
        }
        self.last = Some(record);
        self.lost = 0;
    }

    /// The answer, once the process has ended: `trouble` is what its end alone says.
    pub(super) fn finish(self, trouble: Option<Error>) -> Result<Answer, Error> {
        let Some(last) = &self.last else {
            return Err(trouble.unwrap_or_else(|| {
                let lost = match self.lost {
                    0 => String::new(),
                    count => format!(" ({} cannot be read)", lines(count)),
                };
                let message = format!("claude ended without a result{lost}");
                Error::new(ErrorKind::Crashed, message)
            }));
        };
        let well = last.get("is_error") == Some(&Value::Bool(false))
            && text(last, "subtype").is_none_or(|subtype| subtype == "success");
        let Some(answer) = text(last, "result").filter(|_| well) else {
            return Err(self.failure(last, trouble));
        };
        if let Some(trouble) = trouble {
            return Err(trouble);
        }
        // Another result may have been in what was lost.
        if self.lost > 0 {
            let lost = lines(self.lost);
            let message = format!("claude ended, and {lost} after its result cannot be read");
            return Err(Error::new(ErrorKind::Crashed, message));
        }
        Ok(Answer {
            text: answer.to_owned(),
            usage: self.settled + self.open,
        })
    }

    fn failure(&self, last: &Object, trouble: Option<Error>) -> Error {
        let first = last.get("errors").and_then(|errors| errors.get(0));
        let told = text(last, "result")
            .or_else(|| first.and_then(Value::as_str))
            .unwrap_or_default();
        let message = crate::command::output::harmless(told);
        let reason = text(last, "terminal_reason");
        let status = last.get("api_error_status").and_then(Value::as_u64);
        let wait = self.resets_at.or_else(|| reset_in(told));
        let wait = wait.map(|at| until(self.clock, at));
        let kind = if told.starts_with("No conversation found") {
            ErrorKind::NotFound
        } else {
            match (reason, status) {
                (Some("prompt_too_long"), _) => ErrorKind::ContextFull,
                (Some("max_turns" | "budget_exhausted"), _) => ErrorKind::Invalid,
                (_, Some(status)) => kind_of_status(status, wait),
                _ if wait.is_some() => ErrorKind::RateLimited(wait),
                (Some("api_error"), None) if told.starts_with("API Error") => ErrorKind::Network,
                (Some("api_error"), None) => ErrorKind::Auth,
                // Broken off from outside, or for a reason that is not known here.
                _ => ErrorKind::Crashed,
            }
        };
        let reason = reason.or_else(|| text(last, "subtype"));
        match (trouble, reason) {
            (Some(trouble), _) if message.is_empty() => trouble,
            (None, Some(reason)) if message.is_empty() => {
                let reason = crate::command::output::harmless(reason);
                Error::new(kind, format!("claude gave no answer: {reason}"))
            }
            _ => Error::new(kind, format!("claude: {message}")),
        }
    }
}

/// What one model took.
fn used(of: &Value) -> Usage {
    let number = |key| of.get(key).and_then(Value::as_u64).unwrap_or_default();
    let tokens = Tokens {
        input: number("inputTokens"),
        cache_read: number("cacheReadInputTokens"),
        cache_write: number("cacheCreationInputTokens"),
        output: number("outputTokens"),
    };
    let cost = of.get("costUSD").and_then(Value::as_f64);
    Usage {
        cost: cost.and_then(Cost::from_usd).unwrap_or_default(),
        ..Usage::from(tokens)
    }
}

/// `… limit reached|1763280000`: when it is lifted.
fn reset_in(told: &str) -> Option<u64> {
    let (words, moment) = told.rsplit_once('|')?;
    words
        .contains("limit")
        .then(|| moment.trim().parse().ok())?
}
