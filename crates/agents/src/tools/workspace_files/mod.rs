//! File access for tools, limited to the workspace and its mounts.
//!
//! A path is first resolved, links included, and what it leads to must be inside. The result is
//! then opened from a handle of the folder without following any link ([`segno_openat`]): a link
//! that is put there in between makes the open fail, so no file outside is read or written.
//!
//! Only regular files and folders are opened, never a FIFO, a device or a socket. What tools may
//! not write is the part of [`WritePolicy`].

mod draft;
mod git_folder;
mod root;
mod write_policy;

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::cancellation::Cancellation;
use draft::Draft;
use root::Root;
pub use write_policy::WritePolicy;

/// The longest file that a tool reads, in bytes.
const MAX_FILE: u64 = 10 * 1024 * 1024;

/// How often an operation starts again because somebody replaced a part of its path.
const MAX_TRIES: usize = 8;

/// The files that one tool call may access.
pub(crate) struct WorkspaceFiles<'a> {
    /// The workspace as it was named, for absolute paths.
    workspace: &'a Path,
    root: Root,
    /// Outside folders that appear in the workspace under these names.
    mounts: &'a [(String, PathBuf)],
    policy: &'a WritePolicy,
    cancellation: &'a Cancellation,
}

/// Where a path leads.
struct Location {
    root: Root,
    /// Relative to the root, with all links resolved as far as it exists.
    path: PathBuf,
}

/// Why an operation on a file ends.
enum Failure {
    /// A part of the path was replaced meanwhile.
    Changed,
    Refused(String),
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self::Refused(reason)
    }
}

impl<'a> WorkspaceFiles<'a> {
    pub(crate) fn new(
        workspace: &'a Path,
        mounts: &'a [(String, PathBuf)],
        policy: &'a WritePolicy,
        cancellation: &'a Cancellation,
    ) -> Result<Self, String> {
        let root = Root::open(workspace)
            .map_err(|error| format!("the workspace cannot be opened: {error}"))?;
        Ok(Self {
            workspace,
            root,
            mounts,
            policy,
            cancellation,
        })
    }

    /// Reads a text file.
    pub(crate) fn read(&self, path: &str) -> Result<String, String> {
        let bytes = again(path, || self.read_once(path))?;
        String::from_utf8(bytes).map_err(|_| format!("{path} is not text"))
    }

    /// Replaces the content of a file, or creates it, atomically and durably. An existing file
    /// keeps its mode.
    pub(crate) fn write(&self, path: &str, content: &str, create: bool) -> Result<(), String> {
        again(path, || self.write_once(path, content, create))
    }

    fn read_once(&self, path: &str) -> Result<Vec<u8>, Failure> {
        let location = self.locate(path)?;
        let failed = |error| failure(path, error);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = segno_openat::open(location.root.folder(), &location.path, flags);
        let found = found.map_err(failed)?;
        let stat = rustix::fs::fstat(&found).map_err(failed)?;
        check_kind(path, FileType::from_raw_mode(stat.st_mode))?;
        let too_long = || Failure::Refused(format!("{path} is longer than 10 MB"));
        if u64::try_from(stat.st_size).unwrap_or(0) > MAX_FILE {
            return Err(too_long());
        }
        let file = open_for_reading(&found).map_err(failed)?;
        let content = self.read_content(file.into());
        let content = content.map_err(|error| format!("{path}: {error}"))?;
        if content.len() as u64 > MAX_FILE {
            return Err(too_long());
        }
        Ok(content)
    }

    /// Reads to the end or to one byte more than a tool reads.
    fn read_content(&self, mut file: std::fs::File) -> io::Result<Vec<u8>> {
        const PIECE: u64 = 1 << 20;
        let mut content = Vec::new();
        while content.len() as u64 <= MAX_FILE {
            self.cancellation.check().map_err(io::Error::other)?;
            let room = (MAX_FILE + 1 - content.len() as u64).min(PIECE);
            if (&mut file).take(room).read_to_end(&mut content)? == 0 {
                break;
            }
        }
        Ok(content)
    }

    fn write_once(&self, path: &str, content: &str, create: bool) -> Result<(), Failure> {
        let Location { root, path: target } = self.locate(path)?;
        let name = target
            .file_name()
            .ok_or_else(|| format!("{path} is a folder"))?;
        self.check_writable(path, &root, &target)?;
        let folder = parent_folder(&root, &target, create).map_err(|error| match error {
            Errno::NOENT => Failure::Refused(format!("{path}: its folder does not exist")),
            error => failure(path, error),
        })?;
        let failed = |error| failure(path, error);
        let replaced = match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Some(stat),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(failed(error)),
        };
        if let Some(stat) = &replaced {
            check_kind(path, FileType::from_raw_mode(stat.st_mode))?;
        }
        let mut draft = Draft::create(&folder, replaced.is_some()).map_err(failed)?;
        for piece in content.as_bytes().chunks(1 << 20) {
            self.cancellation.check()?;
            draft.write(piece).map_err(failed)?;
        }
        if replaced.is_some() {
            draft.copy_access(&folder, name).map_err(failed)?;
        }
        draft.sync().map_err(failed)?;
        self.cancellation.commit()?;
        draft.replace(name).map_err(failed)
    }

    fn check_writable(&self, path: &str, root: &Root, target: &Path) -> Result<(), String> {
        let absolute = root.path().join(target);
        let in_workspace = absolute.strip_prefix(self.root.path()).ok();
        let names = std::iter::once(target).chain(in_workspace);
        let refused = self.policy.refusal(names, &absolute);
        let refused = refused.or_else(|| git_folder::refusal(root, target).map(str::to_owned));
        match refused {
            None => Ok(()),
            Some(reason) => Err(format!("{path} was not written: {reason}")),
        }
    }

    /// Resolves a path, following symlinks; fails if it leads out of the workspace.
    fn locate(&self, path: &str) -> Result<Location, String> {
        let outside = || format!("{path} is outside of the workspace");
        let given = Path::new(path);
        let given = if given.is_absolute() {
            let below = |root: &Path| given.strip_prefix(root).ok();
            below(self.workspace)
                .or_else(|| below(self.root.path()))
                .ok_or_else(outside)?
        } else {
            given
        };
        let mut names = PathBuf::new();
        for part in given.components() {
            match part {
                Component::Normal(name) => names.push(name),
                Component::CurDir => {}
                _ => return Err(outside()),
            }
        }
        let mounted = self.mounts.iter().find_map(|(name, folder)| {
            let rest = names.strip_prefix(name).ok()?;
            Some((folder, rest))
        });
        let (root, names) = match mounted {
            None => (self.root.clone(), names.as_path()),
            Some((folder, rest)) => {
                let root = Root::open(folder);
                let root = root.map_err(|error| format!("{path} cannot be opened: {error}"))?;
                (root, rest)
            }
        };
        let resolved = root.resolve(names);
        let resolved = resolved.map_err(|error| format!("{path}: {error}"))?;
        let path = resolved.ok_or_else(outside)?;
        Ok(Location { root, path })
    }
}

/// Repeats an operation as long as somebody replaces parts of its path.
fn again<T>(path: &str, mut operation: impl FnMut() -> Result<T, Failure>) -> Result<T, String> {
    for _ in 0..MAX_TRIES {
        match operation() {
            Ok(done) => return Ok(done),
            Err(Failure::Refused(reason)) => return Err(reason),
            Err(Failure::Changed) => {}
        }
    }
    Err(format!(
        "{path}: somebody keeps replacing a part of this path"
    ))
}

fn failure(path: &str, error: Errno) -> Failure {
    match error {
        // A resolved path has no links and leads nowhere else.
        Errno::LOOP | Errno::XDEV => Failure::Changed,
        error => Failure::Refused(format!("{path}: {}", io::Error::from(error))),
    }
}

fn check_kind(path: &str, kind: FileType) -> Result<(), Failure> {
    match kind {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(format!("{path} is a folder").into()),
        FileType::Symlink => Err(Failure::Changed),
        _ => Err(format!("{path} is not a regular file").into()),
    }
}

/// Opens the file behind an `O_PATH` handle, whatever has its name by now.
fn open_for_reading(found: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let file = format!("/proc/self/fd/{}", found.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(file, flags, Mode::empty())
}

/// Opens the folder of `target`. With `create`, missing folders are created, durably.
fn parent_folder(root: &Root, target: &Path, create: bool) -> rustix::io::Result<OwnedFd> {
    let parent = target.parent().unwrap_or(Path::new(""));
    match segno_openat::open(root.folder(), parent, segno_openat::FOLDER) {
        Err(Errno::NOENT) if create => {}
        opened => return opened,
    }
    let mut folder = segno_openat::open(root.folder(), Path::new(""), segno_openat::FOLDER)?;
    for name in parent {
        folder = subfolder(&folder, name)?;
    }
    Ok(folder)
}

fn subfolder(folder: &OwnedFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    match rustix::fs::mkdirat(folder, name, Mode::RWXU | Mode::RWXG | Mode::RWXO) {
        Ok(()) => rustix::fs::fsync(folder)?,
        Err(Errno::EXIST) => {}
        Err(error) => return Err(error),
    }
    segno_openat::open(folder.as_fd(), Path::new(name), segno_openat::FOLDER)
}
