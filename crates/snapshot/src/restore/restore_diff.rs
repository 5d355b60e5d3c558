//! Plans a restore from the difference to a snapshot of the target that was just taken.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::entry::{Entry, EntryType, Why};
use crate::error::Error;
use crate::manifest::{Manifest, order_of, path, read_facts};
use crate::manifest_cursor::ManifestCursor;
use crate::openat::{self, Facts};
use crate::restore::Target;
use crate::restore::plan::{Existing, Presence};
use crate::wire::{Broken, Reader};

/// What the restore has to do; everything else in the target is already as it should be.
pub(super) struct RestoreDiff {
    /// The differing entries of the snapshot, and the folders that contain them.
    pub(super) manifest: Manifest,
    /// Paths that are in the target and not in the snapshot.
    extra: Vec<PathBuf>,
    /// The number of files that are already as they should be.
    pub(super) same: u64,
    /// The total size of all files of the snapshot.
    pub(super) bytes: u64,
}

/// The difference between the wanted snapshot and the one that was just taken. `None` if that does
/// not suffice: hard links of one file belong together wherever they are, and nothing is known
/// about excluded paths.
pub(super) fn diff(wanted: &[u8], seen: &[u8]) -> Result<Option<RestoreDiff>, Broken> {
    let (root, wanted) = ManifestCursor::open(wanted)?;
    let mut sides = ManifestPair {
        wanted,
        seen: ManifestCursor::open(seen)?.1,
        at: (true, true),
    };
    let mut result = RestoreDiff {
        manifest: Manifest {
            root,
            entries: Vec::new(),
            skipped: Vec::new(),
        },
        extra: Vec::new(),
        same: 0,
        bytes: 0,
    };
    let mut above = FolderStack::default();
    let mut step = sides.next(Ordering::Equal)?;
    while let Some(side) = step {
        if side == Ordering::Greater {
            if sides.seen.entry_type == EntryType::HardLink {
                return Ok(None);
            }
            above.add_to(&mut result.manifest.entries, &sides.seen.path)?;
            result.extra.push(path(&sides.seen.path));
            step = sides.next(side)?;
            continue;
        }
        let ManifestCursor {
            path,
            entry_type,
            size,
            ..
        } = &sides.wanted;
        if *entry_type == EntryType::HardLink {
            return Ok(None);
        }
        result.bytes = result.bytes.saturating_add(*size);
        let same = side == Ordering::Equal && sides.wanted.encoded() == sides.seen.encoded();
        if same {
            result.same += u64::from(*entry_type != EntryType::Folder);
        } else {
            above.add_to(&mut result.manifest.entries, path)?;
            let entry = read_facts(&mut Reader(sides.wanted.encoded()), self::path(path))?;
            result.manifest.entries.push(entry);
        }
        if *entry_type == EntryType::Folder {
            above.open(path, sides.wanted.encoded(), same);
        }
        step = sides.next(side)?;
    }
    result.manifest.skipped = sides.wanted.skipped()?;
    let excluded = sides.seen.skipped()?;
    let excluded: HashSet<&Path> = excluded.iter().map(|left| &*left.path).collect();
    let mut wanted = result.manifest.entries.iter();
    if wanted.any(|entry| excluded.contains(&*entry.path)) {
        return Ok(None);
    }
    result.manifest.check()?;
    Ok(Some(result))
}

/// Two manifests, read side by side.
struct ManifestPair<'a> {
    wanted: ManifestCursor<'a>,
    seen: ManifestCursor<'a>,
    /// Whether each is at an entry.
    at: (bool, bool),
}

impl ManifestPair<'_> {
    /// Advances past the entry that came first, or past both if they were equal. Returns the side
    /// of the next entry; `None` at the end of both.
    fn next(&mut self, side: Ordering) -> Result<Option<Ordering>, Broken> {
        match side {
            Ordering::Equal => {
                self.at.0 = self.wanted.next()?;
                // Nearly everything is the same on both sides: such entries are compared and not
                // parsed.
                if self.at.0 && self.seen.next_is(&self.wanted) {
                    return Ok(Some(Ordering::Equal));
                }
                self.check_order(&self.seen.path)?;
                self.at.1 = self.seen.next()?;
            }
            Ordering::Less => {
                let last = self.wanted.path.clone();
                self.at.0 = self.wanted.next()?;
                self.check_order(&last)?;
            }
            Ordering::Greater => self.at.1 = self.seen.next()?,
        }
        Ok(match self.at {
            (true, true) => Some(order_of(&self.wanted.path, &self.seen.path)),
            (true, false) => Some(Ordering::Less),
            (false, true) => Some(Ordering::Greater),
            (false, false) => None,
        })
    }

    /// The wanted manifest may come from elsewhere: checks that the entry after `last` is in order.
    fn check_order(&self, last: &[u8]) -> Result<(), Broken> {
        let follows = last.is_empty() || order_of(last, &self.wanted.path) == Ordering::Less;
        if self.at.0 && !follows {
            return Err(Broken("its entries are unordered or duplicate"));
        }
        Ok(())
    }
}

/// The wanted folders above the current entry, and whether each is planned already.
#[derive(Default)]
struct FolderStack<'a>(Vec<(Vec<u8>, &'a [u8], bool)>);

impl<'a> FolderStack<'a> {
    fn open(&mut self, path: &[u8], encoded: &'a [u8], is_same: bool) {
        self.close(path);
        self.0.push((path.to_vec(), encoded, !is_same));
    }

    /// Leaves the folders that do not contain `path`.
    fn close(&mut self, path: &[u8]) {
        let holds = |folder: &[u8]| {
            let rest = path.strip_prefix(folder);
            rest.is_some_and(|rest| rest.starts_with(b"/"))
        };
        while self.0.last().is_some_and(|(folder, ..)| !holds(folder)) {
            self.0.pop();
        }
    }

    /// Plans the folders that contain `path`.
    fn add_to(&mut self, entries: &mut Vec<Entry>, path: &[u8]) -> Result<(), Broken> {
        self.close(path);
        for (folder, encoded, is_planned) in &mut self.0 {
            if !std::mem::replace(is_planned, true) {
                entries.push(read_facts(&mut Reader(encoded), self::path(folder))?);
            }
        }
        Ok(())
    }
}

impl RestoreDiff {
    /// What is in the target at the paths that matter.
    pub(super) fn existing(
        &self,
        target: &Target<'_>,
    ) -> Result<HashMap<PathBuf, Existing>, Error> {
        let wanted = self.manifest.entries.iter().map(|entry| &entry.path);
        let mut existing = HashMap::new();
        for path in wanted.chain(&self.extra) {
            let found = existing_at(target, path).map_err(target.error_at(path))?;
            existing.extend(found.map(|found| (path.clone(), found)));
        }
        Ok(existing)
    }
}

/// What is in the target at a path.
fn existing_at(target: &Target<'_>, path: &Path) -> rustix::io::Result<Option<Existing>> {
    let read = || {
        let (folder, name) = openat::parent(target.fd(), path)?;
        let facts = Facts::at(&folder, name)?;
        let what = match () {
            () if facts.is_folder() => Presence::Folder,
            () if facts.is_file() => Presence::File(None),
            () if facts.is_link() => Presence::Link(openat::read_link(&folder, name)?.into()),
            () => Presence::Excluded(Why::Special("file of a special type".into())),
        };
        Ok(Existing { facts, what })
    };
    match read() {
        Ok(existing) => Ok(Some(existing)),
        // Part of the path is not a folder: then that part is what differs.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::entry::{Chunk, Kind};
    use crate::manifest::order;

    fn file(path: &str, version: u8) -> Entry {
        let content = vec![Chunk::of(&[version])];
        let (size, unstable) = (1, false);
        Entry::plain(
            path,
            Kind::File {
                size,
                content,
                unstable,
            },
        )
    }

    fn manifest(entries: Vec<Entry>) -> Vec<u8> {
        let whole = Manifest {
            root: Entry::plain("", Kind::Folder),
            entries,
            skipped: Vec::new(),
        };
        whole.encode()
    }

    /// A manifest of these files and of the folders that contain them.
    fn tree(files: &BTreeMap<String, u8>) -> Vec<u8> {
        let mut entries: Vec<Entry> = Vec::new();
        let folders = files.keys().filter_map(|path| path.split_once('/'));
        let folders: HashSet<&str> = folders.map(|(folder, _)| folder).collect();
        entries.extend(
            folders
                .into_iter()
                .map(|path| Entry::plain(path, Kind::Folder)),
        );
        entries.extend(files.iter().map(|(path, version)| file(path, *version)));
        entries.sort_by(|left, right| order(&left.path, &right.path));
        manifest(entries)
    }

    fn files() -> impl Strategy<Value = BTreeMap<String, u8>> {
        let path = prop_oneof!["[a-c]", "[d-f]/[a-c]{1,2}"];
        proptest::collection::btree_map(path, 0..2_u8, 0..12)
    }

    proptest! {
        #[test]
        fn restore_diff_contains_exactly_the_differences(wanted in files(), seen in files()) {
            let result = diff(&tree(&wanted), &tree(&seen)).unwrap().unwrap();
            let planned = result.manifest.entries.iter();
            let planned = planned.filter(|entry| entry.kind != Kind::Folder);
            let planned: HashSet<&str> = planned.map(|entry| entry.path.to_str().unwrap()).collect();
            let differs = |path: &&String| seen.get(*path) != wanted.get(*path);
            let differing = wanted.keys().filter(differs);
            prop_assert_eq!(&planned, &differing.map(String::as_str).collect::<HashSet<_>>());
            prop_assert_eq!(result.same, (wanted.len() - planned.len()) as u64);
            prop_assert_eq!(result.bytes, wanted.len() as u64);
            let folders = |files: &BTreeMap<String, u8>| {
                let folders = files.keys().filter_map(|path| Some(path.split_once('/')?.0.to_owned()));
                folders.chain(files.keys().cloned()).collect::<HashSet<String>>()
            };
            let (wanted, seen) = (folders(&wanted), folders(&seen));
            let extra = result.extra.iter().map(|path| path.to_str().unwrap().to_owned());
            let only_seen: HashSet<String> = seen.difference(&wanted).cloned().collect();
            prop_assert_eq!(extra.collect::<HashSet<String>>(), only_seen);
        }
    }

    #[test]
    fn unordered_manifest_is_refused() {
        let out_of_order = [["b", "a"], ["b", "b"]];
        for names in out_of_order {
            let wanted = manifest(names.map(|name| file(name, 0)).to_vec());
            for seen in [&["b"][..], &["a"], &[], &["b", "c"]] {
                let seen = manifest(seen.iter().map(|name| file(name, 0)).collect());
                assert!(diff(&wanted, &seen).is_err(), "{names:?}");
            }
        }
    }
}
