//! What a journal adds up to.
//!
//! [`State`] is a pure fold that stays small however long the journal grows: what is finished is
//! counted, not kept. [`Finished`] is the other fold, made when a run begins: which steps are
//! done, and where their answers stand.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::companion::{Gauge, Program};
use crate::digest::Digest;
use crate::id::{Name, SessionId};
use crate::journal::{
    AgentOpened, AgentSaid, Entry, Event, Failure, Head, Limit, ModelReplied, Run, Seq,
    TalkShortened, ToolFinished, ToolStarted, WorkspaceSeen,
};
use crate::ladder::Rung;
use crate::session::{Kind, Status};
use crate::step::Path;
use crate::time::Timestamp;
use crate::usage::Usage;

/// What failures are called after which one waits, and goes on waiting in the next run.
const RATE_LIMITED: &str = crate::agent::ErrorKind::RateLimited(None).as_str();

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
    /// How the workspace looked when the newest run let go of it; absent while one goes on, and after one
    /// that was lost.
    pub seen: Option<WorkspaceSeen>,
    /// Files written so far.
    pub artifacts: BTreeMap<String, Digest>,
    /// Why the newest run failed.
    pub error: Option<Failure>,
    /// The transcript that it was made of, if it was.
    pub adopted: Option<Adopted>,
    /// The conversations that agents' programs have had for it, by their own names: nobody else may go on
    /// with them.
    pub conversations: BTreeMap<String, Program>,
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

/// What a session was started with.
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
    /// When.
    pub at: Timestamp,
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
}

/// A step that was begun and is not finished.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    /// Its revision.
    pub revision: u32,
    /// How often it was begun.
    pub attempt: u32,
    /// Who was asked.
    pub agent: String,
    /// How the newest attempt stands.
    pub standing: Standing,
    /// Since when.
    pub since: Timestamp,
    /// Not to be asked again before this: the other side said so.
    pub not_before: Option<Timestamp>,
    /// The conversation that its agent's program keeps, if it does.
    pub native: Option<Native>,
}

/// A conversation that an agent's program keeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Native {
    /// The program.
    pub program: Program,
    /// Its name for it.
    pub id: String,
    /// The folder that it worked in.
    pub folder: String,
    /// How full the model's context is.
    pub context: Option<Gauge>,
    /// The ways in which it was gone on with.
    pub rungs: Vec<Rung>,
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

/// How an attempt stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Asked, not answered.
    InFlight,
    /// Asked by a run that was lost.
    Unknown,
    /// Failed.
    Failed(Failure),
    /// Stopped between two turns.
    Paused,
    /// Its result was thrown away; not asked again yet.
    Discarded,
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
    pub const VERSION: u16 = 8;

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
            usage: Usage::default(),
            usage_by_agent: BTreeMap::new(),
            open: BTreeMap::new(),
            questions: BTreeMap::new(),
            warned: BTreeSet::new(),
            active_ms: 0,
            seen: None,
            artifacts: BTreeMap::new(),
            error: None,
            adopted: None,
            conversations: BTreeMap::new(),
        }
    }

    /// Steps asked and not answered.
    pub fn in_flight(&self) -> impl Iterator<Item = (&Path, &Open)> {
        self.open
            .iter()
            .filter(|(_, open)| open.standing == Standing::InFlight)
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
        if let Event::RunStarted(_) = &entry.event {
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
        // Only what a run did itself counts: the time between runs is nobody's.
        if !matches!(entry.event, Event::RunStarted(_) | Event::SessionCreated(_)) {
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
                    at: entry.at,
                });
            }
            Event::SessionForked(event) => {
                self.forked = Some(Forked {
                    from: event.from,
                    name: event.from_name.clone(),
                    seq: event.seq,
                    before: event.before.clone(),
                });
            }
            Event::SpecChanged(event) => {
                self.spec_seq = entry.seq;
                self.spec_digest = Some(event.spec_digest);
            }
            Event::RunStarted(_) => {
                self.run = entry.run;
                self.status = Status::Running;
                self.error = None;
                self.seen = None;
            }
            Event::StepStarted(event) => {
                let before = self.open.remove(&event.path);
                let before = before.filter(|before| before.revision == event.revision);
                let open = Open {
                    revision: event.revision,
                    attempt: event.attempt,
                    agent: event.agent.clone(),
                    standing: Standing::InFlight,
                    since: entry.at,
                    not_before: None,
                    native: before.and_then(|before| before.native),
                };
                self.open.insert(event.path.clone(), open);
            }
            Event::StepFinished(event) => {
                let open = self.open.remove(&event.path);
                self.spend(open.as_ref(), event.usage);
                self.finished += 1;
            }
            Event::StepFailed(event) => {
                let open = self.stand(&event.path, Standing::Failed(event.error.clone()), entry.at);
                self.spend(open.as_ref(), event.usage);
                let told = event
                    .retry_in_ms
                    .filter(|_| event.error.kind == RATE_LIMITED);
                if let (Some(wait), Some(open)) = (told, self.open.get_mut(&event.path)) {
                    open.not_before = Some(entry.at.after(Duration::from_millis(wait)));
                }
            }
            Event::ModelReplied(ModelReplied { path, usage, .. })
            | Event::TalkShortened(TalkShortened { path, usage, .. }) => {
                let open = self.open.get(path).cloned();
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
                    });
                }
            }
            Event::AgentSaid(event) => {
                let open = self.open.get_mut(&event.path);
                let native = open.and_then(|open| open.native.as_mut());
                if let (Some(native), Some(gauge)) = (native, event.context) {
                    native.context = Some(gauge);
                }
                let open = self.open.get(&event.path).cloned();
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
            Event::ToolStarted(_) | Event::ToolFinished(_) | Event::StopRequested(_) => {}
            Event::StepPaused(event) => {
                self.stand(&event.path, Standing::Paused, entry.at);
            }
            Event::StepUnknown(event) => {
                self.stand(&event.path, Standing::Unknown, entry.at);
            }
            Event::StepDiscarded(event) => {
                self.finished = self.finished.saturating_sub(1);
                let open = Open {
                    revision: event.revision + 1,
                    attempt: 0,
                    agent: String::new(),
                    standing: Standing::Discarded,
                    since: entry.at,
                    not_before: None,
                    native: None,
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
                self.finished += 1;
            }
            Event::LimitNeared(event) => {
                self.warned.insert(event.limit);
            }
            Event::WorkspaceSeen(event) => self.seen = Some(event.clone()),
            Event::ArtifactWritten(event) => {
                self.artifacts.insert(event.path.clone(), event.digest);
            }
            Event::RunEnded(event) => {
                self.status = event.status;
                self.error.clone_from(&event.error);
            }
        }
    }

    fn spend(&mut self, open: Option<&Open>, usage: Usage) {
        self.usage += usage;
        if let Some(open) = open {
            *self.usage_by_agent.entry(open.agent.clone()).or_default() += usage;
        }
    }

    fn stand(&mut self, path: &Path, standing: Standing, at: Timestamp) -> Option<Open> {
        let open = self.open.get_mut(path)?;
        open.standing = standing;
        open.since = at;
        Some(open.clone())
    }
}

/// The steps that are done, and where their answers stand.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Finished {
    steps: HashMap<Path, FinishedStep>,
    begun: HashMap<Path, Begun>,
}

#[derive(Debug, Clone, PartialEq)]
struct Begun {
    /// Where it was asked.
    asked: Seq,
    agent: String,
    input_digest: Digest,
    revision: u32,
    /// Where what was said in it stands in the journal.
    turns: Vec<Seq>,
    /// What that took.
    usage: Usage,
}

/// A step that is done.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedStep {
    /// Where the question stands in the journal.
    pub asked: Seq,
    /// Where the answer stands in the journal.
    pub seq: Seq,
    /// The revision.
    pub revision: u32,
    /// The attempt that succeeded.
    pub attempt: u32,
    /// Who answered.
    pub agent: String,
    /// The digest of what the answer depended on.
    pub input_digest: Digest,
    /// What it took.
    pub usage: Usage,
}

impl Finished {
    /// Who answered, where it was a person.
    pub const PERSON: &str = "hitl";

    /// Takes the next entry in.
    pub fn apply(&mut self, entry: &Entry) {
        match &entry.event {
            Event::StepStarted(event) => {
                // Another attempt at the same question goes on with what was said.
                let turns = self.begun.remove(&event.path).filter(|begun| {
                    (begun.revision, begun.input_digest) == (event.revision, event.input_digest)
                });
                let (turns, usage) = turns
                    .map(|begun| (begun.turns, begun.usage))
                    .unwrap_or_default();
                let begun = Begun {
                    asked: entry.seq,
                    agent: event.agent.clone(),
                    input_digest: event.input_digest,
                    revision: event.revision,
                    turns,
                    usage,
                };
                self.begun.insert(event.path.clone(), begun);
            }
            Event::StepFinished(event) => {
                if let Some(begun) = self.begun.remove(&event.path) {
                    let step = FinishedStep {
                        asked: begun.asked,
                        seq: entry.seq,
                        revision: event.revision,
                        attempt: event.attempt,
                        agent: begun.agent,
                        input_digest: begun.input_digest,
                        usage: event.usage + begun.usage,
                    };
                    self.steps.insert(event.path.clone(), step);
                }
            }
            Event::ModelReplied(ModelReplied { path, usage, .. })
            | Event::TalkShortened(TalkShortened { path, usage, .. })
            | Event::AgentSaid(AgentSaid { path, usage, .. }) => {
                if let Some(begun) = self.begun.get_mut(path) {
                    begun.turns.push(entry.seq);
                    begun.usage += *usage;
                }
            }
            Event::ToolStarted(ToolStarted { path, .. })
            | Event::ToolFinished(ToolFinished { path, .. })
            | Event::AgentOpened(AgentOpened { path, .. }) => {
                if let Some(begun) = self.begun.get_mut(path) {
                    begun.turns.push(entry.seq);
                }
            }
            Event::StepDiscarded(event) => {
                self.steps.remove(&event.path);
            }
            Event::QuestionAnswered(event) => {
                let step = FinishedStep {
                    asked: entry.seq,
                    seq: entry.seq,
                    revision: 0,
                    attempt: 1,
                    agent: Self::PERSON.to_owned(),
                    input_digest: Digest::of(&[]),
                    usage: Usage::default(),
                };
                self.steps.insert(event.path.clone(), step);
            }
            _ => {}
        }
    }

    /// The step at `path`, if it is done.
    pub fn get(&self, path: &Path) -> Option<&FinishedStep> {
        self.steps.get(path)
    }

    /// Where what was said in an unfinished step stands, if it was the answer to this question.
    pub fn turns(&self, path: &Path, revision: u32, input_digest: Digest) -> &[Seq] {
        match self.begun.get(path) {
            Some(begun) if (begun.revision, begun.input_digest) == (revision, input_digest) => {
                &begun.turns
            }
            _ => &[],
        }
    }

    /// All of them, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&Path, &FinishedStep)> {
        self.steps.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}
