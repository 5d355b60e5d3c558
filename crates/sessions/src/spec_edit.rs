//! What an edit of its spec means for a session, and whether a resume may use the edited spec.
//!
//! By default, no answer ends up under another question: if a finished step without an `id` would
//! lose its position to another step, the resume is refused, and the user chooses. What the edited
//! spec would start or reach and the recorded one does not needs consent, because an agent may have
//! written the file.
//!
//! A change that is accepted is journaled with everything that it discards in one transaction, so a
//! crash leaves either the recorded spec or the edited one with its consequences.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use segno_core::error::{Diagnose, Diagnosis, Kind, join_shown};
use segno_core::id::Name;
use segno_core::journal::{Event, OnChange, StepDiscarded};
use segno_core::state::{FinishedSteps, State};
use segno_core::step::Path;
use segno_spec::{Change, Problems, StepChange, Workflow, changed_steps, outline_path, startable};

use crate::start::fault;

/// Why an edited spec is not used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The policy for edited specs is to refuse.
    #[error("the spec was edited since session `{name}` last ran; it changes {what}")]
    Edited { name: Name, what: String },
    /// It has other steps in the places of finished ones.
    #[error("the edited spec has other steps where session `{name}` has finished ones: {}", join_shown(.steps))]
    Displaced { name: Name, steps: Vec<String> },
    /// It would start or reach what the recorded spec does not.
    #[error("the spec of session `{name}` was edited and would now use {}", join_shown(.added))]
    StartsOthers { name: Name, added: Vec<String> },
    #[error("{} {}", .path.display(), fault(.problems))]
    Invalid {
        name: Name,
        path: PathBuf,
        #[source]
        problems: Problems,
    },
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Edited { name, .. } => Diagnosis::new(Kind::Changed, "R0104").hint(format!(
                "choose what happens with `segno resume {name} --on-change warn|rerun|pinned`"
            )),
            Self::Displaced { name, .. } => Diagnosis::new(Kind::Changed, "R0104").hint(format!(
                "`segno resume {name} --on-change rerun` runs again what has another question now, `--on-change warn` keeps results by position, `--on-change pinned` continues with the spec as it was"
            )),
            Self::StartsOthers { name, .. } => {
                Diagnosis::new(Kind::NeedsUser, "R0119").hint(format!(
                    "if you made this edit, `segno resume {name} --yes`; `segno resume {name} --on-change pinned` continues with the spec as it was"
                ))
            }
            Self::Invalid { name, problems, .. } => problems.diagnosis().hint(format!(
                "correct it, or `segno resume {name} --on-change pinned` continues with the spec as it was"
            )),
        }
    }
}

/// Which programs, servers, services and tools an edited spec may add.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Consent {
    /// None: the resume is refused.
    #[default]
    None,
    /// Those that the user was shown.
    To(Vec<String>),
    All,
}

/// The differences between the recorded spec of a session and its edited spec.
#[derive(Debug)]
pub(crate) struct SpecEdit {
    changes: Vec<StepChange>,
    /// Whether anything that a run depends on differs.
    changes_workflow: bool,
    /// The changed steps that are finished.
    has_finished: bool,
    /// The finished steps that the edit takes the place of, in words.
    displaced: Vec<String>,
    /// What is unfinished and now asks something else.
    unfinished: Vec<StepDiscarded>,
    /// Answers of humans to questions that now ask something else.
    answered: Vec<StepDiscarded>,
    /// What the edited spec may start or reach and the recorded one may not.
    added: Vec<String>,
}

impl SpecEdit {
    pub(crate) fn new(
        old: &Workflow,
        new: &Workflow,
        state: &State,
        finished: &FinishedSteps,
    ) -> Self {
        let changes = changed_steps(old, new);
        let index = Index::new(&changes);
        let mut touched = BTreeSet::new();
        let mut answered = Vec::new();
        for (path, step) in finished.iter() {
            let Some(position) = index.find(path) else {
                continue;
            };
            touched.insert(position);
            if step.agent == FinishedSteps::USER && changes[position].asks_other {
                let (path, revision) = (path.clone(), step.revision);
                answered.push(StepDiscarded { path, revision });
            }
        }
        let asks_other = |path: &Path| {
            let position = index.find(path);
            position.is_some_and(|position| changes[position].asks_other)
        };
        let open = state.open_steps.iter();
        let unfinished = open
            .map(|(path, open)| (path, open.revision))
            .chain(state.questions.keys().map(|path| (path, 0)))
            .filter(|(path, _)| asks_other(path))
            .map(|(path, revision)| StepDiscarded {
                path: path.clone(),
                revision,
            })
            .collect();
        answered.sort_by(|a, b| a.path.cmp(&b.path));
        let displaced = touched.iter().filter_map(|at| displaced(&changes[*at]));
        let (before, now) = (startable(old), startable(new));
        Self {
            changes_workflow: !changes.is_empty() || !is_same_apart_from_words(old, new),
            has_finished: !touched.is_empty(),
            displaced: displaced.collect(),
            unfinished,
            answered,
            added: now.difference(&before).cloned().collect(),
            changes,
        }
    }

    /// Refuses the edit if the user has to decide about it.
    pub(crate) fn check(
        &self,
        name: &Name,
        on_change: Option<OnChange>,
        consent: &Consent,
    ) -> Result<(), Error> {
        if on_change == Some(OnChange::Fail) && self.changes_workflow {
            return Err(Error::Edited {
                name: name.clone(),
                what: self.what(),
            });
        }
        if on_change.is_none() && !self.displaced.is_empty() {
            return Err(Error::Displaced {
                name: name.clone(),
                steps: self.displaced.clone(),
            });
        }
        let is_accepted = |added: &String| match consent {
            Consent::None => false,
            Consent::To(known) => known.contains(added),
            Consent::All => true,
        };
        if !self.added.iter().all(is_accepted) {
            return Err(Error::StartsOthers {
                name: name.clone(),
                added: self.added.clone(),
            });
        }
        Ok(())
    }

    /// What a user is told about the edit of the spec in `file`.
    pub(crate) fn describe(&self, file: &str, policy: OnChange) -> String {
        let mut text = format!("{file} was edited since this session last ran; ");
        if self.changes_workflow {
            text.push_str("it changes ");
            text.push_str(&self.what());
        } else {
            text.push_str("only comments, formatting or descriptions changed");
        }
        if self.has_finished {
            text.push_str(match policy {
                OnChange::Rerun => "; finished steps among them run again",
                _ => "; finished steps among them keep their results",
            });
        }
        text
    }

    /// The changed steps, in words.
    pub(crate) fn steps(&self) -> Vec<String> {
        self.changes.iter().map(describe).collect()
    }

    pub(crate) fn into_paths(self) -> Vec<Path> {
        let changes = self.changes.into_iter();
        changes.map(|change| change.path).collect()
    }

    /// Whether the unfinished step at `path` starts again, because it asks something else now.
    pub(crate) fn discards(&self, path: &Path) -> bool {
        self.unfinished.iter().any(|event| event.path == *path)
    }

    /// What no longer counts if the edited spec is used.
    pub(crate) fn discarded(&self, policy: OnChange) -> Vec<Event> {
        let answered = match policy {
            OnChange::Rerun => self.answered.as_slice(),
            // The user decided that finished steps keep their results.
            _ => &[],
        };
        let discarded = self.unfinished.iter().chain(answered);
        discarded.map(|event| event.clone().into()).collect()
    }

    fn what(&self) -> String {
        match self.changes.as_slice() {
            [] => "no step, but settings of the workflow".to_owned(),
            _ => self.steps().join(", "),
        }
    }
}

/// Finds the change of the step that a recorded path belongs to.
struct Index<'a>(HashMap<&'a str, usize>);

impl<'a> Index<'a> {
    fn new(changes: &'a [StepChange]) -> Self {
        let paths = changes.iter().map(|change| change.path.as_str());
        Self(paths.zip(0..).collect())
    }

    fn find(&self, path: &Path) -> Option<usize> {
        if self.0.is_empty() {
            return None;
        }
        let whole = outline_path(path);
        let mut part = whole.as_str();
        loop {
            if let Some(position) = self.0.get(part) {
                return Some(*position);
            }
            part = part.rsplit_once('/')?.0;
        }
    }
}

fn describe(change: &StepChange) -> String {
    let path = &change.path;
    match &change.change {
        Change::Changed => path.to_string(),
        Change::Replaced { now: Some(now) } | Change::Removed { now: Some(now) } => {
            format!("{path} (now {now})")
        }
        Change::Replaced { now: None } => format!("{path} (asks something else)"),
        Change::Added => format!("{path} (added)"),
        Change::Removed { now: None } => format!("{path} (removed)"),
    }
}

/// How a finished step lost its path, if it did. The answer of a step that the edit removes is used
/// nowhere, so nothing has to be decided about it.
fn displaced(change: &StepChange) -> Option<String> {
    match &change.change {
        Change::Replaced { .. } | Change::Removed { now: Some(_) } => Some(describe(change)),
        Change::Changed | Change::Added | Change::Removed { now: None } => None,
    }
}

/// Whether two workflows differ at most in what people read.
fn is_same_apart_from_words(old: &Workflow, new: &Workflow) -> bool {
    let plain = |workflow: &Workflow| Workflow {
        name: String::new(),
        description: None,
        tags: Vec::new(),
        ..workflow.clone()
    };
    plain(old) == plain(new)
}
