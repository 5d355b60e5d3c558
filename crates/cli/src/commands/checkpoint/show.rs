//! `segno checkpoint show`: prints one checkpoint.

use std::process::ExitCode;

use segno_core::checkpoint::Repository;
use segno_sessions as sessions;
use segno_sessions::checkpoint;
use serde_json::json;

use super::{bytes, shape};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{json_line, progress, stdout_line, text};

/// Show the details of a checkpoint.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Checkpoint id, or a unique prefix or suffix of it
    checkpoint: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let env = context.env_inline()?;
    let manifest = checkpoint::find(&env, &args.checkpoint).await?;
    let size = checkpoint::size(&env, &manifest).await.ok();
    if args.json {
        let mut shape = shape("checkpoint", &manifest);
        shape["own_bytes"] = json!(size.map(|size| size.own));
        shape["shared_bytes"] = json!(size.map(|size| size.shared));
        shape["environment"] = json!(manifest.environment);
        shape["repositories"] = json!(manifest.repositories);
        shape["origin"] = json!(manifest.origin);
        shape["version"] = json!(manifest.version);
        shape["origin"] = json!(manifest.origin);
        json_line(&shape);
        return Ok(ExitCode::SUCCESS);
    }
    let session = match sessions::find(&env, &manifest.session.to_string()).await {
        Ok(summary) => format!("{} ({})", summary.name, summary.id),
        Err(_) => format!("{}, which does not exist here", manifest.session),
    };
    let files = &manifest.files;
    let taken = if size.is_some() { "" } else { " (damaged)" };
    let mut lines = vec![
        ("checkpoint", manifest.id.to_string()),
        ("session", session),
        (
            "taken",
            format!("{}, {} on {}", manifest.at, manifest.trigger, manifest.host),
        ),
        (
            "state",
            format!(
                "{}, event {} of run {}",
                manifest.status, manifest.journal.seq, manifest.journal.run
            ),
        ),
        (
            "done",
            join(
                &text::count(manifest.finished, "step"),
                &progress::spent(&manifest.usage),
            ),
        ),
        ("folder", manifest.workspace.clone()),
        (
            "files",
            format!(
                "{}, {}{taken}",
                text::count(files.files, "file"),
                bytes(files.bytes)
            ),
        ),
    ];
    if let Some(size) = size {
        lines.push((
            "on disk",
            format!(
                "{} of its own, {} shared",
                bytes(size.own),
                bytes(size.shared)
            ),
        ));
    }
    for (name, count) in [
        ("unstable", files.unstable),
        ("skipped", files.skipped),
        ("excluded", files.excluded),
    ] {
        if count > 0 {
            lines.push((name, text::number(count)));
        }
    }
    for repository in &manifest.repositories {
        lines.push(("git", describe_repository(repository)));
    }
    if let Some(note) = &manifest.note {
        lines.push(("note", note.clone()));
    }
    if let Some(origin) = &manifest.origin {
        lines.push(("from", origin.clone()));
    }
    if let Some(parent) = &manifest.parent {
        lines.push(("after", parent.to_string()));
    }
    for (name, value) in lines {
        stdout_line(&format!("{name:<10} {}", text::sanitize(&value)));
    }
    Ok(ExitCode::SUCCESS)
}

/// Describes the state of a git repository in one line.
fn describe_repository(repository: &Repository) -> String {
    let prefix = match repository.path.as_str() {
        "" => String::new(),
        path => format!("{path}: "),
    };
    let commit = repository.commit.as_deref().unwrap_or("no commit yet");
    let commit = commit.get(..10).unwrap_or(commit);
    let branch = repository.branch.as_deref().unwrap_or("no branch");
    let mut facts = vec![format!("{branch} at {commit}")];
    for (count, what) in [
        (repository.unpushed, "not pushed"),
        (repository.staged, "staged"),
        (repository.modified, "modified"),
        (repository.untracked, "untracked"),
        (repository.conflicted, "in conflict"),
        (repository.stashes, "stashed"),
    ] {
        if count > 0 {
            facts.push(format!("{} {what}", text::number(count)));
        }
    }
    if let Some(since) = repository
        .session_changes
        .as_ref()
        .filter(|since| since.files > 0)
    {
        let commit = since.commit.get(..10).unwrap_or(&since.commit);
        let files = text::count(since.files, "file");
        facts.push(format!(
            "{files} changed since the session began at {commit}"
        ));
    }
    let begun = repository.activities.iter();
    facts.extend(begun.map(|activity| format!("in the middle of a {activity}")));
    facts.extend(repository.error.iter().cloned());
    if let Some(outside) = &repository.external_git_dir {
        facts.push(format!("git folder at {}, included", outside.folder));
    }
    format!("{prefix}{}", facts.join(", "))
}

fn join(one: &str, other: &str) -> String {
    match other {
        "" => one.to_owned(),
        other => format!("{one}, {other}"),
    }
}
