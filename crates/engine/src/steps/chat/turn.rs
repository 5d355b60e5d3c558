//! What the agent of a chat learns about the earlier messages.

use segno_core::conversation::turns::Loss;
use segno_core::model::Message;
use segno_core::model::messages::to_messages;

use super::Exchange;
use crate::resume::context::chat;
use crate::steps::Runner;
use crate::steps::step::Step;

impl Runner {
    /// The earlier messages of the chat, for a model.
    pub(in crate::steps) fn past_messages(&self, exchange: &Exchange) -> Vec<Message> {
        let (messages, losses) = to_messages(&exchange.past.entries);
        let unanswered = losses.count(Loss::Unanswered);
        if unanswered > 0 {
            self.observer.notice(&format!(
                "{unanswered} tool calls have no result; the model is told that their outcome is unknown"
            ));
        }
        messages
    }

    /// The input for an agent that keeps no conversation; `None` if the chat is new.
    pub(in crate::steps) fn chat_history_prompt(&self, step: &Step<'_>) -> Option<String> {
        let past = &self.exchange.as_ref()?.past;
        chat::with_history(&*self.env.random, &past.entries, &step.input)
    }
}
