//! Starts a session that works through a plan.
//!
//! Checks everything before the session is created: the plan, the repository, the git author, and
//! the names of the session, the branch and the folder. The session's first step then creates the
//! branch and the worktree, so a kill leaves either nothing or a session that can be resumed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use segno_core::id::Name;
use segno_core::ports::Access;
use segno_core::store::Error as StoreError;
use segno_core::worktree::{Error as GitError, RepositoryInfo};
use segno_engine::workspace::{self, canonical_path};
use segno_engine::{Env, Observer, Outcome, StopToken};
use segno_spec as spec;
use segno_spec::checklist::{self, Checklist};
use segno_spec::{Approve, Goal};
use serde_json::{Value, json};

use super::Error;
use super::roles::{self, Roles};
use crate::naming;
use crate::relocate;
use crate::start::{self, SpecError};

/// The limit of characters that a session's name takes from the issue.
const MAX_NAME: usize = 40;

#[derive(Debug, Clone)]
pub struct Request {
    pub text: String,
    /// The source of the text, for error messages.
    pub source: String,
    pub roles: Roles,
    /// The spec with the agents, if there is one.
    pub spec: Option<PathBuf>,
    /// The session's name; derived from the issue if `None`.
    pub name: Option<Name>,
    /// The user's current folder.
    pub folder: PathBuf,
    pub work_folder: WorkFolder,
    pub approve: Approve,
    /// Overrides the default of the `plan` pattern.
    pub max_revisions: Option<u32>,
    /// Pauses the session after this many tasks.
    pub pause_after: Option<u32>,
    pub goal: Goal,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkFolder {
    /// On a new branch, in a new worktree beside the repository.
    NewWorktree,
    /// On a new branch, in a new worktree in this folder.
    WorktreeAt(PathBuf),
    /// On the current branch, in the current folder.
    Current,
}

/// Parses a text: returns what the plan is about, and its tasks if it has any.
pub fn read(text: &str, place: &str) -> Result<(String, Option<Checklist>), Error> {
    let control = |sign: &char| !sign.is_control() || matches!(sign, '\n' | '\t');
    let text: String = text.chars().filter(control).collect();
    if !checklist::has_tasks(&text) {
        return Ok((text.trim().to_owned(), None));
    }
    match checklist::read(&text) {
        Ok(list) => Ok((list.about.clone(), Some(list))),
        Err(problems) => Err(Error::InvalidPlan {
            place: place.to_owned(),
            problems,
        }),
    }
}

pub async fn start(
    env: &Env,
    request: Request,
    observer: Arc<dyn Observer>,
    stop_token: StopToken,
) -> Result<Outcome, Error> {
    let (issue, list) = read(&request.text, &request.source)?;
    let roles = roles::resolve(env, &request.roles, request.spec.as_deref())?;
    let location = choose_location(env, &request, &issue, list.as_ref(), &*observer).await?;
    let mut config = json!({
        "agent": roles.agent,
        "planner": roles.planner,
        "approve": match request.approve {
            Approve::Plan => "plan",
            Approve::Tasks => "tasks",
            Approve::None => "none",
        },
        "goal": match request.goal {
            Goal::Work => "work",
            Goal::Plan => "plan",
        },
        "issue": issue,
    });
    let optional = [
        ("reviewer", roles.reviewer.map(Value::from)),
        ("max_revisions", request.max_revisions.map(Value::from)),
        ("tasks", list.as_ref().map(tasks)),
        ("worktree", location.worktree),
    ];
    for (key, value) in optional {
        if let Some(value) = value {
            config[key] = value;
        }
    }
    let mut made = Value::Object(roles.spec);
    made["name"] = location.name.as_str().into();
    made["pattern"] = json!({"type": "plan", "config": config});
    if let Some(tasks) = request.pause_after {
        made["continuity"]["pause"]["after_steps"] = tasks.into();
    }
    // The stored spec is the one that is used, so every run reads the same spec (P7).
    env.redactor.redact_json(&mut made);
    let text = made.to_string();
    let workflow = spec::parse(&text).map_err(|problems| SpecError::Invalid {
        path: request
            .spec
            .unwrap_or_else(|| PathBuf::from("the generated spec")),
        problems,
    })?;
    let request = start::Request {
        spec: PathBuf::new(),
        variables: std::collections::BTreeMap::new(),
        name: Some(location.name),
        out: location.folder.join("artifacts"),
        workspace: location.folder,
        force: false,
    };
    let started = start::start_parsed(env, text, workflow, request, observer, stop_token);
    Ok(started.await?)
}

fn tasks(list: &Checklist) -> Value {
    let name = |place: &usize| list.tasks[*place].id.as_str();
    let tasks = list.tasks.iter().map(|task| {
        json!({
            "id": task.id,
            "title": task.title,
            "description": task.description,
            "depends_on": task.depends_on.iter().map(name).collect::<Vec<_>>(),
            "done": task.done,
        })
    });
    tasks.collect()
}

/// The name and folder of a new session, and the worktree to create.
struct Location {
    name: Name,
    folder: PathBuf,
    worktree: Option<Value>,
}

/// The first free name whose branch and folder are free, too.
async fn choose_location(
    env: &Env,
    request: &Request,
    issue: &str,
    list: Option<&Checklist>,
    observer: &dyn Observer,
) -> Result<Location, Error> {
    let repository = match request.goal {
        Goal::Plan => None,
        Goal::Work => Some(env.worktrees.inspect(request.folder.clone()).await?),
    };
    // Shortened text could contain half of a secret.
    let about = env.redactor.redact_name(first_line(issue, list));
    let family = request
        .name
        .clone()
        .unwrap_or_else(|| naming::derived(env, &first_words(&about)));
    naming::check(env, &family)?;
    let numbered = request.name.is_none();
    let (family, repository) = (&family, &repository);
    let attempt = |number| async move {
        let name = family.numbered(number);
        let found = match repository {
            _ if naming::is_taken(env, &name).await? => Err(StoreError::NameTaken(name).into()),
            None => Ok(Location {
                folder: request.folder.clone(),
                worktree: None,
                name,
            }),
            Some(repository) => check_location(env, request, repository, name).await,
        };
        match found {
            Err(
                Error::Store(StoreError::NameTaken(_))
                | Error::Worktree(GitError::BranchTaken { .. }),
            ) if numbered => Ok(None),
            Err(Error::Worktree(GitError::FolderTaken { .. }))
                if numbered && request.work_folder == WorkFolder::NewWorktree =>
            {
                Ok(None)
            }
            found => found.map(Some),
        }
    };
    let (_, location) = naming::free_number(attempt).await?;
    if let (Some(repository), Some(_)) = (repository, &location.worktree) {
        make_folder(env, &location.folder)?;
        announce(repository, &location, observer);
    }
    Ok(location)
}

/// Checks that the folder and branch for one name are free.
async fn check_location(
    env: &Env,
    request: &Request,
    repository: &RepositoryInfo,
    name: Name,
) -> Result<Location, Error> {
    let folder = match &request.work_folder {
        WorkFolder::Current if repository.changed.is_empty() => {
            return Ok(Location {
                folder: repository.top.clone(),
                worktree: None,
                name,
            });
        }
        WorkFolder::Current => {
            let (folder, changed) = (repository.top.clone(), repository.changed.clone());
            return Err(GitError::Uncommitted { folder, changed }.into());
        }
        WorkFolder::NewWorktree => {
            let own = repository
                .top
                .file_name()
                .unwrap_or_default()
                .to_string_lossy();
            repository.top.with_file_name(format!("{own}-{name}"))
        }
        WorkFolder::WorktreeAt(folder) => canonical_path(&request.folder.join(folder)),
    };
    let reason = if folder.starts_with(&repository.top) {
        Some("it is inside the repository")
    } else if folder.symlink_metadata().is_ok_and(|it| !it.is_dir()) {
        Some("it is not a folder")
    } else if relocate::check_folder(env, &folder).is_err() {
        Some("it belongs to Segno itself")
    } else if !env.disk.list(&folder).unwrap_or_default().is_empty() {
        Some("it exists and is not empty")
    } else {
        None
    };
    if let Some(reason) = reason {
        let reason = reason.to_owned();
        return Err(GitError::FolderTaken { folder, reason }.into());
    }
    let branch = branch(&name);
    let known = env
        .worktrees
        .branch_commit(repository.top.clone(), branch.clone());
    if known.await?.is_some() {
        let folder = repository.top.clone();
        return Err(GitError::BranchTaken { folder, branch }.into());
    }
    let worktree = json!({
        "repository": workspace::path_text(&repository.top)?,
        "branch": branch,
        "commit": repository.commit,
    });
    Ok(Location {
        folder,
        worktree: Some(worktree),
        name,
    })
}

/// The branch of a session. Replaces characters that a session's name may have and a branch's may
/// not.
fn branch(name: &Name) -> String {
    let mut branch = name.as_str().replace(':', "-");
    while branch.contains("..") {
        branch = branch.replace("..", ".");
    }
    let branch = branch.trim_matches('.');
    format!("segno/{}", branch.strip_suffix(".lock").unwrap_or(branch))
}

/// Creates the folder before the session, because a session without a folder cannot be resumed. A
/// kill may leave an empty folder, which does no harm.
fn make_folder(env: &Env, folder: &Path) -> Result<(), Error> {
    let made = env.disk.create_folder(folder, Access::Shared);
    made.map_err(|error| Error::WriteFailed {
        folder: folder.to_owned(),
        reason: error.to_string(),
    })
}

fn announce(repository: &RepositoryInfo, location: &Location, observer: &dyn Observer) {
    if !repository.changed.is_empty() {
        observer.notice(&format!(
            "{} has uncommitted changes: they are left untouched, and are not part of the work",
            repository.top.display()
        ));
    }
    observer.notice(&format!(
        "working on branch {} in {}",
        branch(&location.name),
        location.folder.display()
    ));
}

/// What the work is about: the first line of the issue, or the first task.
fn first_line<'a>(issue: &'a str, list: Option<&'a Checklist>) -> &'a str {
    let lines = issue.lines().map(|line| line.trim_matches(['#', ' ', '*']));
    let first = lines.filter(|line| !line.is_empty()).chain(
        list.into_iter()
            .flat_map(|list| list.tasks.iter().map(|task| task.title.as_str())),
    );
    first.into_iter().next().unwrap_or("work")
}

/// The first words of a line, as many as a session's default name has.
fn first_words(line: &str) -> String {
    let line = line.to_lowercase();
    let mut short = String::new();
    for word in line.split_whitespace() {
        if !short.is_empty() && short.len() + word.len() >= MAX_NAME {
            break;
        }
        // Removes punctuation at the end of words.
        short.push_str(word.trim_matches(['.', ':', ',', ';', '!', '?']));
        short.push(' ');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branch_name_replaces_characters_git_forbids() {
        for (name, expected) in [
            ("add-a-login", "segno/add-a-login"),
            ("a:b", "segno/a-b"),
            ("v1...2.", "segno/v1.2"),
            ("x.lock", "segno/x"),
        ] {
            assert_eq!(branch(&Name::new(name).unwrap()), expected);
        }
    }

    #[test]
    fn session_name_has_the_first_words_of_the_issue() {
        let name = |issue: &str| Name::sanitized(&first_words(first_line(issue, None))).to_string();
        assert_eq!(name("# Add a login\n\nPlease."), "add-a-login");
        assert_eq!(name("\n"), "work");
        let long = "the quick brown fox jumps over the lazy dog and runs away";
        assert_eq!(name(long), "the-quick-brown-fox-jumps-over-the-lazy");
        let list = checklist::read("- [ ] T1: Write it").unwrap();
        assert_eq!(first_line("", Some(&list)), "Write it");
    }
}
