//! A running prompt, and a session that is being loaded.

use std::time::Duration;

use serde_json::{Value, json};

use super::connection::{Connection, Session, Step};
use super::error::{AcpError, Failure};
use super::update::Update;
use crate::json_rpc;

/// The events of a prompt.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    Update(Update),
    /// The turn has ended; nothing follows.
    End(Outcome),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub stop: Stop,
    /// The usage, if the agent reported it.
    pub tokens: Option<Tokens>,
    /// The whole response.
    pub value: Value,
}

/// ACP's `stopReason`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    EndTurn,
    MaxTokens,
    /// The limit of model requests per turn is reached.
    MaxTurnRequests,
    /// The agent refuses to continue.
    Refusal,
    Cancelled,
    /// A value that this version of the protocol does not define.
    Unknown(String),
}

/// Token counts as the agent reports them. Whether `input` includes the cached ones depends on the
/// agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    pub input: Option<u64>,
    pub output: Option<u64>,
    pub cached_read: Option<u64>,
    pub cached_write: Option<u64>,
    pub thought: Option<u64>,
    pub total: Option<u64>,
}

/// A running prompt. Read it to its end before sending another request.
pub struct Turn<'a> {
    connection: &'a mut Connection,
    request_id: u64,
    session: String,
    deadline: Duration,
    ended: Option<Result<Outcome, AcpError>>,
}

impl<'a> Turn<'a> {
    pub(super) const OPERATION: &'static str = "prompting";

    pub(super) fn new(connection: &'a mut Connection, request_id: u64, session: &str) -> Self {
        let deadline = connection.transport.elapsed() + connection.config.limits.silence;
        Self {
            connection,
            request_id,
            session: session.to_owned(),
            deadline,
            ended: None,
        }
    }

    /// The next event; once the turn has ended, the end again. Cancelling this future loses
    /// nothing.
    pub async fn next(&mut self) -> Result<Event, AcpError> {
        if let Some(ended) = &self.ended {
            return ended.clone().map(Event::End);
        }
        self.connection.transport.calls.check_open()?;
        loop {
            let limits = self.connection.config.limits;
            let limit = if self.connection.cancelled {
                limits.answer
            } else {
                limits.silence
            };
            let (request_id, deadline) = (self.request_id, self.deadline);
            let step = self
                .connection
                .step(request_id, &self.session, deadline, limit)
                .await;
            let step = match step {
                Ok(step) => step,
                Err(failure) => {
                    return Err(self
                        .connection
                        .transport
                        .fail(Self::OPERATION, failure)
                        .await);
                }
            };
            match step {
                // Only useful messages show that the agent works.
                Step::Nothing => {}
                Step::Update(update) => {
                    if !self.connection.cancelled {
                        self.deadline = self.connection.transport.elapsed() + limit;
                    }
                    return Ok(Event::Update(update));
                }
                Step::Response(Err(refusal)) => {
                    let error = self.connection.response_error(Self::OPERATION, &refusal);
                    return self.ended.insert(Err(error)).clone().map(Event::End);
                }
                Step::Response(Ok(value)) => {
                    let Some(outcome) = Outcome::read(value) else {
                        let why = "its response has no `stopReason`".to_owned();
                        let failure = Failure::Protocol(why);
                        return Err(self
                            .connection
                            .transport
                            .fail(Self::OPERATION, failure)
                            .await);
                    };
                    return self.ended.insert(Ok(outcome)).clone().map(Event::End);
                }
            }
        }
    }

    /// Sends `session/cancel`. The turn must still be read to its end, for which the agent has
    /// [`Limits::answer`](super::Limits::answer); permission is not granted any more.
    pub fn cancel(&mut self) {
        if self.ended.is_some() || self.connection.cancelled {
            return;
        }
        let notice = json_rpc::notification("session/cancel", &json!({"sessionId": self.session}));
        // An agent that does not read will not respond either; then the timeout applies.
        let _ = self.connection.transport.queue(&notice);
        self.connection.cancelled = true;
        self.deadline = self.connection.transport.elapsed() + self.connection.config.limits.answer;
    }
}

impl Outcome {
    pub(super) fn read(value: Value) -> Option<Self> {
        let stop = match value["stopReason"].as_str()? {
            "end_turn" => Stop::EndTurn,
            "max_tokens" => Stop::MaxTokens,
            "max_turn_requests" => Stop::MaxTurnRequests,
            "refusal" => Stop::Refusal,
            "cancelled" => Stop::Cancelled,
            word => Stop::Unknown(word.to_owned()),
        };
        let usage = &value["usage"];
        let tokens = usage.is_object().then(|| Tokens {
            input: usage["inputTokens"].as_u64(),
            output: usage["outputTokens"].as_u64(),
            cached_read: usage["cachedReadTokens"].as_u64(),
            cached_write: usage["cachedWriteTokens"].as_u64(),
            thought: usage["thoughtTokens"].as_u64(),
            total: usage["totalTokens"].as_u64(),
        });
        // Gemini counts the tokens of a prompt only here.
        let count = &value["_meta"]["quota"]["token_count"];
        let tokens = tokens.or_else(|| {
            count.is_object().then(|| Tokens {
                input: count["input_tokens"].as_u64(),
                output: count["output_tokens"].as_u64(),
                ..Tokens::default()
            })
        });
        Some(Self {
            stop,
            tokens,
            value,
        })
    }
}

/// The events of loading a session.
#[derive(Debug, Clone, PartialEq)]
pub enum Replayed {
    /// A replayed update.
    Update(Update),
    /// The session is loaded; nothing follows.
    Done(Session),
}

/// A session that is being loaded. Read it to its end before sending another request.
pub struct Replay<'a> {
    connection: &'a mut Connection,
    request_id: u64,
    session: String,
    deadline: Duration,
    ended: Option<Result<Session, AcpError>>,
}

impl<'a> Replay<'a> {
    pub(super) const OPERATION: &'static str = "loading a session";

    pub(super) fn new(connection: &'a mut Connection, request_id: u64, session: &str) -> Self {
        let deadline = connection.transport.elapsed() + connection.config.limits.answer;
        Self {
            connection,
            request_id,
            session: session.to_owned(),
            deadline,
            ended: None,
        }
    }

    /// The next event; once the session is loaded, the end again. Cancelling this future loses
    /// nothing.
    pub async fn next(&mut self) -> Result<Replayed, AcpError> {
        if let Some(ended) = &self.ended {
            return ended.clone().map(Replayed::Done);
        }
        self.connection.transport.calls.check_open()?;
        let limit = self.connection.config.limits.answer;
        loop {
            let (request_id, deadline) = (self.request_id, self.deadline);
            let step = self
                .connection
                .step(request_id, &self.session, deadline, limit)
                .await;
            match step {
                Ok(Step::Nothing) => {}
                Ok(Step::Update(update)) => {
                    self.deadline = self.connection.transport.elapsed() + limit;
                    return Ok(Replayed::Update(update));
                }
                Ok(Step::Response(Err(refusal))) => {
                    let error = self.connection.drop_session(&self.session, &refusal);
                    return self.ended.insert(Err(error)).clone().map(Replayed::Done);
                }
                Ok(Step::Response(Ok(value))) => return self.finish(value).await,
                Err(failure) => {
                    return Err(self
                        .connection
                        .transport
                        .fail(Self::OPERATION, failure)
                        .await);
                }
            }
        }
    }

    /// If the response names a session, it must be the requested one.
    async fn finish(&mut self, value: Value) -> Result<Replayed, AcpError> {
        let said = value.get("sessionId").filter(|id| !id.is_null());
        if said.is_some_and(|id| *id != self.session.as_str()) {
            let failure = Failure::Protocol("it loaded another session".to_owned());
            return Err(self
                .connection
                .transport
                .fail(Self::OPERATION, failure)
                .await);
        }
        let id = self.session.clone();
        let session = self.ended.insert(Ok(Session { id, value }));
        session.clone().map(Replayed::Done)
    }
}
