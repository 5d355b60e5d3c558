//! `segno checkpoint push`: sends checkpoints to the remote.

use std::process::ExitCode;

use segno_engine::Env;
use segno_sessions::checkpoint;
use segno_sessions::remote::{self, Pushed};
use serde_json::json;

use super::{bytes, find_session, progress, shape};
use crate::context::{Context, Persistence};
use crate::failure::Failure;
use crate::output::{json_line, stdout_line, text};

/// Push checkpoints to the remote (`remote.url` in config.toml).
///
/// Only missing data is sent. An interrupted push continues where it stopped, and a checkpoint is
/// listed in the remote only after all of its data has arrived.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Checkpoint id, or a unique prefix or suffix of it [default: all unpushed checkpoints of the
    /// newest session in this folder]
    checkpoint: Option<String>,
    /// Push all unpushed checkpoints
    #[arg(short, long, conflicts_with = "checkpoint")]
    all: bool,
    /// Print JSON, one checkpoint per line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, _) = context.env(Persistence::Home)?;
    let pushed = send(args, &env).await?;
    if args.json {
        for one in &pushed {
            let mut shape = shape("checkpoint_pushed", &one.manifest);
            shape["objects"] = json!(one.parts);
            shape["remote_bytes"] = json!(one.bytes);
            shape["pushed_objects"] = json!(one.sent);
            shape["pushed_bytes"] = json!(one.sent_bytes);
            json_line(&shape);
        }
        return Ok(ExitCode::SUCCESS);
    }
    for one in &pushed {
        stdout_line(&describe_push(one));
    }
    if pushed.is_empty() {
        stdout_line("everything is already in the remote");
    }
    Ok(ExitCode::SUCCESS)
}

async fn send(args: &Args, env: &Env) -> Result<Vec<Pushed>, Failure> {
    let progress = progress(env, "pushing");
    if let Some(reference) = &args.checkpoint {
        let manifest = checkpoint::find(env, reference).await?;
        return Ok(vec![remote::push(env, &manifest, &progress).await?]);
    }
    let of = if args.all {
        None
    } else {
        Some(find_session(env, None).await?.id)
    };
    Ok(remote::push_all(env, of, &progress).await?)
}

/// Describes a push in one line.
pub(super) fn describe_push(pushed: &Pushed) -> String {
    match pushed.sent {
        0 => format!("{} is already in the remote", pushed.manifest.id),
        sent => format!(
            "pushed {}: {} of {}, {}",
            pushed.manifest.id,
            text::number(sent),
            text::count(pushed.parts, "object"),
            bytes(pushed.sent_bytes)
        ),
    }
}
