//! Completes the usage of a run that was interrupted.
//!
//! While Claude Code works it reports the usage of a message before the message is complete, and the
//! final numbers only at the end of its run. Codex writes into its transcript what an answer used
//! after it has reported the answer's tool calls. A killed run has no end; its transcript has the
//! final numbers, so the next call of the agent reads them there.

use std::collections::HashMap;

use segno_core::conversation::{ConversationItem, ItemContent, Tokens};
use segno_core::journal::{AgentMessages, Event, Seq, Text};
use segno_core::resume::Strategy;
use segno_core::state::NativeConversation;
use segno_core::usage::{Cost, RunReport, Usage};

use super::Runner;
use super::agent_events::RecentConversation;
use super::run_cli_agent::remaining_usage;
use super::run_model_loop::StepError;
use super::step::{Step, priced};
use crate::journal;
use crate::resume::evidence::FoundConversation;

/// The usage of messages, by id, as it was counted.
pub(super) type CountedMessages = HashMap<String, Tokens>;

/// Adds the usage of an item to what is counted. The first item of a message decides, as in the
/// stream.
pub(super) fn count_message(counted: &mut CountedMessages, item: &ConversationItem) {
    if let ItemContent::Assistant {
        message: Some(id),
        usage: Some(usage),
        ..
    } = &item.content
    {
        counted.entry(id.clone()).or_insert(*usage);
    }
}

/// What the transcript says that messages used, beyond what was counted: of those that were counted,
/// and of all that follow the first of them.
fn uncounted(counted: &CountedMessages, in_transcript: &[(String, Tokens)]) -> Usage {
    let since = in_transcript
        .iter()
        .skip_while(|(id, _)| !counted.contains_key(id));
    let rest = since.map(|(id, usage)| {
        let counted = counted.get(id).copied().unwrap_or_default();
        remaining_usage((*usage).into(), counted.into())
    });
    rest.fold(Usage::default(), |sum, usage| sum + usage)
}

impl Runner {
    /// Journals what an interrupted run used and did not report.
    pub(super) async fn complete_usage(
        &self,
        step: &Step<'_>,
        revision: u32,
        attempt: u32,
        recent: &RecentConversation,
        found: &FoundConversation,
    ) -> Result<(), StepError> {
        let (Some(native), Some(record)) = (&found.native, &found.record) else {
            return Ok(());
        };
        let is_own = native.strategies.first() != Some(&Strategy::Handoff);
        let total = record
            .total_usage
            .filter(|_| is_own && native.is_interrupted());
        let usage = if let Some(total) = total {
            remaining_usage(total, native.counted)
        } else {
            let counted = self
                .counted_messages(step, revision, recent, native)
                .await?;
            uncounted(&counted, &record.message_usage)
        };
        // The price of what the transcript says, without what is paid already.
        let usage = priced(
            step.price,
            Usage {
                cost: Cost::default(),
                ..usage
            },
        );
        if usage == Usage::default() {
            return Ok(());
        }
        self.limits.budget.spend(step.executed_by, usage);
        recent.set_reported();
        let completed = AgentMessages {
            path: step.path.clone(),
            revision,
            attempt,
            items: Text::Inline("[]".into()),
            usage,
            context: None,
            report: Some(RunReport::default()),
        };
        self.journal.write(vec![completed.into()]).await?;
        Ok(())
    }

    /// The messages since the agent's newest report, with the usage that was counted.
    async fn counted_messages(
        &self,
        step: &Step<'_>,
        revision: u32,
        recent: &RecentConversation,
        native: &NativeConversation,
    ) -> Result<CountedMessages, StepError> {
        let mut counted = recent.unreported();
        let turns = self
            .earlier
            .finished
            .turns(&step.path, revision, step.input_digest());
        for seq in since_report(turns, native.reported_at) {
            let event = self.env.store.event(self.id.session, seq).await?.event;
            if let Event::AgentMessages(event) = event {
                let items = journal::load_text(&self.env, &event.items).await?;
                let items: Vec<ConversationItem> = serde_json::from_str(&items).unwrap_or_default();
                items
                    .iter()
                    .for_each(|item| count_message(&mut counted, item));
            }
        }
        Ok(counted)
    }
}

/// The events after the agent's newest report.
fn since_report(turns: &[Seq], reported_at: Option<Seq>) -> impl Iterator<Item = Seq> {
    let is_open = move |seq: &Seq| reported_at.is_none_or(|at| *seq > at);
    turns.iter().copied().filter(is_open)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_events_after_the_newest_report_count() {
        let turns = [Seq(2), Seq(4), Seq(6)];
        let since = |at: Option<Seq>| since_report(&turns, at).collect::<Vec<_>>();
        assert_eq!(since(Some(Seq(4))), [Seq(6)]);
        assert_eq!(since(None), turns);
    }

    fn tokens(input: u64, output: u64) -> Tokens {
        Tokens {
            input,
            output,
            ..Tokens::default()
        }
    }

    #[test]
    fn only_messages_since_the_last_report_are_completed() {
        let in_transcript = [
            ("reported".to_owned(), tokens(10, 90)),
            ("killed".to_owned(), tokens(20, 50)),
            ("unheard".to_owned(), tokens(30, 7)),
        ];
        let counted = CountedMessages::from([
            ("killed".to_owned(), tokens(20, 1)),
            ("of a sub-agent".to_owned(), tokens(5, 1)),
        ]);
        let rest = uncounted(&counted, &in_transcript);
        assert_eq!((rest.input_tokens, rest.output_tokens), (30, 56));
        let nothing = uncounted(&CountedMessages::new(), &in_transcript);
        assert_eq!(nothing, Usage::default());
    }
}
