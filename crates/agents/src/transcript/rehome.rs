//! Moves a transcript to another folder, and under another session id.
//!
//! Only the fields change in which the program says where it works and what the session is called.
//! What was said stays as it was said, paths in it included, and so does every other byte.

use std::io::{self, Read, Seek, Write};
use std::ops::Range;

use serde::Serialize;

use super::place::check;
use super::{Content, Limits, Lines, Native, Object, spans};
use crate::{claude_code, codex};

/// Where a transcript is to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// The folder that it comes from; folders below it move along.
    pub from: String,
    /// The folder that it goes to.
    pub to: String,
    /// The id that the session gets instead of its own.
    pub session: Option<String>,
}

/// What was changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// Fields that say another folder now.
    pub folders: u64,
    /// Fields that say another session now.
    pub sessions: u64,
}

/// What a field says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    /// A folder.
    Folder,
    /// A list of folders.
    Folders,
    /// The session.
    Session,
}

/// A field by the names that lead to it.
pub(crate) type Way = (&'static [&'static str], Field);

impl Native {
    /// Writes the transcript as it would be in the other place.
    pub fn rehome<R: Read + Seek>(
        self,
        source: R,
        to: &mut dyn Write,
        target: &Move,
    ) -> io::Result<Moved> {
        if let Some(Err(error)) = target.session.as_deref().map(check) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
        }
        let mut lines = Lines::new(source, Limits::default().line)?;
        let mut moving = Moving {
            target,
            session: None,
            moved: Moved::default(),
        };
        while let Some(found) = lines.next()? {
            match lines.content(found) {
                Content::Record(record) => {
                    let ways = self.ways(&record);
                    to.write_all(&moving.line(lines.bytes(), &ways))?;
                }
                Content::Blank | Content::Unreadable(_) => lines.copy(found, to)?,
            }
            if found.ended {
                to.write_all(b"\n")?;
            }
        }
        to.flush()?;
        Ok(moving.moved)
    }

    fn ways(self, record: &Object) -> Vec<Way> {
        match self {
            Self::ClaudeCode => claude_code::transcript::ways(),
            Self::Codex => codex::transcript::ways(record),
        }
    }
}

struct Moving<'a> {
    target: &'a Move,
    /// The session's own id: the first that is told.
    session: Option<String>,
    moved: Moved,
}

impl Moving<'_> {
    /// The line with other values in its fields.
    fn line(&mut self, line: &[u8], ways: &[Way]) -> Vec<u8> {
        let mut changes: Vec<(Range<usize>, String)> = Vec::new();
        for (way, field) in ways {
            let mut at = Some(0..line.len());
            for key in *way {
                at = at.and_then(|object| spans::member(line, object, key));
            }
            let Some(at) = at else { continue };
            let places = match field {
                Field::Folders => spans::items(line, at),
                Field::Folder | Field::Session => vec![at],
            };
            for at in places {
                if let Ok(value) = serde_json::from_slice::<String>(&line[at.clone()])
                    && let Some(new) = self.value(&value, *field)
                {
                    changes.push((at, new));
                }
            }
        }
        changes.sort_by_key(|(at, _)| at.start);
        let (mut made, mut copied) = (Vec::with_capacity(line.len()), 0);
        for (at, value) in changes {
            made.extend_from_slice(&line[copied..at.start]);
            let value = serde_json::to_string(&value).expect("a text is JSON");
            made.extend_from_slice(value.as_bytes());
            copied = at.end;
        }
        made.extend_from_slice(&line[copied..]);
        made
    }

    /// The other value of a field; `None` if it stays.
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
        let Move { from, to, .. } = self.target;
        let rest = folder.strip_prefix(from.trim_end_matches('/'))?;
        let inside = rest.is_empty() || rest.starts_with('/');
        (inside && from != to).then(|| format!("{}{rest}", to.trim_end_matches('/')))
    }
}
