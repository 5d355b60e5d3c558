//! Records the git status of the workspace where it changed, so that a later run notices what others
//! changed in between. A run that is killed leaves the status at its last finished step.

use segno_core::journal::Event;
use segno_core::tool::EffectClass;

use super::Runner;
use super::agents::SCRIPTED;
use super::step::Step;
use super::toolset::Toolset;
use crate::env::AgentDriver;
use crate::resume::drift;
use crate::workspace;

impl Step<'_> {
    /// Whether the step's agent may change files: reading the status takes longer than the shortest
    /// steps, so steps that change none do without.
    pub(super) fn may_change_files(&self) -> bool {
        let is_effectful = |toolset: &Toolset, tool: &str| {
            self.class(toolset, tool) == Some(EffectClass::Effectful)
        };
        match self.driver {
            AgentDriver::CliAgent(_) => true,
            AgentDriver::Stateless(_) => self.provider_name != SCRIPTED,
            AgentDriver::Model(_) => self.toolset.is_some_and(|toolset| {
                !toolset
                    .offered(|tool| is_effectful(toolset, tool))
                    .is_empty()
            }),
        }
    }
}

impl Runner {
    /// Whether this run records the workspace status at all: where all agents are scripted, nobody
    /// works in the workspace.
    pub(crate) fn records_workspace(&self) -> bool {
        self.agents.work_in_workspace() || self.earlier.overrides.agent.is_some()
    }

    /// Journals the workspace status, if it differs from the last recorded one.
    pub(crate) async fn record_workspace_status(&self) {
        if let Some(event) = self.changed_workspace_status().await {
            self.journal.enqueue(event).await;
        }
    }

    /// The workspace status as an event, if it differs from the last recorded one.
    pub(crate) async fn changed_workspace_status(&self) -> Option<Event> {
        let status = workspace::workspace_status(&self.env, &self.id.workspace, None).await;
        self.journal
            .with_state(|state| drift::to_event(state, &status))
    }
}
