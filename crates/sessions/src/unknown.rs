//! Steps with an unknown outcome, and what users say about them.
//!
//! A step that was in flight when its run was lost has an unknown outcome. A user can say what
//! happened: the step took effect and has this result, it did not take effect, or it is to run again.
//! What they say is checked like an agent's answer before anything is written, and journaled with who
//! said it. The next run takes it as the end of the attempt.

use segno_core::error::{Diagnose, Diagnosis, Kind, join_shown};
use segno_core::id::{Name, SessionId};
use segno_core::journal::{Event, RunLost, StepOutcome, StepResolved};
use segno_core::session::Status;
use segno_core::state::{AttemptStatus, OpenStep, State};
use segno_core::step::Path;
use segno_core::store::Error as StoreError;
use segno_engine::steps::GIT;
use segno_engine::{Env, Human, journal, patterns, steps};
use segno_spec::Workflow;

use crate::ListedSession;

/// The longest result that a user can give, like the longest answer of an agent.
pub const MAX_RESULT_BYTES: usize = 16 * 1024 * 1024;

/// What a user says about a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The step; it may be absent if only one has an unknown outcome.
    pub step: Option<Path>,
    pub said: Said,
}

/// What a user says that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// It took effect, and this is its result.
    Done(String),
    /// It did not take effect, or failed, for this reason; the text may be empty.
    Failed(String),
    /// It runs again, whatever the policy is.
    Repeat,
}

/// What one user says.
#[derive(Debug, Clone, Copy)]
pub struct Decisions<'a> {
    pub by: &'a str,
    pub decisions: &'a [Decision],
}

/// Why nobody can say what a user wants to say.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Neither a step that was named, nor any other.
    #[error("no step of session `{name}` has an unknown outcome{}", .step.as_ref().map_or(String::new(), |step| format!(" at {step}")))]
    NotUnknown {
        name: Name,
        step: Option<Path>,
        unknown: Vec<Path>,
    },
    #[error("several steps of session `{name}` have an unknown outcome: {}", join_shown(.steps))]
    Several { name: Name, steps: Vec<Path> },
    #[error("the result cannot be that of step {step}: {reason}")]
    Unusable {
        name: Name,
        step: Path,
        reason: String,
    },
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::NotUnknown { name, unknown, .. } => {
                let hint = match &unknown[..] {
                    [] => format!("`segno show {name}` shows its steps"),
                    steps => format!("these have: {}", join_shown(steps)),
                };
                Diagnosis::new(Kind::Conflict, "R0164").hint(hint)
            }
            Self::Several { name, steps } => {
                let first = steps.first().map(ToString::to_string).unwrap_or_default();
                Diagnosis::new(Kind::Invalid, "R0165").hint(format!(
                    "say which one, for example `segno resume {name} --step {first} --in-flight failed`"
                ))
            }
            Self::Unusable { name, step, .. } => Diagnosis::new(Kind::Invalid, "R0166").hint(format!(
                "nothing was written; `segno resume {name} --step {step} --in-flight done --result @FILE` gives another one"
            )),
        }
    }
}

/// The steps of a session without an active run whose outcome nobody knows. Git steps are not among
/// them: they find out by themselves.
pub fn unknown_steps(state: &State) -> impl Iterator<Item = (&Path, &OpenStep)> {
    let open = state.open_steps.iter();
    open.filter(|(path, open)| open.is_unknown() && !is_git_step(path, open))
}

/// Whether Segno itself runs the step: it checks whether it took effect before it runs again.
fn is_git_step(path: &Path, open: &OpenStep) -> bool {
    let place: Vec<&str> = path.as_str().split('/').collect();
    open.agent == GIT && matches!(place[..], ["begin"] | ["tasks", _, "commit"])
}

/// The commands that resolve a step with an unknown outcome: it took effect, it did not, or it runs
/// again.
pub fn commands(name: &Name, step: &Path, is_only: bool) -> [String; 3] {
    let which = if is_only {
        String::new()
    } else {
        format!(" --step {step}")
    };
    [
        format!("segno resume {name}{which} --in-flight done --result TEXT"),
        format!("segno resume {name}{which} --in-flight failed"),
        format!("segno resume {name} --in-flight repeat"),
    ]
}

/// A step whose outcome only a user can say, with the commands that do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unresolved {
    pub path: Path,
    pub commands: [String; 3],
}

/// The steps of a session whose outcome only a user can say. There are none while a run is active, and
/// a chat needs no decision: its user can say something else.
pub fn unresolved(listed: &ListedSession, state: &State) -> Vec<Unresolved> {
    if listed.status == Status::Running || listed.status.is_final() || state.chat.is_some() {
        return Vec::new();
    }
    let is_only = unknown_steps(state).nth(1).is_none();
    let steps = unknown_steps(state).map(|(path, _)| Unresolved {
        path: path.clone(),
        commands: commands(&listed.summary.name, path, is_only),
    });
    steps.collect()
}

/// A decision that fits its session.
pub struct Checked<'a> {
    pub path: &'a Path,
    open: &'a OpenStep,
    pub outcome: Option<StepOutcome>,
    /// Without secrets (P12).
    text: String,
    by: String,
}

/// Checks what users say. `env` is that of the workflow. Writes nothing.
pub fn check<'a>(
    env: &Env,
    name: &Name,
    workflow: &Workflow,
    state: &'a State,
    Decisions { by, decisions }: Decisions<'_>,
) -> Result<Vec<Checked<'a>>, Error> {
    let check_one = |decision: &Decision| {
        let (path, open) = choose(name, state, decision.step.as_ref())?;
        let (outcome, text) = match &decision.said {
            Said::Done(text) => (Some(StepOutcome::Done), text.as_str()),
            Said::Failed(text) => (Some(StepOutcome::Failed), text.as_str()),
            Said::Repeat => (None, ""),
        };
        let unusable = |reason: String| Error::Unusable {
            name: name.clone(),
            step: path.clone(),
            reason,
        };
        if text.len() > MAX_RESULT_BYTES {
            return Err(unusable(format!(
                "it has more than {MAX_RESULT_BYTES} bytes"
            )));
        }
        let text = env.redactor.redact(text).into_owned();
        if outcome == Some(StepOutcome::Done) {
            patterns::check_result(workflow, path, &text).map_err(unusable)?;
        }
        Ok(Checked {
            path,
            open,
            outcome,
            text,
            by: env.redactor.redact(by).into_owned(),
        })
    };
    decisions.iter().map(check_one).collect()
}

/// The step that a decision is about. A decision that no run has taken yet can be changed.
fn choose<'a>(
    name: &Name,
    state: &'a State,
    step: Option<&Path>,
) -> Result<(&'a Path, &'a OpenStep), Error> {
    let unknown: Vec<_> = unknown_steps(state).collect();
    let paths = || unknown.iter().map(|(path, _)| (*path).clone()).collect();
    let named = step.and_then(|step| state.open_steps.get_key_value(step));
    match (step, &unknown[..]) {
        (None, [one]) => Ok(*one),
        (None, [_, _, ..]) => Err(Error::Several {
            name: name.clone(),
            steps: paths(),
        }),
        _ => named
            .filter(|(path, open)| open.can_be_resolved() && !is_git_step(path, open))
            .ok_or_else(|| Error::NotUnknown {
                name: name.clone(),
                step: step.cloned(),
                unknown: paths(),
            }),
    }
}

/// The events of decisions, with long texts stored. Where a step is to run again, there is none.
pub(crate) async fn to_events(
    env: &Env,
    checked: Vec<Checked<'_>>,
) -> Result<Vec<StepResolved>, Error> {
    let mut events = Vec::new();
    for Checked {
        path,
        open,
        outcome,
        text,
        by,
    } in checked
    {
        let Some(outcome) = outcome else {
            continue;
        };
        let (text, _) = journal::redact_and_store(env, &text).await?;
        events.push(StepResolved {
            path: path.clone(),
            revision: open.revision,
            attempt: open.attempt,
            outcome,
            text,
            by,
        });
    }
    Ok(events)
}

/// What users said in earlier runs, or between runs, that no run has taken yet.
pub(crate) async fn recorded(
    env: &Env,
    session: SessionId,
    state: &State,
) -> Result<Vec<StepResolved>, StoreError> {
    let mut found = Vec::new();
    for open in state.open_steps.values() {
        if let AttemptStatus::Resolved(seq) = open.status
            && let Event::StepResolved(event) = env.store.event(session, seq).await?.event
        {
            found.push(event);
        }
    }
    Ok(found)
}

/// The events with which a session gets to a state in which users can say what happened: its run was
/// lost, and nobody has recorded that.
pub(crate) fn loss(state: &State) -> Vec<Event> {
    if state.status != Status::Running {
        return Vec::new();
    }
    let mut events = vec![RunLost { lost: state.run }.into()];
    events.extend(steps::unknown_step_events(state));
    events
}

/// Asks the user at the terminal about each step. Ends with the first step that they say nothing
/// about.
pub(crate) async fn ask(human: &dyn Human, steps: &[Path]) -> Vec<Decision> {
    let mut decisions = Vec::new();
    for step in steps {
        let Some(said) = ask_about(human, step).await else {
            break;
        };
        decisions.push(Decision {
            step: Some(step.clone()),
            said,
        });
    }
    decisions
}

async fn ask_about(human: &dyn Human, step: &Path) -> Option<Said> {
    let question = format!(
        "The run was lost while step {step} was in flight. What happened? `done`: it took effect; `failed`: it did not; `repeat`: run it again; anything else stops."
    );
    let answer = human.ask(&question, None).await?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "done" => {
            let question = format!("What is the result of step {step}?");
            Some(Said::Done(human.ask(&question, None).await?))
        }
        "failed" => {
            let question = "What went wrong? (may be empty)";
            Some(Said::Failed(human.ask(question, None).await?))
        }
        "repeat" => Some(Said::Repeat),
        _ => None,
    }
}
