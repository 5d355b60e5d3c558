//! Finds transcripts and their fingerprints by metadata only. No file is opened.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use segno_agents::transcript::opencode::{Conversation, Database};
use segno_core::ports::Disk;
use segno_core::transcript::TranscriptSource;
use segno_store::LocalDisk;

use crate::transcripts::programs;

/// The fingerprint of a transcript, from metadata. It differs after every change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint {
    file: (u64, u64, i64, i64),
    /// The same for the sub-agent transcripts that belong to it, summed up.
    subagents: (u64, u64, i64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transcript {
    pub source: TranscriptSource,
    pub path: PathBuf,
    pub fingerprint: Fingerprint,
}

impl Fingerprint {
    /// Reads the current fingerprint. Returns `None` if there is no such transcript.
    pub fn of(source: TranscriptSource, path: &Path) -> Option<Self> {
        if source == TranscriptSource::OpenCode {
            let database = Database::in_folder(path.parent()?.parent()?);
            let id = path.file_name()?.to_str()?;
            let mut all = database.conversations().ok()?.into_iter();
            return Some(Self::of_conversation(&all.find(|found| found.id == id)?));
        }
        // Links are not followed: other users must not decide what is read.
        let found = path.symlink_metadata().ok().filter(Metadata::is_file)?;
        let mut subagents = (0, 0, 0);
        if source == TranscriptSource::ClaudeCode {
            let folder = path.with_extension("").join("subagents");
            for part in LocalDisk.list(&folder).unwrap_or_default() {
                if let Ok(part) = part.symlink_metadata() {
                    subagents.0 += 1;
                    subagents.1 += part.len();
                    subagents.2 = subagents.2.max(part.mtime());
                }
            }
        }
        Some(Self {
            file: (found.ino(), found.len(), found.mtime(), found.mtime_nsec()),
            subagents,
        })
    }

    /// The fingerprint of a conversation in a database.
    fn of_conversation(conversation: &Conversation) -> Self {
        let (seconds, millis) = (
            conversation.updated.div_euclid(1000),
            conversation.updated.rem_euclid(1000),
        );
        Self {
            file: (0, conversation.messages, seconds, millis * 1_000_000),
            subagents: (0, 0, 0),
        }
    }

    /// The modification time, as seconds and nanoseconds.
    pub fn modified_at(&self) -> (i64, i64) {
        (self.file.2, self.file.3)
    }
}

/// The folders that contain transcripts, and the folders above them, in which new folders may
/// appear.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tree {
    pub above: Vec<PathBuf>,
    pub leaves: Vec<PathBuf>,
}

/// Finds all folders of an agent. Missing folders are skipped.
pub fn tree(source: TranscriptSource, root: &Path) -> Tree {
    let (first, depth) = match source {
        TranscriptSource::ClaudeCode => ("projects", 1),
        TranscriptSource::Codex => ("sessions", 3),
        TranscriptSource::Gemini => ("tmp", 2),
        // The folder with the database.
        TranscriptSource::OpenCode => ("", 0),
    };
    let mut tree = Tree::default();
    // A folder that does not exist yet will appear in its nearest existing ancestor.
    let nearest = root.ancestors().find(|folder| folder.is_dir());
    tree.above.extend(nearest.map(Path::to_owned));
    let mut level = vec![root.join(first)];
    level.retain(|folder| folder.is_dir());
    for _ in 0..depth {
        let below = level
            .iter()
            .flat_map(|folder| folders(folder).unwrap_or_default());
        let below = below.collect();
        tree.above.append(&mut level);
        level = below;
    }
    tree.leaves = level;
    tree
}

fn folders(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut entries = LocalDisk.list(folder)?;
    entries.retain(|entry| entry.is_dir());
    Ok(entries)
}

/// Lists the transcripts in one folder.
pub fn transcripts_in(source: TranscriptSource, root: &Path, folder: &Path) -> Vec<Transcript> {
    if source == TranscriptSource::OpenCode {
        return conversations_in(folder);
    }
    // A missing folder contains none.
    let entries = LocalDisk.list(folder).unwrap_or_default();
    let transcript = |path: PathBuf| {
        let is_transcript = programs::is_transcript(source, root, &path);
        let fingerprint = Fingerprint::of(source, &path).filter(|_| is_transcript)?;
        Some(Transcript {
            source,
            path,
            fingerprint,
        })
    };
    entries.into_iter().filter_map(transcript).collect()
}

/// Lists the conversations in opencode's database.
fn conversations_in(folder: &Path) -> Vec<Transcript> {
    let database = Database::in_folder(folder);
    // A database that cannot be read now is read again with the next scan; an import says why.
    let found = database.conversations().unwrap_or_default().into_iter();
    let transcript = |conversation: Conversation| Transcript {
        source: TranscriptSource::OpenCode,
        path: database.path().join(&conversation.id),
        fingerprint: Fingerprint::of_conversation(&conversation),
    };
    found.map(transcript).collect()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test makes files as agents do")]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    const ID: &str = "5e550000-0000-4000-8000-000000000001";

    #[test]
    fn every_change_of_a_transcript_is_detected() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("projects/-a");
        fs::create_dir_all(folder.join(ID).join("subagents")).unwrap();
        let file = folder.join(format!("{ID}.jsonl"));
        fs::write(&file, "{}\n").unwrap();
        fs::write(folder.join("notes.jsonl"), "").unwrap();
        let link = folder.join(format!("{}.jsonl", ID.replace('5', "6")));
        symlink("/etc/passwd", link).unwrap();
        let tree = tree(TranscriptSource::ClaudeCode, root.path());
        assert_eq!(tree.leaves, std::slice::from_ref(&folder));
        assert_eq!(
            tree.above,
            [root.path().to_owned(), root.path().join("projects")]
        );
        let found = transcripts_in(TranscriptSource::ClaudeCode, root.path(), &folder);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].path, file);
        let mut seen = vec![found[0].fingerprint];
        let mut differs = || {
            let fingerprint = Fingerprint::of(TranscriptSource::ClaudeCode, &file).unwrap();
            let new = !seen.contains(&fingerprint);
            seen.push(fingerprint);
            new
        };
        assert!(!differs());
        fs::write(&file, "{}\n{}\n").unwrap();
        assert!(differs(), "it grew");
        fs::remove_file(&file).unwrap();
        fs::write(folder.join("other"), "").unwrap();
        fs::write(&file, "{}\n{}\n").unwrap();
        assert!(differs(), "it was replaced");
        fs::write(&file, "").unwrap();
        assert!(differs(), "it was emptied");
        fs::write(folder.join(ID).join("subagents/agent-1.jsonl"), "{}").unwrap();
        assert!(differs(), "a sub-agent spoke");
    }
}
