//! The plan of a restore: compares the snapshot with what is in the target.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::entry::{Entry, Kind, Skipped, Why};
use crate::error::{Error, OWN_FOLDER};
use crate::index::{Index, KnownFile};
use crate::machine;
use crate::manifest::{Manifest, bytes};
use crate::openat::Facts;
use crate::read::has_same_content;
use crate::recheck::Recheck;
use crate::request::{Reach, Restore};
use crate::restore::{Target, mode};
use crate::scope::Scope;
use crate::snapshot_store::SnapshotStore;
use crate::walk::{Tree, Walk, What};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// The content is as it should be.
    Keep {
        /// Whether mode, time or attributes have to be set.
        fix_metadata: bool,
    },
    /// The entry is written to the stage and moved to its path, alone or with its folder.
    Write {
        /// The path in the stage.
        staged: PathBuf,
        /// Whether it is moved by itself, not with the folder that contains it.
        moves: bool,
    },
    /// The entry becomes a hard link to the file that it is another name of.
    Link,
}

/// Something that is in the target.
pub(crate) struct Existing {
    pub(crate) facts: Facts,
    pub(crate) what: Presence,
}

pub(crate) enum Presence {
    Folder,
    File(Option<KnownFile>),
    Link(PathBuf),
    /// Excluded: the walk did not look into it.
    Excluded(Why),
}

pub(crate) struct Plan {
    /// One per entry of the manifest.
    pub(crate) actions: Vec<Action>,
    /// Paths to remove; the content of a folder comes before the folder.
    pub(crate) removals: Vec<(PathBuf, Removal)>,
    /// Paths that are removed only because something else takes their place.
    pub(crate) replaced: HashSet<PathBuf>,
    /// Nothing is removed or replaced: nothing can be lost if the restore is interrupted.
    pub(crate) replaces_nothing: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    File,
    Folder,
}

/// Keeps the walk out of paths that the snapshot does not contain.
struct RestoreScope<'a> {
    scope: &'a dyn Scope,
    manifest: &'a Manifest,
    skipped: &'a HashSet<&'a [u8]>,
}

impl Scope for RestoreScope<'_> {
    fn excludes(&self, folder: &Path, name: &OsStr, is_folder: bool) -> Option<String> {
        let path = folder.join(name);
        let skipped = self.skipped.contains(bytes(&path));
        let rule = self.scope.excludes(folder, name, is_folder);
        let rule = rule.or_else(|| skipped.then(|| "excluded by the snapshot".to_owned()))?;
        self.manifest.find(&path).is_none().then_some(rule)
    }

    fn excludes_for_content(&self, folder: &Path, names: &[&OsStr]) -> Option<String> {
        let rule = self.scope.excludes_for_content(folder, names)?;
        self.manifest.find(folder).is_none().then_some(rule)
    }
}

impl Plan {
    /// Plans how to turn what is `existing` into what the manifest says.
    pub(crate) fn new(
        manifest: &Manifest,
        target: &Target<'_>,
        existing: &HashMap<PathBuf, Existing>,
        options: &Restore<'_>,
    ) -> Result<Self, Error> {
        let same = compare(manifest, existing, target);
        let mut builder = Builder {
            manifest,
            existing,
            same: &same,
            options,
            units: 0,
            plan: Plan {
                actions: Vec::with_capacity(manifest.entries.len()),
                removals: Vec::new(),
                replaced: HashSet::new(),
                replaces_nothing: existing.is_empty(),
            },
        };
        builder.actions();
        let mut plan = builder.plan;
        plan.add_removals(manifest, existing, &skipped(manifest), options)?;
        Ok(plan)
    }

    /// The number of files that are written.
    pub(crate) fn written(&self, manifest: &Manifest) -> u64 {
        self.count(manifest, |action| !matches!(action, Action::Keep { .. }))
    }

    /// The number of files that are already as they should be.
    pub(crate) fn unchanged(&self, manifest: &Manifest) -> u64 {
        self.count(manifest, |action| {
            *action
                == Action::Keep {
                    fix_metadata: false,
                }
        })
    }

    fn count(&self, manifest: &Manifest, counts: impl Fn(&Action) -> bool) -> u64 {
        let actions = manifest.entries.iter().zip(&self.actions);
        actions
            .filter(|(entry, action)| entry.kind != Kind::Folder && counts(action))
            .count() as u64
    }

    fn add_removals(
        &mut self,
        manifest: &Manifest,
        existing: &HashMap<PathBuf, Existing>,
        skipped: &HashSet<&[u8]>,
        options: &Restore<'_>,
    ) -> Result<(), Error> {
        let mut removals = Vec::new();
        for (path, existing) in existing {
            let below = path
                .ancestors()
                .skip(1)
                .find(|above| self.replaced.contains(*above));
            if let Some(above) = below {
                // Something takes the place of the folder that contains this path.
                let protected =
                    matches!(existing.what, Presence::Excluded(_)) || is_protected(path, skipped);
                let reason = if protected {
                    "it contains something that snapshots exclude"
                } else {
                    "it is a folder that is not empty"
                };
                if protected || !options.exact {
                    return Err(Error::Blocked {
                        path: above.to_owned(),
                        reason,
                    });
                }
            } else if !self.replaced.contains(path)
                && (!options.exact
                    || manifest.find(path).is_some()
                    || matches!(existing.what, Presence::Excluded(_))
                    || is_protected(path, skipped))
            {
                continue;
            }
            let is_folder = existing.facts.is_folder();
            let removal = if is_folder {
                Removal::Folder
            } else {
                Removal::File
            };
            removals.push((path.clone(), removal));
        }
        // The deepest paths are removed first.
        removals.sort_by(|left, right| bytes(&right.0).cmp(bytes(&left.0)));
        self.removals = removals;
        Ok(())
    }
}

/// The paths that the snapshot excludes.
fn skipped(manifest: &Manifest) -> HashSet<&[u8]> {
    let skipped = manifest.skipped.iter();
    skipped.map(|Skipped { path, .. }| bytes(path)).collect()
}

/// Whether the snapshot excludes this path or a folder above it.
fn is_protected(path: &Path, skipped: &HashSet<&[u8]>) -> bool {
    path.ancestors().any(|above| skipped.contains(bytes(above)))
}

struct Builder<'a> {
    manifest: &'a Manifest,
    existing: &'a HashMap<PathBuf, Existing>,
    same: &'a HashSet<usize>,
    options: &'a Restore<'a>,
    units: usize,
    plan: Plan,
}

impl Builder<'_> {
    fn actions(&mut self) {
        // The folder that is being created, and its path in the stage.
        let mut making: Option<(&Path, PathBuf)> = None;
        let mut kept: HashMap<&Path, (u64, bool)> = HashMap::new();
        for (number, entry) in self.manifest.entries.iter().enumerate() {
            if making
                .as_ref()
                .is_some_and(|(folder, _)| !entry.path.starts_with(folder))
            {
                making = None;
            }
            let action = match (&making, &entry.kind) {
                (_, Kind::HardLink { of }) => self.hard_link(entry, kept.get(&**of).copied()),
                (Some((folder, staged)), _) => Action::Write {
                    staged: staged.join(entry.path.strip_prefix(folder).unwrap_or(&entry.path)),
                    moves: false,
                },
                (None, _) => self.action(number, entry),
            };
            match (&action, &entry.kind) {
                (
                    Action::Write {
                        staged,
                        moves: true,
                    },
                    Kind::Folder,
                ) => {
                    making = Some((&entry.path, staged.clone()));
                }
                (Action::Keep { fix_metadata }, Kind::File { .. }) => {
                    let inode = self
                        .existing
                        .get(&entry.path)
                        .map_or(0, |existing| existing.facts.inode);
                    kept.insert(&entry.path, (inode, *fix_metadata));
                }
                _ => {}
            }
            self.plan.actions.push(action);
        }
    }

    fn action(&mut self, number: usize, entry: &Entry) -> Action {
        let Some(existing) = self.existing.get(&entry.path) else {
            return self.write();
        };
        let same = match (&entry.kind, &existing.what) {
            (Kind::Folder, Presence::Folder) => true,
            (Kind::File { .. }, Presence::File(_)) => self.same.contains(&number),
            (Kind::Link { target }, Presence::Link(says)) => target == says,
            _ => false,
        };
        if same {
            let fix_metadata = self.differs(entry, existing);
            return Action::Keep { fix_metadata };
        }
        let renames_over = entry.kind != Kind::Folder && !existing.facts.is_folder();
        if !renames_over {
            self.plan.replaced.insert(entry.path.clone());
        }
        self.write()
    }

    fn hard_link(&mut self, entry: &Entry, leader: Option<(u64, bool)>) -> Action {
        let existing = self
            .existing
            .get(&entry.path)
            .map(|existing| existing.facts);
        match (existing, leader) {
            (Some(facts), Some((inode, fix_metadata))) if facts.inode == inode => {
                Action::Keep { fix_metadata }
            }
            _ => {
                if existing.is_some_and(|facts| facts.is_folder()) {
                    self.plan.replaced.insert(entry.path.clone());
                }
                Action::Link
            }
        }
    }

    fn differs(&self, entry: &Entry, existing: &Existing) -> bool {
        let wanted = mode(entry, self.options).as_raw_mode();
        let bits = if self.options.privileges {
            0o7777
        } else {
            0o1777
        };
        let mode = !existing.facts.is_link() && existing.facts.mode & bits != wanted;
        let attributes = match &existing.what {
            Presence::File(Some(known)) => known.attributes != entry.attributes,
            // The walk did not read the attributes; setting them reads them.
            Presence::File(None) => true,
            // The attributes of folders are set in any case.
            _ => false,
        };
        mode || attributes || existing.facts.modified != entry.modified
    }

    fn write(&mut self) -> Action {
        let staged = PathBuf::from(self.units.to_string());
        self.units += 1;
        Action::Write {
            staged,
            moves: true,
        }
    }
}

/// Everything in the target except what snapshots exclude.
pub(crate) fn read_target(
    manifest: &Manifest,
    target: &Target<'_>,
    index: &Index,
    store: &SnapshotStore,
    options: &Restore<'_>,
) -> Result<HashMap<PathBuf, Existing>, Error> {
    let scope = RestoreScope {
        scope: options.scope,
        manifest,
        skipped: &skipped(manifest),
    };
    let walk = Walk {
        root: &target.fd,
        scope: &scope,
        index,
        reach: Reach::OneFileSystem,
        own: &store.own,
        files: u64::MAX,
        is_late: &|| false,
        skip_unchanged: false,
        recheck: Recheck::default(),
    };
    let mut tree = walk.run().map_err(|error| Error::at(target.place, error))?;
    let mut existing = HashMap::new();
    gather(&mut tree, 0, Path::new(""), &mut existing);
    for (path, existing) in &existing {
        if let Presence::Excluded(why @ (Why::OtherFileSystem | Why::Store)) = &existing.what
            && manifest.find(path).is_some()
        {
            let reason = match why {
                Why::Store => OWN_FOLDER,
                _ => "it is on another file system",
            };
            let path = path.clone();
            return Err(Error::Blocked { path, reason });
        }
    }
    Ok(existing)
}

fn gather(tree: &mut Tree, number: usize, path: &Path, existing: &mut HashMap<PathBuf, Existing>) {
    for node in std::mem::take(&mut tree.folders[number].nodes) {
        let Some(facts) = node.facts else { continue };
        let path = path.join(&node.name);
        let what = match node.what {
            What::Folder(inside) => {
                gather(tree, inside, &path, existing);
                Presence::Folder
            }
            What::File(known) => Presence::File(known),
            What::Link(target) => Presence::Link(target.into()),
            What::Excluded(why) => Presence::Excluded(why),
        };
        existing.insert(path, Existing { facts, what });
    }
}

/// The files whose content is already there: known from the index, or read and compared.
fn compare(
    manifest: &Manifest,
    existing: &HashMap<PathBuf, Existing>,
    target: &Target<'_>,
) -> HashSet<usize> {
    let mut names: HashMap<&Path, Vec<&Path>> = HashMap::new();
    for entry in &manifest.entries {
        if let Kind::HardLink { of } = &entry.kind {
            names.entry(of).or_default().push(&entry.path);
        }
    }
    let inode = |path: &Path| existing.get(path).map(|existing| existing.facts.inode);
    let mut same = HashSet::new();
    let mut uncompared = Vec::new();
    for (number, entry) in manifest.entries.iter().enumerate() {
        let Kind::File { size, content, .. } = &entry.kind else {
            continue;
        };
        let Some(Existing {
            facts,
            what: Presence::File(known),
        }) = existing.get(&entry.path)
        else {
            continue;
        };
        // A file that has other names elsewhere is not ours alone: it is replaced, not changed in
        // place.
        let links = names.get(&*entry.path).map_or(&[][..], Vec::as_slice);
        let ours = links.iter().all(|link| inode(link) == Some(facts.inode));
        if facts.size != *size || facts.links != links.len() as u64 + 1 || !ours {
            continue;
        }
        match known {
            Some(known) if known.content == *content => {
                same.insert(number);
            }
            Some(_) => {}
            None => uncompared.push(number),
        }
    }
    let next = AtomicUsize::new(0);
    let found = Mutex::new(same);
    let work = || {
        while let Some(&number) = uncompared.get(next.fetch_add(1, Ordering::Relaxed)) {
            let entry = &manifest.entries[number];
            if has_same_content(&target.fd, &entry.path, entry.content()) {
                found
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .insert(number);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..machine::workers() {
            scope.spawn(work);
        }
        work();
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}
