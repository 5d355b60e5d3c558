//! Summarizes the messages of agents in one line.

use segno_core::conversation::{Entry, Notice, Outcome, Said, Utterance, words};
use segno_core::journal::{AgentSaid, Text};

/// Maximum length of one message, in bytes.
const SHOWN: usize = 100;

/// Summarizes the messages of an event.
pub(crate) fn summarize(event: &AgentSaid) -> String {
    let entries: Vec<Entry> = match &event.entries {
        Text::Inline(text) => serde_json::from_str(text).unwrap_or_default(),
        Text::Blob { bytes, .. } => return format!("says something of {bytes} bytes"),
    };
    let mut parts: Vec<String> = entries.iter().flat_map(describe).collect();
    if let Some(percent) = event.context.and_then(|gauge| gauge.percent()) {
        parts.push(format!("{percent} % of the context is used"));
    }
    if parts.is_empty() {
        "is at work".to_owned()
    } else {
        parts.join(" · ")
    }
}

fn describe(entry: &Entry) -> Vec<String> {
    match &entry.said {
        Said::User { parts, .. } => vec![format!("is told: {}", line(&words(parts)))],
        Said::Assistant { parts, .. } => parts.iter().filter_map(describe_part).collect(),
        Said::Result(answer) => {
            let how = match answer.outcome {
                Outcome::Failed => "failed",
                Outcome::Succeeded | Outcome::Unsaid => "answered",
            };
            vec![format!("a tool {how}: {}", line(&words(&answer.parts)))]
        }
        Said::Compaction { .. } => vec!["sums up what was said".to_owned()],
        Said::Notice { notice, text } => vec![match notice {
            Notice::Interrupted => "is interrupted".to_owned(),
            Notice::Error => format!("has trouble: {}", line(text)),
        }],
        Said::Usage { .. } | Said::Raw { .. } => Vec::new(),
    }
}

fn describe_part(part: &Utterance) -> Option<String> {
    match part {
        Utterance::Text { text } => Some(format!("says: {}", line(text))),
        Utterance::Thinking { .. } => Some("thinks".to_owned()),
        Utterance::Call(call) => {
            let input = call.input.to_string();
            Some(format!("uses {} {}", call.name, line(&input)))
        }
        Utterance::Raw { .. } => None,
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
