//! What agents say, in a line.

use segno_core::conversation::{Entry, Notice, Outcome, Said, Utterance, words};
use segno_core::journal::{AgentSaid, Text};

/// How much of one thing is shown.
const SHOWN: usize = 100;

/// What was said, as one line for people.
pub(crate) fn outline(event: &AgentSaid) -> String {
    let entries: Vec<Entry> = match &event.entries {
        Text::Inline(text) => serde_json::from_str(text).unwrap_or_default(),
        Text::Blob { bytes, .. } => return format!("says something of {bytes} bytes"),
    };
    let mut told: Vec<String> = entries.iter().flat_map(told).collect();
    if let Some(percent) = event.context.and_then(|gauge| gauge.percent()) {
        told.push(format!("{percent} % of the context is used"));
    }
    if told.is_empty() {
        "is at work".to_owned()
    } else {
        told.join(" · ")
    }
}

fn told(entry: &Entry) -> Vec<String> {
    match &entry.said {
        Said::User { parts, .. } => vec![format!("is told: {}", line(&words(parts)))],
        Said::Assistant { parts, .. } => parts.iter().filter_map(uttered).collect(),
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

fn uttered(part: &Utterance) -> Option<String> {
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

/// The beginning, as one line.
fn line(text: &str) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() > SHOWN {
        line.truncate(line.floor_char_boundary(SHOWN));
        line.push('…');
    }
    line
}
