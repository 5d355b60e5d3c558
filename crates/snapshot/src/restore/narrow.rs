//! Where a snapshot of the target was taken a moment ago, only what differs from that is planned.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::beneath::{self, Facts};
use crate::entry::{Entry, Why};
use crate::error::Error;
use crate::manifest::{Manifest, order_of, path, read_facts};
use crate::restore::Target;
use crate::restore::plan::{Presence, There};
use crate::scroll::{Scroll, Sort};
use crate::wire::{Broken, Reader};

/// What is left to do where the rest is as it should be.
pub(super) struct Narrow {
    /// What differs of the snapshot, and the folders that it lies in.
    pub(super) manifest: Manifest,
    /// What is in the target and not in the snapshot.
    extra: Vec<PathBuf>,
    /// How many files are as they should be.
    pub(super) same: u64,
    /// How long all files of the snapshot are.
    pub(super) bytes: u64,
}

/// What differs between the snapshot that is wanted and the one that was just taken. None if that
/// does not say enough: names of one file belong together wherever they are, and of what was left
/// out nothing is known.
pub(super) fn narrow(wanted: &[u8], seen: &[u8]) -> Result<Option<Narrow>, Broken> {
    let (root, wanted) = Scroll::open(wanted)?;
    let mut sides = Sides {
        wanted,
        seen: Scroll::open(seen)?.1,
        at: (true, true),
    };
    let mut narrow = Narrow {
        manifest: Manifest {
            root,
            entries: Vec::new(),
            skipped: Vec::new(),
        },
        extra: Vec::new(),
        same: 0,
        bytes: 0,
    };
    let mut above = Above::default();
    let mut step = sides.next(Ordering::Equal)?;
    while let Some(side) = step {
        if side == Ordering::Greater {
            if sides.seen.sort == Sort::Twin {
                return Ok(None);
            }
            above.add_to(&mut narrow.manifest.entries, &sides.seen.path)?;
            narrow.extra.push(path(&sides.seen.path));
            step = sides.next(side)?;
            continue;
        }
        let Scroll {
            path, sort, size, ..
        } = &sides.wanted;
        if *sort == Sort::Twin {
            return Ok(None);
        }
        narrow.bytes = narrow.bytes.saturating_add(*size);
        let same = side == Ordering::Equal && sides.wanted.said() == sides.seen.said();
        if same {
            narrow.same += u64::from(*sort != Sort::Folder);
        } else {
            above.add_to(&mut narrow.manifest.entries, path)?;
            let entry = read_facts(&mut Reader(sides.wanted.said()), self::path(path))?;
            narrow.manifest.entries.push(entry);
        }
        if *sort == Sort::Folder {
            above.open(path, sides.wanted.said(), same);
        }
        step = sides.next(side)?;
    }
    narrow.manifest.skipped = sides.wanted.skipped()?;
    let left_out = sides.seen.skipped()?;
    let left_out: HashSet<&Path> = left_out.iter().map(|left| &*left.path).collect();
    let mut wanted = narrow.manifest.entries.iter();
    if wanted.any(|entry| left_out.contains(&*entry.path)) {
        return Ok(None);
    }
    narrow.manifest.check()?;
    Ok(Some(narrow))
}

/// Two manifests, gone through side by side.
struct Sides<'a> {
    wanted: Scroll<'a>,
    seen: Scroll<'a>,
    /// Whether each is at an entry.
    at: (bool, bool),
}

impl Sides<'_> {
    /// Goes on after what came first, or was on both sides. Says on which side the next is; none if
    /// there is none.
    fn next(&mut self, side: Ordering) -> Result<Option<Ordering>, Broken> {
        match side {
            Ordering::Equal => {
                self.at.0 = self.wanted.next()?;
                // Nearly everything is the same on both sides: then it is compared and not read.
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

    /// Others may have written the manifest that is wanted: what follows `last` must be in order.
    fn check_order(&self, last: &[u8]) -> Result<(), Broken> {
        let follows = last.is_empty() || order_of(last, &self.wanted.path) == Ordering::Less;
        if self.at.0 && !follows {
            return Err(Broken(
                "its entries are not in order, or one is there twice",
            ));
        }
        Ok(())
    }
}

/// The folders that are wanted above the entry, and whether each is planned already.
#[derive(Default)]
struct Above<'a>(Vec<(Vec<u8>, &'a [u8], bool)>);

impl<'a> Above<'a> {
    fn open(&mut self, path: &[u8], said: &'a [u8], is_same: bool) {
        self.close(path);
        self.0.push((path.to_vec(), said, !is_same));
    }

    /// Leaves the folders that `path` does not lie in.
    fn close(&mut self, path: &[u8]) {
        let holds = |folder: &[u8]| {
            let rest = path.strip_prefix(folder);
            rest.is_some_and(|rest| rest.starts_with(b"/"))
        };
        while self.0.last().is_some_and(|(folder, ..)| !holds(folder)) {
            self.0.pop();
        }
    }

    /// Plans the folders that `path` lies in.
    fn add_to(&mut self, entries: &mut Vec<Entry>, path: &[u8]) -> Result<(), Broken> {
        self.close(path);
        for (folder, said, is_planned) in &mut self.0 {
            if !std::mem::replace(is_planned, true) {
                entries.push(read_facts(&mut Reader(said), self::path(folder))?);
            }
        }
        Ok(())
    }
}

impl Narrow {
    /// What is in the target at the places that matter.
    pub(super) fn look(&self, target: &Target<'_>) -> Result<HashMap<PathBuf, There>, Error> {
        let wanted = self.manifest.entries.iter().map(|entry| &entry.path);
        let mut there = HashMap::new();
        for path in wanted.chain(&self.extra) {
            let found = at(target, path).map_err(target.trouble(path))?;
            there.extend(found.map(|found| (path.clone(), found)));
        }
        Ok(there)
    }
}

/// What is in the target at a path.
fn at(target: &Target<'_>, path: &Path) -> rustix::io::Result<Option<There>> {
    let look = || {
        let (folder, name) = beneath::parent(target.fd(), path)?;
        let facts = Facts::at(&folder, name)?;
        let what = match () {
            () if facts.is_folder() => Presence::Folder,
            () if facts.is_file() => Presence::File(None),
            () if facts.is_link() => Presence::Link(beneath::read_link(&folder, name)?.into()),
            () => Presence::Left(Why::Special("thing of another kind".into())),
        };
        Ok(There { facts, what })
    };
    match look() {
        Ok(there) => Ok(Some(there)),
        // Something on the way is not a folder: then it is what differs.
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

    /// A manifest of these files, and of the folders that they are in.
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
        fn what_is_left_to_do_is_what_differs(wanted in files(), seen in files()) {
            let narrow = narrow(&tree(&wanted), &tree(&seen)).unwrap().unwrap();
            let planned = narrow.manifest.entries.iter();
            let planned = planned.filter(|entry| entry.kind != Kind::Folder);
            let planned: HashSet<&str> = planned.map(|entry| entry.path.to_str().unwrap()).collect();
            let differs = |path: &&String| seen.get(*path) != wanted.get(*path);
            let differing = wanted.keys().filter(differs);
            prop_assert_eq!(&planned, &differing.map(String::as_str).collect::<HashSet<_>>());
            prop_assert_eq!(narrow.same, (wanted.len() - planned.len()) as u64);
            prop_assert_eq!(narrow.bytes, wanted.len() as u64);
            let folders = |files: &BTreeMap<String, u8>| {
                let folders = files.keys().filter_map(|path| Some(path.split_once('/')?.0.to_owned()));
                folders.chain(files.keys().cloned()).collect::<HashSet<String>>()
            };
            let (wanted, seen) = (folders(&wanted), folders(&seen));
            let extra = narrow.extra.iter().map(|path| path.to_str().unwrap().to_owned());
            let only_seen: HashSet<String> = seen.difference(&wanted).cloned().collect();
            prop_assert_eq!(extra.collect::<HashSet<String>>(), only_seen);
        }
    }

    #[test]
    fn a_manifest_that_is_not_in_order_is_refused_wherever_the_other_ends() {
        let out_of_order = [["b", "a"], ["b", "b"]];
        for names in out_of_order {
            let wanted = manifest(names.map(|name| file(name, 0)).to_vec());
            for seen in [&["b"][..], &["a"], &[], &["b", "c"]] {
                let seen = manifest(seen.iter().map(|name| file(name, 0)).collect());
                assert!(narrow(&wanted, &seen).is_err(), "{names:?}");
            }
        }
    }
}
