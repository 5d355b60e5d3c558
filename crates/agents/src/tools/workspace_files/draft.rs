//! A new version of a file, before it has the file's name.
//!
//! Each draft belongs to one call. As long as it is written it has no name at all where the file
//! system allows that, so that nothing is left of it when the process is killed. Otherwise it has a
//! name that no other call uses, and is removed unless it replaces the file.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Uid, XattrFlags};
use rustix::io::{Errno, Result};

const ACCESS_LIST: &str = "system.posix_acl_access";

pub(super) struct Draft<'a> {
    folder: &'a OwnedFd,
    file: OwnedFd,
    name: Option<String>,
}

impl<'a> Draft<'a> {
    /// Creates a draft. It is private until [`Self::copy_access`] if it is to replace a file, and
    /// has the mode of a new file otherwise.
    pub(super) fn create(folder: &'a OwnedFd, replaces: bool) -> Result<Self> {
        let mode = Mode::from_raw_mode(if replaces { 0o600 } else { 0o666 });
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        match rustix::fs::openat(folder, ".", flags | OFlags::TMPFILE, mode) {
            Ok(file) => {
                return Ok(Self {
                    folder,
                    file,
                    name: None,
                });
            }
            // The file system, or the kernel, has no unnamed files.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {}
            Err(error) => return Err(error),
        }
        let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let (file, name) = with_new_name(|name| rustix::fs::openat(folder, name, flags, mode))?;
        Ok(Self {
            folder,
            file,
            name: Some(name),
        })
    }

    pub(super) fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            match rustix::io::write(&self.file, bytes) {
                Ok(0) => return Err(Errno::IO),
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Gives the draft the owner, the access list and the mode of an existing file. Where the group
    /// cannot be kept, the group gets no access.
    pub(super) fn copy_access(&self, folder: &OwnedFd, name: &OsStr) -> Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let existing = segno_openat::open(folder.as_fd(), name.as_ref(), flags)?;
        let stat = rustix::fs::fstat(&existing)?;
        let own = rustix::fs::fstat(&self.file)?;
        if own.st_uid != stat.st_uid {
            // Only root may do this; the mode decides who else has access.
            let _ = rustix::fs::fchown(&self.file, Some(Uid::from_raw(stat.st_uid)), None);
        }
        let mut mode = stat.st_mode & 0o777;
        let keeps_group = own.st_gid == stat.st_gid
            || rustix::fs::fchown(&self.file, None, Some(Gid::from_raw(stat.st_gid))).is_ok();
        if !keeps_group || !self.copy_access_list(&existing) {
            mode &= !0o070;
        }
        rustix::fs::fchmod(&self.file, Mode::from_raw_mode(mode))
    }

    /// Returns whether the draft has the same access list as the file.
    fn copy_access_list(&self, existing: &OwnedFd) -> bool {
        let file = format!("/proc/self/fd/{}", existing.as_raw_fd());
        let mut list = [0_u8; 4096];
        match rustix::fs::getxattr(file, ACCESS_LIST, &mut list[..]) {
            Ok(length) => {
                let list = &list[..length];
                rustix::fs::fsetxattr(&self.file, ACCESS_LIST, list, XattrFlags::empty()).is_ok()
            }
            Err(Errno::NODATA | Errno::OPNOTSUPP) => true,
            Err(_) => false,
        }
    }

    pub(super) fn sync(&self) -> Result<()> {
        rustix::fs::fsync(&self.file)
    }

    /// Gives the draft the name of the file that it replaces, durably.
    pub(super) fn replace(mut self, target: &OsStr) -> Result<()> {
        let draft = if let Some(name) = &self.name {
            name
        } else {
            let file = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            let link = |name: &str| {
                rustix::fs::linkat(CWD, &file, self.folder, name, AtFlags::SYMLINK_FOLLOW)
            };
            let ((), name) = with_new_name(link)?;
            self.name.insert(name)
        };
        rustix::fs::renameat(self.folder, draft.as_str(), self.folder, target)?;
        self.name = None;
        rustix::fs::fsync(self.folder)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = rustix::fs::unlinkat(self.folder, name.as_str(), AtFlags::empty());
        }
    }
}

/// Calls `create`, which fails if a name exists, until a name is new: other processes, also those
/// with the same pid in another container, have drafts in the same folder.
fn with_new_name<T>(create: impl Fn(&str) -> Result<T>) -> Result<(T, String)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    const MAX_TRIES: usize = 1000;
    for _ in 0..MAX_TRIES {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!(".segno-draft-{}-{number}", process::id());
        match create(&name) {
            Err(Errno::EXIST) => {}
            created => return created.map(|created| (created, name)),
        }
    }
    Err(Errno::EXIST)
}
