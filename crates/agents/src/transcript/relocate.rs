//! Moves a transcript to another folder, and to another session id.
//!
//! Only the fields change that hold the program's folder and the session's id. The conversation
//! stays as it is, paths in it included, and so does every other byte.

use std::io::{self, Read, Seek, Write};
use std::ops::Range;

use serde::Serialize;

use super::paths::check_id;
use super::{Content, Limits, Lines, Object, TranscriptFormat, spans};
use super::{claude_code, codex};

/// The new folder and id of a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relocation {
    /// The old folder; folders below it move along.
    pub from: String,
    pub to: String,
    /// A new id for the session.
    pub session: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Relocated {
    /// How many fields hold another folder now.
    pub folders: u64,
    /// How many fields hold another session id now.
    pub sessions: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    Folder,
    Folders,
    Session,
}

/// The keys that lead to a field, and what the field holds.
pub(crate) type FieldPath = (&'static [&'static str], Field);

impl TranscriptFormat {
    /// Writes the transcript with the new folder and session id.
    pub fn relocate<R: Read + Seek>(
        self,
        source: R,
        to: &mut dyn Write,
        target: &Relocation,
    ) -> io::Result<Relocated> {
        if let Some(Err(error)) = target.session.as_deref().map(check_id) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
        }
        let mut lines = Lines::new(source, Limits::default().line)?;
        let mut relocator = Relocator {
            target,
            session: None,
            moved: Relocated::default(),
        };
        while let Some(found) = lines.next()? {
            match lines.content(found) {
                Content::Record(record) => {
                    let field_paths = self.field_paths(&record);
                    to.write_all(&relocator.line(lines.bytes(), &field_paths))?;
                }
                Content::Blank | Content::Unreadable(_) => lines.copy(found, to)?,
            }
            if found.ended {
                to.write_all(b"\n")?;
            }
        }
        to.flush()?;
        Ok(relocator.moved)
    }

    fn field_paths(self, record: &Object) -> Vec<FieldPath> {
        match self {
            Self::ClaudeCode => claude_code::field_paths(),
            Self::Codex => codex::field_paths(record),
        }
    }
}

struct Relocator<'a> {
    target: &'a Relocation,
    /// The session's own id: the first one in the file.
    session: Option<String>,
    moved: Relocated,
}

impl Relocator<'_> {
    /// Replaces the values of the fields in a line.
    fn line(&mut self, line: &[u8], field_paths: &[FieldPath]) -> Vec<u8> {
        let mut changes: Vec<(Range<usize>, String)> = Vec::new();
        for (keys, field) in field_paths {
            let mut at = Some(0..line.len());
            for key in *keys {
                at = at.and_then(|object| spans::member(line, object, key));
            }
            let Some(at) = at else { continue };
            let ranges = match field {
                Field::Folders => spans::items(line, at),
                Field::Folder | Field::Session => vec![at],
            };
            for at in ranges {
                if let Ok(value) = serde_json::from_slice::<String>(&line[at.clone()])
                    && let Some(new) = self.value(&value, *field)
                {
                    changes.push((at, new));
                }
            }
        }
        changes.sort_by_key(|(at, _)| at.start);
        let (mut output, mut copied) = (Vec::with_capacity(line.len()), 0);
        for (at, value) in changes {
            output.extend_from_slice(&line[copied..at.start]);
            let value = serde_json::to_string(&value).expect("a string serializes to JSON");
            output.extend_from_slice(value.as_bytes());
            copied = at.end;
        }
        output.extend_from_slice(&line[copied..]);
        output
    }

    /// The new value of a field; `None` if it stays.
    fn value(&mut self, value: &str, field: Field) -> Option<String> {
        match field {
            Field::Folder | Field::Folders => {
                let new = self.folder(value)?;
                self.moved.folders += 1;
                Some(new)
            }
            Field::Session => {
                let own = self.session.get_or_insert_with(|| value.to_owned());
                let new = self.target.session.as_ref()?;
                if own != value || new == value {
                    return None;
                }
                self.moved.sessions += 1;
                Some(new.clone())
            }
        }
    }

    fn folder(&self, folder: &str) -> Option<String> {
        let Relocation { from, to, .. } = self.target;
        let rest = folder.strip_prefix(from.trim_end_matches('/'))?;
        let inside = rest.is_empty() || rest.starts_with('/');
        (inside && from != to).then(|| format!("{}{rest}", to.trim_end_matches('/')))
    }
}
