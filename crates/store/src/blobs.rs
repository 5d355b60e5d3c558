//! Content-addressed values in a folder: `blobs/ab/abcdef…`.
//!
//! A file that has the name of a blob is always complete ([`replace_file`]).
//!
//! The mtime of a file says when its blob was last put. A lock on the folder serializes "find a
//! blob and refresh its mtime" with "find it old and remove it" (P8).

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, OFlags, flock};
use segno_core::digest::Digest;
use segno_core::fault::{Point, point};
use segno_core::ports::{Access, Clock, Disk, Stage, replace_file};
use segno_core::store::{self, Error, Finding, Reply, Severity, Swept};
use segno_core::time::Timestamp;

use crate::home::{Home, io_error, is_full};

/// The longest blob that is read back, whatever its file claims (P10).
const LONGEST: u64 = 256 * 1024 * 1024;

/// A folder of blobs.
pub struct BlobFolder {
    root: PathBuf,
    home: Home,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    next: AtomicU64,
}

impl BlobFolder {
    /// The blobs of a home folder.
    pub fn new(home: &Home, clock: Arc<dyn Clock>) -> Self {
        Self {
            root: home.blobs(),
            home: home.clone(),
            clock,
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
        if self.is_intact(&path, digest) {
            return Ok(digest);
        }
        let folder = path.parent().expect("a blob's path has two parents");
        self.disk.create_folder(folder, Access::Private)?;
        self.disk.sync_folder(&self.root)?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let draft = folder.join(format!("draft-{}-{number}", std::process::id()));
        point(Point::BlobBeforeSync);
        let reached = |stage| match stage {
            Stage::Drafted => {
                // If this fails, the mtime that the file system sets is right, too.
                let _ = self.refresh_mtime(&draft);
                point(Point::BlobBeforeRename);
            }
            Stage::Renamed => point(Point::BlobAfterRename),
        };
        replace_file(&*self.disk, &draft, &path, bytes, Access::Private, reached)?;
        Ok(digest)
    }

    /// Whether the blob exists and is intact; if so, its mtime is refreshed.
    fn is_intact(&self, path: &Path, digest: Digest) -> bool {
        if !path.exists() {
            return false;
        }
        let Ok(_lock) = self.lock(FlockOperation::LockShared) else {
            return false;
        };
        let read = self.disk.read(path, LONGEST);
        read.is_ok_and(|there| Digest::of(&there) == digest) && self.refresh_mtime(path).is_ok()
    }

    fn refresh_mtime(&self, path: &Path) -> io::Result<()> {
        let millis = u64::try_from(self.clock.now().0).unwrap_or(0);
        let file = OpenOptions::new()
            .write(true)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
            .open(path)?;
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_millis(millis))
    }

    /// Locks the folder until the returned file is dropped or the process ends.
    fn lock(&self, operation: FlockOperation) -> io::Result<File> {
        let folder = OpenOptions::new().read(true).open(&self.root)?;
        flock(&folder, operation)?;
        Ok(folder)
    }

    /// Removes a file that is still older than `before`. Returns its length.
    fn remove_old(&self, file: &Path, before: Timestamp) -> io::Result<Option<u64>> {
        let _lock = self.lock(FlockOperation::LockExclusive)?;
        let metadata = match fs::symlink_metadata(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let since = metadata.modified()?.duration_since(SystemTime::UNIX_EPOCH);
        let millis = since.map_or(0, |since| since.as_millis());
        if i64::try_from(millis).unwrap_or(i64::MAX) >= before.0 {
            return Ok(None);
        }
        self.disk.remove(file)?;
        Ok(Some(metadata.len()))
    }

    fn remove_all_old(&self, kept: &BTreeSet<Digest>, before: Timestamp) -> io::Result<Swept> {
        let mut swept = Swept::default();
        for file in self.files()? {
            let name = file.file_name().and_then(|name| name.to_str());
            let digest: Option<Digest> = name.and_then(|name| name.parse().ok());
            let is_draft = name.is_some_and(|name| name.starts_with("draft-"));
            let is_blob = digest.is_some_and(|digest| self.path(digest) == file);
            if digest.is_some_and(|digest| kept.contains(&digest)) || !(is_blob || is_draft) {
                continue;
            }
            if let Some(bytes) = self.remove_old(&file, before)? {
                swept.blobs += u64::from(is_blob);
                swept.bytes += bytes;
            }
        }
        Ok(swept)
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
                    io_error(&self.root, &error)
                }
                _ => damaged(error.to_string()),
            })?;
        // P9: verified before every use.
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

    /// Reports files that are not blobs under their own name.
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
                let problem = "is an unfinished blob of a killed run; nothing refers to it";
                findings.push(finding(
                    file.display().to_string(),
                    problem,
                    Severity::Notice,
                ));
            } else if name.parse().is_ok_and(|digest| self.path(digest) == file) {
                // The caller that knows the references verifies the content of blobs.
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

impl store::Blobs for BlobFolder {
    fn put(&self, bytes: Vec<u8>) -> Reply<'_, Digest> {
        Box::pin(async move {
            let written = self.write(&bytes);
            let full = matches!(&written, Err(error) if is_full(error));
            // An answer that was paid for is worth using the reserve.
            let written = if full && self.home.use_reserve() {
                self.write(&bytes)
            } else {
                written
            };
            written.map_err(|error| io_error(&self.root, &error))
        })
    }

    fn get(&self, digest: Digest) -> Reply<'_, Vec<u8>> {
        Box::pin(async move { self.read(digest) })
    }

    fn digests(&self) -> Reply<'_, Vec<Digest>> {
        Box::pin(async move {
            let files = self.files().map_err(|error| io_error(&self.root, &error))?;
            let digest = |file: &PathBuf| file.file_name()?.to_str()?.parse().ok();
            Ok(files.iter().filter_map(digest).collect())
        })
    }

    fn sweep(&self, kept: BTreeSet<Digest>, before: Timestamp) -> Reply<'_, Swept> {
        Box::pin(async move {
            self.remove_all_old(&kept, before)
                .map_err(|error| io_error(&self.root, &error))
        })
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the tests damage files and plant others"
)]
mod tests {
    use segno_core::store::Blobs;
    use segno_testkit::clock::ManualClock;
    use tempfile::TempDir;

    use super::*;
    use crate::LocalDisk;

    const START: i64 = 1_794_738_089_000;

    fn blobs() -> (TempDir, Arc<ManualClock>, BlobFolder) {
        let (folder, clock) = (TempDir::new().unwrap(), Arc::<ManualClock>::default());
        let home = Home::open(folder.path().join("home"), Arc::new(LocalDisk)).unwrap();
        let blobs = BlobFolder::new(&home, clock.clone());
        (folder, clock, blobs)
    }

    fn modified(path: &Path) -> i64 {
        let since = path.metadata().unwrap().modified().unwrap();
        let since = since.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        i64::try_from(since.as_millis()).unwrap()
    }

    #[tokio::test]
    async fn putting_a_blob_again_refreshes_it() {
        let (_folder, clock, blobs) = blobs();
        let digest = blobs.put(b"x".to_vec()).await.unwrap();
        let path = blobs.path(digest);
        assert_eq!(modified(&path), START);
        clock.advance(5000);
        assert_eq!(blobs.put(b"x".to_vec()).await.unwrap(), digest);
        assert_eq!(modified(&path), START + 5000);
        assert_eq!(blobs.digests().await.unwrap(), [digest]);
        assert_eq!(blobs.files().unwrap(), [path]);
    }

    #[tokio::test]
    async fn damaged_blob_is_refused_and_replaced_by_the_next_put() {
        let (_folder, _clock, blobs) = blobs();
        let digest = blobs.put(b"content".to_vec()).await.unwrap();
        fs::write(blobs.path(digest), b"cOntent").unwrap();
        let object = format!("blob {digest}");
        let reason = "its 7 bytes do not match its name".to_owned();
        let damaged = Error::Damaged { object, reason };
        assert_eq!(blobs.get(digest).await, Err(damaged));
        blobs.put(b"content".to_vec()).await.unwrap();
        assert_eq!(blobs.get(digest).await.unwrap(), b"content");
        let missing = Digest::of(b"missing");
        assert_eq!(blobs.get(missing).await, Err(Error::NoBlob(missing)));
    }

    #[test]
    fn what_is_not_a_file_is_damage() {
        let (_folder, _clock, blobs) = blobs();
        let digest = Digest::of(b"x");
        fs::create_dir_all(blobs.path(digest)).unwrap();
        assert!(matches!(blobs.read(digest), Err(Error::Damaged { .. })));
    }

    #[tokio::test]
    async fn sweep_deletes_old_blobs_and_drafts_only() {
        let (_folder, clock, blobs) = blobs();
        let old = blobs.put(b"old".to_vec()).await.unwrap();
        let kept = blobs.put(b"kept".to_vec()).await.unwrap();
        let folder = blobs.path(old).parent().unwrap().to_owned();
        // A blob of another folder, and a file that someone else put here.
        let elsewhere = Digest::of(b"elsewhere").to_string();
        let strange = [folder.join("notes.txt"), folder.join(elsewhere)];
        let draft = folder.join("draft-7-0");
        for file in strange.iter().chain([&draft]) {
            fs::write(file, b"four").unwrap();
            blobs.refresh_mtime(file).unwrap();
        }
        clock.advance(1);
        let young = blobs.put(b"young".to_vec()).await.unwrap();
        let sweep = |before| blobs.sweep(BTreeSet::from([kept]), Timestamp(before));
        assert_eq!(sweep(START).await.unwrap(), Swept::default());
        let swept = Swept { blobs: 1, bytes: 7 };
        assert_eq!(sweep(START + 1).await.unwrap(), swept);
        assert!(strange.iter().all(|file| file.exists()));
        assert!(!draft.exists() && !blobs.path(old).exists());
        assert!(blobs.path(kept).exists() && blobs.path(young).exists());
    }

    #[tokio::test]
    async fn examination_names_what_is_not_a_blob() {
        let (_folder, _clock, blobs) = blobs();
        let digest = blobs.put(b"x".to_vec()).await.unwrap();
        assert_eq!(blobs.examine(), []);
        let folder = blobs.path(digest).parent().unwrap().to_owned();
        let misplaced = folder.join(Digest::of(b"other").to_string());
        for name in ["draft-7-0", "notes.txt"] {
            fs::write(folder.join(name), b"x").unwrap();
        }
        fs::write(&misplaced, b"x").unwrap();
        let mut found: Vec<_> = blobs
            .examine()
            .into_iter()
            .map(|finding| (PathBuf::from(finding.object), finding.problem))
            .collect();
        found.sort();
        let problem = |path: PathBuf, problem: &str| (path, problem.to_owned());
        let unfinished = "is an unfinished blob of a killed run; nothing refers to it";
        let mut expected = [
            problem(misplaced, "is not a blob"),
            problem(folder.join("draft-7-0"), unfinished),
            problem(folder.join("notes.txt"), "is not a blob"),
        ];
        expected.sort();
        assert_eq!(found, expected);
    }
}
