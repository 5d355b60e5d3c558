//! What a restore has to do: the snapshot beside what is in the target.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::beneath::{self, Facts};
use crate::entry::{Entry, Kind, Skipped, Why};
use crate::error::Error;
use crate::index::{Index, Memory};
use crate::lot::Lot;
use crate::machine;
use crate::manifest::{Manifest, bytes};
use crate::read::is_still;
use crate::request::{Reach, Restore};
use crate::restore::{Target, mode};
use crate::scope::Scope;
use crate::vault::Vault;
use crate::walk::{Tree, Walk, What};

/// What is done about an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act {
    /// It is there as it should be, but for its mode, time or attributes if `facts` differ.
    Keep {
        /// Whether mode, time or attributes have to be set.
        mend: bool,
    },
    /// It is written, at this place of the stage, and moved into its own with whatever it is part of.
    Write {
        /// Where in the stage.
        staged: PathBuf,
        /// Whether it is moved by itself, not with the folder that it is in.
        moves: bool,
    },
    /// It is linked to the file that it is another name of.
    Link,
}

/// Something in the target.
pub(crate) struct There {
    pub(crate) facts: Facts,
    pub(crate) what: Presence,
}

pub(crate) enum Presence {
    Folder,
    File(Option<Memory>),
    Link(PathBuf),
    /// Not looked into.
    Left(Why),
}

/// What is to be done.
pub(crate) struct Plan {
    /// For each entry of the manifest.
    pub(crate) acts: Vec<Act>,
    /// What is removed, whatever is in it first.
    pub(crate) removals: Vec<(PathBuf, Removal)>,
    /// What is in the target's way and goes only because something takes its place.
    pub(crate) replaced: HashSet<PathBuf>,
    /// Nothing is there that goes or whose place is taken: whatever happens on the way, nothing is lost.
    pub(crate) replaces_nothing: bool,
}

/// How something is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    File,
    Folder,
}

/// Keeps a walk out of what the snapshot knows nothing of.
struct Known<'a> {
    scope: &'a dyn Scope,
    manifest: &'a Manifest,
    skipped: &'a HashSet<&'a [u8]>,
}

impl Scope for Known<'_> {
    fn leaves_out(&self, folder: &Path, name: &OsStr, is_folder: bool) -> Option<String> {
        let path = folder.join(name);
        let skipped = self.skipped.contains(bytes(&path));
        let rule = self.scope.leaves_out(folder, name, is_folder);
        let rule = rule.or_else(|| skipped.then(|| "left out by the snapshot".to_owned()))?;
        self.manifest.find(&path).is_none().then_some(rule)
    }

    fn leaves_out_holding(&self, folder: &Path, names: &[&OsStr]) -> Option<String> {
        let rule = self.scope.leaves_out_holding(folder, names)?;
        self.manifest.find(folder).is_none().then_some(rule)
    }
}

impl Plan {
    /// What turns what is `there` into what the manifest says.
    pub(crate) fn new(
        manifest: &Manifest,
        target: &Target<'_>,
        there: &HashMap<PathBuf, There>,
        options: &Restore<'_>,
    ) -> Result<Self, Error> {
        let same = compare(manifest, there, target);
        let mut builder = Builder {
            manifest,
            there,
            same: &same,
            options,
            units: 0,
            plan: Plan {
                acts: Vec::with_capacity(manifest.entries.len()),
                removals: Vec::new(),
                replaced: HashSet::new(),
                replaces_nothing: there.is_empty(),
            },
        };
        builder.acts();
        let mut plan = builder.plan;
        plan.add_removals(manifest, there, &skipped(manifest), options)?;
        Ok(plan)
    }

    /// How many files are written.
    pub(crate) fn written(&self, manifest: &Manifest) -> u64 {
        self.count(manifest, |act| !matches!(act, Act::Keep { .. }))
    }

    /// How many files are as they should be.
    pub(crate) fn unchanged(&self, manifest: &Manifest) -> u64 {
        self.count(manifest, |act| *act == Act::Keep { mend: false })
    }

    fn count(&self, manifest: &Manifest, counts: impl Fn(&Act) -> bool) -> u64 {
        let acts = manifest.entries.iter().zip(&self.acts);
        acts.filter(|(entry, act)| entry.kind != Kind::Folder && counts(act))
            .count() as u64
    }

    fn add_removals(
        &mut self,
        manifest: &Manifest,
        there: &HashMap<PathBuf, There>,
        skipped: &HashSet<&[u8]>,
        options: &Restore<'_>,
    ) -> Result<(), Error> {
        let mut removals = Vec::new();
        for (path, there) in there {
            let below = path
                .ancestors()
                .skip(1)
                .find(|above| self.replaced.contains(*above));
            if let Some(above) = below {
                // Something takes the place of the folder that this is in.
                let protected =
                    matches!(there.what, Presence::Left(_)) || is_protected(path, skipped);
                let reason = if protected {
                    "it has something in it that is not part of snapshots"
                } else {
                    "it is a folder with something in it"
                };
                if protected || !options.exact {
                    return Err(Error::InTheWay {
                        path: above.to_owned(),
                        reason,
                    });
                }
            } else if !self.replaced.contains(path)
                && (!options.exact
                    || manifest.find(path).is_some()
                    || matches!(there.what, Presence::Left(_))
                    || is_protected(path, skipped))
            {
                continue;
            }
            let is_folder = there.facts.is_folder();
            let removal = if is_folder {
                Removal::Folder
            } else {
                Removal::File
            };
            removals.push((path.clone(), removal));
        }
        // What is deepest goes first.
        removals.sort_by(|left, right| bytes(&right.0).cmp(bytes(&left.0)));
        self.removals = removals;
        Ok(())
    }
}

/// The paths that the snapshot left out.
fn skipped(manifest: &Manifest) -> HashSet<&[u8]> {
    let skipped = manifest.skipped.iter();
    skipped.map(|Skipped { path, .. }| bytes(path)).collect()
}

/// Whether the snapshot left this out, or something that it lies in.
fn is_protected(path: &Path, skipped: &HashSet<&[u8]>) -> bool {
    path.ancestors().any(|above| skipped.contains(bytes(above)))
}

struct Builder<'a> {
    manifest: &'a Manifest,
    there: &'a HashMap<PathBuf, There>,
    same: &'a HashSet<usize>,
    options: &'a Restore<'a>,
    units: usize,
    plan: Plan,
}

impl Builder<'_> {
    fn acts(&mut self) {
        // The folder that is being made, and where in the stage.
        let mut making: Option<(&Path, PathBuf)> = None;
        let mut kept: HashMap<&Path, (u64, bool)> = HashMap::new();
        for (number, entry) in self.manifest.entries.iter().enumerate() {
            if making
                .as_ref()
                .is_some_and(|(folder, _)| !entry.path.starts_with(folder))
            {
                making = None;
            }
            let act = match (&making, &entry.kind) {
                (_, Kind::Twin { of }) => self.twin(entry, kept.get(&**of).copied()),
                (Some((folder, staged)), _) => Act::Write {
                    staged: staged.join(entry.path.strip_prefix(folder).unwrap_or(&entry.path)),
                    moves: false,
                },
                (None, _) => self.act(number, entry),
            };
            match (&act, &entry.kind) {
                (
                    Act::Write {
                        staged,
                        moves: true,
                    },
                    Kind::Folder,
                ) => {
                    making = Some((&entry.path, staged.clone()));
                }
                (Act::Keep { mend }, Kind::File { .. }) => {
                    let inode = self
                        .there
                        .get(&entry.path)
                        .map_or(0, |there| there.facts.inode);
                    kept.insert(&entry.path, (inode, *mend));
                }
                _ => {}
            }
            self.plan.acts.push(act);
        }
    }

    fn act(&mut self, number: usize, entry: &Entry) -> Act {
        let Some(there) = self.there.get(&entry.path) else {
            return self.write();
        };
        let same = match (&entry.kind, &there.what) {
            (Kind::Folder, Presence::Folder) => true,
            (Kind::File { .. }, Presence::File(_)) => self.same.contains(&number),
            (Kind::Link { target }, Presence::Link(says)) => target == says,
            _ => false,
        };
        if same {
            let mend = self.differs(entry, there);
            return Act::Keep { mend };
        }
        let renames_over = entry.kind != Kind::Folder && !there.facts.is_folder();
        if !renames_over {
            self.plan.replaced.insert(entry.path.clone());
        }
        self.write()
    }

    fn twin(&mut self, entry: &Entry, leader: Option<(u64, bool)>) -> Act {
        let there = self.there.get(&entry.path).map(|there| there.facts);
        match (there, leader) {
            (Some(facts), Some((inode, mend))) if facts.inode == inode => Act::Keep { mend },
            _ => {
                if there.is_some_and(|facts| facts.is_folder()) {
                    self.plan.replaced.insert(entry.path.clone());
                }
                Act::Link
            }
        }
    }

    fn differs(&self, entry: &Entry, there: &There) -> bool {
        let wanted = mode(entry, self.options).as_raw_mode();
        let bits = if self.options.privileges {
            0o7777
        } else {
            0o1777
        };
        let mode = !there.facts.is_link() && there.facts.mode & bits != wanted;
        let attributes = match &there.what {
            Presence::File(Some(memory)) => memory.attributes != entry.attributes,
            // Not looked at yet; setting them looks.
            Presence::File(None) => true,
            // Those of folders are set in any case.
            _ => false,
        };
        mode || attributes || there.facts.modified != entry.modified
    }

    fn write(&mut self) -> Act {
        let staged = PathBuf::from(self.units.to_string());
        self.units += 1;
        Act::Write {
            staged,
            moves: true,
        }
    }
}

/// Everything that is in the target, but for what snapshots leave out.
pub(crate) fn look(
    manifest: &Manifest,
    target: &Target<'_>,
    index: &Index,
    vault: &Vault,
    options: &Restore<'_>,
) -> Result<HashMap<PathBuf, There>, Error> {
    let facts = beneath::root(&vault.root).and_then(Facts::of);
    let facts = facts.map_err(|error| Error::at(&vault.root, error))?;
    let scope = Known {
        scope: options.scope,
        manifest,
        skipped: &skipped(manifest),
    };
    let walk = Walk {
        root: &target.fd,
        scope: &scope,
        index,
        reach: Reach::OneFileSystem,
        vault: Some((facts.device, facts.inode)),
        files: u64::MAX,
        late: &|| false,
        glances: false,
        lot: Lot::default(),
    };
    let mut tree = walk.run().map_err(|error| Error::at(target.place, error))?;
    let mut there = HashMap::new();
    gather(&mut tree, 0, Path::new(""), &mut there);
    for (path, there) in &there {
        if let Presence::Left(why @ (Why::OtherFileSystem | Why::Vault)) = &there.what
            && manifest.find(path).is_some()
        {
            let reason = match why {
                Why::Vault => "snapshots are kept there",
                _ => "it lies on another file system",
            };
            let path = path.clone();
            return Err(Error::InTheWay { path, reason });
        }
    }
    Ok(there)
}

fn gather(tree: &mut Tree, number: usize, path: &Path, there: &mut HashMap<PathBuf, There>) {
    for node in std::mem::take(&mut tree.folders[number].nodes) {
        let Some(facts) = node.facts else { continue };
        let path = path.join(&node.name);
        let what = match node.what {
            What::Folder(inside) => {
                gather(tree, inside, &path, there);
                Presence::Folder
            }
            What::File(memory) => Presence::File(memory),
            What::Link(target) => Presence::Link(target.into()),
            What::Left(why) => Presence::Left(why),
        };
        there.insert(path, There { facts, what });
    }
}

/// The files whose content is there already: known from the index, or read and compared.
fn compare(
    manifest: &Manifest,
    there: &HashMap<PathBuf, There>,
    target: &Target<'_>,
) -> HashSet<usize> {
    let mut names: HashMap<&Path, Vec<&Path>> = HashMap::new();
    for entry in &manifest.entries {
        if let Kind::Twin { of } = &entry.kind {
            names.entry(of).or_default().push(&entry.path);
        }
    }
    let inode = |path: &Path| there.get(path).map(|there| there.facts.inode);
    let mut same = HashSet::new();
    let mut doubtful = Vec::new();
    for (number, entry) in manifest.entries.iter().enumerate() {
        let Kind::File { size, content, .. } = &entry.kind else {
            continue;
        };
        let Some(There {
            facts,
            what: Presence::File(memory),
        }) = there.get(&entry.path)
        else {
            continue;
        };
        // A file with a name elsewhere is not ours alone: it is replaced, not mended.
        let twins = names.get(&*entry.path).map_or(&[][..], Vec::as_slice);
        let ours = twins.iter().all(|twin| inode(twin) == Some(facts.inode));
        if facts.size != *size || facts.links != twins.len() as u64 + 1 || !ours {
            continue;
        }
        match memory {
            Some(memory) if memory.content == *content => {
                same.insert(number);
            }
            Some(_) => {}
            None => doubtful.push(number),
        }
    }
    let next = AtomicUsize::new(0);
    let found = Mutex::new(same);
    let work = || {
        while let Some(&number) = doubtful.get(next.fetch_add(1, Ordering::Relaxed)) {
            let entry = &manifest.entries[number];
            if is_still(&target.fd, &entry.path, entry.content()) {
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
