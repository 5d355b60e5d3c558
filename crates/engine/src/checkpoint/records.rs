//! What agents' programs keep of the conversations of a session, kept with its checkpoints.

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

/// Keeps what agents' programs have of the conversations that go on: their own record, or the newest
/// copy of it if that is gone. One that cannot be had is no reason to have no checkpoint: what was said
/// is in the journal.
pub(super) async fn keep(
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
            all.extend(as_papers(native.program, &native.id, kept));
        }
    }
    if all.is_empty() {
        return Ok(None);
    }
    Ok(Some(world.snapshots.keep(all).await?))
}

/// A record as papers, under the name that the conversation has.
pub(crate) fn as_papers(program: Program, id: &str, kept: Kept) -> Vec<(String, Vec<u8>)> {
    let beside = kept.beside.into_iter();
    let beside = beside.map(|(name, bytes)| (papers::beside(program, id, &name), bytes));
    let own = (papers::conversation(program, id), kept.record);
    std::iter::once(own).chain(beside).collect()
}

/// The newest copy that is kept of a conversation: with a checkpoint, or from when it was adopted or
/// copied.
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
        // What is wrong with one is told where they are listed.
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
        if let Some(kept) = among(world, papers, native).await? {
            return Ok(Some(kept));
        }
    }
    Ok(None)
}

/// What some papers have of a conversation, if they are here.
pub(crate) async fn among(
    world: &World,
    papers: Digest,
    native: &Native,
) -> Result<Option<Kept>, Error> {
    match world.snapshots.papers(papers).await {
        // The session may come from elsewhere, and its papers be there.
        Err(error) if error.kind() == Kind::NotFound => Ok(None),
        papers => Ok(of_papers(native, &papers?)),
    }
}

/// What papers have of a conversation.
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
