//! `segno show`: prints one session with its steps.

use std::process::ExitCode;

use segno_core::session::Status;
use segno_core::state::Chat;
use segno_sessions as sessions;
use segno_sessions::conversations::Conversation;
use segno_sessions::json as shapes;
use segno_sessions::{SessionDetails, StepDetails, StepStatus};

use crate::context::{Context, Persistence};
use crate::failure::Failure;
use crate::output::tree::{self, LineKind};
use crate::output::{
    columns, json_line, print_result, progress, stdout_line, table, text, timestamp,
};

/// Show a session: its status, steps and usage.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Session id, name, or unique prefix of either
    #[arg(required_unless_present = "workflow_id")]
    session: Option<String>,
    /// Same as SESSION
    #[arg(short, long, value_name = "SESSION", conflicts_with = "session")]
    workflow_id: Option<String>,
    /// Show all steps, even if many are finished
    #[arg(short, long)]
    all: bool,
    /// Print only the result of a completed workflow
    #[arg(long, conflicts_with_all = ["all", "json"])]
    output: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, _) = context.env(Persistence::Home)?;
    let reference = args.session.as_ref().or(args.workflow_id.as_ref());
    let reference = reference.map_or("", String::as_str);
    let summary = sessions::find(&env, reference).await?;
    if args.output {
        print_result(&sessions::output(&env, &summary).await?);
        return Ok(ExitCode::SUCCESS);
    }
    let shown = sessions::show(&env, summary).await?;
    if args.json {
        json_line(&shapes::session_details(&shown, env.clock.now()));
        return Ok(ExitCode::SUCCESS);
    }
    let (summary, state) = (&shown.listed.summary, &shown.state);
    let field =
        |name: &str, value: &str| stdout_line(&format!("{name:<10} {}", text::sanitize(value)));
    field("session", &format!("{} ({})", summary.name, summary.id));
    field("status", shown.listed.status.as_str());
    field(
        "kind",
        &match shown.pattern {
            Some(pattern) => format!("{}, pattern {pattern}", summary.kind),
            None => summary.kind.to_string(),
        },
    );
    if let Some(lease) = &shown.listed.lease
        && let Some(owner) = &lease.owner
    {
        let stopped = if shown.listed.is_stopped {
            "; it is stopped"
        } else {
            ""
        };
        field(
            "owner",
            &format!(
                "process {} on {}, since {}{stopped}",
                owner.pid, owner.host, lease.since
            ),
        );
    }
    if let Some((path, suspension)) = state.suspended(env.clock.now()) {
        field(
            "waits",
            &format!("{path} {}", timestamp::suspended(&suspension)),
        );
    }
    if let Some(error) = &state.error {
        field("error", &error.message);
    }
    if let Some(stopped) = &state.stopped {
        field("stopped", &progress::stopped(stopped));
    }
    if let Some(forked) = &state.forked {
        let cut = progress::fork_point(forked.before.as_ref(), forked.checkpoint);
        field(
            "fork of",
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
    field("updated", &summary.updated_at.to_string());
    field("number", &text::number(state.session_number));
    let agents = state
        .usage_by_agent
        .iter()
        .map(|(agent, usage)| (agent.as_str(), usage));
    let all = [("all", progress::session_spent(state))];
    let agents = agents.map(|(agent, usage)| (agent, progress::total_spent(usage)));
    for (agent, spent) in all.into_iter().chain(agents) {
        if !spent.is_empty() {
            field("used", &format!("{spent} by {agent}"));
        }
    }
    for (agent, values) in state.agent_states.agents() {
        let values = text::count(values as u64, "value");
        field("state", &format!("{values} of {agent}"));
    }
    for refused in &state.refused_tools {
        field("refused", &progress::refused_tool(refused));
    }
    for artifact in state.artifacts.keys() {
        field("artifact", artifact);
    }
    for talk in &shown.conversations {
        field("agent", &conversation(talk));
        if let Some(words) = &talk.last_message {
            field("message", words);
        }
    }
    if !shown.steps.is_empty() {
        stdout_line("");
        steps(&shown.steps, args.all);
    }
    for step in &shown.steps {
        print_resolution(&shown, step);
    }
    if shown.listed.status.is_resumable() && shown.listed.status != Status::Running {
        let command = match state.chat {
            Some(_) => "chat --session",
            None => "resume",
        };
        stdout_line(&format!(
            "\nresume it with `segno {command} {}`",
            summary.name
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints what is known about an unknown outcome, and the commands that resolve it.
fn print_resolution(shown: &SessionDetails, step: &StepDetails) {
    let path = &step.path;
    if let Some((outcome, by)) = &step.said {
        let said = format!("\nstep {path} is {outcome}, says {by}; the next run takes that");
        return stdout_line(&text::sanitize(&said));
    }
    let Some(commands) = shown.commands_for(step) else {
        return;
    };
    let path = text::sanitize(path.as_str());
    stdout_line(&format!(
        "\nthe outcome of step {path} is unknown; say it with"
    ));
    for command in commands {
        stdout_line(&format!("  {}", text::sanitize(&command)));
    }
}

/// Describes the size of a chat in one line.
fn exchanges(chat: &Chat) -> String {
    let counts = [
        text::count(chat.messages, "message"),
        text::count(chat.replies, "turn"),
        text::count(chat.tool_calls, "tool call"),
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

/// Describes a conversation of a CLI agent in one line.
fn conversation(talk: &Conversation) -> String {
    let Conversation {
        program,
        native,
        path,
        ..
    } = talk;
    let context = talk.context.map_or(String::new(), |context_usage| {
        let used = text::number(context_usage.used);
        match (context_usage.window, context_usage.percent()) {
            (Some(window), Some(percent)) => {
                let window = text::number(window);
                format!(", context {used} of {window} tokens ({percent} %)")
            }
            _ => format!(", context {used} tokens"),
        }
    });
    format!("{program} {native} in {path}{context}")
}

/// Prints the steps as a tree. Paths are printed in full, so that they can be copied.
fn steps(steps: &[StepDetails], all: bool) {
    let paths = steps.iter().map(|step| {
        let finished = step.status == StepStatus::Finished;
        (step.path.as_str(), finished)
    });
    let has_turns = steps.iter().any(|step| step.turns > 0);
    let mut rows = Vec::new();
    for line in tree::lines(paths, all) {
        let mut row = match line.kind {
            LineKind::Step(number) => cells(&steps[number]),
            LineKind::Group {
                path,
                finished,
                steps,
            } => {
                let (done, of) = (text::number(finished as u64), text::number(steps as u64));
                group_row(path, format!("{done} of {of} finished"))
            }
            LineKind::Folded(steps) => {
                let more = text::number(steps as u64);
                group_row(format!("… {more} more finished"), String::new())
            }
        };
        row[0] = format!("{}{}", "  ".repeat(line.depth), row[0]);
        if !has_turns {
            row.drain(4..6);
        }
        rows.push(row);
    }
    let mut head = vec![
        "STEP", "AGENT", "STATUS", "TRIES", "TURNS", "TOOLS", "TOOK", "USED", "",
    ];
    if !has_turns {
        head.drain(4..6);
    }
    table::table(&head, &rows, columns())
        .iter()
        .for_each(|line| stdout_line(line));
}

fn cells(step: &StepDetails) -> Vec<String> {
    let note = match &step.status {
        StepStatus::Failed(failure) => failure.message.clone(),
        StepStatus::Unknown => "whether it took effect is unknown".into(),
        StepStatus::Discarded => "runs again: its question changed".into(),
        _ => String::new(),
    };
    let count = |n: u32| match n {
        0 => String::new(),
        n => n.to_string(),
    };
    vec![
        step.path.to_string(),
        step.agent.clone(),
        shapes::step_status(&step.status).replace('_', " "),
        step.attempts.to_string(),
        count(step.turns),
        count(step.tools),
        step.elapsed
            .map_or(String::new(), segno_core::time::format_duration),
        progress::total_spent(&step.usage),
        note,
    ]
}

/// A row that is not a step.
fn group_row(name: String, status: String) -> Vec<String> {
    let mut row = vec![String::new(); 9];
    (row[0], row[2]) = (name, status);
    row
}
