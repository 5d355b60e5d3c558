//! The agent continues from a stored copy of its transcript, which is written to its own location.

use segno_core::agent;

use super::{Opened, Source};

pub(super) async fn open(source: &Source<'_>) -> Result<Opened, agent::Error> {
    let id = if source.refused {
        source.new_id()
    } else {
        source.own_id()
    };
    if let (Some(copy), Some(transcripts)) = (source.copy, source.cli_agent.transcript_files()) {
        transcripts.install(&id, copy, source.workspace).await?;
        if let Some(from) = source.copied_from {
            (source.notice)(&format!(
                "the transcript of conversation {id} was restored from {from}"
            ));
        }
    }
    Ok(Opened {
        id,
        has_transcript: true,
    })
}
