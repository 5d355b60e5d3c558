//! Parses a script. All checks happen here, once, so that answering cannot fail because of the
//! script.

use std::time::Duration;

use segno_core::agent::{Error, ErrorKind, Request};
use segno_core::step::Path;
use segno_core::usage::{Cost, Usage};
use serde::Deserialize;

/// The longest answer that `repeat` makes, in bytes.
const REPEAT_LIMIT: usize = 64 << 20;

/// What a scripted agent answers, and when.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    ledger: Option<String>,
    default: Option<Fallback>,
    #[serde(default)]
    answers: Vec<Entry>,
}

/// Why a text is not a script: the position and the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ScriptError(String);

impl Script {
    /// Parses YAML or JSON.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        serde_saphyr::from_str(text)
            .map_err(|error| ScriptError(error.without_snippet().to_string()))
    }

    /// The ledger's path as written in the script; the caller resolves relative paths.
    pub fn ledger(&self) -> Option<&str> {
        self.ledger.as_deref()
    }

    pub(super) fn find(&self, request: &Request<'_>) -> Option<&Entry> {
        self.answers
            .iter()
            .find(|entry| entry.matches(request))
            .or(self.default.as_ref().map(|Fallback(entry)| entry))
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "RawEntry")]
pub(super) struct Entry {
    step: Option<Path>,
    agent: Option<String>,
    contains: Option<String>,
    fail: Option<Fail>,
    pub(super) text: String,
    pub(super) delay: Duration,
    pub(super) usage: Option<Usage>,
}

impl Entry {
    fn matches(&self, request: &Request<'_>) -> bool {
        self.step.as_ref().is_none_or(|step| step == request.path)
            && self.agent.as_ref().is_none_or(|name| name == request.agent)
            && self
                .contains
                .as_ref()
                .is_none_or(|part| request.input.contains(part.as_str()))
    }

    /// The error of this attempt, if the entry makes it fail.
    pub(super) fn failure(&self, attempt: u32) -> Option<Error> {
        let fail = self.fail.as_ref()?;
        fail.attempts
            .is_none_or(|attempts| attempt <= attempts)
            .then(|| Error::new(fail.kind, fail.message.as_str()))
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Entry")]
struct Fallback(Entry);

impl TryFrom<Entry> for Fallback {
    type Error = &'static str;

    fn try_from(entry: Entry) -> Result<Self, Self::Error> {
        if entry.step.is_some() || entry.agent.is_some() || entry.contains.is_some() {
            return Err("`default` takes no conditions (`step`, `agent`, `contains`)");
        }
        Ok(Self(entry))
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "RawFail")]
struct Fail {
    kind: ErrorKind,
    message: String,
    attempts: Option<u32>,
}

/// An entry as it is written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    step: Option<Path>,
    agent: Option<String>,
    contains: Option<String>,
    text: Option<String>,
    repeat: Option<Repeat>,
    #[serde(default)]
    delay_ms: u64,
    usage: Option<RawUsage>,
    fail: Option<Fail>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Repeat {
    text: String,
    bytes: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct RawUsage {
    input_tokens: u64,
    output_tokens: u64,
    cost_usd: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFail {
    kind: KindName,
    #[serde(default)]
    message: String,
    attempts: Option<u32>,
    retry_after_ms: Option<u64>,
}

/// The names of [`ErrorKind::as_str`].
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum KindName {
    RateLimited,
    Auth,
    ContextFull,
    NotFound,
    Invalid,
    Network,
    Server,
    Crashed,
    Timeout,
    Unknown,
}

impl TryFrom<RawEntry> for Entry {
    type Error = &'static str;

    fn try_from(raw: RawEntry) -> Result<Self, Self::Error> {
        let always_fails = raw.fail.as_ref().is_some_and(|f| f.attempts.is_none());
        let text = match (raw.text, raw.repeat) {
            (Some(text), None) => text,
            (None, Some(repeat)) => repeat.build()?,
            (None, None) if always_fails => String::new(),
            (None, None) => return Err("an answer needs `text` or `repeat`"),
            (Some(_), Some(_)) => return Err("an answer cannot have both `text` and `repeat`"),
        };
        let usage = match raw.usage {
            None => None,
            Some(usage) => Some(Usage {
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                cost: Cost::from_usd(usage.cost_usd).ok_or("`cost_usd` is not a valid amount")?,
            }),
        };
        Ok(Self {
            step: raw.step,
            agent: raw.agent,
            contains: raw.contains,
            fail: raw.fail,
            text,
            delay: Duration::from_millis(raw.delay_ms),
            usage,
        })
    }
}

impl Repeat {
    fn build(&self) -> Result<String, &'static str> {
        if self.text.is_empty() || self.bytes > REPEAT_LIMIT {
            return Err("`repeat` needs a text, and yields at most 64 MiB");
        }
        let mut text = self.text.repeat(self.bytes.div_ceil(self.text.len()));
        text.truncate(text.floor_char_boundary(self.bytes));
        Ok(text)
    }
}

impl TryFrom<RawFail> for Fail {
    type Error = &'static str;

    fn try_from(raw: RawFail) -> Result<Self, Self::Error> {
        let kind = match raw.kind {
            KindName::RateLimited => {
                ErrorKind::RateLimited(raw.retry_after_ms.map(Duration::from_millis))
            }
            _ if raw.retry_after_ms.is_some() => {
                return Err("`retry_after_ms` is only valid with `rate_limited`");
            }
            KindName::Auth => ErrorKind::Auth,
            KindName::ContextFull => ErrorKind::ContextFull,
            KindName::NotFound => ErrorKind::NotFound,
            KindName::Invalid => ErrorKind::Invalid,
            KindName::Network => ErrorKind::Network,
            KindName::Server => ErrorKind::Server,
            KindName::Crashed => ErrorKind::Crashed,
            KindName::Timeout => ErrorKind::Timeout,
            KindName::Unknown => ErrorKind::Unknown,
        };
        let message = if raw.message.is_empty() {
            format!("scripted failure: {}", kind.as_str())
        } else {
            raw.message
        };
        Ok(Self {
            kind,
            message,
            attempts: raw.attempts,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_errors_name_the_line() {
        for (text, line, reason) in [
            ("answers:\n  - txet: a\n", 2, "txet"),
            (
                "answers:\n  - agent: a\n    delay_ms: 1\n",
                2,
                "`text` or `repeat`",
            ),
            ("default:\n  text: a\n  step: steps/0\n", 2, "no conditions"),
            (
                "answers:\n  - text: a\n    step: a b\n",
                3,
                "not a step path",
            ),
            (
                "answers:\n  - text: a\n    usage: {cost_usd: -1}\n",
                2,
                "valid amount",
            ),
            ("answers:\n  - fail: {kind: angry}\n", 2, "angry"),
            (
                "answers:\n  - fail: {kind: auth, retry_after_ms: 1}\n",
                2,
                "only valid with `rate_limited`",
            ),
            (
                "answers:\n  - repeat: {text: \"\", bytes: 1}\n",
                2,
                "needs a text",
            ),
            ("{\"answers\": [\n{\"text\": 1\n", 2, "unclosed"),
        ] {
            let message = Script::parse(text).unwrap_err().to_string();
            assert!(
                message.contains(&format!("line {line}")),
                "{text}: {message}"
            );
            assert!(message.contains(reason), "{text}: {message}");
        }
    }

    #[test]
    fn json_and_empty_scripts_are_accepted() {
        let script = Script::parse(r#"{"ledger": "calls.log", "answers": [{"text": "a\nb"}]}"#);
        let script = script.unwrap();
        assert_eq!(script.ledger(), Some("calls.log"));
        assert_eq!(script.answers[0].text, "a\nb");
        assert!(Script::parse("{}").unwrap().answers.is_empty());
    }

    #[test]
    fn repeated_text_has_the_requested_length() {
        let text = |yaml: &str| Script::parse(yaml).unwrap().answers[0].text.clone();
        assert_eq!(text("answers: [{repeat: {text: ab, bytes: 5}}]"), "ababa");
        assert_eq!(text("answers: [{repeat: {text: é, bytes: 5}}]"), "éé");
    }
}
