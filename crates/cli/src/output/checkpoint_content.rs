//! Renders what a session knew at a checkpoint, section by section.

use std::time::Duration;

use segno_core::checkpoint::{Manifest, Repository};
use segno_core::handoff::{NoteContent, NoteList, StoredNote};
use segno_core::note::{Note, Tests};
use segno_core::usage::ContextUsage;
use segno_sessions::checkpoint::Content;
use segno_sessions::json::Section;
use segno_sessions::progress::Progress;
use segno_sessions::work::Status;

use super::text::{count, number};
use super::{note, progress, work};

/// The lines of a section. What the journal says is unknown if it is not here.
pub(crate) fn lines(
    section: Section,
    manifest: &Manifest,
    content: Option<&Content>,
) -> Vec<String> {
    if section == Section::Git {
        return manifest.repositories.iter().flat_map(git).collect();
    }
    let Some(content) = content else {
        let spent = progress::total_spent(&manifest.usage);
        return match section {
            Section::Usage if !spent.is_empty() => vec![spent],
            _ => Vec::new(),
        };
    };
    let notes = &content.handoff;
    match section {
        Section::Plan => plan(&content.overview.progress),
        Section::Decisions => note_lines(&notes.decisions, Note::Decision),
        Section::Errors => note_lines(&notes.errors, Note::Error),
        Section::Feedback => note_lines(&notes.feedback, Note::Feedback),
        Section::Tests => notes.tests.iter().flat_map(tests).collect(),
        Section::Usage => usage(content),
        Section::Git => Vec::new(),
    }
}

fn plan(progress: &Progress) -> Vec<String> {
    if let Some(plan) = &progress.plan {
        return work::lines(plan);
    }
    let tasks = progress.tasks.iter().map(|task| {
        let mark = if task.status.is_over() { "x" } else { " " };
        let status = match task.status {
            Status::Done | Status::Pending => String::new(),
            status => format!(" [{}]", status.as_str().replace('_', " ")),
        };
        format!("- [{mark}] {}{status}", task.id)
    });
    tasks.collect()
}

/// Each note with all its fields.
fn note_lines<T: NoteContent + Clone>(list: &NoteList<T>, content: fn(T) -> Note) -> Vec<String> {
    let mut lines = Vec::new();
    for kept in list.active() {
        let id = kept.id.map_or_else(|| "-".to_owned(), |id| id.to_string());
        lines.push(format!("{id} from {} ({})", kept.by, kept.source));
        for (name, value) in note::fields(&content(kept.note.clone())) {
            lines.push(format!("  {name:<10} {}", note::short(&value)));
        }
    }
    lines
}

fn tests(kept: &StoredNote<Tests>) -> Vec<String> {
    let tests = &kept.note;
    let mut lines = vec![format!("phase {}: {}", tests.phase, tests.command)];
    let counts = [(tests.passed, "passed"), (tests.failed, "failed")];
    let counts = counts.into_iter();
    let counts = counts.filter_map(|(n, what)| Some(format!("{} {what}", number(n?))));
    let counts: Vec<String> = counts.collect();
    if !counts.is_empty() {
        lines.push(counts.join(", "));
    }
    lines.extend(tests.failing.iter().map(|test| format!("- fails: {test}")));
    let expected = tests.expected.iter().flatten();
    lines.extend(expected.map(|test| format!("- expected to fail: {test}")));
    lines
}

/// The names of a repository's files that are not committed, and of those changed since the session
/// started.
fn git(repository: &Repository) -> Vec<String> {
    let names = &repository.names;
    let mut lines = Vec::new();
    for (kind, total, names) in [
        ("staged", repository.staged, &names.staged),
        ("modified", repository.modified, &names.modified),
        ("untracked", repository.untracked, &names.untracked),
        ("in conflict", repository.conflicted, &names.conflicted),
    ] {
        lines.extend(file_line(&repository.path, kind, total, names));
    }
    if let Some(since) = &repository.session_changes {
        let kind = "since the start";
        lines.extend(file_line(&repository.path, kind, since.files, &since.names));
    }
    lines
}

fn file_line(repository: &str, kind: &str, total: u64, names: &[String]) -> Option<String> {
    let prefix = match repository {
        "" => String::new(),
        path => format!("{path}: "),
    };
    let more = match total.saturating_sub(names.len() as u64) {
        0 => String::new(),
        more => format!(" and {} more", number(more)),
    };
    (total > 0).then(|| format!("{prefix}{kind}: {}{more}", names.join(", ")))
}

fn usage(content: &Content) -> Vec<String> {
    let (state, calls) = (&content.state, content.calls);
    let mut lines = vec![format!(
        "{} read, {} written, {}",
        count(state.usage.input_tokens, "token"),
        number(state.usage.output_tokens),
        state.usage.cost
    )];
    lines.extend(state.estimated_tokens().map(|tokens| {
        let tokens = count(tokens, "token");
        format!("about {tokens} more, estimated from the cost")
    }));
    lines.push(format!(
        "{}, {}",
        count(calls.model, "model call"),
        count(calls.tool, "tool call")
    ));
    let active = segno_core::time::format_duration(Duration::from_millis(state.active_ms));
    lines.push(format!("active for {active}"));
    lines.extend(state.newest_context.map(context));
    lines.extend(
        state
            .estimated_context()
            .map(|estimated| format!("{} (estimated from the cost)", context(estimated))),
    );
    lines
}

fn context(context: ContextUsage) -> String {
    let used = number(context.used);
    match (context.window, context.percent(), context.remaining()) {
        (Some(window), Some(percent), Some(remaining)) => {
            let (window, remaining) = (number(window), number(remaining));
            format!("context: {used} of {window} tokens ({percent} %), {remaining} remaining")
        }
        _ => format!("context: {used} tokens, the size of the window is unknown"),
    }
}
