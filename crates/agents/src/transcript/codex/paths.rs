//! The paths of Codex's rollouts, and the fields of their records that hold a folder or the thread
//! id.

use std::io;
use std::path::{Path, PathBuf};

use segno_core::time::Timestamp;

use crate::transcript::{Field, FieldPath, List, Object, list_entries, text};

/// `sessions/2026/11/15/rollout-2026-11-15T07-14-42-<thread>.jsonl`.
pub(crate) fn transcript_path(root: &Path, session: &str, when: Timestamp) -> PathBuf {
    let timestamp = when.to_string();
    let (date, time) = timestamp.split_once('T').unwrap_or((&timestamp, ""));
    let time = time.split('.').next().unwrap_or_default().replace(':', "-");
    let folders: PathBuf = date.split('-').collect();
    root.join("sessions")
        .join(folders)
        .join(format!("rollout-{date}T{time}-{session}.jsonl"))
}

pub(crate) fn find(root: &Path, session: &str, list: List<'_>) -> io::Result<Vec<PathBuf>> {
    let mut folders = vec![root.join("sessions")];
    for _ in ["year", "month", "day"] {
        let mut deeper = Vec::new();
        for folder in folders {
            deeper.extend(list_entries(list, &folder)?);
        }
        folders = deeper;
    }
    let end = format!("-{session}.jsonl");
    let mut found = Vec::new();
    for day in folders {
        let files = list_entries(list, &day)?;
        found.extend(files.into_iter().filter(|file| {
            let name = file.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("rollout-") && name.ends_with(&end))
        }));
    }
    Ok(found)
}

pub(crate) fn field_paths(record: &Object) -> Vec<FieldPath> {
    let mut field_paths: Vec<FieldPath> = Vec::new();
    match text(record, "type") {
        Some("session_meta") => field_paths.extend([
            (&["payload", "id"][..], Field::Session),
            (&["payload", "cwd"][..], Field::Folder),
            (&["payload", "runtime_workspace_roots"][..], Field::Folders),
        ]),
        Some("turn_context") => field_paths.push((&["payload", "cwd"], Field::Folder)),
        Some("event_msg") => field_paths.extend([
            (&["payload", "thread_settings", "cwd"][..], Field::Folder),
            (
                &["payload", "thread_settings", "runtime_workspace_roots"][..],
                Field::Folders,
            ),
        ]),
        _ => {}
    }
    if matches!(
        text(record, "type"),
        Some("session_meta" | "event_msg" | "token_usage_record")
    ) {
        field_paths.extend([
            (&["payload", "session_id"][..], Field::Session),
            (&["payload", "thread_id"][..], Field::Session),
        ]);
    }
    field_paths
}
