//! The folder of a copy, and what it is called.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use segno_core::checkpoint::Manifest;
use segno_core::id::Name;
use segno_core::session::Summary;
use segno_core::snapshot::{Change, Progress, Restored, Sort};
use segno_core::store::Error as StoreError;

use super::{Part, Place};
use crate::checkpoint::{self, Returned};
use crate::claim;
use crate::error::Error;
use crate::world::World;

/// Where a copy works, under which name.
pub(super) struct Seat {
    pub(super) name: Name,
    pub(super) folder: PathBuf,
    /// Whose numbers the name may have; `None` if a person chose it.
    pub(super) family: Option<Name>,
}

impl Seat {
    /// The first name that is free, whose folder is, too.
    pub(super) async fn choose(
        world: &World,
        summary: &Summary,
        part: &Part,
        name: Option<Name>,
    ) -> Result<Self, Error> {
        let workspace = PathBuf::from(&summary.workspace);
        let taken = names(world).await?;
        let like = || Name::like(&format!("{}-fork", summary.name));
        let family = name.is_none().then(like);
        let wanted = name.unwrap_or_else(like);
        for number in 1.. {
            let name = wanted.numbered(number);
            if taken.contains(&name) {
                if family.is_none() {
                    return Err(StoreError::NameTaken(name).into());
                }
                continue;
            }
            let folder = match part {
                Part::All | Part::Before(_) | Part::Until(_, Place::Back) => workspace.clone(),
                Part::Apart(folder) => {
                    let folder = settled(folder);
                    free(world, summary, &folder, None).await?;
                    folder
                }
                Part::Until(manifest, Place::Into(folder)) => {
                    let folder = settled(folder);
                    free(world, summary, &folder, Some(manifest)).await?;
                    folder
                }
                Part::Until(manifest, Place::Beside) => {
                    let folder = beside(&workspace, &name)?;
                    match free(world, summary, &folder, Some(manifest)).await {
                        Err(Error::FolderTaken { .. }) if family.is_some() => continue,
                        free => free?,
                    }
                    folder
                }
            };
            return Ok(Self {
                name,
                folder,
                family,
            });
        }
        unreachable!("there are more numbers than sessions")
    }

    /// Another name of the family.
    pub(super) async fn next(&self, world: &World) -> Result<Name, Error> {
        let taken = names(world).await?;
        let family = self.family.as_ref().unwrap_or(&self.name);
        let mut all = (1..).map(|number| family.numbered(number));
        let free = all.find(|name| !taken.contains(name));
        Ok(free.expect("there are more numbers than sessions"))
    }

    /// Brings the files of a checkpoint to where the copy works.
    pub(super) async fn fill(
        &self,
        world: &World,
        manifest: &Manifest,
        place: &Place,
        progress: &Progress,
    ) -> Result<Returned, Error> {
        let mut into = Some(self.folder.clone());
        if *place == Place::Back {
            into = None;
            if let Some((user, _)) = claim::at_work(world, &self.folder).await?.pop() {
                return Err(Error::Busy {
                    session: user.id,
                    name: user.name,
                });
            }
        }
        checkpoint::restore(world, manifest, exactly(into), progress).await
    }

    /// What that would do to the files that are there.
    pub(super) async fn foresee(
        &self,
        world: &World,
        manifest: &Manifest,
    ) -> Result<Restored, Error> {
        let request = checkpoint::Request {
            dry: true,
            ..exactly(None)
        };
        let returned = checkpoint::restore(world, manifest, request, &|_, _| {}).await?;
        Ok(returned.restored)
    }
}

fn exactly(into: Option<PathBuf>) -> checkpoint::Request {
    checkpoint::Request {
        into,
        exact: true,
        dry: false,
        trust: false,
    }
}

async fn names(world: &World) -> Result<BTreeSet<Name>, Error> {
    // What is damaged is told where sessions are listed.
    let all = world.store.list().await?.into_iter().flatten();
    Ok(all.map(|summary| summary.name).collect())
}

/// The folder beside a workspace that is called after a copy.
fn beside(workspace: &Path, name: &Name) -> Result<PathBuf, Error> {
    match (workspace.parent(), workspace.file_name()) {
        (Some(parent), Some(own)) => {
            let own = own.to_string_lossy();
            Ok(parent.join(format!("{own}-{name}")))
        }
        _ => Err(Error::FolderTaken {
            folder: workspace.to_owned(),
            reason: "there is nothing beside it".to_owned(),
        }),
    }
}

/// A folder by the one name that it has, or will have if it is not there yet.
pub(crate) fn settled(folder: &Path) -> PathBuf {
    let step = |mut known: PathBuf, part: Component<'_>| match part {
        Component::ParentDir => {
            known.pop();
            known
        }
        part => checkpoint::real(&known.join(part)),
    };
    folder.components().fold(PathBuf::new(), step)
}

/// Whether the files of a checkpoint can go to a folder and nothing of anyone's be touched. One that is
/// there may have nothing but some of these files, as a killed fork leaves it.
async fn free(
    world: &World,
    summary: &Summary,
    folder: &Path,
    manifest: Option<&Manifest>,
) -> Result<(), Error> {
    let taken = |reason: String| Error::FolderTaken {
        folder: folder.to_owned(),
        reason,
    };
    if checkpoint::real(folder).starts_with(checkpoint::real(Path::new(&summary.workspace))) {
        return Err(taken(format!("session {} works there", summary.name)));
    }
    for other in world.store.list().await?.into_iter().flatten() {
        if checkpoint::real(Path::new(&other.workspace)) == checkpoint::real(folder) {
            return Err(taken(format!("session {} works in it", other.name)));
        }
    }
    if folder.symlink_metadata().is_err() {
        return Ok(());
    }
    if !folder.is_dir() {
        return Err(taken("it is no folder".to_owned()));
    }
    let rules = checkpoint::rules_of(world, summary.id).await;
    let seen = world.snapshots.capture(folder, &rules, None, &|_, _| {});
    let seen = seen.await?;
    let Some(manifest) = manifest else {
        return match seen.files {
            0 => Ok(()),
            _ => Err(taken("it is there, with files".to_owned())),
        };
    };
    let wanted = manifest.files.snapshot;
    let mut changes = world.snapshots.diff(seen.snapshot, wanted).await?;
    changes.retain(|change| is_foreign(change, manifest));
    match changes.first() {
        None => Ok(()),
        Some(change) => Err(taken(format!(
            "it is there, with other files: {}",
            change.path
        ))),
    }
}

/// Whether a difference from the checkpoint's files is more than that some are not there yet. A git folder
/// from outside of the workspace comes to lie in it.
fn is_foreign(change: &Change, manifest: &Manifest) -> bool {
    let outside = manifest.repositories.iter();
    let outside = outside.filter(|repository| repository.outside.is_some());
    let mut git = outside.map(|repository| Path::new(&repository.path).join(".git"));
    matches!(change.sort, Sort::Removed | Sort::Changed)
        && !git.any(|git| Path::new(&change.path).starts_with(git))
}
