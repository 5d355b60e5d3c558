//! The parts of a [`Runner`](super::Runner), each with one responsibility.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Duration;

use segno_core::id::{Name, SessionId};
use segno_core::journal::{Event, OnChange, Run, Seq, StepDiscarded};
use segno_core::retry;
use segno_core::state::{FinishedSteps, OpenStep, Question, State};
use segno_core::step::Path;
use segno_core::usage::{ContextLimits, Usage};
use segno_spec::template::Templates;
use segno_spec::{Compaction, ContextFull, RateLimitPolicy};
use tokio::sync::Semaphore;

use crate::answers::Answers;
use crate::auto_pause::AutoPause;
use crate::budget::Budget;
use crate::resume::Overrides;
use crate::scope::Scope;
use crate::steps::given_context::PreviousRun;
use crate::steps::step::unfinished_steps;

/// Which run of which session, and where it works.
pub(crate) struct RunIdentity {
    pub(crate) session: SessionId,
    pub(crate) name: Name,
    pub(crate) run: Run,
    pub(crate) workspace: PathBuf,
}

/// What the spec and the user decided about this run.
pub(crate) struct Policy {
    pub(crate) on_change: OnChange,
    pub(crate) retry: retry::Policy,
    pub(crate) timeout: Option<Duration>,
    /// What the run does when a provider limits it and says when the limit ends.
    pub(crate) rate_limits: RateLimitPolicy,
    /// What the run does when the context of an agent is full.
    pub(crate) context_full: ContextFull,
    /// When a context is nearly full, and when it is full.
    pub(crate) context_limits: ContextLimits,
    /// Whether models receive their earlier questions and answers.
    pub(crate) has_memory: bool,
    /// Whether agents that start after a resume get the resume context.
    pub(crate) resume_context: bool,
    /// When the run compacts a model's conversation.
    pub(crate) compaction: Option<Compaction>,
    /// Names of environment variables that programs get, although they look like secrets.
    pub(crate) pass_env: Vec<String>,
}

/// What earlier runs left, and how this run continues it.
pub(crate) struct EarlierRuns {
    /// The last event that `finished` was folded from.
    pub(crate) last_event: Seq,
    pub(crate) finished: FinishedSteps,
    /// The steps that were started and not finished, with their status.
    pub(crate) unfinished: HashMap<Path, OpenStep>,
    /// Questions that no one has answered yet.
    pub(crate) open_questions: BTreeMap<Path, Question>,
    pub(crate) overrides: Overrides,
    /// The run that this one continues, if it resumes a session.
    pub(crate) previous_run: Option<PreviousRun>,
    pub(crate) saved: Mutex<Saved>,
}

impl EarlierRuns {
    /// What is left of earlier runs after the events that open this run.
    pub(crate) fn new(
        state: &State,
        mut finished: FinishedSteps,
        opening: &[Event],
        overrides: Overrides,
    ) -> Self {
        let mut unfinished = unfinished_steps(state);
        let mut open_questions = state.questions.clone();
        for event in opening {
            let Event::StepDiscarded(StepDiscarded { path, revision }) = event else {
                continue;
            };
            finished.discard(path);
            open_questions.remove(path);
            if let Some(open) = unfinished.get_mut(path) {
                *open = OpenStep::discarded(*revision, open.since);
            }
        }
        Self {
            last_event: state.head.seq,
            finished,
            unfinished,
            open_questions,
            overrides,
            previous_run: PreviousRun::of(state, opening),
            saved: Mutex::default(),
        }
    }
}

/// What this run did not repeat because earlier runs had finished it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Saved {
    /// Steps that were skipped.
    pub steps: u64,
    /// What the skipped steps had used.
    pub usage: Usage,
}

/// What bounds a run.
pub(crate) struct Limits {
    /// Bounds how many agents run at once: `max_parallel`.
    pub(crate) slots: Semaphore,
    pub(crate) max_parallel: usize,
    /// How many calls were refused because of rate limits while other steps were open.
    pub(crate) rate_limited: AtomicU32,
    pub(crate) budget: Budget,
    /// When the run pauses on its own.
    pub(crate) auto_pause: AutoPause,
    /// Held while a human is being asked, so that questions come one at a time.
    pub(crate) one_question: tokio::sync::Mutex<()>,
    /// When the inbox was last read before a step started.
    pub(crate) inbox_read_at: Mutex<Option<Duration>>,
    /// Set when a step failed: concurrent steps start nothing new.
    pub(crate) failing: AtomicBool,
}

/// What templates are rendered with.
pub(crate) struct Rendering {
    /// The variables that every template sees.
    pub(crate) scope: Scope,
    pub(crate) answers: Answers,
    pub(crate) templates: Templates,
    /// Agents whose prompt template cannot be rendered, and for which the observer already got a
    /// notice.
    pub(crate) unrendered_prompts: Mutex<BTreeSet<String>>,
}
