//! Exports a session as one file.

use std::collections::BTreeMap;

use segno_core::bundle::{self, Header, Writer};
use segno_core::digest::Digest;
use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::id::Name;
use segno_core::journal::{Head, Text};
use segno_core::session::Status;
use segno_core::store::{Error as StoreError, Summary};

use crate::env::Env;
use crate::history::PAGE;
use crate::{journal, lease};

/// Why a session cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("session `{name}` cannot be exported: {error}")]
    Failed { name: Name, error: bundle::Error },
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::Failed { .. } => Diagnosis::new(Kind::Unusable, "F0205"),
        }
    }
}

#[derive(Debug)]
pub struct Export {
    pub bytes: Vec<u8>,
    /// How many journal events it has.
    pub records: u64,
    /// How many long texts.
    pub texts: u64,
    /// Whether a run holds the session. Then the file ends at the event that was current at the
    /// export.
    pub running: bool,
}

/// Exports a session and verifies every record. Calls `progress` with the number of finished
/// events, and of all events.
pub async fn export(
    env: &Env,
    summary: &Summary,
    progress: impl FnMut(u64, u64),
) -> Result<Export, Error> {
    let session = summary.id;
    let lease = env.store.lease(session).await?;
    // Read once: a run may continue to append, and later events are not in the file.
    let summary = env.store.summary(session).await?;
    let running = lease::effective_status(env, &summary, &lease) == Status::Running;
    up_to(env, &summary, summary.head, running, progress).await
}

/// Like [`export`], up to an event of the journal.
pub async fn up_to(
    env: &Env,
    summary: &Summary,
    end: Head,
    running: bool,
    mut progress: impl FnMut(u64, u64),
) -> Result<Export, Error> {
    let session = summary.id;
    let unwritable = |error: bundle::Error| Error::Failed {
        name: summary.name.clone(),
        error,
    };
    let header = Header {
        segno_session: bundle::VERSION,
        session,
        name: summary.name.clone(),
        running,
        version: env.version.to_owned(),
    };
    let mut writer = Writer::new(&header).map_err(unwritable)?;
    let mut head = Head::genesis(session);
    let mut texts: BTreeMap<Digest, Text> = BTreeMap::new();
    while head.seq < end.seq {
        let left = usize::try_from(end.seq.0 - head.seq.0).unwrap_or(PAGE);
        let page = env.store.records(session, head, left.min(PAGE)).await?;
        if page.is_empty() {
            break;
        }
        for record in page {
            let entry = head
                .open(&record)
                .map_err(|broken| damaged(summary, &broken))?;
            if let Some(text @ Text::Blob { blob, .. }) = entry.event.text() {
                texts.insert(*blob, text.clone());
            }
            writer.record(&record).map_err(unwritable)?;
            head = record.head();
        }
        progress(head.seq.0, end.seq.0);
    }
    if head != end {
        return Err(damaged(summary, &"it does not end at the expected event"));
    }
    for (digest, text) in &texts {
        let text = journal::load_text(env, text).await?;
        writer.text(*digest, &text).map_err(unwritable)?;
    }
    Ok(Export {
        bytes: writer.finish().map_err(unwritable)?,
        records: end.seq.0,
        texts: texts.len() as u64,
        running,
    })
}

fn damaged(summary: &Summary, reason: &dyn std::fmt::Display) -> Error {
    Error::Store(StoreError::Damaged {
        object: format!("the journal of session {}", summary.id),
        reason: reason.to_string(),
    })
}
