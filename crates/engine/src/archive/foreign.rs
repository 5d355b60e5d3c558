//! Folders of the same layout that another program wrote: as much of them as is understood.

use std::path::{Path, PathBuf};

use segno_core::bundle;
use segno_core::checkpoint::{self, Files, Manifest, Position, Trigger};
use segno_core::digest::Digest;
use segno_core::id::SessionId;
use segno_core::journal::{Head, Run};
use segno_core::session::Status;
use segno_core::usage::Usage;
use serde_json::Value;

use super::parcel::{Parcel, paper, part};
use super::{names, refuse};
use crate::checkpoint::{fresh, is_plain_variable};
use crate::error::Error;
use crate::start;
use crate::world::World;

/// How many MCP servers a folder may speak of (P10).
const SERVERS: usize = 1000;

/// An archive by itself.
pub(super) fn archive(world: &World, from: &Path) -> Result<Parcel, Error> {
    let above = from.parent().unwrap_or(Path::new("."));
    let missing = vec![
        names::MANIFEST,
        names::CONVERSATION,
        names::STATE,
        names::ENVIRONMENT,
        names::SESSION,
    ];
    Ok(Parcel {
        manifest: manifest(world, from, &above.join("workspace"), None)?,
        bundle: None,
        papers: Vec::new(),
        archive: from.to_owned(),
        digest: None,
        snapshot: None,
        missing,
    })
}

/// A folder, with what it says about itself.
pub(super) fn folder(world: &World, from: &Path, cover: Option<&Value>) -> Result<Parcel, Error> {
    let mut manifest = manifest(world, from, &from.join("workspace"), cover)?;
    let mut missing = Vec::new();
    if cover.is_none() {
        missing.push(names::MANIFEST);
    }
    let mut papers = Vec::new();
    for name in [names::CONVERSATION, names::STATE, names::TERMINAL] {
        match part(world, from, name, bundle::LONGEST)? {
            Some(bytes) => papers.extend(paper(name, false).map(|paper| (paper, bytes))),
            None if name == names::TERMINAL => {}
            None => missing.push(name),
        }
    }
    match part(world, from, names::ENVIRONMENT, bundle::LONGEST)? {
        Some(bytes) => environment(world, from, &bytes, &mut manifest)?,
        None => missing.push(names::ENVIRONMENT),
    }
    for name in servers(world, from)? {
        if let Some(bytes) = part(world, from, &name, bundle::LONGEST)? {
            papers.extend(paper(&name, false).map(|paper| (paper, bytes)));
        }
    }
    missing.push(names::SESSION);
    Ok(Parcel {
        manifest,
        bundle: None,
        papers,
        archive: from.join(names::WORKSPACE),
        digest: None,
        snapshot: None,
        missing,
    })
}

/// A checkpoint of a session that is not here, with what is known of it.
fn manifest(
    world: &World,
    from: &Path,
    workspace: &Path,
    cover: Option<&Value>,
) -> Result<Manifest, Error> {
    let said = |name: &str| cover.and_then(|cover| cover.get(name)?.as_str());
    let (new, at) = fresh(world);
    let mut entropy = [0; 10];
    world.random.fill(&mut entropy);
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
        note: Some(world.redactor.redact(&note).into_owned()),
        at,
        host: "elsewhere".to_owned(),
        version: world.version.to_owned(),
        parent: None,
        journal: Position {
            run: Run(0),
            seq: start.seq,
            hash: start.hash,
        },
        status: Status::Interrupted,
        finished: 0,
        usage: Usage::default(),
        workspace: start::text_of(workspace)?,
        files: Files {
            snapshot: nothing,
            files: 0,
            bytes: 0,
            unstable: 0,
            skipped: 0,
            left_out: 0,
        },
        repositories: Vec::new(),
        environment: std::collections::BTreeMap::new(),
        papers: None,
        origin: Some(start::text_of(from)?),
        verified: None,
        pruned: None,
    })
}

fn environment(
    world: &World,
    from: &Path,
    bytes: &[u8],
    manifest: &mut Manifest,
) -> Result<(), Error> {
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| refuse(from, format!("{}: {error}", names::ENVIRONMENT)))?;
    for (name, value) in value.as_object().into_iter().flatten() {
        if let (true, Some(value)) = (is_plain_variable(name), value.as_str()) {
            let value = world.redactor.redact(value).into_owned();
            manifest.environment.insert(name.clone(), value);
        }
    }
    Ok(())
}

/// The files of MCP servers, by their names in the folder.
fn servers(world: &World, from: &Path) -> Result<Vec<String>, Error> {
    let folder: PathBuf = from.join(names::MCP);
    if !folder.symlink_metadata().is_ok_and(|facts| facts.is_dir()) {
        return Ok(Vec::new());
    }
    let listed = world.disk.list(&folder);
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
