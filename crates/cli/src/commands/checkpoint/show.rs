//! `segno checkpoint show`: prints one checkpoint.

use std::process::ExitCode;

use segno_core::checkpoint::{Manifest, Repository};
use segno_core::snapshot::Size;
use segno_engine::Env;
use segno_sessions as sessions;
use segno_sessions::checkpoint::{self, Content};
use segno_sessions::json::{Section, checkpoint_overview, checkpoint_sections};
use serde_json::json;

use super::bytes;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{checkpoint_content, json_line, stderr_line, stdout_line, text};

/// Show the details of a checkpoint: what the session knew when it was taken.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Checkpoint id, or a unique prefix or suffix of it
    checkpoint: String,
    #[command(flatten)]
    sections: Sections,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The sections to print alone.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
struct Sections {
    /// Show only the plan: its tasks and their states
    #[arg(long)]
    plan: bool,
    /// Show only the decisions
    #[arg(long)]
    decisions: bool,
    /// Show only the errors and their resolutions
    #[arg(long)]
    errors: bool,
    /// Show only the feedback of reviewers
    #[arg(long)]
    feedback: bool,
    /// Show only the newest test result
    #[arg(long)]
    tests: bool,
    /// Show only the git repositories and the names of changed files
    #[arg(long)]
    git: bool,
    /// Show only the usage
    #[arg(long)]
    usage: bool,
}

impl Sections {
    fn is_wanted(&self, section: Section) -> bool {
        match section {
            Section::Plan => self.plan,
            Section::Decisions => self.decisions,
            Section::Errors => self.errors,
            Section::Feedback => self.feedback,
            Section::Tests => self.tests,
            Section::Git => self.git,
            Section::Usage => self.usage,
        }
    }

    /// The wanted sections; empty if all are.
    fn wanted(&self) -> Vec<Section> {
        let all = Section::ALL.into_iter();
        all.filter(|section| self.is_wanted(*section)).collect()
    }
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let env = context.env_inline()?;
    let manifest = checkpoint::find(&env, &args.checkpoint).await?;
    let wanted = args.sections.wanted();
    let content = match Content::of(&env, &manifest).await {
        Ok(content) => content,
        // The files of the checkpoint can be restored all the same.
        Err(error) => {
            let problem = format!("note: the journal cannot be read: {error}");
            stderr_line(&text::sanitize(&problem));
            None
        }
    };
    if args.json {
        print_json(&env, &manifest, content.as_ref(), &wanted).await;
        return Ok(ExitCode::SUCCESS);
    }
    if wanted.is_empty() {
        print_fields(&env, &manifest, content.as_ref()).await;
    }
    let sections = if wanted.is_empty() {
        &Section::ALL[..]
    } else {
        &wanted
    };
    for section in sections {
        let lines = checkpoint_content::lines(*section, &manifest, content.as_ref());
        if wanted.is_empty() && lines.is_empty() {
            continue;
        }
        if wanted.len() != 1 {
            stdout_line(&format!("\n{}", section.as_str()));
        }
        if lines.is_empty() {
            stdout_line("none");
        }
        for line in lines {
            stdout_line(&text::sanitize(&line));
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn print_json(env: &Env, manifest: &Manifest, content: Option<&Content>, wanted: &[Section]) {
    if !wanted.is_empty() {
        let mut shape = checkpoint_sections(wanted, manifest, content);
        shape.insert("v".into(), 1.into());
        shape.insert("kind".into(), "checkpoint".into());
        shape.insert("checkpoint".into(), json!(manifest.id));
        shape.insert("session".into(), json!(manifest.session));
        return json_line(&shape.into());
    }
    let size = checkpoint::size(env, manifest).await.ok();
    let overview = content.map(|content| &content.overview);
    let mut shape = checkpoint_overview(manifest, overview);
    for (name, value) in checkpoint_sections(&Section::ALL, manifest, content) {
        shape[name] = value;
    }
    shape["own_bytes"] = json!(size.map(|size| size.own));
    shape["shared_bytes"] = json!(size.map(|size| size.shared));
    shape["environment"] = json!(manifest.environment);
    shape["repositories"] = json!(manifest.repositories);
    shape["origin"] = json!(manifest.origin);
    shape["version"] = json!(manifest.version);
    json_line(&shape);
}

async fn print_fields(env: &Env, manifest: &Manifest, content: Option<&Content>) {
    let session = match sessions::find(env, &manifest.session.to_string()).await {
        Ok(summary) => format!("{} ({})", summary.name, summary.id),
        Err(_) => format!("{}, which does not exist here", manifest.session),
    };
    let mut lines = vec![
        ("checkpoint", manifest.id.to_string()),
        ("session", session),
        (
            "taken",
            format!("{}, {} on {}", manifest.at, manifest.trigger, manifest.host),
        ),
        (
            "state",
            format!("{}, event {}", manifest.status, manifest.journal.seq),
        ),
    ];
    match content.map(|content| &content.overview) {
        Some(overview) => {
            let progress = &overview.progress;
            lines.push(("number", text::number(overview.session_number)));
            lines.extend(overview.reason.clone().map(|reason| ("reason", reason)));
            lines.push(("done", progress.describe()));
            lines.extend(progress.current.clone().map(|task| ("current", task)));
            lines.extend(progress.next.clone().map(|task| ("next", task)));
        }
        None => lines.push(("done", text::count(manifest.finished, "step"))),
    }
    let size = checkpoint::size(env, manifest).await.ok();
    lines.extend(file_fields(manifest, size));
    for (name, value) in lines {
        stdout_line(&format!("{name:<10} {}", text::sanitize(&value)));
    }
}

fn file_fields(manifest: &Manifest, size: Option<Size>) -> Vec<(&'static str, String)> {
    let files = &manifest.files;
    let damaged = if size.is_some() { "" } else { " (damaged)" };
    let count = text::count(files.files, "file");
    let mut lines = vec![
        ("folder", manifest.workspace.clone()),
        ("files", format!("{count}, {}{damaged}", bytes(files.bytes))),
    ];
    if let Some(size) = size {
        let (own, shared) = (bytes(size.own), bytes(size.shared));
        lines.push(("on disk", format!("{own} of its own, {shared} shared")));
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
    let repositories = manifest.repositories.iter().map(describe_repository);
    lines.extend(repositories.map(|repository| ("git", repository)));
    lines.extend(manifest.note.clone().map(|note| ("note", note)));
    lines.extend(manifest.origin.clone().map(|origin| ("from", origin)));
    lines.extend(manifest.parent.map(|parent| ("after", parent.to_string())));
    lines
}

/// Describes the state of a git repository in one line.
fn describe_repository(repository: &Repository) -> String {
    let prefix = match repository.path.as_str() {
        "" => String::new(),
        path => format!("{path}: "),
    };
    let branch = repository.branch.as_deref().unwrap_or("no branch");
    let mut facts = vec![match repository.commit.as_deref() {
        Some(commit) => format!("{branch} at {}", commit.get(..10).unwrap_or(commit)),
        None => format!("{branch} without a commit"),
    }];
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
