//! `segno sessions import` of a folder: imports a session together with its files.

use std::path::Path;
use std::process::ExitCode;

use segno_core::session::Status;
use segno_core::snapshot::archive::Limits;
use segno_engine::{Env, lease};
use segno_sessions::archive::{self, ImportedSession, SessionImport};
use serde_json::json;

use super::import::Args;
use crate::commands::checkpoint::{bytes, progress};
use crate::context::{Context, Persistence, workspace};
use crate::failure::Failure;
use crate::output::{json_line, stderr_line, stdout_line, text};

pub(super) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, _) = context.env(Persistence::Home)?;
    let (here, defaults) = (workspace()?, Limits::default());
    let arrival = SessionImport {
        from: here.join(&args.file),
        into: args.into.map(|into| here.join(into)),
        trust: args.trust,
        name: args.name,
        limits: Limits {
            bytes: args.max_bytes.unwrap_or(defaults.bytes),
            entries: args.max_entries.unwrap_or(defaults.entries),
        },
    };
    let progress = progress(&env, "importing");
    let arrived = archive::import_session(&env, &arrival, &progress).await?;
    drop(progress);
    let status = status(&env, &arrived).await?;
    print_notes(&arrived, &args.file);
    if args.json {
        json_line(&answer(&arrived, status));
        return Ok(ExitCode::SUCCESS);
    }
    let summary = &arrived.summary;
    let label = format!("{} ({})", summary.name, summary.id);
    let state = format!("{status}, in {}", text::sanitize(&summary.workspace));
    stdout_line(&match arrived.imported {
        Some(_) => format!("imported {label}, {state}"),
        None => format!("{label} already exists here, {state}"),
    });
    if let Some(returned) = &arrived.restored {
        stdout_line(&format!(
            "wrote {} ({}); {} unchanged",
            text::count(returned.restored.written, "file"),
            bytes(returned.restored.bytes),
            text::number(returned.restored.unchanged)
        ));
    }
    if let Some(rescue) = arrived.restored.as_ref().and_then(|it| it.rescue.as_ref()) {
        stdout_line(&format!(
            "`segno checkpoint restore {}` restores the previous files",
            rescue.id
        ));
    }
    if status.is_resumable() && Path::new(&summary.workspace).is_dir() {
        stdout_line(&format!("resume it with `segno resume {}`", summary.name));
    }
    Ok(ExitCode::SUCCESS)
}

/// The status of the imported session. Its lease is from another machine.
async fn status(env: &Env, arrived: &ImportedSession) -> Result<Status, Failure> {
    let lease = env.store.lease(arrived.summary.id).await;
    let lease = lease?;
    Ok(lease::effective_status(env, &arrived.summary, &lease))
}

fn print_notes(arrived: &ImportedSession, from: &Path) {
    let summary = &arrived.summary;
    if let Some(imported) = &arrived.imported
        && imported.manifest.status == Status::Running
    {
        stderr_line(&format!(
            "note: {} was running when it was exported, or its run crashed; it may have continued elsewhere",
            summary.name
        ));
    }
    if let Some(returned) = &arrived.restored
        && !returned.restored.disarmed.is_empty()
    {
        for path in &returned.restored.disarmed {
            stderr_line(&format!("  disarmed {}", text::sanitize(path)));
        }
        stderr_line(
            "note: these files come from elsewhere and could start programs, so they have the suffix \
             `.segno-inert`. Review them; `--trust` restores them unchanged",
        );
    }
    if !Path::new(&summary.workspace).is_dir() {
        stderr_line(&text::sanitize(&format!(
            "note: its folder {} does not exist here; `segno sessions import {} --into FOLDER` restores its files to another",
            summary.workspace,
            from.display()
        )));
    }
}

fn answer(arrived: &ImportedSession, status: Status) -> serde_json::Value {
    let (summary, returned) = (&arrived.summary, arrived.restored.as_ref());
    let restored = returned.map(|returned| &returned.restored);
    json!({
        "v": 1,
        "kind": "bundle_imported",
        "session": summary.id,
        "name": summary.name,
        "status": status,
        "workspace": summary.workspace,
        "events": summary.head.seq,
        "checkpoint": arrived.imported.as_ref().map(|it| it.manifest.id),
        "existing": arrived.imported.is_none(),
        "written": restored.map(|it| it.written),
        "unchanged": restored.map(|it| it.unchanged),
        "disarmed": restored.map(|it| &it.disarmed),
        "rescue": returned.and_then(|it| it.rescue.as_ref()).map(|it| it.id),
    })
}
