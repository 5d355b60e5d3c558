//! Looks at everything in a folder, with several threads, without following a link or waiting for
//! anything.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::beneath::{self, Facts};
use crate::entry::Why;
use crate::error::Error;
use crate::index::{Index, Memory, Section};
use crate::machine;
use crate::request::Reach;
use crate::scope::Scope;

/// Names of unfinished restores, at the top of a target.
pub(crate) const STAGE: &str = ".segno-restore-";

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
    pub(crate) nodes: Vec<Node>,
    pub(crate) attributes: Vec<(OsString, Vec<u8>)>,
    /// It could not be listed; what is in it is not known.
    pub(crate) closed: Option<Why>,
}

/// Everything that was found. The first folder is the one where the walk began.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) folders: Vec<Folder>,
    /// Whether everything is as the index knows it, but for what is left out.
    pub(crate) is_known: bool,
}

impl Tree {
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

struct Queue {
    waiting: Vec<(usize, PathBuf, Facts)>,
    busy: usize,
    /// Threads that wait for something to do.
    idle: usize,
}

struct Shared<'a> {
    walk: &'a Walk<'a>,
    device: u64,
    queue: Mutex<Queue>,
    changed: Condvar,
    next: AtomicUsize,
    files: AtomicU64,
    /// Something is not as the index knows it.
    differs: AtomicBool,
}

impl Walk<'_> {
    /// Looks at everything.
    pub(crate) fn run(&self) -> Result<Tree, Errno> {
        let facts = Facts::of(self.root)?;
        let shared = Shared {
            walk: self,
            device: facts.device,
            queue: Mutex::new(Queue {
                waiting: vec![(0, PathBuf::new(), facts)],
                busy: 0,
                idle: 0,
            }),
            changed: Condvar::new(),
            next: AtomicUsize::new(1),
            files: AtomicU64::new(0),
            differs: AtomicBool::new(false),
        };
        let found = std::thread::scope(|scope| {
            let others: Vec<_> = (1..machine::workers())
                .map(|_| scope.spawn(|| shared.work()))
                .collect();
            let mut found = shared.work();
            for other in others {
                found.extend(other.join().unwrap_or_default());
            }
            found
        });
        let count = shared.next.load(Ordering::SeqCst);
        let mut tree = Tree {
            is_known: !shared.differs.load(Ordering::SeqCst),
            ..Tree::default()
        };
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
        while let Some((number, path, facts)) = self.take() {
            let (mut folder, inside) = self.enter(&path, &facts, &mut buffer);
            folder.path = path;
            found.push((number, folder));
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
    fn take(&self) -> Option<(usize, PathBuf, Facts)> {
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

    fn enter(
        &self,
        path: &Path,
        facts: &Facts,
        buffer: &mut Vec<u8>,
    ) -> (Folder, Vec<(usize, PathBuf, Facts)>) {
        let closed = |why| {
            if !matches!(why, Why::Rule(_)) {
                self.differs.store(true, Ordering::Relaxed);
            }
            Folder {
                closed: Some(why),
                ..Folder::default()
            }
        };
        if self.files.load(Ordering::Relaxed) > self.walk.files {
            return (closed(Why::Budget("files".into())), Vec::new());
        }
        if (self.walk.late)() {
            return (closed(Why::Budget("time".into())), Vec::new());
        }
        let opened = beneath::folder(self.walk.root.as_fd(), path)
            .and_then(|fd| Ok((names(&fd, buffer)?, fd)));
        let (names, fd) = match opened {
            Ok(opened) => opened,
            Err(error) => return (closed(why(error)), Vec::new()),
        };
        if !path.as_os_str().is_empty()
            && let Some(rule) = self.walk.scope.leaves_out_holding(path, &names)
        {
            return (closed(Why::Rule(rule)), Vec::new());
        }
        let mut section = self.walk.index.folder(path);
        if !section.is_same(facts) {
            self.differs.store(true, Ordering::Relaxed);
        }
        let mut inside = Vec::new();
        let mut nodes = Vec::with_capacity(names.len());
        for name in names {
            let node = self.look(path, &fd, name, &mut section);
            if let (What::Folder(number), Some(facts)) = (&node.what, node.facts) {
                inside.push((*number, path.join(&node.name), facts));
            }
            nodes.push(node);
        }
        // The last to wait is the first to be entered.
        inside.reverse();
        let folder = Folder {
            path: PathBuf::new(),
            nodes,
            attributes: beneath::attributes(&fd),
            closed: None,
        };
        (folder, inside)
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
            None if facts.is_link() => {
                if !section.has_link(name.as_encoded_bytes(), &facts) {
                    self.differs.store(true, Ordering::Relaxed);
                }
                match beneath::read_link(fd, &name) {
                    Ok(target) => What::Link(target),
                    Err(error) => What::Left(why(error)),
                }
            }
            None => {
                self.files.fetch_add(1, Ordering::Relaxed);
                let known = section.find(name.as_encoded_bytes(), &facts);
                if known.is_none() {
                    self.differs.store(true, Ordering::Relaxed);
                }
                What::File(known)
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

/// Refuses folders that are too much: the root of the file system, the person's home, and what
/// the home lies in. Returns the folder without links on the way.
pub(crate) fn guard(root: &Path, home: Option<&Path>) -> Result<PathBuf, Error> {
    let real = std::fs::canonicalize(root).map_err(|error| Error::at(root, error))?;
    let refuse = |reason| {
        Err(Error::Refused {
            place: real.clone(),
            reason,
        })
    };
    if real == Path::new("/") {
        return refuse("it is the whole file system");
    }
    let homes: HashSet<PathBuf> = home
        .into_iter()
        .flat_map(|home| [Some(home.to_owned()), std::fs::canonicalize(home).ok()])
        .flatten()
        .collect();
    if homes.contains(&real) {
        return refuse("it is your home folder");
    }
    if homes.iter().any(|home| home.starts_with(&real)) {
        return refuse("your home folder lies in it");
    }
    Ok(real)
}
