//! A folder that is as the index knows it: its names need no listing, and what is in it no node.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use crate::beneath::{self, Facts};
use crate::entry::{Chunk, Why};
use crate::read;
use crate::scroll::Sort;
use crate::walk::{Folder, Node, Shared, Waiting, What, waiting};

impl Shared<'_> {
    /// Looks whether a folder is as the index knows it: then its names are known, and most of what
    /// it has in it needs no node. None if anything differs.
    pub(super) fn glance(
        &self,
        next: &Waiting,
        buffer: &mut Vec<u8>,
    ) -> Option<(Folder, Vec<Waiting>)> {
        let index = self.walk.index;
        let line = next.line.filter(|_| self.walk.glances)?;
        let left = index.left_in(line)?;
        if !index.is_same(line, &next.facts) {
            return None;
        }
        let children = || index.children(line);
        let name = |number| OsStr::from_bytes(index.name(number));
        let left_names = left.iter().map(OsString::as_os_str);
        let mut names: Vec<&OsStr> = children().map(name).chain(left_names).collect();
        let trusted = self.trusts_stamps && next.facts.device == self.device;
        if !trusted || self.walk.lot.has(next.facts.inode) {
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
        if self.ruled(&next.path, &names).is_some() {
            return None;
        }
        let fd = beneath::way(self.walk.root.as_fd(), &next.path).ok()?;
        let (mut nodes, mut inside) = (Vec::new(), Vec::new());
        for number in children() {
            let name = name(number);
            let facts = Facts::at(&fd, name).ok()?;
            if self.left_out(&next.path, name, &facts).is_some() {
                return None;
            }
            if index.sort(number) == Sort::Folder {
                if !facts.is_folder() {
                    return None;
                }
                let node = Node {
                    name: name.to_owned(),
                    facts: Some(facts),
                    what: What::Folder(self.next.fetch_add(1, Ordering::SeqCst)),
                };
                inside.extend(waiting(&next.path, &node, || Some(number)));
                nodes.push(node);
            } else if !self.is_same(next, number, &facts) {
                return None;
            }
        }
        for name in left {
            let facts = Facts::at(&fd, name).ok()?;
            let why = self
                .left_out(&next.path, name, &facts)
                .or_else(|| self.left_for_what_it_holds(&next.path.join(name), &facts, buffer));
            nodes.push(Node {
                name: name.clone(),
                what: What::Left(why?),
                facts: Some(facts),
            });
        }
        inside.reverse();
        let folder = Folder {
            known: Some(line),
            nodes,
            ..Folder::default()
        };
        Some((folder, inside))
    }

    fn left_for_what_it_holds(
        &self,
        path: &Path,
        facts: &Facts,
        buffer: &mut Vec<u8>,
    ) -> Option<Why> {
        let (_, names) = facts.is_folder().then(|| self.list(path, buffer).ok())??;
        let names: Vec<&OsStr> = names.iter().map(OsString::as_os_str).collect();
        self.ruled(path, &names).map(Why::Rule)
    }

    /// Whether a file or link is as the index knows it. A file with several names belongs to all
    /// that have one: those are looked at together.
    fn is_same(&self, folder: &Waiting, number: u32, facts: &Facts) -> bool {
        let index = self.walk.index;
        let alone = !facts.is_file() || facts.links == 1;
        alone && index.is_same(number, facts) && {
            let name = OsStr::from_bytes(index.name(number));
            let memory = || index.memory(number).map(|memory| memory.content);
            !facts.is_file() || self.is_still(&folder.path, name, facts, memory)
        }
    }

    /// Whether a file has the content that the index says, if it is drawn by lot.
    pub(super) fn is_still(
        &self,
        folder: &Path,
        name: &OsStr,
        facts: &Facts,
        content: impl FnOnce() -> Option<Vec<Chunk>>,
    ) -> bool {
        if !self.walk.lot.doubts(facts) {
            return true;
        }
        let path = folder.join(name);
        content().is_some_and(|content| read::is_still(self.walk.root, &path, &content))
    }
}
