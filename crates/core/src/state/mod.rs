//! What a journal adds up to.
//!
//! [`State`] is a pure fold that stays small however long the journal grows: what is finished is
//! counted, not kept. [`Finished`] is the other fold, made when a run begins: which steps are
//! done, and where their answers stand.

mod chat;
mod finished;
mod open;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::companion::{Gauge, Program};
use crate::digest::Digest;
use crate::id::{CheckpointId, Name, SessionId};
use crate::journal::{
    Entry, Event, Failure, Head, Limit, ModelReplied, Run, Seq, SessionMoved, StepFailed,
    Suspension, TalkShortened, Text, WorkspaceSeen,
};
use crate::memo::Handoff;
use crate::session::{Kind, Status};
use crate::step::Path;
use crate::time::Timestamp;
use crate::usage::Usage;

pub use chat::Chat;
pub use finished::{Finished, FinishedStep};
pub use open::{Native, Open, Standing};

/// What failures are called after which one waits, and goes on waiting in the next run.
const RATE_LIMITED: &str = crate::agent::ErrorKind::RateLimited(None).as_str();

/// How many finished steps are named. A state is copied at every commit, so they are few.
const NEWEST: usize = 30;

/// A session as its journal tells it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// The end of the journal that was folded.
    pub head: Head,
    /// What the session was started with; absent only before the first entry.
    pub created: Option<Created>,
    /// Where it was copied from, if it was.
    pub forked: Option<Forked>,
    /// Where it stands.
    pub status: Status,
    /// Its newest run.
    pub run: Run,
    /// When the newest entry was written.
    pub updated_at: Timestamp,
    /// Where the spec in force was written down.
    pub spec_seq: Seq,
    /// Its digest.
    pub spec_digest: Option<Digest>,
    /// Finished steps whose results count.
    pub finished: u64,
    /// The newest of them, newest last.
    pub newest: VecDeque<Path>,
    /// What everything took, failed attempts included.
    pub usage: Usage,
    /// The same, by agent.
    pub usage_by_agent: BTreeMap<String, Usage>,
    /// Steps that were begun and are not finished.
    pub open: BTreeMap<Path, Open>,
    /// What people were asked and have not answered.
    pub questions: BTreeMap<Path, Question>,
    /// Limits that people were warned of.
    pub warned: BTreeSet<Limit>,
    /// How long runs went on, by their own clocks.
    pub active_ms: u64,
    /// How long it waited for limits to be lifted.
    pub waits: Waits,
    /// How the workspace looked when the newest run let go of it; absent while one goes on, and after one
    /// that was lost.
    pub seen: Option<WorkspaceSeen>,
    /// Files written so far.
    pub artifacts: BTreeMap<String, Digest>,
    /// Why the newest run failed.
    pub error: Option<Failure>,
    /// Who asked the newest run to stop.
    pub stopped: Option<Stopped>,
    /// The transcript that it was made of, if it was.
    pub adopted: Option<Adopted>,
    /// The conversations that agents' programs have had for it, by their own names: nobody else may go on
    /// with them.
    pub conversations: BTreeMap<String, Program>,
    /// How many tokens fit into the context of an agent's model, as the program said that answers for it;
    /// by agent.
    pub windows: BTreeMap<String, (Program, u64)>,
    /// What memos add up to. Shared, since a state is copied at every commit and memos are few.
    pub handoff: Arc<Handoff>,
    /// How often it was begun.
    pub runs: u64,
    /// The entry that has what a person wants agents to be told, if they have said so since a run ended.
    pub brief: Option<Seq>,
    /// What was said, if it is a chat.
    pub chat: Option<Box<Chat>>,
}

/// Someone asked a run to stop, and it did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stopped {
    /// Who or what.
    pub by: String,
    /// What they said about it.
    pub reason: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// Waiting for limits to be lifted, all of it together. What several steps wait for at once counts
/// once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waits {
    /// How long, from when each wait began to its end as it was told.
    pub total_ms: u64,
    /// The end of the one that ends last.
    pub until: Timestamp,
}

impl Waits {
    /// How long it is together with a wait from `at` to `until`.
    pub fn with(self, at: Timestamp, until: Timestamp) -> Self {
        let more = until.since(at.max(self.until)).as_millis();
        Self {
            total_ms: self
                .total_ms
                .saturating_add(u64::try_from(more).unwrap_or(u64::MAX)),
            until: until.max(self.until),
        }
    }
}

/// A transcript that a session was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adopted {
    /// The program.
    pub program: Program,
    /// Its name for the conversation.
    pub native: String,
    /// How many bytes of the transcript stand in the journal.
    pub bytes: u64,
    /// Their digest.
    pub digest: Digest,
    /// The snapshot that has the file as it was.
    pub papers: Digest,
    /// The run that last read it.
    pub run: Run,
    /// The entry that says so.
    pub seq: Seq,
}

/// What a session was started with; where it works, as of its newest move.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Created {
    /// What people call it.
    pub name: Name,
    /// What it does.
    pub kind: Kind,
    /// The folder it works in.
    pub workspace: String,
    /// Where its spec was read.
    pub spec_path: String,
    /// Its variables.
    pub variables: BTreeMap<String, serde_json::Value>,
    /// Where artifacts go.
    pub out: String,
    /// Whether artifacts may replace files of others.
    pub force: bool,
    /// The commit that the folder stood at, if there was one.
    pub commit: Option<String>,
    /// When.
    pub at: Timestamp,
}

impl Created {
    /// Takes in that the session works in another folder from here on.
    pub fn relocate(&mut self, moved: &SessionMoved) {
        self.workspace.clone_from(&moved.workspace);
        self.spec_path.clone_from(&moved.spec_path);
        self.out.clone_from(&moved.out);
    }
}

/// Where a session was copied from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forked {
    /// The other session.
    pub from: SessionId,
    /// What it was called.
    pub name: Name,
    /// The last entry of it that was looked at.
    pub seq: Seq,
    /// The step before which it was cut, if it was.
    pub before: Option<Path>,
    /// The checkpoint that it was made from, if it was.
    pub checkpoint: Option<CheckpointId>,
    /// The folder that the other worked in, if it is another one.
    pub workspace: Option<String>,
    /// The snapshot that has the records of the conversations that go on.
    pub papers: Option<Digest>,
}

/// A question that waits for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Where it stands in the journal, with what is shown with it.
    pub seq: Seq,
    /// The question.
    pub prompt: String,
    /// The answer if nobody gives one in time.
    pub default: Option<String>,
    /// How long an answer is waited for.
    pub timeout_s: Option<u64>,
    /// What an answer must look like.
    pub validation: Option<String>,
    /// When it was asked.
    pub asked_at: Timestamp,
}

impl Question {
    /// Until when an answer is waited for.
    pub fn until(&self) -> Option<Timestamp> {
        let seconds = self.timeout_s?;
        Some(self.asked_at.after(Duration::from_secs(seconds)))
    }
}

/// An entry that cannot follow what came before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record {seq} ({kind}) cannot follow what came before it: {reason}")]
pub struct Illegal {
    /// The entry's place.
    pub seq: Seq,
    /// Its kind.
    pub kind: &'static str,
    /// What is wrong.
    pub reason: String,
}

impl State {
    /// The version of the fold. A stored state of another version is thrown away and folded anew.
    pub const VERSION: u16 = 12;

    /// The state before anything happened.
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
            newest: VecDeque::new(),
            usage: Usage::default(),
            usage_by_agent: BTreeMap::new(),
            open: BTreeMap::new(),
            questions: BTreeMap::new(),
            warned: BTreeSet::new(),
            active_ms: 0,
            waits: Waits {
                total_ms: 0,
                until: Timestamp(0),
            },
            seen: None,
            artifacts: BTreeMap::new(),
            error: None,
            stopped: None,
            adopted: None,
            conversations: BTreeMap::new(),
            windows: BTreeMap::new(),
            handoff: Arc::default(),
            runs: 0,
            brief: None,
            chat: None,
        }
    }

    /// The commit that its folder stood at when it began, if there was one.
    pub fn began(&self) -> Option<&str> {
        self.created.as_ref()?.commit.as_deref()
    }

    /// Steps asked and not answered.
    pub fn in_flight(&self) -> impl Iterator<Item = (&Path, &Open)> {
        self.open
            .iter()
            .filter(|(_, open)| open.standing == Standing::InFlight)
    }

    /// What it waits for at `now`, if everything that it does waits for a limit to be lifted: the step
    /// that goes on first, and when.
    pub fn suspended(&self, now: Timestamp) -> Option<(&Path, Suspension)> {
        if self.status.is_final() || self.in_flight().next().is_some() {
            return None;
        }
        let waiting = self.open.iter();
        let waiting = waiting.filter_map(|(path, open)| Some((path, open.suspended(now)?)));
        waiting.min_by_key(|(_, suspension)| suspension.until)
    }

    /// How full the contexts are in which steps are under way, as far as that was told.
    pub fn gauges(&self) -> impl Iterator<Item = (&Path, Gauge)> {
        let open = self.open.iter();
        open.filter_map(|(path, open)| Some((path, open.gauge()?)))
    }

    /// Takes the next entry in. On an error the state is as it was.
    pub fn apply(&mut self, entry: &Entry) -> Result<(), Illegal> {
        let illegal = |reason: String| Illegal {
            seq: entry.seq,
            kind: entry.event.kind(),
            reason,
        };
        if self.created.is_none() != matches!(entry.event, Event::SessionCreated(_)) {
            return Err(illegal("a session is created once, and first".into()));
        }
        if let Event::SessionMoved(_) = &entry.event {
            if entry.run <= self.run {
                return Err(illegal("a session is moved between runs".into()));
            }
        } else if may_stand_between_runs(&entry.event) && entry.run > self.run {
            // Under a number of its own.
        } else if let Event::RunStarted(_) = &entry.event {
            // A run that begins while another seems to go on has found it lost.
            if entry.run <= self.run || !self.status.is_resumable() {
                return Err(illegal(format!("the session is {}", self.status)));
            }
        } else if entry.run != self.run && self.created.is_some() {
            return Err(illegal(format!(
                "run {} is not run {}",
                entry.run, self.run
            )));
        }
        if matches!(entry.event, Event::RunLost(_))
            && (entry.run == self.run || self.status != Status::Running)
        {
            return Err(illegal("a run is found lost once, by others".into()));
        }
        if matches!(entry.event, Event::SessionForked(_)) && entry.seq != Seq(3) {
            return Err(illegal("a session is copied when it begins".into()));
        }
        if let Event::RunEnded(event) = &entry.event
            && !self.status.may_become(event.status)
        {
            return Err(illegal(format!(
                "{} cannot become {}",
                self.status, event.status
            )));
        }
        if let Event::QuestionAnswered(event) = &entry.event
            && !self.questions.contains_key(&event.path)
        {
            return Err(illegal(format!("nothing was asked at {}", event.path)));
        }
        if let Event::ExchangeEnded(_) | Event::ChatCleared(_) = &entry.event
            && self.chat.is_none()
        {
            return Err(illegal("the session is no chat".into()));
        }
        // Only what a run did itself counts: the time between runs is nobody's.
        if entry.run == self.run {
            let since = entry.at.since(self.updated_at).as_millis();
            self.active_ms += u64::try_from(since).unwrap_or_default();
        }
        self.take(entry);
        self.head = entry.head();
        self.updated_at = entry.at;
        Ok(())
    }

    fn take(&mut self, entry: &Entry) {
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
                    papers: event.papers,
                });
            }
            Event::SessionMoved(event) => {
                self.stand_between(entry.run);
                if let Some(created) = &mut self.created {
                    created.relocate(event);
                }
            }
            Event::SpecChanged(event) => {
                self.spec_seq = entry.seq;
                self.spec_digest = Some(event.spec_digest);
                // It may name other models.
                self.windows.clear();
            }
            Event::RunStarted(_) => {
                self.run = entry.run;
                self.runs += 1;
                self.status = Status::Running;
                self.error = None;
                self.stopped = None;
                self.seen = None;
            }
            Event::StepStarted(event) => {
                let before = self.open.remove(&event.path);
                let before = before.filter(|before| before.revision == event.revision);
                let handed = before.as_ref().and_then(|before| {
                    let other = !before.agent.is_empty() && before.agent != event.agent;
                    if other {
                        Some(entry.seq)
                    } else {
                        before.handed
                    }
                });
                let same = before.as_ref().filter(|before| before.agent == event.agent);
                let weight = same.and_then(|before| before.weight);
                let open = Open {
                    revision: event.revision,
                    attempt: event.attempt,
                    agent: event.agent.clone(),
                    standing: Standing::InFlight,
                    since: entry.at,
                    not_before: None,
                    limited_by: None,
                    waits: before.as_ref().map_or(0, |before| before.waits),
                    native: before.and_then(|before| before.native),
                    handed,
                    weight,
                };
                self.open.insert(event.path.clone(), open);
                if let Some(chat) = &mut self.chat {
                    chat.asked(event, entry.at);
                }
            }
            Event::StepFinished(event) => {
                let open = self.open.remove(&event.path);
                if let Some(chat) = &mut self.chat {
                    chat.answered(open.as_ref(), entry.at);
                }
                self.spend(open.as_ref(), event.usage);
                self.finish(&event.path);
                if self.handoff.errors_of(&event.path).next().is_some() {
                    Arc::make_mut(&mut self.handoff).finish(event, entry.seq, entry.at);
                }
            }
            Event::StepFailed(event) => {
                let open = self.stand(&event.path, Standing::Failed(event.error.clone()), entry.at);
                self.spend(open.as_ref(), event.usage);
                self.hold_off(event, entry.at);
                if event.retry_in_ms.is_none() && event.suspended.is_none() {
                    Arc::make_mut(&mut self.handoff).fail(event, entry.seq, entry.at);
                }
            }
            Event::ModelReplied(ModelReplied { path, usage, .. })
            | Event::TalkShortened(TalkShortened { path, usage, .. }) => {
                if let (Event::ModelReplied(_), Some(open)) =
                    (&entry.event, self.open.get_mut(path))
                {
                    open.weight = Some(usage.tokens());
                }
                let open = self.come_on(path, *usage);
                self.spend(open.as_ref(), *usage);
            }
            Event::AgentOpened(event) => {
                let name = event.native.clone();
                self.conversations.insert(name, event.program);
                if let Some(open) = self.open.get_mut(&event.path) {
                    let same = open
                        .native
                        .take()
                        .filter(|native| native.id == event.native);
                    let (context, mut rungs) = same
                        .map(|native| (native.context, native.rungs))
                        .unwrap_or_default();
                    rungs.extend(event.rung);
                    open.native = Some(Native {
                        program: event.program,
                        id: event.native.clone(),
                        folder: event.folder.clone(),
                        context,
                        rungs,
                        opened: entry.seq,
                    });
                }
            }
            Event::AgentSaid(event) => {
                if let (Some(open), Some(gauge)) = (self.open.get_mut(&event.path), event.context)
                    && let Some(native) = &mut open.native
                {
                    native.context = Some(gauge);
                    let window = gauge.window.map(|window| (native.program, window));
                    self.windows
                        .extend(window.map(|window| (open.agent.clone(), window)));
                }
                let open = self.come_on(&event.path, event.usage);
                self.spend(open.as_ref(), event.usage);
            }
            Event::TranscriptAdopted(event) => {
                self.adopted = Some(Adopted {
                    program: event.program,
                    native: event.native.clone(),
                    bytes: event.bytes,
                    digest: event.digest,
                    papers: event.papers,
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
                self.stand(&event.path, Standing::Paused, entry.at);
            }
            Event::StepUnknown(event) => {
                self.stand(&event.path, Standing::Unknown, entry.at);
            }
            Event::StepDiscarded(event) => {
                self.finished = self.finished.saturating_sub(1);
                self.newest.retain(|path| *path != event.path);
                let open = Open {
                    revision: event.revision + 1,
                    attempt: 0,
                    agent: String::new(),
                    standing: Standing::Discarded,
                    since: entry.at,
                    not_before: None,
                    limited_by: None,
                    waits: 0,
                    native: None,
                    handed: None,
                    weight: None,
                };
                self.open.insert(event.path.clone(), open);
            }
            Event::QuestionAsked(event) => {
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
                self.warned.insert(event.limit);
            }
            Event::WorkspaceSeen(event) => self.seen = Some(event.clone()),
            Event::MemosWritten(event) => {
                self.stand_between(entry.run);
                let open = event.path.as_ref().and_then(|path| self.open.get(path));
                self.spend(open.cloned().as_ref(), event.usage);
                Arc::make_mut(&mut self.handoff).write(event, entry.seq, entry.at);
            }
            Event::BriefEdited(event) => {
                self.stand_between(entry.run);
                let empty = matches!(&event.text, Text::Inline(text) if text.is_empty());
                self.brief = (!empty).then_some(entry.seq);
            }
            Event::MemoWithdrawn(event) => {
                self.stand_between(entry.run);
                Arc::make_mut(&mut self.handoff).withdraw(event);
            }
            Event::ArtifactWritten(event) => {
                self.artifacts.insert(event.path.clone(), event.digest);
            }
            Event::RunLost(_) => {
                self.stand_between(entry.run);
                self.status = Status::Interrupted;
            }
            Event::ChatOpened(event) => {
                self.chat = Some(Box::new(Chat::opened(event, entry.at, entry.seq)));
            }
            Event::ExchangeEnded(event) => {
                let open = self.open.remove(&event.path);
                // What was asked for it, nobody needs to know any more.
                let below = format!("{}/", event.path);
                let asked = |path: &Path| path.as_str().starts_with(&below);
                self.questions.retain(|path, _| !asked(path));
                if let Some(chat) = &mut self.chat {
                    chat.ended(event, open.as_ref());
                }
            }
            Event::ChatCleared(_) => {
                // What was not answered is forgotten, too.
                self.open.clear();
                self.questions.clear();
                if let Some(chat) = &mut self.chat {
                    chat.cleared(entry.seq);
                }
            }
            Event::RunEnded(event) => {
                self.brief = None;
                self.status = event.status;
                self.error.clone_from(&event.error);
            }
        }
    }

    fn finish(&mut self, path: &Path) {
        self.finished += 1;
        if self.newest.len() == NEWEST {
            self.newest.pop_front();
        }
        self.newest.push_back(path.clone());
    }

    /// Takes in the number of an entry that may stand between runs.
    fn stand_between(&mut self, run: Run) {
        if let Some(adopted) = &mut self.adopted
            && adopted.run == self.run
        {
            // It did not go on meanwhile: what its transcript says next still belongs to it.
            adopted.run = run;
        }
        self.run = run;
    }

    fn spend(&mut self, open: Option<&Open>, usage: Usage) {
        self.usage += usage;
        if let Some(open) = open {
            *self.usage_by_agent.entry(open.agent.clone()).or_default() += usage;
        }
    }

    /// A step that failed is not to be asked again at once.
    fn hold_off(&mut self, event: &StepFailed, at: Timestamp) {
        let Some(open) = self.open.get_mut(&event.path) else {
            return;
        };
        let waits = event.retry_in_ms.map(Duration::from_millis);
        match &event.suspended {
            Some(suspension) => {
                open.not_before = Some(suspension.until);
                open.limited_by = Some(suspension.provider.clone());
                if waits.is_some() {
                    open.waits += 1;
                    self.waits = self.waits.with(at, suspension.until);
                }
            }
            None if event.error.kind == RATE_LIMITED => {
                open.not_before = waits.map(|wait| at.after(wait));
            }
            None => {}
        }
    }

    /// A step came on, if what it says took anything: what was only refused costs nothing.
    fn come_on(&mut self, path: &Path, usage: Usage) -> Option<Open> {
        let open = self.open.get_mut(path)?;
        if usage.tokens() > 0 {
            open.waits = 0;
        }
        Some(open.clone())
    }

    fn stand(&mut self, path: &Path, standing: Standing, at: Timestamp) -> Option<Open> {
        let open = self.open.get_mut(path)?;
        open.standing = standing;
        open.since = at;
        Some(open.clone())
    }
}

/// What needs no run around it: others say it while nobody runs the session.
fn may_stand_between_runs(event: &Event) -> bool {
    matches!(
        event,
        Event::MemosWritten(_)
            | Event::MemoWithdrawn(_)
            | Event::BriefEdited(_)
            | Event::RunLost(_)
    )
}
