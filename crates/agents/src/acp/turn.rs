//! A prompt under way, and a session that is brought back.

use std::time::Duration;

use serde_json::{Value, json};

use super::connection::{Connection, Session, Step};
use super::error::{AcpError, Trouble};
use super::rpc;
use super::update::Update;

/// What comes of a prompt, piece by piece.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The agent reports something.
    Update(Update),
    /// It is done; nothing follows.
    End(Outcome),
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Why it stopped.
    pub stop: Stop,
    /// What it took, if that was said.
    pub tokens: Option<Tokens>,
    /// The whole answer, as it came.
    pub value: Value,
}

/// Why an agent stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// It is done.
    EndTurn,
    /// It may not say more.
    MaxTokens,
    /// It may not ask its model more often.
    MaxTurnRequests,
    /// It does not want to go on.
    Refusal,
    /// It was told to stop.
    Cancelled,
    /// A word that the protocol did not have.
    Unknown(String),
}

/// Tokens, as the agent counts them. Whether `input` has the cached ones in it is the agent's affair.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Read.
    pub input: Option<u64>,
    /// Written.
    pub output: Option<u64>,
    /// Read from a cache.
    pub cached_read: Option<u64>,
    /// Written to a cache.
    pub cached_write: Option<u64>,
    /// Thought.
    pub thought: Option<u64>,
    /// All.
    pub total: Option<u64>,
}

/// A prompt under way. It must be heard to its end before anything else can be asked.
pub struct Turn<'a> {
    connection: &'a mut Connection,
    question: u64,
    session: String,
    until: Duration,
    over: Option<Result<Outcome, AcpError>>,
}

impl<'a> Turn<'a> {
    pub(super) const TRIED: &'static str = "asking it";

    pub(super) fn new(connection: &'a mut Connection, question: u64, session: &str) -> Self {
        let until = connection.link.elapsed() + connection.means.limits.silence;
        Self {
            connection,
            question,
            session: session.to_owned(),
            until,
            over: None,
        }
    }

    /// What comes next; the end again, once it has come. Giving up waiting loses nothing.
    pub async fn next(&mut self) -> Result<Event, AcpError> {
        if let Some(over) = &self.over {
            return over.clone().map(Event::End);
        }
        self.connection.link.is_over()?;
        loop {
            let limits = self.connection.means.limits;
            let limit = if self.connection.cancelled {
                limits.answer
            } else {
                limits.silence
            };
            let (question, until) = (self.question, self.until);
            let step = self
                .connection
                .step(question, &self.session, until, limit)
                .await;
            let step = match step {
                Ok(step) => step,
                Err(trouble) => return Err(self.connection.link.fail(Self::TRIED, trouble).await),
            };
            match step {
                // Only what is of use shows that the agent works.
                Step::Nothing => {}
                Step::Update(update) => {
                    if !self.connection.cancelled {
                        self.until = self.connection.link.elapsed() + limit;
                    }
                    return Ok(Event::Update(update));
                }
                Step::Answer(Err(refusal)) => {
                    let error = self.connection.refused(Self::TRIED, &refusal);
                    return self.over.insert(Err(error)).clone().map(Event::End);
                }
                Step::Answer(Ok(value)) => {
                    let Some(outcome) = Outcome::read(value) else {
                        let why = "its answer does not say why it stopped".to_owned();
                        let trouble = Trouble::Broken(why);
                        return Err(self.connection.link.fail(Self::TRIED, trouble).await);
                    };
                    return self.over.insert(Ok(outcome)).clone().map(Event::End);
                }
            }
        }
    }

    /// Tells the agent to stop. It still has to be heard to its end, for which it has as long as for
    /// an answer; leave is not given any more.
    pub fn cancel(&mut self) {
        if self.over.is_some() || self.connection.cancelled {
            return;
        }
        let notice = rpc::notice("session/cancel", &json!({"sessionId": self.session}));
        // One that does not read will not answer either, and the time for that runs.
        let _ = self.connection.link.say(&notice);
        self.connection.cancelled = true;
        self.until = self.connection.link.elapsed() + self.connection.means.limits.answer;
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
        Some(Self {
            stop,
            tokens,
            value,
        })
    }
}

/// What comes of bringing a session back.
#[derive(Debug, Clone, PartialEq)]
pub enum Replayed {
    /// Something that was reported once before.
    Update(Update),
    /// The session is back; nothing follows.
    Done(Session),
}

/// A session that is brought back. It must be heard to its end before anything else can be asked.
pub struct Replay<'a> {
    connection: &'a mut Connection,
    question: u64,
    session: String,
    until: Duration,
    over: Option<Result<Session, AcpError>>,
}

impl<'a> Replay<'a> {
    pub(super) const TRIED: &'static str = "bringing a session back";

    pub(super) fn new(connection: &'a mut Connection, question: u64, session: &str) -> Self {
        let until = connection.link.elapsed() + connection.means.limits.answer;
        Self {
            connection,
            question,
            session: session.to_owned(),
            until,
            over: None,
        }
    }

    /// What comes next; the end again, once it has come. Giving up waiting loses nothing.
    pub async fn next(&mut self) -> Result<Replayed, AcpError> {
        if let Some(over) = &self.over {
            return over.clone().map(Replayed::Done);
        }
        self.connection.link.is_over()?;
        let limit = self.connection.means.limits.answer;
        loop {
            let (question, until) = (self.question, self.until);
            let step = self
                .connection
                .step(question, &self.session, until, limit)
                .await;
            match step {
                Ok(Step::Nothing) => {}
                Ok(Step::Update(update)) => {
                    self.until = self.connection.link.elapsed() + limit;
                    return Ok(Replayed::Update(update));
                }
                Ok(Step::Answer(Err(refusal))) => {
                    let error = self.connection.forget(&self.session, &refusal);
                    return self.over.insert(Err(error)).clone().map(Replayed::Done);
                }
                Ok(Step::Answer(Ok(value))) => return self.back(value).await,
                Err(trouble) => return Err(self.connection.link.fail(Self::TRIED, trouble).await),
            }
        }
    }

    /// The session that came back must be the one that was asked for, where that is said.
    async fn back(&mut self, value: Value) -> Result<Replayed, AcpError> {
        let said = value.get("sessionId").filter(|id| !id.is_null());
        if said.is_some_and(|id| *id != self.session.as_str()) {
            let trouble = Trouble::Broken("it brought another session back".to_owned());
            return Err(self.connection.link.fail(Self::TRIED, trouble).await);
        }
        let id = self.session.clone();
        let session = self.over.insert(Ok(Session { id, value }));
        session.clone().map(Replayed::Done)
    }
}
