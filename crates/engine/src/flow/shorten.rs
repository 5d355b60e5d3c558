//! Making room in a conversation: what was said first is summed up by a model, and the sum stands in
//! its place.

use std::fmt::Write;

use segno_core::agent::{self, Listener, Request};
use segno_core::digest::Digest;
use segno_core::journal::TalkShortened;
use segno_core::model::{Call, Message, Model, Part};
use segno_core::usage::Usage;

use super::Flow;
use super::converse::{Talk, Trouble, answer};
use super::step::{Ask, priced};
use crate::pen;
use crate::spec::Compaction;

/// What the model that sums up is told.
const TASK: &str = "You sum up the beginning of a conversation between a person, an assistant and its tools, so that the assistant can go on without it. Keep what it will need: what was asked, what was found and decided, names, numbers, files, open ends. Leave out what is settled and not needed. Write in the words of the conversation, in plain text, and nothing but the summary.";

/// How many bytes of a tool's answer are summed up.
const LONGEST_RESULT: usize = 16 * 1024;

impl Flow {
    /// Sums up the beginning of `talk` if it has become too long.
    pub(super) async fn shorten(
        &self,
        model: &dyn Model,
        ask: &Ask<'_>,
        revision: u32,
        request: &Request<'_>,
        talk: &mut Talk,
        listener: &dyn Listener,
    ) -> Result<(), Trouble> {
        let Some(policy) = &self.compaction else {
            return Ok(());
        };
        // Once between two answers is enough, also after a restart.
        if talk.summed_up == Some(talk.turn) || talk.weight() <= policy.when_tokens_over {
            return Ok(());
        }
        let Some(cut) = talk.cut(policy) else {
            return Ok(());
        };
        let text = transcript(&talk.messages[..cut]);
        let (turn, messages) = (talk.turn, u32::try_from(cut).unwrap_or(u32::MAX));
        let call = Call {
            key: Digest::of_fields(&[
                request.key.as_bytes(),
                &turn.to_le_bytes(),
                b"summary",
                text.as_bytes(),
            ]),
            system: TASK,
            messages: &[Message::User { text }],
            tools: &[],
        };
        listener.hear(agent::Event::Usage(Usage::default()));
        let (model, price) = ask.summarizer.unwrap_or((model, ask.price));
        let reply = model.reply(call, listener).await?;
        let usage = priced(price, reply.usage);
        let (summary, clean) = pen::keep(&self.world, &answer(&reply)?.text).await?;
        self.budget.spend(usage, false);
        // It is on the disk before the next call, like every answer.
        let shortened = TalkShortened {
            path: ask.path.clone(),
            revision,
            attempt: request.attempt,
            turn,
            messages,
            summary,
            usage,
        };
        self.pen.write(vec![shortened.into()]).await?;
        talk.sum_up(cut, &clean);
        Ok(())
    }
}

impl Talk {
    /// About how many tokens the next call takes.
    fn weight(&self) -> u64 {
        let estimate = |messages: &[Message]| {
            let bytes: usize = messages.iter().map(length).sum();
            bytes as u64 / 4
        };
        match (self.weight, self.messages.as_slice()) {
            // What the last call took is known; only what the tools said since is not.
            (Some(known), [.., results]) => known + estimate(std::slice::from_ref(results)),
            (_, all) => estimate(all),
        }
    }

    /// How many messages are summed up: a part of those that are not recent. Results stay with the
    /// calls that they answer.
    fn cut(&self, policy: &Compaction) -> Option<usize> {
        let count = self.messages.len();
        let recent = policy.preserve_recent.min(count.saturating_sub(5).max(3));
        let older = count.checked_sub(recent)?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a part of a small number"
        )]
        let part = (older as f64 * policy.summary_ratio).ceil() as usize;
        // A summary of less than two messages besides the step's own question saves nothing.
        let least = if self.own < 3 { 3 } else { 2 };
        let from = part.max(least);
        if from > older {
            return None;
        }
        let results = |place: &usize| matches!(self.messages[*place], Message::Tools { .. });
        (from..count).find(|place| !results(place))
    }

    /// Puts a summary in the place of the first messages. The step's own question stays.
    pub(super) fn sum_up(&mut self, messages: usize, summary: &str) {
        let rest = self.messages.split_off(messages.min(self.messages.len()));
        let before = std::mem::replace(
            &mut self.messages,
            vec![Message::User {
                text: format!("What was said before, summed up:\n\n{summary}"),
            }],
        );
        if let Some(question) = before.into_iter().nth(self.own) {
            self.messages.push(question);
            self.own = 1;
        } else {
            self.own = self.own - messages + 1;
        }
        self.messages.extend(rest);
        self.weight = None;
        self.summed_up = Some(self.turn);
    }
}

fn length(message: &Message) -> usize {
    match message {
        Message::User { text } => text.len(),
        Message::Assistant { parts } => parts.iter().map(|part| said(part).len()).sum(),
        Message::Tools { results } => results.iter().map(|result| result.output.len()).sum(),
    }
}

fn said(part: &Part) -> String {
    match part {
        Part::Text { text } => text.clone(),
        Part::Call(call) => format!("[uses {} with {}]", call.name, call.input),
        Part::Raw { .. } => String::new(),
    }
}

/// Messages as text.
fn transcript(messages: &[Message]) -> String {
    let mut text = String::new();
    for message in messages {
        let (who, words) = match message {
            Message::User { text } => ("Person", text.clone()),
            Message::Assistant { parts } => {
                let said: Vec<String> = parts.iter().map(said).collect();
                ("Assistant", said.join("\n"))
            }
            Message::Tools { results } => {
                let outputs = results.iter().map(|result| {
                    let end = result.output.floor_char_boundary(LONGEST_RESULT);
                    result.output[..end].to_owned()
                });
                ("Tools", outputs.collect::<Vec<_>>().join("\n"))
            }
        };
        let _ = write!(text, "{who}:\n{words}\n\n");
    }
    text
}
