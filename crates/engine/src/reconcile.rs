//! What an agent is told when its work goes on.
//!
//! The journal says what was done, the workspace says what is true. Before every resume the workspace
//! is looked at once, and the message is worded from what was seen. It names the tool calls whose
//! outcome nobody knows, and never tells an agent to do anything again.

use std::fmt::Write;
use std::path::Path;

use segno_core::conversation::analysis::Unanswered;
use segno_core::journal::Failure;
use segno_core::snapshot::Sight;
use segno_core::state::Standing;

use crate::checkpoint;
use crate::world::World;

/// How many changed files are named.
const NAMED: usize = 30;
/// How much of an unanswered call's input is shown, in bytes.
const SHOWN: usize = 600;

/// Why work was broken off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// Its run was lost: killed, or its machine went down.
    Lost,
    /// It was stopped on purpose.
    Stopped,
    /// It failed.
    Failed(Failure),
    /// The context was full.
    Full,
    /// It goes on elsewhere, and this is a copy of it.
    Copied,
}

impl Cause {
    /// From how the newest attempt stands.
    pub(crate) fn of(standing: &Standing) -> Self {
        match standing {
            Standing::Failed(failure) => Self::Failed(failure.clone()),
            Standing::Paused => Self::Stopped,
            Standing::InFlight | Standing::Unknown | Standing::Discarded => Self::Lost,
        }
    }

    pub(crate) fn told(&self) -> String {
        match self {
            Self::Lost => "the process that you ran in was lost".to_owned(),
            Self::Stopped => "it was stopped on purpose".to_owned(),
            Self::Failed(failure) => format!("{} ({})", failure.message, failure.kind),
            Self::Full => "the context of that conversation was full".to_owned(),
            Self::Copied => "this is a copy of it, made to go on by itself from here".to_owned(),
        }
    }
}

/// Looks at the workspace, and at what differs in it from the commit `since`.
pub(crate) async fn look(world: &World, workspace: &Path, since: Option<&str>) -> Sight {
    let looked = world
        .snapshots
        .look(workspace.to_owned(), since.map(str::to_owned));
    let mut sight = looked.await;
    // P12: whoever is told of it, and whatever is made of it, has no secrets.
    checkpoint::redact(world, sight.repository.as_mut_slice());
    for name in &mut sight.changed {
        *name = world.redactor.redact(name).into_owned();
    }
    sight
}

/// What was seen of the workspace, before work goes on in it.
pub(crate) struct Seen<'a> {
    /// The workspace.
    pub(crate) workspace: &'a Path,
    /// The folder that was worked in before, if it was another.
    pub(crate) moved_from: Option<&'a str>,
    /// How it looks to git.
    pub(crate) sight: Sight,
}

/// What an agent is told that goes on with its own conversation. `missing` quotes what was said
/// and is not in its record.
pub(crate) fn words(
    cause: &Cause,
    seen: &Seen<'_>,
    unanswered: &[Unanswered],
    missing: &str,
) -> String {
    let mut words = format!(
        "Your work on this task was broken off: {}. This message continues it.\n\n",
        cause.told()
    );
    if !missing.is_empty() {
        words.push_str("This was said and done, too, and is not in your record:\n\n");
        words.push_str(missing);
        words.push('\n');
    }
    words.push_str(&truth(seen, unanswered));
    words.push_str(
        "\nGo on with the task from where you stopped. What is done already stays as it is; do not do it again.",
    );
    words
}

/// What is there, and what is not known.
pub(crate) fn truth(seen: &Seen<'_>, unanswered: &[Unanswered]) -> String {
    let workspace = seen.workspace.display();
    let sight = described(&seen.sight);
    let mut words = String::new();
    if let Some(before) = seen.moved_from {
        let _ = writeln!(
            words,
            "The folder that you work in is another one now: it was {before}, and is {workspace}. Where the old path was named, the new one is meant; leave alone what is in the old one.\n"
        );
    }
    let _ = writeln!(words, "Seen just now: the folder {workspace}{sight}.");
    if !unanswered.is_empty() {
        words.push_str(
            "\nIt is not known whether these tool calls took effect, in full or in part. Look at the state of things before you repeat any of them:\n",
        );
        for call in unanswered {
            let input = call.input.as_ref().map(ToString::to_string);
            let mut input = input.unwrap_or_else(|| "(long)".to_owned());
            if input.len() > SHOWN {
                input.truncate(input.floor_char_boundary(SHOWN));
                input.push('…');
            }
            let _ = writeln!(words, "- {} {input}", call.name);
        }
    }
    words
}

/// How the folder looks to git, as the rest of a sentence.
pub fn described(sight: &Sight) -> String {
    let Some(repository) = &sight.repository else {
        return " is no git repository".to_owned();
    };
    if let Some(trouble) = &repository.trouble
        && repository.commit.is_none()
    {
        return format!(" is a git repository that cannot be read ({trouble})");
    }
    let branch = match &repository.branch {
        Some(branch) => format!("branch {branch}"),
        None => "no branch".to_owned(),
    };
    let commit = match &repository.commit {
        Some(commit) => format!("at {}", commit.get(..12).unwrap_or(commit)),
        None => "without a commit".to_owned(),
    };
    let mut words = format!(" is a git repository on {branch} {commit}");
    if !repository.activities.is_empty() {
        let _ = write!(
            words,
            ", in the middle of a {}",
            repository.activities.join(" and a ")
        );
    }
    words.push_str("; ");
    let changed = &sight.changed;
    if changed.is_empty() {
        words.push_str("nothing differs from the last commit");
    } else {
        words.push_str(&differing(changed, changed.len(), "the last commit"));
    }
    if let Some(since) = &repository.since
        && repository.commit.as_ref() != Some(&since.commit)
        && since.files > 0
    {
        let began = since.commit.get(..12).unwrap_or(&since.commit);
        let from = format!("where the session began ({began})");
        let files = usize::try_from(since.files).unwrap_or(usize::MAX);
        words.push_str("; ");
        words.push_str(&differing(&since.names, files, &from));
    }
    words
}

/// Which files differ, the first of them by name.
fn differing(names: &[String], count: usize, from: &str) -> String {
    let named: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
    let mut words = match count {
        1 => format!("1 file differs from {from}: "),
        count => format!("{count} files differ from {from}: "),
    };
    words.push_str(&named.join(", "));
    if count > named.len() {
        let _ = write!(words, " and {} more", count - named.len());
    }
    words
}

#[cfg(test)]
mod tests {
    use segno_core::checkpoint::{Repository, Since};
    use segno_core::conversation::Thread;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_seen_and_what_is_unknown_is_told_and_nothing_is_ordered_again() {
        let sight = Sight {
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
        let mut seen = Seen {
            workspace: Path::new("/w"),
            moved_from: None,
            sight,
        };
        let told = words(&Cause::Lost, &seen, std::slice::from_ref(&call), "");
        let expected = "\
Your work on this task was broken off: the process that you ran in was lost. This message continues it.

Seen just now: the folder /w is a git repository on branch main at 0123456789ab; 2 files differ from the last commit: a.txt, b.txt.

It is not known whether these tool calls took effect, in full or in part. Look at the state of things before you repeat any of them:
- Bash {\"command\":\"make deploy\"}

Go on with the task from where you stopped. What is done already stays as it is; do not do it again.";
        assert_eq!(told, expected);
        let repository = seen.sight.repository.as_mut().unwrap();
        repository.since = Some(Since {
            commit: "fedcba9876543210".into(),
            files: 41,
            names: (10..50).map(|number| format!("{number}.txt")).collect(),
        });
        let told = described(&seen.sight);
        let (_, since) = told.split_once("a.txt, b.txt; ").unwrap();
        let (said, names) = since.split_once(": ").unwrap();
        assert_eq!(
            said,
            "41 files differ from where the session began (fedcba987654)"
        );
        assert!(
            names.starts_with("10.txt, 11.txt") && names.ends_with("39.txt and 11 more"),
            "{names}"
        );
        seen.moved_from = Some("/v");
        let told = truth(&seen, &[call]);
        assert!(
            told.starts_with(
                "The folder that you work in is another one now: it was /v, and is /w."
            )
        );
    }
}
