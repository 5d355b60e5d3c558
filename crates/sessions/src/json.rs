//! The stable JSON shapes of sessions and of what happens in them, for `--json` and for servers.
//! `docs/formats/json.md` describes them. Adding a field is allowed; changing or removing one needs
//! a new `v`.

mod checkpoint;
mod work;

use segno_core::handoff::{Handoff, NoteContent, NoteList};
use segno_core::id::SessionId;
use segno_core::journal::{Event, JournalEvent, Suspension, Text};
use segno_core::state::{AgentStates, State};
use segno_core::step::Path;
use segno_core::store::{Finding, Summary};
use segno_core::time::Timestamp;
use segno_core::usage::{ContextUsage, Cost, Usage};
use segno_engine::Outcome;
use serde_json::{Map, Value, json};

use crate::answer::OpenQuestion;
use crate::doctor::Report;
use crate::fork::{ForkPlan, Forked};
use crate::resume::plan::{CliAgentPlan, Continuation, Plan, PlannedOutcome, StepPlan};
use crate::search::Match;
use crate::{ListedSession, SessionDetails, StepStatus, refusals};

pub use checkpoint::{
    Section, changed_file, changed_note, checkpoint, checkpoint_overview, checkpoint_sections,
    checkpoint_taken, difference, restored, stored_file,
};
pub use work::work_plan;

/// The version of all formats in this module.
const V: u32 = 1;

fn object(kind: &str) -> Map<String, Value> {
    Map::from_iter([("v".to_owned(), V.into()), ("kind".to_owned(), kind.into())])
}

/// A journal event: its position and its fields.
pub fn entry(session: SessionId, entry: &JournalEvent) -> Value {
    let mut line = object(entry.event.kind());
    line.insert("session".into(), session.to_string().into());
    line.insert("seq".into(), entry.seq.0.into());
    line.insert("run".into(), entry.run.0.into());
    line.insert("at".into(), entry.at.to_string().into());
    if let Ok(Value::Object(fields)) = serde_json::from_str(&entry.event.body()) {
        line.extend(fields);
    }
    match &entry.event {
        Event::StepFinished(event) => line.insert("usage".into(), usage(&event.usage)),
        Event::StepFailed(event) => {
            if let Some(suspension) = &event.suspended {
                line.insert("suspended".into(), suspended(None, suspension));
            }
            line.insert("usage".into(), usage(&event.usage))
        }
        Event::AgentMessages(event) => line.insert("usage".into(), usage(&event.usage)),
        _ => None,
    };
    Value::Object(line)
}

/// A step that an earlier run had finished.
pub fn skipped(session: SessionId, path: &Path) -> Value {
    let mut line = object("step_skipped");
    line.insert("session".into(), session.to_string().into());
    line.insert("path".into(), path.as_str().into());
    Value::Object(line)
}

/// A step that is still suspended.
pub fn suspended_step(session: SessionId, path: &Path, suspension: &Suspension) -> Value {
    let mut line = object("step_suspended");
    line.insert("session".into(), session.to_string().into());
    line.insert("path".into(), path.as_str().into());
    line.extend(fields(suspended(None, suspension)));
    Value::Object(line)
}

/// A rate limit that suspends a step.
pub fn suspended(path: Option<&Path>, suspension: &Suspension) -> Value {
    let mut value = json!({
        "provider": suspension.provider,
        "until": suspension.until.to_string(),
    });
    if let Some(path) = path {
        value["path"] = path.as_str().into();
    }
    value
}

/// A notice for the user.
pub fn notice(message: &str) -> Value {
    let mut line = object("notice");
    line.insert("message".into(), message.into());
    Value::Object(line)
}

/// The result of a run: the last line of `run --json` and `resume --json`.
pub fn result(outcome: &Outcome) -> Value {
    let mut line = object("result");
    line.extend(fields(json!({
        "session": outcome.session,
        "name": outcome.name,
        "session_number": outcome.state.session_number,
        "run": outcome.run,
        "status": outcome.state.status,
        "output": outcome.output,
        "steps_finished": outcome.state.finished,
        "steps_skipped": outcome.saved.steps,
        "usage": session_usage(&outcome.state),
        "refused_tools": refused_tools(&outcome.state),
        "saved": usage(&outcome.saved.usage),
        "artifacts": outcome.state.artifacts.keys().collect::<Vec<_>>(),
    })));
    Value::Object(line)
}

/// An exchange of a chat, and its usage.
pub fn exchange(outcome: &Outcome, used: &Usage) -> Value {
    let mut line = object("exchange");
    let state = &outcome.state;
    line.extend(fields(json!({
        "session": outcome.session,
        "name": outcome.name,
        "session_number": state.session_number,
        "run": outcome.run,
        "status": state.status,
        "message": state.chat.as_ref().map(|chat| chat.next_number.saturating_sub(1)),
        "answer": outcome.output,
        "ending": state.chat.as_ref().and_then(|chat| chat.ending),
        "usage": usage(used),
        "chat": state.chat.as_ref().map(|_| chat(state)),
    })));
    Value::Object(line)
}

/// The totals of a chat.
pub fn chat(state: &State) -> Value {
    json!(state.chat.as_ref().map(|chat| json!({
        "agent": chat.agent,
        "model": chat.model,
        "messages": chat.messages,
        "answers": chat.answers,
        "turns": chat.replies,
        "max_turns": chat.max_turns,
        "tool_calls": chat.tool_calls,
        "last_message_at": chat.last_message_at.to_string(),
        "last_ending": chat.ending,
        "conversation": chat.native.as_ref().map(|native| &native.id),
        "usage": session_usage(state),
    })))
}

/// A session in a list, and the rate limit that it waits for.
pub fn session_line(listed: &ListedSession, waits: Option<(&Path, &Suspension)>) -> Value {
    let summary = &listed.summary;
    json!({
        "v": V,
        "kind": "session",
        "session": summary.id,
        "name": summary.name,
        "session_kind": summary.kind,
        "status": listed.status,
        "workspace": summary.workspace,
        "created_at": summary.created_at.to_string(),
        "updated_at": summary.updated_at.to_string(),
        "run": summary.run,
        "events": summary.head.seq,
        "spec_digest": summary.spec_digest,
        "suspended": waits.map(|(path, suspension)| suspended(Some(path), suspension)),
        "owner": owner(listed),
    })
}

/// The process that runs a session.
fn owner(listed: &ListedSession) -> Option<Value> {
    let lease = listed.lease.as_ref()?;
    let owner = lease.owner.as_ref()?;
    Some(json!({
        "host": owner.host,
        "pid": owner.pid,
        "since": lease.since.to_string(),
        "until": lease.until.to_string(),
        "stopped": listed.is_stopped,
    }))
}

/// Numbers of notes by type and state.
pub fn note_counts(handoff: &Handoff) -> Value {
    fn open<T: NoteContent>(shelf: &NoteList<T>) -> usize {
        let open = shelf.active().filter(|kept| !kept.note.is_resolved());
        open.count()
    }
    let tests = handoff.tests.as_ref().map(|kept| &kept.note);
    json!({
        "decisions": handoff.decisions.active().count(),
        "errors_unresolved": open(&handoff.errors),
        "feedback_open": open(&handoff.feedback),
        "todos_open": open(&handoff.todos),
        "tests": tests.map(|tests| json!({"phase": tests.phase, "failing": tests.failing})),
    })
}

/// What agents stored, by agent and key.
fn agent_states(states: &AgentStates) -> Value {
    let mut agents = Map::new();
    for (agent, key, stored) in states.iter() {
        let values = agents.entry(agent).or_insert_with(|| json!({}));
        values[key.as_str()] = stored.value.clone();
    }
    Value::Object(agents)
}

/// All details of a session, at `now`.
pub fn session_details(shown: &SessionDetails, now: Timestamp) -> Value {
    let state = &shown.state;
    let waits = state.suspended(now);
    let waits = waits.as_ref().map(|(path, suspension)| (*path, suspension));
    let mut line = fields(session_line(&shown.listed, waits));
    let created = state.created.as_ref();
    line.extend(fields(json!({
        "pattern": shown.pattern,
        "session_number": state.session_number,
        "forked_from": state.forked.as_ref().map(|forked| json!({
            "session": forked.from,
            "name": forked.name,
            "seq": forked.seq,
            "before": forked.before,
            "checkpoint": forked.checkpoint,
        })),
        "spec_path": created.map(|created| &created.spec_path),
        "variables": created.map(|created| &created.variables),
        "usage": session_usage(state),
        "usage_by_agent": state.usage_by_agent.iter().map(|(agent, used)| (agent.clone(), total_usage(used))).collect::<Map<_, _>>(),
        "refused_tools": refused_tools(state),
        "steps_finished": state.finished,
        "artifacts": state.artifacts,
        "notes": note_counts(&state.handoff),
        "agent_state": agent_states(&state.agent_states),
        "error": state.error,
        "output": state.output,
        "stopped": state.stopped.as_ref().map(|stopped| json!({
            "by": stopped.by,
            "reason": stopped.reason,
            "at": stopped.at.to_string(),
        })),
        "chat": chat(state),
        "conversations": shown.conversations.iter().map(|talk| json!({
            "path": talk.path,
            "program": talk.program,
            "conversation": talk.native,
            "folder": talk.folder,
            "strategies": talk.strategies,
            "context": talk.context.map(context_usage),
            "last_message": talk.last_message,
        })).collect::<Vec<_>>(),
        "steps": shown.steps.iter().map(|step| {
            let error = match &step.status {
                StepStatus::Failed(failure) => Some(failure),
                _ => None,
            };
            json!({
                "path": step.path,
                "agent": step.agent,
                "status": step_status(&step.status),
                "attempts": step.attempts,
                "usage": total_usage(&step.usage),
                "reported": step.report.map(|report| json!({
                    "turns": report.turns,
                    "duration_ms": report.duration_ms,
                })),
                "model_turns": step.turns,
                "tool_calls": step.tools,
                "elapsed_ms": step.elapsed.map(|elapsed| u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)),
                "seq": step.seq,
                "error": error,
                "said": step.said.as_ref().map(|(outcome, by)| json!({"outcome": outcome, "by": by})),
                "resolve": shown.commands_for(step),
            })
        }).collect::<Vec<_>>(),
    })));
    Value::Object(line)
}

/// The context usage of an agent.
pub fn context_usage(context_usage: ContextUsage) -> Value {
    json!({
        "used": context_usage.used,
        "window": context_usage.window,
        "percent": context_usage.percent(),
    })
}

/// The word for the status of a step.
pub fn step_status(standing: &StepStatus) -> &'static str {
    match standing {
        StepStatus::Finished => "finished",
        StepStatus::InFlight => "in_flight",
        StepStatus::Unknown => "unknown",
        StepStatus::Failed(_) => "failed",
        StepStatus::Discarded => "discarded",
        StepStatus::Paused => "paused",
        StepStatus::Waiting => "waiting",
    }
}

/// A question to the user.
pub fn question(asked: &OpenQuestion) -> Value {
    json!({
        "v": V,
        "kind": "question",
        "path": asked.path,
        "prompt": asked.question.prompt,
        "context": asked.context,
        "default": asked.question.default,
        "validation": asked.question.validation,
        "asked_at": asked.question.asked_at.to_string(),
        "until": asked.question.until().map(|until| until.to_string()),
    })
}

/// A question in a list of the questions of all sessions.
pub fn question_of(summary: &Summary, asked: &OpenQuestion) -> Value {
    let mut line = fields(question(asked));
    line.insert("session".into(), summary.id.to_string().into());
    line.insert("name".into(), summary.name.as_str().into());
    Value::Object(line)
}

/// A result of a search.
pub fn search_match(find: &Match) -> Value {
    json!({
        "v": V,
        "kind": "match",
        "session": find.session,
        "name": find.name,
        "path": find.path,
        "agent": find.agent,
        "who": find.who.as_str(),
        "at": find.at.to_string(),
        "seq": find.seq,
        "snippet": find.snippet,
    })
}

/// A finding of a verification.
pub fn finding(finding: &Finding) -> Value {
    let mut line = object("finding");
    line.extend(fields(json!({
        "severity": finding.severity,
        "session": finding.session,
        "object": finding.object,
        "problem": finding.problem,
    })));
    Value::Object(line)
}

/// The totals of a verification, and whether it read the content of packs.
pub fn report(report: &Report, data_read: bool) -> Value {
    json!({
        "v": V,
        "kind": "report",
        "sessions": report.sessions,
        "events": report.events,
        "blobs": report.blobs,
        "checkpoints": report.checkpoints,
        "packs": report.packs,
        "pack_bytes": report.pack_bytes,
        "data_read": data_read,
        "damaged": report.damaged(),
    })
}

/// What a resume would do.
pub fn plan(summary: &Summary, plan: &Plan) -> Value {
    let mut line = object("resume_plan");
    let owner = plan.held_by.as_ref();
    let repository = plan.workspace_status.repository.as_ref();
    line.insert("session".into(), summary.id.to_string().into());
    line.insert("name".into(), summary.name.as_str().into());
    line.insert("status".into(), plan.status.as_str().into());
    line.insert("steps_finished".into(), plan.finished.into());
    let edit = plan.spec_edit.as_ref();
    line.insert(
        "spec_edit".into(),
        json!(edit.map(|edit| json!({"steps": edit.steps, "policy": edit.policy}))),
    );
    line.insert(
        "held_by".into(),
        json!(owner.map(|owner| json!({"host": owner.host, "pid": owner.pid}))),
    );
    line.insert(
        "workspace".into(),
        json!({
            "folder": summary.workspace,
            "branch": repository.and_then(|repository| repository.branch.as_deref()),
            "commit": repository.and_then(|repository| repository.commit.as_deref()),
            "changed": plan.workspace_status.changed,
            "drift": plan.drift,
        }),
    );
    line.insert("steps".into(), planned(&plan.steps));
    line.insert("unresolved".into(), json!(plan.unresolved));
    Value::Object(line)
}

/// A fork of the session `from`.
pub fn forked(from: SessionId, forked: &Forked) -> Value {
    let summary = &forked.summary;
    json!({
        "v": V,
        "kind": "forked",
        "session": summary.id,
        "name": summary.name,
        "status": summary.status,
        "from": from,
        "steps_finished": forked.steps,
        "checkpoint": forked.checkpoint,
        "workspace": summary.workspace,
        "rescue": forked.rescue,
        "disarmed": forked.set_aside,
    })
}

/// What a fork would contain, and how it would be resumed.
pub fn fork_plan(summary: &Summary, plan: &ForkPlan) -> Value {
    let owner = plan.held_by.as_ref();
    let files = plan.replaced.as_ref();
    let files = files.map(|files| json!({"written": files.written, "removed": files.removed}));
    let mut line = object("fork_plan");
    line.insert("from".into(), summary.id.to_string().into());
    line.insert("name".into(), plan.name.as_str().into());
    line.insert("steps_finished".into(), plan.finished.into());
    line.insert("checkpoint".into(), json!(plan.checkpoint));
    let folder = plan.workspace.display().to_string();
    line.insert("workspace".into(), folder.into());
    line.insert("replaced".into(), json!(files));
    line.insert(
        "held_by".into(),
        json!(owner.map(|owner| json!({"host": owner.host, "pid": owner.pid}))),
    );
    line.insert("steps".into(), planned(&plan.steps));
    Value::Object(line)
}

fn planned(steps: &[StepPlan]) -> Value {
    let steps = steps.iter().map(|step| {
        let mut line = Map::new();
        line.insert("path".into(), step.path.as_str().into());
        line.insert("agent".into(), step.agent.as_str().into());
        let waits = step.suspended.as_ref();
        line.insert(
            "suspended".into(),
            json!(waits.map(|suspension| suspended(None, suspension))),
        );
        let outcome = step.outcome;
        line.insert("outcome".into(), json!(outcome.map(PlannedOutcome::as_str)));
        if let Some(PlannedOutcome::Failed { retried }) = outcome {
            line.insert("retried".into(), retried.into());
        }
        match &step.continuation {
            Continuation::Restart => line.insert("continuation".into(), "restart".into()),
            Continuation::Journal => line.insert("continuation".into(), "journal".into()),
            Continuation::AsText => line.insert("continuation".into(), "text".into()),
            Continuation::CliAgent(climb) => {
                line.extend(strategy_fields(climb));
                line.insert("continuation".into(), "agent".into())
            }
        };
        Value::Object(line)
    });
    steps.collect()
}

/// How a CLI agent would be resumed.
fn strategy_fields(climb: &CliAgentPlan) -> Map<String, Value> {
    let because = climb.plan.rejected.iter();
    let because =
        because.map(|(strategy, why)| json!({"strategy": strategy.as_str(), "reason": why}));
    let dollars = |cost: Option<Cost>| json!(cost.map(Cost::usd));
    let estimate = &climb.estimate;
    let Value::Object(line) = json!({
        "program": climb.program.as_str(),
        "conversation": climb.conversation_id,
        "strategy": climb.plan.strategy.as_str(),
        "rejected": because.collect::<Vec<_>>(),
        "lost": climb.plan.lost,
        "unknown": climb.plan.unknown,
        "unexamined": climb.unexamined,
        "open_in": climb.holders.iter().map(|holder| json!({"pid": holder.pid, "program": holder.program})).collect::<Vec<_>>(),
        "moved_from": climb.moved_from,
        "copied_from": climb.copied_from.as_ref().map(ToString::to_string),
        "context_used": climb.context_usage.map(|context_usage| context_usage.used),
        "context_window": climb.context_usage.and_then(|context_usage| context_usage.window),
        "tokens": estimate.tokens,
        "tokens_counted": estimate.counted,
        "cost_usd_warm": dollars(estimate.warm),
        "cost_usd_cold": dollars(estimate.cold),
    }) else {
        unreachable!("it is written as an object")
    };
    line
}

/// The usage of a session. Where agents reported only money, their tokens are estimated.
pub fn session_usage(state: &State) -> Value {
    with_estimate(&state.usage, state.estimated_tokens())
}

/// The usage of one agent, or of a step. If only money was reported, tokens are estimated.
pub fn total_usage(used: &Usage) -> Value {
    with_estimate(used, used.estimated_tokens())
}

fn with_estimate(used: &Usage, estimated: Option<u64>) -> Value {
    let mut value = usage(used);
    if let Some(estimated) = estimated {
        value["estimated_tokens"] = estimated.into();
    }
    value
}

/// The tools that agents were refused, with the settings that allow them.
pub fn refused_tools(state: &State) -> Value {
    let refused = state.refused_tools.iter().map(|refused| {
        json!({
            "agent": refused.agent,
            "program": refused.program,
            "tool": refused.tool,
            "count": refused.count,
            "reason": refused.reason,
            "settings": refusals::settings(refused),
        })
    });
    refused.collect()
}

/// Tokens and cost.
pub fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": usage.cost.usd(),
    })
}

/// The text, or a reference to the blob that contains it.
pub fn text(text: &Text) -> String {
    match text {
        Text::Inline(text) => text.clone(),
        Text::Blob { blob, bytes } => format!("[{bytes} bytes, blob {}]", blob.short()),
    }
}

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
