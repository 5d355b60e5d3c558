//! Prepares the repository: a branch with its own worktree, or the session's workspace.

use segno_core::step::Path;
use segno_core::worktree::{Error as GitError, NewWorktree, RepositoryInfo};
use segno_spec::{Plan, Worktree};
use serde_json::{Value, json};

use crate::error::Error;
use crate::history;
use crate::steps::Runner;

/// The outcome of a task: its commit, if there was anything to commit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskCommit {
    pub commit: Option<String>,
}

/// Parses the answer of a git step.
pub fn parse_commit(text: &str) -> TaskCommit {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    TaskCommit {
        commit: value["commit"].as_str().map(str::to_owned),
    }
}

/// Prepares branch and worktree. Returns the commit that the work starts at.
pub(super) async fn begin(runner: &Runner, plan: &Plan) -> Result<String, Error> {
    let description = match &plan.worktree {
        Some(worktree) => format!("work on branch {}", worktree.branch),
        None => "work in this folder".to_owned(),
    };
    let path = Path::root("begin");
    let answer = runner
        .run_git_step(&path, &description, prepare(runner, plan))
        .await?;
    let text = runner.text(answer).await?;
    let senseless = || history::Error::InvalidJournal {
        session: runner.id.session,
        reason: "step begin has no commit".to_owned(),
    };
    Ok(parse_commit(&text).commit.ok_or_else(senseless)?)
}

async fn prepare(runner: &Runner, plan: &Plan) -> Result<String, Error> {
    let worktrees = &runner.env.worktrees;
    if let Some(Worktree {
        repository,
        branch,
        commit,
    }) = plan.worktree.clone()
    {
        let answer = json!({"branch": branch, "commit": commit}).to_string();
        let folder = runner.id.workspace.clone();
        let plot = NewWorktree {
            repository,
            branch,
            commit,
            folder,
        };
        worktrees.create_worktree(plot).await?;
        return Ok(answer);
    }
    let RepositoryInfo {
        branch,
        commit,
        changed,
        ..
    } = worktrees.inspect(runner.id.workspace.clone()).await?;
    if !changed.is_empty() {
        let folder = runner.id.workspace.clone();
        return Err(GitError::Uncommitted { folder, changed }.into());
    }
    Ok(json!({"branch": branch, "commit": commit}).to_string())
}
