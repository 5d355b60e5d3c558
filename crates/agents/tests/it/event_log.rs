//! Renders a driver's events as text that a test can compare.

use std::sync::Mutex;

use segno_core::agent::{Event, Listener};
use segno_core::conversation::{AssistantPart, ItemContent, Outcome, Part};

/// The reported events, one line each.
#[derive(Default)]
pub(crate) struct EventLog(Mutex<Vec<String>>);

impl EventLog {
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Listener for EventLog {
    fn on_event(&self, event: Event<'_>) {
        let line = match event {
            Event::ConversationId(id) => format!("native {id}"),
            Event::Usage(usage) => format!("usage {} {}", usage.input_tokens, usage.cost.0),
            Event::Context(context_usage) => {
                format!("context {} {:?}", context_usage.used, context_usage.window)
            }
            Event::Report(report) => format!(
                "report {:?} {:?} {:?}",
                report.turns,
                report.duration_ms,
                report.conversation_cost.map(|cost| cost.0)
            ),
            Event::Refused(refusal) => format!("refused {} {}", refusal.tool, refusal.reason),
            Event::Notice(text) => format!("notice {text}"),
            Event::Text(text) => format!("piece {text}"),
            Event::Item(entry) => render(&entry.content),
        };
        self.0.lock().unwrap().push(line);
    }
}

fn render(said: &ItemContent) -> String {
    match said {
        ItemContent::Assistant { parts, .. } => parts
            .iter()
            .map(render_part)
            .collect::<Vec<_>>()
            .join(" + "),
        ItemContent::Result(answer) => {
            let text = match answer.parts.first() {
                Some(Part::Text { text }) => text.as_str(),
                _ => "",
            };
            let went = answer.outcome == Outcome::Succeeded;
            format!("result {} {went} {text}", answer.id)
        }
        other => format!("{other:?}"),
    }
}

fn render_part(part: &AssistantPart) -> String {
    match part {
        AssistantPart::Text { text } => format!("text {text}"),
        AssistantPart::Thinking { text, .. } => format!("thought {text}"),
        AssistantPart::Call(call) => format!("call {} {} {}", call.id, call.name, call.input),
        AssistantPart::Raw { value } => format!("raw {value}"),
    }
}
