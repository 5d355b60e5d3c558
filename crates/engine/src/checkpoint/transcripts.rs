//! Stores the transcripts of a session's CLI agents with its checkpoints.

use std::fmt;
use std::path::{Path, PathBuf};

use segno_core::agent;
use segno_core::checkpoint::attachments::{self, Piece};
use segno_core::cli_agent::{CliAgent, CliAgentKind, TranscriptCopy};
use segno_core::digest::Digest;
use segno_core::error::{Diagnose, Kind};
use segno_core::id::{CheckpointId, SessionId};
use segno_core::journal::Seq;
use segno_core::state::{NativeConversation, State};

use super::Error;
use crate::env::Env;
use crate::history;

/// Where a copy of a transcript comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopySource {
    /// A folder in which the CLI agent kept its transcripts before.
    Folder(PathBuf),
    Checkpoint(CheckpointId),
    /// The copy that was stored when the session was imported.
    Import,
    /// The copy that was stored when the session was forked.
    Fork,
}

impl fmt::Display for CopySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "{}", folder.display()),
            Self::Checkpoint(id) => write!(f, "checkpoint {id}"),
            Self::Import => f.write_str("the import of the session"),
            Self::Fork => f.write_str("the fork of the session"),
        }
    }
}

/// The transcript of a conversation that is not where the CLI agent keeps its transcripts now, but where
/// it kept them when the conversation was opened: since then the user has changed `HOME` or the agent's
/// own variable, or renamed a folder.
pub async fn copy_from_elsewhere(
    cli_agent: &dyn CliAgent,
    native: &NativeConversation,
) -> Result<Option<(PathBuf, TranscriptCopy)>, agent::Error> {
    let earlier = native.home.as_deref().map(Path::new);
    match (earlier, cli_agent.transcript_files()) {
        (Some(earlier), Some(files)) => files.copy_from_elsewhere(earlier, &native.id).await,
        _ => Ok(None),
    }
}

/// Stores the transcripts of open conversations: the vendor's own transcript, or the newest copy if
/// that is gone. A transcript that cannot be read does not fail the checkpoint, because the
/// messages are in the journal.
pub(super) async fn put_transcripts(
    env: &Env,
    session: SessionId,
    state: &State,
) -> Result<Option<Digest>, Error> {
    let mut all = Vec::new();
    for native in state
        .open_steps
        .values()
        .filter_map(|open| open.native.as_ref())
    {
        let Some(cli_agent) = env.drivers.cli_agent(native.program) else {
            continue;
        };
        let Some(records) = cli_agent.transcript_files() else {
            continue;
        };
        let kept = match records.copy(&native.id).await {
            Ok(kept) if !kept.transcript.is_empty() => Some(kept),
            _ => match copy_from_elsewhere(&*cli_agent, native).await {
                Ok(Some((_, kept))) if !kept.transcript.is_empty() => Some(kept),
                _ => {
                    let newest = newest_transcript(env, session, native).await?;
                    newest.map(|(_, kept)| kept)
                }
            },
        };
        if let Some(kept) = kept {
            all.extend(to_attachments(native.program, &native.id, kept));
        }
    }
    if all.is_empty() {
        return Ok(None);
    }
    Ok(Some(env.snapshots()?.put_files(all).await?))
}

/// A transcript as attachments, named after the conversation.
pub fn to_attachments(
    program: CliAgentKind,
    id: &str,
    kept: TranscriptCopy,
) -> Vec<(String, Vec<u8>)> {
    let beside = kept.sidecars.into_iter();
    let beside = beside.map(|(name, bytes)| (attachments::beside(program, id, &name), bytes));
    let own = (attachments::conversation(program, id), kept.transcript);
    std::iter::once(own).chain(beside).collect()
}

/// The newest stored copy of a conversation: from a checkpoint, or from the adoption or fork of the
/// session.
pub async fn newest_transcript(
    env: &Env,
    session: SessionId,
    native: &NativeConversation,
) -> Result<Option<(CopySource, TranscriptCopy)>, Error> {
    let state = history::load_state(env, session).await?;
    let forked = state.forked.and_then(|forked| forked.attachments);
    let adopted = state.imported;
    let adopted = adopted.filter(|of| (of.program, &of.native_id) == (native.program, &native.id));
    let since = adopted.as_ref().map_or(Seq(0), |adopted| adopted.seq);
    let mut copies = Vec::new();
    for (session, checkpoint) in env
        .store
        .list_checkpoint_ids(Some(session))
        .await?
        .into_iter()
        .rev()
    {
        // `checkpoint::list` reports damaged manifests; here they are skipped.
        let Ok(Some(manifest)) = env.store.get_checkpoint(session, checkpoint).await else {
            continue;
        };
        if manifest.pruned.is_none() && manifest.journal.seq >= since {
            let source = CopySource::Checkpoint(checkpoint);
            copies.extend(
                manifest
                    .attachments
                    .map(|attachments| (source, attachments)),
            );
        }
    }
    copies.extend(adopted.map(|adopted| (CopySource::Import, adopted.attachments)));
    copies.extend(forked.map(|attachments| (CopySource::Fork, attachments)));
    for (source, attachments) in copies {
        if let Some(kept) = read_transcript(env, attachments, native).await? {
            return Ok(Some((source, kept)));
        }
    }
    Ok(None)
}

/// The transcript of a conversation among stored attachments; `None` if the attachments are not
/// here.
pub async fn read_transcript(
    env: &Env,
    attachments: Digest,
    native: &NativeConversation,
) -> Result<Option<TranscriptCopy>, Error> {
    match env.snapshots()?.attachments(attachments).await {
        // The session may be imported, and its attachments be on the other machine.
        Err(error) if error.kind() == Kind::NotFound => Ok(None),
        attachments => Ok(find_transcript(native, &attachments?)),
    }
}

/// The transcript of a conversation among attachments.
pub fn find_transcript(
    native: &NativeConversation,
    attachments: &[(String, Vec<u8>)],
) -> Option<TranscriptCopy> {
    let (mut record, mut kept) = (None, TranscriptCopy::default());
    for (name, bytes) in attachments {
        let Some(Piece {
            program,
            id,
            beside,
        }) = attachments::piece(name)
        else {
            continue;
        };
        if program != native.program || id != native.id {
            continue;
        }
        match beside {
            None => record = Some(bytes.clone()),
            Some(name) => {
                kept.sidecars.insert(name.to_owned(), bytes.clone());
            }
        }
    }
    kept.transcript = record?;
    Some(kept)
}
