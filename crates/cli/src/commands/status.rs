//! `segno status`: shows sessions that are not finished.

use std::collections::HashMap;
use std::fmt::Write;
use std::process::ExitCode;

use segno_core::checkpoint::Manifest;
use segno_core::id::CheckpointId;
use segno_core::session::{Kind, Status};
use segno_core::store::{Filter, Summary};
use segno_core::time::{Timestamp, format_duration};
use segno_engine::{Env, history};
use segno_sessions as sessions;
use segno_sessions::chat::Limits;
use segno_sessions::checkpoint::{self, Overview};
use segno_sessions::json as shapes;
use segno_sessions::unknown::{Unresolved, unresolved};
use segno_sessions::{ListedSession, work};
use serde_json::{Value, json};

use crate::context::{Context, Persistence};
use crate::failure::Failure;
use crate::output::{
    columns, json_line, progress, stdout_line, table, text, timestamp, work as plans,
};

/// How many checkpoints are listed.
const NEWEST_CHECKPOINTS: usize = 5;

/// Show running and resumable sessions, or the progress of a plan.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Show only this session, finished or not, with its plan: session id, name, or unique prefix
    /// of either
    session: Option<String>,
    /// Print JSON, one session per line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, config) = context.env(Persistence::Home)?;
    let (mut plan, mut checkpoints) = (None, Checkpoints::default());
    let (listed, unlisted) = match &args.session {
        Some(reference) => {
            let summary = sessions::find(&env, reference).await?;
            plan = work::plan(&env, &summary).await?;
            checkpoints = Checkpoints::newest(&env, &summary).await?;
            (vec![ListedSession::of(&env, summary).await?], Vec::new())
        }
        None => sessions::list(&env, Filter::open()).await?,
    };
    let mut damaged: Vec<_> = unlisted.into_iter().map(history::Error::from).collect();
    let (mut rows, mut unknown, mut waiting) = (Vec::new(), Vec::new(), 0_u64);
    let now = env.clock.now();
    let is_open = |standing: Status| !standing.is_final() && !standing.is_archived();
    let shown = |listed: &&ListedSession| args.session.is_some() || is_open(listed.status);
    let mut at_rest = 0_u64;
    for listed in listed.iter().filter(shown) {
        if args.session.is_none() && !args.json && is_at_rest(listed, config.chat.limits, now) {
            at_rest += 1;
            continue;
        }
        let state = match history::load_state(&env, listed.summary.id).await {
            Ok(state) => state,
            // One damaged journal does not hide the other sessions.
            Err(error) => {
                damaged.push(error);
                continue;
            }
        };
        waiting += u64::from(listed.status.is_resumable() && listed.status != Status::Running);
        if args.json {
            let waits = state.suspended(now);
            let waits = waits.as_ref().map(|(path, suspension)| (*path, suspension));
            let mut line = shapes::session_line(listed, waits);
            line["pattern"] = json!(state.pattern());
            line["session_number"] = state.session_number.into();
            line["steps_finished"] = state.finished.into();
            line["usage"] = shapes::session_usage(&state);
            line["chat"] = shapes::chat(&state);
            line["notes"] = shapes::note_counts(&state.handoff);
            line["contexts"] = state
                .context_usages()
                .map(|(path, context_usage)| {
                    (path.to_string(), shapes::context_usage(context_usage))
                })
                .collect();
            line["unknown_steps"] = unresolved(listed, &state)
                .iter()
                .map(|step| json!({"path": step.path, "resolve": step.commands}))
                .collect();
            if let Some(plan) = &plan {
                line["plan"] = shapes::work_plan(plan);
            }
            if args.session.is_some() {
                line["checkpoints"] = checkpoints.json();
            }
            json_line(&line);
            continue;
        }
        unknown.extend(unresolved(listed, &state));
        let age = format_duration(now.since(listed.summary.updated_at));
        let at = if let Some((path, suspension)) = state.suspended(now) {
            format!("{path} {}", timestamp::suspended(&suspension))
        } else {
            let in_flight = state.in_flight().map(|(path, open)| {
                let context_usage = open.context_usage();
                match (
                    context_usage,
                    context_usage.and_then(|context_usage| context_usage.percent()),
                ) {
                    (_, Some(percent)) => format!("{path}, {percent} % of the context is used"),
                    (Some(context_usage), None) => {
                        format!(
                            "{path}, context {} tokens",
                            text::number(context_usage.used)
                        )
                    }
                    (None, None) => path.to_string(),
                }
            });
            in_flight.collect::<Vec<_>>().join(", ")
        };
        let owner = listed.lease.as_ref().and_then(|lease| lease.owner.as_ref());
        let doing = match (owner, &state.error) {
            (Some(owner), _) => {
                let stopped = if listed.is_stopped { ", stopped" } else { "" };
                format!("{at} (process {} on {}{stopped})", owner.pid, owner.host)
            }
            (_, Some(error)) if state.suspended(now).is_none() => error.message.clone(),
            _ => match state
                .stopped
                .as_ref()
                .and_then(|stopped| stopped.reason.clone())
            {
                Some(reason) => reason,
                None => at,
            },
        };
        rows.push(vec![
            listed.summary.name.to_string(),
            listed.status.to_string(),
            text::number(state.session_number),
            match &state.chat {
                Some(chat) => text::count(chat.messages, "message"),
                None => text::count(state.finished, "step"),
            },
            progress::session_spent(&state),
            format!("{age} ago"),
            doing,
        ]);
    }
    for error in &damaged {
        if args.json {
            json_line(
                &json!({"v": 1, "kind": "finding", "severity": "damage", "problem": error.to_string()}),
            );
        } else {
            stdout_line(&text::sanitize(&format!("damaged: {error}")));
        }
    }
    if args.json {
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        stdout_line(if at_rest == 0 {
            "no running or resumable sessions"
        } else {
            "no running or interrupted sessions"
        });
    } else {
        for line in table::table(
            &[
                "NAME",
                "STATUS",
                "SESSION NO",
                "DONE",
                "USED",
                "LAST EVENT",
                "NOW",
            ],
            &rows,
            columns(),
        ) {
            stdout_line(&line);
        }
    }
    for Unresolved { path, commands } in &unknown {
        let commands = commands.join("`, `");
        let line = format!("the outcome of step {path} is unknown; say it with `{commands}`");
        stdout_line(&text::sanitize(&line));
    }
    for line in plan.iter().flat_map(plans::lines) {
        stdout_line(&text::sanitize(&line));
    }
    for line in checkpoints.lines(now) {
        stdout_line(&text::sanitize(&line));
    }
    if waiting > 0 {
        stdout_line(&format!(
            "{} can be resumed: `segno resume NAME`",
            text::count(waiting, "session")
        ));
    }
    if at_rest > 0 {
        let conversations = text::count(at_rest, "imported conversation");
        stdout_line(&format!(
            "{conversations} not shown: `segno sessions list --all`"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether a session is an imported conversation in which nothing was said for long. There may be
/// hundreds, and they need nobody's attention.
fn is_at_rest(listed: &ListedSession, limits: Limits, now: Timestamp) -> bool {
    let summary = &listed.summary;
    summary.kind == Kind::Agent
        && listed.status == Status::Paused
        && now.since(summary.updated_at) >= limits.expiry
}

/// The newest checkpoints of a session, newest first, and how far it was at each.
#[derive(Default)]
struct Checkpoints {
    manifests: Vec<Manifest>,
    overviews: HashMap<CheckpointId, Overview>,
}

impl Checkpoints {
    async fn newest(env: &Env, summary: &Summary) -> Result<Self, Failure> {
        let (mut manifests, _) = checkpoint::list(env, Some(summary)).await?;
        manifests.reverse();
        manifests.truncate(NEWEST_CHECKPOINTS);
        let overviews = checkpoint::overviews(env, &manifests).await;
        Ok(Self {
            manifests,
            overviews,
        })
    }

    fn json(&self) -> Value {
        let shape = |manifest: &Manifest| {
            shapes::checkpoint_overview(manifest, self.overviews.get(&manifest.id))
        };
        self.manifests.iter().map(shape).collect()
    }

    fn lines(&self, now: Timestamp) -> Vec<String> {
        let line = |manifest: &Manifest| {
            let age = format_duration(now.since(manifest.at));
            let mut line = format!("checkpoint {} {age} ago, {}", manifest.id, manifest.trigger);
            if let Some(overview) = self.overviews.get(&manifest.id) {
                let number = overview.session_number;
                let done = overview.progress.describe();
                let _ = write!(line, ", session number {number}: {done}");
            }
            line
        };
        self.manifests.iter().map(line).collect()
    }
}
