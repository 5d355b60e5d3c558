//! The errors of the engine's use cases: one variant per cause, with the data that its message and
//! hint need.
//!
//! `diagnosis` maps variants to kinds and codes, `hint` to what the user can do.

pub mod chat;
mod diagnosis;
mod hint;
mod relation;

use std::path::PathBuf;
use std::time::Duration;

use segno_core::digest::Digest;
use segno_core::id::{CheckpointId, Name, SessionId};
use segno_core::lease::Owner;
use segno_core::note::NoteId;
use segno_core::session::Status;
use segno_core::step::Path;
use segno_core::time::Timestamp;
use segno_core::{agent, bundle, remote, snapshot, store, worktree};
use segno_spec as spec;
use segno_spec::template;

pub use relation::Relation;

/// Why a use case failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] store::Error),
    /// Files could not be stored or restored.
    #[error(transparent)]
    Snapshot(#[from] snapshot::Error),
    /// A git operation failed.
    #[error(transparent)]
    Worktree(#[from] worktree::Error),
    /// A plan is inconsistent; no task was started.
    #[error("{place} is not a valid plan: {}", join_shown(.problems.iter()))]
    InvalidPlan {
        /// The file or source of the plan, for the message.
        place: String,
        problems: Vec<segno_spec::checklist::Problem>,
    },
    /// The remote failed.
    #[error(transparent)]
    Remote(#[from] remote::Error),
    /// A chat message was rejected.
    #[error(transparent)]
    Chat(#[from] chat::Error),
    /// No remote is configured.
    #[error("no remote is configured for checkpoints")]
    NoRemote,
    #[error("remote {place} has no checkpoint or session `{reference}`")]
    NotInRemote {
        /// The URL of the remote.
        place: String,
        reference: String,
    },
    #[error("no checkpoint matches `{reference}`")]
    NoSuchCheckpoint { reference: String },
    #[error("`{reference}` matches several checkpoints: {}", join_shown(.candidates.iter()))]
    AmbiguousCheckpoint {
        reference: String,
        candidates: Vec<CheckpointId>,
    },
    /// The checkpoint was imported or pulled. Its recorded workspace is not trusted as the restore
    /// target.
    #[error("checkpoint {checkpoint} comes from {origin}; choose the folder to restore it into")]
    UntrustedTarget {
        checkpoint: CheckpointId,
        origin: String,
        /// The folder that the checkpoint records.
        workspace: String,
    },
    #[error("session `{name}` ({session}) is running; its files cannot be replaced")]
    RestoreWhileRunning { session: SessionId, name: Name },
    /// A folder is not an exported checkpoint, or was changed since the export.
    #[error("{} cannot be imported: {reason}", .place.display())]
    InvalidCheckpointFolder { place: PathBuf, reason: String },
    #[error("{} cannot be written: {reason}", .place.display())]
    WriteFailed {
        /// The folder, or a file in it.
        place: PathBuf,
        reason: String,
    },
    #[error("{} {}", .path.display(), spec_fault(problems))]
    Spec {
        path: PathBuf,
        #[source]
        problems: spec::Problems,
    },
    #[error("{} cannot run: its inputs are not valid", .path.display())]
    Variables {
        path: PathBuf,
        #[source]
        problems: spec::binding::Error,
    },
    #[error("{} cannot be read: {reason}", .path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error("{place}: {error}")]
    Template {
        /// Which template: an agent's prompt, an artifact, and so on.
        place: String,
        error: template::Error,
    },
    #[error("no session matches `{reference}`")]
    NoSuchSession { reference: String },
    #[error("`{reference}` matches several sessions: {}", join_shown(.candidates.iter().map(|(id, name)| format!("{name} ({id})"))))]
    Ambiguous {
        reference: String,
        candidates: Vec<(SessionId, Name)>,
    },
    #[error("no session in {} can be resumed", .workspace.display())]
    NothingToResume { workspace: PathBuf },
    #[error("no session is running in {}", .workspace.display())]
    NoRunningSession { workspace: PathBuf },
    #[error("session `{name}` is not running; it is {status}")]
    NotRunning { name: Name, status: Status },
    #[error("no session was started in {}", .workspace.display())]
    NoSessionInFolder { workspace: PathBuf },
    /// Another run holds the lease.
    #[error("session `{name}` ({session}) is running in process {} on {} since {since}; its lease ends at {until} unless renewed", .owner.pid, .owner.host)]
    LeaseHeld {
        session: SessionId,
        name: Name,
        owner: Box<Owner>,
        since: Timestamp,
        until: Timestamp,
    },
    /// The session has a final status and cannot be resumed.
    #[error("session `{name}` ({session}) is {status}; fork it to continue from it")]
    SessionEnded {
        session: SessionId,
        name: Name,
        status: Status,
    },
    #[error("session `{name}` ({session}) is running and cannot be deleted")]
    DeleteWhileRunning { session: SessionId, name: Name },
    #[error("session `{name}` ({session}) is in the trash")]
    InTrash { session: SessionId, name: Name },
    #[error("no session in the trash matches `{reference}`")]
    NotInTrash { reference: String },
    #[error("session `{name}` has no step `{step}`{}", did_you_mean(.near))]
    NoSuchStep {
        name: Name,
        step: String,
        /// Existing steps with similar names.
        near: Vec<String>,
    },
    #[error("{place} cannot be imported: {error}")]
    InvalidSessionFile { place: String, error: bundle::Error },
    #[error("session `{name}` cannot be exported: {error}")]
    ExportFailed { name: Name, error: bundle::Error },
    /// An import found a session with the same id.
    #[error("session `{name}` ({session}) {}", relation_text(*.relation, *.here, *.there))]
    SessionExists {
        session: SessionId,
        name: Name,
        relation: Relation,
        /// How many events the local journal has.
        here: u64,
        /// How many events the imported journal has.
        there: u64,
    },
    /// A step failed and its retries are exhausted, or the error is not transient.
    #[error("step {path} (agent `{agent}`) failed after {attempts} attempt{}: {error}", plural(*.attempts))]
    Step {
        name: Name,
        path: Path,
        agent: String,
        /// Attempts of this run.
        attempts: u32,
        error: Box<agent::Error>,
    },
    #[error("provider `{provider}` needs an API key, but `{variable}` is not set")]
    NoKey {
        provider: &'static str,
        /// The environment variable that should have the key.
        variable: &'static str,
    },
    /// The HTTP client for a provider cannot be built.
    #[error("provider `{provider}` cannot be used on this machine: {reason}")]
    ClientUnavailable {
        provider: &'static str,
        reason: String,
    },
    #[error("secret `{name}` is missing: {place}")]
    NoSecret { name: String, place: String },
    #[error("MCP server `{id}` cannot be used: {reason}")]
    McpServerFailed { id: String, reason: String },
    /// The network policy forbids the address of the service.
    #[error("service `{id}` cannot be used: {reason}")]
    ServiceBlocked { id: String, reason: String },
    /// A cost budget is set, but the price of a model is unknown.
    #[error("`max_cost_usd` cannot be enforced: the price of model `{model}` is unknown")]
    NoPrice { model: String },
    /// The step was not started because a concurrent step failed. The error of that step is the one
    /// reported.
    #[error("not started: a concurrent step failed")]
    ConcurrentStepFailed,
    /// An agent's answer has no usable form, for example no JSON that fits the schema.
    #[error("step {path} (agent `{agent}`) gave no usable answer{}: {reason}", times_asked(*.times))]
    UnusableAnswer {
        name: Name,
        path: Path,
        agent: String,
        times: u32,
        /// What is wrong with the answer.
        reason: String,
    },
    /// The prompt of a step does not fit the agent's `input_schema`.
    #[error(
        "step {path}: the input does not match the `input_schema` of agent `{agent}`: {reason}"
    )]
    InvalidInput {
        name: Name,
        path: Path,
        agent: String,
        reason: String,
    },
    #[error("no draft reached the score {needed} of 100: the best of {drafts} got {best}")]
    BelowScore {
        name: Name,
        drafts: u32,
        best: u32,
        needed: u32,
    },
    #[error("node `{node}` was visited {visits} times, the limit of `max_iterations`")]
    TooManyVisits {
        name: Name,
        node: String,
        /// How often it was visited.
        visits: u32,
    },
    /// A human must answer before the session can continue.
    #[error("session `{name}` waits for your answer: {prompt}{}", .context.as_ref().map_or(String::new(), |context| format!("\n{context}")))]
    WaitingForHuman {
        name: Name,
        path: Path,
        prompt: String,
        context: Option<String>,
        /// The deadline for the answer.
        until: Option<Timestamp>,
    },
    #[error("step {path} was not answered in time and has no default")]
    AnswerTimeout { name: Name, path: Path },
    #[error("`{answer}` is not a valid answer to step {path}: {reason}")]
    InvalidAnswer {
        path: Path,
        answer: String,
        reason: String,
    },
    #[error("session `{name}` has no open question{}", .path.as_ref().map_or(String::new(), |path| format!(" at step {path}")))]
    NoOpenQuestion { name: Name, path: Option<String> },
    #[error("session `{name}` has several open questions: {}", join_shown(.steps.iter().map(|path| format!("step {path}"))))]
    AmbiguousQuestion { name: Name, steps: Vec<Path> },
    #[error("session `{name}` reached its limit `{what}`: {used} of {of}")]
    Budget {
        name: Name,
        /// The limit, by its key in the spec.
        what: &'static str,
        used: String,
        of: String,
    },
    #[error("session `{name}` is {status}, requested by {by}")]
    Stopped {
        name: Name,
        /// The status after the stop.
        status: Status,
        by: String,
    },
    /// The disk is full: no new step is started.
    #[error("the disk is full; finished steps are saved, and no new step was started")]
    DiskFull { name: Name },
    /// The run was lost while steps were in flight, and the spec says `in_flight: stop`.
    #[error("the outcome of {} is unknown: the run was lost while it was in flight", join_shown(.steps.iter().map(|path| format!("step {path}"))))]
    UnknownOutcome { name: Name, steps: Vec<Path> },
    /// The spec was edited, and the policy for changed specs is to refuse.
    #[error("the spec was edited since session `{name}` last ran; it changes {}", join_shown(.steps.iter()))]
    SpecChanged { name: Name, steps: Vec<String> },
    /// The agent's context is nearly full, and `context_full` is `pause`.
    #[error("step {path} is paused: {percent} % of the agent's context is used")]
    ContextFull {
        name: Name,
        path: Path,
        percent: u64,
    },
    /// A provider named the end of its rate limit, and the run does not wait for it.
    #[error("step {path} is suspended until {until} (rate limit of {provider}): {why}")]
    Suspended {
        name: Name,
        path: Path,
        /// The provider whose limit was reached.
        provider: String,
        /// The end of the rate limit.
        until: Timestamp,
        why: NoWaitReason,
    },
    /// The workspace changed since the last run, and the drift policy is to refuse.
    #[error("the workspace changed since session `{name}` last ran: {}", join_shown(.drift.iter()))]
    WorkspaceDrifted { name: Name, drift: Vec<String> },
    /// No agent of this name can take over the session.
    #[error("`{agent}` cannot take over: {reason}")]
    NoSuchAgent { agent: String, reason: String },
    /// The note does not exist, or was replaced or withdrawn.
    #[error("session `{name}` has no note {note}")]
    NoSuchNote {
        name: Name,
        note: NoteId,
        /// The current notes of the same kind.
        standing: Vec<NoteId>,
    },
    /// Only the user may change this note.
    #[error("note {note} was written by the user; agents cannot change it")]
    NoteNotEditable { note: NoteId },
    #[error("the note is not valid: {reason}")]
    InvalidNote { reason: String },
    /// The edited resume context is longer than the limit.
    #[error("the edited resume context has {bytes} bytes; the limit is {most}")]
    ResumeContextTooLong { bytes: usize, most: usize },
    /// A resume option that only affects started work, where no work was started.
    #[error("`{option}` has no effect on session `{name}`: {reason}")]
    OptionWithoutEffect {
        name: Name,
        option: &'static str,
        reason: &'static str,
    },
    /// The checkpoint belongs to another session.
    #[error("session `{name}` cannot continue from checkpoint {checkpoint}: {reason}")]
    CheckpointOfOtherSession {
        checkpoint: CheckpointId,
        name: Name,
        reason: String,
    },
    /// A fork cannot use this folder as its workspace.
    #[error("{} cannot be the workspace of a fork: {reason}", .folder.display())]
    FolderTaken { folder: PathBuf, reason: String },
    #[error("the workspace of session `{name}`, {folder}, does not exist")]
    WorkspaceMissing { name: Name, folder: String },
    #[error("{} cannot be used as a workspace: {reason}", .path.display())]
    InvalidFolder { path: PathBuf, reason: String },
    #[error("artifact {} exists and was not written by this session", .path.display())]
    ArtifactExists { path: PathBuf },
    #[error("artifact {path} cannot be written: {reason}")]
    Artifact { path: String, reason: String },
    /// The journal's events contradict each other, so the state cannot be rebuilt.
    #[error("the journal of session {session} is damaged: {reason}")]
    InvalidJournal { session: SessionId, reason: String },
    /// The stored spec does not match the digest in the journal.
    #[error("the stored spec of session {session} cannot be used: {reason} (digest {digest})")]
    InvalidStoredSpec {
        session: SessionId,
        digest: Digest,
        reason: String,
    },
}

/// Why the run does not wait for the end of a rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoWaitReason {
    /// `on_limit` is `pause`.
    Pause,
    /// The wait is longer than `max_wait_s`.
    MaxWait(Duration),
    /// All waits of the session together would be longer than `max_total_wait_s`.
    MaxTotalWait(Duration),
    /// The run waited this many times, and the limit was still reached each time.
    TooManyWaits(u32),
}

impl std::fmt::Display for NoWaitReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pause => f.write_str("`on_limit` is `pause`"),
            Self::MaxWait(most) => {
                write!(
                    f,
                    "`max_wait_s` is {}",
                    segno_core::time::format_duration(*most)
                )
            }
            Self::MaxTotalWait(most) => {
                write!(
                    f,
                    "`max_total_wait_s` is {}",
                    segno_core::time::format_duration(*most)
                )
            }
            Self::TooManyWaits(times) => {
                write!(f, "the limit was still in effect after {times} waits")
            }
        }
    }
}

fn spec_fault(problems: &spec::Problems) -> &'static str {
    match problems.fault() {
        spec::Fault::Invalid => "is not a valid spec",
        spec::Fault::Unsupported => "uses features that this version does not support",
    }
}

fn times_asked(times: u32) -> String {
    match times {
        0 | 1 => String::new(),
        times => format!(" after {times} attempts"),
    }
}

fn did_you_mean(near: &[String]) -> String {
    if near.is_empty() {
        return String::new();
    }
    let near: Vec<String> = near.iter().map(|step| format!("`{step}`")).collect();
    format!("; did you mean {}?", near.join(" or "))
}

fn relation_text(relation: Relation, here: u64, there: u64) -> String {
    match relation {
        Relation::Same => "already exists here with the same journal".into(),
        Relation::Behind => {
            format!("already exists here with {here} events; the file continues to event {there}")
        }
        Relation::Ahead => {
            format!("already exists here with {here} events; the file has only the first {there}")
        }
        Relation::Diverged => {
            "already exists here, and its journal has diverged from the one in the file".into()
        }
        Relation::InTrash => "already exists here, in the trash".into(),
    }
}

fn plural(count: u32) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn join_shown(items: impl Iterator<Item = impl ToString>) -> String {
    let mut items: Vec<String> = items.map(|item| item.to_string()).collect();
    let more = items.len().saturating_sub(8);
    items.truncate(8);
    let shown = items.join(", ");
    if more == 0 {
        shown
    } else {
        format!("{shown} and {more} more")
    }
}
