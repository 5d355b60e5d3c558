//! Folds a journal into a session's state.
//!
//! [`State`] is a pure fold that stays small however long the journal grows: finished steps are counted,
//! not stored. [`FinishedSteps`] is a second fold, built when a run starts: it maps finished steps to the
//! positions of their answers in the journal.

mod agent_states;
mod background;
mod chat;
mod conversations;
mod finished;
mod open;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::agent::RefusalReason;
use crate::cli_agent::CliAgentKind;
use crate::digest::Digest;
use crate::handoff::Handoff;
use crate::id::{CheckpointId, Name, SessionId};
use crate::journal::{
    ConversationCompacted, Event, Failure, Head, JournalEvent, Limit, ModelReplied, Run, Seq,
    SessionMoved, StepFailed, Suspension, Text, ToolRefused, WorkspaceStatusRecorded,
};
use crate::session::{Kind, PatternKind, Status};
use crate::step::Path;
use crate::time::Timestamp;
use crate::usage::{ContextUsage, Usage};

pub use agent_states::{AgentStateHistory, AgentStates, StoredValue};
pub use background::{Background, RunRequest};
pub use chat::Chat;
pub use conversations::{default_conversation, whole_conversations};
pub use finished::{FinishedStep, FinishedSteps};
pub use open::{AttemptStatus, NativeConversation, OpenStep};

/// The failure kind after which a step waits, and keeps waiting in the next run.
const RATE_LIMITED: &str = crate::agent::ErrorKind::RateLimited(None).as_str();

/// How many finished steps [`State::newest_finished`] lists. Every commit copies the state, so the list is short.
const NEWEST: usize = 30;

/// How many different refusals [`State::refused_tools`] lists.
const MAX_REFUSED: usize = 50;

/// A session's state, folded from its journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// The head of the folded journal.
    pub head: Head,
    /// What the session was started with; absent only before the first event.
    pub created: Option<Created>,
    /// The source session, if this one is a fork.
    pub forked: Option<Forked>,
    pub status: Status,
    /// The newest run.
    pub run: Run,
    /// When the newest event was written.
    pub updated_at: Timestamp,
    /// The position of the event that contains the spec in force.
    pub spec_seq: Seq,
    /// The digest of the spec in force.
    pub spec_digest: Option<Digest>,
    /// The number of finished steps whose results count.
    pub finished: u64,
    /// The most recently finished steps, newest last.
    #[serde(rename = "newest")]
    pub newest_finished: VecDeque<Path>,
    /// The total usage, failed attempts included.
    pub usage: Usage,
    /// The total usage by agent.
    pub usage_by_agent: BTreeMap<String, Usage>,
    /// Steps that were started and are not finished.
    #[serde(rename = "open")]
    pub open_steps: BTreeMap<Path, OpenStep>,
    /// Questions that no user has answered yet.
    pub questions: BTreeMap<Path, Question>,
    /// Limits that users were warned about.
    #[serde(rename = "warned")]
    pub warned_limits: BTreeSet<Limit>,
    /// How long runs were active, by their own clocks.
    pub active_ms: u64,
    /// How long the session waited for limits to be lifted.
    pub waits: Waits,
    /// The last recorded workspace status: at the start of a run, when a step finished that may have
    /// changed files, or when a run released the session.
    #[serde(rename = "seen")]
    pub workspace_status: Option<WorkspaceStatusRecorded>,
    /// The artifacts written so far.
    pub artifacts: BTreeMap<String, Digest>,
    /// Why the newest run failed.
    pub error: Option<Failure>,
    /// The result of the workflow, once it is completed.
    pub output: Option<Text>,
    /// The stop request of the newest run.
    pub stopped: Option<Stopped>,
    /// The transcript that the session was imported from, if it was.
    #[serde(rename = "adopted")]
    pub imported: Option<ImportedTranscript>,
    /// The conversations that CLI agents have had for this session, by their own ids: no other session
    /// may resume them.
    pub conversations: BTreeMap<String, CliAgentKind>,
    /// The size of each agent's context window in tokens, as the named CLI agent reported it; by agent.
    #[serde(rename = "windows")]
    pub context_windows: BTreeMap<String, (CliAgentKind, u64)>,
    /// The folded notes. Shared, since every commit copies the state and notes are few.
    pub handoff: Arc<Handoff>,
    /// What agents stored for their later steps. Shared for the same reason.
    pub agent_states: Arc<AgentStates>,
    /// How many times the session was started or resumed.
    pub session_number: u64,
    /// When the newest run ended, or was found lost; absent during a run, and after a lost run that
    /// nobody has found yet.
    pub ended_at: Option<Timestamp>,
    /// The context usage that an agent reported last.
    pub newest_context: Option<ContextUsage>,
    /// The tools that agents were refused, in the order in which that happened first.
    pub refused_tools: Vec<RefusedTool>,
    /// The event with the user's edited resume context, if a user edited it since a run ended.
    #[serde(rename = "brief")]
    pub resume_context: Option<Seq>,
    /// The chat's state, if the session is a chat.
    pub chat: Option<Box<Chat>>,
    /// What workers know about the session, if one was ever asked to run it.
    pub background: Option<Box<Background>>,
}

/// A tool that an agent was refused, and how often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefusedTool {
    pub agent: String,
    /// The tool's name, as the agent calls it.
    pub tool: String,
    pub reason: RefusalReason,
    /// The CLI agent that was refused it; `None` for an API model.
    pub program: Option<CliAgentKind>,
    pub count: u64,
}

/// A stop request that took effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stopped {
    /// The user or program that asked.
    pub by: String,
    pub reason: Option<String>,
    pub at: Timestamp,
}

/// The total time spent waiting for limits to be lifted. Time in which several steps wait counts once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waits {
    /// The total, from the start of each wait to its announced end.
    pub total_ms: u64,
    /// The end of the wait that ends last.
    pub until: Timestamp,
}

impl Waits {
    /// The total including a wait from `at` to `until`.
    pub fn adding(self, at: Timestamp, until: Timestamp) -> Self {
        let more = until.since(at.max(self.until)).as_millis();
        Self {
            total_ms: self
                .total_ms
                .saturating_add(u64::try_from(more).unwrap_or(u64::MAX)),
            until: until.max(self.until),
        }
    }
}

/// The transcript that a session was imported from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportedTranscript {
    pub program: CliAgentKind,
    /// The CLI agent's own id of the conversation.
    #[serde(rename = "native")]
    pub native_id: String,
    /// How many bytes of the transcript the journal contains.
    pub bytes: u64,
    /// The digest of these bytes.
    pub digest: Digest,
    /// The snapshot that contains the file byte for byte.
    #[serde(rename = "papers")]
    pub attachments: Digest,
    /// The run that last read the transcript.
    pub run: Run,
    /// The event that recorded this.
    pub seq: Seq,
}

/// What a session was started with. The paths are those of its newest move.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Created {
    pub name: Name,
    pub kind: Kind,
    pub workspace: String,
    /// The file that the spec was read from.
    pub spec_path: String,
    pub variables: BTreeMap<String, serde_json::Value>,
    /// The output folder of artifacts.
    pub out: String,
    /// Whether artifacts may replace files that this session did not write.
    pub force: bool,
    /// The workspace's commit at the start, if there was one.
    pub commit: Option<String>,
    /// The pattern of the spec in force, if the journal names it.
    pub pattern: Option<PatternKind>,
    pub at: Timestamp,
}

impl Created {
    /// Applies a move to another workspace.
    pub fn relocate(&mut self, moved: &SessionMoved) {
        self.workspace.clone_from(&moved.workspace);
        self.spec_path.clone_from(&moved.spec_path);
        self.out.clone_from(&moved.out);
    }
}

/// The source of a forked session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forked {
    /// The source session.
    pub from: SessionId,
    /// The source session's name.
    pub name: Name,
    /// The last event of the source session that was read.
    pub seq: Seq,
    /// The step before which the copy was cut, if it was.
    pub before: Option<Path>,
    /// The checkpoint that the fork was made from, if any.
    pub checkpoint: Option<CheckpointId>,
    /// The source session's workspace, if it is a different one.
    pub workspace: Option<String>,
    /// The snapshot with the transcripts of the conversations that continue.
    #[serde(rename = "papers")]
    pub attachments: Option<Digest>,
}

/// A question that waits for a user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The position of the question's event, which also contains its context.
    pub seq: Seq,
    pub prompt: String,
    /// The answer if the user gives none in time.
    pub default: Option<String>,
    /// How long to wait for an answer.
    pub timeout_s: Option<u64>,
    /// The regular expression that an answer must match.
    pub validation: Option<String>,
    pub asked_at: Timestamp,
}

impl Question {
    /// The deadline for an answer.
    pub fn until(&self) -> Option<Timestamp> {
        let seconds = self.timeout_s?;
        Some(self.asked_at.after(Duration::from_secs(seconds)))
    }
}

/// An event that cannot follow the events before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {seq} ({kind}) cannot follow the events before it: {reason}")]
pub struct IllegalEvent {
    pub seq: Seq,
    pub kind: &'static str,
    pub reason: String,
}

impl State {
    /// The version of the fold. A cached state of another version is discarded and folded again.
    pub const VERSION: u16 = 16;

    /// The state before the first event.
    pub fn empty(session: SessionId) -> Self {
        Self {
            head: Head::genesis(session),
            created: None,
            forked: None,
            status: Status::Pending,
            run: Run(0),
            updated_at: Timestamp(0),
            spec_seq: Seq(0),
            spec_digest: None,
            finished: 0,
            newest_finished: VecDeque::new(),
            usage: Usage::default(),
            usage_by_agent: BTreeMap::new(),
            open_steps: BTreeMap::new(),
            questions: BTreeMap::new(),
            warned_limits: BTreeSet::new(),
            active_ms: 0,
            waits: Waits {
                total_ms: 0,
                until: Timestamp(0),
            },
            workspace_status: None,
            artifacts: BTreeMap::new(),
            error: None,
            output: None,
            stopped: None,
            imported: None,
            conversations: BTreeMap::new(),
            context_windows: BTreeMap::new(),
            handoff: Arc::default(),
            agent_states: Arc::default(),
            session_number: 0,
            ended_at: None,
            newest_context: None,
            refused_tools: Vec::new(),
            resume_context: None,
            chat: None,
            background: None,
        }
    }

    /// The run that a worker is to start, if there is one.
    pub fn request(&self) -> Option<&RunRequest> {
        self.background.as_ref()?.request.as_ref()
    }

    /// The workspace's commit when the session started, if there was one.
    pub fn start_commit(&self) -> Option<&str> {
        self.created.as_ref()?.commit.as_deref()
    }

    /// The pattern of the spec in force, if the journal names it.
    pub fn pattern(&self) -> Option<PatternKind> {
        self.created.as_ref()?.pattern
    }

    /// Steps that were sent to an agent and have no answer.
    pub fn in_flight(&self) -> impl Iterator<Item = (&Path, &OpenStep)> {
        self.open_steps
            .iter()
            .filter(|(_, open)| open.status == AttemptStatus::InFlight)
    }

    /// If everything that the session does at `now` waits for a limit to be lifted: the step that
    /// continues first, and when.
    pub fn suspended(&self, now: Timestamp) -> Option<(&Path, Suspension)> {
        if self.status.is_final() || self.in_flight().next().is_some() {
            return None;
        }
        let waiting = self.open_steps.iter();
        let waiting = waiting.filter_map(|(path, open)| Some((path, open.suspended(now)?)));
        waiting.min_by_key(|(_, suspension)| suspension.until)
    }

    /// The context usage of all open steps, as far as it was reported.
    pub fn context_usages(&self) -> impl Iterator<Item = (&Path, ContextUsage)> {
        let open = self.open_steps.iter();
        open.filter_map(|(path, open)| Some((path, open.context_usage()?)))
    }

    /// Applies the next event. On an error the state is unchanged.
    pub fn apply(&mut self, entry: &JournalEvent) -> Result<(), IllegalEvent> {
        let illegal = |reason: String| IllegalEvent {
            seq: entry.seq,
            kind: entry.event.kind(),
            reason,
        };
        if self.created.is_none() != matches!(entry.event, Event::SessionCreated(_)) {
            return Err(illegal("only the first event creates the session".into()));
        }
        if let Event::SessionMoved(_) = &entry.event {
            if entry.run <= self.run {
                return Err(illegal("a session can only be moved between runs".into()));
            }
        } else if is_allowed_between_runs(&entry.event) && entry.run > self.run {
            // Such an event has a run number of its own.
        } else if let Event::RunStarted(_) = &entry.event {
            // A run that starts while another seems to be active has found that one lost.
            if entry.run <= self.run || !self.status.is_resumable() {
                return Err(illegal(format!("the session is {}", self.status)));
            }
        } else if entry.run != self.run && self.created.is_some() {
            return Err(illegal(format!(
                "the event is of run {}, the current run is {}",
                entry.run, self.run
            )));
        }
        if matches!(entry.event, Event::RunLost(_))
            && (entry.run == self.run || self.status != Status::Running)
        {
            return Err(illegal(
                "only a later run can report a run as lost, and only once".into(),
            ));
        }
        if matches!(entry.event, Event::SessionForked(_)) && entry.seq != Seq(3) {
            return Err(illegal(
                "a fork can only be recorded at the start of a session".into(),
            ));
        }
        if let Event::RunEnded(event) = &entry.event
            && !self.status.may_become(event.status)
        {
            return Err(illegal(format!(
                "status {} cannot become {}",
                self.status, event.status
            )));
        }
        if let Event::RunRequested(_) = &entry.event
            && !self.status.may_become(Status::Pending)
        {
            return Err(illegal(format!("the session is {}", self.status)));
        }
        if let Event::RunWithdrawn(_) = &entry.event
            && self.request().is_none()
        {
            return Err(illegal("no run was requested".into()));
        }
        if let Event::QuestionAnswered(event) = &entry.event
            && !self.questions.contains_key(&event.path)
        {
            return Err(illegal(format!(
                "there is no open question at {}",
                event.path
            )));
        }
        if let Event::StepResolved(event) = &entry.event {
            let newest = (event.revision, event.attempt);
            let open = self.open_steps.get(&event.path);
            let open = open.filter(|open| (open.revision, open.attempt) == newest);
            if !open.is_some_and(OpenStep::can_be_resolved) {
                let reason = format!("the outcome of {} is not unknown", event.path);
                return Err(illegal(reason));
            }
        }
        if let Event::ExchangeEnded(_) | Event::ChatCleared(_) = &entry.event
            && self.chat.is_none()
        {
            return Err(illegal("the session is not a chat".into()));
        }
        // Only time within a run counts as active; time between runs does not, nor the time of a
        // conversation that the run only copies.
        let copied = self.imported.as_ref().map(|imported| imported.run);
        if entry.run == self.run && copied != Some(entry.run) {
            let since = entry.at.since(self.updated_at).as_millis();
            self.active_ms += u64::try_from(since).unwrap_or_default();
        }
        self.fold_event(entry);
        self.head = entry.head();
        self.updated_at = entry.at;
        Ok(())
    }

    fn fold_event(&mut self, entry: &JournalEvent) {
        if let Some(background) = &mut self.background
            && is_progress(&entry.event)
        {
            background.progress();
        }
        match &entry.event {
            Event::SessionCreated(event) => {
                self.spec_seq = entry.seq;
                self.spec_digest = Some(event.spec_digest);
                self.created = Some(Created {
                    name: event.name.clone(),
                    kind: event.session_kind,
                    workspace: event.workspace.clone(),
                    spec_path: event.spec_path.clone(),
                    variables: event.variables.clone(),
                    out: event.out.clone(),
                    force: event.force,
                    commit: event.commit.clone(),
                    pattern: event.pattern,
                    at: entry.at,
                });
            }
            Event::SessionForked(event) => {
                self.forked = Some(Forked {
                    from: event.from,
                    name: event.from_name.clone(),
                    seq: event.seq,
                    before: event.before.clone(),
                    checkpoint: event.checkpoint,
                    workspace: event.workspace.clone(),
                    attachments: event.attachments,
                });
            }
            Event::SessionMoved(event) => {
                self.set_run_between_runs(entry.run);
                if let Some(created) = &mut self.created {
                    created.relocate(event);
                }
            }
            Event::SpecChanged(event) => {
                self.spec_seq = entry.seq;
                self.spec_digest = Some(event.spec_digest);
                if let (Some(created), Some(pattern)) = (&mut self.created, event.pattern) {
                    created.pattern = Some(pattern);
                }
                // The new spec may name other models.
                self.context_windows.clear();
            }
            Event::RunStarted(event) => {
                self.run = entry.run;
                self.session_number += u64::from(event.purpose.is_work());
                self.ended_at = None;
                self.status = Status::Running;
                self.error = None;
                self.stopped = None;
                if let Some(background) = &mut self.background {
                    background.start();
                }
            }
            Event::RunRequested(event) => {
                self.set_run_between_runs(entry.run);
                let known = self.background.as_deref();
                let requested = Background::request(known, event, self.status, entry.at);
                self.background = Some(Box::new(requested));
                self.status = Status::Pending;
            }
            Event::RunWithdrawn(event) => {
                self.set_run_between_runs(entry.run);
                if let Some(background) = &mut self.background {
                    self.status = background.withdraw(event).unwrap_or(self.status);
                }
                if event.error.is_some() {
                    self.error.clone_from(&event.error);
                }
            }
            Event::StepStarted(event) => {
                let before = self.open_steps.remove(&event.path);
                let before = before.filter(|before| before.revision == event.revision);
                let handed = before.as_ref().and_then(|before| {
                    let other = !before.agent.is_empty() && before.agent != event.agent;
                    if other {
                        Some(entry.seq)
                    } else {
                        before.handed_over_at
                    }
                });
                let same = before.as_ref().filter(|before| before.agent == event.agent);
                let model_context = same.and_then(|before| before.model_context);
                let given = event.resume_context.as_ref().map(|_| entry.seq);
                let given = given.or_else(|| before.as_ref()?.resume_context);
                let waits = before.as_ref().map_or(0, |before| before.waits);
                let (native, earlier) = before
                    .map(|before| (before.native, before.earlier))
                    .unwrap_or_default();
                let open = OpenStep {
                    revision: event.revision,
                    attempt: event.attempt,
                    agent: event.agent.clone(),
                    status: AttemptStatus::InFlight,
                    since: entry.at,
                    not_before: None,
                    limited_by: None,
                    waits,
                    native,
                    earlier,
                    handed_over_at: handed,
                    model_context,
                    resume_context: given,
                };
                self.open_steps.insert(event.path.clone(), open);
                if let Some(chat) = &mut self.chat {
                    chat.count_message(event, entry.at);
                }
            }
            Event::StepFinished(event) => {
                let mut open = self.open_steps.remove(&event.path);
                if let Some(open) = &mut open {
                    open.count(event.usage);
                }
                if let Some(chat) = &mut self.chat {
                    chat.count_answer(open.as_ref(), entry.at);
                }
                self.add_usage(open.as_ref(), event.usage);
                self.newest_context = event.context.or(self.newest_context);
                self.finish(&event.path);
                if self.handoff.step_errors(&event.path).next().is_some() {
                    Arc::make_mut(&mut self.handoff)
                        .resolve_step_errors(event, entry.seq, entry.at);
                }
            }
            Event::StepFailed(event) => {
                if let Some(open) = self.open_steps.get_mut(&event.path) {
                    open.count(event.usage);
                }
                let open = self.set_standing(
                    &event.path,
                    AttemptStatus::Failed(event.error.clone()),
                    entry.at,
                );
                self.add_usage(open.as_ref(), event.usage);
                self.set_backoff(event, entry.at);
                if event.retry_in_ms.is_none() && event.suspended.is_none() {
                    Arc::make_mut(&mut self.handoff).add_step_failure(event, entry.seq, entry.at);
                }
            }
            Event::ModelReplied(ModelReplied { path, usage, .. })
            | Event::ConversationCompacted(ConversationCompacted { path, usage, .. }) => {
                if let (Event::ModelReplied(reply), Some(open)) =
                    (&entry.event, self.open_steps.get_mut(path))
                {
                    let (used, window) = (usage.tokens(), reply.window);
                    open.model_context = Some(ContextUsage { used, window });
                    self.newest_context = open.model_context;
                }
                let open = self.mark_progress(path, *usage);
                self.add_usage(open.as_ref(), *usage);
            }
            Event::ConversationOpened(event) => {
                let name = event.native_id.clone();
                self.conversations.insert(name, event.program);
                let chat = self.chat.as_ref();
                let in_chat = chat.and_then(|chat| chat.conversation(&event.native_id));
                if let Some(open) = self.open_steps.get_mut(&event.path) {
                    open.open_conversation(event, in_chat, entry.seq);
                }
            }
            Event::AgentMessages(event) => {
                let mut open = self.open_steps.get_mut(&event.path);
                if let Some(open) = &mut open {
                    open.count(event.usage);
                }
                if let Some(native) = open.and_then(|open| open.native.as_mut()) {
                    native.spoke = true;
                    if let Some(report) = event.report {
                        native.cost = report.conversation_cost.or(native.cost);
                        native.reported_at = Some(entry.seq);
                    }
                }
                if let (Some(open), Some(context_usage)) =
                    (self.open_steps.get_mut(&event.path), event.context)
                    && let Some(native) = &mut open.native
                {
                    native.context = Some(context_usage);
                    self.newest_context = Some(context_usage);
                    let window = context_usage.window.map(|window| (native.program, window));
                    self.context_windows
                        .extend(window.map(|window| (open.agent.clone(), window)));
                }
                let open = self.mark_progress(&event.path, event.usage);
                self.add_usage(open.as_ref(), event.usage);
            }
            Event::ToolRefused(event) => self.count_refusal(event),
            Event::TranscriptImported(event) => {
                self.imported = Some(ImportedTranscript {
                    program: event.program,
                    native_id: event.native_id.clone(),
                    bytes: event.bytes,
                    digest: event.digest,
                    attachments: event.attachments,
                    run: entry.run,
                    seq: entry.seq,
                });
            }
            Event::ToolStarted(_) | Event::ToolFinished(_) => {}
            Event::StopRequested(event) => {
                self.stopped = Some(Stopped {
                    by: event.by.clone(),
                    reason: event.reason.clone(),
                    at: entry.at,
                });
            }
            Event::StepPaused(event) => {
                self.set_standing(&event.path, AttemptStatus::Paused, entry.at);
            }
            Event::StepUnknown(event) => {
                self.set_standing(&event.path, AttemptStatus::Unknown, entry.at);
            }
            Event::StepResolved(event) => {
                self.set_run_between_runs(entry.run);
                let resolved = AttemptStatus::Resolved(entry.seq);
                self.set_standing(&event.path, resolved, entry.at);
            }
            Event::StepDiscarded(event) => {
                // A question that nobody answered is asked again, or not at all.
                if self.questions.remove(&event.path).is_some() {
                    return;
                }
                let open = OpenStep::discarded(event.revision, entry.at);
                let unfinished = self.open_steps.insert(event.path.clone(), open);
                if unfinished.is_none() {
                    self.finished = self.finished.saturating_sub(1);
                    self.newest_finished.retain(|path| *path != event.path);
                }
            }
            Event::QuestionAsked(event) => {
                // The answer to an earlier question here was discarded.
                let discarded = |open: &OpenStep| open.status == AttemptStatus::Discarded;
                if self.open_steps.get(&event.path).is_some_and(discarded) {
                    self.open_steps.remove(&event.path);
                }
                let question = Question {
                    seq: entry.seq,
                    prompt: event.prompt.clone(),
                    default: event.default.clone(),
                    timeout_s: event.timeout_s,
                    validation: event.validation.clone(),
                    asked_at: entry.at,
                };
                self.questions.insert(event.path.clone(), question);
            }
            Event::QuestionAnswered(event) => {
                self.questions.remove(&event.path);
                self.finish(&event.path);
            }
            Event::LimitNeared(event) => {
                self.warned_limits.insert(event.limit);
            }
            Event::WorkspaceStatusRecorded(event) => self.workspace_status = Some(event.clone()),
            Event::NotesWritten(event) => {
                self.set_run_between_runs(entry.run);
                let open = event
                    .path
                    .as_ref()
                    .and_then(|path| self.open_steps.get(path));
                self.add_usage(open.cloned().as_ref(), event.usage);
                Arc::make_mut(&mut self.handoff).add(event, entry.seq, entry.at);
            }
            Event::ResumeContextEdited(event) => {
                self.set_run_between_runs(entry.run);
                let empty = matches!(&event.text, Text::Inline(text) if text.is_empty());
                self.resume_context = (!empty).then_some(entry.seq);
            }
            Event::NoteWithdrawn(event) => {
                self.set_run_between_runs(entry.run);
                Arc::make_mut(&mut self.handoff).withdraw(event);
            }
            Event::AgentStateChanged(event) => {
                self.set_run_between_runs(entry.run);
                Arc::make_mut(&mut self.agent_states).apply(event, entry.seq, entry.at);
            }
            Event::ArtifactWritten(event) => {
                self.artifacts.insert(event.path.clone(), event.digest);
            }
            Event::RunLost(_) => {
                self.set_run_between_runs(entry.run);
                self.status = Status::Interrupted;
                self.ended_at = Some(entry.at);
            }
            Event::ChatOpened(event) => {
                self.chat = Some(Box::new(Chat::opened(event, entry.at, entry.seq)));
            }
            Event::ExchangeEnded(event) => {
                let open = self.open_steps.remove(&event.path);
                // Questions of this exchange are obsolete.
                let below = format!("{}/", event.path);
                let asked = |path: &Path| path.as_str().starts_with(&below);
                self.questions.retain(|path, _| !asked(path));
                if let Some(chat) = &mut self.chat {
                    chat.end_exchange(event, open.as_ref(), entry.at);
                }
            }
            Event::ChatCleared(_) => {
                // Unanswered messages are dropped, too.
                self.open_steps.clear();
                self.questions.clear();
                if let Some(chat) = &mut self.chat {
                    chat.clear(entry.seq);
                }
            }
            Event::RunEnded(event) => {
                self.resume_context = None;
                self.ended_at = Some(entry.at);
                self.status = event.status;
                self.error.clone_from(&event.error);
                self.output.clone_from(&event.output);
            }
        }
    }

    fn finish(&mut self, path: &Path) {
        self.finished += 1;
        if self.newest_finished.len() == NEWEST {
            self.newest_finished.pop_front();
        }
        self.newest_finished.push_back(path.clone());
    }

    /// Sets the run number of an event that may be written between runs.
    fn set_run_between_runs(&mut self, run: Run) {
        if let Some(adopted) = &mut self.imported
            && adopted.run == self.run
        {
            // No run happened in between: further parts of the transcript still belong to this session.
            adopted.run = run;
        }
        self.run = run;
    }

    fn add_usage(&mut self, open: Option<&OpenStep>, usage: Usage) {
        self.usage += usage;
        if let Some(open) = open {
            *self.usage_by_agent.entry(open.agent.clone()).or_default() += usage;
        }
    }

    /// Counts a refused tool, unless too many different ones were refused.
    fn count_refusal(&mut self, event: &ToolRefused) {
        let Some(open) = self.open_steps.get(&event.path) else {
            return;
        };
        let refused = RefusedTool {
            agent: open.agent.clone(),
            tool: event.tool.clone(),
            reason: event.reason,
            program: event.program,
            count: 1,
        };
        let same = |known: &&mut RefusedTool| {
            RefusedTool {
                count: 1,
                ..(**known).clone()
            } == refused
        };
        if let Some(known) = self.refused_tools.iter_mut().find(same) {
            known.count += 1;
        } else if self.refused_tools.len() < MAX_REFUSED {
            self.refused_tools.push(refused);
        }
    }

    /// An estimate of the tokens of those agents that reported only money; `None` if there are none.
    pub fn estimated_tokens(&self) -> Option<u64> {
        let agents = self.usage_by_agent.values();
        agents
            .filter_map(Usage::estimated_tokens)
            .reduce(u64::saturating_add)
    }

    /// An estimate of the context usage of the fullest of those agents, if no agent reported its
    /// context usage.
    pub fn estimated_context(&self) -> Option<ContextUsage> {
        if self.newest_context.is_some() {
            return None;
        }
        let agents = self.usage_by_agent.iter();
        let contexts = agents.filter_map(|(agent, usage)| {
            let window = self.context_windows.get(agent).map(|(_, window)| *window);
            ContextUsage::estimated_from(usage, window)
        });
        contexts.max_by_key(|context| context.used)
    }

    /// Records until when a failed step must not be retried.
    fn set_backoff(&mut self, event: &StepFailed, at: Timestamp) {
        let Some(open) = self.open_steps.get_mut(&event.path) else {
            return;
        };
        let waits = event.retry_in_ms.map(Duration::from_millis);
        match &event.suspended {
            Some(suspension) => {
                open.not_before = Some(suspension.until);
                open.limited_by = Some(suspension.provider.clone());
                if waits.is_some() {
                    open.waits += 1;
                    self.waits = self.waits.adding(at, suspension.until);
                }
            }
            None if event.error.kind == RATE_LIMITED => {
                open.not_before = waits.map(|wait| at.after(wait));
            }
            None => {}
        }
    }

    /// Resets the wait counter if the step made progress, that is, used tokens: a refused call uses
    /// none.
    fn mark_progress(&mut self, path: &Path, usage: Usage) -> Option<OpenStep> {
        let open = self.open_steps.get_mut(path)?;
        if usage.tokens() > 0 {
            open.waits = 0;
        }
        Some(open.clone())
    }

    fn set_standing(
        &mut self,
        path: &Path,
        standing: AttemptStatus,
        at: Timestamp,
    ) -> Option<OpenStep> {
        let open = self.open_steps.get_mut(path)?;
        open.status = standing;
        open.since = at;
        Some(open.clone())
    }
}

/// Whether an agent or a user answered.
fn is_progress(event: &Event) -> bool {
    matches!(
        event,
        Event::StepFinished(_)
            | Event::ModelReplied(_)
            | Event::AgentMessages(_)
            | Event::QuestionAnswered(_)
    )
}

/// Whether an event may be written outside of a run, while no process runs the session.
fn is_allowed_between_runs(event: &Event) -> bool {
    matches!(
        event,
        Event::NotesWritten(_)
            | Event::NoteWithdrawn(_)
            | Event::AgentStateChanged(_)
            | Event::ResumeContextEdited(_)
            | Event::RunLost(_)
            | Event::RunRequested(_)
            | Event::RunWithdrawn(_)
            | Event::StepResolved(_)
    )
}
