//! Imports an archive into the snapshot store.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use segno_core::digest::Digest;

use crate::archive::members::{Member, Members, What, refuse};
use crate::archive::tree::Tree;
use crate::archive::{Archive, ImportMode, Limits};
use crate::capture::summary;
use crate::chunk::{self, LONGEST, WHOLE};
use crate::entry::{Chunk, Entry, Kind};
use crate::error::Error;
use crate::files;
use crate::manifest::{Manifest, bytes, order};
use crate::pack::{Packer, StoredChunks};
use crate::request::{CaptureReport, Progress};
use crate::snapshot_store::SnapshotStore;

/// The largest window of the decoder, as a power of two: 32 MiB. `tar --zstd` and all usual levels
/// stay below it; more would cost memory (P10).
const WINDOW: u32 = 25;

impl SnapshotStore {
    /// Makes a snapshot of an archive. The snapshot is durable and listed on return, unless the
    /// archive is only checked. Nothing is unpacked anywhere else, and nothing is listed unless the
    /// whole archive could be read and a capture could have written it. Progress is reported in
    /// bytes of the archive.
    pub fn import_archive(
        &self,
        archive: &Archive<'_>,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<CaptureReport, Error> {
        let _lock = self.lock_shared()?;
        let known = match archive.mode {
            ImportMode::Store => StoredChunks::new(self.usable_packs()?),
            ImportMode::VerifyOnly => StoredChunks::default(),
        };
        let mut sink = Sink(match archive.mode {
            ImportMode::Store => Some(self.packer(&known)?),
            ImportMode::VerifyOnly => None,
        });
        let (manifest, digest) = read(archive, &mut sink, progress)?;
        let whole = manifest.encode();
        let snapshot = Digest::of(&whole);
        check(archive, &manifest, digest, snapshot)?;
        let mut stored = 0;
        if let Some(packer) = sink.0 {
            // P4: everything that the manifest references is durable before the manifest is
            // written.
            stored = packer.finish()?.wait()?;
            if !self.is_listed(snapshot) {
                stored += self.store_whole_manifest(snapshot, &whole)?;
            }
            // This also refreshes the timestamp of an existing snapshot, which is about to be
            // referenced.
            self.write_head(snapshot)?;
        }
        let files = manifest.entries.len() as u64;
        Ok(summary(snapshot, manifest, files, stored))
    }
}

/// Checks the expected digests, and that the snapshot can be restored.
fn check(
    archive: &Archive<'_>,
    manifest: &Manifest,
    digest: Digest,
    snapshot: Digest,
) -> Result<(), Error> {
    let broken = |reason: &str| {
        Err(Error::BrokenArchive {
            reason: reason.to_owned(),
        })
    };
    if archive.digest.is_some_and(|wanted| wanted != digest) {
        return broken("its digest does not match: it was changed after it was written");
    }
    if let Err(wrong) = manifest.check() {
        return broken(wrong.0);
    }
    if archive.snapshot.is_some_and(|wanted| wanted != snapshot) {
        return broken("its files differ from those of the checkpoint");
    }
    Ok(())
}

/// Where content is stored; nowhere if the archive is only checked.
pub(super) struct Sink<'a>(pub(super) Option<Packer<'a>>);

impl Sink<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<Chunk, Error> {
        match &mut self.0 {
            Some(packer) => packer.put(bytes, || None),
            None => Ok(Chunk {
                digest: Digest::of(bytes),
                length: u32::try_from(bytes.len()).expect("a chunk has at most 1 MiB"),
            }),
        }
    }
}

/// Reads all of an archive. Returns its manifest and the digest of its bytes.
fn read(
    archive: &Archive<'_>,
    sink: &mut Sink<'_>,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<(Manifest, Digest), Error> {
    let passed = Cell::new(0);
    let mut file = HashingReader::open(archive.from, &passed)?;
    let length = file.length;
    let broken = |error: io::Error| Error::BrokenArchive {
        reason: error.to_string(),
    };
    let mut decoder = zstd::stream::read::Decoder::with_buffer(BufReader::with_capacity(
        zstd::zstd_safe::DCtx::in_size(),
        &mut file,
    ))
    .map_err(broken)?;
    decoder.window_log_max(WINDOW).map_err(broken)?;
    let manifest = unpack(decoder, archive.limits, sink, &|| {
        progress(Progress {
            files: passed.get(),
            of: length,
            bytes: passed.get(),
        });
    })?;
    Ok((manifest, file.digest()))
}

/// Reads an uncompressed archive, and calls `tick` now and then.
pub(super) fn unpack(
    source: impl Read,
    limits: Limits,
    sink: &mut Sink<'_>,
    tick: &dyn Fn(),
) -> Result<Manifest, Error> {
    let mut members = Members::new(source, limits);
    let mut tree = Tree::new(limits);
    let mut buffer = Vec::new();
    let mut files = 0_u64;
    while let Some(member) = members.next()? {
        let entry = store_member(member, &mut members, &mut tree, sink, &mut buffer)?;
        tree.add(entry)?;
        files += 1;
        if files.is_multiple_of(256) {
            tick();
        }
    }
    let mut skipped = members.skipped;
    skipped.sort_by(|left, right| order(&left.path, &right.path));
    skipped.dedup_by(|left, right| left.path == right.path);
    tree.finish(skipped)
}

/// Stores the content of a member. Returns its entry.
fn store_member(
    member: Member,
    members: &mut Members<impl Read>,
    tree: &mut Tree,
    sink: &mut Sink<'_>,
    buffer: &mut Vec<u8>,
) -> Result<Entry, Error> {
    let sane = |name: &std::ffi::OsStr, value: &[u8]| name.len() <= 255 && value.len() <= 65_536;
    if !member
        .attributes
        .iter()
        .all(|(name, value)| sane(name, value))
    {
        let reason = "an extended attribute is too long";
        return Err(refuse(bytes(&member.path), reason));
    }
    let kind = match member.what {
        What::Folder => Kind::Folder,
        What::Link { target } => Kind::Link { target },
        What::HardLink { of } => Kind::HardLink { of },
        What::File { size, unstable } => {
            tree.reserve_chunks(size)?;
            Kind::File {
                size,
                content: content(size, members, sink, buffer)?,
                unstable,
            }
        }
    };
    Ok(Entry {
        path: member.path,
        mode: member.mode,
        modified: member.modified,
        attributes: member.attributes,
        kind,
    })
}

/// Splits content as a capture does, so that the same file has the same chunks.
fn content(
    size: u64,
    members: &mut Members<impl Read>,
    sink: &mut Sink<'_>,
    buffer: &mut Vec<u8>,
) -> Result<Vec<Chunk>, Error> {
    let mut content = Vec::new();
    let mut left = size;
    buffer.clear();
    while left > 0 || !buffer.is_empty() {
        let budget = 4 * LONGEST - buffer.len();
        left -= members.content(budget, buffer)? as u64;
        let mut at = 0;
        while at < buffer.len() && (left == 0 || buffer.len() - at >= LONGEST) {
            let rest = &buffer[at..];
            let cut = if size < WHOLE {
                rest.len()
            } else {
                chunk::cut(rest)
            };
            content.push(sink.put(&rest[..cut])?);
            at += cut;
        }
        buffer.drain(..at);
    }
    Ok(content)
}

/// A file whose bytes are counted and hashed as they are read.
struct HashingReader<'a> {
    file: File,
    length: u64,
    passed: &'a Cell<u64>,
    hasher: blake3::Hasher,
}

impl<'a> HashingReader<'a> {
    fn open(path: &Path, passed: &'a Cell<u64>) -> Result<Self, Error> {
        let to_error = |error| Error::at(path, error);
        let file = files::open(path).map_err(to_error)?;
        Ok(Self {
            length: file.metadata().map_err(to_error)?.len(),
            file,
            passed,
            hasher: blake3::Hasher::new(),
        })
    }

    fn digest(&self) -> Digest {
        let hash = self.hasher.finalize();
        Digest::from_bytes(hash.as_bytes()).expect("a hash has the length of a digest")
    }
}

impl Read for &mut HashingReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        self.passed.set(self.passed.get() + read as u64);
        Ok(read)
    }
}
