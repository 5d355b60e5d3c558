//! The conversations of a fork: copies of the source's transcripts, under new ids.
//!
//! A snapshot that the fork's journal references holds the bytes. The first resume of the fork puts
//! them where the CLI agent looks for transcripts. The source's conversation is only read.

use std::path::Path as FilePath;

use segno_core::companion::{self, Health, Kept};
use segno_core::digest::Digest;
use segno_core::journal::AgentOpened;
use segno_core::lease::Verdict;
use segno_core::session::Summary;
use segno_core::state::Native;
use segno_core::step::Path;

use super::Part;
use super::source::SourceState;
use crate::checkpoint::records::{self, to_attachments};
use crate::claim;
use crate::error::Error;
use crate::world::World;

/// A conversation that continues in a fork.
pub(super) struct ForkedConversation {
    path: Path,
    /// The conversation in the source.
    native: Native,
    /// Its id in the fork.
    pub(super) id: String,
    /// The copy of the transcript.
    record: Kept,
}

impl ForkedConversation {
    /// Whether an event of the source starts or continues this conversation.
    pub(super) fn is_opened_by(&self, opened: &AgentOpened) -> bool {
        (&self.path, self.native.program, &self.native.id)
            == (&opened.path, opened.program, &opened.native)
    }
}

/// The conversations that continue, if there is a transcript without later messages.
pub(super) async fn collect(
    world: &World,
    summary: &Summary,
    source: &SourceState,
    part: &Part,
) -> Result<Vec<ForkedConversation>, Error> {
    let mut conversations = Vec::new();
    for path in &source.begun {
        let Some(native) = source.state.open[path].native.clone() else {
            continue;
        };
        if let Some(record) = record(world, summary, source, part, &native).await? {
            conversations.push(ForkedConversation {
                path: path.clone(),
                native,
                id: companion::fresh(&*world.random),
                record,
            });
        }
    }
    Ok(conversations)
}

async fn record(
    world: &World,
    summary: &Summary,
    source: &SourceState,
    part: &Part,
    native: &Native,
) -> Result<Option<Kept>, Error> {
    let Part::Until(manifest, _) = part else {
        return newest(world, summary, native).await;
    };
    if let Some(papers) = manifest.papers
        && let Some(record) = records::read_transcript(world, papers, native).await?
    {
        return Ok(Some(record));
    }
    // The vendor's transcript has the current state. It has no later messages only if the session
    // has no later events.
    let adopted = source.state.adopted.as_ref();
    let lease = world.store.lease(summary.id).await?;
    let at_rest = claim::verdict(world, &lease) != Verdict::Held;
    if at_rest && adopted.is_none() && summary.head.seq == manifest.journal.seq {
        return newest(world, summary, native).await;
    }
    let forked = source
        .state
        .forked
        .as_ref()
        .and_then(|forked| forked.papers);
    for papers in adopted
        .map(|adopted| adopted.papers)
        .into_iter()
        .chain(forked)
    {
        if let Some(record) = records::read_transcript(world, papers, native).await? {
            return Ok(Some(record));
        }
    }
    Ok(None)
}

/// The vendor's current transcript, or the newest stored copy.
async fn newest(world: &World, summary: &Summary, native: &Native) -> Result<Option<Kept>, Error> {
    if let Some(companion) = world.drivers.companion(native.program)
        && let Some(records) = companion.records()
    {
        let folder = FilePath::new(&native.folder);
        let known = companion.record(&native.id, folder).await;
        let health = known.ok().flatten().map(|record| record.health);
        if let Some(Health::Whole | Health::Damaged(_)) = health
            && let Ok(record) = records.copy(&native.id).await
        {
            return Ok(Some(record));
        }
    }
    records::newest(world, summary.id, native).await
}

/// The transcripts as attachments.
pub(super) fn papers(conversations: &[ForkedConversation]) -> Vec<(String, Vec<u8>)> {
    let paper = |conversation: &ForkedConversation| {
        to_attachments(
            conversation.native.program,
            &conversation.id,
            conversation.record.clone(),
        )
    };
    conversations.iter().flat_map(paper).collect()
}

/// Stores the transcripts; durable when it returns.
pub(super) async fn put(
    world: &World,
    conversations: &[ForkedConversation],
) -> Result<Option<Digest>, Error> {
    if conversations.is_empty() {
        return Ok(None);
    }
    Ok(Some(world.snapshots.keep(papers(conversations)).await?))
}
