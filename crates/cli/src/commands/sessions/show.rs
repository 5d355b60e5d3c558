use std::process::ExitCode;

use segno_core::session::Status;
use segno_engine::sessions::{self, StepStanding};

use crate::context::{Context, Keep};
use crate::failure::Failure;
use crate::output::{columns, data, json as shapes, json_line, plain, progress, table};

/// Show one session: where it stands, its steps, and what it took.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session: its id, its name, or the beginning of either
    session: String,
    /// Print it as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (world, _) = context.world(Keep::Home)?;
    let summary = sessions::find(&world, &args.session).await?;
    let shown = sessions::show(&world, summary).await?;
    if args.json {
        json_line(&shapes::shown(&shown));
        return Ok(ExitCode::SUCCESS);
    }
    let (summary, state) = (&shown.listed.summary, &shown.state);
    let field = |name: &str, value: &str| data(&format!("{name:<10} {}", plain::plain(value)));
    field("session", &format!("{} ({})", summary.name, summary.id));
    field("status", shown.listed.standing.as_str());
    if let (Some(owner), Status::Running) = (&shown.listed.lease.owner, shown.listed.standing) {
        field(
            "owner",
            &format!(
                "process {} on {}, since {}",
                owner.pid, owner.host, shown.listed.lease.since
            ),
        );
    }
    if let Some(error) = &state.error {
        field("error", &error.message);
    }
    if let Some(created) = &state.created {
        field("spec", &created.spec_path);
        field("folder", &created.workspace);
        for (name, value) in &created.variables {
            field("variable", &format!("{name} = {value}"));
        }
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
    if !shown.steps.is_empty() {
        data("");
        let row = |step: &sessions::ShownStep| {
            let note = match &step.standing {
                StepStanding::Failed(failure) => failure.message.clone(),
                StepStanding::Unknown => "whether it took effect is unknown".into(),
                StepStanding::Discarded => "to be run again: its question changed".into(),
                _ => String::new(),
            };
            vec![
                step.path.to_string(),
                step.agent.clone(),
                shapes::standing(&step.standing).replace('_', " "),
                step.attempts.to_string(),
                step.elapsed.map_or(String::new(), segno_core::time::human),
                progress::spent(&step.usage),
                note,
            ]
        };
        let rows: Vec<_> = shown.steps.iter().map(row).collect();
        let head = ["STEP", "AGENT", "STATUS", "TRIES", "TOOK", "USED", ""];
        table::table(&head, &rows, columns())
            .iter()
            .for_each(|line| data(line));
    }
    if shown.listed.standing.is_resumable() && shown.listed.standing != Status::Running {
        data(&format!("\n`segno resume {}` goes on", summary.name));
    }
    Ok(ExitCode::SUCCESS)
}
