//! All events of a session.
//!
//! The set is closed: a newer program wrote any kind that is not listed here, and reading it is an
//! error, never a guess. `docs/formats/journal.md` describes the stored form.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Run, Seq};
use crate::agent::RefusalReason;
use crate::agent_state::Key;
use crate::checkpoint::Trigger;
use crate::cli_agent::CliAgentKind;
use crate::digest::Digest;
use crate::id::{CheckpointId, Name, RequestId, SessionId};
use crate::note::{NoteId, Source, WrittenNote};
use crate::resume::Strategy;
use crate::session::{Kind, PatternKind, Status};
use crate::step::Path;
use crate::time::Timestamp;
use crate::usage::{ContextUsage, RunReport, Usage};
use crate::words::words;

/// Text that is stored inline, or in the blob store if it is long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Text {
    Inline(String),
    /// A reference to the blob store.
    #[serde(rename_all = "snake_case")]
    Blob {
        blob: Digest,
        bytes: u64,
    },
}

impl Text {
    /// Longer text is stored as a blob. Measured: from about 0.5 MB on, a file is cheaper than a row.
    pub const INLINE_LIMIT: usize = 256 * 1024;
}

/// What to do with finished steps whose input an edited spec would change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnChange {
    /// Report them, keep their results and continue with the edited spec.
    #[default]
    Warn,
    /// Run them again.
    Rerun,
    /// Refuse to resume.
    Fail,
    /// Continue with the spec as it was when the session last ran.
    Pinned,
}

/// What to do with a step that was in flight when its run was lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InFlight {
    /// The step may be executed a second time.
    #[default]
    Repeat,
    /// A user decides.
    Stop,
    /// The user at the terminal is asked; without one, the same as [`InFlight::Stop`].
    Ask,
}

/// The resource that a workflow limit restricts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    Steps,
    /// Input plus output tokens.
    Tokens,
    Duration,
    Cost,
}

impl Limit {
    /// The limit's name in specs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Steps => "max_steps",
            Self::Tokens => "max_tokens",
            Self::Duration => "max_duration_s",
            Self::Cost => "max_cost_usd",
        }
    }

    /// Formats an amount of this resource for users.
    pub fn amount(self, amount: u64) -> String {
        match self {
            Self::Steps | Self::Tokens => amount.to_string(),
            Self::Duration => crate::time::format_duration(std::time::Duration::from_secs(amount)),
            Self::Cost => crate::usage::Cost(amount).to_string(),
        }
    }
}

/// How a requested run resumes its session: what `segno resume` takes as options. Absent fields mean
/// what they mean there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunOptions {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_change: Option<OnChange>,
    /// Whether the edited spec may start what the recorded one does not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub yes: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<InFlight>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_drift: Option<OnDrift>,
    /// Who continues the unfinished steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The best resume strategy that is allowed.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "strategy_word"
    )]
    pub strategy: Option<Strategy>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub take_over: bool,
    /// A message to the agent; the next message of a chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_limit: Option<OnLimit>,
}

/// A strategy by the word that people use, not by that of older events.
mod strategy_word {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::resume::Strategy;

    #[expect(
        clippy::ref_option,
        clippy::trivially_copy_pass_by_ref,
        reason = "the signature that serde asks for"
    )]
    pub(super) fn serialize<S: Serializer>(
        strategy: &Option<Strategy>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        strategy.map(Strategy::as_str).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Strategy>, D::Error> {
        let word = Option::<String>::deserialize(deserializer)?;
        let parse = |word: String| {
            let parsed = word.parse();
            parsed.map_err(|_| serde::de::Error::custom(format!("unknown strategy `{word}`")))
        };
        word.map(parse).transpose()
    }
}

/// What a resume does if others changed the workspace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDrift {
    /// Tell the user and the agent, and resume.
    #[default]
    Warn,
    /// Refuse to resume.
    Refuse,
    /// Resume without a word.
    Accept,
}

/// What a resume does about rate limits whose end the provider announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLimit {
    /// As the spec says, but without waiting for the rest of an earlier run's wait.
    RetryNow,
    /// Wait, whatever the spec says.
    Wait,
    /// Pause, whatever the spec says.
    Pause,
}

/// When a stop takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopMode {
    /// When the step in flight is done.
    Boundary,
    /// Immediately; the agent is killed.
    Now,
}

/// What a run is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunPurpose {
    /// It starts or resumes the session: it has a session number.
    #[default]
    Work,
    /// It only records something: the copy of a fork, a transcript that grew, a cancelled session.
    Bookkeeping,
}

impl RunPurpose {
    /// Whether the run starts or resumes the session.
    pub fn is_work(&self) -> bool {
        *self == Self::Work
    }
}

/// Why an operation failed, as stored and shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The failure's class, for programs.
    pub kind: String,
    /// What happened, for users.
    pub message: String,
}

words! {
    /// What a user says that became of an attempt whose outcome was unknown.
    StepOutcome {
        /// It took effect; its result is known.
        Done = "done",
        /// It did not take effect, or failed.
        Failed = "failed",
    }
}

words! {
    /// How an exchange ended.
    Ending {
        /// The agent finished its turn.
        EndTurn = "end_turn",
        /// The model reached the limit of answers per exchange.
        MaxTurns = "max_turns",
        /// A user stopped it.
        Stopped = "stopped",
        /// The exchange was interrupted, and the user sent another message instead of continuing it.
        #[serde(rename = "left")]
        Abandoned = "left",
    }
}

/// A provider's limit that was reached, and when the provider lifts it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suspension {
    pub provider: String,
    /// Do not call the provider before this time.
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

        /// An event of a session.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Event { $($(#[$doc])* $variant($variant),)* }

        impl Event {
            /// Every kind of event.
            pub const KINDS: &[&str] = &[$($kind,)*];

            /// The name of the event's kind.
            pub fn kind(&self) -> &'static str {
                match self { $(Event::$variant(_) => $kind,)* }
            }

            /// The event's fields as JSON.
            pub fn body(&self) -> String {
                let body = match self { $(Event::$variant(event) => serde_json::to_string(event),)* };
                body.expect("events have string keys and no fallible fields")
            }

            /// Parses a stored event; `None` if this program does not know the kind.
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
    /// A user started a session. Always the first event.
    SessionCreated = "session_created" {
        name: Name,
        session_kind: Kind,
        workspace: String,
        /// The file that the spec was read from.
        spec_path: String,
        /// The spec, with secrets replaced.
        spec: Text,
        /// The digest of the file's original bytes.
        spec_digest: Digest,
        /// The variables that the session was started with, defaults included.
        variables: BTreeMap<String, serde_json::Value>,
        /// The output folder of artifacts.
        out: String,
        /// Whether artifacts may replace files that this session did not write.
        force: bool,
        /// The workspace's commit; absent without a git repository or a commit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        commit: Option<String>,
        /// The pattern of the spec; absent for chats and imported conversations.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pattern: Option<PatternKind>,
    }
    /// The session is a fork: a copy of another session's finished work. Always the third event, in the
    /// run that copies.
    SessionForked = "session_forked" {
        /// The source session.
        from: SessionId,
        from_name: Name,
        /// The last event of the source session that was read.
        seq: Seq,
        /// The step before which the copy was cut; absent if all of the source was read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<Path>,
        /// The checkpoint that the fork was made from, including its files.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checkpoint: Option<CheckpointId>,
        /// The source session's workspace; absent if the fork works in the same one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        workspace: Option<String>,
        /// The snapshot with the CLI agents' transcripts of conversations that continue in the fork,
        /// under the names that these have there; absent if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[serde(rename = "papers")]
        attachments: Option<Digest>,
    }
    /// The session moved to another workspace. Written between runs, under a run number of its own: no
    /// run holds the session while it is moved.
    SessionMoved = "session_moved" {
        /// The new workspace.
        workspace: String,
        /// The new path of the spec; empty if the session has no spec file.
        spec_path: String,
        /// The new output folder of artifacts.
        out: String,
    }
    /// The spec on disk was edited, and this run continues with the edited spec.
    SpecChanged = "spec_changed" {
        spec: Text,
        spec_digest: Digest,
        /// The steps that the edit changes.
        steps: Vec<Path>,
        /// What was decided about changed steps that had finished.
        policy: OnChange,
        /// The pattern of the edited spec, if it is not the recorded one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pattern: Option<PatternKind>,
    }
    /// A run acquired the lease.
    RunStarted = "run_started" {
        host: String,
        pid: u32,
        /// Segno's version.
        version: String,
        #[serde(default, skip_serializing_if = "RunPurpose::is_work")]
        purpose: RunPurpose,
    }
    /// A step is about to be sent to its agent.
    StepStarted = "step_started" {
        path: Path,
        /// How many times the step's result was discarded before.
        revision: u32,
        /// How many times the step was started in this revision, this start included.
        attempt: u32,
        agent: String,
        input: Text,
        /// The digest of everything that the answer depends on.
        input_digest: Digest,
        /// The resume context that the agent gets in addition, from this attempt on: the text as it
        /// was sent. Not part of the input or its digest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resume_context: Option<String>,
    }
    /// A step is finished; it will not be run again.
    StepFinished = "step_finished" {
        path: Path,
        revision: u32,
        /// The attempt that succeeded.
        attempt: u32,
        output: Text,
        usage: Usage,
        elapsed_ms: u64,
        /// How full the context window of an API model is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<ContextUsage>,
    }
    /// An attempt failed.
    StepFailed = "step_failed" {
        path: Path,
        revision: u32,
        attempt: u32,
        error: Failure,
        /// The usage of the failed attempt.
        usage: Usage,
        /// The delay until the next attempt; absent if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_in_ms: Option<u64>,
        /// The limit that was reached, if the provider said when it is lifted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        suspended: Option<Suspension>,
    }
    /// A step was in flight when its run was lost: whether it took effect is unknown (P6).
    StepUnknown = "step_unknown" {
        path: Path,
        revision: u32,
        attempt: u32,
    }
    /// A user said what became of an attempt whose outcome was unknown. The next run takes this as the
    /// end of that attempt. Written at the start of a run or between runs.
    StepResolved = "step_resolved" {
        path: Path,
        revision: u32,
        attempt: u32,
        outcome: StepOutcome,
        /// The result; or, if it failed, what went wrong.
        text: Text,
        by: String,
    }
    /// A step's result, its unfinished work, or the question that it asks a user no longer counts,
    /// because what the step asks was changed.
    StepDiscarded = "step_discarded" {
        path: Path,
        /// The discarded revision.
        revision: u32,
    }
    /// A model answered within a step and requests tools. The journal stores a step's conversation turn
    /// by turn, so that a crash loses at most the one call in flight.
    ModelReplied = "model_replied" {
        path: Path,
        revision: u32,
        attempt: u32,
        /// The number of this answer within the step, from 1.
        turn: u32,
        /// The answer's parts as JSON: see [`crate::model::Part`].
        parts: Text,
        usage: Usage,
        /// The size of the model's context window in tokens, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<u64>,
    }
    /// The first messages of a step's conversation were summarized, to free space in the context window.
    ConversationCompacted = "talk_shortened" {
        path: Path,
        revision: u32,
        attempt: u32,
        /// The answer of this step after which it happened.
        turn: u32,
        /// How many messages the summary replaces.
        messages: u32,
        summary: Text,
        /// The usage of the summarization.
        usage: Usage,
    }
    /// A tool is about to be executed whose effect must not happen twice unnoticed (P6).
    ToolStarted = "tool_started" {
        path: Path,
        revision: u32,
        /// The turn that requested the tool.
        turn: u32,
        /// The id of the tool call.
        call: String,
        tool: String,
    }
    /// A tool returned.
    ToolFinished = "tool_finished" {
        path: Path,
        revision: u32,
        /// The turn that requested the tool.
        turn: u32,
        /// The id of the tool call.
        call: String,
        tool: String,
        output: Text,
        is_error: bool,
    }
    /// A CLI agent has a conversation of its own for a step: it started or resumed one.
    ConversationOpened = "agent_opened" {
        path: Path,
        revision: u32,
        attempt: u32,
        program: CliAgentKind,
        /// The CLI agent's own id of the conversation.
        #[serde(rename = "native")]
        native_id: String,
        /// The CLI agent's working directory.
        folder: String,
        /// The folder in which the CLI agent keeps its transcripts, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        home: Option<String>,
        /// The resume strategy; absent if the conversation is new.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[serde(rename = "rung")]
        strategy: Option<Strategy>,
    }
    /// Messages of a CLI agent's own conversation, as the agent reported them. A crash in the middle of
    /// a step loses nothing that is recorded here.
    AgentMessages = "agent_said" {
        path: Path,
        revision: u32,
        attempt: u32,
        /// A list of [`crate::conversation::ConversationItem`], as JSON.
        #[serde(rename = "entries")]
        items: Text,
        usage: Usage,
        /// How full the model's context window is, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<ContextUsage>,
        /// What the agent's program reports at the end of a run. An empty report says that the usage
        /// of an interrupted run is complete now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        report: Option<RunReport>,
    }
    /// An agent was refused a tool.
    ToolRefused = "tool_refused" {
        path: Path,
        revision: u32,
        attempt: u32,
        /// The tool's name, as the agent calls it.
        tool: String,
        reason: RefusalReason,
        /// The CLI agent that was refused it; absent for an API model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        program: Option<CliAgentKind>,
    }
    /// This journal contains a CLI agent's transcript up to some byte: the session was imported from
    /// that transcript, or updated from it.
    TranscriptImported = "transcript_adopted" {
        /// The step that the conversation belongs to.
        path: Path,
        revision: u32,
        program: CliAgentKind,
        /// The CLI agent's own id of the conversation.
        #[serde(rename = "native")]
        native_id: String,
        /// The path of the transcript.
        file: String,
        /// How many bytes of it were read.
        bytes: u64,
        /// The digest of these bytes.
        digest: Digest,
        /// The snapshot that contains the file byte for byte.
        #[serde(rename = "papers")]
        attachments: Digest,
        /// What could not be parsed since the last event of this kind, as text.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notes: Vec<String>,
    }
    /// A step was stopped between two turns; it resumes from there.
    StepPaused = "step_paused" {
        path: Path,
        revision: u32,
        attempt: u32,
    }
    /// A question to the user. It is journaled before it is shown, and is asked once (P6).
    QuestionAsked = "question_asked" {
        path: Path,
        prompt: String,
        /// What is shown with the question.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<Text>,
        /// The answer if the user gives none in time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        default: Option<String>,
        /// How long to wait for an answer; absent: forever.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_s: Option<u64>,
        /// The pattern that an answer must match: a regular expression.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        validation: Option<String>,
    }
    /// A user answered, or the timeout passed. The answer is journaled before it is used.
    QuestionAnswered = "question_answered" {
        path: Path,
        answer: Text,
        by: String,
    }
    /// A limit is nearly reached.
    LimitNeared = "limit_neared" {
        limit: Limit,
        /// The amount used: steps, tokens, seconds or millionths of a dollar.
        used: u64,
        /// The limit, in the same unit.
        of: u64,
    }
    /// A file was written for the user.
    ArtifactWritten = "artifact_written" {
        /// The path as the spec names it.
        path: String,
        digest: Digest,
        bytes: u64,
    }
    /// The git status of the workspace, so that a later run notices changes that others made. Recorded
    /// where it changed: at the start of a run, when a step finished that may have changed files, and
    /// when a run released the session.
    WorkspaceStatusRecorded = "workspace_seen" {
        /// The branch; absent if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// The commit; absent before the first commit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        commit: Option<String>,
        /// How many files differ from the commit.
        changed: u64,
        /// The digest of the changed files' names.
        names: Digest,
    }
    /// Notes for the next run. Written during a run, or between runs under a run number of its own.
    NotesWritten = "memos_written" {
        /// The kind of author.
        source: Source,
        by: String,
        /// The step that the notes are about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<Path>,
        #[serde(rename = "memos")]
        notes: Vec<WrittenNote>,
        /// The last event that the model read to extract these notes, if a model wrote them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        read_to: Option<Seq>,
        /// The usage of extracting the notes.
        #[serde(default)]
        usage: Usage,
    }
    /// A note no longer applies. Written during a run or between runs, like notes.
    NoteWithdrawn = "memo_withdrawn" {
        #[serde(rename = "memo")]
        note: NoteId,
        by: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }
    /// A user edited the resume context for new agents. The edit applies until a run has ended. Written
    /// between runs.
    ResumeContextEdited = "brief_edited" {
        /// The resume context; empty if Segno compiles it as usual again.
        text: Text,
        by: String,
    }
    /// A value of an agent's state was set or deleted. Written during a run or between runs, like notes.
    AgentStateChanged = "agent_state_changed" {
        agent: String,
        key: Key,
        /// The new value; absent if the key was deleted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<serde_json::Value>,
        /// The kind of author.
        source: Source,
        by: String,
        /// The step in which it was changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<Path>,
        /// The inbox message that asked for it, if one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<RequestId>,
    }
    /// The session is a chat.
    ChatOpened = "chat_opened" {
        agent: String,
        /// How many times the model may answer within one exchange.
        max_turns: u32,
    }
    /// A user message was handled and will not be sent again.
    ExchangeEnded = "exchange_ended" {
        /// The step of the message.
        path: Path,
        ending: Ending,
        /// How many times the model answered.
        replies: u64,
        /// How many tools the model requested.
        tool_calls: u64,
        /// The model that answered, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    }
    /// The chat was cleared: later agents see none of the earlier messages, and no CLI agent's
    /// conversation from before is resumed. The messages stay in the journal.
    ChatCleared = "chat_cleared" {
        by: String,
    }
    /// A user or program asked the run to stop.
    StopRequested = "stop_requested" {
        /// The user or program that asked.
        by: String,
        mode: StopMode,
        /// The session's status after the stop.
        status: Status,
        /// The reason that a user gave.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The checkpoint to take for the stop, whatever the spec says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checkpoint: Option<Trigger>,
    }
    /// A worker is to run the session. Written between runs, under a run number of its own. The session is
    /// pending until its next run starts.
    RunRequested = "run_requested" {
        /// The user or program that asked.
        by: String,
        #[serde(default)]
        options: RunOptions,
        /// Why a worker asked by itself; absent if a user did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        evidence: Option<String>,
    }
    /// The requested run does not take place. Written between runs.
    RunWithdrawn = "run_withdrawn" {
        by: String,
        /// Why it could not start; absent if someone withdrew it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Failure>,
    }
    /// A run was found lost: its owner process is gone and wrote no final event. Written between runs.
    RunLost = "run_lost" {
        lost: Run,
    }
    /// A run released the session.
    RunEnded = "run_ended" {
        /// The session's status after the run.
        status: Status,
        /// Why the run does not continue, if it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Failure>,
        /// The result of the workflow, if it completed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Text>,
    }
}

impl Event {
    /// The version of the event set. A reader refuses newer versions.
    pub const VERSION: u16 = 1;

    /// The event's step and that step's revision.
    pub fn step(&self) -> Option<(&Path, u32)> {
        match self {
            Event::StepStarted(StepStarted { path, revision, .. })
            | Event::StepFinished(StepFinished { path, revision, .. })
            | Event::StepFailed(StepFailed { path, revision, .. })
            | Event::StepUnknown(StepUnknown { path, revision, .. })
            | Event::StepResolved(StepResolved { path, revision, .. })
            | Event::ModelReplied(ModelReplied { path, revision, .. })
            | Event::ConversationCompacted(ConversationCompacted { path, revision, .. })
            | Event::ToolStarted(ToolStarted { path, revision, .. })
            | Event::ToolFinished(ToolFinished { path, revision, .. })
            | Event::ConversationOpened(ConversationOpened { path, revision, .. })
            | Event::AgentMessages(AgentMessages { path, revision, .. })
            | Event::ToolRefused(ToolRefused { path, revision, .. })
            | Event::TranscriptImported(TranscriptImported { path, revision, .. })
            | Event::StepPaused(StepPaused { path, revision, .. })
            | Event::StepDiscarded(StepDiscarded { path, revision, .. }) => Some((path, *revision)),
            Event::QuestionAsked(QuestionAsked { path, .. })
            | Event::QuestionAnswered(QuestionAnswered { path, .. })
            | Event::ExchangeEnded(ExchangeEnded { path, .. }) => Some((path, 0)),
            _ => None,
        }
    }

    /// The event's long text, which may be in the blob store.
    pub fn text(&self) -> Option<&Text> {
        match self {
            Event::SessionCreated(event) => Some(&event.spec),
            Event::SpecChanged(event) => Some(&event.spec),
            Event::StepStarted(event) => Some(&event.input),
            Event::StepFinished(event) => Some(&event.output),
            Event::StepResolved(event) => Some(&event.text),
            Event::ModelReplied(event) => Some(&event.parts),
            Event::ConversationCompacted(event) => Some(&event.summary),
            Event::ToolFinished(event) => Some(&event.output),
            Event::AgentMessages(event) => Some(&event.items),
            Event::QuestionAsked(event) => event.context.as_ref(),
            Event::QuestionAnswered(event) => Some(&event.answer),
            Event::ResumeContextEdited(event) => Some(&event.text),
            Event::RunEnded(event) => event.output.as_ref(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const DIGEST: &str = "d04b98f48e8f8bcc15c6ae5ac050801cd6dcfd428fb5f9e65c4e16e7807340fa";

    /// Decodes an event of `steps/0` in revision 3, as far as its kind has these fields.
    fn event(kind: &str, fields: Value) -> Event {
        let mut body = json!({"path": "steps/0"});
        let Value::Object(fields) = fields else {
            panic!("{fields}");
        };
        for (name, value) in fields {
            body[name] = value;
        }
        let decoded = Event::decode(kind, &body.to_string()).unwrap();
        decoded.unwrap_or_else(|error| panic!("{kind}: {error}"))
    }

    /// The index of records by step, and the redaction and storage of long text, rest on these two.
    #[test]
    fn steps_and_texts_of_events_are_found() {
        let attempt = |mut fields: Value| {
            fields["revision"] = json!(3);
            fields["attempt"] = json!(1);
            fields
        };
        let turn = |mut fields: Value| {
            fields["revision"] = json!(3);
            fields["turn"] = json!(1);
            fields["call"] = json!("c");
            fields["tool"] = json!("t");
            fields
        };
        let failure = json!({"kind": "server", "message": "no"});
        let started = json!({"agent": "a", "input": "long", "input_digest": DIGEST});
        let finished = json!({"output": "long", "usage": {}, "elapsed_ms": 5});
        let resolved = json!({"outcome": "done", "text": "long", "by": "me"});
        let replied = json!({"turn": 1, "parts": "long", "usage": {}});
        let shortened = json!({"turn": 1, "messages": 2, "summary": "long", "usage": {}});
        let opened = json!({"program": "codex", "native": "n", "folder": "/a"});
        let ended = json!({"ending": "end_turn", "replies": 1, "tool_calls": 0});
        for (kind, fields, revision, has_text) in [
            ("step_started", attempt(started), 3, true),
            ("step_finished", attempt(finished), 3, true),
            (
                "step_failed",
                attempt(json!({"error": failure, "usage": {}})),
                3,
                false,
            ),
            ("step_unknown", attempt(json!({})), 3, false),
            ("step_resolved", attempt(resolved), 3, true),
            ("step_discarded", json!({"revision": 3}), 3, false),
            ("step_paused", attempt(json!({})), 3, false),
            ("model_replied", attempt(replied), 3, true),
            ("talk_shortened", attempt(shortened), 3, true),
            ("tool_started", turn(json!({})), 3, false),
            (
                "tool_finished",
                turn(json!({"output": "long", "is_error": false})),
                3,
                true,
            ),
            ("agent_opened", attempt(opened), 3, false),
            (
                "agent_said",
                attempt(json!({"entries": "long", "usage": {}})),
                3,
                true,
            ),
            (
                "tool_refused",
                attempt(json!({"tool": "Write", "reason": "permissions"})),
                3,
                false,
            ),
            ("question_asked", json!({"prompt": "?"}), 0, false),
            (
                "question_asked",
                json!({"prompt": "?", "context": "long"}),
                0,
                true,
            ),
            (
                "question_answered",
                json!({"answer": "long", "by": "me"}),
                0,
                true,
            ),
            ("exchange_ended", ended, 0, false),
        ] {
            let event = event(kind, fields);
            let step = event
                .step()
                .map(|(path, revision)| (path.as_str(), revision));
            assert_eq!(step, Some(("steps/0", revision)), "{kind}");
            let text = has_text.then(|| Text::Inline("long".into()));
            assert_eq!(event.text(), text.as_ref(), "{kind}");
        }
    }

    #[test]
    fn imported_transcript_belongs_to_a_step() {
        let imported = TranscriptImported {
            path: Path::new("steps/0").unwrap(),
            revision: 3,
            program: CliAgentKind::Codex,
            native_id: "n".into(),
            file: "/f".into(),
            bytes: 1,
            digest: Digest::of(b"f"),
            attachments: Digest::of(b"a"),
            notes: Vec::new(),
        };
        let event = Event::from(imported);
        let step = event
            .step()
            .map(|(path, revision)| (path.as_str(), revision));
        assert_eq!((step, event.text()), (Some(("steps/0", 3)), None));
    }

    #[test]
    fn texts_of_events_without_a_step_are_found() {
        let created = json!({"name": "one", "session_kind": "workflow", "workspace": "/a",
                             "spec_path": "/a/s.yaml", "spec": "long", "spec_digest": DIGEST,
                             "variables": {}, "out": "/a/out", "force": false});
        let changed = json!({"spec": "long", "spec_digest": DIGEST, "steps": [], "policy": "warn"});
        let edited = json!({"text": "long", "by": "me"});
        let text = Text::Inline("long".into());
        for (kind, body, expected) in [
            ("session_created", created, Some(&text)),
            ("spec_changed", changed, Some(&text)),
            ("brief_edited", edited, Some(&text)),
            ("run_ended", json!({"status": "paused"}), None),
        ] {
            let event = Event::decode(kind, &body.to_string()).unwrap().unwrap();
            assert_eq!((event.step(), event.text()), (None, expected), "{kind}");
        }
    }

    #[test]
    fn limits_are_named_and_formatted() {
        let shown = |limit: Limit, amount| (limit.name(), limit.amount(amount));
        assert_eq!(shown(Limit::Steps, 7), ("max_steps", "7".into()));
        assert_eq!(shown(Limit::Tokens, 1200), ("max_tokens", "1200".into()));
        assert_eq!(
            shown(Limit::Duration, 90),
            ("max_duration_s", "1 min 30 s".into())
        );
        assert_eq!(
            shown(Limit::Cost, 420_000),
            ("max_cost_usd", "$0.42".into())
        );
    }
}
