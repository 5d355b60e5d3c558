//! The session of an adopted conversation: a chat with the agent that the conversation is from.

use std::collections::BTreeMap;

use segno_core::digest::Digest;
use segno_core::id::Name;
use segno_core::journal::{
    ChatOpened, ConversationOpened, Event, SessionCreated, StepStarted, TranscriptImported,
};
use segno_core::resume::Strategy;
use segno_core::session::Kind;
use segno_core::step::Path;
use segno_core::store::Error as StoreError;
use segno_core::transcript::{TranscriptInfo, TranscriptSource};
use segno_engine::{journal, steps, workspace};
use segno_sessions::chat::MAX_TURNS;
use segno_spec as spec;

use super::{Adoption, Error};

/// The name of a conversation without a readable first message.
const UNNAMED: &str = "conversation";

/// What the events of an adoption have in common.
pub(super) struct Draft {
    pub(super) created: SessionCreated,
    source: TranscriptSource,
    native: String,
    file: String,
    attachments: Digest,
    /// The agent's name in the spec.
    agent: &'static str,
    /// What the digest of a message depends on besides its text.
    provider: String,
}

impl Draft {
    pub(super) async fn new(
        adoption: &Adoption<'_>,
        about: &TranscriptInfo,
        attachments: Digest,
    ) -> Result<Self, Error> {
        let Adoption { env, request, .. } = adoption;
        let source = request.source;
        let prompt = about.prompt.as_deref().unwrap_or_default();
        let text = spec_text(source);
        let workflow = spec::parse(&text).expect("a generated spec is valid");
        let beside = about.path.parent().unwrap_or(&about.path);
        let folder = match (&request.folder, &about.folder) {
            (Some(folder), _) => workspace::path_text(folder)?,
            (None, Some(folder)) => folder.clone(),
            (None, None) => workspace::path_text(beside)?,
        };
        let title = env.redactor.redact(prompt);
        let title = title.lines().map(str::trim).find(|line| !line.is_empty());
        let (kept, _) = journal::redact_and_store(env, &text).await?;
        let created = SessionCreated {
            name: Name::sanitized(title.unwrap_or(UNNAMED)),
            session_kind: Kind::Agent,
            workspace: folder.clone(),
            spec_path: String::new(),
            spec: kept,
            spec_digest: Digest::of(text.as_bytes()),
            variables: BTreeMap::new(),
            out: folder,
            force: false,
            commit: None,
            pattern: None,
        };
        Ok(Self {
            created,
            source,
            native: adoption.native.clone(),
            file: about.path.to_string_lossy().into_owned(),
            attachments,
            agent: source.as_str(),
            provider: workflow.agents[source.as_str()].provider.identity(),
        })
    }

    /// The event that makes the session a chat.
    pub(super) fn chat_opened(&self) -> Event {
        ChatOpened {
            agent: self.agent.to_owned(),
            max_turns: MAX_TURNS,
        }
        .into()
    }

    /// The events that start a message, or another attempt at its answer. The text is redacted
    /// (P12), because a later run must ask the same.
    pub(super) async fn message(
        &self,
        adoption: &Adoption<'_>,
        path: &Path,
        attempt: u32,
        text: &str,
    ) -> Result<Vec<Event>, StoreError> {
        let (input, clean) = journal::redact_and_store(adoption.env, text).await?;
        let words = [self.agent, &self.provider, "", &clean];
        let started = StepStarted {
            path: path.clone(),
            revision: 0,
            attempt,
            agent: self.agent.to_owned(),
            input,
            input_digest: steps::digest(words, &[], &[]),
            resume_context: None,
        };
        let is_first = attempt == 1 && *path == segno_core::state::Chat::message_path(0);
        let opened = ConversationOpened {
            path: path.clone(),
            revision: 0,
            attempt,
            program: self.source.program(),
            native_id: self.native.clone(),
            folder: self.created.workspace.clone(),
            home: None,
            strategy: (!is_first).then_some(Strategy::Native),
        };
        // A program that cannot load a conversation gets a new one, with a resume context.
        let opened = self.source.loads_conversations().then_some(opened.into());
        Ok(std::iter::once(started.into()).chain(opened).collect())
    }

    /// The event that records how far the journal has the transcript.
    pub(super) fn mark(&self, path: Path, bytes: u64, digest: Digest, notes: Vec<String>) -> Event {
        TranscriptImported {
            path,
            revision: 0,
            program: self.source.program(),
            native_id: self.native.clone(),
            file: self.file.clone(),
            bytes,
            digest,
            attachments: self.attachments,
            notes,
        }
        .into()
    }
}

/// The spec of a chat that continues a conversation of this program.
fn spec_text(source: TranscriptSource) -> String {
    let runtime = match source.acp_command() {
        None => format!("{{provider: {source}}}"),
        Some([program, argument]) => format!("{{provider: acp, command: [{program}, {argument}]}}"),
    };
    format!(
        "# Made for a conversation that was adopted.\nversion: 0\nname: adopted\nruntime: {runtime}\nagents: {{{source}: {{prompt: \"\"}}}}\npattern: {{type: chain, config: {{steps: [{{agent: {source}, input: \"\"}}]}}}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_spec_of_every_cli_agent_is_valid() {
        for source in TranscriptSource::ALL {
            let workflow = spec::parse(&spec_text(*source)).unwrap();
            assert_eq!(workflow.agents.len(), 1);
            let provider = &workflow.agents[source.as_str()].provider;
            let asks = match source.acp_command() {
                None => spec::Provider::Program {
                    program: source.program(),
                    model: None,
                },
                Some(argv) => spec::Provider::Acp {
                    argv: argv.map(str::to_owned).to_vec(),
                },
            };
            assert_eq!(*provider, asks);
        }
    }
}
