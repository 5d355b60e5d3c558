//! The fast path for an unchanged folder: it need not be listed, and its files need no nodes.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use crate::entry::{Chunk, EntryType, Why};
use crate::openat::{self, Facts};
use crate::read;
use crate::walk::{Folder, Node, QueuedFolder, Shared, What, queued};

impl Shared<'_> {
    /// Checks whether a folder is as the index knows it. Then its names are known, and most of its
    /// content needs no node. `None` if anything differs.
    pub(super) fn check_unchanged(
        &self,
        next: &QueuedFolder,
        buffer: &mut Vec<u8>,
    ) -> Option<(Folder, Vec<QueuedFolder>)> {
        let index = self.walk.index;
        let index_number = next.index_number.filter(|_| self.walk.skip_unchanged)?;
        let excluded = index.excluded_in(index_number)?;
        if !index.is_same(index_number, &next.facts) {
            return None;
        }
        let children = || index.children(index_number);
        let name = |number| OsStr::from_bytes(index.name(number));
        let excluded_names = excluded.iter().map(OsString::as_os_str);
        let mut names: Vec<&OsStr> = children().map(name).chain(excluded_names).collect();
        let trusted = self.trusts_stamps && next.facts.device == self.device;
        if !trusted || self.walk.recheck.contains(next.facts.inode) {
            names.sort_unstable();
            let (_, found) = self.list(&next.path, buffer).ok()?;
            if !found
                .iter()
                .map(OsString::as_os_str)
                .eq(names.iter().copied())
            {
                return None;
            }
        }
        if self.excluded_for_content(&next.path, &names).is_some() {
            return None;
        }
        let fd = openat::folder_for_lookup(self.walk.root.as_fd(), &next.path).ok()?;
        let (mut nodes, mut inside) = (Vec::new(), Vec::new());
        for number in children() {
            let name = name(number);
            let facts = Facts::at(&fd, name).ok()?;
            if self.excluded(&next.path, name, &facts).is_some() {
                return None;
            }
            if index.entry_type(number) == EntryType::Folder {
                if !facts.is_folder() {
                    return None;
                }
                let node = Node {
                    name: name.to_owned(),
                    facts: Some(facts),
                    what: What::Folder(self.next.fetch_add(1, Ordering::SeqCst)),
                };
                inside.extend(queued(&next.path, &node, || Some(number)));
                nodes.push(node);
            } else if !self.is_same(next, number, &facts) {
                return None;
            }
        }
        for name in excluded {
            let facts = Facts::at(&fd, name).ok()?;
            let why = self
                .excluded(&next.path, name, &facts)
                .or_else(|| self.content_rule(&next.path.join(name), &facts, buffer));
            nodes.push(Node {
                name: name.clone(),
                what: What::Excluded(why?),
                facts: Some(facts),
            });
        }
        inside.reverse();
        let folder = Folder {
            known: Some(index_number),
            nodes,
            ..Folder::default()
        };
        Some((folder, inside))
    }

    fn content_rule(&self, path: &Path, facts: &Facts, buffer: &mut Vec<u8>) -> Option<Why> {
        let (_, names) = facts.is_folder().then(|| self.list(path, buffer).ok())??;
        let names: Vec<&OsStr> = names.iter().map(OsString::as_os_str).collect();
        self.excluded_for_content(path, &names).map(Why::Rule)
    }

    /// Whether a file or link is unchanged. Hard links of one file are compared together,
    /// elsewhere.
    fn is_same(&self, folder: &QueuedFolder, number: u32, facts: &Facts) -> bool {
        let index = self.walk.index;
        let alone = !facts.is_file() || facts.links == 1;
        alone && index.is_same(number, facts) && {
            let name = OsStr::from_bytes(index.name(number));
            let known = || index.known_file(number).map(|known| known.content);
            !facts.is_file() || self.has_same_content(&folder.path, name, facts, known)
        }
    }

    /// Whether a file still has the content that the index says; only checked if it is in the
    /// sample.
    pub(super) fn has_same_content(
        &self,
        folder: &Path,
        name: &OsStr,
        facts: &Facts,
        content: impl FnOnce() -> Option<Vec<Chunk>>,
    ) -> bool {
        if !self.walk.recheck.selects(facts) {
            return true;
        }
        let path = folder.join(name);
        content().is_some_and(|content| read::has_same_content(self.walk.root, &path, &content))
    }
}
