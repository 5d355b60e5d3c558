//! Summaries of a session's CLI agent conversations, for display.

use std::collections::VecDeque;

use segno_core::cli_agent::CliAgentKind;
use segno_core::conversation::{AssistantPart, ConversationItem, ItemContent, Thread};
use segno_core::journal::{Event, Text};
use segno_core::resume::Strategy;
use segno_core::state::Chat;
use segno_core::step::Path;
use segno_core::store::Error as StoreError;
use segno_core::usage::ContextUsage;
use segno_engine::{Env, journal};

/// How many of the newest journal events are searched for the last message.
const NEWEST: usize = 4;
/// How many characters of the last message are shown.
const SHOWN: usize = 200;

/// A conversation of a CLI agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    pub path: Path,
    pub program: CliAgentKind,
    /// The agent's id of the conversation.
    pub native: String,
    /// The folder that the agent works in.
    pub folder: String,
    /// The resume strategies that continued it, oldest first. In a chat, each message is one.
    pub strategies: Vec<Strategy>,
    /// The context usage, if it is known.
    pub context: Option<ContextUsage>,
    /// The agent's last message, shortened to one line.
    pub last_message: Option<String>,
}

/// Collects conversations from the events of a journal.
#[derive(Default)]
pub(crate) struct Collector {
    talks: Vec<(Conversation, VecDeque<Text>)>,
}

impl Collector {
    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::ConversationOpened(event) => {
                let same = |(talk, _): &&mut (Conversation, VecDeque<Text>)| {
                    (&talk.path, &talk.native) == (&event.path, &event.native_id)
                };
                if let Some((talk, _)) = self.talks.iter_mut().find(same) {
                    talk.strategies.extend(event.strategy);
                    talk.folder.clone_from(&event.folder);
                    return;
                }
                // A chat continues one conversation message by message.
                if let Some((talk, _)) = self.talks.last_mut()
                    && talk.native == event.native_id
                    && Chat::is_message(&talk.path)
                    && Chat::is_message(&event.path)
                {
                    talk.path.clone_from(&event.path);
                    talk.strategies.extend(event.strategy);
                    talk.folder.clone_from(&event.folder);
                    return;
                }
                let talk = Conversation {
                    path: event.path.clone(),
                    program: event.program,
                    native: event.native_id.clone(),
                    folder: event.folder.clone(),
                    strategies: event.strategy.into_iter().collect(),
                    context: None,
                    last_message: None,
                };
                self.talks.push((talk, VecDeque::new()));
            }
            Event::AgentMessages(event) => {
                let of_step =
                    |(talk, _): &&mut (Conversation, VecDeque<Text>)| talk.path == event.path;
                let Some((talk, said)) = self.talks.iter_mut().rev().find(of_step) else {
                    return;
                };
                talk.context = event.context.or(talk.context);
                said.push_back(event.items.clone());
                if said.len() > NEWEST {
                    said.pop_front();
                }
            }
            _ => {}
        }
    }

    /// The conversations, each with its last message.
    pub(crate) async fn finish(self, env: &Env) -> Result<Vec<Conversation>, StoreError> {
        let mut talks = Vec::new();
        for (mut talk, said) in self.talks {
            for text in said.iter().rev() {
                let text = journal::load_text(env, text).await?;
                let entries: Vec<ConversationItem> =
                    serde_json::from_str(&text).unwrap_or_default();
                talk.last_message = entries.iter().rev().find_map(last_message);
                if talk.last_message.is_some() {
                    break;
                }
            }
            talks.push(talk);
        }
        Ok(talks)
    }
}

fn last_message(entry: &ConversationItem) -> Option<String> {
    let ItemContent::Assistant { parts, .. } = &entry.content else {
        return None;
    };
    let text = parts.iter().rev().find_map(|part| match part {
        AssistantPart::Text { text } if !text.trim().is_empty() => Some(text),
        _ => None,
    });
    let text = text.filter(|_| entry.thread == Thread::Main)?;
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = line.char_indices().nth(SHOWN) {
        line.truncate(end);
        line.push('…');
    }
    Some(line)
}
