//! The marks of sessions in the trash: a file `trash/ID` for each.
//!
//! It is a file and not a row, so that a session whose database is damaged can be moved to the trash,
//! restored and destroyed, too (P8).

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use segno_core::digest::Digest;
use segno_core::id::{Name, SessionId};
use segno_core::ports::{Access, replace_file};
use segno_core::store::{Error, TrashedSession};
use segno_core::time::Timestamp;
use serde_json::{Value, json};

use crate::home::Home;

fn path(home: &Home, session: SessionId) -> PathBuf {
    home.trash().join(session.to_string())
}

pub(super) fn exists(home: &Home, session: SessionId) -> bool {
    std::fs::symlink_metadata(path(home, session)).is_ok()
}

/// The sessions in the trash, and files that are no marks.
pub(super) fn list(home: &Home) -> (BTreeSet<SessionId>, Vec<PathBuf>) {
    let (mut sessions, mut others) = (BTreeSet::new(), Vec::new());
    for file in home.disk().list(&home.trash()).unwrap_or_default() {
        let name = file.file_name().and_then(|name| name.to_str());
        match name.and_then(|name| name.parse().ok()) {
            Some(session) if path(home, session) == file => drop(sessions.insert(session)),
            _ => others.push(file),
        }
    }
    (sessions, others)
}

/// Writes the mark; durable when it returns.
pub(super) fn write(home: &Home, trashed: &TrashedSession) -> io::Result<()> {
    let place = path(home, trashed.session);
    let draft = place.with_extension("draft");
    let text = encode(trashed);
    let disk = &**home.disk();
    replace_file(
        disk,
        &draft,
        &place,
        text.as_bytes(),
        Access::Private,
        |_| {},
    )
}

/// Removes the mark; durable when it returns.
pub(super) fn remove(home: &Home, session: SessionId) -> io::Result<()> {
    home.disk().remove(&path(home, session))?;
    home.disk().sync_folder(&home.trash())
}

/// Reads the mark. A damaged one still says that its session is in the trash.
pub(super) fn read(home: &Home, session: SessionId) -> Result<TrashedSession, Error> {
    let place = path(home, session);
    let bytes = home.disk().read(&place, 4096).unwrap_or_default();
    decode(session, &bytes).ok_or_else(|| damaged(session, &place))
}

fn damaged(session: SessionId, place: &Path) -> Error {
    Error::Damaged {
        object: format!(
            "the mark of session {session} in the trash ({})",
            place.display()
        ),
        reason: "it does not match its checksum".into(),
    }
}

fn encode(trashed: &TrashedSession) -> String {
    let name = trashed.name.as_ref().map(Name::as_str);
    let fields = [
        trashed.session.to_string(),
        trashed.at.0.to_string(),
        name.unwrap_or_default().to_owned(),
    ];
    let check = Digest::of_fields(&fields.each_ref().map(String::as_bytes)).short();
    let mark = json!({"at": trashed.at.0, "name": name, "check": check});
    format!("{mark}\n")
}

fn decode(session: SessionId, bytes: &[u8]) -> Option<TrashedSession> {
    let mark: Value = serde_json::from_slice(bytes).ok()?;
    let name = match mark.get("name")? {
        Value::Null => None,
        name => Some(Name::new(name.as_str()?).ok()?),
    };
    let at = Timestamp(mark.get("at")?.as_i64()?);
    let trashed = TrashedSession { session, name, at };
    // Comparing the whole text also rejects other spellings of the same values.
    (encode(&trashed).as_bytes() == bytes).then_some(trashed)
}
