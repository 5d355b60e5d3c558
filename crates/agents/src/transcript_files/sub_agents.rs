//! The transcripts of sub-agents, which Claude Code keeps beside the transcript of a conversation,
//! each with a description.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io::{self, Cursor, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use segno_core::cli_agent::TranscriptCopy;

use super::{list, write};
use crate::transcript::{Relocation, TranscriptFormat};

/// Reads the files of sub-agents, by name. Files beyond the size limits, and what is no regular
/// file, are excluded: the conversation can be resumed without them.
pub(super) fn copy(
    native: TranscriptFormat,
    record: &Path,
) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let (mut beside, mut room) = (BTreeMap::new(), TranscriptCopy::MAX_BYTES);
    for transcript in native.sub_agents(record, &list)? {
        for path in [transcript.with_extension("meta.json"), transcript] {
            let facts = fs::symlink_metadata(&path).ok();
            let Some(facts) = facts.filter(fs::Metadata::is_file) else {
                continue;
            };
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            match room.checked_sub(facts.len()) {
                Some(rest) if beside.len() < TranscriptCopy::MAX_FILES => room = rest,
                _ => return Ok(beside),
            }
            beside.insert(name.to_owned(), fs::read(&path)?);
        }
    }
    Ok(beside)
}

/// Writes the files of sub-agents beside a transcript that is about to be written.
pub(super) fn install(
    native: TranscriptFormat,
    record: &Path,
    kept: BTreeMap<String, Vec<u8>>,
    target: &Relocation,
) -> io::Result<()> {
    let Some(folder) = native.sub_agent_folder(record) else {
        return Ok(());
    };
    let files = kept.into_iter().filter(|(name, _)| is_valid_name(name));
    let files: Vec<(PathBuf, Vec<u8>)> = files
        .map(|(name, bytes)| (folder.join(name), bytes))
        .filter(|(path, _)| fs::symlink_metadata(path).is_err())
        .collect();
    if files.is_empty() {
        return Ok(());
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)?;
    for (path, bytes) in files {
        let is_record = path.extension().is_some_and(|end| end == "jsonl");
        write(&path, |file| {
            if is_record {
                native.relocate(Cursor::new(bytes), file, target).map(drop)
            } else {
                file.write_all(&bytes)
            }
        })?;
    }
    Ok(())
}

/// Whether the program could have chosen this name. Names come from outside, and become part of a
/// path.
fn is_valid_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let ends = |end: &&str| name.strip_suffix(*end).is_some();
    let is_known = [".jsonl", ".meta.json"].iter().any(ends);
    name.starts_with("agent-") && is_known && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_sub_agent_file_names_are_installed() {
        for name in ["agent-a1.jsonl", "agent-a1.meta.json"] {
            assert!(is_valid_name(name), "{name}");
        }
        for name in [
            "agent-../../x.jsonl",
            "../agent-a.jsonl",
            "agent-a/b.jsonl",
            "agent-a.sh",
            "settings.json",
            "agent-\0.jsonl",
            ".jsonl",
        ] {
            assert!(!is_valid_name(name), "{name}");
        }
    }
}
