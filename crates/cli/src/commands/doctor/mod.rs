//! `segno doctor`: verifies all stored data, recovers crashed runs, and deletes unreferenced data.

mod gc;
pub(crate) mod recover;
mod repair;
mod verify;

use std::process::ExitCode;

use crate::context::{Context, Persistence};
use crate::failure::Failure;

/// Verify all stored data, recover crashed runs, or free disk space.
///
/// Without options, reads every journal event and every blob, compares them with their hashes, and
/// checks that everything that checkpoints need is there: their files, manifests, and the packs
/// with their contents. Reports damage, says what was not read, and changes nothing.
/// `--read-data` also reads the content of all packs, and compares the remote with what was pushed.
/// Also names the environment variables that agents do not get because they look like secrets.
///
/// With `--repair`, restores a lost seal key from its copy, moves checkpoints that cannot be used to
/// a quarantine and usable ones back, lists complete snapshots again, fetches missing and damaged
/// packs from the remote, and removes caches, which the next checkpoint rebuilds. Deletes nothing
/// else.
///
/// With `--recover`, finds sessions whose run crashed, takes a checkpoint of each before anything
/// else changes its folder, and marks it as interrupted. Resumes nothing: use `segno resume`.
///
/// With `--gc`, deletes snapshot data that no checkpoint references, locally and in the remote, and
/// permanently deletes checkpoints that were pruned more than 7 days ago (`trash.keep_days` in
/// config.toml). Data that became unreferenced recently stays for a grace period, because a new
/// checkpoint may be about to reference it.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Session to recover: id, name, or unique prefix of either [default: all]
    #[arg(requires = "recover")]
    session: Option<String>,
    /// Recover sessions whose run crashed
    #[arg(long, group = "action")]
    recover: bool,
    /// Delete unreferenced snapshot data
    #[arg(long, group = "action")]
    gc: bool,
    /// Repair what can be repaired without losing anything
    #[arg(long, group = "action")]
    repair: bool,
    /// Also read the content of all packs, and compare the remote
    #[arg(long, conflicts_with = "action")]
    read_data: bool,
    /// Grace period for unreferenced data [default: 24]
    #[arg(long, value_name = "HOURS", requires = "gc", value_parser = clap::value_parser!(u64).range(0..=8760))]
    grace_hours: Option<u64>,
    /// Only show what would be recovered, repaired or deleted
    #[arg(long, requires = "action")]
    dry_run: bool,
    /// Also check that the remote responds
    #[arg(long, conflicts_with = "action")]
    remote: bool,
    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    if args.repair {
        return repair::run(args, context).await;
    }
    let (env, config) = context.env(Persistence::Home)?;
    if args.recover {
        return recover::run(args, &env, &config).await;
    }
    if args.gc {
        return gc::run(args, &env).await;
    }
    let withheld = verify::withheld_variables(&config);
    verify::run(args, &env, &withheld).await
}
