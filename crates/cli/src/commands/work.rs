use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use segno_agents::program::Permissions;
use segno_core::id::Name;
use segno_core::ports::Disk;
use segno_engine::spec::{Approve, Goal};
use segno_engine::work::checklist::LONGEST;
use segno_engine::work::{self, Crew, Request, Reviewer, Seat};
use segno_store::LocalDisk;
use serde_json::json;

use super::resume::PermissionsArg;
use super::run::{conduct, name, tidied, watch_signals};
use crate::config::Config;
use crate::context::{Context, Keep, workspace};
use crate::failure::Failure;
use crate::machine::people;
use crate::output::{data, json_line, plain};

/// Who does it, if nobody says.
const USUAL: &str = "claude";

/// Work through a plan: one fresh agent and one commit for each task.
///
/// The text is an issue, for which an agent makes a plan that you approve; or a plan itself, as a
/// Markdown checklist (`- [ ] T2: TITLE (after T1)`). The work is done on a branch `segno/NAME` in a
/// folder beside the repository; yours is not touched. Each task is reviewed by another agent before
/// it is committed, and sent back if need be. `segno pause` stops between tasks, `segno resume` goes
/// on with the next, `segno answer` approves and rejects, `segno status NAME` shows the plan.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// An issue or a plan: a text, the name of a file that has one, or `-` to read it from stdin
    #[arg(value_name = "ISSUE|FILE", allow_hyphen_values = true)]
    what: String,
    /// Who does the tasks: `claude`, `codex`, or an agent of the spec [default: as the settings say,
    /// else claude]
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Who makes the plan [default: who does the tasks]
    #[arg(long, value_name = "AGENT")]
    planner: Option<String>,
    /// Who reviews [default: as the settings say, else who does the tasks, in another conversation]
    #[arg(long, value_name = "AGENT", conflicts_with = "no_review")]
    reviewer: Option<String>,
    /// Commit tasks without a review
    #[arg(long)]
    no_review: bool,
    /// A spec whose agents, limits and settings are used
    #[arg(long, value_name = "FILE")]
    spec: Option<PathBuf>,
    /// How often a reviewer may send a task back before you are asked [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100))]
    max_revisions: Option<u32>,
    /// What you are asked about: the plan that an agent made, or also each task before it is
    /// committed
    #[arg(long, value_enum, value_name = "WHAT", default_value = "plan")]
    approve: ApproveArg,
    /// Approve the plan, whatever it is; the same as `--approve none`
    #[arg(short, long, conflicts_with = "approve")]
    yes: bool,
    /// Print the plan, and do not work on it
    #[arg(long, conflicts_with_all = ["in_place", "into"])]
    plan_only: bool,
    /// Pause after so many tasks
    #[arg(long, value_name = "TASKS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pause_after: Option<u32>,
    /// What to call the session and its branch [default: like the issue, numbered]
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<Name>,
    /// Work in this folder, on the branch that is checked out here
    #[arg(long, conflicts_with = "into")]
    in_place: bool,
    /// Work in this folder, which must be empty or not there yet [default: beside the repository]
    #[arg(long, value_name = "FOLDER")]
    into: Option<PathBuf>,
    /// What agents' programs may do [default: as the settings say, else edit]
    #[arg(long, value_enum, value_name = "WHAT")]
    permissions: Option<PermissionsArg>,
    /// Print events as JSON, one per line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ApproveArg {
    /// A plan that an agent made
    Plan,
    /// The same, and each task
    Tasks,
    /// Nothing, unless a reviewer does not give way
    None,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let here = workspace()?;
    let (text, place) = text(&args.what, &here)?;
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
            data(plain::lines(&list.text()).trim_end());
        }
        return Ok(ExitCode::SUCCESS);
    }
    let permissions = args.permissions.map(Permissions::from);
    let (mut world, config) = context.world_with(Keep::Home, permissions)?;
    world.people = people::here(args.json);
    let json = args.json;
    let request = request(args, &config, text, place, here);
    let brake = watch_signals();
    let ran = conduct(&world, json, async |progress| {
        work::start(&world, request, progress, brake).await
    })
    .await;
    tidied(ran, &world, &config).await
}

fn request(args: Args, config: &Config, text: String, place: String, folder: PathBuf) -> Request {
    let usual = match args.spec {
        // Its agents come before those of the settings.
        Some(_) => None,
        None => Some(config.work_agent.as_deref().unwrap_or(USUAL).to_owned()),
    };
    let reviewer = args.reviewer.or_else(|| match args.spec {
        Some(_) => None,
        None => config.work_reviewer.clone(),
    });
    Request {
        text,
        place,
        crew: Crew {
            agent: args.agent.or(usual),
            planner: args.planner,
            reviewer: match reviewer {
                _ if args.no_review => Reviewer::Nobody,
                Some(name) => Reviewer::Named(name),
                None => Reviewer::Usual,
            },
        },
        spec: args.spec.map(|spec| folder.join(spec)),
        name: args.name,
        folder,
        seat: match args.into {
            _ if args.in_place => Seat::Here,
            Some(folder) => Seat::Into(folder),
            None => Seat::Beside,
        },
        approve: match args.approve {
            // Whoever only looks at a plan decides nothing.
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

/// What is to be worked on, and where it stands.
fn text(what: &str, here: &Path) -> Result<(String, String), Failure> {
    let most = LONGEST as u64;
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
        let hint = Some("write what is to be done, or name a file that says it".to_owned());
        return Err(Failure::usage(format!("{place} is empty"), hint));
    }
    Ok((text, place))
}

/// Whether a file is meant: one is there, or the word looks like the name of one.
fn is_file(what: &str, here: &Path) -> bool {
    let one_word = !what.contains(char::is_whitespace) && !what.is_empty();
    let named = Path::new(what).extension().is_some_and(|end| {
        let known = ["md", "markdown", "txt"];
        known.iter().any(|known| end.eq_ignore_ascii_case(known))
    });
    // A long text is no name, and the system says so by an error.
    here.join(what).is_file() || one_word && (named || what.contains('/'))
}
