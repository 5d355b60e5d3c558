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
                "a task is a line `- [ ] T2: TITLE (after T1)`; nothing was begun".into()
            }
            Error::Remote(error) => return error.hint(),
            Error::Chat(error) => return error.hint(),
            Error::NoRemote => {
                "set `url` in the section `[storage]` of config.toml: `s3://BUCKET/PREFIX` or `file:///FOLDER`"
                    .into()
            }
            Error::NotInRemote { .. } => "`segno checkpoint list --remote` shows what is there".into(),
            Error::NoSuchCheckpoint { reference } if reference.contains('/') => {
                "`segno checkpoint list --all` shows them all; `--before` names a step".into()
            }
            Error::NoSuchCheckpoint { .. } => "`segno checkpoint list --all` shows them all".into(),
            Error::AmbiguousCheckpoint { .. } => "give more of the id".into(),
            Error::UntrustedTarget { workspace, .. } => format!(
                "`--into FOLDER` puts them there; `--trust` puts them into {workspace}, as it says"
            ),
            Error::RestoreWhileRunning { name, .. } => {
                format!(
                    "stop it first, or restore elsewhere with `--into FOLDER`: `segno cancel {name}`"
                )
            }
            Error::InvalidCheckpointFolder { .. } => {
                "export the checkpoint again, and compare the two if this one was carried".into()
            }
            Error::WriteFailed { .. } => "`--to FOLDER` names another place".into(),
            Error::Variables { problems, .. } => return problems.hint(),
            Error::Template { error, .. } => return error.hint(),
            Error::NoSuchSession { .. } => "`segno sessions list --all` shows them all".into(),
            Error::Ambiguous { .. } => "give more of the id, or the whole name".into(),
            Error::NoRunningSession { .. } => "`segno status` shows what is running".into(),
            Error::NotRunning { name, status } if status.is_resumable() => {
                format!("`segno resume {name}` goes on with it")
            }
            Error::NothingToResume { .. } | Error::NoSessionInFolder { .. } => {
                "`segno sessions list --all` shows those of other folders".into()
            }
            Error::LeaseHeld { name, .. } => {
                format!("`segno logs -f {name}` watches it, `segno cancel {name}` ends it")
            }
            Error::SessionEnded { name, .. } => format!(
                "`segno sessions fork {name}` makes a copy that goes on; `segno run` starts anew"
            ),
            Error::NoSuchStep { name, .. } => {
                format!("`segno sessions show {name} --all` shows every step that was begun")
            }
            Error::DeleteWhileRunning { name, .. } => format!("`segno cancel {name}` ends it first"),
            Error::InTrash { name, .. } => {
                format!("`segno sessions restore {name}` brings it back")
            }
            Error::NotInTrash { .. } => "`segno sessions trash` shows what is in it".into(),
            Error::InvalidSessionFile { .. } => {
                "export it again, and compare the two files if this one was carried".into()
            }
            Error::SessionExists {
                session,
                name,
                relation,
                ..
            } => match relation {
                Relation::Behind => format!(
                    "`segno sessions delete {session} --now`, then import again: the file has all of it"
                ),
                Relation::InTrash => format!(
                    "`segno sessions restore {session}`, or `segno sessions delete {session} --now` and import again"
                ),
                Relation::Same | Relation::Ahead => {
                    format!("there is nothing to import; `segno sessions show {name}` shows it")
                }
                Relation::Diverged => return None,
            },
            Error::Step { name, error, .. } if !error.kind.is_transient() => {
                format!(
                    "mend the cause, then `segno resume {name}`: finished steps are not run again"
                )
            }
            Error::Step { name, .. } => {
                format!("`segno resume {name}` tries again from this step on")
            }
            Error::Stopped { status, name, .. } if status.is_resumable() => {
                format!("`segno resume {name}` goes on")
            }
            Error::NoKey { variable, .. } => format!(
                "set `{variable}`; keys are never read from a spec, so that they are never written down"
            ),
            Error::NoSecret { .. } => {
                "set it; secrets are never read from a spec, so that they are never written down"
                    .into()
            }
            Error::NoPrice { model } => format!(
                "say it in config.toml, in dollars for a million tokens: `[prices.\"{model}\"]`, `input = 3`, `output = 15`; or limit `max_tokens`"
            ),
            Error::McpServerFailed { .. } => {
                "start it by hand to see what it says; nothing was begun and nothing was paid for"
                    .into()
            }
            Error::WaitingForHuman { name, path, .. } => format!(
                "answer with `segno answer {name} --step {path} TEXT`, then `segno resume {name}`"
            ),
            Error::AnswerTimeout { name, .. } => {
                format!("`segno answer {name} TEXT` still counts; then `segno resume {name}`")
            }
            Error::AmbiguousQuestion { name, .. } => {
                format!("say which with `segno answer {name} --step STEP TEXT`")
            }
            Error::NoOpenQuestion { name, .. } => {
                format!("`segno sessions show {name}` tells where it stands")
            }
            Error::UnusableAnswer { name, .. }
            | Error::TooManyVisits { name, .. }
            | Error::InvalidInput { name, .. } => format!(
                "mend the prompt or the spec, then `segno resume {name}`: finished steps are not run again"
            ),
            Error::BelowScore { name, .. } => format!(
                "raise `max_iters` or lower `min_score` in the spec, then `segno resume {name}`"
            ),
            Error::Budget { name, what, .. } => format!(
                "raise `{what}` in the spec, then `segno resume {name}`: nothing that was done is done again"
            ),
            Error::DiskFull { name } => format!("make room, then `segno resume {name}`"),
            Error::UnknownOutcome { name, .. } => {
                format!("look whether it did; `segno resume {name} --in-flight repeat` asks again")
            }
            Error::SpecChanged { name, .. } => format!(
                "`segno resume {name} --on-change warn|rerun|pinned` says what to do about it"
            ),
            Error::ContextFull { name, .. } => format!(
                "`segno resume {name}` goes on in a fresh conversation that is told what was done"
            ),
            Error::Suspended { name, why, .. } => hint_for_rate_limit(name, *why),
            Error::WorkspaceDrifted { name, .. } => format!(
                "`segno resume {name} --on-drift warn` goes on; the agent is told what is there"
            ),
            Error::NoSuchAgent { .. } => {
                "name `claude`, `codex`, or an agent of the spec".into()
            }
            Error::NoSuchNote { name, standing, .. } if standing.is_empty() => {
                format!("`segno note list {name} --all` shows every memo")
            }
            Error::NoSuchNote { standing, .. } => {
                let standing: Vec<String> = standing.iter().map(ToString::to_string).collect();
                format!("these hold: {}", standing.join(", "))
            }
            Error::NoteNotEditable { note } => {
                format!("write one of your own that says otherwise, or ask a person: `segno note correct {note}`")
            }
            Error::ResumeContextTooLong { .. } => "leave out what the agent can find in the files".into(),
            Error::InvalidNote { .. } => "say what happened, in a sentence or two".into(),
            Error::OptionWithoutEffect { name, .. } => format!("`segno resume {name}` goes on without it"),
            Error::CheckpointOfOtherSession { name, .. } => {
                format!("`segno checkpoint list {name}` shows those of this session")
            }
            Error::FolderTaken { .. } => "name another one: `--into FOLDER`".into(),
            Error::WorkspaceMissing { name, .. } => format!(
                "if it was moved, `segno sessions move {name} FOLDER` says where to; nothing was begun"
            ),
            Error::InvalidFolder { .. } => "name a folder that is there, or make it first".into(),
            Error::ArtifactExists { .. } => {
                "move it away, or run with `--force` or another `--out`".into()
            }
            Error::InvalidJournal { .. } | Error::InvalidStoredSpec { .. } => {
                "`segno doctor` names everything that is damaged".into()
            }
            _ => return None,
        })
}

/// The hint for a rate limit that the run does not wait for.
fn hint_for_rate_limit(name: &Name, why: NoWaitReason) -> String {
    let resume = format!(
        "`segno resume {name}` goes on when the time has come, `--on-limit ask` asks at once"
    );
    match why {
        NoWaitReason::MaxWait(_) => format!("{resume}; or raise `max_wait_s` in the spec"),
        NoWaitReason::MaxTotalWait(_) => {
            format!("{resume}; or raise `max_total_wait_s` in the spec")
        }
        NoWaitReason::Pause | NoWaitReason::TooManyWaits(_) => resume,
    }
}
