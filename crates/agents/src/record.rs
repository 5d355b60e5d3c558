//! The records that agent programs keep of their conversations, where they keep them.
//!
//! They are the programs' own: looking changes nothing, and what is put in order is kept as it was,
//! beside it.
#![expect(
    clippy::disallowed_methods,
    reason = "records lie where the programs put them, are read line by line however long they are, and are replaced in one step"
)]

mod beside;

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Cursor, Read, Seek};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use segno_core::agent::{Error, ErrorKind};
use segno_core::companion::{self, Health, Kept, Record};
use segno_core::conversation::{Branch, Entry, Origin, Said, Thread, Tokens};
use segno_core::fault::{Point, point};
use segno_core::ports::Boxed;
use segno_core::time::Timestamp;
use segno_core::usage::Usage;

use crate::program::Setup;
use crate::transcript::{Item, Move, Native, Repair, Report, Target, moment};

/// How many things that are wrong with a record are told.
const TOLD: usize = 3;
/// How many of the newest messages and answers are known by name.
const NAMED: usize = 4096;
/// How the names of drafts end.
const DRAFT: &str = "segno-draft";

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

    fn copy<'a>(&'a self, id: &'a str) -> Boxed<'a, Result<Kept, Error>> {
        Box::pin(copy(self.native, &self.home, id))
    }

    fn look<'a>(&'a self, kept: &'a [u8]) -> Boxed<'a, Result<Record, Error>> {
        let known = known(self.native, || Ok(Cursor::new(kept)));
        Box::pin(std::future::ready(known.map_err(|error| invalid(&error))))
    }

    fn settle<'a>(
        &'a self,
        id: &'a str,
        kept: &'a Kept,
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
    apart(path, move |path| {
        known(native, || File::open(path)).map(Some)
    })
    .await
}

/// What is in a record, which is read several times.
fn known<R: Read + Seek>(native: Native, open: impl Fn() -> io::Result<R>) -> io::Result<Record> {
    let report = native.examine(open()?)?;
    let question = question(native, open()?)?;
    Ok(Record {
        bytes: report.bytes,
        health: health(&report, &question),
        named: named(native, open()?)?,
        unanswered: Some(report.summary.unanswered),
    })
}

/// What a conversation has taken so far, as its record tells.
pub(crate) async fn used(native: Native, home: &Path, id: &str) -> Result<Usage, Error> {
    let Some(path) = find(native, home, id) else {
        return Ok(Usage::default());
    };
    apart(path, move |path| {
        Ok(native.examine(File::open(path)?)?.summary.usage.into())
    })
    .await
}

/// Puts a record in order. What it was stays beside it.
async fn repair(native: Native, home: &Path, id: &str) -> Result<String, Error> {
    let path = find(native, home, id).ok_or_else(|| missing(id))?;
    apart(path, move |path| {
        let mut draft = Draft::beside(path)?;
        let source = File::open(path)?;
        let repair = draft.write(|file| native.repair(source, file))?;
        let before = keep_beside(path)?;
        draft.publish(path)?;
        Ok(done(&repair, &before))
    })
    .await
}

/// Puts a kept record where the program finds it, under this name. One in which something was said stays
/// as it is.
async fn settle(
    native: Native,
    home: &Path,
    id: &str,
    kept: &Kept,
    folder: &Path,
) -> Result<(), Error> {
    let folder = text_of(folder)?;
    let report = native.examine(Cursor::new(&kept.record));
    let report = report.map_err(|error| invalid(&error))?;
    let found = find(native, home, id);
    let begun = begun(&kept.record).or(report.summary.first);
    let begun = begun.unwrap_or(Timestamp(0));
    let place = native.place(home, &folder, id, begun);
    let place = place.map_err(|error| invalid(&error))?;
    let target = Move {
        from: report.facts.cwd.unwrap_or_else(|| folder.clone()),
        to: folder,
        // A copy goes on by itself, under a name of its own.
        session: Some(id.to_owned()),
    };
    let kept = kept.clone();
    apart(found.clone().unwrap_or(place), move |path| {
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
        // The record last: with it the conversation is there.
        beside::settle(native, path, kept.beside, &target)?;
        let mut whole = Vec::new();
        native.repair(Cursor::new(kept.record), &mut whole)?;
        write(path, |file| {
            native.rehome(Cursor::new(whole), file, &target).map(drop)
        })
    })
    .await
}

/// Writes a file in one step.
fn write(path: &Path, content: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let mut draft = Draft::beside(path)?;
    draft.write(content)?;
    draft.publish(path)
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
    let made = Kept {
        record: bytes,
        ..Kept::default()
    };
    settle(*native, home, id, &made, folder).await?;
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

/// The bytes of a record, and of what is beside it.
async fn copy(native: Native, home: &Path, id: &str) -> Result<Kept, Error> {
    let path = find(native, home, id).ok_or_else(|| missing(id))?;
    apart(path, move |path| {
        if fs::metadata(path)?.len() > Kept::LONGEST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(Kept {
            record: fs::read(path)?,
            beside: beside::copy(native, path)?,
        })
    })
    .await
}

/// Does something with a record where nobody else has to wait for it.
async fn apart<T: Send + 'static>(
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
fn named(native: Native, source: impl Read + Seek) -> io::Result<Option<Vec<String>>> {
    if native == Native::Codex {
        return Ok(None);
    }
    let mut named = VecDeque::new();
    for item in native.read(source)? {
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

/// A new file beside a record, for its owner alone. It becomes the record in one step.
struct Draft {
    path: PathBuf,
    file: File,
}

impl Draft {
    fn beside(record: &Path) -> io::Result<Self> {
        let path = record.with_extension(format!("jsonl.{DRAFT}"));
        remove_left_drafts(&path)?;
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        point(Point::RecordAfterDraft);
        Ok(Self { path, file })
    }

    /// Writes all of it. It is durable when this returns, or gone.
    fn write<T>(&mut self, write: impl FnOnce(&mut File) -> io::Result<T>) -> io::Result<T> {
        let written = write(&mut self.file);
        point(Point::RecordBeforeSync);
        let written = written.and_then(|told| self.file.sync_all().map(|()| told));
        written.inspect_err(|_| drop(fs::remove_file(&self.path)))
    }

    fn publish(self, record: &Path) -> io::Result<()> {
        point(Point::RecordBeforeRename);
        fs::rename(&self.path, record)?;
        point(Point::RecordAfterRename);
        sync_folder(record)
    }
}

/// Removes what killed processes left in the folder. A draft that is being written is locked, and one
/// that nobody has locked is nobody's.
fn remove_left_drafts(draft: &Path) -> io::Result<()> {
    let folder = draft.parent().unwrap_or(Path::new("."));
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_draft = path.extension().is_some_and(|end| end == DRAFT);
        if is_draft
            && let Ok(file) = File::open(&path)
            && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Gives a record a second name under which it stays as it is.
fn keep_beside(path: &Path) -> io::Result<PathBuf> {
    for number in 1.. {
        let kept = path.with_extension(format!("jsonl.before-repair-{number}"));
        match fs::hard_link(path, &kept) {
            Ok(()) => {
                point(Point::RecordAfterKeep);
                return Ok(kept);
            }
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
pub(crate) fn find(native: Native, home: &Path, id: &str) -> Option<PathBuf> {
    // What cannot be listed cannot be read by the program either.
    let found = native.find(home, id, &list).unwrap_or_default();
    found.into_iter().next()
}

fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?;
    entries.map(|entry| Ok(entry?.path())).collect()
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

    /// A kept record becomes a conversation of its own: the program finds it under the new name, in the
    /// new folder, and what was said in it is the same.
    #[tokio::test]
    async fn a_kept_record_comes_back_under_another_name() {
        const OTHER: &str = "aaaaaaaa-0000-4000-8000-00000000000b";
        for (native, kept) in [(Native::ClaudeCode, CLAUDE), (Native::Codex, CODEX)] {
            let home = tempfile::tempdir().unwrap();
            let records = Records {
                native,
                home: home.path().to_owned(),
                model: None,
            };
            let records: &dyn companion::Records = &records;
            let folder = Path::new("/srv/copy");
            let known = records.look(kept.as_bytes()).await.unwrap();
            assert_eq!(known.health, Health::Whole, "{native:?}");
            let copy = Kept {
                record: kept.as_bytes().to_vec(),
                ..Kept::default()
            };
            records.settle(OTHER, &copy, folder).await.unwrap();
            let bytes = records.copy(OTHER).await.unwrap().record;
            let facts = native.examine(Cursor::new(&bytes)).unwrap().facts;
            assert_eq!(facts.session.as_deref(), Some(OTHER));
            assert_eq!(facts.cwd.as_deref(), Some("/srv/copy"));
            let old = native.examine(Cursor::new(kept)).unwrap().facts.session;
            let text = String::from_utf8(bytes.clone()).unwrap();
            assert!(!text.contains(&old.unwrap()), "{native:?}");
            let found = records.look(&bytes).await.unwrap();
            assert_eq!(found.named, known.named, "{native:?}");
            let again = records.settle(OTHER, &copy, folder).await;
            assert!(again.is_err(), "{native:?}: it is someone's by now");
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
