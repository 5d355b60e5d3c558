//! The artifacts of a session: the files that it wrote for the user, as its journal names them.

use std::path::PathBuf;

use segno_core::digest::Digest;
use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::id::Name;
use segno_core::store::Summary;
use segno_engine::{Env, history};

/// Why an artifact cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    History(#[from] history::Error),
    #[error("session `{name}` has no artifact `{path}`")]
    NoSuchArtifact { name: Name, path: String },
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::History(error) => error.diagnosis(),
            Self::NoSuchArtifact { name, .. } => Diagnosis::new(Kind::NotFound, "N0113")
                .hint(format!("`segno show {name}` lists its artifacts")),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// The path relative to the folder.
    pub path: String,
    /// The content that the session wrote.
    pub digest: Digest,
}

/// The artifacts of a session, by path, and the folder that they were written into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifacts {
    pub folder: PathBuf,
    pub items: Vec<Artifact>,
}

/// The artifacts that a session has written so far.
pub async fn list(env: &Env, summary: &Summary) -> Result<Artifacts, history::Error> {
    let state = history::load_state(env, summary.id).await?;
    let folder = state.created.as_ref().map(|created| created.out.clone());
    let items = state.artifacts.into_iter();
    Ok(Artifacts {
        folder: PathBuf::from(folder.unwrap_or_default()),
        items: items
            .map(|(path, digest)| Artifact { path, digest })
            .collect(),
    })
}

/// One artifact, and the folder that it was written into.
pub async fn find(env: &Env, summary: &Summary, path: &str) -> Result<(PathBuf, Artifact), Error> {
    let Artifacts { folder, items } = list(env, summary).await?;
    let found = items.into_iter().find(|artifact| artifact.path == path);
    let found = found.ok_or_else(|| Error::NoSuchArtifact {
        name: summary.name.clone(),
        path: path.to_owned(),
    })?;
    Ok((folder, found))
}
