//! Compacts a model's conversation: a model summarizes the oldest messages, and the summary
//! replaces them.

use std::fmt::Write;

use segno_core::agent::{self, Listener, Request};
use segno_core::digest::Digest;
use segno_core::journal::ConversationCompacted;
use segno_core::model::{Call, Message, Model, Part};
use segno_core::usage::Usage;
use segno_spec::Compaction;

use super::Runner;
use super::run_model_loop::{Conversation, StepError, final_answer};
use super::step::{Step, priced};
use crate::journal;

/// The system prompt of the summarizing model.
const SYSTEM_PROMPT: &str = "You summarize the beginning of a conversation between a user, an assistant and its tools, so that the assistant can continue without it. Keep what it will need: what was asked, what was found and decided, names, numbers, files, open questions. Omit what is settled and no longer needed. Use the words of the conversation, in plain text, and write nothing but the summary.";

/// How many bytes of a tool result go into the summary.
const MAX_RESULT_BYTES: usize = 16 * 1024;

impl Runner {
    /// Summarizes the start of `conversation` if it has become too long.
    pub(super) async fn compact(
        &self,
        model: &dyn Model,
        step: &Step<'_>,
        revision: u32,
        request: &Request<'_>,
        conversation: &mut Conversation,
        listener: &dyn Listener,
    ) -> Result<(), StepError> {
        let Some(policy) = &self.policy.compaction else {
            return Ok(());
        };
        // Once between two replies is enough, also after a restart.
        if conversation.compacted_at == Some(conversation.turn)
            || conversation.estimate_tokens() <= policy.when_tokens_over
        {
            return Ok(());
        }
        let Some(cut) = conversation.compaction_end(policy) else {
            return Ok(());
        };
        let text = render_messages(&conversation.messages[..cut]);
        let (turn, messages) = (conversation.turn, u32::try_from(cut).unwrap_or(u32::MAX));
        let call = Call {
            key: Digest::of_fields(&[
                request.key.as_bytes(),
                &turn.to_le_bytes(),
                b"summary",
                text.as_bytes(),
            ]),
            system: SYSTEM_PROMPT,
            messages: &[Message::User { text }],
            tools: &[],
        };
        listener.on_event(agent::Event::Usage(Usage::default()));
        let (model, price) = step.summarizer.unwrap_or((model, step.price));
        let reply = model.reply(call, listener).await?;
        let usage = priced(price, reply.usage);
        let (summary, clean) =
            journal::redact_and_store(&self.env, &final_answer(&reply)?.text).await?;
        self.limits.budget.spend(step.executed_by, usage);
        // The summary is durable before the next call, like every reply.
        let shortened = ConversationCompacted {
            path: step.path.clone(),
            revision,
            attempt: request.attempt,
            turn,
            messages,
            summary,
            usage,
        };
        self.journal.write(vec![shortened.into()]).await?;
        conversation.replace_with_summary(cut, &clean);
        Ok(())
    }
}

impl Conversation {
    /// An estimate of the tokens that the next call takes.
    fn estimate_tokens(&self) -> u64 {
        let estimate = |messages: &[Message]| {
            let bytes: usize = messages.iter().map(message_bytes).sum();
            bytes as u64 / 4
        };
        match (self.tokens, self.messages.as_slice()) {
            // The usage of the last call is known; only the tool results since then are estimated.
            (Some(known), [.., results]) => known + estimate(std::slice::from_ref(results)),
            (_, all) => estimate(all),
        }
    }

    /// How many messages to summarize: a part of those that are not recent. Tool results stay with
    /// their calls.
    fn compaction_end(&self, policy: &Compaction) -> Option<usize> {
        let count = self.messages.len();
        let recent = policy.preserve_recent.min(count.saturating_sub(5).max(3));
        let older = count.checked_sub(recent)?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a fraction of a small number"
        )]
        let part = (older as f64 * policy.summary_ratio).ceil() as usize;
        // A summary of fewer than two messages besides the step's own question saves nothing.
        let least = if self.question_index < 3 { 3 } else { 2 };
        let from = part.max(least);
        if from > older {
            return None;
        }
        let results = |index: &usize| matches!(self.messages[*index], Message::Tools { .. });
        (from..count).find(|index| !results(index))
    }

    /// Replaces the first messages with a summary. The step's own question stays; if it is all that
    /// stays, the summary follows it and says how to continue.
    pub(super) fn replace_with_summary(&mut self, messages: usize, summary: &str) {
        let rest = self.messages.split_off(messages.min(self.messages.len()));
        let before = std::mem::take(&mut self.messages);
        let question = before.into_iter().nth(self.question_index);
        if rest.is_empty() {
            let text = summary.to_owned();
            self.messages.extend(question);
            self.messages.push(Message::User { text });
            self.question_index = 0;
        } else {
            let text = format!("Summary of the conversation so far:\n\n{summary}");
            self.messages.push(Message::User { text });
            self.question_index = match question {
                Some(_) => 1,
                None => self.question_index - messages + 1,
            };
            self.messages.extend(question);
            self.messages.extend(rest);
        }
        self.tokens = None;
        self.compacted_at = Some(self.turn);
    }
}

fn message_bytes(message: &Message) -> usize {
    match message {
        Message::User { text } => text.len(),
        Message::Assistant { parts } => parts.iter().map(|part| part_text(part).len()).sum(),
        Message::Tools { results } => results.iter().map(|result| result.output.len()).sum(),
    }
}

fn part_text(part: &Part) -> String {
    match part {
        Part::Text { text } => text.clone(),
        Part::Call(call) => format!("[uses {} with {}]", call.name, call.input),
        Part::Raw { .. } => String::new(),
    }
}

fn render_messages(messages: &[Message]) -> String {
    let mut text = String::new();
    for message in messages {
        let (who, words) = match message {
            Message::User { text } => ("User", text.clone()),
            Message::Assistant { parts } => {
                let texts: Vec<String> = parts.iter().map(part_text).collect();
                ("Assistant", texts.join("\n"))
            }
            Message::Tools { results } => {
                let outputs = results.iter().map(|result| {
                    let end = result.output.floor_char_boundary(MAX_RESULT_BYTES);
                    result.output[..end].to_owned()
                });
                ("Tools", outputs.collect::<Vec<_>>().join("\n"))
            }
        };
        let _ = write!(text, "{who}:\n{words}\n\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use segno_core::tool::ToolResult;

    use super::*;

    fn user(text: &str) -> Message {
        Message::User { text: text.into() }
    }

    fn tools(output: String) -> Message {
        let result = ToolResult {
            id: "c".into(),
            output,
            is_error: false,
        };
        Message::Tools {
            results: vec![result],
        }
    }

    #[test]
    fn tokens_since_the_last_call_are_estimated() {
        let mut conversation = Conversation::default();
        conversation.messages = vec![user(&"x".repeat(100)), tools("y".repeat(400))];
        assert_eq!(conversation.estimate_tokens(), 125);
        conversation.tokens = Some(1000);
        assert_eq!(conversation.estimate_tokens(), 1100);
    }

    #[test]
    fn summary_gets_the_start_of_a_long_result() {
        let text = render_messages(&[user("look"), tools("y".repeat(20_000))]);
        let expected = format!("User:\nlook\n\nTools:\n{}\n\n", "y".repeat(16_384));
        assert_eq!(text, expected);
    }
}
