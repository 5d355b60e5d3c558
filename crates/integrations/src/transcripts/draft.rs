//! An adopted conversation as a session: one step, run by the CLI agent that the conversation is
//! from.

use std::collections::BTreeMap;

use segno_core::cli_agent::CliAgentKind;
use segno_core::digest::Digest;
use segno_core::id::Name;
use segno_core::journal::{
    ConversationOpened, Event, RunEnded, SessionCreated, StepPaused, StepStarted, Text,
    TranscriptImported,
};
use segno_core::resume::Strategy;
use segno_core::session::{Kind, Status};
use segno_core::state;
use segno_core::step::Path;
use segno_core::transcript::TranscriptInfo;
use segno_engine::{journal, steps, workspace};
use segno_spec as spec;

use super::{Adoption, Error};

/// The prompt of the step if the conversation has no readable first message.
const CONTINUE_PROMPT: &str = "Continue the conversation.";

/// The variable with the user's first message.
const TASK: &str = "task";

pub(super) fn step() -> Path {
    Path::root("steps").join("0")
}

/// A session that is not created yet.
pub(super) struct Draft {
    pub(super) created: SessionCreated,
    program: CliAgentKind,
    native: String,
    file: String,
    attachments: Digest,
    input: Text,
    input_digest: Digest,
}

impl Draft {
    pub(super) async fn new(
        adoption: &Adoption<'_>,
        about: &TranscriptInfo,
        attachments: Digest,
    ) -> Result<Self, Error> {
        let Adoption { env, request, .. } = adoption;
        let program = request.program;
        let prompt = about.prompt.as_deref().unwrap_or(CONTINUE_PROMPT);
        // P12: the task becomes a variable, and a later run must use the same text.
        let task = env.redactor.redact(prompt).into_owned();
        let text = text(program);
        let workflow = spec::parse(&text).expect("a generated spec is valid");
        let agent = &workflow.agents[program.as_str()];
        let words = [
            program.as_str(),
            &agent.provider.identity(),
            &agent.prompt,
            &task,
        ];
        let input_digest = steps::digest(words, &agent.tools, &[]);
        let (input, _) = journal::redact_and_store(env, &task).await?;
        let beside = about.path.parent().unwrap_or(&about.path);
        let folder = match (&request.folder, &about.folder) {
            (Some(folder), _) => workspace::path_text(folder)?,
            (None, Some(folder)) => folder.clone(),
            (None, None) => workspace::path_text(beside)?,
        };
        let title = task.lines().map(str::trim).find(|line| !line.is_empty());
        let (kept, _) = journal::redact_and_store(env, &text).await?;
        let created = SessionCreated {
            name: Name::sanitized(title.unwrap_or(program.as_str())),
            session_kind: Kind::Agent,
            workspace: folder.clone(),
            spec_path: String::new(),
            spec: kept,
            spec_digest: Digest::of(text.as_bytes()),
            variables: BTreeMap::from([(TASK.to_owned(), task.into())]),
            out: folder,
            force: false,
            commit: None,
        };
        Ok(Self {
            created,
            program,
            native: adoption.native.clone(),
            file: about.path.to_string_lossy().into_owned(),
            attachments,
            input,
            input_digest,
        })
    }

    /// The events that start the step and continue the conversation; `known` is the part of it that
    /// the session has.
    pub(super) fn opening(
        &self,
        attempt: u32,
        known: Option<&state::ImportedTranscript>,
    ) -> Vec<Event> {
        let (path, revision) = (step(), 0);
        let started = StepStarted {
            path: path.clone(),
            revision,
            attempt,
            agent: self.program.as_str().to_owned(),
            input: self.input.clone(),
            input_digest: self.input_digest,
            resume_context: None,
        };
        let opened = ConversationOpened {
            path,
            revision,
            attempt,
            program: self.program,
            native_id: self.native.clone(),
            folder: self.created.workspace.clone(),
            home: None,
            strategy: known.map(|_| Strategy::Native),
        };
        let nothing = (0, Digest::of(&[]));
        let (bytes, digest) = known.map_or(nothing, |known| (known.bytes, known.digest));
        vec![
            started.into(),
            opened.into(),
            self.mark(bytes, digest, Vec::new()),
        ]
    }

    /// The event that records how far the journal has the transcript.
    pub(super) fn mark(&self, bytes: u64, digest: Digest, notes: Vec<String>) -> Event {
        TranscriptImported {
            path: step(),
            revision: 0,
            program: self.program,
            native_id: self.native.clone(),
            file: self.file.clone(),
            bytes,
            digest,
            attachments: self.attachments,
            notes,
        }
        .into()
    }

    /// The events that pause the session.
    pub(super) fn ending(attempt: u32) -> Vec<Event> {
        let paused = StepPaused {
            path: step(),
            revision: 0,
            attempt,
        };
        let ended = RunEnded {
            status: Status::Paused,
            error: None,
        };
        vec![paused.into(), ended.into()]
    }
}

/// The spec of a session that continues a conversation of `program`.
fn text(program: CliAgentKind) -> String {
    format!(
        "# Made for a conversation that was adopted.\nversion: 0\nname: adopted\nruntime: {{provider: {program}}}\ninputs: {{required: {{{TASK}: string}}}}\nagents: {{{program}: {{prompt: \"\"}}}}\npattern: {{type: chain, config: {{steps: [{{agent: {program}, input: \"{{{{ {TASK} }}}}\"}}]}}}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_spec_of_every_cli_agent_is_valid() {
        for program in &[CliAgentKind::ClaudeCode, CliAgentKind::Codex] {
            let workflow = spec::parse(&text(*program)).unwrap();
            assert_eq!(workflow.agents.len(), 1);
            let provider = &workflow.agents[program.as_str()].provider;
            let asks = spec::Provider::Program {
                program: *program,
                model: None,
            };
            assert_eq!(*provider, asks);
        }
    }
}
