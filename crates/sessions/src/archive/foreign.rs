//! Reads folders of the same layout that another program wrote, as far as they are understood.

use std::path::{Path, PathBuf};

use segno_core::bundle;
use segno_core::checkpoint::{self, Files, Manifest, Position, Trigger};
use segno_core::digest::Digest;
use segno_core::id::SessionId;
use segno_core::journal::{Head, Run};
use segno_core::session::Status;
use segno_core::usage::Usage;
use segno_engine::checkpoint::{is_plain_variable, new_id};
use segno_engine::{Env, workspace};
use serde_json::Value;

use super::incoming::{Incoming, attachment_name, part};
use super::{Error, names, refuse};

/// The limit of MCP servers in a folder (P10).
const SERVERS: usize = 1000;

/// Reads an archive without a folder.
pub(super) fn archive(env: &Env, from: &Path) -> Result<Incoming, Error> {
    let above = from.parent().unwrap_or(Path::new("."));
    let missing = vec![
        names::MANIFEST,
        names::CONVERSATION,
        names::STATE,
        names::ENVIRONMENT,
        names::SESSION,
    ];
    Ok(Incoming {
        manifest: manifest(env, from, &above.join("workspace"), None)?,
        bundle: None,
        attachments: Vec::new(),
        archive: from.to_owned(),
        digest: None,
        snapshot: None,
        missing,
    })
}

/// Reads a folder with what its `manifest.json` says.
pub(super) fn folder(
    env: &Env,
    from: &Path,
    manifest_json: Option<&Value>,
) -> Result<Incoming, Error> {
    let mut manifest = manifest(env, from, &from.join("workspace"), manifest_json)?;
    let mut missing = Vec::new();
    if manifest_json.is_none() {
        missing.push(names::MANIFEST);
    }
    let mut attachments = Vec::new();
    for name in [names::CONVERSATION, names::STATE, names::TERMINAL] {
        match part(env, from, name, bundle::LONGEST)? {
            Some(bytes) => attachments.extend(
                attachment_name(name, false).map(|attachment_name| (attachment_name, bytes)),
            ),
            None if name == names::TERMINAL => {}
            None => missing.push(name),
        }
    }
    match part(env, from, names::ENVIRONMENT, bundle::LONGEST)? {
        Some(bytes) => environment(env, from, &bytes, &mut manifest)?,
        None => missing.push(names::ENVIRONMENT),
    }
    for name in servers(env, from)? {
        if let Some(bytes) = part(env, from, &name, bundle::LONGEST)? {
            attachments.extend(
                attachment_name(&name, false).map(|attachment_name| (attachment_name, bytes)),
            );
        }
    }
    missing.push(names::SESSION);
    Ok(Incoming {
        manifest,
        bundle: None,
        attachments,
        archive: from.join(names::WORKSPACE),
        digest: None,
        snapshot: None,
        missing,
    })
}

/// The manifest of a checkpoint whose session is not here, with what is known of it.
fn manifest(
    env: &Env,
    from: &Path,
    workspace: &Path,
    manifest_json: Option<&Value>,
) -> Result<Manifest, Error> {
    let said =
        |name: &str| manifest_json.and_then(|manifest_json| manifest_json.get(name)?.as_str());
    let (new, at) = new_id(env);
    let mut entropy = [0; 10];
    env.random.fill(&mut entropy);
    let session = said("session_id").and_then(|id| id.parse().ok());
    let session = session.unwrap_or_else(|| SessionId::new(at, entropy));
    let start = Head::genesis(session);
    let called = said("session_id").map(|id| format!(", session {id}"));
    let when = said("created_at").map(|when| format!(", of {when}"));
    let note = format!(
        "imported{}{}",
        called.unwrap_or_default(),
        when.unwrap_or_default()
    );
    let nothing = Digest::of(b"");
    let trigger = said("trigger").and_then(|trigger| trigger.parse().ok());
    Ok(Manifest {
        segno_checkpoint: checkpoint::VERSION,
        id: said("id").and_then(|id| id.parse().ok()).unwrap_or(new),
        session,
        trigger: trigger.unwrap_or(Trigger::Manual),
        note: Some(env.redactor.redact(&note).into_owned()),
        at,
        host: "elsewhere".to_owned(),
        version: env.version.to_owned(),
        parent: None,
        journal: Position {
            run: Run(0),
            seq: start.seq,
            hash: start.hash,
        },
        status: Status::Interrupted,
        finished: 0,
        usage: Usage::default(),
        workspace: workspace::path_text(workspace)?,
        files: Files {
            snapshot: nothing,
            files: 0,
            bytes: 0,
            unstable: 0,
            skipped: 0,
            excluded: 0,
        },
        repositories: Vec::new(),
        environment: std::collections::BTreeMap::new(),
        attachments: None,
        origin: Some(workspace::path_text(from)?),
        verified: None,
        pruned: None,
    })
}

fn environment(env: &Env, from: &Path, bytes: &[u8], manifest: &mut Manifest) -> Result<(), Error> {
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| refuse(from, format!("{}: {error}", names::ENVIRONMENT)))?;
    for (name, value) in value.as_object().into_iter().flatten() {
        if let (true, Some(value)) = (is_plain_variable(name), value.as_str()) {
            let value = env.redactor.redact(value).into_owned();
            manifest.environment.insert(name.clone(), value);
        }
    }
    Ok(())
}

/// The state files of MCP servers, by their names in the folder.
fn servers(env: &Env, from: &Path) -> Result<Vec<String>, Error> {
    let folder: PathBuf = from.join(names::MCP);
    if !folder.symlink_metadata().is_ok_and(|facts| facts.is_dir()) {
        return Ok(Vec::new());
    }
    let listed = env.disk.list(&folder);
    let listed = listed.map_err(|error| refuse(from, format!("{}: {error}", names::MCP)))?;
    let name = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?;
        names::is_server(name).then(|| format!("{}/{name}", names::MCP))
    };
    let servers: Vec<String> = listed.iter().filter_map(name).collect();
    if servers.len() > SERVERS {
        let reason = format!("{} has more than {SERVERS} files", names::MCP);
        return Err(refuse(from, reason));
    }
    Ok(servers)
}
