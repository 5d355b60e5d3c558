//! Opens files below a folder and nothing else: no link on the path is followed, no matter who
//! created it and when.
//!
//! The caller resolves links that it wants to follow, and then opens what it found: if somebody
//! puts a link in its place in between, the open fails.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, Result};

/// Flags for opening a folder.
pub const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Opens `path` below `root`; `root` itself if the path is empty. `flags` create nothing, and
/// contain `NOFOLLOW`.
///
/// A link on the path is `ELOOP` or `ENOTDIR`, a path that leads out is `EXDEV`.
pub fn open(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd> {
    static MISSING: AtomicBool = AtomicBool::new(false);
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    if MISSING.load(Ordering::Relaxed) {
        return step_by_step(root, path, flags);
    }
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    // A rename elsewhere in the tree may make the kernel return `EAGAIN`; then the call is
    // repeated.
    for _ in 0..32 {
        match rustix::fs::openat2(root, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            // An old kernel, or a sandbox that does not know the call.
            Err(Errno::NOSYS | Errno::PERM) => {
                MISSING.store(true, Ordering::Relaxed);
                return step_by_step(root, path, flags);
            }
            other => return other,
        }
    }
    step_by_step(root, path, flags)
}

/// Does the same with one `openat` per folder.
fn step_by_step(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd> {
    let mut names = path.components().peekable();
    let mut at: Option<OwnedFd> = None;
    while let Some(name) = names.next() {
        let (Component::Normal(_) | Component::CurDir) = name else {
            return Err(Errno::XDEV);
        };
        let flags = if names.peek().is_some() {
            FOLDER
        } else {
            flags
        };
        let from = at.as_ref().map_or(root, AsFd::as_fd);
        let next = rustix::fs::openat(from, name.as_os_str(), flags, Mode::empty())?;
        at = Some(next);
    }
    at.ok_or(Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_follows_no_link_and_stays_inside() {
        let outside = tempfile::tempdir().expect("a folder");
        let inside = tempfile::tempdir().expect("a folder");
        let place = inside.path();
        rustix::fs::symlink(outside.path(), place.join("link")).expect("a link");
        rustix::fs::mkdir(place.join("folder"), Mode::RWXU).expect("a folder");
        rustix::fs::mkdir(outside.path().join("x"), Mode::RWXU).expect("a folder");
        let root = rustix::fs::open(place, FOLDER, Mode::empty()).expect("it is there");
        let ways = [
            "link",
            "link/x",
            "folder/../link",
            "..",
            "folder/../..",
            "/etc",
        ];
        for way in ways.map(Path::new) {
            assert!(open(root.as_fd(), way, FOLDER).is_err(), "{way:?}");
            assert!(step_by_step(root.as_fd(), way, FOLDER).is_err(), "{way:?}");
        }
        for way in ["folder", "."].map(Path::new) {
            assert!(open(root.as_fd(), way, FOLDER).is_ok(), "{way:?}");
            assert!(step_by_step(root.as_fd(), way, FOLDER).is_ok(), "{way:?}");
        }
    }
}
