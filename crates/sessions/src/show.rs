//! Shows a session step by step.

use std::collections::HashMap;
use std::time::Duration;

use segno_core::error::{Diagnose, Diagnosis, Kind as ErrorKind};
use segno_core::id::Name;
use segno_core::journal::{Ending, Event, Failure, Seq, StepOutcome};
use segno_core::session::{Kind, PatternKind, Status};
use segno_core::state::{FinishedSteps, State};
use segno_core::step::Path;
use segno_core::store::Summary;
use segno_core::usage::{RunReport, Usage};
use segno_engine::{Env, history, journal};

use crate::ListedSession;
use crate::conversations::{self, Conversation};
use crate::reported::Reported;
use crate::unknown;

/// A session with all its steps and conversations.
#[derive(Debug, Clone)]
pub struct SessionDetails {
    pub listed: ListedSession,
    /// The state after all events of the journal.
    pub state: State,
    /// The pattern of the spec in force; absent for chats and imported conversations.
    pub pattern: Option<PatternKind>,
    /// In the order in which they were first started.
    pub steps: Vec<StepDetails>,
    /// The conversations of CLI agents, in the same order.
    pub conversations: Vec<Conversation>,
}

#[derive(Debug, Clone)]
pub struct StepDetails {
    pub path: Path,
    pub agent: String,
    /// How often it was started.
    pub attempts: u32,
    pub status: StepStatus,
    /// All attempts together.
    pub usage: Usage,
    /// How often a model answered, if the step used tools or a CLI agent has it.
    pub turns: u32,
    /// How many tool calls were made.
    pub tools: u32,
    /// What the program of a CLI agent reported about its runs, if it did.
    pub report: Option<RunReport>,
    /// The duration of the answer.
    pub elapsed: Option<Duration>,
    /// The position of its newest event.
    pub seq: Seq,
    /// What a user said about an unknown outcome, and who, until a run takes it.
    pub said: Option<(StepOutcome, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepStatus {
    Finished,
    /// Started, not finished.
    InFlight,
    /// Started by a run that was lost.
    Unknown,
    Failed(Failure),
    /// Will run again, because its prompt changed.
    Discarded,
    /// Stopped between two turns of a model.
    Paused,
    /// Waits for a human.
    Waiting,
}

/// Why there is no result of a session.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    #[error(transparent)]
    History(#[from] history::Error),
    #[error("session `{name}` has no result; it is {status}")]
    NoOutput { name: Name, status: Status },
}

impl Diagnose for OutputError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::History(error) => error.diagnosis(),
            Self::NoOutput { name, .. } => Diagnosis::new(ErrorKind::Conflict, "R0167")
                .hint(format!("`segno show {name}` shows its steps")),
        }
    }
}

/// The result of a workflow that is completed.
pub async fn output(env: &Env, summary: &Summary) -> Result<String, OutputError> {
    let state = history::load_state(env, summary.id).await?;
    let Some(text) = &state.output else {
        return Err(OutputError::NoOutput {
            name: summary.name.clone(),
            status: ListedSession::of(env, summary.clone())
                .await
                .map_err(history::Error::from)?
                .status,
        });
    };
    let text = journal::load_text(env, text).await;
    Ok(text.map_err(history::Error::from)?)
}

impl SessionDetails {
    /// The commands that say what became of a step with an unknown outcome; `None` if it has none.
    pub fn commands_for(&self, step: &StepDetails) -> Option<[String; 3]> {
        let mut unresolved = unknown::unresolved(&self.listed, &self.state).into_iter();
        Some(unresolved.find(|it| it.path == step.path)?.commands)
    }
}

/// Reads a session, and verifies every event.
pub async fn show(env: &Env, summary: Summary) -> Result<SessionDetails, history::Error> {
    let mut state = State::empty(summary.id);
    let mut steps: Vec<StepDetails> = Vec::new();
    let mut indexes = HashMap::new();
    let mut conversations = conversations::Collector::default();
    let mut reported = Reported::default();
    history::read_events(env, summary.id, state.head, |entry| {
        conversations.apply(&entry.event);
        if let Event::AgentMessages(event) = &entry.event {
            reported.add(event);
        }
        if let Some((path, _)) = entry.event.step() {
            let index = *indexes.entry(path.clone()).or_insert_with(|| {
                steps.push(StepDetails {
                    path: path.clone(),
                    agent: String::new(),
                    attempts: 0,
                    status: StepStatus::InFlight,
                    usage: Usage::default(),
                    turns: 0,
                    tools: 0,
                    report: None,
                    elapsed: None,
                    seq: entry.seq,
                    said: None,
                });
                steps.len() - 1
            });
            apply_event(&mut steps[index], &entry.event);
            steps[index].seq = entry.seq;
        }
        history::apply(&mut state, summary.id, &entry)
    })
    .await?;
    for (path, tally) in reported.tallies(env).await? {
        if let Some(index) = indexes.get(&path) {
            let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
            steps[*index].turns = count(tally.replies);
            steps[*index].tools = count(tally.tool_calls);
        }
    }
    let listed = ListedSession::of(env, summary).await?;
    if listed.status != Status::Running {
        // No run is left to finish the step.
        for step in steps
            .iter_mut()
            .filter(|step| step.status == StepStatus::InFlight)
        {
            step.status = StepStatus::Unknown;
        }
    }
    Ok(SessionDetails {
        pattern: pattern(env, &listed, &state).await,
        listed,
        state,
        steps,
        conversations: conversations.finish(env).await?,
    })
}

/// The pattern that the journal names or, in a journal of an older version, that of the stored spec.
async fn pattern(env: &Env, listed: &ListedSession, state: &State) -> Option<PatternKind> {
    let recorded = state.pattern();
    if recorded.is_some() || listed.summary.kind != Kind::Workflow {
        return recorded;
    }
    let spec = history::recorded_spec(env, listed.summary.id, state).await;
    Some(spec.ok()?.pattern.kind())
}

fn apply_event(step: &mut StepDetails, event: &Event) {
    step.said = None;
    match event {
        Event::StepStarted(event) => {
            step.agent.clone_from(&event.agent);
            step.attempts += 1;
            step.status = StepStatus::InFlight;
        }
        Event::StepFinished(event) => {
            step.status = StepStatus::Finished;
            step.usage += event.usage;
            // The last answer of a conversation is the answer of the step.
            step.turns += u32::from(step.turns > 0);
            step.elapsed = Some(Duration::from_millis(event.elapsed_ms));
        }
        Event::StepFailed(event) => {
            step.status = StepStatus::Failed(event.error.clone());
            step.usage += event.usage;
        }
        // The answer to a message of an adopted conversation has no result of its own.
        Event::ExchangeEnded(event)
            if step.status == StepStatus::InFlight
                && matches!(event.ending, Ending::EndTurn | Ending::MaxTurns) =>
        {
            step.status = StepStatus::Finished;
        }
        Event::StepUnknown(_) => step.status = StepStatus::Unknown,
        Event::StepResolved(event) => {
            step.status = StepStatus::Unknown;
            step.said = Some((event.outcome, event.by.clone()));
        }
        Event::StepDiscarded(_) => step.status = StepStatus::Discarded,
        Event::StepPaused(_) => step.status = StepStatus::Paused,
        Event::ModelReplied(event) => {
            step.usage += event.usage;
            step.turns += 1;
        }
        Event::ToolFinished(_) => step.tools += 1,
        Event::ConversationCompacted(event) => step.usage += event.usage,
        Event::AgentMessages(event) => {
            step.usage += event.usage;
            if let Some(report) = event.report {
                step.report = Some(step.report.unwrap_or_default().followed_by(report));
            }
        }
        Event::QuestionAsked(_) => {
            FinishedSteps::USER.clone_into(&mut step.agent);
            step.attempts += 1;
            step.status = StepStatus::Waiting;
        }
        Event::QuestionAnswered(_) => step.status = StepStatus::Finished,
        _ => {}
    }
}
