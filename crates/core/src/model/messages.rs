//! Converts a conversation to the messages of an API model, and back.

use crate::conversation::turns::{Loss, Losses, ModelPart, Turn, turns};
use crate::conversation::{
    Answer, AssistantPart, ConversationItem, ItemContent, Origin, Outcome, Part, plain_text,
};
use crate::model::{self, Message};
use crate::tool::ToolResult;

/// Converts to messages; also returns what was lost.
pub fn to_messages(entries: &[ConversationItem]) -> (Vec<Message>, Losses) {
    let (turns, mut losses) = turns(entries);
    let messages = turns
        .into_iter()
        .map(|turn| message(turn, &mut losses))
        .collect();
    (messages, losses)
}

fn message(turn: Turn, losses: &mut Losses) -> Message {
    match turn {
        Turn::User { parts, .. } => Message::User {
            text: text(&parts, losses),
        },
        Turn::Assistant { parts, .. } => Message::Assistant {
            parts: parts
                .into_iter()
                .map(|part| match part {
                    ModelPart::Text(text) => model::Part::Text { text },
                    ModelPart::Call(call) => model::Part::Call(call),
                })
                .collect(),
        },
        Turn::Results { answers, .. } => Message::Tools {
            results: answers
                .into_iter()
                .map(|answer| ToolResult {
                    output: text(&answer.parts, losses),
                    id: answer.id,
                    is_error: answer.outcome == Outcome::Failed,
                })
                .collect(),
        },
    }
}

/// The text of some parts. A placeholder replaces each image, so that the model does not look for it.
fn text(parts: &[Part], losses: &mut Losses) -> String {
    let shown: Vec<_> = parts
        .iter()
        .map(|part| match part {
            Part::Image { media_type, .. } => {
                losses.add(Loss::Image);
                Part::Text {
                    text: format!("[image ({media_type}) not shown]"),
                }
            }
            other => other.clone(),
        })
        .collect();
    plain_text(&shown)
}

/// Converts messages to conversation items.
pub fn from_messages(messages: &[Message]) -> Vec<ConversationItem> {
    let mut entries = Vec::new();
    for message in messages {
        match message {
            Message::User { text } => entries.push(ConversationItem::new(ItemContent::User {
                origin: Origin::User,
                parts: vec![Part::Text { text: text.clone() }],
            })),
            Message::Assistant { parts } => {
                entries.push(ConversationItem::new(ItemContent::Assistant {
                    message: None,
                    model: None,
                    parts: parts.iter().map(AssistantPart::from).collect(),
                    usage: None,
                }));
            }
            Message::Tools { results } => {
                let said = results
                    .iter()
                    .map(|result| ItemContent::Result(result.into()));
                entries.extend(said.map(ConversationItem::new));
            }
        }
    }
    entries
}

impl From<&model::Part> for AssistantPart {
    fn from(part: &model::Part) -> Self {
        match part {
            model::Part::Text { text } => Self::Text { text: text.clone() },
            model::Part::Call(call) => Self::Call(call.clone()),
            model::Part::Raw { value } => Self::Raw {
                value: value.clone(),
            },
        }
    }
}

impl From<&ToolResult> for Answer {
    fn from(result: &ToolResult) -> Self {
        Self {
            id: result.id.clone(),
            parts: vec![Part::Text {
                text: result.output.clone(),
            }],
            outcome: if result.is_error {
                Outcome::Failed
            } else {
                Outcome::Succeeded
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::ToolCall;
    use serde_json::json;

    #[test]
    fn messages_round_trip_through_conversation_items() {
        let messages = vec![
            Message::User { text: "go".into() },
            Message::Assistant {
                parts: vec![
                    model::Part::Text { text: "so".into() },
                    model::Part::Call(ToolCall {
                        id: "1".into(),
                        name: "look".into(),
                        input: json!({}),
                    }),
                ],
            },
            Message::Tools {
                results: vec![ToolResult {
                    id: "1".into(),
                    output: "there".into(),
                    is_error: true,
                }],
            },
            Message::Assistant {
                parts: vec![model::Part::Text {
                    text: "done".into(),
                }],
            },
        ];
        let (back, losses) = to_messages(&from_messages(&messages));
        assert_eq!(back, messages);
        assert_eq!(losses, Losses::default());
    }
}
