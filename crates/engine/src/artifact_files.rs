//! Files that a run writes for the user: path checks and atomic replacement.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use minijinja::Value;
use minijinja::value::Serde;
use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::fault::{Point, point};
use segno_core::id::SessionId;
use segno_core::ports::{self, Access, Stage};
use segno_spec::template::Templates;
use segno_spec::{Artifact, checked_artifact_path};

use crate::env::Env;

/// Why a file for the user cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("artifact {} exists and was not written by this session", .path.display())]
    Exists { path: PathBuf },
    #[error("artifact {path} cannot be written: {reason}")]
    Failed { path: String, reason: String },
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Exists { .. } => Diagnosis::new(Kind::Unusable, "F0202")
                .hint("move the file away, or run with `--force` or another `--out`"),
            Self::Failed { .. } => Diagnosis::new(Kind::Unavailable, "F0203"),
        }
    }
}

/// Refuses existing files early, before money is spent on text that cannot be written.
pub fn check_paths(
    env: &Env,
    templates: &Templates,
    artifacts: &[Artifact],
    variables: &BTreeMap<String, serde_json::Value>,
    out: &Path,
    force: bool,
) -> Result<(), Error> {
    for artifact in artifacts {
        // A path that depends on answers is not known yet; `write` checks it.
        let given = variables
            .iter()
            .map(|(name, value)| (name.as_str(), Value::from(Serde(value))));
        let context = Value::from_pairs(given);
        if let Ok(path) = templates.render(&artifact.path, context) {
            let target = resolve_path(out, &path)?;
            if exists(env, &path, &target)? && !force {
                return Err(Error::Exists { path: target });
            }
        }
    }
    Ok(())
}

/// Replaces a file atomically and durably, and creates its folder if it is missing.
pub(crate) fn replace_file(
    env: &Env,
    session: SessionId,
    target: &Path,
    content: &[u8],
) -> std::io::Result<()> {
    let folder = target.parent().unwrap_or(Path::new("."));
    env.disk.create_folder(folder, Access::Shared)?;
    let draft = folder.join(format!(".segno-{session}"));
    let reached = |stage| match stage {
        Stage::Drafted => point(Point::ArtifactBeforeRename),
        Stage::Renamed => point(Point::ArtifactAfterRename),
    };
    ports::replace_file(&*env.disk, &draft, target, content, Access::Shared, reached)
}

/// The path of an artifact: below `out`, and not through a symlink.
pub(crate) fn resolve_path(out: &Path, path: &str) -> Result<PathBuf, Error> {
    let refuse = |reason: String| Error::Failed {
        path: path.to_owned(),
        reason,
    };
    let relative = checked_artifact_path(path).map_err(|error| refuse(error.to_string()))?;
    let mut target = out.to_owned();
    for part in relative.components() {
        target.push(part);
        if target.is_symlink() {
            return Err(refuse(format!("{} is a symbolic link", target.display())));
        }
    }
    Ok(target)
}

/// Whether anything is at `place`, a folder or a file of any length.
fn exists(env: &Env, path: &str, target: &Path) -> Result<bool, Error> {
    match env.disk.read(target, 0) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => Err(Error::Failed {
            path: path.to_owned(),
            reason: format!("{}: {error}", target.display()),
        }),
        _ => Ok(true),
    }
}
