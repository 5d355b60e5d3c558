//! The resume context of a session, as agents of a run get it.

use segno_core::id::{Name, SessionId};
use segno_core::journal::Seq;
use segno_core::snapshot::WorkspaceStatus;
use segno_core::state::{FinishedSteps, State};

use super::{
    ContextInput, Fence, MAX_TOKENS, Outline, ResumeContext, Section, compile, edited,
    human_notes_after, quote,
};
use crate::env::Env;
use crate::error::Error;

/// What the resume context of a session is compiled from.
pub(crate) struct SessionContext<'a> {
    pub(crate) env: &'a Env,
    pub(crate) session: SessionId,
    pub(crate) name: &'a Name,
    pub(crate) outline: &'a Outline,
    pub(crate) finished: &'a FinishedSteps,
    pub(crate) state: &'a State,
    /// Whether the agent has Segno's MCP tools.
    pub(crate) has_tools: bool,
}

impl SessionContext<'_> {
    /// The resume context, quoted: the user's edited version, or a compiled one. `ended` says why
    /// the work stopped. The git status is omitted if the agent gets it elsewhere.
    pub(crate) async fn quoted(
        &self,
        ended: Option<&str>,
        workspace_status: Option<&WorkspaceStatus>,
    ) -> Result<String, Error> {
        let random = &*self.env.random;
        if let Some(edited) = edited(self.env, self.session, self.state).await? {
            return Ok(quote(&edited, random));
        }
        let compiled = self.compile(ended, workspace_status).text();
        Ok(quote(&self.env.redactor.redact(&compiled), random))
    }

    fn compile(
        &self,
        ended: Option<&str>,
        workspace_status: Option<&WorkspaceStatus>,
    ) -> ResumeContext {
        let state = self.state;
        let progress = self.outline.progress(state, Some(self.finished));
        let known = ContextInput {
            name: self.name.as_str(),
            session_number: state.session_number,
            issue: self.outline.issue.as_deref(),
            tasks: &progress.tasks,
            done: progress.done,
            handoff: &state.handoff,
            workspace_status,
            ended,
            usage: state.usage,
            has_tools: self.has_tools,
        };
        compile(&known, MAX_TOKENS)
    }

    /// What earlier tasks of a plan found out, for the agent of the next task: each task starts
    /// with a new conversation. The task's own input has the plan.
    pub(crate) fn for_next_task(&self) -> String {
        let shown_elsewhere = [
            Section::Session,
            Section::Issue,
            Section::Plan,
            Section::Done,
            Section::Pending,
            Section::Next,
        ];
        let compiled = self.compile(None, None);
        let text = compiled
            .only(|section| !shown_elsewhere.contains(&section))
            .text();
        quote(&self.env.redactor.redact(&text), &*self.env.random)
    }

    /// What an agent that continues its own conversation must learn: notes that people added since
    /// event `opened`, or the edited resume context. Empty if there is nothing.
    pub(crate) async fn new_notes(&self, opened: Seq) -> Result<String, Error> {
        let text = match edited(self.env, self.session, self.state).await? {
            Some(edited) => edited,
            None => human_notes_after(&self.state.handoff, opened).join("\n"),
        };
        if text.is_empty() {
            return Ok(text);
        }
        let fence = Fence::new(&*self.env.random);
        let quoted = fence.quote("notes", text.trim_end());
        Ok(format!(
            "The user added these notes for you meanwhile:\n\n{quoted}\n"
        ))
    }
}
