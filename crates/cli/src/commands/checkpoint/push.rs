use std::process::ExitCode;

use segno_engine::remote::{self, Pushed};
use segno_engine::{World, checkpoint};
use serde_json::json;

use super::{bytes, progress, session, shape};
use crate::context::{Context, Keep};
use crate::failure::Failure;
use crate::output::{data, json_line, plain};

/// Send checkpoints to the storage that `storage.url` in config.toml names.
///
/// What is there already is not sent again. A push that was cut off goes on where it was, and a
/// checkpoint is listed there only when all of it has arrived.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The checkpoint: its id, or the beginning or the end of it [default: those of the newest session
    /// of this folder that were not sent]
    checkpoint: Option<String>,
    /// All that were not sent
    #[arg(short, long, conflicts_with = "checkpoint")]
    all: bool,
    /// Print them as JSON, one per line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (world, _) = context.world(Keep::Home)?;
    let pushed = send(args, &world).await?;
    if args.json {
        for one in &pushed {
            let mut shape = shape("checkpoint_sent", &one.manifest);
            shape["objects"] = json!(one.parts);
            shape["stored_bytes"] = json!(one.bytes);
            shape["sent_objects"] = json!(one.sent);
            shape["sent_bytes"] = json!(one.sent_bytes);
            json_line(&shape);
        }
        return Ok(ExitCode::SUCCESS);
    }
    for one in &pushed {
        data(&told(one));
    }
    if pushed.is_empty() {
        data("everything was sent before");
    }
    Ok(ExitCode::SUCCESS)
}

async fn send(args: &Args, world: &World) -> Result<Vec<Pushed>, Failure> {
    let progress = progress(world, "sending");
    if let Some(reference) = &args.checkpoint {
        let manifest = checkpoint::find(world, reference).await?;
        return Ok(vec![remote::push(world, &manifest, &progress).await?]);
    }
    let of = if args.all {
        None
    } else {
        Some(session(world, None).await?.id)
    };
    Ok(remote::push_all(world, of, &progress).await?)
}

/// What was sent, for people.
pub(super) fn told(pushed: &Pushed) -> String {
    match pushed.sent {
        0 => format!("{} is there already", pushed.manifest.id),
        sent => format!(
            "sent {}: {} of {}, {}",
            pushed.manifest.id,
            plain::number(sent),
            plain::count(pushed.parts, "object"),
            bytes(pushed.sent_bytes)
        ),
    }
}
