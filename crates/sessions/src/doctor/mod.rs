//! Verifies all stored data and names what is damaged; repairs what can be repaired without losing
//! anything.

mod remote;
mod repair;
mod snapshots;

use std::collections::BTreeSet;

use segno_core::checkpoint::Position;
use segno_core::digest::Digest;
use segno_core::error::{Diagnose, Diagnosis};
use segno_core::id::{CheckpointId, SessionId};
use segno_core::journal::{Head, Text};
use segno_core::snapshot::{self, Depth, Progress};
use segno_core::state::State;
use segno_core::store::{Error as StoreError, Filter, Finding, Severity, Summary};
use segno_engine::{Env, history};

pub use remote::{RemoteReport, compare};
pub use repair::{Repair, repair};

/// Why stored data cannot be examined or repaired.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Snapshot(#[from] snapshot::Error),
    #[error(transparent)]
    Remote(#[from] segno_engine::remote::Error),
    /// A part cannot be fetched again.
    #[error(transparent)]
    Fetch(#[from] crate::remote::Error),
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::Snapshot(error) => error.diagnosis(),
            Self::Remote(error) => error.diagnosis(),
            Self::Fetch(error) => error.diagnosis(),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    pub sessions: u64,
    pub events: u64,
    pub blobs: u64,
    /// Checkpoints that can be read.
    pub checkpoints: u64,
    /// Packs of snapshots.
    pub packs: u64,
    /// The total size of the packs.
    pub pack_bytes: u64,
    /// The problems.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether anything was lost or cannot be trusted.
    pub fn is_damaged(&self) -> bool {
        self.damaged() > 0
    }

    /// How many objects are damaged.
    pub fn damaged(&self) -> u64 {
        let damage = self.findings.iter();
        let damage = damage.filter(|finding| finding.severity == Severity::Damage);
        damage.count() as u64
    }
}

/// Verifies everything here; the content of snapshots only at [`Depth::Content`]. Calls `progress`
/// with the number of finished sessions, and of all sessions; `reading` with that of chunks.
pub async fn verify(
    env: &Env,
    depth: Depth,
    mut progress: impl FnMut(usize, usize),
    reading: &Progress,
) -> Result<Report, Error> {
    let mut report = Report {
        findings: env.store.examine().await?,
        ..Report::default()
    };
    let mut found = env.store.list(Filter::default()).await?;
    // Sessions in the trash can be restored, so they must be undamaged, too.
    for discarded in env.store.list_trash().await?.into_iter().flatten() {
        found.push(match env.store.summary(discarded.session).await {
            Ok(summary) => Ok(Summary {
                name: discarded.shown_name(),
                ..summary
            }),
            Err(error) => Err(error),
        });
    }
    let positions = snapshots::positions(env).await?;
    let (total, mut referred) = (found.len(), BTreeSet::new());
    let mut transcripts = Vec::new();
    for (done, summary) in found.into_iter().enumerate() {
        progress(done, total);
        match summary {
            Ok(summary) => {
                report.sessions += 1;
                let positions = positions.get(&summary.id).map_or(&[][..], Vec::as_slice);
                let verified =
                    verify_session(env, &summary, positions, &mut report, &mut referred).await;
                match verified {
                    Ok(state) => transcripts.extend(snapshots::transcripts(&state)),
                    Err(error) => report.damage(
                        Some(summary.id),
                        format!("session {}", summary.name),
                        error.to_string(),
                    ),
                }
            }
            Err(error) => report.damage(None, "a session".into(), error.to_string()),
        }
    }
    let kept: BTreeSet<Digest> = env.store.digests().await?.into_iter().collect();
    report.blobs = kept.len() as u64;
    let unused: Vec<Digest> = kept.difference(&referred).copied().collect();
    for blob in &unused {
        if let Err(error) = env.store.get(*blob).await {
            report.damage(None, format!("blob {}", blob.short()), error.to_string());
        }
    }
    // References are only known if every journal could be read.
    if !unused.is_empty() && !report.is_damaged() {
        report.findings.push(Finding {
            session: None,
            object: "blobs/".into(),
            problem: format!(
                "{} of {} are not referenced by any session",
                unused.len(),
                kept.len()
            ),
            severity: Severity::Notice,
        });
    }
    snapshots::examine(env, transcripts, depth, &mut report, reading).await?;
    report.findings.sort();
    report.findings.dedup();
    Ok(report)
}

async fn verify_session(
    env: &Env,
    summary: &Summary,
    positions: &[(CheckpointId, Position)],
    report: &mut Report,
    referred: &mut BTreeSet<Digest>,
) -> Result<State, history::Error> {
    let (session, status) = (summary.id, summary.status);
    let mut state = State::empty(session);
    let (mut blobs, mut others) = (Vec::new(), Vec::new());
    history::read_events(env, session, Head::genesis(session), |entry| {
        report.events += 1;
        let here = positions.iter().filter(|(_, at)| at.seq == entry.seq);
        let differing = here.filter(|(_, at)| at.hash != entry.hash);
        others.extend(differing.map(|(checkpoint, at)| (*checkpoint, at.seq)));
        if let Some(Text::Blob { blob, bytes }) = entry.event.text() {
            blobs.push((*blob, *bytes, entry.seq));
        }
        history::apply(&mut state, session, &entry)
    })
    .await?;
    // P9: checkpoints are sealed with a key, so a journal that was rewritten as a whole, with all
    // hashes, does not fit those that were taken of it before.
    for (checkpoint, seq) in others {
        report.damage(
            Some(session),
            format!("event {seq}"),
            format!(
                "is not the one that checkpoint {checkpoint} was taken at; the journal was rewritten or replaced"
            ),
        );
    }
    for (blob, bytes, seq) in blobs {
        referred.insert(blob);
        match env.store.get(blob).await {
            Ok(found) if found.len() as u64 == bytes => {}
            Ok(found) => report.damage(
                Some(session),
                format!("the text of event {seq}"),
                format!("has {} bytes instead of {bytes}", found.len()),
            ),
            Err(error) => report.damage(
                Some(session),
                format!("the text of event {seq}"),
                error.to_string(),
            ),
        }
    }
    if state.status != status {
        report.damage(
            Some(session),
            "its database row".into(),
            format!("has status {status}; the journal has {}", state.status),
        );
    }
    let workspace = state.created.as_ref().map(|created| &created.workspace);
    if workspace != Some(&summary.workspace) {
        report.damage(
            Some(session),
            "its database row".into(),
            format!(
                "has workspace {}; the journal has {}",
                summary.workspace,
                workspace.map_or("nothing", String::as_str)
            ),
        );
    }
    if let Some(folded) = env.store.cached_state(session).await?
        && folded.version == State::VERSION
        && folded.head == state.head
        && serde_json::from_str(&folded.body).ok().as_ref() != Some(&state)
    {
        report.damage(
            Some(session),
            "its cached state".into(),
            "does not match its journal".into(),
        );
    }
    Ok(state)
}

impl Report {
    fn damage(&mut self, session: Option<SessionId>, object: String, problem: String) {
        self.findings.push(Finding {
            session,
            object,
            problem,
            severity: Severity::Damage,
        });
    }
}
