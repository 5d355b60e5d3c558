//! A session as one file: every record as it is stored, the long texts that they refer to, and at
//! the end how much there was and a digest over everything before.
//!
//! Lines of JSON, so that it can be looked at; `docs/formats/export.md` describes them. Reading
//! verifies everything there is to verify before anything is handed out (P9): the digest, the
//! chain, every text, and that the entries make sense one after the other.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::{Name, SessionId};
use crate::journal::{Broken, Event, Head, Record, Run, Seq, Text};
use crate::state::{Illegal, State};
use crate::time::Timestamp;

/// The version of the format.
pub const VERSION: u32 = 1;

/// The longest file that is written or read (P10).
pub const LONGEST: u64 = 1024 * 1024 * 1024;

/// The longest line.
const LONGEST_LINE: usize = 64 * 1024 * 1024;

/// Long texts are cut into pieces of this many bytes, so that no line is too long.
const PIECE: usize = 1024 * 1024;

/// Run numbers stay below this, so that every store can count on.
const MOST_RUNS: u64 = 1 << 53;

/// Why a file is not a session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It does not begin like one.
    #[error("it is not an exported session")]
    Foreign,
    /// It was written by a newer program.
    #[error("it has format {0}, and this program knows formats up to {VERSION}")]
    Newer(u32),
    /// Its end is missing.
    #[error("its end is missing: it was cut short or changed")]
    Cut,
    /// It is not what was written.
    #[error("it was changed after it was written: its digest does not match")]
    Altered,
    /// It is longer than any that is read.
    #[error("it has more than {LONGEST} bytes")]
    TooLong,
    /// A line cannot be read.
    #[error("line {line}: {reason}")]
    Line {
        /// Which, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// A record does not continue the journal.
    #[error(transparent)]
    Broken(#[from] Broken),
    /// An entry cannot follow what came before it.
    #[error(transparent)]
    Illegal(#[from] Illegal),
    /// A text is missing, of the wrong length, or not asked for.
    #[error("text {}: {reason}", .digest.short())]
    Text {
        /// Which.
        digest: Digest,
        /// What is wrong.
        reason: &'static str,
    },
}

/// What stands in the first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The format's version.
    pub segno_session: u32,
    /// The session.
    pub session: SessionId,
    /// What it is called.
    pub name: Name,
    /// Whether it was being run: then there may be more of it elsewhere.
    pub running: bool,
    /// The program that wrote the file.
    pub version: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordLine<'a> {
    record: Seq,
    run: Run,
    at: Timestamp,
    version: u16,
    kind: String,
    path: Option<String>,
    revision: u32,
    body: std::borrow::Cow<'a, str>,
    hash: Digest,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TextLine<'a> {
    blob: Digest,
    piece: usize,
    of: usize,
    text: std::borrow::Cow<'a, str>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Trailer {
    records: u64,
    blobs: u64,
    bytes: u64,
    digest: Digest,
}

/// Writes a file: the header, then records, then texts.
pub struct Writer {
    out: Vec<u8>,
    records: u64,
    blobs: u64,
}

impl Writer {
    /// Begins a file.
    pub fn new(header: &Header) -> Result<Self, Error> {
        let mut writer = Self {
            out: Vec::new(),
            records: 0,
            blobs: 0,
        };
        writer.line(header)?;
        Ok(writer)
    }

    /// Adds the next record.
    pub fn record(&mut self, record: &Record) -> Result<(), Error> {
        self.records += 1;
        self.line(&RecordLine {
            record: record.seq,
            run: record.run,
            at: record.at,
            version: record.version,
            kind: record.kind.clone(),
            path: record.path.clone(),
            revision: record.revision,
            body: record.body.as_str().into(),
            hash: record.hash,
        })
    }

    /// Adds a text.
    pub fn text(&mut self, digest: Digest, text: &str) -> Result<(), Error> {
        self.blobs += 1;
        let pieces = pieces(text);
        for (index, piece) in pieces.iter().enumerate() {
            self.line(&TextLine {
                blob: digest,
                piece: index + 1,
                of: pieces.len(),
                text: (*piece).into(),
            })?;
        }
        Ok(())
    }

    /// Ends the file.
    pub fn finish(mut self) -> Result<Vec<u8>, Error> {
        let trailer = Trailer {
            records: self.records,
            blobs: self.blobs,
            bytes: self.out.len() as u64,
            digest: Digest::of(&self.out),
        };
        self.line(&trailer)?;
        Ok(self.out)
    }

    fn line(&mut self, value: &impl Serialize) -> Result<(), Error> {
        let before = self.out.len();
        serde_json::to_writer(&mut self.out, value).expect("lines are plain data");
        self.out.push(b'\n');
        if self.out.len() as u64 > LONGEST || self.out.len() - before > LONGEST_LINE {
            return Err(Error::TooLong);
        }
        Ok(())
    }
}

/// A text in pieces that end between characters; one piece if it is empty.
fn pieces(mut text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    while text.len() > PIECE {
        let (piece, rest) = text.split_at(text.floor_char_boundary(PIECE));
        pieces.push(piece);
        text = rest;
    }
    pieces.push(text);
    pieces
}

/// A session that was read from a file and verified.
#[derive(Debug, Clone)]
pub struct Bundle {
    /// The first line.
    pub header: Header,
    /// Every record, as it was stored.
    pub records: Vec<Record>,
    /// What they add up to.
    pub state: State,
    /// The long texts that they refer to.
    pub texts: BTreeMap<Digest, String>,
}

/// Reads a file, and verifies all of it.
pub fn read(bytes: &[u8]) -> Result<Bundle, Error> {
    if bytes.len() as u64 > LONGEST {
        return Err(Error::TooLong);
    }
    let header = header(bytes)?;
    let (content, trailer) = sealed(bytes)?;
    let mut reader = Reader::new(header.session);
    for (index, line) in content.split(|byte| *byte == b'\n').enumerate().skip(1) {
        // What follows the last end of line is nothing.
        if !line.is_empty() {
            reader.line(index + 1, line)?;
        }
    }
    let Reader {
        records,
        state,
        texts,
        ..
    } = reader.finish()?;
    if (records.len() as u64, texts.len() as u64) != (trailer.records, trailer.blobs) {
        return Err(Error::Cut);
    }
    Ok(Bundle {
        header,
        records,
        state,
        texts,
    })
}

fn header(bytes: &[u8]) -> Result<Header, Error> {
    let line = bytes
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let value: serde_json::Value = serde_json::from_slice(line).map_err(|_| Error::Foreign)?;
    let format = value.get("segno_session").ok_or(Error::Foreign)?;
    match format
        .as_u64()
        .and_then(|format| u32::try_from(format).ok())
    {
        Some(VERSION) => serde_json::from_slice(line).map_err(|error| Error::Line {
            line: 1,
            reason: error.to_string(),
        }),
        Some(newer) if newer > VERSION => Err(Error::Newer(newer)),
        _ => Err(Error::Foreign),
    }
}

/// Everything before the last line, if that line is the seal over it.
fn sealed(bytes: &[u8]) -> Result<(&[u8], Trailer), Error> {
    let whole = bytes.strip_suffix(b"\n").ok_or(Error::Cut)?;
    let end = whole
        .iter()
        .rposition(|byte| *byte == b'\n')
        .ok_or(Error::Cut)?;
    let (content, last) = bytes.split_at(end + 1);
    let trailer: Trailer = serde_json::from_slice(last).map_err(|_| Error::Cut)?;
    // Comparing the whole line also refuses other spellings of the same.
    let spelled = serde_json::to_vec(&trailer).expect("lines are plain data");
    if last.strip_suffix(b"\n") != Some(&spelled) || trailer.bytes != content.len() as u64 {
        return Err(Error::Cut);
    }
    if trailer.digest != Digest::of(content) {
        return Err(Error::Altered);
    }
    Ok((content, trailer))
}

struct Reader {
    head: Head,
    state: State,
    records: Vec<Record>,
    finished: HashSet<(String, u32)>,
    /// The texts that records refer to, with their lengths.
    wanted: BTreeMap<Digest, u64>,
    texts: BTreeMap<Digest, String>,
    /// The text that is being put together, and how many pieces of it are there.
    partial: Option<(Digest, usize)>,
}

impl Reader {
    fn new(session: SessionId) -> Self {
        Self {
            head: Head::genesis(session),
            state: State::empty(session),
            records: Vec::new(),
            finished: HashSet::new(),
            wanted: BTreeMap::new(),
            texts: BTreeMap::new(),
            partial: None,
        }
    }

    fn line(&mut self, number: usize, line: &[u8]) -> Result<(), Error> {
        let wrong = |reason: String| Error::Line {
            line: number,
            reason,
        };
        if line.len() > LONGEST_LINE {
            return Err(wrong(format!("it has more than {LONGEST_LINE} bytes")));
        }
        if line.starts_with(b"{\"blob\":") {
            let line: TextLine<'_> =
                serde_json::from_slice(line).map_err(|error| wrong(error.to_string()))?;
            return self.piece(&line).map_err(wrong);
        }
        let line: RecordLine<'_> =
            serde_json::from_slice(line).map_err(|error| wrong(error.to_string()))?;
        if !self.texts.is_empty() {
            return Err(wrong("a record stands after the texts".into()));
        }
        if line.run.0 > MOST_RUNS {
            return Err(wrong("its run is too great".into()));
        }
        self.record(Record {
            seq: line.record,
            run: line.run,
            at: line.at,
            version: line.version,
            kind: line.kind,
            path: line.path,
            revision: line.revision,
            body: line.body.into_owned(),
            hash: line.hash,
        })?
        .map_err(|reason| wrong(reason.into()))
    }

    fn record(&mut self, record: Record) -> Result<Result<(), &'static str>, Error> {
        let entry = self.head.open(&record)?;
        let step = entry.event.step();
        let named = step.map(|(path, revision)| (path.as_str(), revision));
        if named.map(|(path, _)| path) != record.path.as_deref()
            || named.map_or(0, |(_, revision)| revision) != record.revision
        {
            return Ok(Err("it names another step than its event"));
        }
        if let (Event::StepFinished(_), Some((path, revision))) = (&entry.event, named)
            && !self.finished.insert((path.to_owned(), revision))
        {
            return Ok(Err("it finishes a step a second time"));
        }
        if let Some(Text::Blob { blob, bytes }) = entry.event.text() {
            self.wanted.insert(*blob, *bytes);
        }
        self.state.apply(&entry)?;
        self.head = entry.head();
        self.records.push(record);
        Ok(Ok(()))
    }

    fn piece(&mut self, line: &TextLine<'_>) -> Result<(), String> {
        let expected = match self.partial {
            Some((digest, pieces)) if digest == line.blob => pieces + 1,
            Some(_) => return Err("a text ends before its last piece".into()),
            None if self.texts.contains_key(&line.blob) => {
                return Err("a text stands here a second time".into());
            }
            None => 1,
        };
        if line.piece != expected || line.piece > line.of {
            return Err(format!("piece {expected} of a text is missing"));
        }
        self.texts
            .entry(line.blob)
            .or_default()
            .push_str(&line.text);
        self.partial = (line.piece < line.of).then_some((line.blob, line.piece));
        Ok(())
    }

    fn finish(self) -> Result<Self, Error> {
        if self.partial.is_some() || self.records.is_empty() {
            return Err(Error::Cut);
        }
        let wrong = |digest: Digest, reason| Err(Error::Text { digest, reason });
        for (digest, bytes) in &self.wanted {
            match self.texts.get(digest) {
                None => return wrong(*digest, "it is missing"),
                Some(text) if text.len() as u64 != *bytes => {
                    return wrong(*digest, "it has the wrong length");
                }
                Some(text) if Digest::of(text.as_bytes()) != *digest => {
                    return wrong(*digest, "it does not match its digest");
                }
                Some(_) => {}
            }
        }
        let wanted: BTreeSet<_> = self.wanted.keys().collect();
        if let Some(digest) = self.texts.keys().find(|digest| !wanted.contains(digest)) {
            return wrong(*digest, "nothing refers to it");
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{QuestionAsked, RunEnded, RunStarted, SessionCreated, StepStarted};
    use crate::session::{Kind, Status};
    use crate::step::Path;

    fn session() -> SessionId {
        SessionId::new(Timestamp(1), [7; 10])
    }

    fn sealed_by_hand(texts: &[&str], events: &[Event]) -> Vec<u8> {
        let header = Header {
            segno_session: VERSION,
            session: session(),
            name: Name::like("report"),
            running: false,
            version: "0".into(),
        };
        let mut writer = Writer::new(&header).unwrap();
        let mut head = Head::genesis(session());
        for event in events {
            let record = head.seal(Run(1), Timestamp(2), event);
            head = record.head();
            writer.record(&record).unwrap();
        }
        for text in texts {
            writer.text(Digest::of(text.as_bytes()), text).unwrap();
        }
        writer.finish().unwrap()
    }

    fn events(long: &str) -> Vec<Event> {
        let created = SessionCreated {
            name: Name::like("report"),
            session_kind: Kind::Workflow,
            workspace: "/work".into(),
            spec_path: "/work/a.yaml".into(),
            spec: Text::Inline("version: 0\n".into()),
            spec_digest: Digest::of(b"version: 0\n"),
            variables: BTreeMap::new(),
            out: "/work/out".into(),
            force: false,
        };
        let run = RunStarted {
            host: "a".into(),
            pid: 7,
            version: "0".into(),
        };
        let started = StepStarted {
            path: Path::new("steps/0").unwrap(),
            revision: 0,
            attempt: 1,
            agent: "a".into(),
            input: Text::Blob {
                blob: Digest::of(long.as_bytes()),
                bytes: long.len() as u64,
            },
            input_digest: Digest::of(b"x"),
        };
        vec![created.into(), run.into(), started.into()]
    }

    #[test]
    fn what_was_written_is_read_back() {
        let long = "ä\"\\\n".repeat(PIECE / 2);
        let bytes = sealed_by_hand(&[&long], &events(&long));
        let bundle = read(&bytes).unwrap();
        assert_eq!(bundle.header.session, session());
        assert_eq!(bundle.records.len(), 3);
        assert_eq!(bundle.state.status, Status::Running);
        assert_eq!(bundle.texts[&Digest::of(long.as_bytes())], long);
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_refused() {
        let bytes = sealed_by_hand(&["a long text"], &events("a long text"));
        assert!(read(&bytes).is_ok());
        for at in 0..bytes.len() {
            assert!(read(&bytes[..at]).is_err(), "cut at {at}");
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                assert!(read(&flipped).is_err(), "bit {bit} of byte {at}");
            }
        }
        assert!(read(&[bytes.as_slice(), b"\n"].concat()).is_err());
    }

    #[test]
    fn a_file_that_was_sealed_anew_must_still_make_sense() {
        let good = events("text");
        let refused = |texts: &[&str], events: &[Event]| {
            read(&sealed_by_hand(texts, events))
                .unwrap_err()
                .to_string()
        };
        assert!(refused(&[], &good).contains("it is missing"));
        assert!(refused(&["text", "more"], &good).contains("nothing refers to it"));
        assert!(refused(&["text", "text"], &good).contains("a second time"));
        assert!(refused(&["text"], &good[1..]).contains("created once, and first"));
        let over = RunEnded {
            status: Status::Completed,
            error: None,
        };
        let asked = QuestionAsked {
            path: Path::new("steps/1").unwrap(),
            prompt: "?".into(),
            context: None,
            default: None,
            timeout_s: None,
            validation: None,
        };
        let mut twice = good.clone();
        twice.extend([over.into(), asked.into(), good[1].clone()]);
        assert!(refused(&["text"], &twice).contains("the session is completed"));
        assert!(refused(&[], &[]).contains("its end is missing"));
    }

    #[test]
    fn a_newer_format_and_another_file_are_told_apart() {
        assert_eq!(
            read(b"{\"segno_session\":2}\n").unwrap_err(),
            Error::Newer(2)
        );
        for other in ["", "hello\n", "{}\n", "[1]\n", "{\"segno_session\":0}\n"] {
            assert_eq!(
                read(other.as_bytes()).unwrap_err(),
                Error::Foreign,
                "{other}"
            );
        }
    }
}
