//! The queue of transcripts to mirror: newest first, and rate-limited per transcript.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use segno_core::digest::Digest;
use segno_core::transcript::TranscriptSource;

use super::scan::{Fingerprint, Transcript};
use crate::hooks::spool::Claimed;

/// Minimum time between two reads of the same transcript.
const MIN_INTERVAL: Duration = Duration::from_millis(500);
/// After a transcript was mirrored, it is left alone for this many times the duration, so that a
/// long transcript that grows all the time does not take all the time.
const BACKOFF_FACTOR: u32 = 4;
/// Delay before a failed transcript is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(30);

/// A transcript to mirror.
#[derive(Debug)]
pub struct Job {
    pub source: TranscriptSource,
    pub path: PathBuf,
    /// The hook notification that requested it, if one did.
    pub notification: Option<Claimed>,
}

/// What is known about a transcript that existed at the last scan.
#[derive(Debug, Clone)]
struct Known {
    /// The fingerprint when it was mirrored.
    fingerprint: Option<Fingerprint>,
    /// The time before which it is not mirrored again.
    not_before: Duration,
    /// Digest of the last error.
    error: Option<Digest>,
    /// The number of the scan that saw it last.
    seen_in: u64,
}

/// Paths are stored as a part of their digest, so that many transcripts need little memory.
type Key = [u8; 16];

/// Modification time, as seconds and nanoseconds.
type ModifiedAt = (i64, i64);

#[derive(Debug, Default)]
pub struct Queue {
    waiting: BTreeMap<(Reverse<ModifiedAt>, PathBuf), Job>,
    /// Modification times of the queued transcripts.
    changed: HashMap<PathBuf, ModifiedAt>,
    known: HashMap<Key, Known>,
    scan: u64,
}

impl Queue {
    /// Starts a full scan.
    pub fn begin_scan(&mut self) {
        self.scan += 1;
    }

    /// Ends a full scan: transcripts that it did not see are gone, and their state is dropped.
    pub fn end_scan(&mut self) {
        let scan = self.scan;
        self.known.retain(|_, known| known.seen_in == scan);
    }

    /// Records that a scan saw a transcript. It is queued if its fingerprint differs from the
    /// mirrored one.
    pub fn observe(&mut self, transcript: Transcript) {
        let scan = self.scan;
        let known = self.known(&transcript.path);
        known.seen_in = scan;
        if known.fingerprint == Some(transcript.fingerprint) {
            return;
        }
        self.enqueue(
            transcript.fingerprint.modified_at(),
            transcript.source,
            transcript.path,
            None,
        );
    }

    /// Queues a transcript that a hook reported.
    pub fn push_notified(&mut self, notification: Claimed) {
        let source = notification.agent.source();
        let Some(fingerprint) = Fingerprint::of(source, &notification.file) else {
            // It does not exist yet, or no longer; other notifications will come.
            return notification.delete();
        };
        let path = notification.file.clone();
        // The agent finished a turn, so it is mirrored without delay.
        self.known(&path).not_before = Duration::ZERO;
        self.enqueue(fingerprint.modified_at(), source, path, Some(notification));
    }

    fn enqueue(
        &mut self,
        changed: ModifiedAt,
        source: TranscriptSource,
        path: PathBuf,
        notification: Option<Claimed>,
    ) {
        // It may be queued already, for an earlier change.
        let before = self.changed.insert(path.clone(), changed);
        let before =
            before.and_then(|changed| self.waiting.remove(&(Reverse(changed), path.clone())));
        let notification = notification.or_else(|| before?.notification);
        let job = Job {
            source,
            path: path.clone(),
            notification,
        };
        self.waiting.insert((Reverse(changed), path), job);
    }

    /// Takes the next transcript to mirror.
    pub fn next(&mut self, now: Duration) -> Option<Job> {
        let due = self
            .waiting
            .keys()
            .find(|(_, path)| self.not_before(path) <= now);
        let due = due.cloned()?;
        self.changed.remove(&due.1);
        self.waiting.remove(&due)
    }

    /// When the next transcript may be mirrored.
    pub fn next_due(&self) -> Option<Duration> {
        self.waiting
            .keys()
            .map(|(_, path)| self.not_before(path))
            .min()
    }

    /// Records that a transcript was mirrored with this fingerprint, from `begun` to `now`.
    pub fn mark_mirrored(
        &mut self,
        path: &Path,
        fingerprint: Fingerprint,
        begun: Duration,
        now: Duration,
    ) {
        let not_before = now + MIN_INTERVAL.max(now.saturating_sub(begun) * BACKOFF_FACTOR);
        let known = self.known(path);
        (known.fingerprint, known.not_before, known.error) = (Some(fingerprint), not_before, None);
    }

    /// Records a failure. Returns true if the error is new.
    pub fn mark_failed(&mut self, path: &Path, why: &str, now: Duration) -> bool {
        let why = Some(Digest::of(why.as_bytes()));
        let known = self.known(path);
        let news = known.error != why;
        (known.not_before, known.error) = (now + RETRY_DELAY, why);
        news
    }

    fn known(&mut self, path: &Path) -> &mut Known {
        let scan = self.scan;
        self.known.entry(key(path)).or_insert(Known {
            fingerprint: None,
            not_before: Duration::ZERO,
            error: None,
            seen_in: scan,
        })
    }

    fn not_before(&self, path: &Path) -> Duration {
        self.known
            .get(&key(path))
            .map_or(Duration::ZERO, |known| known.not_before)
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

    /// Writes a transcript file.
    fn transcript(folder: &Path, name: &str, text: &str) -> Transcript {
        let path = folder.join(name);
        #[expect(
            clippy::disallowed_methods,
            reason = "a test writes files as agents do"
        )]
        std::fs::write(&path, text).unwrap();
        let fingerprint = Fingerprint::of(TranscriptSource::Codex, &path).unwrap();
        Transcript {
            source: TranscriptSource::Codex,
            path,
            fingerprint,
        }
    }

    #[test]
    fn changed_transcript_is_mirrored_once() {
        let folder = tempfile::tempdir().unwrap();
        let seconds = Duration::from_secs;
        let mut queue = Queue::default();
        let first = transcript(folder.path(), "a", "1");
        queue.begin_scan();
        queue.observe(first.clone());
        queue.observe(first.clone());
        queue.end_scan();
        let job = queue.next(seconds(1)).unwrap();
        assert!(queue.next(seconds(1)).is_none());
        queue.mark_mirrored(&job.path, first.fingerprint, seconds(1), seconds(3));
        queue.observe(first);
        assert_eq!(queue.next_due(), None, "it looks as it did");
        let grown = transcript(folder.path(), "a", "12");
        queue.observe(grown);
        assert!(queue.next(seconds(10)).is_none(), "it took two seconds");
        assert_eq!(queue.next_due(), Some(seconds(11)));
        assert!(queue.next(seconds(11)).is_some());
    }

    #[test]
    fn failure_is_reported_once_and_retried() {
        let folder = tempfile::tempdir().unwrap();
        let mut queue = Queue::default();
        let one = transcript(folder.path(), "a", "1");
        queue.observe(one.clone());
        let job = queue.next(Duration::ZERO).unwrap();
        assert!(queue.mark_failed(&job.path, "no", Duration::ZERO));
        queue.observe(one.clone());
        assert!(queue.next(RETRY_DELAY / 2).is_none());
        assert!(queue.next(RETRY_DELAY).is_some());
        assert!(
            !queue.mark_failed(&one.path, "no", RETRY_DELAY),
            "the same again"
        );
        assert!(queue.mark_failed(&one.path, "still no", RETRY_DELAY));
    }

    #[test]
    fn state_of_missing_transcripts_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let mut queue = Queue::default();
        for name in 0..100 {
            queue.begin_scan();
            queue.observe(transcript(folder.path(), &name.to_string(), ""));
            queue.end_scan();
            assert!(queue.next(Duration::ZERO).is_some());
            assert_eq!(queue.known.len(), 1);
        }
    }
}
