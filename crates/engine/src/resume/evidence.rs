//! Collects what is left of a conversation, so that a resume strategy can be chosen.

use std::path::Path;

use segno_core::cli_agent::{CliAgent, Health, TranscriptCopy, TranscriptState};
use segno_core::conversation::analysis::Unanswered;
use segno_core::id::SessionId;
use segno_core::resume::Evidence;
use segno_core::state::NativeConversation;

use crate::checkpoint::{Error, transcripts};
use crate::env::Env;

/// What is left of a conversation.
#[derive(Default)]
pub struct FoundConversation {
    /// The facts that decide about the resume strategy.
    pub evidence: Evidence,
    /// A stored copy of the program's transcript, if the program itself has none.
    pub(crate) copy: Option<TranscriptCopy>,
    /// What is in the transcript to resume from: the program's own, or the copy.
    pub(crate) record: Option<TranscriptState>,
    /// The workspace of the conversation, if the step continues in another one.
    pub moved_from: Option<String>,
}

impl FoundConversation {
    /// For a conversation of which the program has no transcript, and of which there may be a copy.
    pub async fn from_copy(
        cli_agent: &dyn CliAgent,
        native: &NativeConversation,
        copy: Option<TranscriptCopy>,
        workspace: &Path,
    ) -> Self {
        let mut found = Self {
            moved_from: moved_from(native, workspace),
            evidence: Evidence {
                id: Some(native.id.clone()),
                other_agent: native.program != cli_agent.kind(),
                context_usage: native.context,
                ..Evidence::default()
            },
            ..Self::default()
        };
        found.use_copy(cli_agent, copy).await;
        found
    }

    /// Uses a stored copy as the transcript, if it can be resumed from.
    async fn use_copy(&mut self, cli_agent: &dyn CliAgent, copy: Option<TranscriptCopy>) {
        let (Some(copy), Some(records)) = (copy, cli_agent.transcript_files()) else {
            return;
        };
        if let Ok(record) = records.inspect_copy(&copy.transcript).await
            && matches!(record.health, Health::Intact | Health::Damaged(_))
        {
            self.evidence.has_copy = true;
            (self.copy, self.record) = (Some(copy), Some(record));
        }
    }

    /// The size in bytes of the transcript to resume from.
    pub fn bytes(&self) -> u64 {
        let copy = self.copy.as_ref().map(|copy| copy.transcript.len() as u64);
        let record = self.record.as_ref().map(|record| record.bytes);
        copy.or(record).unwrap_or_default()
    }

    /// The calls with unknown outcome, from the program's transcript and from the events it
    /// reported: each may have what the other lacks.
    pub(crate) fn unanswered(&self, reported: Vec<Unanswered>) -> Vec<Unanswered> {
        let Some((record, recorded)) = self.record.as_ref().and_then(|record| {
            let recorded = record.unanswered.as_ref()?;
            Some((record, recorded))
        }) else {
            return reported;
        };
        let mut all = recorded.clone();
        // If the transcript uses other ids, the same call would be listed twice.
        if let Some(named) = &record.known_ids {
            let is_in_transcript = |call: &Unanswered| named.contains(&call.id);
            all.extend(reported.into_iter().filter(|call| !is_in_transcript(call)));
        }
        all
    }
}

/// Collects what is left of a conversation, if there is one, before the step continues in
/// `workspace`.
pub async fn collect(
    env: &Env,
    session: SessionId,
    cli_agent: &dyn CliAgent,
    native: Option<&NativeConversation>,
    workspace: &Path,
) -> Result<FoundConversation, Error> {
    let Some(native) = native else {
        return Ok(FoundConversation::default());
    };
    let other_agent = native.program != cli_agent.kind();
    let (mut health, mut record) = (None, None);
    if !other_agent {
        let reading = cli_agent.transcript_state(&native.id, workspace);
        match reading.await {
            Ok(transcript) => {
                health = transcript.as_ref().map(|record| record.health.clone());
                record = transcript;
            }
            Err(error) => health = Some(Health::Unreadable(error.message)),
        }
    }
    let copy = match health {
        None | Some(Health::Empty) if !other_agent => {
            transcripts::newest_transcript(env, session, native).await?
        }
        _ => None,
    };
    let evidence = Evidence {
        id: Some(native.id.clone()),
        other_agent,
        transcript: health,
        context_usage: native.context,
        ..Evidence::default()
    };
    let mut found = FoundConversation {
        evidence,
        copy: None,
        record,
        moved_from: moved_from(native, workspace),
    };
    found.use_copy(cli_agent, copy).await;
    Ok(found)
}

/// Programs find a conversation by its id, whichever folder it started in, so that their transcript
/// stays valid after a move; only the agent must be told.
fn moved_from(native: &NativeConversation, workspace: &Path) -> Option<String> {
    (Path::new(&native.folder) != workspace).then(|| native.folder.clone())
}
