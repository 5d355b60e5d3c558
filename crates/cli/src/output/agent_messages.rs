//! Summarizes the messages of agents in one line.

use segno_core::conversation::{
    AssistantPart, ConversationItem, ItemContent, Notice, Outcome, plain_text,
};
use segno_core::journal::{AgentMessages, Text};

/// Maximum length of one message, in bytes.
const SHOWN: usize = 100;

/// Summarizes the messages of an event.
pub(crate) fn summarize(event: &AgentMessages) -> String {
    let entries: Vec<ConversationItem> = match &event.items {
        Text::Inline(text) => serde_json::from_str(text).unwrap_or_default(),
        Text::Blob { bytes, .. } => return format!("sends {bytes} bytes"),
    };
    let mut parts: Vec<String> = entries.iter().flat_map(describe).collect();
    if let Some(percent) = event
        .context
        .and_then(|context_usage| context_usage.percent())
    {
        parts.push(format!("{percent} % of the context is used"));
    }
    if parts.is_empty() {
        "is working".to_owned()
    } else {
        parts.join(" · ")
    }
}

fn describe(entry: &ConversationItem) -> Vec<String> {
    match &entry.content {
        ItemContent::User { parts, .. } => vec![format!("receives: {}", line(&plain_text(parts)))],
        ItemContent::Assistant { parts, .. } => parts.iter().filter_map(describe_part).collect(),
        ItemContent::Result(answer) => {
            let how = match answer.outcome {
                Outcome::Failed => "failed",
                Outcome::Succeeded | Outcome::Unknown => "answered",
            };
            vec![format!(
                "a tool {how}: {}",
                line(&plain_text(&answer.parts))
            )]
        }
        ItemContent::Compaction { .. } => vec!["compacts the conversation".to_owned()],
        ItemContent::Notice { notice, text } => vec![match notice {
            Notice::Interrupted => "is interrupted".to_owned(),
            Notice::Error => format!("reports an error: {}", line(text)),
        }],
        ItemContent::Usage { .. } | ItemContent::Raw { .. } => Vec::new(),
    }
}

fn describe_part(part: &AssistantPart) -> Option<String> {
    match part {
        AssistantPart::Text { text } => Some(format!("says: {}", line(text))),
        AssistantPart::Thinking { .. } => Some("thinks".to_owned()),
        AssistantPart::Call(call) => {
            let input = call.input.to_string();
            Some(format!("uses {} {}", call.name, line(&input)))
        }
        AssistantPart::Raw { .. } => None,
    }
}

/// The start of a text, on one line.
fn line(text: &str) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() > SHOWN {
        line.truncate(line.floor_char_boundary(SHOWN));
        line.push('…');
    }
    line
}
