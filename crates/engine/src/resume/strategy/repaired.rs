//! The agent continues from its own transcript, after the damaged end was repaired.

use segno_core::agent;

use super::{Opened, Source};

pub(super) async fn open(source: &Source<'_>) -> Result<Opened, agent::Error> {
    let id = source.own_id();
    if let Some(transcripts) = source.cli_agent.transcript_files() {
        (source.notice)(&transcripts.repair(&id).await?);
    }
    Ok(Opened {
        id,
        has_transcript: true,
    })
}
