//! The resume context of a session, as agents of a run get it.

use segno_core::id::{Name, SessionId};
use segno_core::journal::Seq;
use segno_core::state::{FinishedSteps, State};

use super::{
    ContextInput, Fence, MAX_TOKENS, Outline, Section, compile, edited, human_notes_after, quote,
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
}

impl SessionContext<'_> {
    /// The resume context, quoted: the user's edited version, or a compiled one.
    pub(crate) async fn quoted(
        &self,
        ended: &str,
        wanted: impl Fn(Section) -> bool,
    ) -> Result<String, Error> {
        let (state, random) = (self.state, &*self.env.random);
        if let Some(edited) = edited(self.env, self.session, state).await? {
            return Ok(quote(&edited, random));
        }
        let known = ContextInput {
            name: self.name.as_str(),
            session_number: state.session_number,
            issue: self.outline.issue.as_deref(),
            tasks: &self.outline.tasks(state, Some(self.finished)),
            done: state.finished,
            handoff: &state.handoff,
            workspace_status: None,
            ended: Some(ended),
            usage: state.usage,
        };
        let resume_context = compile(&known, MAX_TOKENS).only(wanted);
        Ok(quote(&resume_context.text(), random))
    }

    /// What earlier tasks of a plan found out, for the agent of the next task: each task starts
    /// with a new conversation. The task's own input has the plan.
    pub(crate) async fn for_next_task(&self) -> Result<String, Error> {
        let shown_elsewhere = [
            Section::Session,
            Section::Issue,
            Section::Plan,
            Section::Done,
            Section::Pending,
            Section::Git,
            Section::Next,
        ];
        self.quoted("", |section| !shown_elsewhere.contains(&section))
            .await
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
