//! Looks at everything in a folder, with several threads, without following a link or waiting for
//! anything.

mod glance;
mod guard;

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::beneath::{self, Facts};
use crate::entry::Why;
use crate::index::{Index, Memory, Section};
use crate::lot::Lot;
use crate::machine;
use crate::request::Reach;
use crate::scope::Scope;

pub(crate) use guard::guard;

/// Names of unfinished restores, at the top of a target.
pub(crate) const STAGE: &str = ".segno-restore-";

/// Fewer things than this are looked at before a second thread would have begun.
const FEW: usize = 500;

/// What a walk needs to know.
pub(crate) struct Walk<'a> {
    pub(crate) root: &'a OwnedFd,
    pub(crate) scope: &'a dyn Scope,
    pub(crate) index: &'a Index,
    pub(crate) reach: Reach,
    /// A folder that is never entered: device and inode.
    pub(crate) vault: Option<(u64, u64)>,
    /// How many files there may be; folders that are not entered yet when there are more stay out.
    pub(crate) files: u64,
    /// Whether the time is used up.
    pub(crate) late: &'a (dyn Fn() -> bool + Sync),
    /// Whether folders that are as the index knows them are passed over.
    pub(crate) glances: bool,
    /// What is compared though it looks unchanged.
    pub(crate) lot: Lot,
}

/// Something with a name.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: OsString,
    pub(crate) facts: Option<Facts>,
    pub(crate) what: What,
}

/// What it is.
#[derive(Debug)]
pub(crate) enum What {
    /// A folder: where in [`Tree::folders`] it is.
    Folder(usize),
    /// A file, and what is known of it if it has not changed.
    File(Option<Memory>),
    /// A link, and what it says.
    Link(OsString),
    /// Something that is left out.
    Left(Why),
}

/// The content of a folder, sorted by name.
#[derive(Debug, Default)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    /// Its number in the index, if it and all files and links in it are as the index knows them.
    /// Then only folders and what is left out are among the nodes.
    pub(crate) known: Option<u32>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) attributes: Vec<(OsString, Vec<u8>)>,
    /// It could not be listed; what is in it is not known.
    pub(crate) closed: Option<Why>,
}

/// Everything that was found. The first folder is the one where the walk began.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) folders: Vec<Folder>,
}

impl Tree {
    /// Whether everything is as the index knows it, but for what is left out.
    pub(crate) fn is_known(&self) -> bool {
        let mut folders = self.folders.iter();
        folders.all(|folder| folder.known.is_some())
    }

    /// How much was found.
    pub(crate) fn count(&self) -> usize {
        let folders = self.folders.iter();
        folders.map(|folder| folder.nodes.len()).sum()
    }

    /// Folders that were left out for what is in them are left out where they were found.
    fn leave_out_ruled(&mut self) {
        let ruled: Vec<Option<Why>> = self
            .folders
            .iter_mut()
            .map(|folder| folder.closed.take_if(|why| matches!(why, Why::Rule(_))))
            .collect();
        if ruled.iter().all(Option::is_none) {
            return;
        }
        for node in self.folders.iter_mut().flat_map(|folder| &mut folder.nodes) {
            if let What::Folder(number) = node.what
                && let Some(why) = &ruled[number]
            {
                node.what = What::Left(why.clone());
            }
        }
    }
}

/// A folder that waits to be entered.
struct Waiting {
    number: usize,
    path: PathBuf,
    facts: Facts,
    /// Its number in the index.
    line: Option<u32>,
}

struct Queue {
    waiting: Vec<Waiting>,
    busy: usize,
    /// Threads that wait for something to do.
    idle: usize,
}

struct Shared<'a> {
    walk: &'a Walk<'a>,
    device: u64,
    /// Whether a folder whose stamp is the same has the same names in it.
    trusts_stamps: bool,
    queue: Mutex<Queue>,
    changed: Condvar,
    next: AtomicUsize,
    files: AtomicU64,
}

impl Walk<'_> {
    /// Looks at everything.
    pub(crate) fn run(&self) -> Result<Tree, Errno> {
        let facts = Facts::of(self.root)?;
        let shared = Shared {
            walk: self,
            device: facts.device,
            trusts_stamps: beneath::stamps_folders(self.root),
            queue: Mutex::new(Queue {
                waiting: vec![Waiting {
                    number: 0,
                    path: PathBuf::new(),
                    facts,
                    line: self.index.find(Path::new("")),
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
                // What a thread has found is not silently missing.
                found.extend(other.join().expect("a walk ends"));
            }
            found
        });
        let mut tree = Tree::default();
        let count = shared.next.load(Ordering::SeqCst);
        tree.folders.resize_with(count, Folder::default);
        for (number, folder) in found {
            tree.folders[number] = folder;
        }
        tree.leave_out_ruled();
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
        while let Some(next) = self.take() {
            let (mut folder, inside) = self.enter(&next, &mut buffer);
            folder.path = next.path;
            found.push((next.number, folder));
            let mut queue = self.queue();
            queue.busy -= 1;
            queue.waiting.extend(inside);
            let wake = queue.idle > 0 && (queue.busy == 0 || !queue.waiting.is_empty());
            drop(queue);
            if wake {
                self.changed.notify_all();
            }
        }
        found
    }

    /// The next folder; none once all are done.
    fn take(&self) -> Option<Waiting> {
        let mut queue = self.queue();
        loop {
            if let Some(next) = queue.waiting.pop() {
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

    fn enter(&self, next: &Waiting, buffer: &mut Vec<u8>) -> (Folder, Vec<Waiting>) {
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
        if (self.walk.late)() {
            return closed(Why::Budget("time".into()));
        }
        if let Some(known) = self.glance(next, buffer) {
            return known;
        }
        let (fd, names) = match self.list(&next.path, buffer) {
            Ok(listed) => listed,
            Err(error) => return closed(why(error)),
        };
        let borrowed: Vec<&OsStr> = names.iter().map(OsString::as_os_str).collect();
        if let Some(rule) = self.ruled(&next.path, &borrowed) {
            return closed(Why::Rule(rule));
        }
        let mut section = self.walk.index.section(next.line);
        let mut inside = Vec::new();
        let mut nodes = Vec::with_capacity(names.len());
        for name in names {
            let node = self.look(&next.path, &fd, name, &mut section);
            inside.extend(waiting(&next.path, &node, || {
                section.find(node.name.as_encoded_bytes())
            }));
            nodes.push(node);
        }
        // The last to wait is the first to be entered.
        inside.reverse();
        let folder = Folder {
            nodes,
            attributes: beneath::attributes(&fd),
            ..Folder::default()
        };
        (folder, inside)
    }

    /// Opens a folder, and tells the names in it, sorted.
    fn list(&self, path: &Path, buffer: &mut Vec<u8>) -> Result<(OwnedFd, Vec<OsString>), Errno> {
        let fd = beneath::folder(self.walk.root.as_fd(), path)?;
        let names = names(&fd, buffer)?;
        Ok((fd, names))
    }

    fn ruled(&self, path: &Path, names: &[&OsStr]) -> Option<String> {
        let is_root = path.as_os_str().is_empty();
        (!is_root).then(|| self.walk.scope.leaves_out_holding(path, names))?
    }

    fn look(&self, folder: &Path, fd: &OwnedFd, name: OsString, section: &mut Section<'_>) -> Node {
        let facts = match Facts::at(fd, &name) {
            Ok(facts) => facts,
            Err(error) => {
                return Node {
                    name,
                    facts: None,
                    what: What::Left(why(error)),
                };
            }
        };
        let what = match self.left_out(folder, &name, &facts) {
            Some(why) => What::Left(why),
            None if facts.is_folder() => What::Folder(self.next.fetch_add(1, Ordering::SeqCst)),
            None if facts.is_link() => match beneath::read_link(fd, &name) {
                Ok(target) => What::Link(target),
                Err(error) => What::Left(why(error)),
            },
            None => {
                self.files.fetch_add(1, Ordering::Relaxed);
                let known = section.file(name.as_encoded_bytes(), &facts);
                What::File(known.filter(|memory| {
                    self.is_still(folder, &name, &facts, || Some(memory.content.clone()))
                }))
            }
        };
        Node {
            name,
            facts: Some(facts),
            what,
        }
    }

    fn left_out(&self, folder: &Path, name: &OsStr, facts: &Facts) -> Option<Why> {
        let special = match facts.kind {
            FileType::Directory | FileType::RegularFile | FileType::Symlink => None,
            FileType::Fifo => Some("FIFO"),
            FileType::Socket => Some("socket"),
            FileType::CharacterDevice | FileType::BlockDevice => Some("device"),
            FileType::Unknown => Some("thing of a kind that is not known here"),
        };
        if let Some(what) = special {
            return Some(Why::Special(what.into()));
        }
        if facts.is_folder() && self.walk.vault == Some((facts.device, facts.inode)) {
            return Some(Why::Vault);
        }
        if facts.device != self.device && self.walk.reach == Reach::OneFileSystem {
            return Some(Why::OtherFileSystem);
        }
        let at_top = folder.as_os_str().is_empty();
        if at_top && name.as_encoded_bytes().starts_with(STAGE.as_bytes()) {
            return Some(Why::Rule("unfinished restore".into()));
        }
        let rule = self.walk.scope.leaves_out(folder, name, facts.is_folder());
        rule.map(Why::Rule)
    }
}

/// A folder that was found, as one that waits to be entered.
fn waiting(above: &Path, node: &Node, line: impl FnOnce() -> Option<u32>) -> Option<Waiting> {
    let (What::Folder(number), Some(facts)) = (&node.what, node.facts) else {
        return None;
    };
    Some(Waiting {
        number: *number,
        path: above.join(&node.name),
        facts,
        line: line(),
    })
}

/// Why something could not be looked at.
pub(crate) fn why(error: Errno) -> Why {
    match error {
        Errno::NOENT => Why::Vanished,
        Errno::LOOP | Errno::NOTDIR => Why::Unreadable("it became something else meanwhile".into()),
        error => Why::Unreadable(std::io::Error::from(error).to_string()),
    }
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
