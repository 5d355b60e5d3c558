//! A user message, and the answer to it.

use std::sync::{Mutex, PoisonError};

use segno_core::agent::AccessMode;
use segno_core::journal::{Ending, Event, ExchangeEnded, Head, Seq};
use segno_core::session::Status;
use segno_core::step::Path;

use super::Audience;
use super::log::{Log, Tally};
use crate::error::Error;
use crate::steps::chat::Past;
use crate::steps::{Input, Question, Runner};

/// A message that is being answered.
pub struct Exchange {
    pub path: Path,
    pub agent: String,
    /// The model that answers, if the spec names it.
    pub model: Option<String>,
    pub message: String,
    /// The conversation before the message.
    pub past: Past,
    /// How often the model may reply.
    pub max_turns: u32,
    /// The head of the journal before the message.
    pub since: Head,
    /// Who waits for the answer.
    pub audience: Audience,
    /// How the exchange ended.
    pub ending: Mutex<Ending>,
}

impl Exchange {
    /// The session's status after the answer.
    pub fn idle_status(&self) -> Status {
        self.audience.idle_status()
    }

    /// Records that the model has replied as often as it may.
    pub(crate) fn set_turn_limit_reached(&self) {
        *self.ending.lock().unwrap_or_else(PoisonError::into_inner) = Ending::MaxTurns;
    }

    /// Runs the step that answers the message.
    pub async fn run(&self, runner: &Runner) -> Result<String, Error> {
        let question = Question {
            path: self.path.clone(),
            agent: &self.agent,
            input: Input::Text(self.message.clone()),
            scope: &runner.rendering.scope,
            tools: None,
            access: AccessMode::ReadWrite,
        };
        let answer = runner.run_step(question).await?;
        Ok(runner.text(answer).await?.to_string())
    }

    /// The event that is journaled together with the answer.
    pub(crate) async fn ended_event(&self, runner: &Runner) -> ExchangeEnded {
        let ending = *self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tally = self.tally(runner).await;
        // The model's last reply is not journaled yet; at the turn limit it is.
        tally.replies += u64::from(!tally.from_cli_agent && ending == Ending::EndTurn);
        self.build_ended(ending, tally)
    }

    /// The event for a user who no longer wants the answer.
    pub(crate) async fn stopped_event(&self, runner: &Runner) -> Event {
        let tally = self.tally(runner).await;
        self.build_ended(Ending::Stopped, tally).into()
    }

    /// Counts what was said for the message so far. An error in counting must not lose an answer.
    async fn tally(&self, runner: &Runner) -> Tally {
        if runner.journal.flush().await.is_err() {
            return Tally::default();
        }
        let read = Log::read(&runner.env, runner.id.session, self.since, Seq(0), None).await;
        read.map(|log| log.tally).unwrap_or_default()
    }

    fn build_ended(&self, ending: Ending, tally: Tally) -> ExchangeEnded {
        ExchangeEnded {
            path: self.path.clone(),
            ending,
            replies: tally.replies,
            tool_calls: tally.tool_calls,
            model: tally.model.or_else(|| self.model.clone()),
        }
    }
}
