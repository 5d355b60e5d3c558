//! Everything that can happen in a session.
//!
//! The set is closed: a kind that is not listed here was written by a newer program, and reading
//! it is an error, never a guess. `docs/formats/journal.md` describes the stored form.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Run, Seq};
use crate::checkpoint::Trigger;
use crate::companion::{Gauge, Program};
use crate::digest::Digest;
use crate::id::{CheckpointId, Name, SessionId};
use crate::ladder::Rung;
use crate::memo::{MemoId, Source, Written};
use crate::session::{Kind, Status, words};
use crate::step::Path;
use crate::time::Timestamp;
use crate::usage::Usage;

/// Text that stands here, or in the blob store if it is long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Text {
    /// The text itself.
    Inline(String),
    /// Where it is kept.
    #[serde(rename_all = "snake_case")]
    Blob {
        /// The digest under which the blob store has it.
        blob: Digest,
        /// Its length.
        bytes: u64,
    },
}

impl Text {
    /// Longer text is kept as a blob. Measured: about 0.5 MB is where a file gets cheaper than a row.
    pub const INLINE_LIMIT: usize = 256 * 1024;
}

/// What to do about finished steps that an edited spec would ask differently.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnChange {
    /// Say which, keep their results and go on with the edited spec.
    #[default]
    Warn,
    /// Run them again.
    Rerun,
    /// Refuse to go on.
    Fail,
    /// Go on with the spec as it was when the session last ran.
    Pinned,
}

/// What to do about a step that was in flight when its run was lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InFlight {
    /// It may be asked a second time.
    #[default]
    Repeat,
    /// A person decides.
    Stop,
}

/// What a workflow may use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Steps.
    Steps,
    /// Tokens, in and out.
    Tokens,
    /// Time.
    Duration,
    /// Money.
    Cost,
}

impl Limit {
    /// The name that specs give it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Steps => "max_steps",
            Self::Tokens => "max_tokens",
            Self::Duration => "max_duration_s",
            Self::Cost => "max_cost_usd",
        }
    }

    /// So much of it, for people.
    pub fn amount(self, amount: u64) -> String {
        match self {
            Self::Steps | Self::Tokens => amount.to_string(),
            Self::Duration => crate::time::human(std::time::Duration::from_secs(amount)),
            Self::Cost => crate::usage::Cost(amount).to_string(),
        }
    }
}

/// When a stop takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopMode {
    /// When the step in flight is done.
    Boundary,
    /// At once; the agent is ended.
    Now,
}

/// Why something did not work, as it is kept and shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The sort of failure, for programs.
    pub kind: String,
    /// What happened, for people.
    pub message: String,
}

words! {
    /// How an exchange ended.
    Ending {
        /// The agent said what it had to say.
        EndTurn = "end_turn",
        /// The model had answered as often as it may within one exchange.
        MaxTurns = "max_turns",
        /// A person stopped it.
        Stopped = "stopped",
        /// It was broken off, and the person said something else instead of letting it go on.
        Left = "left",
    }
}

/// A limit that was run into, and when it is lifted: whoever set it said so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suspension {
    /// Whose limit it is.
    pub provider: String,
    /// Not to be asked again before this.
    pub until: Timestamp,
}

macro_rules! events {
    ($($(#[$doc:meta])* $variant:ident = $kind:literal {
        $($(#[$field_meta:meta])* $field:ident: $type:ty,)*
    })*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
            #[serde(deny_unknown_fields)]
            pub struct $variant { $($(#[$field_meta])* pub $field: $type,)* }

            impl From<$variant> for Event {
                fn from(event: $variant) -> Self {
                    Event::$variant(event)
                }
            }
        )*

        /// Something that happened.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Event { $($(#[$doc])* $variant($variant),)* }

        impl Event {
            /// Every kind there is.
            pub const KINDS: &[&str] = &[$($kind,)*];

            /// The word for its kind.
            pub fn kind(&self) -> &'static str {
                match self { $(Event::$variant(_) => $kind,)* }
            }

            /// Its fields as JSON.
            pub fn body(&self) -> String {
                let body = match self { $(Event::$variant(event) => serde_json::to_string(event),)* };
                body.expect("events have string keys and no fallible fields")
            }

            /// Reads an event back; `None` if this program does not know the kind.
            pub fn decode(kind: &str, body: &str) -> Option<serde_json::Result<Self>> {
                match kind {
                    $($kind => Some(serde_json::from_str(body).map(Event::$variant)),)*
                    _ => None,
                }
            }
        }
    };
}

events! {
    /// A person started something. Always the first.
    SessionCreated = "session_created" {
        /// What people call it.
        name: Name,
        /// What it does.
        session_kind: Kind,
        /// The folder it works in.
        workspace: String,
        /// Where its spec was read.
        spec_path: String,
        /// The spec, with secrets replaced.
        spec: Text,
        /// The digest of the file's own bytes.
        spec_digest: Digest,
        /// The variables it was started with, defaults included.
        variables: BTreeMap<String, serde_json::Value>,
        /// Where artifacts go.
        out: String,
        /// Whether artifacts may replace files that this session did not write.
        force: bool,
        /// The commit that the folder stood at; absent if it was no git repository, or had none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        commit: Option<String>,
    }
    /// The session is a copy of what another had done. Always the third, in the run that copies.
    SessionForked = "session_forked" {
        /// The other session.
        from: SessionId,
        /// What it was called.
        from_name: Name,
        /// The last entry of it that was looked at.
        seq: Seq,
        /// The step before which it was cut; absent if all of it was looked at.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<Path>,
        /// The checkpoint that it was made from, with the files of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checkpoint: Option<CheckpointId>,
        /// The folder that the other worked in; absent if the copy works in the same.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        workspace: Option<String>,
        /// The snapshot that has what agents' programs had of conversations that go on, under the names
        /// that these have in the copy; absent if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        papers: Option<Digest>,
    }
    /// The session works in another folder from here on. Stands between runs, under a number of its own:
    /// nobody runs a session while it is moved.
    SessionMoved = "session_moved" {
        /// The folder that it works in now.
        workspace: String,
        /// Where its spec is now; empty if it has no file.
        spec_path: String,
        /// Where artifacts go now.
        out: String,
    }
    /// The spec on disk had been edited, and this run goes on with the edited one.
    SpecChanged = "spec_changed" {
        /// The edited spec.
        spec: Text,
        /// Its digest.
        spec_digest: Digest,
        /// The steps it changes.
        steps: Vec<Path>,
        /// What was decided about those that had finished.
        policy: OnChange,
    }
    /// A run was granted the lease.
    RunStarted = "run_started" {
        /// The machine.
        host: String,
        /// The process.
        pid: u32,
        /// The program's version.
        version: String,
    }
    /// A step is about to be asked of its agent.
    StepStarted = "step_started" {
        /// The step.
        path: Path,
        /// How often its result was thrown away before.
        revision: u32,
        /// How often it was begun in this revision, this time included.
        attempt: u32,
        /// Who is asked.
        agent: String,
        /// What is asked.
        input: Text,
        /// The digest of everything the answer depends on.
        input_digest: Digest,
    }
    /// A step is done; it will not be run again.
    StepFinished = "step_finished" {
        /// The step.
        path: Path,
        /// Its revision.
        revision: u32,
        /// The attempt that succeeded.
        attempt: u32,
        /// The answer.
        output: Text,
        /// What it took.
        usage: Usage,
        /// How long it took.
        elapsed_ms: u64,
    }
    /// An attempt failed.
    StepFailed = "step_failed" {
        /// The step.
        path: Path,
        /// Its revision.
        revision: u32,
        /// The attempt.
        attempt: u32,
        /// Why.
        error: Failure,
        /// What it took nevertheless.
        usage: Usage,
        /// After how long it is tried again; absent if it is not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_in_ms: Option<u64>,
        /// The limit that is in the way, where it was told when that is lifted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        suspended: Option<Suspension>,
    }
    /// A step was in flight when its run was lost: whether it took effect is unknown (P6).
    StepUnknown = "step_unknown" {
        /// The step.
        path: Path,
        /// Its revision.
        revision: u32,
        /// The attempt.
        attempt: u32,
    }
    /// A finished step's result no longer counts, because its question changed.
    StepDiscarded = "step_discarded" {
        /// The step.
        path: Path,
        /// The revision that no longer counts.
        revision: u32,
    }
    /// A model answered in the middle of a step, and asks for tools. The conversation of a step is
    /// kept turn by turn, so that a crash costs at most the one call in flight.
    ModelReplied = "model_replied" {
        /// The step.
        path: Path,
        /// Its revision.
        revision: u32,
        /// The attempt.
        attempt: u32,
        /// Which answer of this step it is, from 1.
        turn: u32,
        /// What it said, as JSON: see [`crate::model::Part`].
        parts: Text,
        /// What it took.
        usage: Usage,
    }
    /// What was said first in a step was summed up, to make room for what comes.
    TalkShortened = "talk_shortened" {
        /// The step.
        path: Path,
        /// Its revision.
        revision: u32,
        /// The attempt.
        attempt: u32,
        /// After which answer of this step.
        turn: u32,
        /// How many messages it stands for.
        messages: u32,
        /// The sum of them.
        summary: Text,
        /// What it took.
        usage: Usage,
    }
    /// A tool is about to be run, whose effect must not be had twice unnoticed (P6).
    ToolStarted = "tool_started" {
        /// The step.
        path: Path,
        /// Its revision.
        revision: u32,
        /// The turn that asked for it.
        turn: u32,
        /// The call's own name.
        call: String,
        /// The tool.
        tool: String,
    }
    /// A tool answered.
    ToolFinished = "tool_finished" {
        /// The step.
        path: Path,
        /// Its revision.
        revision: u32,
        /// The turn that asked for it.
        turn: u32,
        /// The call's own name.
        call: String,
        /// The tool.
        tool: String,
        /// What it answered.
        output: Text,
        /// Whether it went wrong.
        is_error: bool,
    }
    /// An agent's program has a conversation of its own for a step: it began one, or goes on with one.
    AgentOpened = "agent_opened" {
        /// The step.
        path: Path,
        /// Its revision.
        revision: u32,
        /// The attempt.
        attempt: u32,
        /// The program.
        program: Program,
        /// The program's name for the conversation.
        native: String,
        /// The folder that it works in.
        folder: String,
        /// How it goes on; absent if it begins.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rung: Option<Rung>,
    }
    /// What was said in an agent's own conversation, as its program told it. A crash in the middle of a
    /// step loses nothing that stands here.
    AgentSaid = "agent_said" {
        /// The step.
        path: Path,
        /// Its revision.
        revision: u32,
        /// The attempt.
        attempt: u32,
        /// A list of [`crate::conversation::Entry`], as JSON.
        entries: Text,
        /// What it took.
        usage: Usage,
        /// How full the model's context is, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<Gauge>,
    }
    /// What a program's transcript says stands in this journal, up to some byte of it: the session was
    /// made of that transcript, or brought up to date with it.
    TranscriptAdopted = "transcript_adopted" {
        /// The step that the conversation belongs to.
        path: Path,
        /// Its revision.
        revision: u32,
        /// The program.
        program: Program,
        /// The program's name for the conversation.
        native: String,
        /// Where the transcript was.
        file: String,
        /// How many bytes of it were read.
        bytes: u64,
        /// The digest of these bytes.
        digest: Digest,
        /// The snapshot that has the file as it was, byte for byte.
        papers: Digest,
        /// What could not be read since the last entry of this kind, in words.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notes: Vec<String>,
    }
    /// A step was stopped between two turns; it goes on from there.
    StepPaused = "step_paused" {
        /// The step.
        path: Path,
        /// Its revision.
        revision: u32,
        /// The attempt.
        attempt: u32,
    }
    /// A person is to be asked. It stands here before it is shown, and is asked once (P6).
    QuestionAsked = "question_asked" {
        /// The step.
        path: Path,
        /// The question.
        prompt: String,
        /// What is shown with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<Text>,
        /// The answer if nobody gives one in time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        default: Option<String>,
        /// How long an answer is waited for; absent: for ever.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_s: Option<u64>,
        /// What an answer must look like: a regular expression.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        validation: Option<String>,
    }
    /// A person answered, or the time for it ran out. It stands here before it is used.
    QuestionAnswered = "question_answered" {
        /// The step.
        path: Path,
        /// The answer.
        answer: Text,
        /// Who gave it.
        by: String,
    }
    /// A limit comes near.
    LimitNeared = "limit_neared" {
        /// Which one.
        limit: Limit,
        /// How much of it is used up: steps, tokens, seconds or millionths of a dollar.
        used: u64,
        /// How much there is.
        of: u64,
    }
    /// A file was written for the person.
    ArtifactWritten = "artifact_written" {
        /// Where, as the spec names it.
        path: String,
        /// What is in it.
        digest: Digest,
        /// How long it is.
        bytes: u64,
    }
    /// How the workspace looked to git when a run let go of it, so that a later one notices what others
    /// did to it.
    WorkspaceSeen = "workspace_seen" {
        /// The branch; absent if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// The commit; absent before the first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        commit: Option<String>,
        /// How many files differ from the commit.
        changed: u64,
        /// The digest of their names.
        names: Digest,
    }
    /// Someone noted what whoever goes on must know. Stands in a run, or between runs under a number of
    /// its own.
    MemosWritten = "memos_written" {
        /// What sort of writer.
        source: Source,
        /// Who.
        by: String,
        /// The step that they are about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<Path>,
        /// What they say.
        memos: Vec<Written>,
        /// Up to which entry a model read what was said, if it was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        read_to: Option<Seq>,
        /// What it took to learn it.
        #[serde(default)]
        usage: Usage,
    }
    /// A memo no longer holds. Stands where memos do.
    MemoWithdrawn = "memo_withdrawn" {
        /// Its name.
        memo: MemoId,
        /// Who says so.
        by: String,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }
    /// A person edited what agents are told that know nothing of the work before. It counts until a run
    /// has ended. Stands between runs.
    BriefEdited = "brief_edited" {
        /// What they are told; empty if it is compiled as usual again.
        text: Text,
        /// Who.
        by: String,
    }
    /// The session is a chat.
    ChatOpened = "chat_opened" {
        /// Who is spoken to.
        agent: String,
        /// How often the model may answer within one exchange.
        max_turns: u32,
    }
    /// A message of the person is dealt with, and will not be asked again.
    ExchangeEnded = "exchange_ended" {
        /// The step of the message.
        path: Path,
        /// How.
        ending: Ending,
        /// How often the model answered.
        replies: u64,
        /// How many tools it asked for.
        tool_calls: u64,
        /// The model that answered, if it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    }
    /// What was said in a chat up to here is forgotten: no agent is told of it any more, and the
    /// conversation of an agent's program is not gone on with. It stays in the journal.
    ChatCleared = "chat_cleared" {
        /// Who wanted it.
        by: String,
    }
    /// Someone asked the run to stop.
    StopRequested = "stop_requested" {
        /// Who or what asked.
        by: String,
        /// When it takes effect.
        mode: StopMode,
        /// Where the session will then stand.
        status: Status,
        /// What a person said about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The checkpoint that is taken for it, whatever the spec says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checkpoint: Option<Trigger>,
    }
    /// A run was found lost: its owner is gone, and it said nothing more. Stands between runs.
    RunLost = "run_lost" {
        /// The run.
        lost: Run,
    }
    /// A run let go of the session.
    RunEnded = "run_ended" {
        /// Where the session stands now.
        status: Status,
        /// Why it does not go on, if it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Failure>,
    }
}

impl Event {
    /// The version of the set. A reader refuses newer ones.
    pub const VERSION: u16 = 1;

    /// The step it is about, and that step's revision.
    pub fn step(&self) -> Option<(&Path, u32)> {
        match self {
            Event::StepStarted(StepStarted { path, revision, .. })
            | Event::StepFinished(StepFinished { path, revision, .. })
            | Event::StepFailed(StepFailed { path, revision, .. })
            | Event::StepUnknown(StepUnknown { path, revision, .. })
            | Event::ModelReplied(ModelReplied { path, revision, .. })
            | Event::TalkShortened(TalkShortened { path, revision, .. })
            | Event::ToolStarted(ToolStarted { path, revision, .. })
            | Event::ToolFinished(ToolFinished { path, revision, .. })
            | Event::AgentOpened(AgentOpened { path, revision, .. })
            | Event::AgentSaid(AgentSaid { path, revision, .. })
            | Event::TranscriptAdopted(TranscriptAdopted { path, revision, .. })
            | Event::StepPaused(StepPaused { path, revision, .. })
            | Event::StepDiscarded(StepDiscarded { path, revision, .. }) => Some((path, *revision)),
            Event::QuestionAsked(QuestionAsked { path, .. })
            | Event::QuestionAnswered(QuestionAnswered { path, .. })
            | Event::ExchangeEnded(ExchangeEnded { path, .. }) => Some((path, 0)),
            _ => None,
        }
    }

    /// The long text in it, which may stand in the blob store.
    pub fn text(&self) -> Option<&Text> {
        match self {
            Event::SessionCreated(event) => Some(&event.spec),
            Event::SpecChanged(event) => Some(&event.spec),
            Event::StepStarted(event) => Some(&event.input),
            Event::StepFinished(event) => Some(&event.output),
            Event::ModelReplied(event) => Some(&event.parts),
            Event::TalkShortened(event) => Some(&event.summary),
            Event::ToolFinished(event) => Some(&event.output),
            Event::AgentSaid(event) => Some(&event.entries),
            Event::QuestionAsked(event) => event.context.as_ref(),
            Event::QuestionAnswered(event) => Some(&event.answer),
            Event::BriefEdited(event) => Some(&event.text),
            _ => None,
        }
    }
}
