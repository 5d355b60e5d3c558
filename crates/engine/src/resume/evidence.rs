//! Collects what is left of a conversation, so that a resume strategy can be chosen.

use std::path::Path;

use segno_core::agent;
use segno_core::cli_agent::{CliAgent, Examination, Health, TranscriptCopy, TranscriptState};
use segno_core::id::SessionId;
use segno_core::resume::{Evidence, Plan, Strategy, choose_strategy};
use segno_core::state::{NativeConversation, default_conversation, whole_conversations};
use segno_core::usage::ContextLimits;

use super::strategies_above;
use crate::checkpoint::Error;
use crate::checkpoint::transcripts::{self, CopySource};
use crate::env::Env;

/// What is left of a conversation.
#[derive(Default)]
pub struct FoundConversation {
    /// The conversation, if there is one.
    pub native: Option<NativeConversation>,
    /// Why its transcript could not be examined, which says nothing about the transcript.
    pub unexamined: Option<agent::Error>,
    /// The facts that decide about the resume strategy.
    pub evidence: Evidence,
    /// A stored copy of the program's transcript, if the program itself has none.
    pub(crate) copy: Option<TranscriptCopy>,
    /// Where the copy comes from, if not from the program's own folder.
    pub copied_from: Option<CopySource>,
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
            native: Some(native.clone()),
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

    /// The strategy that the evidence leads to. An error if the evidence could not be had and the user
    /// did not choose a strategy that needs none: that is no reason to give the conversation up.
    pub fn choose(&self) -> Result<Plan, agent::Error> {
        match &self.unexamined {
            Some(error) if !self.evidence.ruled_out.contains(&Strategy::Native) => {
                Err(error.clone())
            }
            _ => Ok(choose_strategy(&self.evidence)),
        }
    }

    /// The size in bytes of the transcript to resume from.
    pub fn bytes(&self) -> u64 {
        let copy = self.copy.as_ref().map(|copy| copy.transcript.len() as u64);
        let record = self.record.as_ref().map(|record| record.bytes);
        copy.or(record).unwrap_or_default()
    }
}

/// The conversations that CLI agents have had for a step, and how to look at them.
#[derive(Clone, Copy)]
pub struct Search<'a> {
    pub env: &'a Env,
    pub session: SessionId,
    pub cli_agent: &'a dyn CliAgent,
    /// Where the step continues.
    pub workspace: &'a Path,
    /// The conversations, ordered by when they were last opened.
    pub conversations: &'a [&'a NativeConversation],
    pub examination: Examination,
    /// When a context counts as full.
    pub context_limits: ContextLimits,
}

impl Search<'_> {
    /// Finds the conversation that continues, and collects what is left of it. `best` is the best
    /// strategy that the user allows, and `excluded` are strategies that failed before.
    ///
    /// By default that is [`default_conversation`]. A user who asks for the native strategy goes back
    /// to the newest conversation that was not started from a summary and can be resumed natively, if
    /// there is one.
    pub async fn find(
        &self,
        best: Option<Strategy>,
        excluded: &[Strategy],
    ) -> Result<FoundConversation, Error> {
        let program = self.cli_agent.kind();
        let mut ruled_out = excluded.to_vec();
        ruled_out.extend(strategies_above(best));
        if best == Some(Strategy::Native) {
            for native in whole_conversations(self.conversations, program) {
                let mut found = self.collect(native).await?;
                found.evidence.ruled_out.clone_from(&ruled_out);
                if choose_strategy(&found.evidence).strategy == Strategy::Native {
                    return Ok(found);
                }
            }
        }
        let mut found = match default_conversation(self.conversations, program) {
            Some(native) => self.collect(&native).await?,
            None => FoundConversation::default(),
        };
        found.evidence.ruled_out = ruled_out;
        let is_intact = found.evidence.transcript == Some(Health::Intact);
        if is_intact && excluded == [Strategy::Native] {
            self.copy_refused(&mut found).await;
        }
        Ok(found)
    }

    /// Takes a copy of a transcript that the agent refused or would refuse, to be restored under a new
    /// id: an agent may look for a conversation where its folder was before.
    async fn copy_refused(&self, found: &mut FoundConversation) {
        if let (Some(native), Some(files)) = (&found.native, self.cli_agent.transcript_files()) {
            let copy = files.copy(&native.id).await.ok();
            found.use_copy(self.cli_agent, copy).await;
            found.evidence.refused = found.evidence.has_copy;
        }
    }

    /// Collects what is left of a conversation.
    async fn collect(&self, native: &NativeConversation) -> Result<FoundConversation, Error> {
        let mut found = FoundConversation {
            native: Some(native.clone()),
            moved_from: moved_from(native, self.workspace),
            evidence: Evidence {
                id: Some(native.id.clone()),
                other_agent: native.program != self.cli_agent.kind(),
                context_usage: native.context,
                context_limits: self.context_limits,
                ..Evidence::default()
            },
            ..FoundConversation::default()
        };
        if found.evidence.other_agent {
            return Ok(found);
        }
        let examining =
            self.cli_agent
                .transcript_state(&native.id, self.workspace, self.examination);
        match examining.await {
            Ok(record) => {
                found.evidence.transcript = record.as_ref().map(|record| record.health.clone());
                found.record = record;
            }
            Err(error) => {
                found.evidence.transcript = Some(Health::Unreadable(error.message.clone()));
                found.unexamined = Some(error);
            }
        }
        let earlier = native.home.as_deref().map(Path::new);
        let is_moved = earlier.is_some_and(|earlier| self.cli_agent.home() != Some(earlier));
        let is_usable = matches!(
            found.evidence.transcript,
            Some(Health::Intact | Health::Damaged(_))
        );
        if is_moved && is_usable && !self.cli_agent.finds_moved_transcripts() {
            self.copy_refused(&mut found).await;
        }
        if matches!(found.evidence.transcript, None | Some(Health::Empty)) {
            let copy = match transcripts::copy_from_elsewhere(self.cli_agent, native).await {
                Ok(None) => transcripts::newest_transcript(self.env, self.session, native).await?,
                Ok(copy) => copy.map(|(folder, copy)| (CopySource::Folder(folder), copy)),
                Err(error) => {
                    found.unexamined = Some(error);
                    None
                }
            };
            let (source, copy) = copy.unzip();
            found.use_copy(self.cli_agent, copy).await;
            found.copied_from = source.filter(|_| found.copy.is_some());
        }
        Ok(found)
    }
}

/// Programs find a conversation by its id, whichever folder it started in, so that their transcript
/// stays valid after a move; only the agent must be told.
fn moved_from(native: &NativeConversation, workspace: &Path) -> Option<String> {
    (Path::new(&native.folder) != workspace).then(|| native.folder.clone())
}
