//! `segno checkpoint list --remote`: lists the checkpoints in the remote.

use std::collections::HashSet;
use std::process::ExitCode;

use segno_core::announcement::Announcement;
use segno_engine::Env;
use segno_sessions::{checkpoint, remote};
use serde_json::json;

use super::{bytes, shape};
use crate::failure::Failure;
use crate::output::{columns, json_line, stderr_line, stdout_line, table, text};

/// Lists the checkpoints in the remote, newest first. If `session` is given, only those of that
/// session.
pub(super) async fn list(
    env: &Env,
    session: Option<&str>,
    json: bool,
) -> Result<ExitCode, Failure> {
    let (mut announcements, damaged) = remote::list(env).await?;
    announcements.reverse();
    if let Some(session) = session {
        announcements.retain(|announcement| belongs_to(announcement, session));
    }
    let (manifests, _) = checkpoint::list(env, None).await?;
    let here: HashSet<_> = manifests.iter().map(|manifest| manifest.id).collect();
    for error in &damaged {
        if json {
            json_line(
                &json!({"v": 1, "kind": "finding", "severity": "damage", "problem": error.to_string()}),
            );
        } else {
            stderr_line(&format!("note: {}", text::sanitize(&error.to_string())));
        }
    }
    if json {
        for announcement in &announcements {
            let mut shape = shape("remote_checkpoint", &announcement.checkpoint);
            shape["name"] = json!(announcement.name);
            shape["objects"] = json!(announcement.parts.len());
            shape["remote_bytes"] = json!(announcement.bytes());
            shape["local"] = json!(here.contains(&announcement.checkpoint.id));
            json_line(&shape);
        }
        return Ok(ExitCode::SUCCESS);
    }
    if announcements.is_empty() {
        stdout_line("no checkpoints in the remote; `segno checkpoint push` pushes some");
        return Ok(ExitCode::SUCCESS);
    }
    let row = |announcement: &Announcement| {
        let manifest = &announcement.checkpoint;
        let taken = segno_core::time::format_duration(env.clock.now().since(manifest.at));
        let here = if here.contains(&manifest.id) {
            "yes"
        } else {
            "no"
        };
        vec![
            manifest.id.to_string(),
            announcement
                .name
                .as_ref()
                .map_or_else(|| manifest.session.to_string(), ToString::to_string),
            manifest.trigger.to_string(),
            format!("{taken} ago"),
            text::number(manifest.files.files),
            bytes(announcement.bytes()),
            here.to_owned(),
            manifest.note.clone().unwrap_or_default(),
        ]
    };
    let rows: Vec<_> = announcements.iter().map(row).collect();
    let head = [
        "ID", "SESSION", "TRIGGER", "TAKEN", "FILES", "SIZE", "LOCAL", "NOTE",
    ];
    table::table(&head, &rows, columns())
        .iter()
        .for_each(|line| stdout_line(line));
    Ok(ExitCode::SUCCESS)
}

fn belongs_to(announcement: &Announcement, session: &str) -> bool {
    let named = announcement
        .name
        .as_ref()
        .is_some_and(|name| name.as_str() == session);
    let id = announcement.checkpoint.session.to_string();
    let wanted = session.to_ascii_uppercase();
    named || (wanted.len() >= 4 && (id.starts_with(&wanted) || id.ends_with(&wanted)))
}
