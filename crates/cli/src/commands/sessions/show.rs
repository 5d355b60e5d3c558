use std::process::ExitCode;

use segno_core::session::Status;
use segno_core::state::Chat;
use segno_engine::sessions::{self, ShownStep, StepStanding};
use segno_engine::talk::Talk;

use crate::context::{Context, Keep};
use crate::failure::Failure;
use crate::output::tree::{self, What};
use crate::output::{columns, data, json as shapes, json_line, moment, plain, progress, table};

/// Show one session: where it stands, its steps, and what it took.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session: its id, its name, or the beginning of either
    session: String,
    /// Every step, however many are finished
    #[arg(short, long)]
    all: bool,
    /// Print it as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (world, _) = context.world(Keep::Home)?;
    let summary = sessions::find(&world, &args.session).await?;
    let shown = sessions::show(&world, summary).await?;
    if args.json {
        json_line(&shapes::shown(&shown, world.clock.now()));
        return Ok(ExitCode::SUCCESS);
    }
    let (summary, state) = (&shown.listed.summary, &shown.state);
    let field = |name: &str, value: &str| data(&format!("{name:<10} {}", plain::plain(value)));
    field("session", &format!("{} ({})", summary.name, summary.id));
    field("status", shown.listed.standing.as_str());
    field("kind", summary.kind.as_str());
    if let (Some(owner), Status::Running) = (&shown.listed.lease.owner, shown.listed.standing) {
        field(
            "owner",
            &format!(
                "process {} on {}, since {}",
                owner.pid, owner.host, shown.listed.lease.since
            ),
        );
    }
    if let Some((path, suspension)) = state.suspended(world.clock.now()) {
        field(
            "waits",
            &format!("{path} {}", moment::suspended(&suspension)),
        );
    }
    if let Some(error) = &state.error {
        field("error", &error.message);
    }
    if let Some(stopped) = &state.stopped {
        field("stopped", &progress::stopped(stopped));
    }
    if let Some(forked) = &state.forked {
        let cut = progress::cut(forked.before.as_ref(), forked.checkpoint);
        field(
            "copy of",
            &format!("{} ({}){cut}", forked.name, forked.from),
        );
    }
    if let Some(created) = &state.created {
        if !created.spec_path.is_empty() {
            field("spec", &created.spec_path);
        }
        field("folder", &created.workspace);
        for (name, value) in &created.variables {
            field("variable", &format!("{name} = {value}"));
        }
    }
    if let Some(chat) = &state.chat {
        field("chat", &exchanges(chat));
    }
    field("created", &summary.created_at.to_string());
    field(
        "updated",
        &format!("{}, in run {}", summary.updated_at, summary.run),
    );
    let agents = state
        .usage_by_agent
        .iter()
        .map(|(agent, usage)| (agent.as_str(), usage));
    for (agent, usage) in [("all", &state.usage)].into_iter().chain(agents) {
        let spent = progress::spent(usage);
        if !spent.is_empty() {
            field("used", &format!("{spent} by {agent}"));
        }
    }
    for artifact in state.artifacts.keys() {
        field("artifact", artifact);
    }
    for talk in &shown.talks {
        field("agent", &conversation(talk));
        if let Some(words) = &talk.last {
            field("last words", words);
        }
    }
    if !shown.steps.is_empty() {
        data("");
        steps(&shown.steps, args.all);
    }
    if shown.listed.standing.is_resumable() && shown.listed.standing != Status::Running {
        let command = match state.chat {
            Some(_) => "chat --session",
            None => "resume",
        };
        data(&format!("\n`segno {command} {}` goes on", summary.name));
    }
    Ok(ExitCode::SUCCESS)
}

/// How much was said in a chat, in a line.
fn exchanges(chat: &Chat) -> String {
    let counts = [
        plain::count(chat.messages, "message"),
        plain::count(chat.replies, "turn"),
        plain::count(chat.tool_calls, "tool call"),
    ];
    let model = chat.model.as_deref();
    let model = model.map_or(String::new(), |model| format!(" ({model})"));
    let ending = chat.ending.map_or(String::new(), |ending| {
        format!(", the last ended with {ending}")
    });
    let last = chat.last_message_at;
    format!(
        "with {}{model}: {}, last message {last}{ending}",
        chat.agent,
        counts.join(", ")
    )
}

/// A conversation of an agent's program, in a line.
fn conversation(talk: &Talk) -> String {
    let Talk {
        program,
        native,
        path,
        ..
    } = talk;
    let context = talk.context.map_or(String::new(), |gauge| {
        let used = plain::number(gauge.used);
        match (gauge.window, gauge.percent()) {
            (Some(window), Some(percent)) => {
                let window = plain::number(window);
                format!(", context {used} of {window} tokens ({percent} %)")
            }
            _ => format!(", context {used} tokens"),
        }
    });
    format!("{program} {native} in {path}{context}")
}

/// The steps as a tree. A path stands in full, so that it can be copied.
fn steps(steps: &[ShownStep], all: bool) {
    let paths = steps.iter().map(|step| {
        let finished = step.standing == StepStanding::Finished;
        (step.path.as_str(), finished)
    });
    let spoke = steps.iter().any(|step| step.turns > 0);
    let mut rows = Vec::new();
    for line in tree::lines(paths, all) {
        let mut row = match line.what {
            What::Step(number) => cells(&steps[number]),
            What::Group {
                path,
                finished,
                steps,
            } => {
                let (done, of) = (plain::number(finished as u64), plain::number(steps as u64));
                bare(path, format!("{done} of {of} finished"))
            }
            What::Folded(steps) => {
                let more = plain::number(steps as u64);
                bare(format!("… {more} more finished"), String::new())
            }
        };
        row[0] = format!("{}{}", "  ".repeat(line.depth), row[0]);
        if !spoke {
            row.drain(4..6);
        }
        rows.push(row);
    }
    let mut head = vec![
        "STEP", "AGENT", "STATUS", "TRIES", "TURNS", "TOOLS", "TOOK", "USED", "",
    ];
    if !spoke {
        head.drain(4..6);
    }
    table::table(&head, &rows, columns())
        .iter()
        .for_each(|line| data(line));
}

fn cells(step: &ShownStep) -> Vec<String> {
    let note = match &step.standing {
        StepStanding::Failed(failure) => failure.message.clone(),
        StepStanding::Unknown => "whether it took effect is unknown".into(),
        StepStanding::Discarded => "to be run again: its question changed".into(),
        _ => String::new(),
    };
    let count = |n: u32| match n {
        0 => String::new(),
        n => n.to_string(),
    };
    vec![
        step.path.to_string(),
        step.agent.clone(),
        shapes::standing(&step.standing).replace('_', " "),
        step.attempts.to_string(),
        count(step.turns),
        count(step.tools),
        step.elapsed.map_or(String::new(), segno_core::time::human),
        progress::spent(&step.usage),
        note,
    ]
}

/// A row that is not a step.
fn bare(name: String, status: String) -> Vec<String> {
    let mut row = vec![String::new(); 9];
    (row[0], row[2]) = (name, status);
    row
}
