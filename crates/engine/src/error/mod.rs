//! What can go wrong with a run, said so that a person can act on it.

mod diagnosis;
mod hint;

use std::path::PathBuf;
use std::time::Duration;

use segno_core::agent;
use segno_core::bundle;
use segno_core::depot;
use segno_core::digest::Digest;
use segno_core::id::{CheckpointId, Name, SessionId};
use segno_core::lease::Owner;
use segno_core::memo::MemoId;
use segno_core::session::Status;
use segno_core::snapshot;
use segno_core::step::Path;
use segno_core::store;
use segno_core::time::Timestamp;
use segno_core::worktree;

use crate::import::Relation;
use crate::{chat, spec, template};

/// Why a use case did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store refused.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// Files could not be kept or brought back.
    #[error(transparent)]
    Snapshot(#[from] snapshot::Error),
    /// A git repository cannot be worked in.
    #[error(transparent)]
    Worktree(#[from] worktree::Error),
    /// A plan does not hold together.
    #[error("{place} is not a plan that can be worked on: {}", list(.problems.iter()))]
    BadPlan {
        /// Where it stands.
        place: String,
        /// What is wrong.
        problems: Vec<crate::work::checklist::Problem>,
    },
    /// The depot refused.
    #[error(transparent)]
    Depot(#[from] depot::Error),
    /// A message was not taken.
    #[error(transparent)]
    Chat(#[from] chat::Error),
    /// There is no depot.
    #[error("no storage is set for checkpoints")]
    NoStorage,
    /// The depot has no such checkpoint.
    #[error("storage {place} has no checkpoint or session `{reference}`")]
    NotStored {
        /// The depot.
        place: String,
        /// What was given.
        reference: String,
    },
    /// No checkpoint is meant.
    #[error("there is no checkpoint `{reference}`")]
    NoSuchCheckpoint {
        /// What was given.
        reference: String,
    },
    /// Several checkpoints may be meant.
    #[error("`{reference}` may mean {}", list(.candidates.iter()))]
    WhichCheckpoint {
        /// What was given.
        reference: String,
        /// What it may mean.
        candidates: Vec<CheckpointId>,
    },
    /// A checkpoint from elsewhere says where its files go, and nobody here has.
    #[error("checkpoint {checkpoint} came from {origin}: it does not decide where its files go")]
    FromElsewhere {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// Where it came from.
        origin: String,
        /// The folder that it names.
        workspace: String,
    },
    /// The session runs, and its files must not be replaced under it.
    #[error("session {name} ({session}) is being run: its files cannot be replaced under it")]
    Busy {
        /// The session.
        session: SessionId,
        /// Its name.
        name: Name,
    },
    /// A folder is not a checkpoint that was exported, or was changed since.
    #[error("{} cannot be imported: {reason}", .place.display())]
    Unpackable {
        /// The folder.
        place: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A folder cannot be written.
    #[error("{} cannot be written: {reason}", .place.display())]
    Unwritten {
        /// The folder, or a file in it.
        place: PathBuf,
        /// Why.
        reason: String,
    },
    /// The spec cannot be used.
    #[error("{} {}", .path.display(), unusable(problems))]
    Spec {
        /// Where it stands.
        path: PathBuf,
        /// What is wrong.
        #[source]
        problems: spec::Problems,
    },
    /// The variables do not fit the spec.
    #[error("{} cannot be run: its inputs do not fit", .path.display())]
    Variables {
        /// Where the spec stands.
        path: PathBuf,
        /// What is wrong.
        #[source]
        problems: spec::binding::Error,
    },
    /// A file that a spec needs cannot be read.
    #[error("{} cannot be read: {reason}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A template could not be rendered.
    #[error("{place}: {error}")]
    Template {
        /// Which one.
        place: String,
        /// What is wrong.
        error: template::Error,
    },
    /// No session is meant.
    #[error("no session is called `{reference}`")]
    NoSuchSession {
        /// What was given.
        reference: String,
    },
    /// Several sessions may be meant.
    #[error("`{reference}` may mean {}", list(.candidates.iter().map(|(id, name)| format!("{name} ({id})"))))]
    Ambiguous {
        /// What was given.
        reference: String,
        /// What it may mean.
        candidates: Vec<(SessionId, Name)>,
    },
    /// There is nothing to resume.
    #[error("no session in {} can be resumed", .workspace.display())]
    NothingToResume {
        /// The folder.
        workspace: PathBuf,
    },
    /// Nothing is being run in this folder.
    #[error("no session is being run in {}", .workspace.display())]
    NothingRuns {
        /// The folder.
        workspace: PathBuf,
    },
    /// It is not being run.
    #[error("session {name} is not being run: it is {status}")]
    NotRunning {
        /// What people call it.
        name: Name,
        /// Where it stands.
        status: Status,
    },
    /// No session belongs to this folder.
    #[error("no session was started in {}", .workspace.display())]
    NothingHere {
        /// The folder.
        workspace: PathBuf,
    },
    /// Another run has it.
    #[error("session {name} ({session}) is being run by process {} on {} since {since}, until {until} unless renewed", .owner.pid, .owner.host)]
    Held {
        /// The session.
        session: SessionId,
        /// Its name.
        name: Name,
        /// Who has it.
        owner: Box<Owner>,
        /// Since when.
        since: Timestamp,
        /// Until when.
        until: Timestamp,
    },
    /// The session is over.
    #[error("session {name} ({session}) is {status}: it is over")]
    Over {
        /// The session.
        session: SessionId,
        /// Its name.
        name: Name,
        /// How it ended.
        status: Status,
    },
    /// The session runs, and that is in the way.
    #[error("session {name} ({session}) is being run and cannot be deleted")]
    InUse {
        /// The session.
        session: SessionId,
        /// Its name.
        name: Name,
    },
    /// The session is in the trash.
    #[error("session {name} ({session}) is in the trash")]
    InTrash {
        /// The session.
        session: SessionId,
        /// Its name.
        name: Name,
    },
    /// Nothing in the trash is meant.
    #[error("nothing in the trash is called `{reference}`")]
    NotInTrash {
        /// What was given.
        reference: String,
    },
    /// The session has no such step.
    #[error("session {name} has no step `{step}`{}", meant(.near))]
    NoSuchStep {
        /// Its name.
        name: Name,
        /// What was given.
        step: String,
        /// Steps that it is like.
        near: Vec<String>,
    },
    /// A file is not a session that was exported.
    #[error("{place} cannot be imported: {error}")]
    Unimportable {
        /// The file.
        place: String,
        /// What is wrong with it.
        error: bundle::Error,
    },
    /// A session does not fit into a file.
    #[error("session {name} cannot be exported: {error}")]
    Unexportable {
        /// Its name.
        name: Name,
        /// Why.
        error: bundle::Error,
    },
    /// A session of that id is here.
    #[error("session {name} ({session}) {}", related(*.relation, *.here, *.there))]
    Exists {
        /// The session.
        session: SessionId,
        /// What it is called here.
        name: Name,
        /// How the two are related.
        relation: Relation,
        /// How many entries the one here has.
        here: u64,
        /// How many entries the one in the file has.
        there: u64,
    },
    /// A step failed for good.
    #[error("step {path} (agent `{agent}`) failed after {attempts} attempt{}: {error}", plural(*.attempts))]
    Step {
        /// The session's name.
        name: Name,
        /// The step.
        path: Path,
        /// Who was asked.
        agent: String,
        /// How often, in this run.
        attempts: u32,
        /// Why.
        error: Box<agent::Error>,
    },
    /// A model wants a key, and there is none.
    #[error("provider `{provider}` wants a key, and `{variable}` is not set")]
    NoKey {
        /// The provider.
        provider: &'static str,
        /// Where the key is looked for.
        variable: &'static str,
    },
    /// Nothing can be sent from this machine.
    #[error("provider `{provider}` cannot be spoken to from this machine: {reason}")]
    NoClient {
        /// The provider.
        provider: &'static str,
        /// Why.
        reason: String,
    },
    /// A secret is filled in somewhere, and there is none.
    #[error("secret `{name}` is needed, and {place}")]
    NoSecret {
        /// Its name.
        name: String,
        /// Where it was looked for.
        place: String,
    },
    /// An MCP server cannot be used.
    #[error("MCP server `{id}` cannot be used: {reason}")]
    NoServer {
        /// The server.
        id: String,
        /// Why.
        reason: String,
    },
    /// A service must not be called.
    #[error("service `{id}` cannot be used: {reason}")]
    OutOfReach {
        /// The service.
        id: String,
        /// Why, and how it can be.
        reason: String,
    },
    /// There is a limit on money, and nobody has said what a model costs.
    #[error("`max_cost_usd` cannot be kept: the price of model `{model}` is not known")]
    NoPrice {
        /// The model.
        model: String,
    },
    /// Not begun, because something that runs beside it failed. What failed is what is told.
    #[error("not begun, because something beside it failed")]
    Beside,
    /// An agent's answer is not what the workflow needs.
    #[error("step {path} (agent `{agent}`) gave no answer that can be used{}: {reason}", asked(*.times))]
    Unusable {
        /// The session's name.
        name: Name,
        /// The step.
        path: Path,
        /// Who answered.
        agent: String,
        /// How often it was asked.
        times: u32,
        /// What is wrong with the answer.
        reason: String,
    },
    /// What an agent is to be asked is not what its schema says.
    #[error(
        "step {path} would ask agent `{agent}` what its `input_schema` does not allow: {reason}"
    )]
    WrongInput {
        /// The session's name.
        name: Name,
        /// The step.
        path: Path,
        /// Who would be asked.
        agent: String,
        /// What is wrong.
        reason: String,
    },
    /// The last draft is not good enough.
    #[error(
        "no draft was good enough: the best of {drafts} got {best} of 100, and {needed} is needed"
    )]
    BelowScore {
        /// The session's name.
        name: Name,
        /// How many drafts there were.
        drafts: u32,
        /// The best score.
        best: u32,
        /// The score that is needed.
        needed: u32,
    },
    /// A loop in a graph went on for too long.
    #[error("node `{node}` was visited {visits} times, and more is not allowed (`max_iterations`)")]
    Loop {
        /// The session's name.
        name: Name,
        /// The node.
        node: String,
        /// How often it was visited.
        visits: u32,
    },
    /// A person has to answer first.
    #[error("session {name} waits for a person: {prompt}{}", .context.as_ref().map_or(String::new(), |context| format!("\n{context}")))]
    Waiting {
        /// The session's name.
        name: Name,
        /// The step that asks.
        path: Path,
        /// The question.
        prompt: String,
        /// What is shown with it.
        context: Option<String>,
        /// Until when an answer is waited for.
        until: Option<Timestamp>,
    },
    /// Nobody answered in time, and there is no default.
    #[error("nobody answered step {path} in time, and it has no default")]
    Unanswered {
        /// The session's name.
        name: Name,
        /// The step that asked.
        path: Path,
    },
    /// A person's answer is not one that the question allows.
    #[error("`{answer}` does not answer step {path}: {reason}")]
    NotAnAnswer {
        /// The step that asks.
        path: Path,
        /// What was answered.
        answer: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nothing is asked there.
    #[error("session {name} asks nothing{}", .path.as_ref().map_or(String::new(), |path| format!(" at step {path}")))]
    NotAsked {
        /// The session's name.
        name: Name,
        /// The step, if one was named.
        path: Option<String>,
    },
    /// Several things are asked.
    #[error("session {name} asks several things: {}", list(.steps.iter().map(|path| format!("step {path}"))))]
    WhichQuestion {
        /// The session's name.
        name: Name,
        /// The steps that ask.
        steps: Vec<Path>,
    },
    /// A limit is reached.
    #[error("session {name} used up its {what}: {used} of {of}")]
    Budget {
        /// The session's name.
        name: Name,
        /// The limit, as the spec names it.
        what: &'static str,
        /// What was used.
        used: String,
        /// What there was.
        of: String,
    },
    /// Someone asked the run to stop.
    #[error("session {name} is {status}, as asked by {by}")]
    Stopped {
        /// The session's name.
        name: Name,
        /// Where it stands now.
        status: Status,
        /// Who asked.
        by: String,
    },
    /// Nothing new is begun on a full disk.
    #[error("the disk is full; what was finished is saved, and nothing new was begun")]
    NoRoom {
        /// The session's name.
        name: Name,
    },
    /// Steps with unknown outcome, and a spec that says a person decides.
    #[error("whether {} took effect is unknown: the run was lost while it was in flight", list(.steps.iter().map(|path| format!("step {path}"))))]
    Unknown {
        /// The session's name.
        name: Name,
        /// The steps.
        steps: Vec<Path>,
    },
    /// The spec was edited, and the policy is to refuse.
    #[error("the spec was edited since session {name} last ran; it changes {}", list(.steps.iter()))]
    Changed {
        /// The session's name.
        name: Name,
        /// The steps that the edit changes.
        steps: Vec<String>,
    },
    /// An agent's context is nearly full, and the policy is to pause.
    #[error("step {path} is paused: {percent} % of the agent's context is used")]
    ContextFull {
        /// The session's name.
        name: Name,
        /// The step.
        path: Path,
        /// How much is used, in hundredths.
        percent: u64,
    },
    /// A provider said when its limit is lifted, and that is not waited for.
    #[error("step {path} is suspended until {until} (rate limit of {provider}): {why}")]
    Suspended {
        /// The session's name.
        name: Name,
        /// The step.
        path: Path,
        /// Whose limit it is.
        provider: String,
        /// When it is lifted.
        until: Timestamp,
        /// Why it is not waited for.
        why: Impatience,
    },
    /// Others changed the workspace, and the policy is to refuse.
    #[error("the workspace is not as session {name} left it: {}", list(.drift.iter()))]
    Drifted {
        /// The session's name.
        name: Name,
        /// What differs.
        drift: Vec<String>,
    },
    /// Nobody of this name can take over.
    #[error("`{agent}` cannot take over: {reason}")]
    NoStandIn {
        /// Who was named.
        agent: String,
        /// Why not.
        reason: String,
    },
    /// A memo that is not there, or no longer holds.
    #[error("session {name} has no memo {memo}")]
    NoSuchMemo {
        /// What people call the session.
        name: Name,
        /// What was asked for.
        memo: MemoId,
        /// Those of its sort that hold.
        standing: Vec<MemoId>,
    },
    /// A memo that only a person may change.
    #[error("memo {memo} was written by a person")]
    NotYourMemo {
        /// Its name.
        memo: MemoId,
    },
    /// A memo that cannot be kept.
    #[error("this cannot be noted: {reason}")]
    UnusableMemo {
        /// Why.
        reason: String,
    },
    /// More than agents are told.
    #[error("the edited text has {bytes} bytes, and agents are told at most {most}")]
    LongBrief {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        most: usize,
    },
    /// A wish about work that was begun, and nothing was.
    #[error("`{option}` would change nothing in session {name}: {reason}")]
    NothingBegun {
        /// What people call the session.
        name: Name,
        /// What was wished.
        option: &'static str,
        /// Why it would change nothing.
        reason: &'static str,
    },
    /// A checkpoint of something else than the session that is to go on from it.
    #[error("checkpoint {checkpoint} is none that session {name} can go on from: {reason}")]
    NotItsCheckpoint {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// The session's name.
        name: Name,
        /// Why not.
        reason: String,
    },
    /// A copy of a session cannot work in this folder.
    #[error("{} cannot be the folder of a copy: {reason}", .folder.display())]
    FolderTaken {
        /// The folder.
        folder: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The folder of a session is gone.
    #[error("the folder of session {name}, {folder}, is not there")]
    FolderGone {
        /// The session's name.
        name: Name,
        /// The folder.
        folder: String,
    },
    /// A session cannot work there.
    #[error("{} cannot be worked in: {reason}", .path.display())]
    NoFolder {
        /// Where.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// An artifact would replace a file that this session did not write.
    #[error("artifact {} exists, and this session did not write it", .path.display())]
    ArtifactExists {
        /// Where.
        path: PathBuf,
    },
    /// An artifact cannot be written there.
    #[error("artifact {path} cannot be written: {reason}")]
    Artifact {
        /// Where.
        path: String,
        /// Why.
        reason: String,
    },
    /// A journal that cannot be folded.
    #[error("the journal of session {session} is damaged: {reason}")]
    Senseless {
        /// The session.
        session: SessionId,
        /// What is wrong.
        reason: String,
    },
    /// The stored spec is not the one whose digest was noted.
    #[error("the spec kept for session {session} cannot be used: {reason} (digest {digest})")]
    Pinned {
        /// The session.
        session: SessionId,
        /// Its digest.
        digest: Digest,
        /// Why.
        reason: String,
    },
}

/// Why a limit is not waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Impatience {
    /// The policy is to pause.
    Pause,
    /// It is longer than one wait may be.
    Longest(Duration),
    /// It is longer than all waits of the session together may be.
    Together(Duration),
    /// It was waited for so often, and nothing came of it.
    Vain(u32),
}

impl std::fmt::Display for Impatience {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pause => f.write_str("`on_limit` is to pause"),
            Self::Longest(most) => {
                write!(f, "`max_wait_s` is {}", segno_core::time::human(*most))
            }
            Self::Together(most) => {
                write!(
                    f,
                    "`max_total_wait_s` is {}",
                    segno_core::time::human(*most)
                )
            }
            Self::Vain(times) => write!(f, "it was waited for {times} times in vain"),
        }
    }
}

fn unusable(problems: &spec::Problems) -> &'static str {
    match problems.fault() {
        spec::Fault::Invalid => "is not a valid spec",
        spec::Fault::Unsupported => "asks for more than this version does",
    }
}

fn asked(times: u32) -> String {
    match times {
        0 | 1 => String::new(),
        times => format!(", though it was asked {times} times"),
    }
}

fn meant(near: &[String]) -> String {
    if near.is_empty() {
        return String::new();
    }
    let near: Vec<String> = near.iter().map(|step| format!("`{step}`")).collect();
    format!("; did you mean {}?", near.join(" or "))
}

fn related(relation: Relation, here: u64, there: u64) -> String {
    match relation {
        Relation::Same => "is here already, with the same journal".into(),
        Relation::Behind => format!(
            "is here already: its journal has {here} entries, and the file goes on to entry {there}"
        ),
        Relation::Ahead => format!(
            "is here already: its journal has {here} entries, and the file only the first {there}"
        ),
        Relation::Apart => "is here already, and went another way than the one in the file".into(),
        Relation::InTrash => "is here already, in the trash".into(),
    }
}

fn plural(count: u32) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn list(items: impl Iterator<Item = impl ToString>) -> String {
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
