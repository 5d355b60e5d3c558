//! What is to be mirrored: newest first, and nothing all the time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use segno_core::digest::Digest;

use super::look::{Mark, Transcript};
use crate::hooks::Agent;
use crate::spool::Taken;

/// The least time between two looks into the same transcript.
const PAUSE: Duration = Duration::from_millis(500);
/// How many times as long as it takes to mirror a transcript it is then left alone, so that a long
/// one that grows all the time does not take all the time.
const SHARE: u32 = 4;
/// When something that did not work is tried again.
const AGAIN: Duration = Duration::from_secs(30);

/// A transcript that is to be mirrored.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) agent: Agent,
    pub(crate) path: PathBuf,
    /// What asked for it, if a hook did.
    pub(crate) note: Option<Taken>,
}

/// What is known about a transcript that was there at the last look.
#[derive(Debug, Clone)]
struct Known {
    /// What it looked like when it was mirrored.
    mark: Option<Mark>,
    /// Until when it is left alone.
    rest: Duration,
    /// What went wrong with it.
    trouble: Option<Digest>,
    /// In which look it was seen last.
    seen: u64,
}

/// Paths are known by a part of their digest: many transcripts take little room.
type Key = [u8; 16];

/// When it changed.
type Moment = (i64, i64);

#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: BTreeMap<(Reverse<Moment>, PathBuf), Job>,
    /// When those that wait changed.
    changed: HashMap<PathBuf, Moment>,
    known: HashMap<Key, Known>,
    look: u64,
}

impl Queue {
    /// A look at everything begins.
    pub(crate) fn begin(&mut self) {
        self.look += 1;
    }

    /// It is over: what it did not see is gone, and forgotten.
    pub(crate) fn end(&mut self) {
        let look = self.look;
        self.known.retain(|_, known| known.seen == look);
    }

    /// A transcript was seen. One that looks different from when it was mirrored waits from now on.
    pub(crate) fn see(&mut self, transcript: Transcript) {
        let look = self.look;
        let known = self.known(&transcript.path);
        known.seen = look;
        if known.mark == Some(transcript.mark) {
            return;
        }
        self.wait(
            transcript.mark.changed(),
            transcript.agent,
            transcript.path,
            None,
        );
    }

    /// A hook told of a transcript.
    pub(crate) fn told(&mut self, note: Taken) {
        let Some(mark) = Mark::of(note.agent, &note.file) else {
            // It is not there yet, or not any more; there will be other notes.
            return note.done();
        };
        let (agent, path) = (note.agent, note.file.clone());
        // A turn is over, so this is a good moment.
        self.known(&path).rest = Duration::ZERO;
        self.wait(mark.changed(), agent, path, Some(note));
    }

    fn wait(&mut self, changed: Moment, agent: Agent, path: PathBuf, note: Option<Taken>) {
        // It may wait already, for something that it did before.
        let before = self.changed.insert(path.clone(), changed);
        let before =
            before.and_then(|changed| self.waiting.remove(&(Reverse(changed), path.clone())));
        let note = note.or_else(|| before?.note);
        let job = Job {
            agent,
            path: path.clone(),
            note,
        };
        self.waiting.insert((Reverse(changed), path), job);
    }

    /// The next to be mirrored.
    pub(crate) fn next(&mut self, now: Duration) -> Option<Job> {
        let due = self.waiting.keys().find(|(_, path)| self.rest(path) <= now);
        let due = due.cloned()?;
        self.changed.remove(&due.1);
        self.waiting.remove(&due)
    }

    /// When the next may be mirrored.
    pub(crate) fn due(&self) -> Option<Duration> {
        self.waiting.keys().map(|(_, path)| self.rest(path)).min()
    }

    /// It was mirrored as it looked like at `mark`, from `begun` to `now`.
    pub(crate) fn done(&mut self, path: &Path, mark: Mark, begun: Duration, now: Duration) {
        let rest = now + PAUSE.max(now.saturating_sub(begun) * SHARE);
        let known = self.known(path);
        (known.mark, known.rest, known.trouble) = (Some(mark), rest, None);
    }

    /// It could not be mirrored. True if that is news.
    pub(crate) fn failed(&mut self, path: &Path, why: &str, now: Duration) -> bool {
        let why = Some(Digest::of(why.as_bytes()));
        let known = self.known(path);
        let news = known.trouble != why;
        (known.rest, known.trouble) = (now + AGAIN, why);
        news
    }

    fn known(&mut self, path: &Path) -> &mut Known {
        let look = self.look;
        self.known.entry(key(path)).or_insert(Known {
            mark: None,
            rest: Duration::ZERO,
            trouble: None,
            seen: look,
        })
    }

    fn rest(&self, path: &Path) -> Duration {
        self.known
            .get(&key(path))
            .map_or(Duration::ZERO, |known| known.rest)
    }
}

fn key(path: &Path) -> Key {
    let digest = Digest::of(path.as_os_str().as_encoded_bytes());
    let (key, _) = digest
        .as_bytes()
        .split_first_chunk()
        .expect("a digest is longer");
    *key
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A transcript in a folder of its own.
    fn transcript(folder: &Path, name: &str, text: &str) -> Transcript {
        let path = folder.join(name);
        #[expect(
            clippy::disallowed_methods,
            reason = "a test writes files as agents do"
        )]
        std::fs::write(&path, text).unwrap();
        let mark = Mark::of(Agent::Codex, &path).unwrap();
        Transcript {
            agent: Agent::Codex,
            path,
            mark,
        }
    }

    #[test]
    fn what_changed_is_mirrored_once_and_not_all_the_time() {
        let folder = tempfile::tempdir().unwrap();
        let seconds = Duration::from_secs;
        let mut queue = Queue::default();
        let first = transcript(folder.path(), "a", "1");
        queue.begin();
        queue.see(first.clone());
        queue.see(first.clone());
        queue.end();
        let job = queue.next(seconds(1)).unwrap();
        assert!(queue.next(seconds(1)).is_none());
        queue.done(&job.path, first.mark, seconds(1), seconds(3));
        queue.see(first);
        assert_eq!(queue.due(), None, "it looks as it did");
        let grown = transcript(folder.path(), "a", "12");
        queue.see(grown);
        assert!(queue.next(seconds(10)).is_none(), "it took two seconds");
        assert_eq!(queue.due(), Some(seconds(11)));
        assert!(queue.next(seconds(11)).is_some());
    }

    #[test]
    fn what_fails_is_told_once_and_tried_again_later() {
        let folder = tempfile::tempdir().unwrap();
        let mut queue = Queue::default();
        let one = transcript(folder.path(), "a", "1");
        queue.see(one.clone());
        let job = queue.next(Duration::ZERO).unwrap();
        assert!(queue.failed(&job.path, "no", Duration::ZERO));
        queue.see(one.clone());
        assert!(queue.next(AGAIN / 2).is_none());
        assert!(queue.next(AGAIN).is_some());
        assert!(!queue.failed(&one.path, "no", AGAIN), "the same again");
        assert!(queue.failed(&one.path, "still no", AGAIN));
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let mut queue = Queue::default();
        for name in 0..100 {
            queue.begin();
            queue.see(transcript(folder.path(), &name.to_string(), ""));
            queue.end();
            assert!(queue.next(Duration::ZERO).is_some());
            assert_eq!(queue.known.len(), 1);
        }
    }
}
