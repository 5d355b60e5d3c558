//! Parses the stream of JSON lines that Claude Code writes to its stdout.
//!
//! A `result` is not the end: background work may bring another turn and another result. The stream
//! ends with the process; the last result and the exit code together decide whether it succeeded.

use std::collections::BTreeSet;
use std::time::Duration;

use segno_core::agent::{Answer, Error, ErrorKind, Event, Listener, Refusal, RefusalReason};
use segno_core::conversation::{ConversationItem, ItemContent, Thread, Tokens};
use segno_core::ports::Clock;
use segno_core::usage::{ContextUsage, Cost, RunReport, Usage};
use serde_json::Value;

use super::window::Window;
use crate::command::output::Line;
use crate::program::{
    Damaged, count_lines, duration_until, kind_of_status, parse_record, wrong_conversation,
};
use crate::transcript::claude_code::entries;
use crate::transcript::{Facts, Object, text};

/// Folds the lines of one process into an answer.
pub(super) struct Stream<'a> {
    /// The session that the process must use.
    expected: &'a str,
    listener: &'a dyn Listener,
    clock: &'a dyn Clock,
    facts: Facts,
    /// The model's name as the program reports it: more exact than the model's own name for itself.
    model: Option<String>,
    id_reported: bool,
    /// The usage that results reported.
    reported_usage: Usage,
    /// The visible usage of messages since the last result.
    pending_usage: Usage,
    /// What the conversation had cost before the next result; `None` if that is unknown.
    cost_before: Option<Cost>,
    /// Why the process may be refused a tool.
    refusal: RefusalReason,
    /// The refused calls that were reported.
    refused: BTreeSet<String>,
    /// The message that was counted last.
    last_counted: Option<String>,
    context_usage: Option<ContextUsage>,
    window: Window,
    /// The last result.
    last: Option<Object>,
    /// When a reached limit resets, in seconds since 1970.
    resets_at: Option<u64>,
    /// Unreadable records since the last result.
    lost: u64,
}

/// What is known of a session before its process starts.
#[derive(Clone, Copy)]
pub(super) struct SessionInfo<'a> {
    /// The session that the process must use.
    pub(super) id: &'a str,
    pub(super) window: Window,
    /// What it has cost; `None` if that is unknown.
    pub(super) cost: Option<Cost>,
    /// Why the process may be refused a tool.
    pub(super) refusal: RefusalReason,
}

impl<'a> Stream<'a> {
    pub(super) fn new(
        info: SessionInfo<'a>,
        listener: &'a dyn Listener,
        clock: &'a dyn Clock,
    ) -> Self {
        Self {
            expected: info.id,
            listener,
            clock,
            facts: Facts::default(),
            model: None,
            id_reported: false,
            reported_usage: Usage::default(),
            pending_usage: Usage::default(),
            cost_before: info.cost,
            refusal: info.refusal,
            refused: BTreeSet::new(),
            last_counted: None,
            context_usage: None,
            window: info.window,
            last: None,
            resets_at: None,
            lost: 0,
        }
    }

    pub(super) fn line(&mut self, line: Line<'_>) -> Result<(), Error> {
        let record = match parse_record(line) {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(()),
            Err(Damaged) => {
                self.lost += 1;
                return Ok(());
            }
        };
        self.check_session_id(&record)?;
        match text(&record, "type") {
            Some("assistant" | "user") => self.report_entries(&record),
            Some("system") => self.system(&record),
            Some("rate_limit_event") => self.rate_limit(&record),
            Some("result") => self.result(record),
            // Records of other versions, and records that do not matter.
            _ => {}
        }
        Ok(())
    }

    /// Checks the session id, which every record has.
    fn check_session_id(&mut self, record: &Object) -> Result<(), Error> {
        let kind = text(record, "type");
        // The error for a session that is not found has another session id.
        let is_error = record.get("is_error") == Some(&Value::Bool(true));
        let failed = kind == Some("result") && is_error && !self.id_reported;
        let Some(reported) = text(record, "session_id") else {
            let has_content = matches!(kind, Some("assistant" | "user" | "result"));
            if has_content && !self.id_reported {
                let message = "claude did not report its conversation id";
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            return Ok(());
        };
        if reported != self.expected && !failed {
            return Err(wrong_conversation("claude", self.expected, reported));
        }
        if !self.id_reported && !failed {
            self.id_reported = true;
            self.listener.on_event(Event::ConversationId(reported));
        }
        Ok(())
    }

    fn report_entries(&mut self, record: &Object) {
        let thread = match text(record, "parent_tool_use_id") {
            Some(call) => Thread::Agent(call.to_owned()),
            None => Thread::Main,
        };
        for entry in entries(record, &mut self.facts) {
            let entry = ConversationItem {
                thread: thread.clone(),
                ..entry
            };
            if let ItemContent::Assistant { message, usage, .. } = &entry.content {
                self.count(message.as_deref(), *usage, &entry.thread);
            }
            self.listener.on_event(Event::Item(&entry));
        }
    }

    /// Counts a message once, though it comes in several records. Its output tokens are known only
    /// from the result.
    fn count(&mut self, message: Option<&str>, usage: Option<Tokens>, thread: &Thread) {
        let Some(tokens) = usage else { return };
        if message.is_none() || message != self.last_counted.as_deref() {
            self.pending_usage += Usage::from(tokens);
            self.last_counted = message.map(str::to_owned);
            self.listener
                .on_event(Event::Usage(self.reported_usage + self.pending_usage));
        }
        if *thread == Thread::Main {
            self.context_usage(ContextUsage {
                used: tokens.sum(),
                window: self.window.size_for(self.model()),
            });
        }
    }

    fn model(&self) -> Option<&str> {
        self.model.as_deref().or(self.facts.model.as_deref())
    }

    fn context_usage(&mut self, context_usage: ContextUsage) {
        if self.context_usage != Some(context_usage) {
            self.context_usage = Some(context_usage);
            self.listener.on_event(Event::Context(context_usage));
        }
    }

    fn system(&mut self, record: &Object) {
        match text(record, "subtype") {
            Some("compact_boundary") => self.report_entries(record),
            Some("init") => self.model = text(record, "model").map(str::to_owned),
            Some("api_retry") => {
                let number = |key| record.get(key).and_then(Value::as_u64);
                let status = number("error_status").map(|status| format!(" ({status})"));
                let wait = Duration::from_millis(number("retry_delay_ms").unwrap_or_default());
                let notice = format!(
                    "claude retries in {}: {}{}",
                    segno_core::time::format_duration(wait),
                    text(record, "error").unwrap_or("its API call failed"),
                    status.unwrap_or_default()
                );
                self.listener.on_event(Event::Notice(&notice));
            }
            _ => {}
        }
    }

    fn rate_limit(&mut self, record: &Object) {
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
        // A session that was not found has no usage.
        if self.id_reported {
            self.report_run(&record);
            self.report_denials(&record);
        }
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
        self.window.reported = window.or(self.window.reported);
        if let Some(context_usage) = self.context_usage {
            self.context_usage(ContextUsage {
                window: self.window.size_for(self.model()),
                ..context_usage
            });
        }
        self.last = Some(record);
        self.lost = 0;
    }

    /// Reports the usage since the last result, and what the result says about the run.
    fn report_run(&mut self, record: &Object) {
        let total = record.get("total_cost_usd").and_then(Value::as_f64);
        let total = total.and_then(Cost::from_usd);
        let models = record
            .get("model_usage_since_last_result")
            .and_then(Value::as_object);
        if let Some(models) = models {
            for of in models.values() {
                self.reported_usage += usage_of_model(of);
            }
            self.pending_usage = Usage::default();
        } else {
            if let Some(usage) = record.get("usage").and_then(tokens) {
                self.reported_usage += usage;
                self.pending_usage = Usage::default();
            }
            // The total includes earlier runs. Without the cost of those, that of this run is unknown.
            if let (Some(total), Some(before)) = (total, self.cost_before) {
                let cost = total.0.checked_sub(before.0).unwrap_or(total.0);
                self.reported_usage += Usage {
                    cost: Cost(cost),
                    ..Usage::default()
                };
            }
        }
        self.cost_before = total.max(self.cost_before);
        self.listener
            .on_event(Event::Usage(self.reported_usage + self.pending_usage));
        let number = |key| record.get(key).and_then(Value::as_u64);
        self.listener.on_event(Event::Report(RunReport {
            turns: number("num_turns"),
            duration_ms: number("duration_ms"),
            conversation_cost: self.cost_before,
        }));
    }

    /// Reports the tools that the program refused since the last result. It tells the model, and
    /// succeeds.
    fn report_denials(&mut self, record: &Object) {
        let denials = record.get("permission_denials").and_then(Value::as_array);
        for denial in denials.into_iter().flatten() {
            let call = denial.get("tool_use_id").and_then(Value::as_str);
            if call.is_some_and(|call| !self.refused.insert(call.to_owned())) {
                continue;
            }
            let tool = denial.get("tool_name").and_then(Value::as_str);
            let tool = tool.unwrap_or("a tool without a name");
            self.listener.on_event(Event::Refused(Refusal {
                tool,
                reason: self.refusal,
            }));
        }
    }

    /// The answer, once the process has ended. `exit_error` is the error of its exit status.
    pub(super) fn finish(self, exit_error: Option<Error>) -> Result<Answer, Error> {
        let Some(last) = &self.last else {
            return Err(exit_error.unwrap_or_else(|| {
                let lost = match self.lost {
                    0 => String::new(),
                    count => format!(" ({} cannot be read)", count_lines(count)),
                };
                let message = format!("claude exited without a result{lost}");
                Error::new(ErrorKind::Crashed, message)
            }));
        };
        let succeeded = last.get("is_error") == Some(&Value::Bool(false))
            && text(last, "subtype").is_none_or(|subtype| subtype == "success");
        let Some(answer) = text(last, "result").filter(|_| succeeded) else {
            return Err(self.failure(last, exit_error));
        };
        if let Some(exit_error) = exit_error {
            return Err(exit_error);
        }
        // A lost line may have held another result.
        if self.lost > 0 {
            let lost = count_lines(self.lost);
            let message = format!("claude exited, and {lost} after its result cannot be read");
            return Err(Error::new(ErrorKind::Crashed, message));
        }
        Ok(Answer {
            text: answer.to_owned(),
            usage: self.reported_usage + self.pending_usage,
        })
    }

    fn failure(&self, last: &Object, exit_error: Option<Error>) -> Error {
        let first = last.get("errors").and_then(|errors| errors.get(0));
        let reported = text(last, "result")
            .or_else(|| first.and_then(Value::as_str))
            .unwrap_or_default();
        let message = crate::command::output::escape_controls(reported);
        let reason = text(last, "terminal_reason");
        let status = last.get("api_error_status").and_then(Value::as_u64);
        let wait = self.resets_at.or_else(|| parse_reset(reported));
        let wait = wait.map(|at| duration_until(self.clock, at));
        let kind = if reported.starts_with("No conversation found") {
            ErrorKind::NoConversation
        } else {
            match (reason, status) {
                (Some("prompt_too_long"), _) => ErrorKind::ContextFull,
                (Some("max_turns" | "budget_exhausted"), _) => ErrorKind::Invalid,
                (_, Some(status)) => kind_of_status(status, wait),
                _ if wait.is_some() => ErrorKind::RateLimited(wait),
                (Some("api_error"), None) if reported.starts_with("API Error") => {
                    ErrorKind::Network
                }
                (Some("api_error"), None) => ErrorKind::Auth,
                // Interrupted from outside.
                (Some(reason), _) if reason.starts_with("aborted_") => ErrorKind::Crashed,
                _ if exit_error.is_some() => ErrorKind::Crashed,
                _ => ErrorKind::Unknown,
            }
        };
        let reason = reason.or_else(|| text(last, "subtype"));
        match (exit_error, reason) {
            (Some(exit_error), _) if message.is_empty() => exit_error,
            (None, Some(reason)) if message.is_empty() => {
                let reason = crate::command::output::escape_controls(reason);
                Error::new(kind, format!("claude gave no answer: {reason}"))
            }
            _ => Error::new(kind, format!("claude: {message}")),
        }
    }
}

/// The tokens of a result; `None` if it has none.
fn tokens(usage: &Value) -> Option<Usage> {
    let number = |key| usage.get(key).and_then(Value::as_u64).unwrap_or_default();
    let tokens = Tokens {
        input: number("input_tokens"),
        cache_read: number("cache_read_input_tokens"),
        cache_write: number("cache_creation_input_tokens"),
        output: number("output_tokens"),
    };
    (tokens != Tokens::default()).then(|| tokens.into())
}

/// The usage of one model.
fn usage_of_model(of: &Value) -> Usage {
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

/// Parses the reset time from `… limit reached|1763280000`.
fn parse_reset(reported: &str) -> Option<u64> {
    let (words, seconds) = reported.rsplit_once('|')?;
    words
        .contains("limit")
        .then(|| seconds.trim().parse().ok())?
}
