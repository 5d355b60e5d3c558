//! Walks a folder with several threads, without following links and without blocking.

mod guard;
mod unchanged;

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::entry::Why;
use crate::index::{FolderCursor, Index, KnownFile};
use crate::machine;
use crate::openat::{self, Facts};
use crate::own_folders::OwnFolders;
use crate::recheck::Recheck;
use crate::request::Reach;
use crate::scope::Scope;

pub(crate) use guard::guard;

/// The prefix of staging folders at the top of a restore target.
pub(crate) const STAGE: &str = ".segno-restore-";

/// Fewer entries than this are processed before a second thread would have started.
const FEW: usize = 500;

/// The parameters of a walk.
pub(crate) struct Walk<'a> {
    pub(crate) root: &'a OwnedFd,
    pub(crate) scope: &'a dyn Scope,
    pub(crate) index: &'a Index,
    pub(crate) reach: Reach,
    /// Segno's own folders, which are never entered.
    pub(crate) own: &'a OwnFolders,
    /// The file limit; once it is exceeded, folders that are not entered yet are excluded.
    pub(crate) files: u64,
    /// Whether the time budget is exhausted.
    pub(crate) is_late: &'a (dyn Fn() -> bool + Sync),
    /// Whether to skip folders that are as the index knows them.
    pub(crate) skip_unchanged: bool,
    /// Picks unchanged-looking files to re-hash.
    pub(crate) recheck: Recheck,
}

/// A directory entry.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: OsString,
    pub(crate) facts: Option<Facts>,
    pub(crate) what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    /// The position of the folder in [`Tree::folders`].
    Folder(usize),
    /// A file, and what the index knows about it if it has not changed.
    File(Option<KnownFile>),
    /// A symbolic link with its target.
    Link(OsString),
    /// Excluded.
    Excluded(Why),
}

/// The content of a folder, sorted by name.
#[derive(Debug, Default)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    /// Its number in the index, if it and all files and links in it are as the index knows them.
    /// Then its nodes are only folders and excluded entries.
    pub(crate) known: Option<u32>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) attributes: Vec<(OsString, Vec<u8>)>,
    /// Why it could not be listed; then its content is unknown.
    pub(crate) closed: Option<Why>,
}

/// The result of a walk. The first folder is the root.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) folders: Vec<Folder>,
}

impl Tree {
    /// Whether everything except the excluded entries is as the index knows it.
    pub(crate) fn is_known(&self) -> bool {
        let mut folders = self.folders.iter();
        folders.all(|folder| folder.known.is_some())
    }

    pub(crate) fn count(&self) -> usize {
        let folders = self.folders.iter();
        folders.map(|folder| folder.nodes.len()).sum()
    }

    /// Moves folders that are excluded because of their content to the excluded nodes of their
    /// parents.
    fn exclude_for_content(&mut self) {
        let excluded_for_content: Vec<Option<Why>> = self
            .folders
            .iter_mut()
            .map(|folder| folder.closed.take_if(|why| matches!(why, Why::Rule(_))))
            .collect();
        if excluded_for_content.iter().all(Option::is_none) {
            return;
        }
        for node in self.folders.iter_mut().flat_map(|folder| &mut folder.nodes) {
            if let What::Folder(number) = node.what
                && let Some(why) = &excluded_for_content[number]
            {
                node.what = What::Excluded(why.clone());
            }
        }
    }
}

/// A folder that is queued to be entered.
struct QueuedFolder {
    number: usize,
    path: PathBuf,
    facts: Facts,
    /// Its number in the index.
    index_number: Option<u32>,
}

struct Queue {
    folders: Vec<QueuedFolder>,
    busy: usize,
    /// The number of threads that wait for work.
    idle: usize,
}

struct Shared<'a> {
    walk: &'a Walk<'a>,
    device: u64,
    /// Whether a folder with the same stamp has the same names in it.
    trusts_stamps: bool,
    queue: Mutex<Queue>,
    changed: Condvar,
    next: AtomicUsize,
    files: AtomicU64,
}

impl Walk<'_> {
    pub(crate) fn run(&self) -> Result<Tree, Errno> {
        let facts = Facts::of(self.root)?;
        let shared = Shared {
            walk: self,
            device: facts.device,
            trusts_stamps: openat::stamps_folders(self.root),
            queue: Mutex::new(Queue {
                folders: vec![QueuedFolder {
                    number: 0,
                    path: PathBuf::new(),
                    facts,
                    index_number: self.index.find(Path::new("")),
                }],
                busy: 0,
                idle: 0,
            }),
            changed: Condvar::new(),
            next: AtomicUsize::new(1),
            files: AtomicU64::new(0),
        };
        let found = std::thread::scope(|scope| {
            let threads = match self.index.len() {
                1..FEW => 1,
                _ => machine::workers(),
            };
            let others: Vec<_> = (1..threads)
                .map(|_| scope.spawn(|| shared.work()))
                .collect();
            let mut found = shared.work();
            for other in others {
                // If a thread panicked, its part must not be silently missing.
                found.extend(other.join().expect("a walk does not panic"));
            }
            found
        });
        let mut tree = Tree::default();
        let count = shared.next.load(Ordering::SeqCst);
        tree.folders.resize_with(count, Folder::default);
        for (number, folder) in found {
            tree.folders[number] = folder;
        }
        tree.exclude_for_content();
        Ok(tree)
    }
}

impl Shared<'_> {
    fn queue(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) -> Vec<(usize, Folder)> {
        let mut found = Vec::new();
        let mut buffer = Vec::with_capacity(32 * 1024);
        while let Some(next) = self.pop() {
            let (mut folder, inside) = self.enter(&next, &mut buffer);
            folder.path = next.path;
            found.push((next.number, folder));
            let mut queue = self.queue();
            queue.busy -= 1;
            queue.folders.extend(inside);
            let wake = queue.idle > 0 && (queue.busy == 0 || !queue.folders.is_empty());
            drop(queue);
            if wake {
                self.changed.notify_all();
            }
        }
        found
    }

    /// The next folder; `None` once all are done.
    fn pop(&self) -> Option<QueuedFolder> {
        let mut queue = self.queue();
        loop {
            if let Some(next) = queue.folders.pop() {
                queue.busy += 1;
                return Some(next);
            }
            if queue.busy == 0 {
                return None;
            }
            queue.idle += 1;
            queue = self
                .changed
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }

    fn enter(&self, next: &QueuedFolder, buffer: &mut Vec<u8>) -> (Folder, Vec<QueuedFolder>) {
        let closed = |why| {
            let closed = Some(why);
            let folder = Folder {
                closed,
                ..Folder::default()
            };
            (folder, Vec::new())
        };
        if self.files.load(Ordering::Relaxed) > self.walk.files {
            return closed(Why::Budget("files".into()));
        }
        if (self.walk.is_late)() {
            return closed(Why::Budget("time".into()));
        }
        if let Some(known) = self.check_unchanged(next, buffer) {
            return known;
        }
        let (fd, names) = match self.list(&next.path, buffer) {
            Ok(listed) => listed,
            Err(error) => return closed(Why::of(error)),
        };
        let borrowed: Vec<&OsStr> = names.iter().map(OsString::as_os_str).collect();
        if let Some(rule) = self.excluded_for_content(&next.path, &borrowed) {
            return closed(Why::Rule(rule));
        }
        let mut cursor = self.walk.index.folder_cursor(next.index_number);
        let mut inside = Vec::new();
        let mut nodes = Vec::with_capacity(names.len());
        for name in names {
            let node = self.inspect(&next.path, &fd, name, &mut cursor);
            inside.extend(queued(&next.path, &node, || {
                cursor.find(node.name.as_encoded_bytes())
            }));
            nodes.push(node);
        }
        // The queue is a stack: the last one is entered first.
        inside.reverse();
        let folder = Folder {
            nodes,
            attributes: openat::attributes(&fd),
            ..Folder::default()
        };
        (folder, inside)
    }

    /// Opens a folder. Returns it and the names in it, sorted.
    fn list(&self, path: &Path, buffer: &mut Vec<u8>) -> Result<(OwnedFd, Vec<OsString>), Errno> {
        let fd = openat::folder(self.walk.root.as_fd(), path)?;
        let names = names(&fd, buffer)?;
        Ok((fd, names))
    }

    fn excluded_for_content(&self, path: &Path, names: &[&OsStr]) -> Option<String> {
        let is_root = path.as_os_str().is_empty();
        (!is_root).then(|| self.walk.scope.excludes_for_content(path, names))?
    }

    fn inspect(
        &self,
        folder: &Path,
        fd: &OwnedFd,
        name: OsString,
        cursor: &mut FolderCursor<'_>,
    ) -> Node {
        let facts = match Facts::at(fd, &name) {
            Ok(facts) => facts,
            Err(error) => {
                return Node {
                    name,
                    facts: None,
                    what: What::Excluded(Why::of(error)),
                };
            }
        };
        let what = match self.excluded(folder, &name, &facts) {
            Some(why) => What::Excluded(why),
            None if facts.is_folder() => What::Folder(self.next.fetch_add(1, Ordering::SeqCst)),
            None if facts.is_link() => match openat::read_link(fd, &name) {
                Ok(target) => What::Link(target),
                Err(error) => What::Excluded(Why::of(error)),
            },
            None => {
                self.files.fetch_add(1, Ordering::Relaxed);
                let known = cursor.file(name.as_encoded_bytes(), &facts);
                What::File(known.filter(|known| {
                    self.has_same_content(folder, &name, &facts, || Some(known.content.clone()))
                }))
            }
        };
        Node {
            name,
            facts: Some(facts),
            what,
        }
    }

    fn excluded(&self, folder: &Path, name: &OsStr, facts: &Facts) -> Option<Why> {
        let special = match facts.kind {
            FileType::Directory | FileType::RegularFile | FileType::Symlink => None,
            FileType::Fifo => Some("FIFO"),
            FileType::Socket => Some("socket"),
            FileType::CharacterDevice | FileType::BlockDevice => Some("device"),
            FileType::Unknown => Some("file of an unknown type"),
        };
        if let Some(what) = special {
            return Some(Why::Special(what.into()));
        }
        if self.walk.own.contains(facts) {
            return Some(Why::Store);
        }
        if facts.device != self.device && self.walk.reach == Reach::OneFileSystem {
            return Some(Why::OtherFileSystem);
        }
        let at_top = folder.as_os_str().is_empty();
        if at_top && name.as_encoded_bytes().starts_with(STAGE.as_bytes()) {
            return Some(Why::Rule("unfinished restore".into()));
        }
        let rule = self.walk.scope.excludes(folder, name, facts.is_folder());
        rule.map(Why::Rule)
    }
}

/// Queues a found folder.
fn queued(
    above: &Path,
    node: &Node,
    index_number: impl FnOnce() -> Option<u32>,
) -> Option<QueuedFolder> {
    let (What::Folder(number), Some(facts)) = (&node.what, node.facts) else {
        return None;
    };
    Some(QueuedFolder {
        number: *number,
        path: above.join(&node.name),
        facts,
        index_number: index_number(),
    })
}

fn names(fd: &OwnedFd, buffer: &mut Vec<u8>) -> Result<Vec<OsString>, Errno> {
    let mut names = Vec::new();
    let mut entries = rustix::fs::RawDir::new(fd, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    names.sort_unstable();
    Ok(names)
}
