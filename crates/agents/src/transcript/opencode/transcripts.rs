//! The conversations in opencode's database, for importing them as sessions.

use std::io;
use std::path::{Path, PathBuf};

use segno_core::agent::Error;
use segno_core::digest::Digest;
use segno_core::ports::Boxed;
use segno_core::transcript::{Portion, Transcript, TranscriptInfo, TranscriptSource, Transcripts};
use tempfile::NamedTempFile;

use super::database::Database;
use super::{extract, is_session_id};
use crate::transcript::folder::{FileFormat, OpenTranscript, TranscriptFile, run_blocking};

/// The conversations of opencode. The name of a conversation is its id below the database's path.
#[derive(Debug, Clone)]
pub struct OpenCodeTranscripts {
    database: Database,
}

impl OpenCodeTranscripts {
    /// The conversations in opencode's data folder.
    pub fn new(folder: &Path) -> Self {
        Self {
            database: Database::in_folder(folder),
        }
    }
}

impl Transcripts for OpenCodeTranscripts {
    fn source(&self) -> TranscriptSource {
        TranscriptSource::OpenCode
    }

    fn list(&self, folder: Option<PathBuf>) -> Boxed<'_, Result<Vec<PathBuf>, Error>> {
        let database = match folder {
            Some(folder) => Database::in_folder(&folder),
            None => self.database.clone(),
        };
        Box::pin(run_blocking(database.path().to_owned(), move |path| {
            let all = database.conversations()?.into_iter();
            Ok(all.map(|conversation| path.join(conversation.id)).collect())
        }))
    }

    fn find<'a>(&'a self, id: &'a str) -> Boxed<'a, Result<Option<PathBuf>, Error>> {
        let (database, id) = (self.database.clone(), id.to_owned());
        Box::pin(run_blocking(database.path().to_owned(), move |path| {
            if !is_session_id(&id) || !path.is_file() {
                return Ok(None);
            }
            let found = database.with_conversation(&id, |_, _| Ok(()))?;
            Ok(found.map(|()| path.join(id)))
        }))
    }

    fn open(&self, path: PathBuf) -> Boxed<'_, Result<Box<dyn Transcript>, Error>> {
        Box::pin(async move {
            let opened = run_blocking(path, |path| {
                let (extract, id) = extract_conversation(path)?;
                let mut transcript =
                    TranscriptFile::open(FileFormat::OpenCodeExtract, extract.path())?;
                path.clone_into(&mut transcript.about.path);
                transcript.about.id = Some(id);
                Ok(Extract {
                    transcript: OpenTranscript::new(transcript),
                    _file: extract,
                })
            });
            Ok(Box::new(opened.await?) as Box<dyn Transcript>)
        })
    }
}

/// Writes a conversation to a file that only the user can read.
fn extract_conversation(path: &Path) -> io::Result<(NamedTempFile, String)> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, "no such conversation");
    let id = path.file_name().and_then(|name| name.to_str());
    let id = id.filter(|id| is_session_id(id)).ok_or_else(missing)?;
    let database = Database::at(path.parent().ok_or_else(missing)?.to_owned());
    let mut file = NamedTempFile::with_prefix("segno-opencode-")?;
    let to = file.as_file_mut();
    let written = database.with_conversation(id, |reading, conversation| {
        extract::write(reading, &conversation, to)
    })?;
    written.ok_or_else(missing)??;
    Ok((file, id.to_owned()))
}

/// An extract that is being read. The file is deleted afterwards.
struct Extract {
    transcript: OpenTranscript,
    _file: NamedTempFile,
}

impl Transcript for Extract {
    fn info(&self) -> &TranscriptInfo {
        self.transcript.info()
    }

    fn next(&mut self) -> Boxed<'_, Result<Option<Portion>, Error>> {
        self.transcript.next()
    }

    fn digest(&mut self, bytes: u64) -> Boxed<'_, Result<Digest, Error>> {
        self.transcript.digest(bytes)
    }
}
