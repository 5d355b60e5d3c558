//! Files of the store, encrypted if there is a key.
//!
//! Callers do not notice the difference. Files that were written before there was a key stay
//! readable; garbage collection rewrites them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use segno_secrets::cipher::{Cipher, DecryptError, FRAME, FileKey, HEADER, MAGIC, TAG};

use crate::files::{self, Draft, SyncedDraft};
use crate::machine::random_bytes;

/// How files of a store are written and read.
#[derive(Debug, Clone, Default)]
pub(crate) struct EncryptedFiles(Option<Cipher>);

impl EncryptedFiles {
    pub(crate) fn new(cipher: Option<Cipher>) -> Self {
        Self(cipher)
    }

    /// Whether new files are encrypted.
    pub(crate) fn encrypts(&self) -> bool {
        self.0.is_some()
    }

    /// Creates a draft in `folder`.
    pub(crate) fn draft(&self, folder: &Path) -> io::Result<EncryptedDraft> {
        let mut draft = Draft::new(folder)?;
        let frames = match &self.0 {
            None => None,
            Some(cipher) => {
                let mut salt = [0; 32];
                salt[..16].copy_from_slice(&random_bytes()?);
                salt[16..].copy_from_slice(&random_bytes()?);
                let (header, key) = cipher.new_file(salt);
                draft.write(&header)?;
                let (number, frame) = (0, Vec::with_capacity(FRAME + TAG));
                Some(FrameWriter { key, number, frame })
            }
        };
        Ok(EncryptedDraft { draft, frames })
    }

    pub(crate) fn open(&self, path: &Path) -> io::Result<Opened> {
        let file = files::open(path)?;
        let stored = file.metadata()?.len();
        let mut header = [0; HEADER];
        if stored < HEADER as u64 {
            return Ok(Opened::plain(file, stored));
        }
        file.read_exact_at(&mut header, 0)?;
        if header[..8] != *MAGIC {
            return Ok(Opened::plain(file, stored));
        }
        let key = match &self.0 {
            None => Err(DecryptError::NoKey),
            Some(cipher) => cipher.open(&header),
        };
        let key = key.map_err(decrypt_error)?;
        let body = stored - HEADER as u64;
        let frames = body.div_ceil((FRAME + TAG) as u64);
        let length = body.checked_sub(frames * TAG as u64).filter(|_| frames > 0);
        Ok(Opened {
            file,
            length: length.ok_or_else(|| decrypt_error(DecryptError::Damaged))?,
            encryption: Some(EncryptedFrames { key, frames }),
        })
    }

    /// The whole content of a file, if it has at most `limit` bytes.
    pub(crate) fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let opened = self.open(path)?;
        if opened.length > limit {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is too long"));
        }
        let mut content = vec![0; usize::try_from(opened.length).unwrap_or(usize::MAX)];
        opened.read_exact_at(&mut content, 0)?;
        Ok(content)
    }
}

/// Converts a decryption error. Only a missing or a wrong key can be fixed by the user.
fn decrypt_error(shut: DecryptError) -> io::Error {
    let kind = match shut {
        DecryptError::NoKey | DecryptError::OtherKey => io::ErrorKind::PermissionDenied,
        DecryptError::Damaged => io::ErrorKind::InvalidData,
    };
    io::Error::new(kind, shut)
}

/// A file that is being written.
pub(crate) struct EncryptedDraft {
    draft: Draft,
    frames: Option<FrameWriter>,
}

struct FrameWriter {
    key: FileKey,
    number: u64,
    frame: Vec<u8>,
}

impl EncryptedDraft {
    /// Makes this a draft of something that may be lost.
    pub(crate) fn unverified(self) -> Self {
        Self {
            draft: self.draft.unverified(),
            ..self
        }
    }

    pub(crate) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let Some(frames) = &mut self.frames else {
            return self.draft.write(bytes);
        };
        while !bytes.is_empty() {
            // A full frame is written only when more bytes follow, because the last frame is
            // marked.
            if frames.frame.len() == FRAME {
                frames.write(&mut self.draft, false)?;
            }
            let room = FRAME - frames.frame.len();
            let (now, later) = bytes.split_at(bytes.len().min(room));
            frames.frame.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }

    /// Makes the content durable.
    pub(crate) fn sync(self) -> io::Result<SyncedDraft> {
        self.end()?.sync()
    }

    /// Makes the content durable and renames the draft. The name is durable once the folder is
    /// synced. Returns the length of the file.
    pub(crate) fn publish(self, to: &Path) -> io::Result<u64> {
        self.sync()?.publish(to)
    }

    /// Renames the draft without syncing content or name.
    pub(crate) fn publish_unsynced(self, to: &Path) -> io::Result<()> {
        self.end()?.publish_unsynced(to)
    }

    fn end(mut self) -> io::Result<Draft> {
        if let Some(frames) = &mut self.frames {
            frames.write(&mut self.draft, true)?;
        }
        Ok(self.draft)
    }
}

impl FrameWriter {
    fn write(&mut self, draft: &mut Draft, last: bool) -> io::Result<()> {
        self.key.seal(self.number, last, &mut self.frame);
        draft.write(&self.frame)?;
        self.frame.clear();
        self.number += 1;
        Ok(())
    }
}

/// A file that is open for reading.
pub(crate) struct Opened {
    file: File,
    length: u64,
    encryption: Option<EncryptedFrames>,
}

struct EncryptedFrames {
    key: FileKey,
    frames: u64,
}

impl Opened {
    fn plain(file: File, length: u64) -> Self {
        Self {
            file,
            length,
            encryption: None,
        }
    }

    /// The length of its content.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Whether it is encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.encryption.is_some()
    }

    /// Fills `buffer` from the content at offset `at`.
    pub(crate) fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        let Some(encryption) = &self.encryption else {
            return self.file.read_exact_at(buffer, at);
        };
        let end = at.saturating_add(buffer.len() as u64);
        if end > self.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut frame = Vec::with_capacity(FRAME + TAG);
        let mut filled = 0;
        while filled < buffer.len() {
            let place = at + filled as u64;
            let number = place / FRAME as u64;
            let bytes = self.frame(encryption, number, &mut frame)?;
            let from = usize::try_from(place % FRAME as u64).unwrap_or(0);
            let part = bytes.get(from..).unwrap_or_default();
            let length = part.len().min(buffer.len() - filled);
            if length == 0 {
                return Err(decrypt_error(DecryptError::Damaged));
            }
            buffer[filled..filled + length].copy_from_slice(&part[..length]);
            filled += length;
        }
        Ok(())
    }

    fn frame<'a>(
        &self,
        encryption: &EncryptedFrames,
        number: u64,
        frame: &'a mut Vec<u8>,
    ) -> io::Result<&'a [u8]> {
        let last = number + 1 == encryption.frames;
        let held = (self.length - number * FRAME as u64).min(FRAME as u64);
        frame.resize(usize::try_from(held).unwrap_or(FRAME) + TAG, 0);
        let at = HEADER as u64 + number * (FRAME + TAG) as u64;
        self.file.read_exact_at(frame, at)?;
        encryption
            .key
            .unseal(number, last, frame)
            .map_err(decrypt_error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(
        encrypted_files: &EncryptedFiles,
        folder: &Path,
        content: &[u8],
    ) -> std::path::PathBuf {
        let path = folder.join("file");
        let mut draft = encrypted_files.draft(folder).unwrap();
        for part in content.chunks(10_007) {
            draft.write(part).unwrap();
        }
        draft.publish(&path).unwrap();
        path
    }

    #[test]
    fn any_range_of_an_encrypted_file_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let encrypted_files = EncryptedFiles::new(Some(Cipher::new(&[5; 32])));
        for length in [0, 1, FRAME - 1, FRAME, FRAME + 1, 2 * FRAME, 200_000] {
            let content: Vec<u8> = (0..=250).cycle().take(length).collect();
            let path = written(&encrypted_files, folder.path(), &content);
            assert_eq!(encrypted_files.read(&path, 1 << 20).unwrap(), content);
            let opened = encrypted_files.open(&path).unwrap();
            assert_eq!(
                (opened.length(), opened.is_encrypted()),
                (length as u64, true)
            );
            for (from, to) in [(0, 0), (length / 3, length), (length / 2, length / 2 + 1)] {
                let to = to.min(length);
                let mut stretch = vec![0; to - from.min(to)];
                opened.read_exact_at(&mut stretch, from as u64).unwrap();
                assert_eq!(stretch, content[from.min(to)..to]);
            }
            let past = opened.read_exact_at(&mut [0], length as u64);
            assert_eq!(past.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn encrypted_file_needs_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let encrypted_files = EncryptedFiles::new(Some(Cipher::new(&[5; 32])));
        let path = written(&encrypted_files, folder.path(), b"secret");
        for other in [
            EncryptedFiles::default(),
            EncryptedFiles::new(Some(Cipher::new(&[6; 32]))),
        ] {
            let error = other.read(&path, 100).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        }
        let path = written(&EncryptedFiles::default(), folder.path(), b"plain");
        assert_eq!(encrypted_files.read(&path, 100).unwrap(), b"plain");
        assert!(!encrypted_files.open(&path).unwrap().is_encrypted());
    }
}
