//! Writes `session_state.json`: the state of a session, for humans and other programs.

use segno_core::bundle::Bundle;
use segno_core::checkpoint::Manifest;
use segno_core::journal::{Event, Head, Text};
use segno_core::state::{OpenStep, Question};
use segno_core::usage::Usage;
use serde_json::{Value, json};

/// The version of the format.
const VERSION: u32 = 1;

/// The content of `session_state.json`. Without a session, only what the manifest has.
pub(super) fn state(manifest: &Manifest, bundle: Option<&Bundle>) -> Value {
    let mut shape = json!({
        "segno_state": VERSION,
        "session_id": manifest.session,
        "status": manifest.status,
        "working_directory": manifest.workspace,
        "run": manifest.journal.run,
        "entries": manifest.journal.seq,
        "steps_finished": manifest.finished,
        "usage": usage(&manifest.usage),
    });
    let Some(bundle) = bundle else {
        return shape;
    };
    let state = &bundle.state;
    let open = |open: &OpenStep| json!({"agent": open.agent, "attempt": open.attempt, "standing": open.status, "since": open.since.to_string()});
    let asked = |asked: &Question| json!({"prompt": asked.prompt, "default": asked.default, "asked_at": asked.asked_at.to_string()});
    shape["name"] = json!(bundle.header.name);
    shape["steps_open"] = state
        .open_steps
        .iter()
        .map(|(path, step)| (path.to_string(), open(step)))
        .collect();
    shape["questions"] = state
        .questions
        .iter()
        .map(|(path, question)| (path.to_string(), asked(question)))
        .collect();
    shape["usage_by_agent"] = state
        .usage_by_agent
        .iter()
        .map(|(agent, used)| (agent.clone(), usage(used)))
        .collect();
    shape["artifacts"] = json!(state.artifacts);
    shape["error"] = json!(state.error);
    shape["updated_at"] = json!(state.updated_at.to_string());
    if let Some(created) = &state.created {
        shape["kind"] = json!(created.kind);
        shape["created_at"] = json!(created.at.to_string());
        shape["variables"] = json!(created.variables);
        shape["spec_path"] = json!(created.spec_path);
    }
    shape["spec_digest"] = json!(state.spec_digest);
    shape["spec"] = json!(spec(bundle));
    shape
}

/// The current spec, with secrets redacted.
fn spec(bundle: &Bundle) -> Option<String> {
    let mut head = Head::genesis(bundle.header.session);
    for record in &bundle.records {
        let entry = head.open(record).ok()?;
        head = record.head();
        if entry.seq == bundle.state.spec_seq {
            let spec = match &entry.event {
                Event::SessionCreated(event) => &event.spec,
                Event::SpecChanged(event) => &event.spec,
                _ => return None,
            };
            return match spec {
                Text::Inline(text) => Some(text.clone()),
                Text::Blob { blob, .. } => bundle.texts.get(blob).cloned(),
            };
        }
    }
    None
}

pub(super) fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": usage.cost.usd(),
    })
}
