//! Streams the members of an archive, one after another.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::PathBuf;

use crate::archive::header::{BLOCK, FILE, FOLDER, GLOBAL, HARD_LINK, Header, LINK, RECORDS};
use crate::archive::names::member_path;
use crate::archive::pax_fields::PaxFields;
use crate::archive::{Limits, Measure, MemoryBudget, excluded, pax};
use crate::entry::{FileTime, Skipped};
use crate::error::Error;
use crate::manifest::{PATH, path};

pub(super) struct Member {
    pub(super) path: PathBuf,
    pub(super) mode: u32,
    pub(super) modified: FileTime,
    pub(super) attributes: Vec<(OsString, Vec<u8>)>,
    pub(super) what: What,
}

pub(super) enum What {
    Folder,
    File { size: u64, unstable: bool },
    Link { target: PathBuf },
    HardLink { of: PathBuf },
}

/// Reads an archive. Trusts none of its sizes beyond the limit of bytes (P10).
pub(super) struct Members<R> {
    source: R,
    limit: u64,
    passed: u64,
    /// The remaining content of the last file, and the padding of its last block.
    content: u64,
    padding: usize,
    /// The memory budget for excluded paths.
    budget: MemoryBudget,
    pub(super) skipped: Vec<Skipped>,
}

/// Records that precede a member and belong to it.
#[derive(Default)]
struct PrecedingRecords {
    records: Option<Vec<u8>>,
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
}

/// Refuses a member by its name.
pub(super) fn refuse(name: &[u8], reason: impl Into<String>) -> Error {
    Error::Unsafe {
        entry: String::from_utf8_lossy(name).into_owned(),
        reason: reason.into(),
    }
}

impl<R: Read> Members<R> {
    pub(super) fn new(source: R, limits: Limits) -> Self {
        Self {
            source,
            limit: limits.bytes,
            budget: MemoryBudget::for_comments(limits),
            passed: 0,
            content: 0,
            padding: 0,
            skipped: Vec::new(),
        }
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), Error> {
        self.passed += buffer.len() as u64;
        if self.passed > self.limit {
            return Err(self.too_much());
        }
        self.source
            .read_exact(buffer)
            .map_err(|error| unreadable(&error))
    }

    fn too_much(&self) -> Error {
        Error::TooMuch {
            what: Measure::Bytes,
            limit: self.limit,
        }
    }

    /// The next member; `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<Member>, Error> {
        self.skip_content()?;
        let mut before = PrecedingRecords::default();
        loop {
            let mut block = [0; BLOCK];
            self.fill(&mut block)?;
            if block == [0; BLOCK] {
                return self.end(&before).map(|()| None);
            }
            let header = Header::decode(&block)
                .map_err(|reason| refuse(&block[..100], reason.to_owned()))?;
            let twice = || refuse(&header.name, "it has two headers of the same kind");
            match header.kind {
                RECORDS if before.records.is_none() => {
                    before.records = Some(self.text(&header, pax::LONGEST)?);
                }
                b'L' if before.name.is_none() => before.name = Some(self.long_name(&header)?),
                b'K' if before.link.is_none() => before.link = Some(self.long_name(&header)?),
                RECORDS | b'L' | b'K' => return Err(twice()),
                GLOBAL => {
                    let records = self.text(&header, pax::LONGEST)?;
                    self.comment(&header, &records)?;
                }
                _ => return self.member(header, before).map(Some),
            }
        }
    }

    fn skip_content(&mut self) -> Result<(), Error> {
        let mut rest = [0; BLOCK];
        while self.content > 0 {
            let length = usize::try_from(self.content).unwrap_or(BLOCK).min(BLOCK);
            self.fill(&mut rest[..length])?;
            self.content -= length as u64;
        }
        let padding = std::mem::take(&mut self.padding);
        self.fill(&mut rest[..padding])
    }

    /// Expects two empty blocks, and then nothing but zeros.
    fn end(&mut self, before: &PrecedingRecords) -> Result<(), Error> {
        let broken = |reason: &str| Error::BrokenArchive {
            reason: reason.to_owned(),
        };
        if before.records.is_some() || before.name.is_some() || before.link.is_some() {
            return Err(broken("an extended header has no member"));
        }
        let mut block = [0; BLOCK];
        self.fill(&mut block)?;
        while block == [0; BLOCK] {
            match self.source.read(&mut block) {
                Ok(0) => return Ok(()),
                Ok(read) => {
                    self.passed += read as u64;
                    block[read..].fill(0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(unreadable(&error)),
            }
            if self.passed > self.limit {
                return Err(self.too_much());
            }
        }
        Err(broken("data follows its end"))
    }

    /// The content of a header record.
    fn text(&mut self, header: &Header, longest: u64) -> Result<Vec<u8>, Error> {
        let length = usize::try_from(header.size).unwrap_or(usize::MAX);
        if header.size > longest {
            let reason = format!("its header has more than {longest} bytes");
            return Err(refuse(&header.name, reason));
        }
        let mut text = vec![0; length.next_multiple_of(BLOCK)];
        self.fill(&mut text)?;
        text.truncate(length);
        Ok(text)
    }

    /// A long name in the GNU format.
    fn long_name(&mut self, header: &Header) -> Result<Vec<u8>, Error> {
        let mut name = self.text(header, PATH as u64 + 3)?;
        if name.last() == Some(&0) {
            name.pop();
        }
        Ok(name)
    }

    fn comment(&mut self, header: &Header, records: &[u8]) -> Result<(), Error> {
        let refused = |reason: &str| refuse(&header.name, reason);
        for (key, value) in pax::records(records).map_err(refused)? {
            match key {
                b"comment" => {
                    let lines = value.split(|byte| *byte == b'\n').count();
                    self.budget.spend(2 * value.len() + 100 * lines)?;
                    let left = excluded::read(value).map_err(refused)?;
                    self.skipped.extend(left);
                }
                b"path" | b"linkpath" | b"size" | b"mtime" => {
                    return Err(refused("a global header sets a field for all members"));
                }
                key if key.starts_with(b"GNU.sparse") || key.starts_with(b"SCHILY.xattr") => {
                    return Err(refused("a global header sets a field for all members"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn member(&mut self, header: Header, before: PrecedingRecords) -> Result<Member, Error> {
        let fields = match &before.records {
            Some(records) => PaxFields::read(records).map_err(|why| refuse(&header.name, why))?,
            None => PaxFields::default(),
        };
        let name = fields.path.or(before.name).unwrap_or(header.name);
        let refused = |reason: &str| refuse(&name, reason);
        let link = fields.link.or(before.link).unwrap_or(header.link);
        let size = fields.size.unwrap_or(header.size);
        let path = member_path(&name).map_err(refused)?;
        let mut what = what(header.kind, &name, &link, size)?;
        if let What::File { unstable, .. } = &mut what {
            *unstable = fields.unstable;
        }
        match what {
            What::File { size, .. } => self.begin_content(size)?,
            _ if size != 0 => return Err(refused("it has content but is not a file")),
            _ => {}
        }
        let modified = fields.modified.unwrap_or(FileTime {
            seconds: header.seconds,
            nanos: 0,
        });
        let carries = matches!(what, What::Folder | What::File { .. });
        let attributes = fields.attributes.into_iter().filter(|_| carries);
        Ok(Member {
            path,
            mode: header.mode,
            modified,
            attributes: attributes.collect(),
            what,
        })
    }

    fn begin_content(&mut self, size: u64) -> Result<(), Error> {
        if size > self.limit.saturating_sub(self.passed) {
            return Err(self.too_much());
        }
        self.content = size;
        let over = usize::try_from(size % BLOCK as u64).unwrap_or(0);
        self.padding = if over == 0 { 0 } else { BLOCK - over };
        Ok(())
    }

    /// Appends up to `wanted` bytes of the last file's content. Returns how many.
    pub(super) fn content(&mut self, wanted: usize, to: &mut Vec<u8>) -> Result<usize, Error> {
        let length = usize::try_from(self.content).unwrap_or(wanted).min(wanted);
        let from = to.len();
        to.resize(from + length, 0);
        self.fill(&mut to[from..])?;
        self.content -= length as u64;
        Ok(length)
    }
}

/// The type of a member, by its type flag.
fn what(kind: u8, name: &[u8], link: &[u8], size: u64) -> Result<What, Error> {
    let refused = |reason: &str| Err(refuse(name, reason));
    Ok(match kind {
        // The oldest format has no type flag for folders.
        0 | FILE | b'7' if name.last() == Some(&b'/') && size == 0 => What::Folder,
        0 | FILE | b'7' => What::File {
            size,
            unstable: false,
        },
        HARD_LINK => What::HardLink {
            of: member_path(link).map_err(|reason| {
                let link = String::from_utf8_lossy(link);
                refuse(name, format!("it is a hard link to `{link}`: {reason}"))
            })?,
        },
        LINK => What::Link {
            target: target(link).map_err(|reason| refuse(name, reason))?,
        },
        FOLDER => What::Folder,
        b'3' | b'4' => return refused("it is a device"),
        b'6' => return refused("it is a FIFO"),
        b'S' => return refused("it is a sparse file"),
        other => {
            let sort = char::from(other).escape_default();
            return refused(&format!("its type is unknown: `{sort}`"));
        }
    })
}

fn unreadable(error: &io::Error) -> Error {
    Error::BrokenArchive {
        reason: match error.kind() {
            io::ErrorKind::UnexpectedEof => "its end is missing".to_owned(),
            _ => error.to_string(),
        },
    }
}

fn target(link: &[u8]) -> Result<PathBuf, &'static str> {
    if link.is_empty() || link.len() > PATH || link.contains(&0) {
        return Err("it is a link with an invalid target");
    }
    Ok(path(link))
}
