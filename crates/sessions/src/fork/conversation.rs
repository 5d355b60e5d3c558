//! The conversations of a fork: copies of the source's transcripts, under new ids.
//!
//! A snapshot that the fork's journal references holds the bytes. The first resume of the fork puts
//! them where the CLI agent looks for transcripts. The source's conversation is only read.

use std::path::Path as FilePath;

use segno_core::cli_agent::{self, Examination, Health, TranscriptCopy};
use segno_core::digest::Digest;
use segno_core::journal::ConversationOpened;
use segno_core::snapshot;
use segno_core::state::NativeConversation;
use segno_core::step::Path;
use segno_core::store::Summary;
use segno_engine::checkpoint::Error;
use segno_engine::checkpoint::transcripts::{self, to_attachments};
use segno_engine::{Env, lease};

use super::ForkPoint;
use super::source::SourceState;

/// A conversation that continues in a fork.
pub(super) struct ForkedConversation {
    path: Path,
    /// The conversation in the source.
    native: NativeConversation,
    /// Its id in the fork.
    pub(super) id: String,
    /// The copy of the transcript.
    record: TranscriptCopy,
}

impl ForkedConversation {
    /// Whether an event of the source starts or continues this conversation.
    pub(super) fn is_opened_by(&self, opened: &ConversationOpened) -> bool {
        (&self.path, self.native.program, &self.native.id)
            == (&opened.path, opened.program, &opened.native_id)
    }
}

/// The conversations that continue, if there is a transcript without later messages.
pub(super) async fn collect(
    env: &Env,
    summary: &Summary,
    source: &SourceState,
    part: &ForkPoint,
) -> Result<Vec<ForkedConversation>, Error> {
    let mut conversations = Vec::new();
    for path in &source.begun {
        let Some(native) = source.state.open_steps[path].native.clone() else {
            continue;
        };
        if let Some(record) = record(env, summary, source, part, &native).await? {
            conversations.push(ForkedConversation {
                path: path.clone(),
                native,
                id: cli_agent::new_conversation_id(&*env.random),
                record,
            });
        }
    }
    Ok(conversations)
}

async fn record(
    env: &Env,
    summary: &Summary,
    source: &SourceState,
    part: &ForkPoint,
    native: &NativeConversation,
) -> Result<Option<TranscriptCopy>, Error> {
    let ForkPoint::AtCheckpoint(manifest, _) = part else {
        return newest(env, summary, native).await;
    };
    if let Some(attachments) = manifest.attachments
        && let Some(record) = transcripts::read_transcript(env, attachments, native).await?
    {
        return Ok(Some(record));
    }
    // The vendor's transcript has the current state. It has no later messages only if the session
    // has no later events.
    let adopted = source.state.imported.as_ref();
    let lease = env.store.lease(summary.id).await?;
    let at_rest = !lease::verdict(env, &lease).is_held();
    if at_rest && adopted.is_none() && summary.head.seq == manifest.journal.seq {
        return newest(env, summary, native).await;
    }
    let forked = source
        .state
        .forked
        .as_ref()
        .and_then(|forked| forked.attachments);
    for attachments in adopted
        .map(|adopted| adopted.attachments)
        .into_iter()
        .chain(forked)
    {
        if let Some(record) = transcripts::read_transcript(env, attachments, native).await? {
            return Ok(Some(record));
        }
    }
    Ok(None)
}

/// The vendor's current transcript, or the newest stored copy.
async fn newest(
    env: &Env,
    summary: &Summary,
    native: &NativeConversation,
) -> Result<Option<TranscriptCopy>, Error> {
    if let Some(cli_agent) = env.drivers.cli_agent(native.program)
        && let Some(records) = cli_agent.transcript_files()
    {
        let folder = FilePath::new(&native.folder);
        let known = cli_agent.transcript_state(&native.id, folder, Examination::FilesOnly);
        let known = known.await;
        let health = known.ok().flatten().map(|record| record.health);
        if let Some(Health::Intact | Health::Damaged(_)) = health
            && let Ok(record) = records.copy(&native.id).await
        {
            return Ok(Some(record));
        }
        if let Ok(Some((_, copy))) = transcripts::copy_from_elsewhere(&*cli_agent, native).await {
            return Ok(Some(copy));
        }
    }
    let newest = transcripts::newest_transcript(env, summary.id, native).await?;
    Ok(newest.map(|(_, copy)| copy))
}

/// The transcripts as attachments.
pub(super) fn attachments(conversations: &[ForkedConversation]) -> Vec<(String, Vec<u8>)> {
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
    env: &Env,
    conversations: &[ForkedConversation],
) -> Result<Option<Digest>, snapshot::Error> {
    if conversations.is_empty() {
        return Ok(None);
    }
    Ok(Some(
        env.snapshots()?
            .put_files(attachments(conversations))
            .await?,
    ))
}
