//! The stable shapes of `--json`. `docs/formats/json.md` describes them; adding a field is allowed,
//! changing or removing one needs a new `v`.

use segno_core::companion::Program;
use segno_core::id::SessionId;
use segno_core::journal::{Entry, Event, Text};
use segno_core::session::{Status, Summary};
use segno_core::step::Path;
use segno_core::store::Finding;
use segno_core::usage::{Cost, Usage};
use segno_engine::Outcome;
use segno_engine::adopt::{self, Adopted};
use segno_engine::plan::{Climb, Plan, Way};
use segno_engine::sessions::{Listed, Shown, StepStanding};
use serde_json::{Map, Value, json};

/// The version of every shape here.
const V: u32 = 1;

fn object(kind: &str) -> Map<String, Value> {
    Map::from_iter([("v".to_owned(), V.into()), ("kind".to_owned(), kind.into())])
}

/// The same JSON with every character escaped that a terminal would act on.
pub(crate) fn harmless(json: &str) -> String {
    use std::fmt::Write;
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if super::plain::acts(c) {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// An entry of a journal: its fields beside its place.
pub(crate) fn entry(session: SessionId, entry: &Entry) -> Value {
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
        Event::StepFailed(event) => line.insert("usage".into(), usage(&event.usage)),
        Event::AgentSaid(event) => line.insert("usage".into(), usage(&event.usage)),
        _ => None,
    };
    Value::Object(line)
}

/// A step that an earlier run had finished.
pub(crate) fn skipped(session: SessionId, path: &Path) -> Value {
    let mut line = object("step_skipped");
    line.insert("session".into(), session.to_string().into());
    line.insert("path".into(), path.as_str().into());
    Value::Object(line)
}

/// Something worth knowing.
pub(crate) fn notice(message: &str) -> Value {
    let mut line = object("notice");
    line.insert("message".into(), message.into());
    Value::Object(line)
}

/// How a run went: the last line of `run --json` and `resume --json`.
pub(crate) fn result(outcome: &Outcome) -> Value {
    let mut line = object("result");
    line.extend(fields(json!({
        "session": outcome.session,
        "name": outcome.name,
        "run": outcome.run,
        "status": outcome.state.status,
        "output": outcome.output,
        "steps_finished": outcome.state.finished,
        "steps_skipped": outcome.saved.steps,
        "usage": usage(&outcome.state.usage),
        "saved": usage(&outcome.saved.usage),
        "artifacts": outcome.state.artifacts.keys().collect::<Vec<_>>(),
    })));
    Value::Object(line)
}

/// A session in a list.
pub(crate) fn listed(listed: &Listed) -> Value {
    let summary = &listed.summary;
    json!({
        "v": V,
        "kind": "session",
        "session": summary.id,
        "name": summary.name,
        "session_kind": summary.kind,
        "status": listed.standing,
        "workspace": summary.workspace,
        "created_at": summary.created_at.to_string(),
        "updated_at": summary.updated_at.to_string(),
        "run": summary.run,
        "entries": summary.head.seq,
        "spec_digest": summary.spec_digest,
        "owner": listed.lease.owner.as_ref().filter(|_| listed.standing == Status::Running).map(|owner| json!({
            "host": owner.host,
            "pid": owner.pid,
            "since": listed.lease.since.to_string(),
            "until": listed.lease.until.to_string(),
        })),
    })
}

/// A session in full.
pub(crate) fn shown(shown: &Shown) -> Value {
    let mut line = fields(listed(&shown.listed));
    let state = &shown.state;
    let created = state.created.as_ref();
    line.extend(fields(json!({
        "forked_from": state.forked.as_ref().map(|forked| json!({
            "session": forked.from,
            "name": forked.name,
            "seq": forked.seq,
            "before": forked.before,
        })),
        "spec_path": created.map(|created| &created.spec_path),
        "variables": created.map(|created| &created.variables),
        "usage": usage(&state.usage),
        "usage_by_agent": state.usage_by_agent.iter().map(|(agent, used)| (agent.clone(), usage(used))).collect::<Map<_, _>>(),
        "steps_finished": state.finished,
        "artifacts": state.artifacts,
        "error": state.error,
        "conversations": shown.talks.iter().map(|talk| json!({
            "path": talk.path,
            "program": talk.program,
            "native": talk.native,
            "folder": talk.folder,
            "rungs": talk.rungs,
            "context": talk.context.map(|gauge| json!({
                "used": gauge.used,
                "window": gauge.window,
                "percent": gauge.percent(),
            })),
            "last_words": talk.last,
        })).collect::<Vec<_>>(),
        "steps": shown.steps.iter().map(|step| {
            let error = match &step.standing {
                StepStanding::Failed(failure) => Some(failure),
                _ => None,
            };
            json!({
                "path": step.path,
                "agent": step.agent,
                "status": standing(&step.standing),
                "attempts": step.attempts,
                "usage": usage(&step.usage),
                "model_turns": step.turns,
                "tool_calls": step.tools,
                "elapsed_ms": step.elapsed.map(|elapsed| u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)),
                "seq": step.seq,
                "error": error,
            })
        }).collect::<Vec<_>>(),
    })));
    Value::Object(line)
}

/// What became of a transcript.
pub(crate) fn adopted(file: &std::path::Path, program: Program, adopted: &Adopted) -> Value {
    let (outcome, reason) = match &adopted.outcome {
        adopt::Outcome::New => ("new", None),
        adopt::Outcome::Updated => ("updated", None),
        adopt::Outcome::Unchanged => ("unchanged", None),
        adopt::Outcome::Left(reason) => ("left", Some(reason)),
        adopt::Outcome::Empty => ("empty", None),
    };
    json!({
        "v": V,
        "kind": "adopted",
        "file": file.display().to_string(),
        "program": program,
        "native": adopted.native,
        "session": adopted.session,
        "name": adopted.name,
        "outcome": outcome,
        "reason": reason,
        "entries": adopted.entries,
        "bytes": adopted.bytes,
        "damage": adopted.damage,
        "damage_unlisted": adopted.damage_unlisted,
    })
}

/// The word for how a step stands.
pub(crate) fn standing(standing: &StepStanding) -> &'static str {
    match standing {
        StepStanding::Finished => "finished",
        StepStanding::InFlight => "in_flight",
        StepStanding::Unknown => "unknown",
        StepStanding::Failed(_) => "failed",
        StepStanding::Discarded => "discarded",
        StepStanding::Paused => "paused",
        StepStanding::Waiting => "waiting",
    }
}

/// Something that is not as it should be.
pub(crate) fn finding(finding: &Finding) -> Value {
    let mut line = object("finding");
    line.extend(fields(json!({
        "severity": finding.severity,
        "session": finding.session,
        "object": finding.object,
        "problem": finding.problem,
    })));
    Value::Object(line)
}

/// What a resume would do.
pub(crate) fn plan(summary: &Summary, plan: &Plan) -> Value {
    let mut line = object("resume_plan");
    let owner = plan.held_by.as_ref();
    let steps = plan.steps.iter().map(|step| {
        let mut line = Map::new();
        line.insert("path".into(), step.path.as_str().into());
        line.insert("agent".into(), step.agent.as_str().into());
        match &step.way {
            Way::Again => line.insert("way".into(), "again".into()),
            Way::Journal => line.insert("way".into(), "journal".into()),
            Way::Ladder(climb) => {
                line.extend(self::climb(climb));
                line.insert("way".into(), "ladder".into())
            }
        };
        Value::Object(line)
    });
    let repository = plan.sight.repository.as_ref();
    line.insert("session".into(), summary.id.to_string().into());
    line.insert("name".into(), summary.name.as_str().into());
    line.insert("status".into(), plan.status.as_str().into());
    line.insert("steps_finished".into(), plan.finished.into());
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
            "changed": plan.sight.changed,
            "drift": plan.drift,
        }),
    );
    line.insert("steps".into(), steps.collect());
    Value::Object(line)
}

/// How an agent's program would go on.
fn climb(climb: &Climb) -> Map<String, Value> {
    let because = climb.plan.because.iter();
    let because = because.map(|(rung, why)| json!({"rung": rung.as_str(), "reason": why}));
    let dollars = |cost: Option<Cost>| json!(cost.map(Cost::usd));
    let estimate = &climb.estimate;
    let Value::Object(line) = json!({
        "program": climb.program.as_str(),
        "native": climb.native,
        "rung": climb.plan.rung.as_str(),
        "not": because.collect::<Vec<_>>(),
        "lost": climb.plan.lost,
        "context_used": climb.gauge.map(|gauge| gauge.used),
        "context_window": climb.gauge.and_then(|gauge| gauge.window),
        "tokens": estimate.tokens,
        "tokens_counted": estimate.counted,
        "cost_usd_warm": dollars(estimate.warm),
        "cost_usd_cold": dollars(estimate.cold),
    }) else {
        unreachable!("it is written as an object")
    };
    line
}

/// Tokens and money.
pub(crate) fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": usage.cost.usd(),
    })
}

/// Text, or where it is kept.
pub(crate) fn text(text: &Text) -> String {
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
