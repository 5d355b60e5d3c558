//! Stores the transcripts of a session's CLI agents with its checkpoints.

use segno_core::checkpoint::papers::{self, Piece};
use segno_core::companion::{Kept, Program};
use segno_core::digest::Digest;
use segno_core::error::{Diagnose, Kind};
use segno_core::id::SessionId;
use segno_core::journal::Seq;
use segno_core::state::{Native, State};

use crate::error::Error;
use crate::history;
use crate::world::World;

/// Stores the transcripts of open conversations: the vendor's own transcript, or the newest copy if
/// that is gone. A transcript that cannot be read does not fail the checkpoint, because the
/// messages are in the journal.
pub(super) async fn put_transcripts(
    world: &World,
    session: SessionId,
    state: &State,
) -> Result<Option<Digest>, Error> {
    let mut all = Vec::new();
    for native in state.open.values().filter_map(|open| open.native.as_ref()) {
        let Some(companion) = world.drivers.companion(native.program) else {
            continue;
        };
        let Some(records) = companion.records() else {
            continue;
        };
        let kept = match records.copy(&native.id).await {
            Ok(kept) if !kept.record.is_empty() => Some(kept),
            _ => newest(world, session, native).await?,
        };
        if let Some(kept) = kept {
            all.extend(to_attachments(native.program, &native.id, kept));
        }
    }
    if all.is_empty() {
        return Ok(None);
    }
    Ok(Some(world.snapshots.keep(all).await?))
}

/// A transcript as attachments, named after the conversation.
pub(crate) fn to_attachments(program: Program, id: &str, kept: Kept) -> Vec<(String, Vec<u8>)> {
    let beside = kept.beside.into_iter();
    let beside = beside.map(|(name, bytes)| (papers::beside(program, id, &name), bytes));
    let own = (papers::conversation(program, id), kept.record);
    std::iter::once(own).chain(beside).collect()
}

/// The newest stored copy of a conversation: from a checkpoint, or from the adoption or fork of the
/// session.
pub(crate) async fn newest(
    world: &World,
    session: SessionId,
    native: &Native,
) -> Result<Option<Kept>, Error> {
    let state = history::look(world, session).await?;
    let forked = state.forked.and_then(|forked| forked.papers);
    let adopted = state.adopted;
    let adopted = adopted.filter(|of| (of.program, &of.native) == (native.program, &native.id));
    let since = adopted.as_ref().map_or(Seq(0), |adopted| adopted.seq);
    let mut copies = Vec::new();
    for (session, checkpoint) in world.store.names(Some(session)).await?.into_iter().rev() {
        // `checkpoint::list` reports damaged manifests; here they are skipped.
        let Ok(Some(manifest)) = world.store.one(session, checkpoint).await else {
            continue;
        };
        if manifest.pruned.is_none() && manifest.journal.seq >= since {
            copies.extend(manifest.papers);
        }
    }
    copies.extend(adopted.map(|adopted| adopted.papers));
    copies.extend(forked);
    for papers in copies {
        if let Some(kept) = read_transcript(world, papers, native).await? {
            return Ok(Some(kept));
        }
    }
    Ok(None)
}

/// The transcript of a conversation among stored attachments; `None` if the attachments are not
/// here.
pub(crate) async fn read_transcript(
    world: &World,
    papers: Digest,
    native: &Native,
) -> Result<Option<Kept>, Error> {
    match world.snapshots.papers(papers).await {
        // The session may be imported, and its attachments be on the other machine.
        Err(error) if error.kind() == Kind::NotFound => Ok(None),
        papers => Ok(of_papers(native, &papers?)),
    }
}

/// The transcript of a conversation among attachments.
pub(crate) fn of_papers(native: &Native, papers: &[(String, Vec<u8>)]) -> Option<Kept> {
    let (mut record, mut kept) = (None, Kept::default());
    for (name, bytes) in papers {
        let Some(Piece {
            program,
            id,
            beside,
        }) = papers::piece(name)
        else {
            continue;
        };
        if program != native.program || id != native.id {
            continue;
        }
        match beside {
            None => record = Some(bytes.clone()),
            Some(name) => {
                kept.beside.insert(name.to_owned(), bytes.clone());
            }
        }
    }
    kept.record = record?;
    Some(kept)
}
