//! Starting a session that works through a plan.
//!
//! Everything that could be in the way is looked at before the session is made: the plan, the repository,
//! who commits, the names of the session, the branch and the folder. The branch and the folder are then
//! made by the session's first step, so that a kill leaves either nothing or a session that goes on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use segno_core::id::Name;
use segno_core::ports::Access;
use segno_core::store::Error as StoreError;
use segno_core::worktree::{Error as GitError, Ground};
use serde_json::{Value, json};

use super::checklist::{self, Checklist};
use super::crew::{self, Crew};
use crate::error::Error;
use crate::fork::settled;
use crate::observe::Observer;
use crate::run::Outcome;
use crate::spec::{self, Approve, Goal};
use crate::start;
use crate::stop::Brake;
use crate::world::World;

/// How many characters of an issue a session is called after.
const NAMED: usize = 40;

/// What a person asks for.
#[derive(Debug, Clone)]
pub struct Request {
    /// The issue, or the plan.
    pub text: String,
    /// Where it stands, for people.
    pub place: String,
    /// Who does it.
    pub crew: Crew,
    /// The spec that has them.
    pub spec: Option<PathBuf>,
    /// What to call the session; otherwise it is called like the issue.
    pub name: Option<Name>,
    /// The folder that the person is in.
    pub folder: PathBuf,
    /// Where the work is done.
    pub seat: Seat,
    /// What a person is asked about.
    pub approve: Approve,
    /// How often a reviewer may send a task back; otherwise as usual.
    pub max_revisions: Option<u32>,
    /// After how many tasks it pauses by itself.
    pub pause_after: Option<u32>,
    /// How far it goes.
    pub goal: Goal,
}

/// Where the work is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seat {
    /// On a branch of its own, in a folder beside the repository.
    Beside,
    /// The same, in this folder.
    Into(PathBuf),
    /// On the branch and in the folder that the person is in.
    Here,
}

/// The plan in a text: its tasks if it has any, and what it is about.
pub fn read(text: &str, place: &str) -> Result<(String, Option<Checklist>), Error> {
    let control = |sign: &char| !sign.is_control() || matches!(sign, '\n' | '\t');
    let text: String = text.chars().filter(control).collect();
    if !checklist::has_tasks(&text) {
        return Ok((text.trim().to_owned(), None));
    }
    match checklist::read(&text) {
        Ok(list) => Ok((list.about.clone(), Some(list))),
        Err(problems) => Err(Error::BadPlan {
            place: place.to_owned(),
            problems,
        }),
    }
}

/// Starts a session and runs it.
pub async fn start(
    world: &World,
    request: Request,
    observer: Arc<dyn Observer>,
    brake: Brake,
) -> Result<Outcome, Error> {
    let (issue, list) = read(&request.text, &request.place)?;
    let cast = crew::gather(world, &request.crew, request.spec.as_deref())?;
    let desk = desk(world, &request, &issue, list.as_ref(), &*observer).await?;
    let mut config = json!({
        "agent": cast.agent,
        "planner": cast.planner,
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
        ("reviewer", cast.reviewer.map(Value::from)),
        ("max_revisions", request.max_revisions.map(Value::from)),
        ("tasks", list.as_ref().map(tasks)),
        ("worktree", desk.worktree),
    ];
    for (key, value) in optional {
        if let Some(value) = value {
            config[key] = value;
        }
    }
    let mut made = Value::Object(cast.spec);
    made["name"] = desk.name.as_str().into();
    made["pattern"] = json!({"type": "plan", "config": config});
    if let Some(tasks) = request.pause_after {
        made["continuity"]["pause"]["after_steps"] = tasks.into();
    }
    // What is kept is what is used, so that every run reads the same spec (P7).
    world.redactor.redact_json(&mut made);
    let text = made.to_string();
    let workflow = spec::parse(&text).map_err(|problems| Error::Spec {
        path: request
            .spec
            .unwrap_or_else(|| PathBuf::from("the made spec")),
        problems,
    })?;
    let request = start::Request {
        spec: PathBuf::new(),
        variables: std::collections::BTreeMap::new(),
        name: Some(desk.name),
        out: desk.folder.join("artifacts"),
        workspace: desk.folder,
        force: false,
    };
    start::with(world, text, workflow, request, observer, brake).await
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

/// Where a session works, under which name.
struct Desk {
    name: Name,
    folder: PathBuf,
    worktree: Option<Value>,
}

/// The first name that is free, whose branch and folder are, too.
async fn desk(
    world: &World,
    request: &Request,
    issue: &str,
    list: Option<&Checklist>,
    observer: &dyn Observer,
) -> Result<Desk, Error> {
    let ground = match request.goal {
        Goal::Plan => None,
        Goal::Work => Some(world.worktrees.survey(request.folder.clone()).await?),
    };
    let taken: Vec<Name> = {
        let all = world.store.list().await?.into_iter().flatten();
        all.map(|summary| summary.name).collect()
    };
    let family = request.name.clone().unwrap_or_else(|| called(issue, list));
    for number in 1.. {
        let name = family.numbered(number);
        let found = match &ground {
            _ if taken.contains(&name) => Err(StoreError::NameTaken(name).into()),
            None => Ok(Desk {
                folder: request.folder.clone(),
                worktree: None,
                name,
            }),
            Some(ground) => settle(world, request, ground, name).await,
        };
        match found {
            Err(
                Error::Store(StoreError::NameTaken(_))
                | Error::Worktree(GitError::BranchTaken { .. }),
            ) if request.name.is_none() => {}
            Err(Error::Worktree(GitError::FolderTaken { .. }))
                if request.name.is_none() && request.seat == Seat::Beside => {}
            Err(error) => return Err(error),
            Ok(desk) => {
                if let (Some(ground), Some(_)) = (&ground, &desk.worktree) {
                    make_folder(world, &desk.folder)?;
                    tell(ground, &desk, observer);
                }
                return Ok(desk);
            }
        }
    }
    unreachable!("there are more numbers than sessions")
}

/// The place of one name, if it is free.
async fn settle(
    world: &World,
    request: &Request,
    ground: &Ground,
    name: Name,
) -> Result<Desk, Error> {
    let folder = match &request.seat {
        Seat::Here if ground.changed.is_empty() => {
            return Ok(Desk {
                folder: ground.top.clone(),
                worktree: None,
                name,
            });
        }
        Seat::Here => {
            let (folder, changed) = (ground.top.clone(), ground.changed.clone());
            return Err(GitError::Uncommitted { folder, changed }.into());
        }
        Seat::Beside => {
            let own = ground.top.file_name().unwrap_or_default().to_string_lossy();
            ground.top.with_file_name(format!("{own}-{name}"))
        }
        Seat::Into(folder) => settled(&request.folder.join(folder)),
    };
    let reason = if folder.starts_with(&ground.top) {
        Some("it lies in the repository")
    } else if folder.symlink_metadata().is_ok_and(|it| !it.is_dir()) {
        Some("it is no folder")
    } else if !world.disk.list(&folder).unwrap_or_default().is_empty() {
        Some("it is there, with files")
    } else {
        None
    };
    if let Some(reason) = reason {
        let reason = reason.to_owned();
        return Err(GitError::FolderTaken { folder, reason }.into());
    }
    let branch = branch(&name);
    let known = world.worktrees.branch(ground.top.clone(), branch.clone());
    if known.await?.is_some() {
        let folder = ground.top.clone();
        return Err(GitError::BranchTaken { folder, branch }.into());
    }
    let worktree = json!({
        "repository": start::text_of(&ground.top)?,
        "branch": branch,
        "commit": ground.commit,
    });
    Ok(Desk {
        folder,
        worktree: Some(worktree),
        name,
    })
}

/// The branch of a session. Names of sessions may have signs that names of branches may not.
fn branch(name: &Name) -> String {
    let mut branch = name.as_str().replace(':', "-");
    while branch.contains("..") {
        branch = branch.replace("..", ".");
    }
    let branch = branch.trim_matches('.');
    format!("segno/{}", branch.strip_suffix(".lock").unwrap_or(branch))
}

/// The folder is there before the session is, because a session whose folder is gone cannot go on. An
/// empty one that a kill leaves is in nobody's way.
fn make_folder(world: &World, folder: &Path) -> Result<(), Error> {
    let made = world.disk.create_folder(folder, Access::Shared);
    made.map_err(|error| Error::Unwritten {
        place: folder.to_owned(),
        reason: error.to_string(),
    })
}

fn tell(ground: &Ground, desk: &Desk, observer: &dyn Observer) {
    if !ground.changed.is_empty() {
        observer.notice(&format!(
            "{} has changes that are not committed: they stay as they are, and are not part of the work",
            ground.top.display()
        ));
    }
    observer.notice(&format!(
        "working on branch {} in {}",
        branch(&desk.name),
        desk.folder.display()
    ));
}

/// What a session is called after: the first words of the issue, or of the first task.
fn called(issue: &str, list: Option<&Checklist>) -> Name {
    let lines = issue.lines().map(|line| line.trim_matches(['#', ' ', '*']));
    let first = lines.filter(|line| !line.is_empty()).chain(
        list.into_iter()
            .flat_map(|list| list.tasks.iter().map(|task| task.title.as_str())),
    );
    let first = first.into_iter().next().unwrap_or("work").to_lowercase();
    let mut short = String::new();
    for word in first.split_whitespace() {
        if !short.is_empty() && short.len() + word.len() >= NAMED {
            break;
        }
        // A sentence ends; a name does not.
        short.push_str(word.trim_matches(['.', ':', ',', ';', '!', '?']));
        short.push(' ');
    }
    Name::like(&short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_is_called_like_its_session_as_far_as_git_allows() {
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
    fn a_session_is_called_after_the_first_words() {
        let name = |issue: &str| called(issue, None).to_string();
        assert_eq!(name("# Add a login\n\nPlease."), "add-a-login");
        assert_eq!(name("\n"), "work");
        let long = "the quick brown fox jumps over the lazy dog and runs away";
        assert_eq!(name(long), "the-quick-brown-fox-jumps-over-the-lazy");
        let list = checklist::read("- [ ] T1: Write it").unwrap();
        assert_eq!(called("", Some(&list)).to_string(), "write-it");
    }
}
