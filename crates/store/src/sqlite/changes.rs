//! Tells when journals grow. Every commit rewrites the session's ack marker after it is durable, so
//! one inotify watch on the folder of markers sees what all processes append to all sessions, and
//! another one on the trash sees what enters and leaves it.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
use rustix::io::Errno;
use segno_core::id::SessionId;
use segno_core::ports::Boxed;
use segno_core::store::{Changed, Watch};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// What one read of the kernel's queue takes.
const BUFFER: usize = 16 << 10;

/// A watch on folders whose entries are named after sessions.
pub(super) struct FolderWatch(AsyncFd<OwnedFd>);

impl FolderWatch {
    pub(super) fn new(folders: &[&Path]) -> io::Result<Self> {
        let inotify = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let events = WatchFlags::CREATE
            | WatchFlags::MODIFY
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::DELETE
            | WatchFlags::ONLYDIR;
        for folder in folders {
            add_watch(&inotify, *folder, events)?;
        }
        #[expect(
            deprecated,
            reason = "the replacement is unsafe; this descriptor is owned and never exchanged"
        )]
        let inotify = AsyncFd::with_interest(inotify, Interest::READABLE)?;
        Ok(Self(inotify))
    }

    async fn next(&mut self) -> Changed {
        loop {
            // Only a runtime that shuts down reports an error here.
            let Ok(mut ready) = self.0.readable().await else {
                return std::future::pending().await;
            };
            match ready.try_io(|inotify| read(inotify.get_ref())) {
                Ok(Ok(Changed::Sessions(sessions))) if sessions.is_empty() => {}
                Ok(Ok(changed)) => return changed,
                Ok(Err(_)) => return Changed::Any,
                // The queue is empty: wait again.
                Err(_) => {}
            }
        }
    }
}

impl Watch for FolderWatch {
    fn changed(&mut self) -> Boxed<'_, Changed> {
        Box::pin(self.next())
    }
}

/// Empties the queue. An error if it is empty already.
fn read(inotify: &OwnedFd) -> io::Result<Changed> {
    let mut buffer = [MaybeUninit::uninit(); BUFFER];
    let mut reader = Reader::new(inotify, &mut buffer);
    let (mut sessions, mut any, mut count) = (BTreeSet::new(), false, 0);
    loop {
        match reader.next() {
            Ok(event) => {
                count += 1;
                // A watched folder that is gone, or a queue that was full.
                let lost = ReadFlags::QUEUE_OVERFLOW | ReadFlags::IGNORED;
                any |= event.events().intersects(lost);
                sessions.extend(event.file_name().and_then(session));
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if count > 0 => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(if any {
        Changed::Any
    } else {
        Changed::Sessions(sessions)
    })
}

/// The session that an entry is named after; drafts and other files are none.
fn session(name: &CStr) -> Option<SessionId> {
    name.to_str().ok()?.parse().ok()
}
