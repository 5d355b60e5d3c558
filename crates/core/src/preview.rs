//! What running answers say so far. A preview is shown until the journal has the text; it is never
//! durable, and nothing may depend on it.

use serde::{Deserialize, Serialize};

use crate::journal::{Event, Run, Seq};
use crate::step::Path;

/// The previews of one session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preview {
    pub v: u16,
    /// The run that writes it.
    pub run: Run,
    /// The steps that are being answered and have text.
    pub steps: Vec<StepPreview>,
}

/// What an agent has said in a step since the newest event of that step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepPreview {
    pub path: Path,
    pub attempt: u32,
    /// The text is newer than this event. A later event of the step replaces it.
    pub since: Seq,
    /// Complete lines, without secrets (P12).
    pub text: String,
}

impl Preview {
    /// The version of the format.
    pub const VERSION: u16 = 1;
    /// The longest text of a step. What follows comes with the event.
    pub const MAX_TEXT: usize = 64 * 1024;
    /// The most steps that a session shows at once.
    pub const MAX_STEPS: usize = 16;
}

/// The step whose preview an event replaces.
pub fn replaced_step(event: &Event) -> Option<&Path> {
    match event {
        Event::StepStarted(event) => Some(&event.path),
        Event::StepFinished(event) => Some(&event.path),
        Event::StepFailed(event) => Some(&event.path),
        Event::StepUnknown(event) => Some(&event.path),
        Event::StepPaused(event) => Some(&event.path),
        Event::StepDiscarded(event) => Some(&event.path),
        Event::ModelReplied(event) => Some(&event.path),
        Event::AgentMessages(event) => Some(&event.path),
        Event::ExchangeEnded(event) => Some(&event.path),
        _ => None,
    }
}
