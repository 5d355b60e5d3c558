//! Builds the message with which an agent resumes its own conversation.
//!
//! The journal says what was done; the workspace says what is true. The engine reads the workspace
//! status once before every resume and words the message from it. The message names the tool calls
//! whose outcome is unknown, and never tells an agent to repeat anything.

use std::fmt::Write;
use std::path::Path;

use segno_core::conversation::MISSING_ITEMS;
use segno_core::conversation::analysis::Unanswered;
use segno_core::journal::Failure;
use segno_core::snapshot::WorkspaceStatus;
use segno_core::state::AttemptStatus;

use crate::workspace::describe_status;

/// How much of an unanswered call's input is shown, in bytes.
const MAX_INPUT_BYTES: usize = 600;

/// Why a step was interrupted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// Its run was lost: killed, or the machine went down.
    Lost,
    /// It was stopped on purpose.
    Stopped,
    /// It failed.
    Failed(Failure),
    /// The context was full.
    Full,
    /// The session is a fork: the original continues elsewhere.
    Copied,
}

impl Cause {
    /// Derives the cause from the status of the newest attempt.
    pub(crate) fn of(standing: &AttemptStatus) -> Self {
        match standing {
            AttemptStatus::Failed(failure) => Self::Failed(failure.clone()),
            AttemptStatus::Paused => Self::Stopped,
            AttemptStatus::InFlight
            | AttemptStatus::Unknown
            | AttemptStatus::Resolved(_)
            | AttemptStatus::Discarded => Self::Lost,
        }
    }

    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Lost => "the process that you ran in was lost".to_owned(),
            Self::Stopped => "it was stopped deliberately".to_owned(),
            Self::Failed(failure) => format!("{} ({})", failure.message, failure.kind),
            Self::Full => "the context of that conversation was full".to_owned(),
            Self::Copied => "this is a fork, which continues independently from here".to_owned(),
        }
    }
}

/// The workspace as seen just before the resume.
pub(crate) struct WorkspaceFacts<'a> {
    pub(crate) workspace: &'a Path,
    /// The previous workspace, if it was another folder.
    pub(crate) moved_from: Option<&'a str>,
    /// The git status.
    pub(crate) status: WorkspaceStatus,
}

/// The message for an agent that resumes its own conversation. `missing` quotes what was said and
/// is not in its transcript.
pub(crate) fn resume_message(
    cause: &Cause,
    facts: &WorkspaceFacts<'_>,
    unanswered: &[Unanswered],
    missing: &str,
) -> String {
    let mut text = format!(
        "Your work on this task was interrupted: {}. This message resumes it.\n\n",
        cause.describe()
    );
    if !missing.is_empty() {
        let _ = writeln!(text, "{MISSING_ITEMS}\n\n{missing}");
    }
    text.push_str(&describe_facts(facts, unanswered));
    text.push_str(
        "\nContinue the task from where you stopped. Do not repeat work that is already done.",
    );
    text
}

/// The facts: the workspace status, and the tool calls whose outcome is unknown.
pub(crate) fn describe_facts(facts: &WorkspaceFacts<'_>, unanswered: &[Unanswered]) -> String {
    let workspace = facts.workspace.display();
    let workspace_status = describe_status(&facts.status);
    let mut text = String::new();
    if let Some(before) = facts.moved_from {
        let _ = writeln!(
            text,
            "Your workspace has moved: it was {before}, and is now {workspace}. Use the new path wherever the old one was mentioned, and do not touch files in the old one.\n"
        );
    }
    let _ = writeln!(
        text,
        "Current state: the folder {workspace}{workspace_status}."
    );
    if !unanswered.is_empty() {
        text.push_str(
            "\nThe outcome of these tool calls is unknown: they may have taken effect in full, in part or not at all. Check the actual state before you repeat any of them:\n",
        );
        for call in unanswered {
            let input = call.input.as_ref().map(ToString::to_string);
            let mut input = input.unwrap_or_else(|| "(long)".to_owned());
            if input.len() > MAX_INPUT_BYTES {
                input.truncate(input.floor_char_boundary(MAX_INPUT_BYTES));
                input.push('…');
            }
            let _ = writeln!(text, "- {} {input}", call.name);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use segno_core::checkpoint::{Repository, SessionChanges};
    use segno_core::conversation::Thread;
    use serde_json::json;

    use super::*;

    #[test]
    fn resume_message_states_facts_and_unknown_calls() {
        let workspace_status = WorkspaceStatus {
            repository: Some(Repository {
                branch: Some("main".into()),
                commit: Some("0123456789abcdef".into()),
                ..Repository::default()
            }),
            changed: vec!["a.txt".into(), "b.txt".into()],
        };
        let call = Unanswered {
            id: "c".into(),
            name: "Bash".into(),
            input: Some(json!({"command": "make deploy"})),
            thread: Thread::Main,
            record: None,
        };
        let mut facts = WorkspaceFacts {
            workspace: Path::new("/w"),
            moved_from: None,
            status: workspace_status,
        };
        let message = resume_message(&Cause::Lost, &facts, std::slice::from_ref(&call), "");
        let expected = "\
Your work on this task was interrupted: the process that you ran in was lost. This message resumes it.

Current state: the folder /w is a git repository on branch main at 0123456789ab; 2 files differ from the last commit: a.txt, b.txt.

The outcome of these tool calls is unknown: they may have taken effect in full, in part or not at all. Check the actual state before you repeat any of them:
- Bash {\"command\":\"make deploy\"}

Continue the task from where you stopped. Do not repeat work that is already done.";
        assert_eq!(message, expected);
        let repository = facts.status.repository.as_mut().unwrap();
        repository.session_changes = Some(SessionChanges {
            commit: "fedcba9876543210".into(),
            files: 41,
            names: (10..50).map(|number| format!("{number}.txt")).collect(),
        });
        let message = describe_status(&facts.status);
        let (_, since) = message.split_once("a.txt, b.txt; ").unwrap();
        let (said, names) = since.split_once(": ").unwrap();
        assert_eq!(
            said,
            "41 files differ from the commit at the start of the session (fedcba987654)"
        );
        assert!(
            names.starts_with("10.txt, 11.txt") && names.ends_with("39.txt and 11 more"),
            "{names}"
        );
        facts.moved_from = Some("/v");
        let message = describe_facts(&facts, &[call]);
        assert!(message.starts_with("Your workspace has moved: it was /v, and is now /w."));
    }
}
