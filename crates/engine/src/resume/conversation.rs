//! Reads what was said in a step so far, whichever agent said it.

use segno_core::conversation::analysis::{Analysis, Unanswered};
use segno_core::conversation::{ConversationItem, ItemContent, Origin, Part};
use segno_core::id::SessionId;
use segno_core::journal::{Event, Seq};
use segno_core::model::Message;
use segno_core::model::messages::from_messages;
use segno_core::resume::Strategy;
use segno_core::state::NativeConversation;
use segno_core::tool::ToolResult;

use crate::env::Env;
use crate::error::Error;
use crate::{history, journal};

/// How many bytes of conversation are read for a prompt.
const MAX_BYTES: usize = 8 << 20;

/// The conversation of a chat before a message.
#[derive(Default)]
pub struct Past {
    /// All entries, oldest first.
    pub entries: Vec<ConversationItem>,
    /// The index from which on entries belong to the CLI agent's newest conversation.
    pub own: usize,
    /// The conversations that CLI agents have had, ordered by when they were last opened.
    pub conversations: Vec<NativeConversation>,
}

impl Past {
    /// Whether others have followed the program's conversation `native`, which this step has not
    /// opened again.
    fn is_followed(&self, native: Option<&str>, is_open_again: bool) -> bool {
        let newest = self.conversations.last().map(|newest| newest.id.as_str());
        !is_open_again && native.is_some() && newest != native
    }
}

/// The conversation of a step that was started before.
pub(crate) struct PriorConversation {
    /// All entries, oldest first.
    pub(crate) entries: Vec<ConversationItem>,
    /// How many of them precede this step, in the chat that the step belongs to.
    pub(crate) past: usize,
    /// The index from which on entries belong to the program's conversation, or follow it.
    pub(crate) own: usize,
    /// The index from which on entries belong to other conversations, which were opened after the
    /// program's conversation was last opened.
    pub(crate) left: Option<usize>,
    /// Tool calls without a result.
    pub(crate) unanswered: Vec<Unanswered>,
}

impl PriorConversation {
    /// Reads the conversation from the events `seqs`, newest first, up to a bound. `newest` are
    /// entries that follow them; `native` is the id of the program's conversation, if it is not the
    /// newest; `before` is the chat before this step.
    pub(crate) async fn read(
        env: &Env,
        session: SessionId,
        seqs: impl DoubleEndedIterator<Item = Seq>,
        newest: Vec<ConversationItem>,
        native: Option<&str>,
        before: Option<&Past>,
    ) -> Result<Self, Error> {
        let mut entries = newest;
        entries.reverse();
        let (mut room, mut own, mut left, mut reached) = (MAX_BYTES, None, None, false);
        for seq in seqs.rev() {
            let event = env.store.event(session, seq).await?.event;
            if let Event::ConversationOpened(event) = &event {
                let starts = matches!(
                    event.strategy,
                    None | Some(Strategy::Summarized | Strategy::Handoff)
                );
                if native.is_some_and(|native| native != event.native_id) {
                    left = if reached { left } else { Some(entries.len()) };
                } else {
                    reached = true;
                    own = own.or(starts.then_some(entries.len()));
                }
            }
            let Some((mut said, bytes)) = read_entries(env, session, seq, &event).await? else {
                continue;
            };
            let Some(rest) = room.checked_sub(bytes) else {
                break;
            };
            room = rest;
            said.reverse();
            entries.append(&mut said);
        }
        entries.reverse();
        let mut analysis = Analysis::new();
        entries.iter().for_each(|entry| analysis.add(entry));
        let own = own.map(|count| entries.len() - count);
        let left = left.map(|count| entries.len() - count);
        let past = before.map_or(0, |before| before.entries.len());
        // The program's conversation may have started in an earlier exchange.
        let since = before.map_or(0, |before| before.own);
        if let Some(before) = before {
            entries.splice(0..0, before.entries.iter().cloned());
        }
        let left = before
            .filter(|before| before.is_followed(native, reached))
            .map(|before| before.own)
            .or(left.map(|left| past + left));
        Ok(Self {
            past,
            left,
            own: own.map_or(since, |own| past + own),
            entries,
            unanswered: analysis.finish().unanswered,
        })
    }
}

/// The conversation entries of a journal event, and their stored size in bytes.
async fn read_entries(
    env: &Env,
    session: SessionId,
    seq: Seq,
    event: &Event,
) -> Result<Option<(Vec<ConversationItem>, usize)>, Error> {
    let text = match event {
        Event::AgentMessages(event) => &event.items,
        Event::ModelReplied(event) => &event.parts,
        Event::ToolFinished(event) => &event.output,
        _ => return Ok(None),
    };
    let text = journal::load_text(env, text).await?;
    let bytes = text.len();
    let entries = match event {
        Event::ToolFinished(event) => Ok(from_messages(&[Message::Tools {
            results: vec![ToolResult {
                id: event.call.clone(),
                output: text,
                is_error: event.is_error,
            }],
        }])),
        Event::ModelReplied(_) => {
            serde_json::from_str(&text).map(|parts| from_messages(&[Message::Assistant { parts }]))
        }
        _ => serde_json::from_str(&text),
    };
    let entries = entries.map_err(|error| history::Error::InvalidJournal {
        session,
        reason: format!("event {seq} has no message: {error}"),
    })?;
    Ok(Some((entries, bytes)))
}

/// The user's input as a conversation entry.
pub(crate) fn user_entry(text: &str) -> ConversationItem {
    let text = text.to_owned();
    ConversationItem::new(ItemContent::User {
        origin: Origin::User,
        parts: vec![Part::Text { text }],
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use segno_core::cli_agent::CliAgentKind;
    use segno_core::conversation::{Answer, AssistantPart, Outcome};
    use segno_core::tool::ToolCall;
    use segno_core::usage::Usage;
    use serde_json::Value;

    use super::*;

    fn assistant(part: AssistantPart) -> ConversationItem {
        ConversationItem::new(ItemContent::Assistant {
            message: None,
            model: None,
            parts: vec![part],
            usage: None,
        })
    }

    #[test]
    fn only_an_earlier_conversation_is_followed() {
        let conversation = |id: &str| NativeConversation {
            program: CliAgentKind::Codex,
            id: id.to_owned(),
            folder: "/w".to_owned(),
            home: None,
            context: None,
            strategies: Vec::new(),
            spoke: true,
            cost: None,
            counted: Usage::default(),
            reported_at: None,
            opened: Seq(3),
        };
        let past = Past {
            conversations: vec![conversation("older"), conversation("newest")],
            ..Past::default()
        };
        assert!(past.is_followed(Some("older"), false));
        assert!(!past.is_followed(Some("older"), true));
        assert!(!past.is_followed(Some("newest"), false));
        assert!(!past.is_followed(None, false));
    }

    pub(crate) fn text(text: &str) -> ConversationItem {
        assistant(AssistantPart::Text { text: text.into() })
    }

    pub(crate) fn call(id: &str) -> ConversationItem {
        assistant(AssistantPart::Call(ToolCall {
            id: id.into(),
            name: "Bash".into(),
            input: Value::Null,
        }))
    }

    pub(crate) fn result(id: &str) -> ConversationItem {
        ConversationItem::new(ItemContent::Result(Answer {
            id: id.into(),
            parts: Vec::new(),
            outcome: Outcome::Succeeded,
        }))
    }
}
