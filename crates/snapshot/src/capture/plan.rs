//! What a capture has found: what is known of it, what has to be read, what stays out.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::beneath::Facts;
use crate::entry::{Entry, Kind, Skipped, Why};
use crate::index::{Index, ROOT};
use crate::machine;
use crate::manifest::{PATH, bytes, check_entry, order};
use crate::pack::Known;
use crate::read::{Kept, Reading, database_of};
use crate::walk::{Tree, What};
use crate::wire::Broken;

/// How many entries are worth a second thread.
const MANY: u32 = 10_000;

/// Something that was found: an entry, how it looked, and whether it has to be read.
pub(super) struct Found {
    pub(super) entry: Entry,
    pub(super) facts: Facts,
    pub(super) state: State,
    /// It may have other names.
    pub(super) leads: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// What is in the entry is what is in the file, and the file can be recognised later.
    Settled,
    /// The file is young: it has to be read again next time.
    Young,
    /// Its content is not known yet.
    Unread,
}

/// What was found in folders that are not as the index knows them, in the order of manifests; and
/// which entries of the index that replaces.
pub(super) struct Plan {
    pub(super) root: Entry,
    pub(super) found: Vec<Found>,
    pub(super) skipped: Vec<Skipped>,
    /// For each number of the index, whether what it says holds no longer.
    pub(super) stale: Vec<bool>,
}

impl Plan {
    pub(super) fn new(root: Entry, tree: &mut Tree, index: &Index) -> Self {
        let mut plan = Self {
            root,
            // As many as there may be: they are large, and are not copied as their number grows.
            found: Vec::with_capacity(tree.count()),
            skipped: Vec::new(),
            stale: vec![true; index.len()],
        };
        plan.gather(tree, 0, Path::new(""), index);
        plan.pair_twins();
        plan
    }

    /// Puts what was found in order: a folder, then all that is in it.
    fn gather(&mut self, tree: &mut Tree, number: usize, path: &Path, index: &Index) {
        let known = tree.folders[number].known;
        for child in known.into_iter().flat_map(|known| index.children(known)) {
            self.stale[child as usize] = false;
        }
        let mut section = index.section(known);
        for node in std::mem::take(&mut tree.folders[number].nodes) {
            let path = path.join(&node.name);
            let skip = |why| Skipped {
                path: path.clone(),
                why,
            };
            if bytes(&path).len() > PATH {
                // It could be opened step by step, and never be named.
                self.skipped.extend(short(&path).map(|path| Skipped {
                    path,
                    why: Why::Unreadable("a path in it is too long".into()),
                }));
                continue;
            }
            let (facts, what) = match (node.facts, node.what) {
                (_, What::Left(why)) => {
                    self.skipped.push(skip(why));
                    continue;
                }
                (None, _) => continue,
                (Some(facts), what) => (facts, what),
            };
            match what {
                What::Left(_) => {}
                What::Folder(inside) => {
                    let folder = &mut tree.folders[inside];
                    let gone = match folder.closed.take() {
                        // What is known is that there was a folder; it is kept without content.
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
                        self.push(entry, facts, State::Settled);
                    }
                    self.gather(tree, inside, &path, index);
                }
                What::Link(target) => {
                    let target = PathBuf::from(target);
                    self.push(
                        entry(path, &facts, Kind::Link { target }),
                        facts,
                        State::Settled,
                    );
                }
                What::File(memory) => {
                    let state = if memory.is_some() {
                        State::Settled
                    } else {
                        State::Unread
                    };
                    let (attributes, content) = memory.map_or_else(Default::default, |memory| {
                        (memory.attributes, memory.content)
                    });
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

    /// Names of one file: the first describes it, the others refer to that.
    fn pair_twins(&mut self) {
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
                    found.entry.kind = Kind::Twin {
                        of: leader.get().clone(),
                    };
                    found.entry.attributes.clear();
                    found.state = State::Settled;
                }
            }
        }
    }

    pub(super) fn push(&mut self, entry: Entry, facts: Facts, state: State) {
        let leads = facts.links > 1;
        self.found.push(Found {
            entry,
            facts,
            state,
            leads,
        });
    }

    /// Files whose content is not in the vault any more have to be read, whatever the index says.
    pub(super) fn forget_what_is_gone(&mut self, known: &Known) {
        for found in &mut self.found {
            let mut chunks = found.entry.content().iter();
            if !chunks.all(|chunk| known.has(&chunk.digest)) {
                found.state = State::Unread;
            }
        }
    }

    /// The numbers of the index that still hold, and whose content is not in the vault any more.
    pub(super) fn gone(&self, index: &Index, known: &Known) -> Vec<u32> {
        let is_gone = |number: &u32| {
            let holds = !self.stale[*number as usize];
            holds && !index.digests(*number).all(|digest| known.has(&digest))
        };
        let gone = |part: Range<u32>| move || part.filter(is_gone).collect::<Vec<u32>>();
        let (end, middle) = (index.end(), index.end().div_ceil(2));
        let (one, other) = (gone(ROOT + 1..middle), gone(middle..end));
        let (mut gone, later) = machine::both(end > MANY, one, other);
        gone.extend(later);
        gone
    }

    /// The logs of databases, by database. If one has to be read, so have all: they mean something
    /// only together.
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
        // A name can look like a log's and have one: it is read as a log.
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

    /// What has to be read.
    pub(super) fn unread(&self) -> Vec<usize> {
        let is_unread = |number: &usize| self.found[*number].state == State::Unread;
        (0..self.found.len()).filter(is_unread).collect()
    }

    /// Notes what became of a file.
    pub(super) fn note(&mut self, number: usize, reading: Reading) {
        let found = &mut self.found[number];
        match reading {
            Reading::Kept(kept) => found.keep(kept),
            Reading::Left(why) => {
                self.skipped.push(Skipped {
                    path: found.entry.path.clone(),
                    why,
                });
            }
        }
    }

    /// A name goes with the file that it is another name of.
    fn drop_lost_twins(&mut self) {
        let is_leader =
            |found: &&Found| found.leads && matches!(found.entry.kind, Kind::File { .. });
        let leaders = self.found.iter().filter(is_leader);
        let leaders: HashSet<PathBuf> = leaders.map(|found| found.entry.path.clone()).collect();
        let skipped = &mut self.skipped;
        self.found.retain(|found| match &found.entry.kind {
            Kind::Twin { of } if !leaders.contains(of) => {
                skipped.push(Skipped {
                    path: found.entry.path.clone(),
                    why: Why::Unreadable(format!("so is {}, the same file", of.display())),
                });
                false
            }
            _ => true,
        });
    }

    /// Drops what was left out, and sorts what is said about it.
    pub(super) fn finish(&mut self) {
        self.found.retain(|found| found.state != State::Unread);
        self.drop_lost_twins();
        self.skipped
            .sort_by(|left, right| order(&left.path, &right.path));
        self.skipped.dedup_by(|left, right| left.path == right.path);
    }

    /// What was found at `path`.
    pub(super) fn find(&self, path: &Path) -> Option<&Found> {
        let found = self
            .found
            .binary_search_by(|found| order(&found.entry.path, path));
        found.ok().map(|at| &self.found[at])
    }

    /// Refuses what a restore could not follow. What the index says was checked when it was kept.
    pub(super) fn check(&self) -> Result<(), Broken> {
        let leads = |path: &Path| {
            let leader = self.find(path).map(|found| &found.entry.kind);
            matches!(leader, Some(Kind::File { .. }))
        };
        let mut found = self.found.iter();
        found.try_for_each(|found| check_entry(&found.entry, leads))
    }
}

impl Found {
    pub(super) fn is_settled(&self) -> bool {
        self.state == State::Settled
    }

    fn keep(&mut self, kept: Kept) {
        self.entry.mode = kept.facts.mode;
        self.entry.modified = kept.facts.modified;
        self.entry.attributes = kept.attributes;
        self.entry.kind = Kind::File {
            size: kept.facts.size,
            content: kept.content,
            unstable: kept.unstable,
        };
        self.facts = kept.facts;
        self.state = if kept.settled {
            State::Settled
        } else {
            State::Young
        };
    }
}

/// The nearest folder above whose path is not too long.
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
