//! The content of a snapshot as bytes. The BLAKE3 hash of these bytes is the snapshot's name, so
//! the same tree has the same name, however it is stored.
//!
//! A manifest comes from a disk that others may have written to. It is checked before it is used:
//! valid names, folders before their content, nothing twice, nothing below a link, sizes that add
//! up. A manifest that passes can be restored without leaving the target.

use std::cmp::Ordering;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use segno_core::digest::Digest;

use crate::chunk::LONGEST;
use crate::entry::{Chunk, Entry, EntryType, Kind, Skipped, Why};
use crate::wire::{Broken, Reader, Writer};

pub(crate) const VERSION: u8 = 1;
/// The longest path and name that Linux accepts.
pub(crate) const PATH: usize = 4095;
pub(crate) const NAME: usize = 255;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// The folder itself; its path is empty.
    pub(crate) root: Entry,
    /// Sorted by [`order`], folders before their content.
    pub(crate) entries: Vec<Entry>,
    /// The excluded paths, sorted the same way.
    pub(crate) skipped: Vec<Skipped>,
}

/// The order of entries: a folder, then everything in it, then what comes after it.
pub(crate) fn order(left: &Path, right: &Path) -> Ordering {
    order_of(bytes(left), bytes(right))
}

/// Like [`order`], for paths as bytes.
pub(crate) fn order_of(left: &[u8], right: &[u8]) -> Ordering {
    let rank = |byte: u8| if byte == b'/' { 0 } else { byte };
    match left.iter().zip(right).find(|(left, right)| left != right) {
        Some((&left, &right)) => rank(left).cmp(&rank(right)),
        None => left.len().cmp(&right.len()),
    }
}

pub(crate) fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

pub(crate) fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

impl Manifest {
    /// The bytes whose digest names the snapshot.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer(Vec::with_capacity(self.entries.len() * 72 + 64));
        writer.byte(VERSION);
        write_facts(&mut writer, &self.root);
        write_entries(&mut writer, self.entries.iter());
        write_skipped(&mut writer, &self.skipped);
        writer.0
    }

    /// Parses what [`Manifest::encode`] wrote, and checks it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Broken> {
        let mut reader = Reader(bytes);
        if reader.byte()? != VERSION {
            return Err(Broken("its version is unknown"));
        }
        let root = read_root(&mut reader)?;
        let entries = read_entries(&mut reader)?;
        let skipped = read_skipped(&mut reader)?;
        reader.end()?;
        let manifest = Self {
            root,
            entries,
            skipped,
        };
        manifest.check()?;
        Ok(manifest)
    }

    pub(crate) fn find(&self, path: &Path) -> Option<&Entry> {
        let found = self
            .entries
            .binary_search_by(|entry| order(&entry.path, path));
        found.ok().map(|at| &self.entries[at])
    }

    fn leads(&self, path: &Path) -> bool {
        let leader = self.find(path).map(|entry| &entry.kind);
        matches!(leader, Some(Kind::File { .. }))
    }

    /// Rejects what no capture writes and a restore must not follow.
    pub(crate) fn check(&self) -> Result<(), Broken> {
        let mut open: Vec<&Path> = Vec::new();
        let mut last: Option<&Path> = None;
        for entry in &self.entries {
            check_entry(entry, |path| self.leads(path))?;
            if last.is_some_and(|last| order(last, &entry.path) != Ordering::Less) {
                return Err(Broken("its entries are unordered or duplicate"));
            }
            last = Some(&entry.path);
            let parent = entry.path.parent().unwrap_or(Path::new(""));
            while open.last().is_some_and(|folder| *folder != parent) {
                open.pop();
            }
            if open.is_empty() && parent != Path::new("") {
                return Err(Broken("the parent of an entry is not a folder"));
            }
            if entry.kind == Kind::Folder {
                open.push(&entry.path);
            }
        }
        self.skipped.iter().try_for_each(|skipped| {
            if skipped.path.as_os_str().is_empty() {
                return Err(Broken("the root is listed as excluded"));
            }
            check_path(&skipped.path)
        })
    }
}

/// Rejects an entry that no capture writes. `leads` says whether a path is that of a file.
pub(crate) fn check_entry(entry: &Entry, leads: impl FnOnce(&Path) -> bool) -> Result<(), Broken> {
    check_path(&entry.path)?;
    check_facts(entry)?;
    match &entry.kind {
        Kind::Folder => Ok(()),
        Kind::File { size, content, .. } => check_content(*size, content),
        Kind::Link { target } => {
            let target = bytes(target);
            if target.is_empty() || target.len() > PATH || target.contains(&0) {
                return Err(Broken("a link has an invalid target"));
            }
            Ok(())
        }
        Kind::HardLink { of } => {
            if !leads(of) || order(of, &entry.path) != Ordering::Less {
                return Err(Broken("a hard link has no target file"));
            }
            Ok(())
        }
    }
}

fn check_facts(entry: &Entry) -> Result<(), Broken> {
    if entry.mode & !0o7777 != 0 {
        return Err(Broken("a mode has invalid bits"));
    }
    let sane = |(name, value): &(OsString, Vec<u8>)| {
        let name = name.as_bytes();
        name.starts_with(b"user.")
            && name.len() <= NAME
            && !name.contains(&0)
            && value.len() <= 65_536
    };
    if !entry.attributes.iter().all(sane) {
        return Err(Broken("an extended attribute is invalid"));
    }
    Ok(())
}

fn check_content(size: u64, content: &[Chunk]) -> Result<(), Broken> {
    let mut sum = 0_u64;
    for chunk in content {
        if chunk.length == 0 || chunk.length as usize > LONGEST {
            return Err(Broken("a chunk is empty or too long"));
        }
        sum += u64::from(chunk.length);
    }
    if sum != size || i64::try_from(size).is_err() {
        return Err(Broken("the chunks of a file do not add up to its size"));
    }
    Ok(())
}

/// Checks that a path stays below its root and consists of valid names.
fn check_path(path: &Path) -> Result<(), Broken> {
    let bytes = bytes(path);
    let good = |name: &[u8]| {
        !name.is_empty()
            && name.len() <= NAME
            && name != b"."
            && name != b".."
            && !name.contains(&0)
    };
    if bytes.len() > PATH || !bytes.split(|&byte| byte == b'/').all(good) {
        return Err(Broken("a path is invalid or leads out of the folder"));
    }
    Ok(())
}

const FOLDER: u8 = 0;
const FILE: u8 = 1;
const LINK: u8 = 2;
const HARD_LINK: u8 = 3;
const UNSTABLE: u8 = 0x10;
const ATTRIBUTES: u8 = 0x20;

pub(crate) fn write_facts(writer: &mut Writer, entry: &Entry) {
    let kind = match &entry.kind {
        Kind::Folder => FOLDER,
        Kind::File { unstable: true, .. } => FILE | UNSTABLE,
        Kind::File { .. } => FILE,
        Kind::Link { .. } => LINK,
        Kind::HardLink { .. } => HARD_LINK,
    };
    let attributes = if entry.attributes.is_empty() {
        0
    } else {
        ATTRIBUTES
    };
    writer.byte(kind | attributes);
    writer.number(u64::from(entry.mode));
    writer.file_time(entry.modified);
    if attributes != 0 {
        write_attributes(writer, &entry.attributes);
    }
    match &entry.kind {
        Kind::Folder => {}
        Kind::File { size, content, .. } => {
            writer.number(*size);
            write_content(writer, content);
        }
        Kind::Link { target } => writer.bytes(bytes(target)),
        Kind::HardLink { of } => writer.bytes(bytes(of)),
    }
}

pub(crate) fn write_attributes(writer: &mut Writer, attributes: &[(OsString, Vec<u8>)]) {
    writer.size(attributes.len());
    for (name, value) in attributes {
        writer.bytes(name.as_bytes());
        writer.bytes(value);
    }
}

pub(crate) fn read_attributes(reader: &mut Reader<'_>) -> Result<Vec<(OsString, Vec<u8>)>, Broken> {
    let mut attributes = Vec::new();
    for _ in 0..reader.count(2)? {
        let name = OsStr::from_bytes(reader.bytes()?).to_owned();
        attributes.push((name, reader.bytes()?.to_vec()));
    }
    Ok(attributes)
}

pub(crate) fn write_content(writer: &mut Writer, content: &[Chunk]) {
    writer.size(content.len());
    for chunk in content {
        writer.number(u64::from(chunk.length));
        writer.digest(&chunk.digest);
    }
}

pub(crate) fn read_content(reader: &mut Reader<'_>) -> Result<Vec<Chunk>, Broken> {
    let count = reader.count(33)?;
    let mut content = Vec::with_capacity(count);
    for _ in 0..count {
        let length = reader.small()?;
        let digest = reader.digest()?;
        content.push(Chunk { digest, length });
    }
    Ok(content)
}

/// The extended attributes in an encoded entry; most have none.
pub(crate) fn attributes_in(encoded: &[u8]) -> Result<Vec<(OsString, Vec<u8>)>, Broken> {
    let mut reader = Reader(encoded);
    if reader.byte()? & ATTRIBUTES == 0 {
        return Ok(Vec::new());
    }
    reader.small()?;
    reader.file_time()?;
    read_attributes(&mut reader)
}

/// The digests in an encoded entry.
pub(crate) fn digests_in(encoded: &[u8]) -> impl Iterator<Item = Digest> {
    let mut reader = Reader(encoded);
    let left = skip_to_content(&mut reader).unwrap_or(0);
    (0..left).map_while(move |_| {
        reader.number().ok()?;
        reader.digest().ok()
    })
}

/// Skips what comes before a file's content. Returns the number of chunks that follow.
fn skip_to_content(reader: &mut Reader<'_>) -> Result<usize, Broken> {
    let flags = reader.byte()?;
    reader.small()?;
    reader.file_time()?;
    if flags & ATTRIBUTES != 0 {
        skip_attributes(reader)?;
    }
    if flags & !(ATTRIBUTES | UNSTABLE) != FILE {
        return Ok(0);
    }
    reader.number()?;
    reader.count(33)
}

fn skip_attributes(reader: &mut Reader<'_>) -> Result<(), Broken> {
    for _ in 0..reader.count(2)? {
        reader.bytes()?;
        reader.bytes()?;
    }
    Ok(())
}

/// Skips an encoded entry. Returns its type, and the size of a file.
pub(crate) fn skip_entry(reader: &mut Reader<'_>) -> Result<(EntryType, u64), Broken> {
    let flags = reader.byte()?;
    reader.small()?;
    reader.file_time()?;
    if flags & ATTRIBUTES != 0 {
        skip_attributes(reader)?;
    }
    match flags & !(ATTRIBUTES | UNSTABLE) {
        FOLDER => Ok((EntryType::Folder, 0)),
        FILE => {
            let size = reader.number()?;
            for _ in 0..reader.count(33)? {
                reader.number()?;
                reader.take(32)?;
            }
            Ok((EntryType::File, size))
        }
        LINK => {
            reader.bytes()?;
            Ok((EntryType::Link, 0))
        }
        HARD_LINK => {
            reader.bytes()?;
            Ok((EntryType::HardLink, 0))
        }
        _ => Err(Broken("an entry has an unknown kind")),
    }
}

pub(crate) fn read_facts(reader: &mut Reader<'_>, path: PathBuf) -> Result<Entry, Broken> {
    let flags = reader.byte()?;
    let mode = reader.small()?;
    let modified = reader.file_time()?;
    let attributes = if flags & ATTRIBUTES == 0 {
        Vec::new()
    } else {
        read_attributes(reader)?
    };
    let unstable = flags & UNSTABLE != 0;
    let kind = match flags & !(ATTRIBUTES | UNSTABLE) {
        FILE => Kind::File {
            size: reader.number()?,
            content: read_content(reader)?,
            unstable,
        },
        _ if unstable => return Err(Broken("an entry is marked unstable but is not a file")),
        FOLDER => Kind::Folder,
        LINK => Kind::Link {
            target: self::path(reader.bytes()?),
        },
        HARD_LINK => Kind::HardLink {
            of: self::path(reader.bytes()?),
        },
        _ => return Err(Broken("an entry has an unknown kind")),
    };
    Ok(Entry {
        path,
        mode,
        modified,
        attributes,
        kind,
    })
}

pub(crate) fn read_root(reader: &mut Reader<'_>) -> Result<Entry, Broken> {
    let root = read_facts(reader, PathBuf::new())?;
    check_facts(&root)?;
    if root.kind != Kind::Folder {
        return Err(Broken("the root is not a folder"));
    }
    Ok(root)
}

/// Writes entries. Each path is encoded as the length of the prefix shared with the previous path,
/// and the rest.
pub(crate) fn write_entries<'a>(
    writer: &mut Writer,
    entries: impl ExactSizeIterator<Item = &'a Entry>,
) {
    writer.size(entries.len());
    let mut last: &[u8] = &[];
    for entry in entries {
        let path = bytes(&entry.path);
        last = write_path(writer, last, path);
        write_facts(writer, entry);
    }
}

pub(crate) fn write_path<'a>(writer: &mut Writer, last: &[u8], path: &'a [u8]) -> &'a [u8] {
    let shared = last
        .iter()
        .zip(path)
        .take_while(|(left, right)| left == right)
        .count();
    writer.size(shared);
    writer.bytes(&path[shared..]);
    path
}

pub(crate) fn read_path(reader: &mut Reader<'_>, last: &mut Vec<u8>) -> Result<(), Broken> {
    let shared = usize::try_from(reader.number()?).unwrap_or(usize::MAX);
    if shared > last.len() {
        return Err(Broken(
            "a path shares a longer prefix than its predecessor has",
        ));
    }
    last.truncate(shared);
    last.extend_from_slice(reader.bytes()?);
    if last.len() > PATH {
        return Err(Broken("a path is too long"));
    }
    Ok(())
}

pub(crate) fn read_entries(reader: &mut Reader<'_>) -> Result<Vec<Entry>, Broken> {
    let count = reader.count(6)?;
    let mut entries = Vec::with_capacity(count.min(1 << 16));
    let mut last = Vec::new();
    for _ in 0..count {
        read_path(reader, &mut last)?;
        entries.push(read_facts(reader, path(&last))?);
    }
    Ok(entries)
}

pub(crate) fn write_skipped(writer: &mut Writer, skipped: &[Skipped]) {
    writer.size(skipped.len());
    let mut last: &[u8] = &[];
    for Skipped { path, why } in skipped {
        last = write_path(writer, last, bytes(path));
        let (code, text) = match why {
            Why::Rule(rule) => (0, rule.as_str()),
            Why::Special(what) => (1, what.as_str()),
            Why::Unreadable(reason) => (2, reason.as_str()),
            Why::Vanished => (3, ""),
            Why::OtherFileSystem => (4, ""),
            Why::Store => (5, ""),
            Why::Budget(what) => (6, what.as_str()),
        };
        writer.byte(code);
        writer.bytes(text.as_bytes());
    }
}

pub(crate) fn read_skipped(reader: &mut Reader<'_>) -> Result<Vec<Skipped>, Broken> {
    let mut skipped = Vec::new();
    let mut last = Vec::new();
    for _ in 0..reader.count(4)? {
        read_path(reader, &mut last)?;
        let code = reader.byte()?;
        let text = String::from_utf8_lossy(reader.bytes()?).into_owned();
        let why = match code {
            0 => Why::Rule(text),
            1 => Why::Special(text),
            2 => Why::Unreadable(text),
            3 => Why::Vanished,
            4 => Why::OtherFileSystem,
            5 => Why::Store,
            6 => Why::Budget(text),
            _ => return Err(Broken("an excluded path has an unknown reason")),
        };
        let path = path(&last);
        skipped.push(Skipped { path, why });
    }
    Ok(skipped)
}

/// The digests of all file content.
pub(crate) fn digests(entries: &[Entry]) -> impl Iterator<Item = Digest> {
    let chunks = entries.iter().flat_map(Entry::content);
    chunks.map(|chunk| chunk.digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> Entry {
        let content = vec![Chunk {
            digest: Digest::of(b"abc"),
            length: 3,
        }];
        let kind = Kind::File {
            size: 3,
            content,
            unstable: false,
        };
        Entry::plain(path, kind)
    }

    fn sized(size: u64, lengths: &[u32]) -> Entry {
        let digest = Digest::of(b"abc");
        let content = lengths.iter().map(|&length| Chunk { digest, length });
        let kind = Kind::File {
            size,
            content: content.collect(),
            unstable: false,
        };
        Entry::plain("a", kind)
    }

    fn link(path: &str, target: &str) -> Entry {
        let target = target.into();
        Entry::plain(path, Kind::Link { target })
    }

    fn twin(path: &str, of: &str) -> Entry {
        Entry::plain(path, Kind::HardLink { of: of.into() })
    }

    fn manifest(entries: Vec<Entry>) -> Manifest {
        Manifest {
            root: Entry::plain("", Kind::Folder),
            entries,
            skipped: Vec::new(),
        }
    }

    #[test]
    fn manifest_round_trips() {
        let mut strange = file("folder/b");
        strange.attributes = vec![("user.a".into(), b"1".to_vec())];
        let mut manifest = manifest(vec![
            Entry::plain("folder", Kind::Folder),
            Entry::plain("folder/a", Kind::Folder),
            strange,
            file("folder!"),
            link("link", "/anywhere"),
            twin("twin", "folder/b"),
        ]);
        manifest.skipped = vec![Skipped {
            path: "socket".into(),
            why: Why::Special("socket".into()),
        }];
        assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest));
    }

    #[test]
    fn hostile_manifests_are_refused() {
        let folder = |path: &str| Entry::plain(path, Kind::Folder);
        let long = "x".repeat(256);
        let deep = "x/".repeat(2048) + "x";
        let mut setuid = file("a");
        setuid.mode = 0o10_644;
        let mut attribute = file("a");
        attribute.attributes = vec![("security.capability".into(), vec![1])];
        let hostile = [
            ("a way up", vec![file("../a")]),
            (
                "a way up in the middle",
                vec![folder("a"), file("a/../../b")],
            ),
            ("an absolute path", vec![file("/etc/passwd")]),
            ("an empty path", vec![file("")]),
            ("an empty name", vec![folder("a"), file("a//b")]),
            ("a slash at the end", vec![folder("a/")]),
            ("a dot", vec![file("./a")]),
            ("a NUL", vec![file("a\0b")]),
            ("a long name", vec![file(&long)]),
            ("a long path", vec![file(&deep)]),
            (
                "a child of a link",
                vec![link("a", "/etc"), file("a/passwd")],
            ),
            ("a child of a file", vec![file("a"), file("a/b")]),
            ("a child of nothing", vec![file("a/b")]),
            ("the same twice", vec![file("a"), file("a")]),
            ("another order", vec![file("b"), file("a")]),
            (
                "a link and a folder of one name",
                vec![link("a", "/etc"), folder("a")],
            ),
            ("a hard link to outside", vec![twin("a", "../b")]),
            (
                "a hard link to a link",
                vec![link("a", "/etc/passwd"), twin("b", "a")],
            ),
            ("a hard link to itself", vec![twin("a", "a")]),
            (
                "a hard link to what comes later",
                vec![twin("a", "b"), file("b")],
            ),
            ("an empty link", vec![link("a", "")]),
            ("more bytes than pieces", vec![sized(10_000_000_000, &[3])]),
            ("fewer bytes than pieces", vec![sized(1, &[3])]),
            ("a size without an end", vec![sized(u64::MAX, &[])]),
            (
                "an endless piece",
                vec![sized(u64::from(u32::MAX), &[u32::MAX])],
            ),
            ("an empty piece", vec![sized(0, &[0])]),
            ("a strange mode", vec![setuid]),
            ("an attribute with power", vec![attribute]),
        ];
        for (what, entries) in hostile {
            let manifest = manifest(entries);
            assert!(Manifest::decode(&manifest.encode()).is_err(), "{what}");
        }
        assert!(Manifest::decode(&manifest(vec![file("a")]).encode()).is_ok());
    }

    #[test]
    fn malformed_manifests_are_refused_cheaply() {
        let mut bytes = manifest(vec![file("a")]).encode();
        for cut in 0..bytes.len() {
            assert!(Manifest::decode(&bytes[..cut]).is_err());
        }
        bytes.push(0);
        assert!(Manifest::decode(&bytes).is_err());
        // A version, a folder, and a count that would need all memory there is.
        let endless = [
            1, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1,
        ];
        assert!(Manifest::decode(&endless).is_err());
    }
}
