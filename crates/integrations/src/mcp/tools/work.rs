//! MCP tools that act on the running session: checkpoint, pause, status.

use segno_core::checkpoint::Trigger;
use segno_core::journal::StopMode;
use segno_engine::{history, lease, retention};
use segno_sessions::json as shapes;
use segno_sessions::{checkpoint, notes, pause};
use serde::Deserialize;
use serde_json::{Value, json};

use super::schema::{choice, object, text};
use super::{Effect, Tool, parse_args};
use crate::mcp::{BoundSession, Error};

pub(super) fn definitions() -> Vec<Tool> {
    vec![
        Tool {
            name: "checkpoint",
            title: "Take a checkpoint",
            description: "Use it before something risky, and when a part of the work is done: all files are saved as they are now. The user can restore them; you continue at once.",
            input_schema: object(
                &["reason"],
                &json!({"reason": text("Why, for the user who looks for it later")}),
            ),
            effect: Effect::Adds,
        },
        Tool {
            name: "pause",
            title: "Pause this session",
            description: "Use it when you cannot or should not continue without the user. The session stops when your step ends, and the user resumes it later; record first what they must know.",
            input_schema: object(
                &["reason"],
                &json!({
                    "reason": text("Why, for the user who resumes it"),
                    "now": choice("Stop at once, in the middle of the step, instead of at its end"),
                }),
            ),
            effect: Effect::Adds,
        },
        Tool {
            name: "status",
            title: "How the session stands",
            description: "Use it to learn which session this is, how it stands, and how much there is to read. It takes nothing and changes nothing.",
            input_schema: object(&[], &json!({})),
            effect: Effect::Reads,
        },
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PauseArgs {
    reason: String,
    #[serde(default)]
    now: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckpointArgs {
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StatusArgs {}

/// Maximum length of a reason that is stored with a checkpoint, in characters.
const MAX_CHARS: usize = 1000;

pub(super) async fn checkpoint(bound: &BoundSession, value: Value) -> Result<Value, Error> {
    let CheckpointArgs { reason } = parse_args(value)?;
    let (env, summary) = bound.session().await?;
    // Redact before truncating: the redactor does not recognize half a secret.
    let reason = env.redactor.redact(&reason).into_owned();
    let reason: String = reason.chars().take(MAX_CHARS).collect();
    let note = format!("{}: {reason}", bound.agent_label());
    let taken = checkpoint::create(env, &summary, Trigger::Manual, Some(note), &|_, _| {}).await?;
    // The checkpoint is durable. What could not be pruned is pruned with the next one.
    let _ = retention::enforce(env, &summary).await;
    Ok(json!({
        "checkpoint": taken.manifest.id,
        "files": taken.captured.files,
        "bytes": taken.captured.bytes,
        "changed_while_read": taken.captured.unstable.len(),
        "not_read": taken.captured.skipped.len(),
    }))
}

pub(super) async fn pause(bound: &BoundSession, value: Value) -> Result<Value, Error> {
    let PauseArgs { reason, now } = parse_args(value)?;
    let (env, summary) = bound.session().await?;
    let (mode, what) = if now {
        (
            StopMode::Now,
            "the session stops now, and continues here when it is resumed",
        )
    } else {
        (
            StopMode::Boundary,
            "the session stops when this step ends; end it by answering",
        )
    };
    let request = pause::Request {
        mode,
        by: bound.agent_label(),
        reason: Some(reason),
    };
    pause::request(env, &summary, request).await?;
    Ok(json!({"asked": true, "note": what}))
}

pub(super) async fn status(bound: &BoundSession, value: Value) -> Result<Value, Error> {
    let StatusArgs {} = parse_args(value)?;
    let (env, summary) = bound.session().await?;
    let lease = env.store.lease(summary.id).await;
    let lease = lease?;
    let state = history::load_state(env, summary.id).await?;
    let handoff = notes::merged(env, &summary).await?;
    let in_flight: Vec<String> = state
        .in_flight()
        .map(|(path, _)| path.to_string())
        .collect();
    let questions: Vec<String> = state.questions.keys().map(ToString::to_string).collect();
    let stopped = state.stopped.as_ref();
    Ok(json!({
        "session": summary.id,
        "name": summary.name,
        "workspace": summary.workspace,
        "status": lease::effective_status(env, &summary, &lease),
        "session_number": state.session_number,
        "run": state.run,
        "reason": stopped.and_then(|stopped| stopped.reason.as_deref()),
        "steps_finished": state.finished,
        "steps_in_flight": in_flight,
        "waits_for_user": questions,
        "usage": shapes::usage(&state.usage),
        "notes": {
            "decisions": handoff.decisions.active().count(),
            "errors": handoff.errors.active().count(),
            "feedback": handoff.feedback.active().count(),
            "todos": handoff.todos.active().count(),
        },
    }))
}
