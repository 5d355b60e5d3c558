//! File operations: durable, private, and never through a link that someone else created.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use segno_core::ports::{Access, Disk, folder_of};

/// The disk of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalDisk;

#[expect(
    clippy::disallowed_methods,
    reason = "this is the implementation that the lint points to"
)]
impl Disk for LocalDisk {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        // O_NONBLOCK: a FIFO in place of a file must not block us.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        // Without this capacity, reading would begin with 32 bytes. One byte more, because the end
        // is noticed only if there is space behind it.
        let room = found.len().min(limit).saturating_add(1);
        let mut content = Vec::with_capacity(usize::try_from(room).unwrap_or(0));
        file.take(limit.saturating_add(1))
            .read_to_end(&mut content)?;
        if content.len() as u64 > limit {
            let message = format!("longer than {limit} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        Ok(content)
    }

    fn append(&self, path: &Path, content: &[u8], access: Access) -> io::Result<()> {
        let is_new = !path.exists();
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(file_mode(access))
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(path)?;
        file.write_all(content)?;
        file.sync_all()?;
        if is_new {
            self.sync_folder(folder_of(path))?;
        }
        Ok(())
    }

    fn create(&self, path: &Path, content: &[u8], access: Access) -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(file_mode(access))
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(path)?;
        file.write_all(content)?;
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        // Unlike a rename, a link never replaces an existing file.
        fs::hard_link(from, to)?;
        self.remove(from)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn create_folder(&self, path: &Path, access: Access) -> io::Result<()> {
        let mode = if access == Access::Private {
            0o700
        } else {
            0o777
        };
        DirBuilder::new().recursive(true).mode(mode).create(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        match fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let mut entries = match fs::read_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?
                .map(|entry| entry.map(|entry| entry.path()))
                .collect::<io::Result<Vec<_>>>()?,
        };
        // All are in one folder: comparing the paths as strings suffices.
        entries.sort_unstable_by(|left, right| left.as_os_str().cmp(right.as_os_str()));
        Ok(entries)
    }
}

fn file_mode(access: Access) -> u32 {
    match access {
        Access::Private => 0o600,
        Access::Shared => 0o666,
    }
}

#[cfg(test)]
mod tests {
    use segno_core::ports::{Stage, replace_file};
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn replaced_file_is_old_or_new_at_every_stage() {
        let folder = TempDir::new().unwrap();
        let (draft, target) = (folder.path().join("draft"), folder.path().join("file"));
        LocalDisk.create(&target, b"old", Access::Private).unwrap();
        LocalDisk.create(&draft, b"left", Access::Private).unwrap();
        let mut seen = Vec::new();
        replace_file(
            &LocalDisk,
            &draft,
            &target,
            b"new",
            Access::Private,
            |stage| {
                let content = LocalDisk.read(&target, 9).unwrap();
                seen.push((stage, content, draft.exists()));
            },
        )
        .unwrap();
        let expected = [
            (Stage::Drafted, b"old".to_vec(), true),
            (Stage::Renamed, b"new".to_vec(), false),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn failed_replacement_leaves_the_old_file_and_no_draft() {
        let folder = TempDir::new().unwrap();
        let (draft, target) = (folder.path().join("draft"), folder.path().join("file"));
        let inside = target.join("old");
        LocalDisk.create_folder(&target, Access::Private).unwrap();
        LocalDisk.create(&inside, b"old", Access::Private).unwrap();
        // A folder with files cannot be replaced.
        let replaced = replace_file(
            &LocalDisk,
            &draft,
            &target,
            b"new",
            Access::Private,
            |stage| {
                assert_eq!(stage, Stage::Drafted);
            },
        );
        assert!(replaced.is_err());
        assert!(!draft.exists());
        assert_eq!(LocalDisk.read(&inside, 9).unwrap(), b"old");
    }
}
