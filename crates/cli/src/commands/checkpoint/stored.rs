//! What the storage has, for `segno checkpoint list --remote`.

use std::collections::HashSet;
use std::process::ExitCode;

use segno_core::letter::Letter;
use segno_engine::{World, checkpoint, remote};
use serde_json::json;

use super::{bytes, shape};
use crate::failure::Failure;
use crate::output::{columns, data, json_line, plain, say, table};

/// Lists the checkpoints in the storage, newest first; those of one session if one is meant.
pub(super) async fn list(
    world: &World,
    session: Option<&str>,
    json: bool,
) -> Result<ExitCode, Failure> {
    let (mut letters, damaged) = remote::list(world).await?;
    letters.reverse();
    if let Some(session) = session {
        letters.retain(|letter| is_of(letter, session));
    }
    let (kept, _) = checkpoint::list(world, None).await?;
    let here: HashSet<_> = kept.iter().map(|manifest| manifest.id).collect();
    for error in &damaged {
        if json {
            json_line(
                &json!({"v": 1, "kind": "finding", "severity": "damage", "problem": error.to_string()}),
            );
        } else {
            say(&format!("note: {}", plain::plain(&error.to_string())));
        }
    }
    if json {
        for letter in &letters {
            let mut shape = shape("checkpoint_stored", &letter.checkpoint);
            shape["name"] = json!(letter.name);
            shape["objects"] = json!(letter.parts.len());
            shape["stored_bytes"] = json!(letter.bytes());
            shape["here"] = json!(here.contains(&letter.checkpoint.id));
            json_line(&shape);
        }
        return Ok(ExitCode::SUCCESS);
    }
    if letters.is_empty() {
        data("no checkpoints there; `segno checkpoint push` sends some");
        return Ok(ExitCode::SUCCESS);
    }
    let row = |letter: &Letter| {
        let manifest = &letter.checkpoint;
        let taken = segno_core::time::human(world.clock.now().since(manifest.at));
        let here = if here.contains(&manifest.id) {
            "yes"
        } else {
            "no"
        };
        vec![
            manifest.id.to_string(),
            letter
                .name
                .as_ref()
                .map_or_else(|| manifest.session.to_string(), ToString::to_string),
            manifest.trigger.to_string(),
            format!("{taken} ago"),
            plain::number(manifest.files.files),
            bytes(letter.bytes()),
            here.to_owned(),
            manifest.note.clone().unwrap_or_default(),
        ]
    };
    let rows: Vec<_> = letters.iter().map(row).collect();
    let head = [
        "ID", "SESSION", "TRIGGER", "TAKEN", "FILES", "STORED", "HERE", "NOTE",
    ];
    table::table(&head, &rows, columns())
        .iter()
        .for_each(|line| data(line));
    Ok(ExitCode::SUCCESS)
}

fn is_of(letter: &Letter, session: &str) -> bool {
    let named = letter
        .name
        .as_ref()
        .is_some_and(|name| name.as_str() == session);
    let id = letter.checkpoint.session.to_string();
    let wanted = session.to_ascii_uppercase();
    named || (wanted.len() >= 4 && (id.starts_with(&wanted) || id.ends_with(&wanted)))
}
