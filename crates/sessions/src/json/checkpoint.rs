//! JSON shapes of checkpoints.

use segno_core::checkpoint::{Manifest, Repository};
use segno_core::handoff::{NoteContent, NoteList, StoredNote};
use segno_core::snapshot::{Change, OmittedPath, StoredFile};
use segno_core::usage::ContextUsage;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{context_usage, fields, object, session_usage, total_usage, usage, work_plan};
use crate::checkpoint::{Content, Difference, NewCheckpoint, Overview, RestoreOutcome, notes_diff};
use crate::progress::Progress;

/// A part of what a checkpoint contains, apart from files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    Plan,
    Decisions,
    Errors,
    Feedback,
    Tests,
    Git,
    Usage,
}

impl Section {
    pub const ALL: [Self; 7] = [
        Self::Plan,
        Self::Decisions,
        Self::Errors,
        Self::Feedback,
        Self::Tests,
        Self::Git,
        Self::Usage,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Decisions => "decisions",
            Self::Errors => "errors",
            Self::Feedback => "feedback",
            Self::Tests => "tests",
            Self::Git => "git",
            Self::Usage => "usage",
        }
    }
}

/// A checkpoint.
pub fn checkpoint(kind: &str, manifest: &Manifest) -> Value {
    let mut line = object(kind);
    line.extend(fields(json!({
        "checkpoint": manifest.id,
        "session": manifest.session,
        "trigger": manifest.trigger,
        "note": manifest.note,
        "at": manifest.at.to_string(),
        "host": manifest.host,
        "parent": manifest.parent,
        "seq": manifest.journal.seq,
        "run": manifest.journal.run,
        "status": manifest.status,
        "steps_finished": manifest.finished,
        "usage": usage(&manifest.usage),
        "workspace": manifest.workspace,
        "snapshot": manifest.files.snapshot,
        "files": manifest.files.files,
        "bytes": manifest.files.bytes,
        "unstable": manifest.files.unstable,
        "skipped": manifest.files.skipped,
        "excluded": manifest.files.excluded,
        "verified": manifest.verified.map(|at| at.to_string()),
    })));
    Value::Object(line)
}

/// A checkpoint that was just taken, and what it does not contain.
pub fn checkpoint_taken(taken: &NewCheckpoint) -> Value {
    let captured = &taken.captured;
    let list = |omitted: &[OmittedPath]| -> Value {
        let shape = |one: &OmittedPath| json!({"path": one.path, "reason": one.reason});
        omitted.iter().map(shape).collect()
    };
    let mut line = checkpoint("checkpoint_taken", &taken.manifest);
    line["written"] = json!(captured.written);
    line["unstable_files"] = json!(captured.unstable);
    line["skipped_files"] = list(&captured.skipped);
    line["excluded_files"] = list(&captured.excluded);
    line
}

/// A checkpoint and how far its session was; `null` where the journal is not here.
pub fn checkpoint_overview(manifest: &Manifest, overview: Option<&Overview>) -> Value {
    let mut line = checkpoint("checkpoint", manifest);
    let progress = overview.map(|overview| &overview.progress);
    line["session_number"] = json!(overview.map(|overview| overview.session_number));
    line["reason"] = json!(overview.and_then(|overview| overview.reason.as_ref()));
    line["current"] = json!(progress.and_then(|progress| progress.current.as_ref()));
    line["next"] = json!(progress.and_then(|progress| progress.next.as_ref()));
    line["tasks_done"] = json!(progress.map(|progress| progress.done));
    line["tasks_remaining"] = json!(progress.and_then(|progress| progress.remaining));
    line
}

/// A file of a checkpoint.
pub fn stored_file(file: &StoredFile) -> Value {
    json!({
        "v": super::V,
        "kind": "stored_file",
        "path": file.path,
        "type": file.kind.as_str(),
        "mode": format!("{:o}", file.mode),
        "size": file.size,
        "target": file.target,
    })
}

/// A file that differs between two checkpoints.
pub fn changed_file(change: &Change) -> Value {
    let word = change.kind.as_str();
    json!({"v": super::V, "kind": "file", "change": word, "path": change.path})
}

/// A note that differs between two checkpoints.
pub fn changed_note(change: &notes_diff::Change) -> Value {
    let notes_diff::Change { kind, id, note } = change;
    json!({"v": super::V, "kind": "note", "change": kind.as_str(), "id": id, "note": note})
}

/// What differs between two checkpoints, apart from the list of files and notes.
pub fn difference(from: &Manifest, to: &Manifest, found: &Difference) -> Value {
    let notes = found.notes.as_ref();
    let others = found.others.iter();
    json!({
        "v": super::V,
        "kind": "difference",
        "from": from.id,
        "to": to.id,
        "files": found.files.len(),
        "done": notes.map_or(&[][..], |notes| &notes.done),
        "undone": notes.map_or(&[][..], |notes| &notes.undone),
        "journals": notes.is_some(),
        "steps": i64::try_from(found.steps).unwrap_or(i64::MAX),
        "usage": usage(&found.usage),
        "others": others.map(|(what, from, to)| json!({"what": what, "from": from, "to": to})).collect::<Vec<_>>(),
    })
}

/// A checkpoint that was restored, or would be.
pub fn restored(manifest: &Manifest, outcome: &RestoreOutcome, dry_run: bool) -> Value {
    let restored = &outcome.restored;
    json!({
        "v": super::V,
        "kind": if dry_run { "would_restore" } else { "restored" },
        "checkpoint": manifest.id,
        "folder": outcome.folder.display().to_string(),
        "written": restored.written,
        "bytes": restored.bytes,
        "unchanged": restored.unchanged,
        "removed": restored.removed,
        "disarmed": restored.disarmed,
        "rescue": outcome.rescue.as_ref().map(|rescue| rescue.id),
    })
}

/// Sections of a checkpoint by name; `null` where the journal is not here.
pub fn checkpoint_sections(
    sections: &[Section],
    manifest: &Manifest,
    content: Option<&Content>,
) -> Map<String, Value> {
    let sections = sections.iter();
    sections
        .map(|section| {
            let value = checkpoint_section(*section, manifest, content);
            (section.as_str().to_owned(), value)
        })
        .collect()
}

fn checkpoint_section(section: Section, manifest: &Manifest, content: Option<&Content>) -> Value {
    if section == Section::Git {
        return manifest.repositories.iter().map(repository).collect();
    }
    let Some(content) = content else {
        return match section {
            Section::Usage => total_usage(&manifest.usage),
            _ => Value::Null,
        };
    };
    let notes = &content.handoff;
    match section {
        Section::Plan => plan(&content.overview.progress),
        Section::Decisions => note_list(&notes.decisions),
        Section::Errors => note_list(&notes.errors),
        Section::Feedback => note_list(&notes.feedback),
        Section::Tests => json!(notes.tests.as_ref().map(note)),
        Section::Usage => detailed_usage(content),
        Section::Git => Value::Null,
    }
}

fn plan(progress: &Progress) -> Value {
    if let Some(plan) = &progress.plan {
        return work_plan(plan);
    }
    let tasks = progress.tasks.iter().map(|task| {
        json!({
            "id": task.id,
            "title": task.title,
            "status": task.status.as_str(),
        })
    });
    json!({
        "tasks": tasks.collect::<Vec<_>>(),
        "current": progress.current,
        "next": progress.next,
        "done": progress.done,
        "remaining": progress.remaining,
    })
}

fn note_list<T: NoteContent + Serialize>(list: &NoteList<T>) -> Value {
    list.active().map(note).collect()
}

fn note<T: Serialize>(kept: &StoredNote<T>) -> Value {
    json!({
        "id": kept.id,
        "at": kept.at.to_string(),
        "source": kept.source,
        "by": kept.by,
        "step": kept.path,
        "seq": kept.seq,
        "note": kept.note,
    })
}

/// The state of a repository, and the names of all files that are not committed.
fn repository(repository: &Repository) -> Value {
    let mut value = json!(repository);
    value["uncommitted"] = json!(repository.names.uncommitted());
    value
}

fn detailed_usage(content: &Content) -> Value {
    let state = &content.state;
    let mut value = session_usage(state);
    value["model_calls"] = content.calls.model.into();
    value["tool_calls"] = content.calls.tool.into();
    value["active_ms"] = state.active_ms.into();
    let estimated = state.estimated_context();
    value["context"] = json!(state.newest_context.or(estimated).map(context));
    if estimated.is_some() {
        value["context"]["estimated"] = true.into();
    }
    value
}

fn context(context: ContextUsage) -> Value {
    let mut value = context_usage(context);
    value["remaining"] = json!(context.remaining());
    value["utilisation"] = json!(context.utilisation());
    value
}
