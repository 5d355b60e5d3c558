//! A message of the person, and the answer to it.

use std::sync::{Mutex, PoisonError};

use segno_core::agent::Conduct;
use segno_core::conversation::Entry;
use segno_core::journal::{Ending, Event, ExchangeEnded, Head, Seq};
use segno_core::session::Status;
use segno_core::state::Native;
use segno_core::step::Path;

use super::Audience;
use super::log::{Log, Tally};
use crate::error::Error;
use crate::flow::{Flow, Input, Question};

/// A message that is being answered.
pub struct Exchange {
    /// Its step.
    pub(crate) path: Path,
    /// Who is asked.
    pub(crate) agent: String,
    /// The model that answers, if the spec names it.
    pub(crate) model: Option<String>,
    /// What the person said.
    pub(crate) message: String,
    /// What was said before.
    pub(crate) past: Past,
    /// How often the model may answer.
    pub(crate) max_turns: u32,
    /// Where the journal ended before the message.
    pub(crate) since: Head,
    /// Who waits for the answer.
    pub(crate) audience: Audience,
    /// How it ended.
    pub(crate) ending: Mutex<Ending>,
}

/// What was said in a chat before a message, as far as it counts.
#[derive(Default)]
pub(crate) struct Past {
    /// What was said, oldest first.
    pub(crate) entries: Vec<Entry>,
    /// From where on it was said in the newest conversation of an agent's program.
    pub(crate) own: usize,
    /// That conversation, if there is one.
    pub(crate) native: Option<Native>,
}

impl Exchange {
    /// Where the session stands when the message is answered.
    pub(crate) fn rest(&self) -> Status {
        self.audience.rest()
    }

    /// The model has answered as often as it may.
    pub(crate) fn reach_the_limit(&self) {
        *self.ending.lock().unwrap_or_else(PoisonError::into_inner) = Ending::MaxTurns;
    }

    /// Has the message answered.
    pub(crate) async fn perform(&self, flow: &Flow) -> Result<String, Error> {
        let question = Question {
            path: self.path.clone(),
            agent: &self.agent,
            input: Input::Words(self.message.clone()),
            scope: &flow.scope,
            tools: None,
            conduct: Conduct::Work,
        };
        let answer = flow.ask_once(question).await?;
        Ok(flow.text(answer).await?.to_string())
    }

    /// What is written down together with the answer.
    pub(crate) async fn answered(&self, flow: &Flow) -> ExchangeEnded {
        let ending = *self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tally = self.tally(flow).await;
        // What a model says last is not written down yet; at the limit it has said it before.
        tally.replies += u64::from(!tally.told && ending == Ending::EndTurn);
        self.ended(ending, tally)
    }

    /// What is written down when the person does not want the answer any more.
    pub(crate) async fn stopped(&self, flow: &Flow) -> Event {
        let tally = self.tally(flow).await;
        self.ended(Ending::Stopped, tally).into()
    }

    /// What was said for the message so far. What cannot be counted is no reason to lose an answer.
    async fn tally(&self, flow: &Flow) -> Tally {
        if flow.pen.flush().await.is_err() {
            return Tally::default();
        }
        let read = Log::read(&flow.world, flow.session, self.since, Seq(0), None).await;
        read.map(|log| log.tally).unwrap_or_default()
    }

    fn ended(&self, ending: Ending, tally: Tally) -> ExchangeEnded {
        ExchangeEnded {
            path: self.path.clone(),
            ending,
            replies: tally.replies,
            tool_calls: tally.tool_calls,
            model: tally.model.or_else(|| self.model.clone()),
        }
    }
}
