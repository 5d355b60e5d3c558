//! Hints: what the user can do about an error. A hint is true and names a command that can be
//! typed.

use segno_core::error::Diagnose;
use segno_core::id::Name;

use super::{Error, NoWaitReason, Relation};

/// The hint for `error`, if there is one.
pub(super) fn hint_for(error: &Error) -> Option<String> {
    Some(match error {
            Error::Store(error) => return error.hint(),
            Error::Snapshot(error) => return error.hint(),
            Error::Worktree(error) => return error.hint(),
            Error::InvalidPlan { .. } => {
                "write each task as `- [ ] T2: TITLE (after T1)`; nothing was started".into()
            }
            Error::Remote(error) => return error.hint(),
            Error::Chat(error) => return error.hint(),
            Error::NoRemote => {
                "set `url` in section `[remote]` of config.toml to `s3://BUCKET/PREFIX` or `file:///FOLDER`"
                    .into()
            }
            Error::NotInRemote { .. } => "`segno checkpoint list --remote` lists the checkpoints of the remote".into(),
            Error::NoSuchCheckpoint { reference } if reference.contains('/') => {
                "`segno checkpoint list --all` lists all checkpoints; use `--before` to name a step".into()
            }
            Error::NoSuchCheckpoint { .. } => "`segno checkpoint list --all` lists all checkpoints".into(),
            Error::AmbiguousCheckpoint { .. } => "give more characters of the id".into(),
            Error::UntrustedTarget { workspace, .. } => format!(
                "use `--into FOLDER` to choose the folder, or `--trust` to restore into {workspace}"
            ),
            Error::RestoreWhileRunning { name, .. } => {
                format!(
                    "restore into another folder with `--into FOLDER`, or cancel the session first: `segno cancel {name}`"
                )
            }
            Error::InvalidCheckpointFolder { .. } => {
                "export the checkpoint again; if this folder was transferred, compare the two".into()
            }
            Error::WriteFailed { .. } => "use `--to FOLDER` to write to another folder".into(),
            Error::Variables { problems, .. } => return problems.hint(),
            Error::Template { error, .. } => return error.hint(),
            Error::NoSuchSession { .. } => "`segno sessions list --all` lists all sessions".into(),
            Error::Ambiguous { .. } => "give more characters of the id, or the full name".into(),
            Error::NoRunningSession { .. } => "`segno status` shows the running sessions".into(),
            Error::NotRunning { name, status } if status.is_resumable() => {
                format!("`segno resume {name}` continues it")
            }
            Error::NothingToResume { .. } | Error::NoSessionInFolder { .. } => {
                "`segno sessions list --all` lists the sessions of all folders".into()
            }
            Error::LeaseHeld { name, .. } => {
                format!("`segno logs -f {name}` follows it, `segno cancel {name}` cancels it")
            }
            Error::SessionEnded { name, .. } => format!(
                "`segno fork {name}` makes a copy that can be resumed; `segno run` starts a new session"
            ),
            Error::NoSuchStep { name, .. } => {
                format!("`segno show {name} --all` lists every started step")
            }
            Error::DeleteWhileRunning { name, .. } => format!("cancel it first: `segno cancel {name}`"),
            Error::InTrash { name, .. } => {
                format!("`segno sessions restore {name}` restores it")
            }
            Error::NotInTrash { .. } => "`segno sessions trash` lists the sessions in the trash".into(),
            Error::InvalidSessionFile { .. } => {
                "export the session again; if this file was transferred, compare the two".into()
            }
            Error::SessionExists {
                session,
                name,
                relation,
                ..
            } => match relation {
                Relation::Behind => format!(
                    "run `segno sessions delete {session} --permanent`, then import again: the file has all of its events"
                ),
                Relation::InTrash => format!(
                    "run `segno sessions restore {session}`, or `segno sessions delete {session} --permanent` and import again"
                ),
                Relation::Same | Relation::Ahead => {
                    format!("nothing needs to be imported; `segno show {name}` shows the session")
                }
                Relation::Diverged => return None,
            },
            Error::Step { name, error, .. } if error.hint.is_some() => {
                let hint = error.hint.unwrap_or_default();
                format!("{hint}; then `segno resume {name}`")
            }
            Error::Step { name, error, .. } if !error.kind.is_transient() => {
                format!(
                    "fix the cause, then `segno resume {name}`: finished steps do not run again"
                )
            }
            Error::Step { name, .. } => {
                format!("`segno resume {name}` retries from this step")
            }
            Error::Stopped { status, name, .. } if status.is_resumable() => {
                format!("`segno resume {name}` continues the session")
            }
            Error::NoKey { variable, .. } => format!(
                "set `{variable}`; Segno never reads keys from a spec, so that they are not stored"
            ),
            Error::NoSecret { .. } => {
                "set it; Segno never reads secrets from a spec, so that they are not stored"
                    .into()
            }
            Error::NoPrice { model } => format!(
                "set it in config.toml, in dollars per million tokens: `[prices.\"{model}\"]`, `input = 3`, `output = 15`; or limit `max_tokens` instead"
            ),
            Error::McpServerFailed { .. } => {
                "start the server by hand to see its output; nothing was started and nothing was charged"
                    .into()
            }
            Error::WaitingForHuman { name, path, .. } => format!(
                "answer with `segno answer {name} --step {path} TEXT`, then `segno resume {name}`"
            ),
            Error::AnswerTimeout { name, .. } => {
                format!("you can still answer with `segno answer {name} TEXT`, then `segno resume {name}`")
            }
            Error::AmbiguousQuestion { name, .. } => {
                format!("choose one with `segno answer {name} --step STEP TEXT`")
            }
            Error::NoOpenQuestion { name, .. } => {
                format!("`segno show {name}` shows its state")
            }
            Error::UnusableAnswer { name, .. }
            | Error::TooManyVisits { name, .. }
            | Error::InvalidInput { name, .. } => format!(
                "fix the prompt or the spec, then `segno resume {name}`: finished steps do not run again"
            ),
            Error::BelowScore { name, .. } => format!(
                "raise `max_iters` or lower `min_score` in the spec, then `segno resume {name}`"
            ),
            Error::Budget { name, what, .. } => format!(
                "raise `{what}` in the spec, then `segno resume {name}`: finished steps do not run again"
            ),
            Error::DiskFull { name } => format!("free disk space, then `segno resume {name}`"),
            Error::UnknownOutcome { name, .. } => {
                format!("check whether it took effect; `segno resume {name} --in-flight repeat` runs it again")
            }
            Error::SpecChanged { name, .. } => format!(
                "choose what happens with `segno resume {name} --on-change warn|rerun|pinned`"
            ),
            Error::ContextFull { name, .. } => format!(
                "`segno resume {name}` continues in a new conversation with a resume context"
            ),
            Error::Suspended { name, why, .. } => hint_for_rate_limit(name, *why),
            Error::WorkspaceDrifted { name, .. } => format!(
                "`segno resume {name} --on-drift warn` continues and tells the agent the current state"
            ),
            Error::NoSuchAgent { .. } => {
                "use `claude`, `codex`, or an agent of the spec".into()
            }
            Error::NoSuchNote { name, standing, .. } if standing.is_empty() => {
                format!("`segno note list {name} --all` lists all notes")
            }
            Error::NoSuchNote { standing, .. } => {
                let standing: Vec<String> = standing.iter().map(ToString::to_string).collect();
                format!("current notes: {}", standing.join(", "))
            }
            Error::NoteNotEditable { note } => {
                format!("write a new note that corrects it, or ask the user to run `segno note correct {note}`")
            }
            Error::ResumeContextTooLong { .. } => "shorten it; omit what the agent can find in the files".into(),
            Error::InvalidNote { .. } => "describe what happened in one or two sentences".into(),
            Error::OptionWithoutEffect { name, .. } => format!("`segno resume {name}` resumes without the option"),
            Error::CheckpointOfOtherSession { name, .. } => {
                format!("`segno checkpoint list {name}` lists the checkpoints of this session")
            }
            Error::FolderTaken { .. } => "choose another folder: `--into FOLDER`".into(),
            Error::WorkspaceMissing { name, .. } => format!(
                "if you moved it, run `segno sessions move {name} FOLDER`; nothing was started"
            ),
            Error::InvalidFolder { .. } => "use an existing folder, or create it first".into(),
            Error::ArtifactExists { .. } => {
                "move the file away, or run with `--force` or another `--out`".into()
            }
            Error::InvalidJournal { .. } | Error::InvalidStoredSpec { .. } => {
                "`segno doctor` lists all damage".into()
            }
            _ => return None,
        })
}

/// The hint for a rate limit that the run does not wait for.
fn hint_for_rate_limit(name: &Name, why: NoWaitReason) -> String {
    let resume = format!(
        "after that, `segno resume {name}` continues; `--on-limit ask` sends a request now"
    );
    match why {
        NoWaitReason::MaxWait(_) => format!("{resume}; or raise `max_wait_s` in the spec"),
        NoWaitReason::MaxTotalWait(_) => {
            format!("{resume}; or raise `max_total_wait_s` in the spec")
        }
        NoWaitReason::Pause | NoWaitReason::TooManyWaits(_) => resume,
    }
}
