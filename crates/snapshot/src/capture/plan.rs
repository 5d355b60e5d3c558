//! The plan of a capture: what is known from the index, what has to be read, what is excluded.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::entry::{Entry, Kind, Skipped, Why};
use crate::index::{Index, ROOT};
use crate::machine;
use crate::manifest::{PATH, bytes, check_entry, order};
use crate::openat::Facts;
use crate::pack::StoredChunks;
use crate::read::{Reading, StoredFile, database_of};
use crate::walk::{Tree, What};
use crate::wire::Broken;

/// How many entries are worth a second thread.
const MANY: u32 = 10_000;

/// Something the walk found: its entry, its stat data, and whether it has to be read.
pub(super) struct Found {
    pub(super) entry: Entry,
    pub(super) facts: Facts,
    pub(super) state: State,
    /// The file may have other names (hard links).
    pub(super) may_have_links: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// The entry has the content of the file, and a later capture can recognise the file by its
    /// stamp.
    Trusted,
    /// The file changed too recently to be recognised: the next capture reads it again.
    Recent,
    /// The content is not known yet.
    Unread,
}

/// What was found in folders that differ from the index, in the order of manifests, and which
/// entries of the index it replaces.
pub(super) struct Plan {
    pub(super) root: Entry,
    pub(super) found: Vec<Found>,
    pub(super) skipped: Vec<Skipped>,
    /// For each number of the index: whether its entry is no longer valid.
    pub(super) stale: Vec<bool>,
}

impl Plan {
    pub(super) fn new(root: Entry, tree: &mut Tree, index: &Index) -> Self {
        let mut plan = Self {
            root,
            // The full capacity: elements are large and should not be copied when the vector grows.
            found: Vec::with_capacity(tree.count()),
            skipped: Vec::new(),
            stale: vec![true; index.len()],
        };
        plan.gather(tree, 0, Path::new(""), index);
        plan.link_other_names();
        plan
    }

    /// Collects the found nodes in the order of manifests: a folder, then everything in it.
    fn gather(&mut self, tree: &mut Tree, number: usize, path: &Path, index: &Index) {
        let known = tree.folders[number].known;
        for child in known.into_iter().flat_map(|known| index.children(known)) {
            self.stale[child as usize] = false;
        }
        let mut section = index.folder_cursor(known);
        for node in std::mem::take(&mut tree.folders[number].nodes) {
            let path = path.join(&node.name);
            let skip = |why| Skipped {
                path: path.clone(),
                why,
            };
            if bytes(&path).len() > PATH {
                // Such a path could be opened step by step, but never be named as a whole.
                self.skipped.extend(short(&path).map(|path| Skipped {
                    path,
                    why: Why::Unreadable("it contains a path that is too long".into()),
                }));
                continue;
            }
            let (facts, what) = match (node.facts, node.what) {
                (_, What::Excluded(why)) => {
                    self.skipped.push(skip(why));
                    continue;
                }
                (None, _) => continue,
                (Some(facts), what) => (facts, what),
            };
            match what {
                What::Excluded(_) => {}
                What::Folder(inside) => {
                    let folder = &mut tree.folders[inside];
                    let gone = match folder.closed.take() {
                        // Only the existence of the folder is known: the snapshot contains it
                        // without content.
                        Some(why) => {
                            let gone = why == Why::Vanished;
                            self.skipped.push(skip(why));
                            gone
                        }
                        None => false,
                    };
                    let line = section.find(node.name.as_encoded_bytes());
                    let is_known = folder.known.is_some() && folder.known == line;
                    if let Some(line) = line {
                        self.stale[line as usize] = !is_known;
                    }
                    if gone {
                        continue;
                    }
                    if !is_known {
                        let mut entry = entry(path.clone(), &facts, Kind::Folder);
                        entry.attributes = match folder.known {
                            Some(known) => index.attributes(known),
                            None => std::mem::take(&mut folder.attributes),
                        };
                        self.push(entry, facts, State::Trusted);
                    }
                    self.gather(tree, inside, &path, index);
                }
                What::Link(target) => {
                    let target = PathBuf::from(target);
                    self.push(
                        entry(path, &facts, Kind::Link { target }),
                        facts,
                        State::Trusted,
                    );
                }
                What::File(known) => {
                    let state = if known.is_some() {
                        State::Trusted
                    } else {
                        State::Unread
                    };
                    let (attributes, content) = known
                        .map_or_else(Default::default, |known| (known.attributes, known.content));
                    let kind = Kind::File {
                        size: facts.size,
                        content,
                        unstable: false,
                    };
                    let mut entry = entry(path, &facts, kind);
                    entry.attributes = attributes;
                    self.push(entry, facts, state);
                }
            }
        }
    }

    /// Turns further names of one file into hard links to its first name.
    fn link_other_names(&mut self) {
        let mut first: HashMap<(u64, u64), PathBuf> = HashMap::new();
        for found in &mut self.found {
            if found.facts.links < 2 || !found.facts.is_file() {
                continue;
            }
            match first.entry((found.facts.device, found.facts.inode)) {
                std::collections::hash_map::Entry::Vacant(vacant) => {
                    vacant.insert(found.entry.path.clone());
                }
                std::collections::hash_map::Entry::Occupied(leader) => {
                    found.entry.kind = Kind::HardLink {
                        of: leader.get().clone(),
                    };
                    found.entry.attributes.clear();
                    found.state = State::Trusted;
                }
            }
        }
    }

    pub(super) fn push(&mut self, entry: Entry, facts: Facts, state: State) {
        let may_have_links = facts.links > 1;
        self.found.push(Found {
            entry,
            facts,
            state,
            may_have_links,
        });
    }

    /// Marks files as unread whose content is no longer in the snapshot store, whatever the index
    /// says.
    pub(super) fn mark_missing_unread(&mut self, known: &StoredChunks) {
        for found in &mut self.found {
            let mut chunks = found.entry.content().iter();
            if !chunks.all(|chunk| known.has(&chunk.digest)) {
                found.state = State::Unread;
            }
        }
    }

    /// The valid numbers of the index whose content is no longer in the snapshot store.
    pub(super) fn missing(&self, index: &Index, known: &StoredChunks) -> Vec<u32> {
        let is_gone = |number: &u32| {
            let holds = !self.stale[*number as usize];
            holds && !index.digests(*number).all(|digest| known.has(&digest))
        };
        let gone = |part: Range<u32>| move || part.filter(is_gone).collect::<Vec<u32>>();
        let (end, middle) = (index.end(), index.end().div_ceil(2));
        let (one, other) = (gone(ROOT + 1..middle), gone(middle..end));
        let (mut gone, later) = machine::join(end > MANY, one, other);
        gone.extend(later);
        gone
    }

    /// The logs of databases, by database. If one of them has to be read, all are: they are only
    /// consistent together.
    pub(super) fn join_databases(&mut self) -> HashMap<usize, Vec<usize>> {
        let is_file = |found: &Found| matches!(found.entry.kind, Kind::File { .. });
        let mut logs: HashMap<usize, Vec<usize>> = HashMap::new();
        for (number, found) in self.found.iter().enumerate() {
            let Some(database) = database_of(&found.entry.path).filter(|_| is_file(found)) else {
                continue;
            };
            let at = self
                .found
                .binary_search_by(|found| order(&found.entry.path, &database));
            if let Some(at) = at.ok().filter(|at| is_file(&self.found[*at])) {
                logs.entry(at).or_default().push(number);
            }
        }
        // A file that is named like a log and has a log of its own is read as a log.
        let led: HashSet<usize> = logs.values().flatten().copied().collect();
        logs.retain(|&database, logs| {
            if led.contains(&database) {
                return false;
            }
            let is_unread = |number: &usize| self.found[*number].state == State::Unread;
            let any = is_unread(&database) || logs.iter().any(is_unread);
            for &number in logs.iter().chain([&database]).filter(|_| any) {
                self.found[number].state = State::Unread;
            }
            any
        });
        logs
    }

    /// The numbers of the files that have to be read.
    pub(super) fn unread(&self) -> Vec<usize> {
        let is_unread = |number: &usize| self.found[*number].state == State::Unread;
        (0..self.found.len()).filter(is_unread).collect()
    }

    /// Records the result of reading a file.
    pub(super) fn record(&mut self, number: usize, reading: Reading) {
        let found = &mut self.found[number];
        match reading {
            Reading::Stored(stored) => found.apply(stored),
            Reading::Excluded(why) => {
                self.skipped.push(Skipped {
                    path: found.entry.path.clone(),
                    why,
                });
            }
        }
    }

    /// Drops hard links whose file was dropped.
    fn drop_orphaned_links(&mut self) {
        let is_leader =
            |found: &&Found| found.may_have_links && matches!(found.entry.kind, Kind::File { .. });
        let leaders = self.found.iter().filter(is_leader);
        let leaders: HashSet<PathBuf> = leaders.map(|found| found.entry.path.clone()).collect();
        let skipped = &mut self.skipped;
        self.found.retain(|found| match &found.entry.kind {
            Kind::HardLink { of } if !leaders.contains(of) => {
                skipped.push(Skipped {
                    path: found.entry.path.clone(),
                    why: Why::Unreadable(format!(
                        "{}, a hard link to the same file, cannot be read either",
                        of.display()
                    )),
                });
                false
            }
            _ => true,
        });
    }

    /// Drops the files that could not be read, and sorts the list of excluded paths.
    pub(super) fn finish(&mut self) {
        self.found.retain(|found| found.state != State::Unread);
        self.drop_orphaned_links();
        self.skipped
            .sort_by(|left, right| order(&left.path, &right.path));
        self.skipped.dedup_by(|left, right| left.path == right.path);
    }

    pub(super) fn find(&self, path: &Path) -> Option<&Found> {
        let found = self
            .found
            .binary_search_by(|found| order(&found.entry.path, path));
        found.ok().map(|at| &self.found[at])
    }

    /// Rejects a plan that a restore could not execute. The entries of the index were checked when
    /// they were written.
    pub(super) fn check(&self) -> Result<(), Broken> {
        let is_file = |path: &Path| {
            let leader = self.find(path).map(|found| &found.entry.kind);
            matches!(leader, Some(Kind::File { .. }))
        };
        let mut found = self.found.iter();
        found.try_for_each(|found| check_entry(&found.entry, is_file))
    }
}

impl Found {
    pub(super) fn is_trusted(&self) -> bool {
        self.state == State::Trusted
    }

    fn apply(&mut self, stored: StoredFile) {
        self.entry.mode = stored.facts.mode;
        self.entry.modified = stored.facts.modified;
        self.entry.attributes = stored.attributes;
        self.entry.kind = Kind::File {
            size: stored.facts.size,
            content: stored.content,
            unstable: stored.unstable,
        };
        self.facts = stored.facts;
        self.state = if stored.trusted {
            State::Trusted
        } else {
            State::Recent
        };
    }
}

/// The nearest parent folder whose path is not too long.
fn short(path: &Path) -> Option<PathBuf> {
    let mut above = path
        .ancestors()
        .filter(|above| !above.as_os_str().is_empty());
    above
        .find(|above| bytes(above).len() <= PATH)
        .map(Path::to_owned)
}

pub(super) fn entry(path: PathBuf, facts: &Facts, kind: Kind) -> Entry {
    Entry {
        path,
        mode: facts.mode,
        modified: facts.modified,
        attributes: Vec::new(),
        kind,
    }
}
