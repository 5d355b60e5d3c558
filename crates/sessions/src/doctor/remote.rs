//! Compares what the remote announces with what it has.

use segno_core::store::{Finding, Severity};
use segno_engine::Env;
use segno_engine::remote::{self as engine_remote, Inventory, name_of};

use super::Error;
use super::snapshots::readable_checkpoints;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemoteReport {
    /// Checkpoints that the remote announces.
    pub checkpoints: u64,
    /// Objects with their data.
    pub objects: u64,
    /// The problems.
    pub findings: Vec<Finding>,
}

/// Compares the objects in the remote with its announcements, by name and size, and the
/// announcements with the checkpoints here. Downloads no data: every part is verified when it is
/// pulled.
pub async fn compare(env: &Env) -> Result<RemoteReport, Error> {
    let remote = engine_remote::remote(env)?;
    let (announcements, unreadable) = engine_remote::list(env).await?;
    let inventory = Inventory::read(remote).await;
    let inventory = inventory.map_err(engine_remote::Error::from)?;
    let mut report = RemoteReport {
        checkpoints: announcements.len() as u64,
        objects: inventory.parts.len() as u64,
        findings: Vec::new(),
    };
    let mut find = |severity, object: String, problem: String| {
        report.findings.push(Finding {
            session: None,
            object,
            problem,
            severity,
        });
    };
    for error in unreadable {
        find(Severity::Damage, "the remote".into(), error.to_string());
    }
    for announcement in &announcements {
        let checkpoint = announcement.checkpoint.id;
        for part in &announcement.parts {
            let object = part.object_name();
            let problem = match inventory.parts.get(&object) {
                Some(bytes) if *bytes == part.bytes => continue,
                Some(bytes) => format!("has {bytes} bytes instead of {}", part.bytes),
                None => "is missing".to_owned(),
            };
            find(
                Severity::Damage,
                format!("{object} in the remote"),
                format!("{problem}; needed by checkpoint {checkpoint}"),
            );
        }
    }
    let here = readable_checkpoints(env).await?;
    let is_pushed = |name: &String| inventory.announcements.contains(name);
    let only_here = here.iter().filter(|manifest| manifest.pruned.is_none());
    let only_here = only_here.map(name_of).filter(|name| !is_pushed(name));
    match only_here.count() {
        0 => {}
        count => find(
            Severity::Notice,
            "the remote".into(),
            format!("lacks {count} of the checkpoints here; `segno checkpoint push` pushes them"),
        ),
    }
    Ok(report)
}
