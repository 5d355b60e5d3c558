//! The records that agent programs keep of their conversations, where they keep them.
//!
//! They are the programs' own: looking changes nothing, and what is put in order is kept as it was,
//! beside it.
#![expect(
    clippy::disallowed_methods,
    reason = "records lie where the programs put them, are read line by line however long they are, and are replaced in one step"
)]

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Cursor, Read, Seek};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use segno_core::agent::{Error, ErrorKind};
use segno_core::companion::{self, Health, Record};
use segno_core::conversation::{Branch, Entry, Origin, Said, Thread, Tokens};
use segno_core::ports::Boxed;
use segno_core::time::Timestamp;
use segno_core::usage::Usage;

use crate::program::Setup;
use crate::transcript::{Item, Move, Native, Repair, Report, Target, moment};

/// How many things that are wrong with a record are told.
const TOLD: usize = 3;
/// How many of the newest messages and answers are known by name.
const NAMED: usize = 4096;
/// The longest record that is kept with a checkpoint.
const LONGEST: u64 = 256 << 20;

/// The records of one program on this machine.
#[derive(Debug, Clone)]
pub(crate) struct Records {
    pub(crate) native: Native,
    /// Where the program keeps them.
    pub(crate) home: PathBuf,
    /// The model that goes on, if one is chosen.
    pub(crate) model: Option<String>,
}

impl Records {
    /// Those of the program that `setup` starts.
    pub(crate) fn new(native: Native, setup: &Setup) -> Self {
        Self {
            native,
            home: setup.home.clone(),
            model: setup.model.clone(),
        }
    }
}

impl companion::Records for Records {
    fn repair<'a>(&'a self, id: &'a str) -> Boxed<'a, Result<String, Error>> {
        Box::pin(repair(self.native, &self.home, id))
    }

    fn copy<'a>(&'a self, id: &'a str) -> Boxed<'a, Result<Vec<u8>, Error>> {
        Box::pin(copy(self.native, &self.home, id))
    }

    fn settle<'a>(
        &'a self,
        id: &'a str,
        kept: &'a [u8],
        folder: &'a Path,
    ) -> Boxed<'a, Result<(), Error>> {
        Box::pin(settle(self.native, &self.home, id, kept, folder))
    }

    fn compose<'a>(
        &'a self,
        id: &'a str,
        entries: &'a [Entry],
        folder: &'a Path,
    ) -> Boxed<'a, Result<Vec<String>, Error>> {
        Box::pin(compose(self, id, entries, folder))
    }
}

/// What a program has of a conversation; `None` if nothing.
pub(crate) async fn look(native: Native, home: &Path, id: &str) -> Result<Option<Record>, Error> {
    let Some(path) = find(native, home, id) else {
        return Ok(None);
    };
    beside(path, move |path| {
        let report = native.examine(File::open(path)?)?;
        let question = question(native, File::open(path)?)?;
        Ok(Some(Record {
            bytes: report.bytes,
            health: health(&report, &question),
            named: named(native, path)?,
            unanswered: Some(report.summary.unanswered),
        }))
    })
    .await
}

/// What a conversation has taken so far, as its record tells.
pub(crate) async fn used(native: Native, home: &Path, id: &str) -> Result<Usage, Error> {
    let Some(path) = find(native, home, id) else {
        return Ok(Usage::default());
    };
    beside(path, move |path| {
        Ok(native.examine(File::open(path)?)?.summary.usage.into())
    })
    .await
}

/// Puts a record in order. What it was stays beside it.
async fn repair(native: Native, home: &Path, id: &str) -> Result<String, Error> {
    let path = find(native, home, id).ok_or_else(|| missing(id))?;
    beside(path, move |path| {
        let (draft, mut file) = draft(path)?;
        let repaired = native.repair(File::open(path)?, &mut file);
        let repaired = repaired.and_then(|repair| file.sync_all().map(|()| repair));
        let repair = repaired.inspect_err(|_| drop(fs::remove_file(&draft)))?;
        let before = keep_beside(path)?;
        fs::rename(&draft, path)?;
        sync_folder(path)?;
        Ok(done(&repair, &before))
    })
    .await
}

/// Puts a kept record where the program finds it. One in which something was said stays as it is.
async fn settle(
    native: Native,
    home: &Path,
    id: &str,
    kept: &[u8],
    folder: &Path,
) -> Result<(), Error> {
    let folder = text_of(folder)?;
    let report = native.examine(Cursor::new(kept));
    let report = report.map_err(|error| invalid(&error))?;
    let found = find(native, home, id);
    let begun = begun(kept).or(report.summary.first);
    let begun = begun.unwrap_or(Timestamp(0));
    let place = native.place(home, &folder, id, begun);
    let place = place.map_err(|error| invalid(&error))?;
    let target = Move {
        from: report.facts.cwd.unwrap_or_else(|| folder.clone()),
        to: folder,
        session: None,
    };
    let kept = kept.to_vec();
    beside(found.clone().unwrap_or(place), move |path| {
        if found.is_some() {
            let there = native.examine(File::open(path)?)?;
            let question = question(native, File::open(path)?)?;
            if health(&there, &question) != Health::Empty {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            keep_beside(path)?;
        } else if let Some(folder) = path.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)?;
        }
        let mut whole = Vec::new();
        native.repair(Cursor::new(kept), &mut whole)?;
        let (draft, mut file) = draft(path)?;
        let written = native.rehome(Cursor::new(whole), &mut file, &target);
        let written = written.and_then(|_| file.sync_all());
        written.inspect_err(|_| drop(fs::remove_file(&draft)))?;
        fs::rename(&draft, path)?;
        sync_folder(path)
    })
    .await
}

/// Writes a record of what was said elsewhere. Returns what is not in it, in words.
async fn compose(
    records: &Records,
    id: &str,
    entries: &[Entry],
    folder: &Path,
) -> Result<Vec<String>, Error> {
    let Records {
        native,
        home,
        model,
    } = records;
    let last = entries.iter().rev().find_map(|entry| entry.when);
    let target = Target {
        session: id.to_owned(),
        cwd: text_of(folder)?,
        model: model.clone().unwrap_or_default(),
        now: last.unwrap_or(Timestamp(0)),
    };
    let mut bytes = Vec::new();
    let written = native.write(entries, &target, &mut bytes);
    let written = written.map_err(|error| invalid(&error))?;
    settle(*native, home, id, &bytes, folder).await?;
    let losses = written.losses.0.iter();
    Ok(losses
        .map(|(loss, count)| format!("{count} {loss}"))
        .collect())
}

fn invalid(reason: &impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Invalid, reason.to_string())
}

fn text_of(folder: &Path) -> Result<String, Error> {
    let text = folder.to_str().map(str::to_owned);
    text.ok_or_else(|| invalid(&"the folder's name is not UTF-8"))
}

/// When a conversation was begun, as its first line says. Codex names its file after that moment, and
/// remembers the name: a second later it would not find it again.
fn begun(kept: &[u8]) -> Option<Timestamp> {
    let first = kept.split(|byte| *byte == b'\n').next()?;
    let first: serde_json::Value = serde_json::from_slice(first).ok()?;
    moment(first.pointer("/payload/timestamp")?.as_str()?)
}

/// The bytes of a record.
async fn copy(native: Native, home: &Path, id: &str) -> Result<Vec<u8>, Error> {
    let path = find(native, home, id).ok_or_else(|| missing(id))?;
    beside(path, |path| {
        if fs::metadata(path)?.len() > LONGEST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        fs::read(path)
    })
    .await
}

/// Does something with a record where nobody else has to wait for it.
async fn beside<T: Send + 'static>(
    path: PathBuf,
    work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> Result<T, Error> {
    let work = move || {
        work(&path).map_err(|error| {
            let message = format!("{}: {error}", path.display());
            Error::new(ErrorKind::Crashed, message)
        })
    };
    let done = tokio::task::spawn_blocking(work).await;
    done.expect("what is done with a record ends")
}

fn missing(id: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no record of {id}"))
}

/// Whether the first thing that was asked is in a record.
#[derive(Debug, PartialEq, Eq)]
enum Question {
    There,
    /// It is not, or nobody can tell: why.
    Missing(String),
}

/// Looks for the first question. A program that is killed soon may have named its conversation and not
/// have written down what it is about. It would go on all the same, and its model would be told to go on
/// with a task that it never heard of.
fn question(native: Native, source: impl Read + Seek) -> io::Result<Question> {
    for item in native.read(source)? {
        match item? {
            // It could have been this one.
            Item::Damage(damage) if damage.hides_something() => {
                return Ok(Question::Missing(damage.to_string()));
            }
            Item::Entry { entry, .. } if is_question(&entry) => return Ok(Question::There),
            _ => {}
        }
    }
    Ok(Question::Missing("nobody asks anything in it".to_owned()))
}

fn is_question(entry: &Entry) -> bool {
    let asked = matches!(
        &entry.said,
        Said::User { origin: Origin::Person, parts } if !parts.is_empty()
    );
    asked && entry.thread == Thread::Main && entry.branch != Branch::Side
}

/// Whether the program itself would lose something by going on with it.
fn health(report: &Report, question: &Question) -> Health {
    if let Question::Missing(why) = question {
        let summary = &report.summary;
        let answered = summary.usage != Tokens::default() || !summary.unanswered.is_empty();
        return if answered {
            Health::Unreadable(format!("what was asked is not in it ({why})"))
        } else {
            Health::Empty
        };
    }
    let harmful = report
        .damage
        .iter()
        .filter(|damage| damage.breaks_a_resume());
    let told: Vec<String> = harmful.take(TOLD).map(ToString::to_string).collect();
    if told.is_empty() {
        Health::Whole
    } else {
        Health::Damaged(told.join("; "))
    }
}

/// The names of the newest messages and answers, where the program tells the same names elsewhere.
fn named(native: Native, path: &Path) -> io::Result<Option<Vec<String>>> {
    if native == Native::Codex {
        return Ok(None);
    }
    let mut named = VecDeque::new();
    for item in native.read(File::open(path)?)? {
        let Item::Entry { entry, .. } = item? else {
            continue;
        };
        named.extend(entry.said.names().map(str::to_owned));
        while named.len() > NAMED {
            named.pop_front();
        }
    }
    Ok(Some(named.into()))
}

/// A new file beside a record, for its owner alone.
fn draft(path: &Path) -> io::Result<(PathBuf, File)> {
    let draft = path.with_extension("jsonl.segno-draft");
    // One that a killed process left is nobody's.
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)?;
    Ok((draft, file))
}

/// Gives a record a second name under which it stays as it is.
fn keep_beside(path: &Path) -> io::Result<PathBuf> {
    for number in 1.. {
        let kept = path.with_extension(format!("jsonl.before-repair-{number}"));
        match fs::hard_link(path, &kept) {
            Ok(()) => return Ok(kept),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    unreachable!("there is always another number")
}

fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

/// What a repair did, in words.
fn done(repair: &Repair, before: &Path) -> String {
    let dropped = repair.dropped.len() as u64 + repair.dropped_unlisted;
    let closed = repair.closed.len() as u64 + repair.closed_unlisted;
    let mut told = Vec::new();
    if dropped > 0 {
        told.push(format!("{dropped} lines that cannot be read were left out"));
    }
    if closed > 0 {
        told.push(format!("{closed} calls were marked as of unknown outcome"));
    }
    if repair.bridged > 0 {
        told.push(format!("{} gaps were bridged", repair.bridged));
    }
    if repair.ended {
        told.push("the last line was ended".to_owned());
    }
    format!(
        "the record of the conversation was put in order ({}); it is kept as it was in {}",
        told.join(", "),
        before.display()
    )
}

/// Where the record of a conversation is.
fn find(native: Native, home: &Path, id: &str) -> Option<PathBuf> {
    let list = |folder: &Path| -> io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(folder)?;
        entries.map(|entry| Ok(entry?.path())).collect()
    };
    // What cannot be listed cannot be read by the program either.
    let found = native.find(home, id, &list).unwrap_or_default();
    found.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAUDE: &str =
        include_str!("../tests/golden/claude_code/2.1.325/normal.transcript.jsonl");
    const CODEX: &str = include_str!("../tests/golden/codex/0.166.0/normal.rollout.jsonl");

    fn stands(native: Native, record: &str) -> Health {
        let report = native.examine(Cursor::new(record)).unwrap();
        health(&report, &question(native, Cursor::new(record)).unwrap())
    }

    /// Both programs' records of the same conversation, and the line in which it is asked for.
    fn records() -> [(Native, Vec<&'static str>, usize); 2] {
        [(Native::ClaudeCode, CLAUDE), (Native::Codex, CODEX)].map(|(native, record)| {
            let lines: Vec<&str> = record.split_inclusive('\n').collect();
            let is_asked = |line: &&str| {
                line.contains("\"role\":\"user\"") && line.contains("[script:standard]")
            };
            let asked = lines.iter().position(is_asked).unwrap();
            (native, lines, asked)
        })
    }

    #[test]
    fn a_record_without_its_question_is_empty_however_much_else_is_in_it() {
        for (native, lines, asked) in records() {
            for end in 0..=lines.len() {
                let health = stands(native, &lines[..end].concat());
                assert_eq!(health == Health::Empty, end <= asked, "{native:?} {end}");
            }
            let torn = &lines[asked][..lines[asked].len() / 2];
            let health = stands(native, &(lines[..asked].concat() + torn));
            assert_eq!(health, Health::Empty, "{native:?}");
        }
    }

    #[test]
    fn a_record_that_lost_its_question_is_not_gone_on_with() {
        for (native, mut lines, asked) in records() {
            for broken in ["{\"type\":\"us\0\0\n", ""] {
                lines[asked] = broken;
                let health = stands(native, &lines.concat());
                assert!(
                    matches!(&health, Health::Unreadable(why) if why.contains("what was asked")),
                    "{native:?} {health:?}"
                );
            }
        }
    }

    #[test]
    fn a_record_that_is_broken_after_its_question_can_be_put_in_order() {
        for (native, mut lines, asked) in records() {
            let last = lines.len() - 1;
            assert!(last > asked + 1, "{native:?}");
            lines[last] = "{\"type\":\"ass\0\0\n";
            let health = stands(native, &lines.concat());
            assert!(
                matches!(health, Health::Damaged(_)),
                "{native:?} {health:?}"
            );
        }
    }

    #[test]
    fn a_conversation_was_begun_when_it_says_so_and_not_when_that_was_written_down() {
        let line = r#"{"timestamp":"2026-11-16T03:14:45.004Z","type":"session_meta","payload":{"timestamp":"2026-11-16T03:14:44.996Z"}}"#;
        let told = begun(format!("{line}\n{{}}\n").as_bytes());
        assert_eq!(told, moment("2026-11-16T03:14:44.996Z"));
        assert_eq!(begun(b"{}\n"), None);
    }
}
