//! `segno worker`: runs sessions in the background.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use segno_core::store::{Error as StoreError, Summary};
use segno_engine::Env;
use segno_store::LocalDisk;
use segno_supervisor::worker::{Report, Settings, Worker, WorkerRecord, workers};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::config::{self, Config};
use crate::context::{Context, Persistence, notices};
use crate::failure::Failure;
use crate::machine::{Launcher, MachineProcesses};
use crate::output::text::sanitize;
use crate::output::{json_line, stderr_line, stdout_line};

/// Run sessions in the background.
///
/// A worker runs what `segno run --detach`, `segno resume --detach` and the API hand over, and
/// resumes lost runs where the spec or the one who handed them over wants that. Each session runs in
/// a process of its own, which does not end with the worker. `segno serve` contains a worker.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// Print what the worker does as JSON, one line each
    #[arg(long)]
    pub(crate) json: bool,
}

/// How much a worker does.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct LimitArgs {
    /// How many sessions may run at once in this home before no further one is started
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1000))]
    max_runs: u16,
    /// How many seconds runs may take to finish their step when the worker stops
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(0..=86_400))]
    drain: u32,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, config) = context.env(Persistence::Home)?;
    let report: fn(Report) = if args.json { print_json } else { print_line };
    let worker = worker(env, &config, &args.limits, report)?;
    let (stop, stopped) = watch::channel(false);
    stop_on_signals(stop)?;
    if !args.json {
        let runs = args.limits.max_runs;
        stdout_line(&format!(
            "running up to {runs} sessions at once; Ctrl-C lets them finish their steps and stops"
        ));
    }
    worker.run(stopped).await;
    Ok(ExitCode::SUCCESS)
}

/// The first SIGTERM or Ctrl-C lets runs finish their steps, the second leaves them alone.
fn stop_on_signals(stop: watch::Sender<bool>) -> Result<(), Failure> {
    let failed = |error| {
        Failure::internal(format!(
            "the signals of this process cannot be read: {error}"
        ))
    };
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    tokio::spawn(async move {
        let mut is_stopping = false;
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if is_stopping {
                std::process::exit(130);
            }
            is_stopping = true;
            stderr_line("stopping");
            let _ = stop.send(true);
        }
    });
    Ok(())
}

/// A worker of this home.
pub(crate) fn worker(
    env: Env,
    config: &Config,
    limits: &LimitArgs,
    report: fn(Report),
) -> Result<Worker, Failure> {
    let folder = folder()?;
    let failed = |error: std::io::Error| StoreError::Unavailable {
        place: folder.display().to_string(),
        reason: error.to_string(),
    };
    let launcher = Launcher::new(folder.join("logs")).map_err(failed)?;
    let settings = Settings {
        max_runs: usize::from(limits.max_runs),
        drain: Duration::from_secs(limits.drain.into()),
        chats: config.chat.limits,
        folder: folder.clone(),
    };
    let notices = notices(&env, config);
    let worker = Worker::new(env, Arc::new(launcher), notices, Arc::new(report), settings);
    Ok(worker.map_err(failed)?)
}

/// Where the workers of this home say who they are.
pub(crate) fn folder() -> Result<PathBuf, Failure> {
    let (home, _) = config::locations()?;
    Ok(home.join("workers"))
}

/// The workers of this home that live.
pub(crate) fn living() -> Result<Vec<WorkerRecord>, Failure> {
    Ok(workers(
        &folder()?,
        &LocalDisk,
        &MachineProcesses::default(),
    ))
}

/// Prints what a worker does, for people.
pub(crate) fn print_line(report: Report) {
    stderr_line(&sanitize(&match report {
        Report::Started(name) => format!("started {name}"),
        Report::Ended { name, status } => format!("{name} is {status}"),
        Report::Resumed { name, evidence } => format!("resuming {name}: {evidence}"),
        Report::Parked { name, reason } => {
            format!("{name} is left to you: {reason}; `segno resume {name}` resumes it")
        }
        Report::NotStarted { name, reason } => format!("{name} was not started: {reason}"),
        Report::Unreadable { session, reason } => {
            format!("session {session} cannot be read: {reason}; `segno doctor` examines it")
        }
    }));
}

fn print_json(report: Report) {
    let line = |kind: &str, name: &str, more: Value| {
        let mut line = json!({"v": 1, "kind": kind, "name": name});
        let Value::Object(more) = more else {
            return line;
        };
        line.as_object_mut().expect("an object").extend(more);
        line
    };
    json_line(&match report {
        Report::Started(name) => line("started", name.as_str(), json!({})),
        Report::Ended { name, status } => line("ended", name.as_str(), json!({"status": status})),
        Report::Resumed { name, evidence } => {
            line("resumed", name.as_str(), json!({"evidence": evidence}))
        }
        Report::Parked { name, reason } => line("parked", name.as_str(), json!({"reason": reason})),
        Report::NotStarted { name, reason } => {
            line("not_started", name.as_str(), json!({"reason": reason}))
        }
        Report::Unreadable { session, reason } => {
            json!({"v": 1, "kind": "unreadable", "session": session, "reason": reason})
        }
    });
}

/// Says that a session waits for a worker, and whether there is one.
pub(crate) async fn print_pending(
    context: &Context,
    summary: &Summary,
    json: bool,
) -> Result<(), Failure> {
    let (session, name) = (summary.id, &summary.name);
    let workers = match &context.remote {
        Some(remote) => {
            let answer: Value = remote.connection.get("/api/v1/workers").await?;
            answer["workers"].as_array().map_or(0, Vec::len)
        }
        None => living()?.len(),
    };
    if json {
        json_line(&json!({
            "v": 1, "kind": "requested", "session": session, "name": name,
            "status": "pending", "workers": workers,
        }));
    } else {
        stdout_line(&format!("{name} ({session}) waits for a worker"));
        stderr_line(&format!("`segno logs -f {name}` follows it"));
    }
    if workers == 0 {
        stderr_line("no worker runs: start one with `segno worker` or `segno serve`");
    }
    Ok(())
}
