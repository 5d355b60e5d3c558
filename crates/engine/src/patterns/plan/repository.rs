//! Prepares the repository: a branch with its own worktree, or the session's workspace.

use segno_core::step::Path;
use segno_core::worktree::{Error as GitError, Ground, Plot};
use serde_json::{Value, json};

use crate::error::Error;
use crate::flow::Flow;
use crate::spec::{Plan, Worktree};

/// The outcome of a task: its commit, if there was anything to commit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TaskCommit {
    pub(crate) commit: Option<String>,
}

/// Parses the answer of a git step.
pub(crate) fn made(text: &str) -> TaskCommit {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    TaskCommit {
        commit: value["commit"].as_str().map(str::to_owned),
    }
}

/// Prepares branch and worktree. Returns the commit that the work starts at.
pub(super) async fn begin(flow: &Flow, plan: &Plan) -> Result<String, Error> {
    let description = match &plan.worktree {
        Some(worktree) => format!("work on branch {}", worktree.branch),
        None => "work in this folder".to_owned(),
    };
    let path = Path::first("begin");
    let answer = flow
        .run_git_step(&path, &description, prepare(flow, plan))
        .await?;
    let text = flow.text(answer).await?;
    let senseless = || Error::Senseless {
        session: flow.session,
        reason: "step begin has no commit".to_owned(),
    };
    made(&text).commit.ok_or_else(senseless)
}

async fn prepare(flow: &Flow, plan: &Plan) -> Result<String, Error> {
    let worktrees = &flow.world.worktrees;
    if let Some(Worktree {
        repository,
        branch,
        commit,
    }) = plan.worktree.clone()
    {
        let answer = json!({"branch": branch, "commit": commit}).to_string();
        let folder = flow.workspace.clone();
        let plot = Plot {
            repository,
            branch,
            commit,
            folder,
        };
        worktrees.branch_off(plot).await?;
        return Ok(answer);
    }
    let Ground {
        branch,
        commit,
        changed,
        ..
    } = worktrees.survey(flow.workspace.clone()).await?;
    if !changed.is_empty() {
        let folder = flow.workspace.clone();
        return Err(GitError::Uncommitted { folder, changed }.into());
    }
    Ok(json!({"branch": branch, "commit": commit}).to_string())
}
