//! Exports a snapshot as an archive.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use segno_core::digest::Digest;

use crate::archive::header::{
    self, BLOCK, FILE, FOLDER, GLOBAL, HARD_LINK, Header, LINK, NAME, RECORDS,
};
use crate::archive::{WrittenArchive, excluded, pax};
use crate::entry::{Entry, Kind};
use crate::error::Error;
use crate::files;
use crate::manifest::bytes;
use crate::pack::Cursor;
use crate::request::Progress;
use crate::snapshot_store::SnapshotStore;

const LEVEL: i32 = 3;
/// The name of the block before PAX records.
const RECORDS_NAME: &[u8] = b"././@PaxHeader";

impl SnapshotStore {
    /// Writes a snapshot to a new file, as an archive. The content is durable on return; its name
    /// is durable once the folder is synced. The same snapshot gives the same bytes.
    pub fn write_archive(
        &self,
        snapshot: Digest,
        to: &Path,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<WrittenArchive, Error> {
        // The shared lock keeps others from deleting what is being read.
        let _lock = self.lock_shared()?;
        let manifest = self.manifest(snapshot)?;
        let pack_set = self.pack_set()?;
        let mut cursor = Cursor::new(&pack_set)?;
        let mut out = ArchiveWriter::new(to).map_err(|error| Error::at(to, error))?;
        let to_error = |error: io::Error| Error::at(to, error);
        for comment in excluded::comments(&manifest.skipped) {
            let mut records = Vec::new();
            pax::put(&mut records, b"comment", &comment);
            out.records(GLOBAL, &records).map_err(to_error)?;
        }
        let all = std::iter::once(&manifest.root).chain(&manifest.entries);
        let mut so_far = Progress {
            of: manifest.entries.len() as u64 + 1,
            ..Progress::default()
        };
        for entry in all {
            out.describe(entry).map_err(to_error)?;
            for &chunk in entry.content() {
                let piece = cursor.read(chunk)?;
                out.encoder.write_all(piece).map_err(to_error)?;
            }
            out.pad(entry.size()).map_err(to_error)?;
            so_far.files += 1;
            so_far.bytes += entry.size();
            if so_far.files.is_multiple_of(256) {
                progress(so_far);
            }
        }
        out.finish().map_err(to_error)
    }
}

struct ArchiveWriter {
    encoder: zstd::stream::write::Encoder<'static, Hashed>,
}

impl ArchiveWriter {
    fn new(to: &Path) -> io::Result<Self> {
        let file = BufWriter::with_capacity(1024 * 1024, files::create(to)?);
        let hashed = Hashed {
            file,
            hasher: blake3::Hasher::new(),
            bytes: 0,
        };
        let mut encoder = zstd::stream::write::Encoder::new(hashed, LEVEL)?;
        encoder.include_checksum(true)?;
        Ok(Self { encoder })
    }

    /// Writes what precedes the content of an entry.
    fn describe(&mut self, entry: &Entry) -> io::Result<()> {
        let mut name = [b"./", bytes(&entry.path)].concat();
        let (kind, link): (u8, Vec<u8>) = match &entry.kind {
            Kind::Folder => {
                if name != b"./" {
                    name.push(b'/');
                }
                (FOLDER, Vec::new())
            }
            Kind::File { .. } => (FILE, Vec::new()),
            Kind::Link { target } => (LINK, bytes(target).to_vec()),
            Kind::HardLink { of } => (HARD_LINK, [b"./", bytes(of)].concat()),
        };
        let header = Header {
            name,
            mode: entry.mode,
            size: entry.size(),
            seconds: entry.modified.seconds,
            kind,
            link,
        };
        let records = records(entry, &header);
        if records.len() as u64 > pax::LONGEST {
            let path = entry.path.display();
            let message = format!("`{path}` has attributes that are too long for an archive");
            return Err(io::Error::other(message));
        }
        if !records.is_empty() {
            self.records(RECORDS, &records)?;
        }
        self.encoder.write_all(&header.encode())
    }

    fn records(&mut self, kind: u8, records: &[u8]) -> io::Result<()> {
        let header = Header {
            name: RECORDS_NAME.to_vec(),
            mode: 0o644,
            size: records.len() as u64,
            seconds: 0,
            kind,
            link: Vec::new(),
        };
        self.encoder.write_all(&header.encode())?;
        self.encoder.write_all(records)?;
        self.pad(records.len() as u64)
    }

    fn pad(&mut self, length: u64) -> io::Result<()> {
        let over = usize::try_from(length % BLOCK as u64).unwrap_or(0);
        let missing = if over == 0 { 0 } else { BLOCK - over };
        self.encoder.write_all(&[0; BLOCK][..missing])
    }

    fn finish(mut self) -> io::Result<WrittenArchive> {
        self.encoder.write_all(&[0; 2 * BLOCK])?;
        let Hashed {
            file,
            hasher,
            bytes,
        } = self.encoder.finish()?;
        let file: File = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        let hash = hasher.finalize();
        Ok(WrittenArchive {
            bytes,
            digest: Digest::from_bytes(hash.as_bytes()).expect("a hash has the length of a digest"),
        })
    }
}

/// The PAX records of what does not fit into the header block.
fn records(entry: &Entry, header: &Header) -> Vec<u8> {
    let mut records = Vec::new();
    let is_text = |bytes: &[u8]| std::str::from_utf8(bytes).is_ok();
    let long = |bytes: &[u8]| bytes.len() > NAME;
    let (name, link) = (&header.name, &header.link);
    if (long(name) && !is_text(name)) || (long(link) && !is_text(link)) {
        pax::put(&mut records, b"hdrcharset", b"BINARY");
    }
    if long(name) {
        pax::put(&mut records, b"path", name);
    }
    if long(link) {
        pax::put(&mut records, b"linkpath", link);
    }
    if !header::fits(header.size) {
        pax::put(&mut records, b"size", header.size.to_string().as_bytes());
    }
    let seconds = u64::try_from(header.seconds);
    if entry.modified.nanos != 0 || !seconds.is_ok_and(header::fits) {
        let time = pax::format_time(entry.modified);
        pax::put(&mut records, b"mtime", time.as_bytes());
    }
    if matches!(entry.kind, Kind::File { unstable: true, .. }) {
        pax::put(&mut records, b"comment", excluded::UNSTABLE);
    }
    for (name, value) in &entry.attributes {
        let key = [b"SCHILY.xattr.", &*attribute(name)].concat();
        pax::put(&mut records, &key, value);
    }
    records
}

/// The name of an attribute; characters with a meaning in records are escaped as GNU tar does.
fn attribute(name: &OsStr) -> Vec<u8> {
    let mut written = Vec::new();
    for byte in name.as_bytes() {
        match byte {
            b'%' => written.extend_from_slice(b"%25"),
            b'=' => written.extend_from_slice(b"%3D"),
            plain => written.push(*plain),
        }
    }
    written
}

/// A file whose bytes are hashed as they are written.
struct Hashed {
    file: BufWriter<File>,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl Write for Hashed {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.file.write_all(buffer)?;
        self.hasher.update(buffer);
        self.bytes += buffer.len() as u64;
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
