//! Another agent continues. It gets a transcript of what was said, if it accepts one, otherwise a
//! resume context.

use segno_core::agent;

use super::{Opened, Source};

pub(super) async fn open(source: &Source<'_>) -> Result<Opened, agent::Error> {
    let id = source.new_id();
    let transcripts = source.cli_agent.transcript_files();
    let Some(transcripts) = transcripts.filter(|_| source.may_write_transcript) else {
        return Ok(Opened {
            id,
            has_transcript: false,
        });
    };
    let lost = transcripts
        .write_transcript(&id, source.entries, source.workspace)
        .await?;
    if !lost.is_empty() {
        (source.notice)(&format!(
            "not transferred to {}: {}",
            source.cli_agent.kind(),
            lost.join(", ")
        ));
    }
    Ok(Opened {
        id,
        has_transcript: true,
    })
}
