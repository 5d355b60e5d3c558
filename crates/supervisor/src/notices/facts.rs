//! What is known about a session when one of its events becomes a notice.

use std::collections::BTreeMap;

use segno_core::journal::{Event, JournalEvent, Suspension};
use segno_core::session::Kind;
use segno_core::state::State;
use segno_core::step::Path;
use segno_core::store::Summary;

/// The few facts about a session that notices need besides the event. Unlike [`State`], they can be
/// folded from the events that the observer queues, so the journal is not read a second time.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    pub name: String,
    pub kind: Kind,
    pub workspace: String,
    /// Whether a run has started and not ended.
    pub is_run_open: bool,
    /// Whether the worker started the run, and not a user.
    pub is_automatic: bool,
    /// Who asked the run to stop, and why.
    pub stop: Option<(String, Option<String>)>,
    /// The steps that wait for a limit to be lifted.
    pub limited: BTreeMap<Path, Suspension>,
}

impl Facts {
    /// The facts before the first event.
    pub fn unknown() -> Self {
        Self {
            name: String::new(),
            kind: Kind::Workflow,
            workspace: String::new(),
            is_run_open: false,
            is_automatic: false,
            stop: None,
            limited: BTreeMap::new(),
        }
    }

    /// The facts about a stored session. `is_run_open` says whether its newest run has not ended.
    pub fn of_summary(summary: &Summary, is_run_open: bool) -> Self {
        Self {
            name: summary.name.to_string(),
            kind: summary.kind,
            workspace: summary.workspace.clone(),
            is_run_open,
            ..Self::unknown()
        }
    }

    /// The facts in a folded state.
    pub fn of_state(state: &State) -> Self {
        let limited = state.open_steps.iter().filter_map(|(path, open)| {
            let (provider, until) = (open.limited_by.clone()?, open.not_before?);
            Some((path.clone(), Suspension { provider, until }))
        });
        let (name, kind, workspace) = match &state.created {
            Some(created) => (
                created.name.to_string(),
                created.kind,
                created.workspace.clone(),
            ),
            None => (String::new(), Kind::Workflow, String::new()),
        };
        Self {
            name,
            kind,
            workspace,
            is_run_open: state.status == segno_core::session::Status::Running,
            is_automatic: false,
            stop: None,
            limited: limited.collect(),
        }
    }

    /// Applies the next event.
    pub fn apply(&mut self, entry: &JournalEvent) {
        match &entry.event {
            Event::SessionCreated(event) => {
                self.name = event.name.to_string();
                self.kind = event.session_kind;
                self.workspace.clone_from(&event.workspace);
            }
            Event::SessionMoved(event) => self.workspace.clone_from(&event.workspace),
            Event::RunStarted(_) => {
                self.is_run_open = true;
                self.stop = None;
            }
            Event::RunEnded(_) | Event::RunLost(_) => self.is_run_open = false,
            Event::StopRequested(event) => {
                self.stop = Some((event.by.clone(), event.reason.clone()));
            }
            Event::StepFailed(event) => {
                if let Some(suspension) = &event.suspended {
                    self.limited.insert(event.path.clone(), suspension.clone());
                }
            }
            Event::StepStarted(event) => {
                self.limited.remove(&event.path);
            }
            _ => {}
        }
    }
}
