//! Detects what others changed in a workspace while its session had no active run.

use segno_core::digest::Digest;
use segno_core::journal::{Event, WorkspaceStatusRecorded};
use segno_core::snapshot::WorkspaceStatus;
use segno_core::state::State;

/// The workspace status in its journaled form; `None` without a git repository.
fn to_recorded(status: &WorkspaceStatus) -> Option<WorkspaceStatusRecorded> {
    let repository = status.repository.as_ref()?;
    Some(WorkspaceStatusRecorded {
        branch: repository.branch.clone(),
        commit: repository.commit.clone(),
        changed: status.changed.len() as u64,
        names: Digest::of(status.changed.join("\0").as_bytes()),
    })
}

/// The workspace status as an event, if it differs from the last recorded one.
pub fn to_event(state: &State, status: &WorkspaceStatus) -> Option<Event> {
    let seen = to_recorded(status)?;
    (state.workspace_status.as_ref() != Some(&seen)).then(|| seen.into())
}

/// The differences between the recorded and the current workspace status, in words.
pub fn drift(before: &WorkspaceStatusRecorded, status: &WorkspaceStatus) -> Vec<String> {
    let Some(now) = to_recorded(status) else {
        return vec!["it is no longer a git repository".to_owned()];
    };
    let mut drift = Vec::new();
    let named = |name: &Option<String>, none: &str| match name {
        Some(name) => name
            .get(..12)
            .filter(|_| name.len() == 40)
            .unwrap_or(name)
            .to_owned(),
        None => none.to_owned(),
    };
    if before.branch != now.branch {
        let (was, is) = (named(&before.branch, "none"), named(&now.branch, "none"));
        drift.push(format!("the branch was {was} and is now {is}"));
    }
    if before.commit != now.commit {
        let (was, is) = (named(&before.commit, "none"), named(&now.commit, "none"));
        drift.push(format!("the commit was {was} and is now {is}"));
    }
    if before.names != now.names {
        drift.push(match (before.changed, now.changed) {
            (was, is) if was == is => {
                format!("{is} files differ from the commit, but not the same files as before")
            }
            (was, is) => format!("{was} files differed from the commit; now {is} do"),
        });
    }
    drift
}

/// What others changed in the workspace since the session's last run.
pub fn since_last_run(state: &State, workspace_status: &WorkspaceStatus) -> Option<Vec<String>> {
    state
        .workspace_status
        .as_ref()
        .map(|seen| drift(seen, workspace_status))
}

#[cfg(test)]
mod tests {
    use segno_core::checkpoint::Repository;

    use super::*;

    fn status(branch: &str, changed: &[&str]) -> WorkspaceStatus {
        WorkspaceStatus {
            repository: Some(Repository {
                branch: Some(branch.into()),
                commit: Some("c".into()),
                ..Repository::default()
            }),
            changed: changed.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn drift_lists_only_differences() {
        let before = to_recorded(&status("main", &["a"])).unwrap();
        assert_eq!(
            drift(&before, &status("main", &["a"])),
            Vec::<String>::new()
        );
        assert_eq!(
            drift(&before, &status("other", &["b"])),
            [
                "the branch was main and is now other",
                "1 files differ from the commit, but not the same files as before"
            ]
        );
        assert_eq!(
            drift(&before, &WorkspaceStatus::default()),
            ["it is no longer a git repository"]
        );
    }
}
