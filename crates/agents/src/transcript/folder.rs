//! The transcripts that a program has on this machine, for importing them as sessions.
#![expect(
    clippy::disallowed_methods,
    reason = "transcripts are in the agents' own folders and are read line by line, however long they are"
)]

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use segno_core::agent::{Error, ErrorKind};
use segno_core::conversation::{Branch, ItemContent, Origin, Thread, plain_text};
use segno_core::digest::{Digest, IncrementalDigest};
use segno_core::ports::Boxed;
use segno_core::time::Timestamp;
use segno_core::transcript::{Portion, Transcript, TranscriptInfo, TranscriptSource, Transcripts};

use super::paths::check_id;
use super::{Item, List, Reader, Reason, TranscriptFormat, gemini};

/// About how many bytes of a transcript are in memory at a time.
const PORTION_BYTES: u64 = 1 << 20;
/// How deep below a folder transcripts are searched.
const MAX_DEPTH: usize = 8;
/// The longest prompt that is reported, in bytes.
const MAX_PROMPT: usize = 32 << 10;
/// How many bytes are read at once to compute the digest.
const BUFFER: usize = 256 << 10;

/// The transcripts of a program that keeps each in a file.
#[derive(Debug, Clone)]
pub struct TranscriptFolder {
    format: FileFormat,
    home: PathBuf,
}

/// A program that keeps each transcript in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileFormat {
    Native(TranscriptFormat),
    Gemini,
    /// What [`super::opencode`] reads from its database.
    OpenCodeExtract,
}

impl TranscriptFolder {
    /// The transcripts of a program whose home folder is `home`.
    pub fn new(native: TranscriptFormat, home: PathBuf) -> Self {
        let format = FileFormat::Native(native);
        Self { format, home }
    }

    /// The transcripts of Gemini, whose home folder is `home`.
    pub fn gemini(home: PathBuf) -> Self {
        let format = FileFormat::Gemini;
        Self { format, home }
    }
}

impl FileFormat {
    fn read(self, source: FilePrefix) -> io::Result<Reader<FilePrefix>> {
        match self {
            Self::Native(native) => native.read(source),
            Self::Gemini => Reader::unlinked(gemini::ADAPTERS, source),
            Self::OpenCodeExtract => Reader::unlinked(super::opencode::ADAPTERS, source),
        }
    }

    fn find(self, home: &Path, id: &str, list: List<'_>) -> io::Result<Vec<PathBuf>> {
        match self {
            Self::Native(native) => native.find(home, id, list),
            Self::Gemini => gemini::find(home, id, list),
            Self::OpenCodeExtract => Ok(Vec::new()),
        }
    }

    /// The folder with the transcripts.
    fn folder(self, home: &Path) -> PathBuf {
        home.join(match self {
            Self::Native(TranscriptFormat::ClaudeCode) => "projects",
            Self::Native(TranscriptFormat::Codex) => "sessions",
            Self::Gemini | Self::OpenCodeExtract => gemini::PROJECTS,
        })
    }

    /// Whether a file with the right extension is the transcript of a conversation with the user.
    fn is_main(self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str());
        match self {
            Self::Native(_) | Self::OpenCodeExtract => {
                name.is_some_and(|name| !name.starts_with("agent-"))
            }
            Self::Gemini => name.is_some_and(gemini::has_name),
        }
    }
}

impl Transcripts for TranscriptFolder {
    fn source(&self) -> TranscriptSource {
        match self.format {
            FileFormat::Native(TranscriptFormat::ClaudeCode) => TranscriptSource::ClaudeCode,
            FileFormat::Native(TranscriptFormat::Codex) => TranscriptSource::Codex,
            FileFormat::Gemini => TranscriptSource::Gemini,
            FileFormat::OpenCodeExtract => TranscriptSource::OpenCode,
        }
    }

    fn list(&self, folder: Option<PathBuf>) -> Boxed<'_, Result<Vec<PathBuf>, Error>> {
        let format = self.format;
        let root = folder.unwrap_or_else(|| format.folder(&self.home));
        Box::pin(run_blocking(root, move |root| {
            let mut found = Vec::new();
            collect_transcripts(format, root, MAX_DEPTH, &mut found)?;
            found.sort();
            Ok(found)
        }))
    }

    fn find<'a>(&'a self, id: &'a str) -> Boxed<'a, Result<Option<PathBuf>, Error>> {
        let (format, id) = (self.format, id.to_ascii_lowercase());
        Box::pin(run_blocking(self.home.clone(), move |home| {
            Ok(format.find(home, &id, &list)?.into_iter().next())
        }))
    }

    fn open(&self, path: PathBuf) -> Boxed<'_, Result<Box<dyn Transcript>, Error>> {
        let format = self.format;
        Box::pin(async move {
            let transcript =
                run_blocking(path, move |path| TranscriptFile::open(format, path)).await?;
            Ok(Box::new(OpenTranscript::new(transcript)) as Box<dyn Transcript>)
        })
    }
}

/// Runs file operations on a blocking thread.
pub(super) async fn run_blocking<T: Send + 'static>(
    path: PathBuf,
    work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> Result<T, Error> {
    let work = move || work(&path).map_err(|error| failed(&error));
    let done = tokio::task::spawn_blocking(work).await;
    done.expect("the blocking task does not panic")
}

fn failed(error: &io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        _ => ErrorKind::Invalid,
    };
    Error::new(kind, error.to_string())
}

fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

/// Collects the transcripts below a folder, without those of sub-agents, which lie beside the
/// transcript of their session.
fn collect_transcripts(
    format: FileFormat,
    folder: &Path,
    depth: usize,
    found: &mut Vec<PathBuf>,
) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for entry in entries {
        let entry = entry?;
        let (kind, path) = (entry.file_type()?, entry.path());
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if kind.is_dir() && depth > 0 && name != "subagents" {
            collect_transcripts(format, &path, depth - 1, found)?;
        } else if kind.is_file()
            && path.extension().is_some_and(|end| end == "jsonl")
            && format.is_main(&path)
        {
            found.push(path);
        }
    }
    Ok(())
}

pub(super) struct OpenTranscript {
    about: TranscriptInfo,
    /// Taken while a blocking thread uses it.
    transcript: Option<TranscriptFile>,
}

impl OpenTranscript {
    pub(super) fn new(transcript: TranscriptFile) -> Self {
        Self {
            about: transcript.about.clone(),
            transcript: Some(transcript),
        }
    }

    /// Uses the file on a blocking thread.
    async fn with_file<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut TranscriptFile) -> io::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let gone = || Error::new(ErrorKind::Invalid, "an earlier read failed".to_owned());
        let mut transcript = self.transcript.take().ok_or_else(gone)?;
        let work = move || {
            let done = work(&mut transcript);
            (transcript, done)
        };
        let done = tokio::task::spawn_blocking(work).await;
        let (transcript, done) = done.expect("the blocking task does not panic");
        self.transcript = Some(transcript);
        done.map_err(|error| failed(&error))
    }
}

impl Transcript for OpenTranscript {
    fn info(&self) -> &TranscriptInfo {
        &self.about
    }

    fn next(&mut self) -> Boxed<'_, Result<Option<Portion>, Error>> {
        Box::pin(self.with_file(TranscriptFile::portion))
    }

    fn digest(&mut self, bytes: u64) -> Boxed<'_, Result<Digest, Error>> {
        Box::pin(self.with_file(move |transcript| transcript.digest(bytes)))
    }
}

/// A transcript that is being read.
pub(super) struct TranscriptFile {
    pub(super) about: TranscriptInfo,
    reader: Reader<FilePrefix>,
    /// An item that was read and did not fit into the previous portion.
    pending: Option<Item>,
    finished: bool,
    hash_source: File,
    hashed: (u64, IncrementalDigest),
}

impl TranscriptFile {
    pub(super) fn open(format: FileFormat, path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let file = File::open(&path)?;
        let (metadata, hash_source) = (file.metadata()?, File::open(&path)?);
        if !metadata.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let length = metadata.len();
        let reader = format.read(FilePrefix::new(file, length))?;
        let mut transcript = Self {
            about: TranscriptInfo {
                id: id_from_path(&path),
                content: path.clone(),
                path,
                length,
                started_at: None,
                folder: None,
                prompt: None,
                has_messages: false,
            },
            reader,
            pending: None,
            finished: false,
            hash_source,
            hashed: (0, IncrementalDigest::default()),
        };
        transcript.read_about()?;
        transcript.reader.restart()?;
        if format == FileFormat::Gemini {
            transcript.about.folder = gemini::project_root(&transcript.about.path);
        }
        Ok(transcript)
    }

    /// Reads until the id, the folder and the first prompt are known.
    fn read_about(&mut self) -> io::Result<()> {
        let mut damage = None;
        while self.about.prompt.is_none()
            && let Some(item) = self.reader.next()
        {
            let entry = match item? {
                Item::Entry { entry, .. } => entry,
                Item::Damage(found) => {
                    damage.get_or_insert(found);
                    continue;
                }
            };
            let started_at: &mut Option<Timestamp> = &mut self.about.started_at;
            *started_at = started_at.or(entry.when);
            if entry.thread != Thread::Main || entry.branch == Branch::Side {
                continue;
            }
            match entry.content {
                ItemContent::User {
                    origin: Origin::User,
                    parts,
                } => {
                    let mut prompt = plain_text(&parts);
                    prompt.truncate(prompt.floor_char_boundary(MAX_PROMPT));
                    self.about.prompt = Some(prompt).filter(|prompt| !prompt.trim().is_empty());
                    self.about.has_messages = true;
                }
                ItemContent::Assistant { .. } | ItemContent::Result(_) => {
                    self.about.has_messages = true;
                }
                _ => {}
            }
        }
        if let (0, Some(damage)) = (self.reader.records(), damage) {
            return Err(io::Error::other(format!("no record can be read: {damage}")));
        }
        let facts = self.reader.facts();
        self.about.folder.clone_from(&facts.cwd);
        let reported = facts.session.clone().filter(|id| check_id(id).is_ok());
        self.about.id = self.about.id.take().or(reported);
        Ok(())
    }

    fn portion(&mut self) -> io::Result<Option<Portion>> {
        if self.finished {
            return Ok(None);
        }
        let mut portion = Portion::default();
        let (mut bounds, mut torn) = (None, None);
        loop {
            let next = self.pending.take().map(Ok);
            let Some(item) = next.or_else(|| self.reader.next()) else {
                self.finished = true;
                portion.bytes = torn.unwrap_or(self.reader.bytes());
                return Ok(Some(portion));
            };
            let item = item?;
            let at = match &item {
                Item::Entry { at, .. } => *at,
                Item::Damage(damage) => damage.at,
            };
            let (first, last) = *bounds.get_or_insert((at.offset, at.line));
            // All items of one line stay together.
            if at.line != last && at.offset + at.length - first > PORTION_BYTES {
                portion.bytes = at.offset;
                self.pending = Some(item);
                return Ok(Some(portion));
            }
            bounds = Some((first, at.line));
            match item {
                Item::Entry { entry, .. } => portion.items.push((at.offset, entry)),
                Item::Damage(damage) => {
                    // Its writer may just not have finished it.
                    if damage.reason == Reason::Torn {
                        torn = Some(at.offset);
                    }
                    portion.damage.push((at.offset, damage.to_string()));
                }
            }
        }
    }

    fn digest(&mut self, bytes: u64) -> io::Result<Digest> {
        let (done, running) = &mut self.hashed;
        let mut buffer = vec![0; BUFFER];
        while *done < bytes {
            let wanted = usize::try_from(bytes - *done).unwrap_or(BUFFER).min(BUFFER);
            let read = self.hash_source.read(&mut buffer[..wanted])?;
            if read == 0 {
                let reason = "the file shrank while it was read";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, reason));
            }
            running.add(&buffer[..read]);
            *done += read as u64;
        }
        Ok(running.digest())
    }
}

/// The id of a conversation in its file's name: the stem, or the end of it.
fn id_from_path(path: &Path) -> Option<String> {
    const UUID: usize = 36;
    let stem = path.file_stem()?.to_str()?;
    let id = stem.get(stem.len().checked_sub(UUID)?..)?;
    let before = &stem[..stem.len() - UUID];
    let usual = before.is_empty() || (before.starts_with("rollout-") && before.ends_with('-'));
    (usual && check_id(id).is_ok()).then(|| id.to_ascii_lowercase())
}

/// A file up to a fixed offset: what is appended later is not visible.
#[derive(Debug)]
struct FilePrefix {
    file: File,
    at: u64,
    end: u64,
}

impl FilePrefix {
    fn new(file: File, end: u64) -> Self {
        Self { file, at: 0, end }
    }
}

impl Read for FilePrefix {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let room = buffer.len().min(left);
        let read = self.file.read(&mut buffer[..room])?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for FilePrefix {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = self.file.seek(to)?;
        Ok(self.at)
    }
}
