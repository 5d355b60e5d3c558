//! Reads what was said in a step so far, whichever agent said it.

use segno_core::cli_agent::TranscriptState;
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

/// How many of the newest entries are compared with a transcript that is short.
const MIN_COMPARED: usize = 64;

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
        // The program's conversation may be one of an earlier exchange, which others have followed.
        let is_newest = |before: &Past| {
            let newest = before.conversations.last().map(|newest| newest.id.as_str());
            native.is_none() || newest == native
        };
        let since_chat = before.filter(|before| !reached && !is_newest(before));
        let left = since_chat
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

/// The entries that are not in the program's transcript: those of other conversations, from `left` on;
/// and those that did not reach it, because programs report what they do before they write it.
pub(crate) fn missing_entries(
    entries: &[ConversationItem],
    own: usize,
    left: Option<usize>,
    record: Option<&TranscriptState>,
) -> Vec<ConversationItem> {
    let (reported, others) = entries.split_at(left.unwrap_or(entries.len()));
    let mut missing = unwritten_entries(reported, own.min(reported.len()), record);
    missing.extend_from_slice(others);
    missing
}

fn unwritten_entries(
    entries: &[ConversationItem],
    own: usize,
    record: Option<&TranscriptState>,
) -> Vec<ConversationItem> {
    let Some(named) = record.and_then(|record| record.known_ids.as_ref()) else {
        return Vec::new();
    };
    // A result has the id of its call, so the number of occurrences counts.
    let count = |name: &str| named.iter().filter(|known| *known == name).count();
    // A transcript in which no reported id occurs uses other ids; it says nothing about what is
    // missing.
    let mut reported = entries[own..].iter().flat_map(|entry| entry.content.ids());
    if !named.is_empty() && !reported.any(|name| count(name) > 0) {
        return Vec::new();
    }
    let newest = entries[own..]
        .iter()
        .rev()
        .take(named.len().max(MIN_COMPARED));
    let (mut missing, mut followed) = (Vec::new(), false);
    for entry in newest {
        let least = if matches!(entry.content, ItemContent::Result(_)) {
            2
        } else {
            1
        };
        // Text without an id is as lost as the call that follows it.
        if entry.content.ids().next().is_some() {
            followed = entry.content.ids().any(|name| count(name) < least);
        }
        if followed {
            missing.push(entry.clone());
        }
    }
    missing.reverse();
    missing
}

#[cfg(test)]
pub(crate) mod tests {
    use segno_core::cli_agent::Health;
    use segno_core::conversation::{Answer, AssistantPart, Outcome};
    use segno_core::tool::ToolCall;
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

    #[test]
    fn missing_entries_include_text_before_lost_calls() {
        let said = [
            text("one"),
            call("a"),
            result("a"),
            text("two"),
            call("b"),
            result("b"),
            text("three"),
        ];
        for (named, from) in [
            (Some(vec!["a", "a", "b", "b"]), said.len()..said.len()),
            (Some(vec!["a", "a", "b"]), 5..6),
            (Some(vec!["a", "a"]), 3..6),
            (Some(vec!["a"]), 2..6),
            (Some(vec![]), 0..6),
            // Foreign ids, and no ids.
            (Some(vec!["x", "y"]), 0..0),
            (None, 0..0),
        ] {
            let record = TranscriptState {
                bytes: 0,
                health: Health::Intact,
                unanswered: None,
                known_ids: named
                    .clone()
                    .map(|names| names.iter().map(ToString::to_string).collect()),
            };
            let missing = missing_entries(&said, 0, None, Some(&record));
            assert_eq!(missing, said[from.clone()], "{named:?}");
            // What another conversation added is missing, too.
            let both = [&said[..], &[text("four")]].concat();
            let missing = missing_entries(&both, 0, Some(said.len()), Some(&record));
            let expected = [&said[from], &[text("four")]].concat();
            assert_eq!(missing, expected, "{named:?}");
        }
    }
}
