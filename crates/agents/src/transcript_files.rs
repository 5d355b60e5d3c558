//! The transcript files of CLI agents, in the folders where the programs keep them.
//!
//! The files belong to the programs: inspecting changes nothing, and a repair leaves a copy of the
//! original beside the file.
#![expect(
    clippy::disallowed_methods,
    reason = "transcripts are in the agents' own folders, are read line by line, however long they are, and are replaced atomically"
)]

mod sub_agents;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Cursor, Read, Seek};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use segno_core::agent::{Error, ErrorKind};
use segno_core::cli_agent::{self, Health, KnownItems, TranscriptCopy, TranscriptState};
use segno_core::conversation::contents::Content;
use segno_core::conversation::{
    Branch, ConversationItem, ItemContent, MISSING_ITEMS, Origin, Thread, Tokens, plain_text,
};
use segno_core::fault::{Point, point};
use segno_core::ports::Boxed;
use segno_core::time::Timestamp;
use segno_core::usage::Usage;

use crate::program::Setup;
use crate::transcript::{Item, Relocation, Repair, Report, Target, TranscriptFormat};

/// How many damages a health message lists.
const MAX_LISTED: usize = 3;
/// How many of the newest messages and results are known by id.
const MAX_NAMES: usize = 4096;
/// How many messages are known that quote what a transcript lacked.
const MAX_ANNOUNCED: usize = 16;
/// The model of messages that Claude Code writes in the model's name.
const SYNTHETIC: &str = "<synthetic>";
/// The extension of draft files.
const DRAFT: &str = "segno-draft";

/// The transcript files of one program on this machine.
#[derive(Debug, Clone)]
pub(crate) struct LocalTranscripts {
    pub(crate) native: TranscriptFormat,
    /// The program's home folder, which holds them.
    pub(crate) home: PathBuf,
    /// The user's home.
    pub(crate) user_home: Option<PathBuf>,
    /// The model that continues a written transcript, if one is chosen.
    pub(crate) model: Option<String>,
}

impl LocalTranscripts {
    pub(crate) fn new(native: TranscriptFormat, setup: &Setup) -> Self {
        Self {
            native,
            home: setup.home.clone(),
            user_home: setup.user_home.clone(),
            model: setup.model.clone(),
        }
    }

    async fn search_elsewhere(
        &self,
        earlier: &Path,
        id: &str,
    ) -> Result<Option<(PathBuf, TranscriptCopy)>, Error> {
        let found = if earlier == self.home {
            Ok(None)
        } else {
            find(self.native, earlier, id)
        };
        let found_at = match &found {
            Ok(Some(_)) => Some(earlier.to_owned()),
            _ => below_home(self.user_home.as_deref(), earlier)
                .into_iter()
                .filter(|folder| *folder != self.home)
                .find(|folder| matches!(find(self.native, folder, id), Ok(Some(_)))),
        };
        match (found_at, found) {
            (Some(folder), _) => {
                let copy = copy(self.native, &folder, id).await?;
                Ok(Some((folder, copy)))
            }
            (None, Err(error)) => Err(error),
            (None, Ok(_)) => Ok(None),
        }
    }
}

impl cli_agent::TranscriptFiles for LocalTranscripts {
    fn repair<'a>(&'a self, id: &'a str) -> Boxed<'a, Result<String, Error>> {
        Box::pin(repair(self.native, &self.home, id))
    }

    fn copy<'a>(&'a self, id: &'a str) -> Boxed<'a, Result<TranscriptCopy, Error>> {
        Box::pin(copy(self.native, &self.home, id))
    }

    fn copy_from_elsewhere<'a>(
        &'a self,
        earlier: &'a Path,
        id: &'a str,
    ) -> Boxed<'a, Result<Option<(PathBuf, TranscriptCopy)>, Error>> {
        Box::pin(self.search_elsewhere(earlier, id))
    }

    fn contents(&self, items: &[ConversationItem]) -> Vec<Option<Content>> {
        self.native.reported_contents(items)
    }

    fn inspect_copy<'a>(&'a self, kept: &'a [u8]) -> Boxed<'a, Result<TranscriptState, Error>> {
        let known = inspect_source(self.native, || Ok(Cursor::new(kept)));
        Box::pin(std::future::ready(known.map_err(|error| invalid(&error))))
    }

    fn install<'a>(
        &'a self,
        id: &'a str,
        kept: &'a TranscriptCopy,
        folder: &'a Path,
    ) -> Boxed<'a, Result<(), Error>> {
        Box::pin(install(self.native, &self.home, id, kept, folder))
    }

    fn write_transcript<'a>(
        &'a self,
        id: &'a str,
        entries: &'a [ConversationItem],
        folder: &'a Path,
    ) -> Boxed<'a, Result<Vec<String>, Error>> {
        Box::pin(compose(self, id, entries, folder))
    }
}

/// Where a folder may be after the user's home was renamed: the ends of its path, the longest first,
/// below the present home.
fn below_home(user_home: Option<&Path>, folder: &Path) -> Vec<PathBuf> {
    let Some(user_home) = user_home else {
        return Vec::new();
    };
    let mut rest = folder.components();
    // The root.
    rest.next();
    let mut ends = Vec::new();
    while rest.next().is_some() && !rest.as_path().as_os_str().is_empty() {
        ends.push(user_home.join(rest.as_path()));
    }
    ends
}

/// Inspects the transcript of a conversation; `None` if there is none.
pub(crate) async fn inspect(
    native: TranscriptFormat,
    home: &Path,
    id: &str,
) -> Result<Option<TranscriptState>, Error> {
    let Some(path) = find(native, home, id)? else {
        return Ok(None);
    };
    run_blocking(path, move |path| {
        inspect_source(native, || File::open(path)).map(Some)
    })
    .await
}

/// Inspects a transcript. It is read several times.
fn inspect_source<R: Read + Seek>(
    native: TranscriptFormat,
    open: impl Fn() -> io::Result<R>,
) -> io::Result<TranscriptState> {
    let report = native.examine(open()?)?;
    let first_prompt = find_first_prompt(native, open()?)?;
    Ok(TranscriptState {
        bytes: report.bytes,
        health: health(&report, &first_prompt),
        known: newest_items(native, open()?)?,
        announced: announced(native, open()?)?,
        message_usage: newest_usage(native, open()?)?,
        total_usage: (native == TranscriptFormat::Codex).then(|| report.summary.usage.into()),
        unanswered: Some(report.summary.unanswered),
    })
}

/// The usage of a conversation so far, according to its transcript.
pub(crate) async fn usage_of(
    native: TranscriptFormat,
    home: &Path,
    id: &str,
) -> Result<Usage, Error> {
    let Some(path) = find(native, home, id)? else {
        return Ok(Usage::default());
    };
    run_blocking(path, move |path| {
        Ok(native.examine(File::open(path)?)?.summary.usage.into())
    })
    .await
}

/// Repairs a transcript. The original stays beside it.
async fn repair(native: TranscriptFormat, home: &Path, id: &str) -> Result<String, Error> {
    let path = find(native, home, id)?.ok_or_else(|| missing(id))?;
    run_blocking(path, move |path| {
        let mut draft = Draft::create_for(path)?;
        let source = File::open(path)?;
        let repair = draft.write(|file| native.repair(source, file))?;
        let before = back_up(path)?;
        draft.publish(path)?;
        Ok(describe_repair(&repair, &before))
    })
    .await
}

/// Writes a stored transcript to where the program finds it, under this id. A transcript that
/// already contains a prompt is not overwritten.
async fn install(
    native: TranscriptFormat,
    home: &Path,
    id: &str,
    kept: &TranscriptCopy,
    folder: &Path,
) -> Result<(), Error> {
    let folder = text_of(folder)?;
    let report = native.examine(Cursor::new(&kept.transcript));
    let report = report.map_err(|error| invalid(&error))?;
    let found = find(native, home, id)?;
    let started = started_at(&kept.transcript).or(report.summary.first);
    let started = started.unwrap_or(Timestamp(0));
    let path = native.path_for(home, &folder, id, started);
    let path = path.map_err(|error| invalid(&error))?;
    let target = Relocation {
        from: report.facts.cwd.unwrap_or_else(|| folder.clone()),
        to: folder,
        // The copy continues independently, under an id of its own.
        session: Some(id.to_owned()),
    };
    let kept = kept.clone();
    run_blocking(found.clone().unwrap_or(path), move |path| {
        if found.is_some() {
            let there = native.examine(File::open(path)?)?;
            let first_prompt = find_first_prompt(native, File::open(path)?)?;
            if health(&there, &first_prompt) != Health::Empty {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            back_up(path)?;
        } else if let Some(folder) = path.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)?;
        }
        // The transcript comes last: once it exists, so does the conversation.
        sub_agents::install(native, path, kept.sidecars, &target)?;
        let mut whole = Vec::new();
        native.repair(Cursor::new(kept.transcript), &mut whole)?;
        write(path, |file| {
            native.relocate(Cursor::new(whole), file, &target).map(drop)
        })
    })
    .await
}

/// Writes a file atomically.
fn write(path: &Path, content: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let mut draft = Draft::create_for(path)?;
    draft.write(content)?;
    draft.publish(path)
}

/// Writes a transcript of entries that come from elsewhere. Returns descriptions of what it does
/// not contain.
async fn compose(
    files: &LocalTranscripts,
    id: &str,
    entries: &[ConversationItem],
    folder: &Path,
) -> Result<Vec<String>, Error> {
    let LocalTranscripts {
        native,
        home,
        model,
        ..
    } = files;
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
    let made = TranscriptCopy {
        transcript: bytes,
        ..TranscriptCopy::default()
    };
    install(*native, home, id, &made, folder).await?;
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

/// When a conversation began, according to its first line. Codex names the file after that time and
/// remembers the name: with a time one second later it would not find the file.
fn started_at(kept: &[u8]) -> Option<Timestamp> {
    let first = kept.split(|byte| *byte == b'\n').next()?;
    let first: serde_json::Value = serde_json::from_slice(first).ok()?;
    Timestamp::parse(first.pointer("/payload/timestamp")?.as_str()?)
}

/// Reads a transcript, and those of its sub-agents.
async fn copy(native: TranscriptFormat, home: &Path, id: &str) -> Result<TranscriptCopy, Error> {
    let path = find(native, home, id)?.ok_or_else(|| missing(id))?;
    run_blocking(path, move |path| {
        if fs::metadata(path)?.len() > TranscriptCopy::MAX_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(TranscriptCopy {
            transcript: fs::read(path)?,
            sidecars: sub_agents::copy(native, path)?,
        })
    })
    .await
}

/// Runs file operations on a blocking thread.
async fn run_blocking<T: Send + 'static>(
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
    done.expect("the blocking task does not panic")
}

fn missing(id: &str) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!("there is no transcript of conversation {id}"),
    )
}

/// Whether a transcript contains the first prompt.
#[derive(Debug, PartialEq, Eq)]
enum FirstPrompt {
    Present,
    /// It does not, or that cannot be determined: the reason.
    Missing(String),
}

/// Looks for the first prompt. A program that is killed early may have created its conversation
/// without having written the prompt. It would resume all the same, and its model would be told to
/// continue a task that it never received.
fn find_first_prompt(
    native: TranscriptFormat,
    source: impl Read + Seek,
) -> io::Result<FirstPrompt> {
    for item in native.read(source)? {
        match item? {
            // The damaged line could have held the prompt.
            Item::Damage(damage) if damage.hides_something() => {
                return Ok(FirstPrompt::Missing(damage.to_string()));
            }
            Item::Entry { entry, .. } if is_prompt(&entry) => return Ok(FirstPrompt::Present),
            _ => {}
        }
    }
    Ok(FirstPrompt::Missing("it contains no prompt".to_owned()))
}

fn is_prompt(entry: &ConversationItem) -> bool {
    let asked = matches!(
        &entry.content,
        ItemContent::User { origin: Origin::User, parts } if !parts.is_empty()
    );
    asked && entry.thread == Thread::Main && entry.branch != Branch::Side
}

/// Whether the program itself would lose something by resuming from this transcript.
fn health(report: &Report, first_prompt: &FirstPrompt) -> Health {
    if let FirstPrompt::Missing(why) = first_prompt {
        let summary = &report.summary;
        let answered = summary.usage != Tokens::default() || !summary.unanswered.is_empty();
        return if answered {
            Health::Unreadable(format!("the first prompt is missing ({why})"))
        } else {
            Health::Empty
        };
    }
    let harmful = report
        .damage
        .iter()
        .filter(|damage| damage.breaks_a_resume());
    let listed: Vec<String> = harmful.take(MAX_LISTED).map(ToString::to_string).collect();
    if listed.is_empty() {
        Health::Intact
    } else {
        Health::Damaged(listed.join("; "))
    }
}

/// The newest messages that quote what the transcript lacked.
fn announced(native: TranscriptFormat, source: impl Read + Seek) -> io::Result<Vec<String>> {
    let mut announced = VecDeque::new();
    for item in native.read(source)? {
        let Item::Entry { entry, .. } = item? else {
            continue;
        };
        let ItemContent::User { parts, .. } = &entry.content else {
            continue;
        };
        let text = plain_text(parts);
        if entry.branch != Branch::Side && text.contains(MISSING_ITEMS) {
            announced.push_back(text);
        }
        if announced.len() > MAX_ANNOUNCED {
            announced.pop_front();
        }
    }
    Ok(announced.into())
}

/// The newest items, as they can be recognized in what the program reports.
fn newest_items(
    native: TranscriptFormat,
    source: impl Read + Seek,
) -> io::Result<Option<KnownItems>> {
    Ok(match native {
        TranscriptFormat::ClaudeCode => Some(KnownItems::Ids(newest_ids(native, source)?)),
        TranscriptFormat::Codex => native.contents(source)?.map(KnownItems::Contents),
    })
}

/// The ids of the newest messages and results, for programs that report the same ids in their
/// stream.
fn newest_ids(native: TranscriptFormat, source: impl Read + Seek) -> io::Result<Vec<String>> {
    let mut named = VecDeque::new();
    for item in native.read(source)? {
        let Item::Entry { entry, .. } = item? else {
            continue;
        };
        // The program wrote it, and did not report it.
        let is_synthetic = matches!(
            &entry.content,
            ItemContent::Assistant { model: Some(model), .. } if model == SYNTHETIC
        );
        if is_synthetic {
            continue;
        }
        named.extend(entry.content.ids().map(Cow::into_owned));
        while named.len() > MAX_NAMES {
            named.pop_front();
        }
    }
    Ok(named.into())
}

/// The final usage of the newest messages, for programs that report it in their stream before it is
/// final.
fn newest_usage(
    native: TranscriptFormat,
    source: impl Read + Seek,
) -> io::Result<Vec<(String, Tokens)>> {
    let mut newest: VecDeque<(String, Tokens)> = VecDeque::new();
    if native == TranscriptFormat::Codex {
        return Ok(Vec::new());
    }
    for item in native.read(source)? {
        let Item::Entry { entry, .. } = item? else {
            continue;
        };
        let ItemContent::Assistant {
            message: Some(id),
            usage: Some(usage),
            ..
        } = entry.content
        else {
            continue;
        };
        // A message comes in several records, next to each other. Each has the final usage.
        match newest.back_mut() {
            Some((last, known)) if *last == id => *known = usage,
            _ => newest.push_back((id, usage)),
        }
        if newest.len() > MAX_NAMES {
            newest.pop_front();
        }
    }
    Ok(newest.into())
}

/// A new file beside a transcript, readable only by its owner. A rename makes it the transcript.
/// Transcripts are streamed, so `ports::replace_file`, which has the content in memory, is not for
/// them; and several processes may write at once, so a lock marks a draft that is in use.
struct Draft {
    path: PathBuf,
    file: File,
}

impl Draft {
    fn create_for(transcript: &Path) -> io::Result<Self> {
        let path = transcript.with_extension(format!("jsonl.{DRAFT}"));
        remove_stale_drafts(&path)?;
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        point(Point::TranscriptAfterDraft);
        Ok(Self { path, file })
    }

    /// Writes the content. It is durable when this returns; after an error the file is removed.
    fn write<T>(&mut self, write: impl FnOnce(&mut File) -> io::Result<T>) -> io::Result<T> {
        let written = write(&mut self.file);
        point(Point::TranscriptBeforeSync);
        let written = written.and_then(|value| self.file.sync_all().map(|()| value));
        written.inspect_err(|_| drop(fs::remove_file(&self.path)))
    }

    fn publish(self, record: &Path) -> io::Result<()> {
        point(Point::TranscriptBeforeRename);
        fs::rename(&self.path, record)?;
        point(Point::TranscriptAfterRename);
        sync_folder(record)
    }
}

/// Removes drafts of killed processes from the folder. A draft that is being written is locked; one
/// without a lock has no writer.
fn remove_stale_drafts(draft: &Path) -> io::Result<()> {
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

/// Hard-links a transcript to a backup name.
fn back_up(path: &Path) -> io::Result<PathBuf> {
    for number in 1.. {
        let kept = path.with_extension(format!("jsonl.before-repair-{number}"));
        match fs::hard_link(path, &kept) {
            Ok(()) => {
                point(Point::TranscriptAfterBackup);
                return Ok(kept);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    unreachable!("the numbers do not run out")
}

fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

fn describe_repair(repair: &Repair, before: &Path) -> String {
    let dropped = repair.dropped.len() as u64 + repair.dropped_unlisted;
    let closed = repair.closed.len() as u64 + repair.closed_unlisted;
    let mut listed = Vec::new();
    if dropped > 0 {
        listed.push(format!("{dropped} unreadable lines were removed"));
    }
    if closed > 0 {
        listed.push(format!("{closed} calls were marked as of unknown outcome"));
    }
    if repair.bridged > 0 {
        listed.push(format!("{} gaps were bridged", repair.bridged));
    }
    if repair.ended {
        listed.push("the last line was terminated".to_owned());
    }
    format!(
        "the transcript was repaired ({}); the original is kept as {}",
        listed.join(", "),
        before.display()
    )
}

/// The path of a transcript; `None` if there is none. A folder that cannot be listed is an error: the
/// transcript may be in it.
pub(crate) fn find(
    native: TranscriptFormat,
    home: &Path,
    id: &str,
) -> Result<Option<PathBuf>, Error> {
    match native.find(home, id, &list) {
        Ok(found) => Ok(found.into_iter().next()),
        // An id of another form names no transcript.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
        Err(error) => {
            let message = format!(
                "the transcripts in {} cannot be listed: {error}",
                home.display()
            );
            Err(Error::new(ErrorKind::Crashed, message))
        }
    }
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

    fn health_of(native: TranscriptFormat, record: &str) -> Health {
        let report = native.examine(Cursor::new(record)).unwrap();
        health(
            &report,
            &find_first_prompt(native, Cursor::new(record)).unwrap(),
        )
    }

    /// Both programs' transcripts of the same conversation, and the index of the line with the
    /// prompt.
    fn transcripts() -> [(TranscriptFormat, Vec<&'static str>, usize); 2] {
        [
            (TranscriptFormat::ClaudeCode, CLAUDE),
            (TranscriptFormat::Codex, CODEX),
        ]
        .map(|(native, record)| {
            let lines: Vec<&str> = record.split_inclusive('\n').collect();
            let is_asked = |line: &&str| {
                line.contains("\"role\":\"user\"") && line.contains("[script:standard]")
            };
            let asked = lines.iter().position(is_asked).unwrap();
            (native, lines, asked)
        })
    }

    #[test]
    fn transcript_without_a_prompt_is_empty() {
        for (native, lines, asked) in transcripts() {
            for end in 0..=lines.len() {
                let health = health_of(native, &lines[..end].concat());
                assert_eq!(health == Health::Empty, end <= asked, "{native:?} {end}");
            }
            let torn = &lines[asked][..lines[asked].len() / 2];
            let health = health_of(native, &(lines[..asked].concat() + torn));
            assert_eq!(health, Health::Empty, "{native:?}");
        }
    }

    #[test]
    fn transcript_with_a_lost_prompt_is_unreadable() {
        for (native, mut lines, asked) in transcripts() {
            for broken in ["{\"type\":\"us\0\0\n", ""] {
                lines[asked] = broken;
                let health = health_of(native, &lines.concat());
                assert!(
                    matches!(&health, Health::Unreadable(why) if why.contains("first prompt is missing")),
                    "{native:?} {health:?}"
                );
            }
        }
    }

    #[test]
    fn damage_after_the_prompt_is_repairable() {
        for (native, mut lines, asked) in transcripts() {
            let last = lines.len() - 1;
            assert!(last > asked + 1, "{native:?}");
            lines[last] = "{\"type\":\"ass\0\0\n";
            let health = health_of(native, &lines.concat());
            assert!(
                matches!(health, Health::Damaged(_)),
                "{native:?} {health:?}"
            );
        }
    }

    /// A stored transcript becomes a conversation of its own: the program finds it under the new
    /// id, in the new folder, with the same content.
    #[tokio::test]
    async fn stored_transcript_is_installed_under_a_new_id() {
        const OTHER: &str = "aaaaaaaa-0000-4000-8000-00000000000b";
        for (native, kept) in [
            (TranscriptFormat::ClaudeCode, CLAUDE),
            (TranscriptFormat::Codex, CODEX),
        ] {
            let home = tempfile::tempdir().unwrap();
            let records = LocalTranscripts {
                native,
                home: home.path().to_owned(),
                user_home: None,
                model: None,
            };
            let records: &dyn cli_agent::TranscriptFiles = &records;
            let folder = Path::new("/srv/copy");
            let known = records.inspect_copy(kept.as_bytes()).await.unwrap();
            assert_eq!(known.health, Health::Intact, "{native:?}");
            let copy = TranscriptCopy {
                transcript: kept.as_bytes().to_vec(),
                ..TranscriptCopy::default()
            };
            records.install(OTHER, &copy, folder).await.unwrap();
            let bytes = records.copy(OTHER).await.unwrap().transcript;
            let facts = native.examine(Cursor::new(&bytes)).unwrap().facts;
            assert_eq!(facts.session.as_deref(), Some(OTHER));
            assert_eq!(facts.cwd.as_deref(), Some("/srv/copy"));
            let old = native.examine(Cursor::new(kept)).unwrap().facts.session;
            let text = String::from_utf8(bytes.clone()).unwrap();
            assert!(!text.contains(&old.unwrap()), "{native:?}");
            let found = records.inspect_copy(&bytes).await.unwrap();
            assert_eq!(found.known, known.known, "{native:?}");
            let again = records.install(OTHER, &copy, folder).await;
            assert!(again.is_err(), "{native:?}: it is someone's by now");
        }
    }

    #[test]
    fn messages_of_the_program_itself_are_not_known() {
        let said = |uuid: &str, model: &str| {
            format!(
                r#"{{"type":"assistant","uuid":"{uuid}","parentUuid":null,"message":{{"id":"m-{uuid}","role":"assistant","model":"{model}","content":[{{"type":"text","text":"a"}}]}}}}"#
            ) + "\n"
        };
        let ids = |text: String| newest_ids(TranscriptFormat::ClaudeCode, Cursor::new(text));
        assert_eq!(ids(said("1", SYNTHETIC)).unwrap(), [""; 0]);
        assert_eq!(ids(said("1", "claude")).unwrap(), ["m-1", "m-1/text"]);
    }

    #[test]
    fn folder_is_searched_below_the_renamed_home() {
        let ends = below_home(Some(Path::new("/new")), Path::new("/home/me/cfg/claude"));
        let expected = ["/new/me/cfg/claude", "/new/cfg/claude", "/new/claude"];
        assert_eq!(ends, expected.map(PathBuf::from));
        assert_eq!(
            below_home(None, Path::new("/home/me/.codex")),
            [""; 0].map(PathBuf::from)
        );
    }

    #[test]
    fn start_time_is_taken_from_the_payload() {
        let line = r#"{"timestamp":"2026-11-16T03:14:45.004Z","type":"session_meta","payload":{"timestamp":"2026-11-16T03:14:44.996Z"}}"#;
        let listed = started_at(format!("{line}\n{{}}\n").as_bytes());
        assert_eq!(listed, Timestamp::parse("2026-11-16T03:14:44.996Z"));
        assert_eq!(started_at(b"{}\n"), None);
    }
}
