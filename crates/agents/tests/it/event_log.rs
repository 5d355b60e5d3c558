//! Renders a driver's events as text that a test can compare.

use std::sync::Mutex;

use segno_core::agent::{Event, Listener};
use segno_core::conversation::{Outcome, Part, Said, Utterance};

/// The reported events, one line each.
#[derive(Default)]
pub(crate) struct EventLog(Mutex<Vec<String>>);

impl EventLog {
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Listener for EventLog {
    fn hear(&self, event: Event<'_>) {
        let line = match event {
            Event::Native(id) => format!("native {id}"),
            Event::Usage(usage) => format!("usage {} {}", usage.input_tokens, usage.cost.0),
            Event::Context(gauge) => format!("context {} {:?}", gauge.used, gauge.window),
            Event::Notice(text) => format!("notice {text}"),
            Event::Text(text) => format!("piece {text}"),
            Event::Said(entry) => render(&entry.said),
        };
        self.0.lock().unwrap().push(line);
    }
}

fn render(said: &Said) -> String {
    match said {
        Said::Assistant { parts, .. } => parts
            .iter()
            .map(render_part)
            .collect::<Vec<_>>()
            .join(" + "),
        Said::Result(answer) => {
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

fn render_part(part: &Utterance) -> String {
    match part {
        Utterance::Text { text } => format!("text {text}"),
        Utterance::Thinking { text, .. } => format!("thought {text}"),
        Utterance::Call(call) => format!("call {} {} {}", call.id, call.name, call.input),
        Utterance::Raw { value } => format!("raw {value}"),
    }
}
