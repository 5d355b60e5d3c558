//! Reads a session export and verifies all of it.

use std::collections::{BTreeMap, HashSet};

use super::{Error, Header, LONGEST, LONGEST_LINE, RecordLine, TextLine, Trailer, VERSION};
use crate::digest::Digest;
use crate::id::SessionId;
use crate::journal::{Event, Head, Record, Text};
use crate::state::State;

/// Run numbers stay below this, so that every store can increment them.
const MOST_RUNS: u64 = 1 << 53;

/// A session that was read from a file and verified.
#[derive(Debug, Clone)]
pub struct Bundle {
    pub header: Header,
    /// Every record, as it was stored.
    pub records: Vec<Record>,
    /// The state folded from the records.
    pub state: State,
    /// The long texts that the records refer to.
    pub texts: BTreeMap<Digest, String>,
}

/// Reads a file and verifies all of it.
pub fn read(bytes: &[u8]) -> Result<Bundle, Error> {
    if bytes.len() as u64 > LONGEST {
        return Err(Error::TooLong);
    }
    let header = header(bytes)?;
    let (content, trailer) = verify_trailer(bytes)?;
    let mut reader = Reader::new(header.session);
    for (index, line) in content.split(|byte| *byte == b'\n').enumerate().skip(1) {
        // Nothing follows the last newline.
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
        return Err(Error::Truncated);
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

/// Splits off the last line and verifies that it is the trailer of everything before it.
fn verify_trailer(bytes: &[u8]) -> Result<(&[u8], Trailer), Error> {
    let whole = bytes.strip_suffix(b"\n").ok_or(Error::Truncated)?;
    let end = whole
        .iter()
        .rposition(|byte| *byte == b'\n')
        .ok_or(Error::Truncated)?;
    let (content, last) = bytes.split_at(end + 1);
    let trailer: Trailer = serde_json::from_slice(last).map_err(|_| Error::Truncated)?;
    // Comparing the whole line also refuses other encodings of the same trailer.
    let spelled = serde_json::to_vec(&trailer).expect("lines serialize to JSON");
    if last.strip_suffix(b"\n") != Some(&spelled) || trailer.bytes != content.len() as u64 {
        return Err(Error::Truncated);
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
    referenced: BTreeMap<Digest, u64>,
    texts: BTreeMap<Digest, String>,
    /// The text that is being assembled, and how many of its pieces were read.
    partial: Option<(Digest, usize)>,
}

impl Reader {
    fn new(session: SessionId) -> Self {
        Self {
            head: Head::genesis(session),
            state: State::empty(session),
            records: Vec::new(),
            finished: HashSet::new(),
            referenced: BTreeMap::new(),
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
            return Err(wrong("a record follows the texts".into()));
        }
        if line.run.0 > MOST_RUNS {
            return Err(wrong("its run number is too large".into()));
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
            return Ok(Err("its step differs from that of its event"));
        }
        if let (Event::StepFinished(_), Some((path, revision))) = (&entry.event, named)
            && !self.finished.insert((path.to_owned(), revision))
        {
            return Ok(Err("it finishes a step that is already finished"));
        }
        if let Some(Text::Blob { blob, bytes }) = entry.event.text() {
            self.referenced.insert(*blob, *bytes);
        }
        self.state.apply(&entry)?;
        self.head = entry.head();
        self.records.push(record);
        Ok(Ok(()))
    }

    fn piece(&mut self, line: &TextLine<'_>) -> Result<(), String> {
        let expected = match self.partial {
            Some((digest, pieces)) if digest == line.blob => pieces + 1,
            Some(_) => return Err("a text ends before its last part".into()),
            None if self.texts.contains_key(&line.blob) => {
                return Err("a text appears twice".into());
            }
            None => 1,
        };
        if line.piece != expected || line.piece > line.of {
            return Err(format!("part {expected} of a text is missing"));
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
            return Err(Error::Truncated);
        }
        let wrong = |digest: Digest, reason| Err(Error::Text { digest, reason });
        for (digest, bytes) in &self.referenced {
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
        let unreferenced = |digest: &&Digest| !self.referenced.contains_key(digest);
        if let Some(digest) = self.texts.keys().find(unreferenced) {
            return wrong(*digest, "no event references it");
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests;
