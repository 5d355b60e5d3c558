//! Opens files below a folder and nothing else: no link on the path is followed, no matter who
//! created it and when.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, XattrFlags};
use rustix::io::{Errno, Result};
use segno_openat::{FOLDER, open};

use crate::entry::FileTime;

/// Stat data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) kind: rustix::fs::FileType,
    pub(crate) mode: u32,
    pub(crate) size: u64,
    pub(crate) modified: FileTime,
    pub(crate) changed: FileTime,
    pub(crate) inode: u64,
    pub(crate) device: u64,
    pub(crate) links: u64,
}

impl Facts {
    fn new(stat: &rustix::fs::Stat) -> Self {
        let time = |seconds, nanos| FileTime {
            seconds,
            nanos: u32::try_from(nanos).unwrap_or(0),
        };
        Self {
            kind: rustix::fs::FileType::from_raw_mode(stat.st_mode),
            mode: stat.st_mode & 0o7777,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: time(stat.st_mtime, stat.st_mtime_nsec),
            changed: time(stat.st_ctime, stat.st_ctime_nsec),
            inode: stat.st_ino,
            device: stat.st_dev,
            links: stat.st_nlink,
        }
    }

    /// The stat data of an open file.
    pub(crate) fn of(fd: impl AsFd) -> Result<Self> {
        Ok(Self::new(&rustix::fs::fstat(fd)?))
    }

    /// The stat data of a name in a folder; of a link itself, not of its target.
    pub(crate) fn at(folder: impl AsFd, name: &OsStr) -> Result<Self> {
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        Ok(Self::new(&rustix::fs::statat(folder, name, flags)?))
    }

    pub(crate) fn is_folder(&self) -> bool {
        self.kind == rustix::fs::FileType::Directory
    }

    pub(crate) fn is_file(&self) -> bool {
        self.kind == rustix::fs::FileType::RegularFile
    }

    pub(crate) fn is_link(&self) -> bool {
        self.kind == rustix::fs::FileType::Symlink
    }
}

const FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// Opens the root folder of later operations. Its path is the user's own, so links are followed
/// here.
pub(crate) fn root(path: &Path) -> Result<OwnedFd> {
    rustix::fs::open(
        path,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

/// Opens a folder below `root`; `root` itself if the path is empty.
pub(crate) fn folder(root: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd> {
    open(root, path, FOLDER)
}

/// Opens a folder below `root` with `O_PATH`: only for lookups by name.
pub(crate) fn folder_for_lookup(root: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd> {
    open(root, path, FOLDER.union(OFlags::PATH))
}

/// Opens a file below `root` for reading, without blocking.
pub(crate) fn file(root: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd> {
    open(root, path, FILE)
}

/// Creates a new file in a folder for writing, with mode 0600.
pub(crate) fn create(folder: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd> {
    create_as(folder, name, Mode::RUSR | Mode::WUSR)
}

/// Creates a new file in a folder for writing, with `mode` restricted by the umask.
pub(crate) fn create_as(folder: BorrowedFd<'_>, name: &OsStr, mode: Mode) -> Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(folder, name, flags, mode)
}

/// Opens the parent folder of `path`. Returns it and the file name.
pub(crate) fn parent<'a>(root: BorrowedFd<'_>, path: &'a Path) -> Result<(OwnedFd, &'a OsStr)> {
    let name = path.file_name().ok_or(Errno::INVAL)?;
    let parent = path.parent().unwrap_or(Path::new(""));
    Ok((folder(root, parent)?, name))
}

/// Caches the last parent folder: neighbouring files share one, which is then opened once.
#[derive(Default)]
pub(crate) struct ParentCache<'p>(Option<(&'p Path, OwnedFd)>);

impl<'p> ParentCache<'p> {
    /// The open parent folder of `path` below `root`, and the file name.
    pub(crate) fn parent(
        &mut self,
        root: BorrowedFd<'_>,
        path: &'p Path,
    ) -> Result<(BorrowedFd<'_>, &'p OsStr)> {
        let name = path.file_name().ok_or(Errno::INVAL)?;
        let parent = path.parent().unwrap_or(Path::new(""));
        let open = match self.0.take() {
            Some((path, fd)) if path == parent => fd,
            _ => folder(root, parent)?,
        };
        let open = &self.0.insert((parent, open)).1;
        Ok((open.as_fd(), name))
    }
}

/// Whether the file system updates a folder's timestamps whenever a name is added or removed. Only
/// file systems that are known to do so count; others, such as network file systems, may cache
/// timestamps.
pub(crate) fn stamps_folders(fd: impl AsFd) -> bool {
    const EXT: u64 = 0xef53;
    const XFS: u64 = 0x5846_5342;
    const BTRFS: u64 = 0x9123_683e;
    const TMPFS: u64 = 0x0102_1994;
    const F2FS: u64 = 0xf2f5_2010;
    const OVERLAY: u64 = 0x794c_7630;
    let kind = rustix::fs::fstatfs(fd).map(|facts| facts.f_type.cast_unsigned());
    kind.is_ok_and(|kind| [EXT, XFS, BTRFS, TMPFS, F2FS, OVERLAY].contains(&kind))
}

/// The target of a link in `folder`.
pub(crate) fn read_link(folder: impl AsFd, name: &OsStr) -> Result<OsString> {
    let target = rustix::fs::readlinkat(folder, name, Vec::new())?;
    Ok(OsString::from_vec(target.into_bytes()))
}

/// The extended attributes in the namespace `user`, sorted; empty if they are not supported.
pub(crate) fn attributes(fd: impl AsFd) -> Vec<(OsString, Vec<u8>)> {
    // Most files have none; Linux never lists more than 64 KiB.
    let mut few = [0_u8; 512];
    let mut many = Vec::new();
    let names = match rustix::fs::flistxattr(&fd, &mut few) {
        Ok(0) => return Vec::new(),
        Ok(length) => &few[..length],
        Err(Errno::RANGE) => {
            many.resize(65_536, 0);
            let length = rustix::fs::flistxattr(&fd, &mut many[..]).unwrap_or(0);
            &many[..length]
        }
        Err(_) => return Vec::new(),
    };
    let mut attributes = Vec::new();
    for name in names.split(|&byte| byte == 0) {
        if !name.starts_with(b"user.") {
            continue;
        }
        let name = OsStr::from_bytes(name);
        let mut value = vec![0; 65_536];
        if let Ok(length) = rustix::fs::fgetxattr(&fd, name, &mut value[..]) {
            value.truncate(length);
            attributes.push((name.to_owned(), value));
        }
    }
    attributes.sort();
    attributes
}

/// Sets exactly these extended attributes of the namespace `user`.
pub(crate) fn set_attributes(fd: impl AsFd, wanted: &[(OsString, Vec<u8>)]) -> Result<()> {
    let there = attributes(&fd);
    for (name, _) in &there {
        if !wanted.iter().any(|(wanted, _)| wanted == name) {
            rustix::fs::fremovexattr(&fd, name)?;
        }
    }
    for attribute in wanted {
        if !there.contains(attribute) {
            rustix::fs::fsetxattr(&fd, &attribute.0, &attribute.1, XattrFlags::empty())?;
        }
    }
    Ok(())
}

/// Timestamps for `futimens` that set the modification time and leave the access time alone.
pub(crate) fn times(modified: FileTime) -> Timestamps {
    let time = |seconds, nanos| Timespec {
        tv_sec: seconds,
        tv_nsec: nanos,
    };
    Timestamps {
        last_access: time(0, UTIME_OMIT),
        last_modification: time(modified.seconds, modified.nanos.into()),
    }
}

/// Removes a folder and its content. Links are removed, not followed.
pub(crate) fn remove_folder(root: BorrowedFd<'_>, path: &Path) -> Result<()> {
    let fd = folder(root, path)?;
    let _ = rustix::fs::fchmod(&fd, Mode::RWXU);
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(&fd)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    for name in names {
        if Facts::at(&fd, &name)?.is_folder() {
            remove_folder(root, &path.join(name))?;
        } else {
            rustix::fs::unlinkat(&fd, &name, AtFlags::empty())?;
        }
    }
    let (parent, name) = parent(root, path)?;
    rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
}
