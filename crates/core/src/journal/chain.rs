//! The hash chain that binds a journal's records to their order, their session and each other.

use serde::{Deserialize, Serialize};

use super::{Event, JournalEvent, Run, Seq};
use crate::digest::Digest;
use crate::id::SessionId;
use crate::time::Timestamp;

/// The end of a journal: the number of records, and the hash over all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// The last record's position; 0 for an empty journal.
    pub seq: Seq,
    /// The hash up to and including that record.
    pub hash: Digest,
}

/// An event as it is stored. The hash covers these exact bytes, so old records are never re-encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub seq: Seq,
    /// The run that wrote it.
    pub run: Run,
    pub at: Timestamp,
    /// The version of the event set.
    pub version: u16,
    pub kind: String,
    /// The event's step.
    pub path: Option<String>,
    /// That step's revision.
    pub revision: u32,
    /// The event's fields as JSON.
    pub body: String,
    /// The hash of the journal up to and including this record.
    pub hash: Digest,
}

/// Why a record does not continue its journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// A record is missing or duplicated.
    #[error("expected event {expected}, found event {found}")]
    Gap { expected: Seq, found: Seq },
    /// This record, or one before it, was altered.
    #[error("event {0} does not match its hash")]
    Altered(Seq),
    /// A newer program wrote the record.
    #[error(
        "event {seq} has kind `{kind}`, version {version}, which this version of Segno does not know"
    )]
    Unknown {
        seq: Seq,
        kind: String,
        version: u16,
    },
    /// The record has the right hash but cannot be decoded.
    #[error("event {seq} cannot be read: {reason}")]
    Unreadable { seq: Seq, reason: String },
}

impl Head {
    /// The head of an empty journal. It depends on the session, so that a record copied from another
    /// session never verifies.
    pub fn genesis(session: SessionId) -> Self {
        let hash = Digest::of_fields(&[b"segno journal 1", session.to_string().as_bytes()]);
        Self { seq: Seq(0), hash }
    }

    /// Encodes an event as the next record.
    pub fn seal(&self, run: Run, at: Timestamp, event: &Event) -> Record {
        let step = event.step();
        let mut record = Record {
            seq: self.seq.next(),
            run,
            at,
            version: Event::VERSION,
            kind: event.kind().to_owned(),
            path: step.map(|(path, _)| path.as_str().to_owned()),
            revision: step.map_or(0, |(_, revision)| revision),
            body: event.body(),
            hash: self.hash,
        };
        record.hash = self.hash_with(&record);
        record
    }

    /// Verifies that `record` is the next one and unaltered, and decodes it.
    pub fn open(&self, record: &Record) -> Result<JournalEvent, Broken> {
        if record.seq != self.seq.next() {
            return Err(Broken::Gap {
                expected: self.seq.next(),
                found: record.seq,
            });
        }
        if record.hash != self.hash_with(record) {
            return Err(Broken::Altered(record.seq));
        }
        let unknown = || Broken::Unknown {
            seq: record.seq,
            kind: record.kind.clone(),
            version: record.version,
        };
        if record.version > Event::VERSION {
            return Err(unknown());
        }
        let event = Event::decode(&record.kind, &record.body)
            .ok_or_else(unknown)?
            .map_err(|error| Broken::Unreadable {
                seq: record.seq,
                reason: error.to_string(),
            })?;
        let Record {
            seq, run, at, hash, ..
        } = *record;
        Ok(JournalEvent {
            seq,
            run,
            at,
            event,
            hash,
        })
    }

    fn hash_with(&self, record: &Record) -> Digest {
        Digest::of_fields(&[
            self.hash.as_bytes(),
            &record.seq.0.to_le_bytes(),
            &record.run.0.to_le_bytes(),
            &record.at.0.to_le_bytes(),
            &record.version.to_le_bytes(),
            record.kind.as_bytes(),
            record.path.as_deref().unwrap_or("").as_bytes(),
            &record.revision.to_le_bytes(),
            record.body.as_bytes(),
        ])
    }
}

impl Record {
    /// The journal's head if this record is the last one.
    pub fn head(&self) -> Head {
        Head {
            seq: self.seq,
            hash: self.hash,
        }
    }
}

impl JournalEvent {
    /// The journal's head if this event is the last one.
    pub fn head(&self) -> Head {
        Head {
            seq: self.seq,
            hash: self.hash,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::journal::{RunEnded, RunPurpose, RunStarted, StepPaused};
    use crate::session::Status;
    use crate::step::Path;

    fn sealed() -> (Head, Record, Record) {
        let session = SessionId::new(Timestamp(1), [7; 10]);
        let genesis = Head::genesis(session);
        let started = RunStarted {
            host: "a".into(),
            pid: 7,
            version: "0".into(),
            purpose: RunPurpose::Work,
        }
        .into();
        let first = genesis.seal(Run(1), Timestamp(2), &started);
        let ended = RunEnded {
            status: Status::Paused,
            error: None,
            output: None,
        }
        .into();
        let second = first.head().seal(Run(1), Timestamp(3), &ended);
        (genesis, first, second)
    }

    #[test]
    fn sealed_records_open_again() {
        let (genesis, first, second) = sealed();
        let entry = genesis.open(&first).unwrap();
        assert_eq!(entry.head(), first.head());
        assert_eq!(entry.head().open(&second).unwrap().seq, Seq(2));
    }

    #[test]
    fn a_missing_record_is_a_gap() {
        let (genesis, _, second) = sealed();
        let gap = Broken::Gap {
            expected: Seq(1),
            found: Seq(2),
        };
        assert_eq!(genesis.open(&second), Err(gap));
    }

    #[test]
    fn record_of_another_session_is_refused() {
        let (_, first, _) = sealed();
        let other = Head::genesis(SessionId::new(Timestamp(1), [8; 10]));
        assert_eq!(other.open(&first), Err(Broken::Altered(Seq(1))));
    }

    /// A program in another language computed the hashes: stored journals must stay readable.
    #[test]
    fn hash_chain_is_stable() {
        let (genesis, first, _) = sealed();
        let paused = StepPaused {
            path: Path::new("steps/0").unwrap(),
            revision: 4,
            attempt: 1,
        };
        let second = first.head().seal(Run(1), Timestamp(3), &paused.into());
        assert_eq!(second.path.as_deref(), Some("steps/0"));
        assert_eq!((second.revision, second.version), (4, 1));
        let hashes = [genesis.hash, first.hash, second.hash].map(|hash| hash.to_string());
        let expected = [
            "a9e53a07e432fc957308f7b87f7b24936b146a99533167df2db720a672fb7de3",
            "41d3cab89e1372c30556aac5169a83e1501d3142ebaba9bea230471e6ed77d6d",
            "0ae68b894ad623359db4b18f77c664ae327453971c49f9514e156964c8aae998",
        ];
        assert_eq!(hashes, expected);
    }

    /// A newer program's events have the right hash; they are not damage.
    #[test]
    fn newer_version_or_kind_is_named_as_unknown() {
        let (genesis, first, _) = sealed();
        let rehashed = |change: fn(&mut Record)| {
            let mut record = first.clone();
            change(&mut record);
            record.hash = genesis.hash_with(&record);
            genesis.open(&record).map(|entry| entry.seq)
        };
        let unknown = |kind: &str, version| {
            let kind = kind.to_owned();
            Err(Broken::Unknown {
                seq: Seq(1),
                kind,
                version,
            })
        };
        assert_eq!(rehashed(|_| {}), Ok(Seq(1)));
        assert_eq!(rehashed(|it| it.version = 0), Ok(Seq(1)));
        assert_eq!(rehashed(|it| it.version = 2), unknown("run_started", 2));
        assert_eq!(rehashed(|it| it.kind = "new".into()), unknown("new", 1));
        let unreadable = rehashed(|it| it.body = "{}".into());
        assert!(matches!(
            unreadable,
            Err(Broken::Unreadable { seq: Seq(1), .. })
        ));
    }

    proptest! {
        #[test]
        fn any_altered_field_is_noticed(field in 0..8_u8, bit in 0..16_u32) {
            let (genesis, mut record, _) = sealed();
            match field {
                0 => record.run.0 ^= 1 << bit,
                1 => record.at.0 ^= 1 << bit,
                2 => record.version ^= 1 << bit,
                3 => record.kind.push('x'),
                4 => record.path = Some("steps/0".into()),
                5 => record.revision ^= 1 << bit,
                6 => record.body.insert(1, ' '),
                _ => record.body.truncate(record.body.len() - 1),
            }
            prop_assert_eq!(genesis.open(&record), Err(Broken::Altered(Seq(1))));
        }
    }
}
