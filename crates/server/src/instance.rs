//! The one server of a home.
//!
//! It holds a lock for as long as its process lives, so that a second server is refused and a killed
//! one leaves nothing in the way. Its addresses are in a file beside the lock, for `segno open` and
//! other commands on this machine.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};
use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::ports::{Access, Disk, replace_file};
use serde::{Deserialize, Serialize};

/// An address file is much smaller.
const MAX_BYTES: u64 = 64 << 10;

/// Why no server can be started, or none was found.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("another server serves this home{}", .address.as_ref().map_or(String::new(), |address| format!(": {address}")))]
    Running { address: Option<String> },
    #[error("no server serves this home")]
    NotRunning,
    #[error("{} cannot be used: {reason}", .path.display())]
    Unusable { path: PathBuf, reason: io::Error },
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Running { .. } => Diagnosis::new(Kind::Locked, "N0111")
                .hint("`segno open` opens it; stop it before you start another"),
            Self::NotRunning => {
                Diagnosis::new(Kind::NotFound, "N0112").hint("start one with `segno serve`")
            }
            Self::Unusable { .. } => Diagnosis::new(Kind::Unavailable, "F0201"),
        }
    }
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    v: u32,
    pub pid: u32,
    /// The addresses for browsers and other machines, the best one first.
    pub urls: Vec<String>,
    /// The Unix socket.
    pub socket: PathBuf,
    /// SHA-256 of a certificate that only this fingerprint vouches for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
}

/// The right to serve a home, until it is dropped.
pub struct Instance {
    folder: PathBuf,
    disk: Arc<dyn Disk>,
    _lock: File,
}

impl Instance {
    /// Claims the home whose server's folder this is.
    pub fn claim(folder: PathBuf, disk: Arc<dyn Disk>) -> Result<Self, Error> {
        let unusable = |path: &Path, reason: io::Error| Error::Unusable {
            path: path.to_owned(),
            reason,
        };
        disk.create_folder(&folder, Access::Private)
            .map_err(|error| unusable(&folder, error))?;
        let lock = open_lock(&folder).map_err(|error| unusable(&folder.join("lock"), error))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let address = read_address(&folder, &*disk)?;
                let address = address.and_then(|address| address.urls.into_iter().next());
                return Err(Error::Running { address });
            }
            Err(error) => return Err(unusable(&folder.join("lock"), error.into())),
        }
        Ok(Self {
            folder,
            disk,
            _lock: lock,
        })
    }

    /// The path of the Unix socket, which is free: a killed server may have left one.
    pub fn socket(&self) -> Result<PathBuf, Error> {
        let path = self.folder.join("socket");
        match self.disk.remove(&path) {
            Ok(()) => Ok(path),
            Err(reason) => Err(Error::Unusable { path, reason }),
        }
    }

    /// Publishes where the server listens.
    pub fn publish(
        &self,
        urls: Vec<String>,
        socket: PathBuf,
        fingerprint: Option<String>,
    ) -> Result<(), Error> {
        let address = Address {
            v: 1,
            pid: std::process::id(),
            urls,
            socket,
            fingerprint,
        };
        let body = serde_json::to_vec(&address).expect("an address of plain values");
        let (draft, path) = (self.folder.join("address.draft"), self.address_file());
        replace_file(&*self.disk, &draft, &path, &body, Access::Private, |_| {})
            .map_err(|reason| Error::Unusable { path, reason })
    }

    fn address_file(&self) -> PathBuf {
        address_file(&self.folder)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.disk.remove(&self.address_file());
        let _ = self.disk.remove(&self.folder.join("socket"));
    }
}

/// The address of the server that serves a home now.
pub fn find(folder: &Path, disk: &dyn Disk) -> Result<Address, Error> {
    let path = folder.join("lock");
    let lock = match OpenOptions::new().read(true).open(&path) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Error::NotRunning),
        Err(reason) => return Err(Error::Unusable { path, reason }),
    };
    // If even a shared lock is granted, no server holds the lock.
    if flock(&lock, FlockOperation::NonBlockingLockShared).is_ok() {
        return Err(Error::NotRunning);
    }
    read_address(folder, disk)?.ok_or(Error::NotRunning)
}

fn read_address(folder: &Path, disk: &dyn Disk) -> Result<Option<Address>, Error> {
    let path = address_file(folder);
    match disk.read(&path, MAX_BYTES) {
        Ok(body) => Ok(serde_json::from_slice(&body).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(reason) => Err(Error::Unusable { path, reason }),
    }
}

fn address_file(folder: &Path) -> PathBuf {
    folder.join("address.json")
}

fn open_lock(folder: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(folder.join("lock"))
}
