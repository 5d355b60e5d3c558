//! Values kept by their content in a folder: `blobs/ab/abcdef…`.
//!
//! A blob is written beside its place, made durable, renamed, and the folder made durable, in that
//! order: under its name there is never anything but the whole value.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use segno_core::digest::Digest;
use segno_core::fault::{Point, point};
use segno_core::ports::{Access, Disk};
use segno_core::store::{self, Error, Finding, Reply, Severity};

use crate::home::{Home, is_full, trouble};

/// The longest blob that is read back, whatever its file claims (P10).
const LONGEST: u64 = 256 * 1024 * 1024;

/// A folder of blobs.
pub struct Folder {
    root: PathBuf,
    home: Home,
    disk: Arc<dyn Disk>,
    next: AtomicU64,
}

impl Folder {
    /// The blobs of a home.
    pub fn new(home: &Home) -> Self {
        Self {
            root: home.blobs(),
            home: home.clone(),
            disk: Arc::clone(home.disk()),
            next: AtomicU64::new(0),
        }
    }

    fn path(&self, digest: Digest) -> PathBuf {
        let name = digest.to_string();
        self.root.join(&name[..2]).join(name)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<Digest> {
        let digest = Digest::of(bytes);
        let path = self.path(digest);
        if self
            .disk
            .read(&path, LONGEST)
            .is_ok_and(|there| Digest::of(&there) == digest)
        {
            return Ok(digest);
        }
        let folder = path.parent().expect("a blob's path has two parents");
        self.disk.create_folder(folder, Access::Private)?;
        self.disk.sync_folder(&self.root)?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let draft = folder.join(format!("draft-{}-{number}", std::process::id()));
        point(Point::BlobBeforeSync);
        // A draft of the same name is left from a process that had our number and was killed.
        self.disk.remove(&draft)?;
        let written = self
            .disk
            .create(&draft, bytes, Access::Private)
            .and_then(|()| {
                point(Point::BlobBeforeRename);
                self.disk.rename(&draft, &path)?;
                point(Point::BlobAfterRename);
                self.disk.sync_folder(folder)
            });
        if written.is_err() {
            let _ = self.disk.remove(&draft);
        }
        written.map(|()| digest)
    }

    fn read(&self, digest: Digest) -> Result<Vec<u8>, Error> {
        let damaged = |reason: String| Error::Damaged {
            object: format!("blob {digest}"),
            reason,
        };
        let bytes = self
            .disk
            .read(&self.path(digest), LONGEST)
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => Error::NoBlob(digest),
                io::ErrorKind::PermissionDenied | io::ErrorKind::Interrupted => {
                    trouble(&self.root, &error)
                }
                _ => damaged(error.to_string()),
            })?;
        // P9: verified before use, every time.
        if Digest::of(&bytes) == digest {
            Ok(bytes)
        } else {
            Err(damaged(format!(
                "its {} bytes do not match its name",
                bytes.len()
            )))
        }
    }

    fn files(&self) -> io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for folder in self.disk.list(&self.root)? {
            match self.disk.list(&folder) {
                Ok(inside) => files.extend(inside),
                Err(_) => files.push(folder),
            }
        }
        Ok(files)
    }

    /// Files that are not blobs under their own name.
    pub(crate) fn examine(&self) -> Vec<Finding> {
        let finding = |object: String, problem: &str, severity| Finding {
            session: None,
            object,
            problem: problem.to_owned(),
            severity,
        };
        let Ok(files) = self.files() else {
            return vec![finding(
                self.root.display().to_string(),
                "cannot be listed",
                Severity::Damage,
            )];
        };
        let mut findings = Vec::new();
        for file in files {
            let name = file
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if name.starts_with("draft-") {
                let problem = "an unfinished blob of a run that was killed; nothing refers to it";
                findings.push(finding(
                    file.display().to_string(),
                    problem,
                    Severity::Notice,
                ));
            } else if name.parse().is_ok_and(|digest| self.path(digest) == file) {
                // Whether a blob is whole is asked by whoever knows who refers to it.
            } else {
                findings.push(finding(
                    file.display().to_string(),
                    "is not a blob",
                    Severity::Notice,
                ));
            }
        }
        findings
    }
}

impl store::Blobs for Folder {
    fn put(&self, bytes: Vec<u8>) -> Reply<'_, Digest> {
        Box::pin(async move {
            let written = self.write(&bytes);
            let full = matches!(&written, Err(error) if is_full(error));
            // An answer that was paid for is worth the room that was set aside.
            let written = if full && self.home.use_reserve() {
                self.write(&bytes)
            } else {
                written
            };
            written.map_err(|error| trouble(&self.root, &error))
        })
    }

    fn get(&self, digest: Digest) -> Reply<'_, Vec<u8>> {
        Box::pin(async move { self.read(digest) })
    }

    fn digests(&self) -> Reply<'_, Vec<Digest>> {
        Box::pin(async move {
            let files = self.files().map_err(|error| trouble(&self.root, &error))?;
            let digest = |file: &PathBuf| file.file_name()?.to_str()?.parse().ok();
            Ok(files.iter().filter_map(digest).collect())
        })
    }
}
