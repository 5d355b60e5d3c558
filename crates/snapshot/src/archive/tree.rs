//! Turns members in any order into a manifest: sorts them, adds implied folders, and makes the
//! first name of each file the target of its hard links.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::archive::members::refuse;
use crate::archive::{Limits, MemoryBudget};
use crate::chunk::WHOLE;
use crate::entry::{Entry, FileTime, Kind, Skipped};
use crate::error::Error;
use crate::manifest::{Manifest, bytes, order};

/// The mode of folders that the archive does not contain.
const USUAL: u32 = 0o755;

/// The entries found in an archive so far.
pub(super) struct Tree {
    budget: MemoryBudget,
    root: Option<Entry>,
    /// In the order of the archive, then sorted.
    found: Vec<(u64, Entry)>,
}

impl Tree {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            budget: MemoryBudget::new(limits),
            root: None,
            found: Vec::new(),
        }
    }

    /// Takes the chunks of a file of this size from the budget.
    pub(super) fn reserve_chunks(&mut self, size: u64) -> Result<(), Error> {
        let pieces = usize::try_from(size / WHOLE).unwrap_or(usize::MAX);
        self.budget.spend(pieces.saturating_mul(4 * 40))
    }

    pub(super) fn add(&mut self, entry: Entry) -> Result<(), Error> {
        self.budget.spend(cost(&entry))?;
        if !entry.path.as_os_str().is_empty() {
            let number = self.found.len() as u64;
            self.budget.check_entries(number + 1)?;
            self.found.push((number, entry));
            return Ok(());
        }
        let refused = |reason: &str| Err(refuse(b".", reason));
        if entry.kind != Kind::Folder {
            return refused("the root is not a folder");
        }
        if self.root.replace(entry).is_some() {
            return refused("it occurs twice");
        }
        Ok(())
    }

    /// The manifest, if everything in it can be restored.
    pub(super) fn finish(mut self, skipped: Vec<Skipped>) -> Result<Manifest, Error> {
        self.sort()?;
        self.add_implied_folders()?;
        self.resolve_hard_links()?;
        let newest = self.found.iter().map(|(_, entry)| entry.modified).max();
        let root = self.root.unwrap_or_else(|| Entry {
            path: PathBuf::new(),
            mode: USUAL,
            modified: newest.unwrap_or_default(),
            attributes: Vec::new(),
            kind: Kind::Folder,
        });
        let entries = self.found.into_iter().map(|(_, entry)| entry);
        Ok(Manifest {
            root,
            entries: entries.collect(),
            skipped,
        })
    }

    fn sort(&mut self) -> Result<(), Error> {
        self.found
            .sort_by(|(_, left), (_, right)| order(&left.path, &right.path));
        let twice = self
            .found
            .windows(2)
            .find(|pair| pair[0].1.path == pair[1].1.path);
        match twice {
            Some(pair) => Err(refuse(bytes(&pair[0].1.path), "it occurs twice")),
            None => Ok(()),
        }
    }

    /// Adds folders that the archive does not contain but that contain other entries.
    fn add_implied_folders(&mut self) -> Result<(), Error> {
        let implied_folders = implied_folders(&self.found, &mut self.budget)?;
        if implied_folders.is_empty() {
            return Ok(());
        }
        let folders = implied_folders.into_iter().map(|(path, modified)| Entry {
            path,
            mode: USUAL,
            modified,
            attributes: Vec::new(),
            kind: Kind::Folder,
        });
        self.found.extend(folders.map(|folder| (u64::MAX, folder)));
        self.sort()
    }

    /// The first name of a file, in the order of manifests, gets its content; other names become
    /// hard links to it.
    fn resolve_hard_links(&mut self) -> Result<(), Error> {
        let mut first: HashMap<usize, usize> = HashMap::new();
        let mut names: Vec<(usize, usize)> = Vec::new();
        for at in 0..self.found.len() {
            if matches!(self.found[at].1.kind, Kind::HardLink { .. }) {
                let file = self.file_of(at)?;
                let leader = first.entry(file).or_insert(file);
                *leader = at.min(*leader);
                names.push((at, file));
            }
        }
        for (&file, &leader) in &first {
            if leader != file {
                let kind = std::mem::replace(&mut self.found[file].1.kind, Kind::Folder);
                self.found[leader].1.kind = kind;
                let attributes = std::mem::take(&mut self.found[file].1.attributes);
                self.found[leader].1.attributes = attributes;
                names.push((file, file));
            }
        }
        for (at, file) in names {
            let leader = first[&file];
            if at != leader {
                let of = self.found[leader].1.path.clone();
                self.found[at].1.kind = Kind::HardLink { of };
            }
        }
        Ok(())
    }

    /// The file of a hard link, followed through other hard links that precede it.
    fn file_of(&self, twin: usize) -> Result<usize, Error> {
        let mut at = twin;
        loop {
            let (number, entry) = &self.found[at];
            let Kind::HardLink { of } = &entry.kind else {
                return Ok(at);
            };
            let refused = |what: &str| {
                let name = bytes(&self.found[twin].1.path);
                let reason = format!("it is a hard link to `{}`, {what}", of.display());
                Err(refuse(name, reason))
            };
            let Some(next) = find(&self.found, of) else {
                return refused("which is not in the archive");
            };
            let (earlier, there) = &self.found[next];
            if !matches!(there.kind, Kind::File { .. } | Kind::HardLink { .. }) {
                return refused("which is not a file");
            }
            if earlier >= number {
                return refused("which does not come before it");
            }
            at = next;
        }
    }
}

/// The position of a path in the sorted entries.
fn find(found: &[(u64, Entry)], path: &Path) -> Option<usize> {
    found
        .binary_search_by(|(_, entry)| order(&entry.path, path))
        .ok()
}

/// The folders that the archive does not contain. Refuses entries that lie in something that is not
/// a folder.
fn implied_folders(
    found: &[(u64, Entry)],
    budget: &mut MemoryBudget,
) -> Result<Vec<(PathBuf, FileTime)>, Error> {
    let mut implied_folders = Vec::new();
    let mut open: Vec<PathBuf> = Vec::new();
    for (_, entry) in found {
        let holds = |folder: &PathBuf| entry.path.starts_with(folder);
        while open.last().is_some_and(|folder| !holds(folder)) {
            open.pop();
        }
        let known = open.last().map_or(0, |folder| folder.components().count());
        let mut above: Vec<&Path> = entry.path.ancestors().skip(1).collect();
        above.pop();
        for folder in above.into_iter().rev().skip(known) {
            // A folder in the archive stands right before its content, and is open.
            if find(found, folder).is_some() {
                let reason = format!("it is inside `{}`, which is not a folder", folder.display());
                return Err(refuse(bytes(&entry.path), reason));
            }
            budget.spend(160 + 2 * bytes(folder).len())?;
            implied_folders.push((folder.to_owned(), entry.modified));
            open.push(folder.to_owned());
        }
        if entry.kind == Kind::Folder {
            open.push(entry.path.clone());
        }
    }
    Ok(implied_folders)
}

/// The approximate memory of an entry: as it is, and once more when it is encoded. A file includes
/// its first chunk, which the store has to look up.
fn cost(entry: &Entry) -> usize {
    let name = bytes(&entry.path).len();
    let (facts, more) = match &entry.kind {
        Kind::Folder => (160, 0),
        Kind::File { .. } => (280, 0),
        Kind::Link { target: path } | Kind::HardLink { of: path } => (160, bytes(path).len()),
    };
    let attributes = entry.attributes.iter();
    let attributes: usize = attributes
        .map(|(name, value)| 32 + name.len() + value.len())
        .sum();
    facts + 2 * (name + more + attributes)
}
