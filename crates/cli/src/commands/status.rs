use std::process::ExitCode;

use segno_core::session::Status;
use segno_engine::{history, sessions};
use serde_json::json;

use crate::context::{Context, Keep};
use crate::failure::Failure;
use crate::output::{columns, data, json as shapes, json_line, plain, progress, table};

/// Show what is running, and what waits to be resumed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print sessions as JSON, one per line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (world, _) = context.world(Keep::Home)?;
    let (listed, unlisted) = sessions::list(&world).await?;
    let mut damaged: Vec<_> = unlisted
        .into_iter()
        .map(segno_engine::Error::from)
        .collect();
    let (mut rows, mut waiting) = (Vec::new(), 0_u64);
    for listed in listed.iter().filter(|listed| !listed.standing.is_final()) {
        let state = match history::look(&world, listed.summary.id).await {
            Ok(state) => state,
            // One damaged journal does not hide the others.
            Err(error) => {
                damaged.push(error);
                continue;
            }
        };
        waiting += u64::from(listed.standing != Status::Running);
        if args.json {
            let mut line = shapes::listed(listed);
            line["steps_finished"] = state.finished.into();
            line["usage"] = shapes::usage(&state.usage);
            json_line(&line);
            continue;
        }
        let age = segno_core::time::human(world.clock.now().since(listed.summary.updated_at));
        let at = state
            .in_flight()
            .map(|(path, _)| path.to_string())
            .collect::<Vec<_>>()
            .join(", ");
        let doing = match (&listed.lease.owner, &state.error) {
            (Some(owner), _) if listed.standing == Status::Running => {
                format!("{at} (process {} on {})", owner.pid, owner.host)
            }
            (_, Some(error)) => error.message.clone(),
            _ => at,
        };
        rows.push(vec![
            listed.summary.name.to_string(),
            listed.standing.to_string(),
            plain::count(state.finished, "step"),
            progress::spent(&state.usage),
            format!("{age} ago"),
            doing,
        ]);
    }
    for error in &damaged {
        if args.json {
            json_line(
                &json!({"v": 1, "kind": "finding", "severity": "damage", "problem": error.to_string()}),
            );
        } else {
            data(&plain::plain(&format!("damaged: {error}")));
        }
    }
    if args.json {
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        data("nothing is running, and nothing waits to be resumed");
    } else {
        for line in table::table(
            &["NAME", "STATUS", "DONE", "USED", "LAST ENTRY", "NOW"],
            &rows,
            columns(),
        ) {
            data(&line);
        }
    }
    if waiting > 0 {
        data(&format!(
            "{} can go on: `segno resume NAME`",
            plain::count(waiting, "session")
        ));
    }
    Ok(ExitCode::SUCCESS)
}
