//! Stores the transcripts of a session's CLI agents with its checkpoints.

use segno_core::checkpoint::attachments::{self, Piece};
use segno_core::cli_agent::{CliAgentKind, TranscriptCopy};
use segno_core::digest::Digest;
use segno_core::error::{Diagnose, Kind};
use segno_core::id::SessionId;
use segno_core::journal::Seq;
use segno_core::state::{NativeConversation, State};

use super::Error;
use crate::env::Env;
use crate::history;

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
            _ => newest_transcript(env, session, native).await?,
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
) -> Result<Option<TranscriptCopy>, Error> {
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
            copies.extend(manifest.attachments);
        }
    }
    copies.extend(adopted.map(|adopted| adopted.attachments));
    copies.extend(forked);
    for attachments in copies {
        if let Some(kept) = read_transcript(env, attachments, native).await? {
            return Ok(Some(kept));
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
