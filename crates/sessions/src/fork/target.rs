//! Chooses the name and folder of a fork, and restores files into it.

use std::path::{Path, PathBuf};

use segno_core::checkpoint::Manifest;
use segno_core::id::Name;
use segno_core::snapshot::{Change, ChangeKind, FolderUse, Progress, Restored};
use segno_core::store::{Error as StoreError, Filter, Summary};
use segno_engine::workspace::{self, canonical_path};
use segno_engine::{Env, lease};

use super::{Error, ForkPoint, TargetFolder};
use crate::checkpoint::{self, RestoreOutcome};
use crate::naming;

pub(super) struct Target {
    pub(super) name: Name,
    pub(super) folder: PathBuf,
    /// The base of numbered names; `None` if the user chose the name.
    pub(super) family: Option<Name>,
}

/// Where the files of a fork are.
enum Place<'a> {
    /// In this folder, whatever the fork's name.
    At(PathBuf),
    /// Beside the workspace, in a folder with the fork's name and the files of a checkpoint.
    Beside(PathBuf, &'a Manifest),
}

impl<'a> Place<'a> {
    /// Refuses a folder of the user that is not free.
    async fn check(env: &Env, summary: &Summary, part: &'a ForkPoint) -> Result<Self, Error> {
        let workspace = PathBuf::from(&summary.workspace);
        let (folder, manifest) = match part {
            ForkPoint::All
            | ForkPoint::Before(_)
            | ForkPoint::AtCheckpoint(_, TargetFolder::Original) => return Ok(Self::At(workspace)),
            ForkPoint::AtCheckpoint(manifest, TargetFolder::Beside) => {
                return Ok(Self::Beside(workspace, manifest));
            }
            ForkPoint::CopyInto(folder) => (canonical_path(folder), None),
            ForkPoint::AtCheckpoint(manifest, TargetFolder::Into(folder)) => {
                (canonical_path(folder), Some(&**manifest))
            }
        };
        check_folder_is_free(env, summary, &folder, manifest).await?;
        Ok(Self::At(folder))
    }
}

impl Target {
    /// The first free name whose folder is free, too.
    pub(super) async fn choose(
        env: &Env,
        summary: &Summary,
        part: &ForkPoint,
        name: Option<Name>,
    ) -> Result<Self, Error> {
        let like = || Name::sanitized(&format!("{}-fork", summary.name));
        let family = name.is_none().then(like);
        let wanted = name.unwrap_or_else(like);
        naming::check(env, &wanted)?;
        if family.is_none() && naming::is_taken(env, &wanted).await? {
            return Err(StoreError::NameTaken(wanted).into());
        }
        let place = Place::check(env, summary, part).await?;
        let (is_numbered, wanted, place) = (family.is_some(), &wanted, &place);
        let attempt = |number| async move {
            let name = wanted.numbered(number);
            if naming::is_taken(env, &name).await? {
                return Ok(None);
            }
            let (folder, manifest) = match place {
                Place::At(folder) => return Ok(Some((name, folder.clone()))),
                Place::Beside(workspace, manifest) => (folder_beside(workspace, &name)?, manifest),
            };
            match check_folder_is_free(env, summary, &folder, Some(manifest)).await {
                Err(Error::FolderTaken { .. }) if is_numbered => Ok(None),
                checked => checked.map(|()| Some((name, folder))),
            }
        };
        let (_, (name, folder)) = naming::free_number(attempt).await?;
        Ok(Self {
            name,
            folder,
            family,
        })
    }

    /// Restores the files of a checkpoint into the fork's folder.
    pub(super) async fn restore_files(
        &self,
        env: &Env,
        manifest: &Manifest,
        place: &TargetFolder,
        progress: &Progress,
    ) -> Result<RestoreOutcome, checkpoint::Error> {
        let mut into = Some(self.folder.clone());
        if *place == TargetFolder::Original {
            into = None;
            if let Some((user, _)) = lease::active_sessions(env, &self.folder).await?.pop() {
                return Err(checkpoint::Error::RestoreWhileRunning {
                    session: user.id,
                    name: user.name,
                });
            }
        }
        checkpoint::restore(env, manifest, exact_request(into), progress).await
    }

    /// Reports what a restore would do to the existing files.
    pub(super) async fn dry_run(
        &self,
        env: &Env,
        manifest: &Manifest,
    ) -> Result<Restored, checkpoint::Error> {
        let request = checkpoint::Request {
            dry_run: true,
            ..exact_request(None)
        };
        let returned = checkpoint::restore(env, manifest, request, &|_, _| {}).await?;
        Ok(returned.restored)
    }
}

fn exact_request(into: Option<PathBuf>) -> checkpoint::Request {
    checkpoint::Request {
        into,
        exact: true,
        dry_run: false,
        trusted: false,
    }
}

/// The folder beside a workspace that is named after a fork.
fn folder_beside(workspace: &Path, name: &Name) -> Result<PathBuf, Error> {
    match (workspace.parent(), workspace.file_name()) {
        (Some(parent), Some(own)) => {
            let own = own.to_string_lossy();
            Ok(parent.join(format!("{own}-{name}")))
        }
        _ => Err(Error::FolderTaken {
            folder: workspace.to_owned(),
            reason: "it has no parent folder".to_owned(),
        }),
    }
}

/// Checks that a restore into this folder touches no other files. An existing folder may only have
/// some of the checkpoint's files, as a killed fork leaves it.
async fn check_folder_is_free(
    env: &Env,
    summary: &Summary,
    folder: &Path,
    manifest: Option<&Manifest>,
) -> Result<(), Error> {
    let taken = |reason: String| Error::FolderTaken {
        folder: folder.to_owned(),
        reason,
    };
    if workspace::canonical(folder).starts_with(workspace::canonical(Path::new(&summary.workspace)))
    {
        return Err(taken(format!(
            "it is inside the workspace of session `{}`",
            summary.name
        )));
    }
    for other in env
        .store
        .list(Filter::default())
        .await?
        .into_iter()
        .flatten()
    {
        if workspace::canonical(Path::new(&other.workspace)) == workspace::canonical(folder) {
            return Err(taken(format!(
                "it is the workspace of session `{}`",
                other.name
            )));
        }
    }
    env.snapshots()?.check_folder(folder, FolderUse::Target)?;
    if folder.symlink_metadata().is_err() {
        return Ok(());
    }
    if !folder.is_dir() {
        return Err(taken("it is not a folder".to_owned()));
    }
    let rules = checkpoint::rules_of(env, summary.id).await;
    let seen = env.snapshots()?.capture(folder, &rules, None, &|_, _| {});
    let seen = seen.await?;
    let Some(manifest) = manifest else {
        return match seen.files {
            0 => Ok(()),
            _ => Err(taken("it exists and is not empty".to_owned())),
        };
    };
    let wanted = manifest.files.snapshot;
    let mut changes = env.snapshots()?.diff(seen.snapshot, wanted).await?;
    changes.retain(|change| is_foreign(change, manifest));
    match changes.first() {
        None => Ok(()),
        Some(change) => Err(taken(format!(
            "it exists and has other files: {}",
            change.path
        ))),
    }
}

/// Whether a difference from the checkpoint's files is more than a missing file. Git folders from
/// outside of the workspace are restored inside it, so these do not count.
fn is_foreign(change: &Change, manifest: &Manifest) -> bool {
    let outside = manifest.repositories.iter();
    let outside = outside.filter(|repository| repository.external_git_dir.is_some());
    let mut git = outside.map(|repository| Path::new(&repository.path).join(".git"));
    matches!(change.kind, ChangeKind::Removed | ChangeKind::Changed)
        && !git.any(|git| Path::new(&change.path).starts_with(git))
}
