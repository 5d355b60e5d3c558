//! `segno work`: plans an issue and works through the plan task by task.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use segno_agents::program::Permissions;
use segno_core::id::Name;
use segno_core::ports::Disk;
use segno_sessions::work::{self, Request, Reviewer, Roles, WorkFolder};
use segno_spec::checklist::MAX_BYTES;
use segno_spec::{Approve, Goal};
use segno_store::LocalDisk;
use serde_json::json;

use super::resume::PermissionsArg;
use super::run::{name, run_with_progress, watch_signals, with_auto_cleanup};
use crate::config::Config;
use crate::context::{Context, Persistence, notices, workspace};
use crate::failure::Failure;
use crate::machine::human;
use crate::output::{json_line, stdout_line, text};

/// The agent, if neither the command line nor the settings name one.
const DEFAULT_AGENT: &str = "claude";

/// Work through a plan: one new agent and one commit per task.
///
/// The text is an issue, for which an agent makes a plan that you approve, or a plan: a Markdown
/// checklist (`- [ ] T2: TITLE (after T1)`). The work happens on a branch `segno/NAME` in a
/// worktree next to the repository; your own files are not touched. Another agent reviews each task
/// before it is committed, and may send it back. `segno pause` stops between tasks, `segno resume`
/// continues, `segno answer` approves and rejects, `segno status NAME` shows the plan.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Issue or plan: a text, a file name, or `-` to read it from stdin
    #[arg(value_name = "ISSUE|FILE", allow_hyphen_values = true)]
    what: String,
    /// Agent for the tasks: `claude`, `codex`, or an agent of the spec [default: as in config.toml,
    /// else claude]
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Agent that makes the plan [default: the agent for the tasks]
    #[arg(long, value_name = "AGENT")]
    planner: Option<String>,
    /// Agent that reviews [default: as in config.toml, else the agent for the tasks in a new
    /// conversation]
    #[arg(long, value_name = "AGENT", conflicts_with = "no_review")]
    reviewer: Option<String>,
    /// Commit tasks without a review
    #[arg(long)]
    no_review: bool,
    /// Spec whose agents, limits and settings are used
    #[arg(long, value_name = "FILE")]
    spec: Option<PathBuf>,
    /// How often a reviewer may send a task back before you are asked [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100))]
    max_revisions: Option<u32>,
    /// What needs your approval: the plan of an agent, or also each task before it is committed
    #[arg(long, value_enum, value_name = "WHAT", default_value = "plan")]
    approve: ApproveArg,
    /// Approve any plan; same as `--approve none`
    #[arg(short, long, conflicts_with = "approve")]
    yes: bool,
    /// Print the plan without working on it
    #[arg(long, conflicts_with_all = ["in_place", "into"])]
    plan_only: bool,
    /// Pause after this many tasks
    #[arg(long, value_name = "TASKS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pause_after: Option<u32>,
    /// Name of the session and its branch [default: from the issue, numbered]
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<Name>,
    /// Work in this folder, on the current branch
    #[arg(long, conflicts_with = "into")]
    in_place: bool,
    /// Work in this folder, which must be empty or not exist [default: next to the repository]
    #[arg(long, value_name = "FOLDER")]
    into: Option<PathBuf>,
    /// Permissions of CLI agents [default: as in config.toml, else edit]
    #[arg(long, value_enum, value_name = "WHAT")]
    permissions: Option<PermissionsArg>,
    /// Print JSON, one event per line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ApproveArg {
    /// The plan of an agent
    Plan,
    /// The plan, and each task
    Tasks,
    /// Nothing, unless agent and reviewer do not agree
    None,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let here = workspace()?;
    let (text, place) = read_text(&args.what, &here)?;
    if args.plan_only
        && let (issue, Some(list)) = work::read(&text, &place)?
    {
        if args.json {
            let tasks = list.tasks.iter().map(|task| {
                let name = |place: &usize| list.tasks[*place].id.as_str();
                let needed: Vec<&str> = task.depends_on.iter().map(name).collect();
                json!({"id": task.id, "title": task.title, "description": task.description, "depends_on": needed, "done": task.done})
            });
            let tasks: Vec<_> = tasks.collect();
            json_line(&json!({"v": 1, "kind": "plan", "issue": issue, "tasks": tasks}));
        } else {
            stdout_line(text::sanitize_lines(&list.text()).trim_end());
        }
        return Ok(ExitCode::SUCCESS);
    }
    let permissions = args.permissions.map(Permissions::from);
    let (mut env, config) = context.env_with_permissions(Persistence::Home, permissions)?;
    env.human = human::at_terminal(args.json);
    let json = args.json;
    let request = request(args, &config, text, place, here);
    let stop_token = watch_signals();
    let notices = notices(&env, &config);
    let ran = run_with_progress(&env, &notices, json, async |progress| {
        work::start(&env, request, progress, stop_token).await
    })
    .await;
    with_auto_cleanup(ran, &env, &config).await
}

fn request(args: Args, config: &Config, text: String, place: String, folder: PathBuf) -> Request {
    let usual = match args.spec {
        // The agents of a spec take precedence over the settings.
        Some(_) => None,
        None => Some(
            config
                .work_agent
                .as_deref()
                .unwrap_or(DEFAULT_AGENT)
                .to_owned(),
        ),
    };
    let reviewer = args.reviewer.or_else(|| match args.spec {
        Some(_) => None,
        None => config.work_reviewer.clone(),
    });
    Request {
        text,
        source: place,
        roles: Roles {
            agent: args.agent.or(usual),
            planner: args.planner,
            reviewer: match reviewer {
                _ if args.no_review => Reviewer::None,
                Some(name) => Reviewer::Named(name),
                None => Reviewer::Default,
            },
        },
        spec: args.spec.map(|spec| folder.join(spec)),
        name: args.name,
        folder,
        work_folder: match args.into {
            _ if args.in_place => WorkFolder::Current,
            Some(folder) => WorkFolder::WorktreeAt(folder),
            None => WorkFolder::NewWorktree,
        },
        approve: match args.approve {
            // Without working on the plan, there is nothing to approve.
            _ if args.yes || args.plan_only => Approve::None,
            ApproveArg::None => Approve::None,
            ApproveArg::Plan => Approve::Plan,
            ApproveArg::Tasks => Approve::Tasks,
        },
        max_revisions: args.max_revisions,
        pause_after: args.pause_after,
        goal: if args.plan_only {
            Goal::Plan
        } else {
            Goal::Work
        },
    }
}

/// Reads the issue or the plan. Also returns the name of its source for messages.
fn read_text(what: &str, here: &Path) -> Result<(String, String), Failure> {
    let most = MAX_BYTES as u64;
    let unreadable = |place: &str, reason: String| {
        Failure::usage(format!("{place} cannot be read: {reason}"), None)
    };
    let (text, place) = if what == "-" {
        let mut text = String::new();
        let read = std::io::stdin().take(most + 1).read_to_string(&mut text);
        read.map_err(|error| unreadable("stdin", error.to_string()))?;
        (text, "stdin".to_owned())
    } else if is_file(what, here) {
        let bytes = LocalDisk.read(&here.join(what), most);
        let bytes = bytes.map_err(|error| unreadable(what, error.to_string()))?;
        let text = String::from_utf8(bytes);
        let text = text.map_err(|_| unreadable(what, "it is not UTF-8 text".to_owned()))?;
        (text, what.to_owned())
    } else {
        (what.to_owned(), "the text".to_owned())
    };
    if text.len() as u64 > most {
        let hint = Some(format!("it may have at most {most} bytes"));
        return Err(Failure::usage(format!("{place} is too long"), hint));
    }
    if text.trim().is_empty() {
        let hint = Some("describe the task, or name a file that does".to_owned());
        return Err(Failure::usage(format!("{place} is empty"), hint));
    }
    Ok((text, place))
}

/// Whether the argument names a file: the file exists, or the argument looks like a file name.
fn is_file(what: &str, here: &Path) -> bool {
    let one_word = !what.contains(char::is_whitespace) && !what.is_empty();
    let named = Path::new(what).extension().is_some_and(|end| {
        let known = ["md", "markdown", "txt"];
        known.iter().any(|known| end.eq_ignore_ascii_case(known))
    });
    // For a text that is too long to be a path, the system call fails and the answer is no.
    here.join(what).is_file() || one_word && (named || what.contains('/'))
}
