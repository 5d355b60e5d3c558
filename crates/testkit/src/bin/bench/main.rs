//! The benchmark. It measures the cost of durable steps against a bare loop on the same disk in the
//! same run; the cost of file checkpoints against other tools that snapshot a folder; and the cost
//! of CLI agents as steps against the same programs alone, and of the server.
//!
//! Every figure that matters is a ratio of two things measured alternately, because absolute times
//! change from machine to machine and from minute to minute. `bench/README.md` says what is
//! measured and how to read it. A missed bar is printed and does not change the exit code.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark reads the real clock, opens its own database for comparison, and panics on errors"
)]

mod agents;
mod append;
mod bare;
mod chain;
mod disk;
mod figures;
mod growth;
mod imports;
mod listing;
mod long;
mod many;
mod parts;
mod pause;
mod peers;
mod resume;
mod server;
mod snapshots;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tempfile::TempDir;

use crate::disk::Disk;
use crate::figures::Table;

const USAGE: &str =
    "usage: bench --segno PATH [--peers DIR|none] [--quick] [--json FILE] [--plot FILE] [--dir DIR] [--only PART]...

  --segno PATH   the binary to measure, built with --release
  --peers DIR    also measure other systems; their files are stored in DIR (on the same disk)
  --quick        fewer rounds, shorter journals: about a minute
  --json FILE    write every sample
  --plot FILE    plot the cost of long workflows as SVG
  --dir DIR      where to measure [default: next to this program]
  --only PART    append, many, chain, resume, growth, long, listing, agents, pause,
                 imports, server or snapshots (repeatable)";

/// Measures one part; probes the disk before each round.
type Part = fn(&Plan, &mut Disk, &mut Table);

/// What is measured, and for how long.
pub(crate) struct Plan {
    segno: PathBuf,
    peers: Option<PathBuf>,
    quick: bool,
    json: Option<PathBuf>,
    plot: Option<PathBuf>,
    only: Vec<String>,
    /// A temporary folder on the disk that is measured.
    folder: TempDir,
}

impl Plan {
    fn parse() -> Result<Self, String> {
        let mut segno = None;
        let mut dir = None;
        let (mut peers, mut quick, mut json, mut plot) = (None, false, None, None);
        let mut only = Vec::new();
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("`{word}` needs a value"));
            match word.as_str() {
                "--segno" => segno = Some(value()?),
                "--peers" => peers = Some(value()?).filter(|dir| dir != "none"),
                "--quick" => quick = true,
                "--json" => json = Some(value()?.into()),
                "--plot" => plot = Some(value()?.into()),
                "--dir" => dir = Some(PathBuf::from(value()?)),
                "--only" => only.push(value()?),
                _ => return Err(format!("unknown option `{word}`")),
            }
        }
        let segno = PathBuf::from(segno.ok_or("`--segno` is required")?);
        let segno = std::fs::canonicalize(&segno)
            .map_err(|error| format!("{}: {error}", segno.display()))?;
        let beside = || Some(std::env::current_exe().ok()?.parent()?.to_owned());
        let dir = dir.or_else(beside).ok_or("`--dir` is required")?;
        let folder = TempDir::with_prefix_in("bench-", &dir)
            .map_err(|error| format!("{}: {error}", dir.display()))?;
        Ok(Self {
            segno,
            peers: peers.map(PathBuf::from),
            quick,
            json,
            plot,
            only,
            folder,
        })
    }

    fn wants(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == part)
    }

    /// How many rounds of a pair are measured.
    pub(crate) fn rounds(&self) -> usize {
        if self.quick { 5 } else { 9 }
    }

    /// A new folder on the disk that is measured.
    pub(crate) fn fresh(&self) -> TempDir {
        TempDir::new_in(self.folder.path()).unwrap()
    }
}

fn main() -> ExitCode {
    let plan = match Plan::parse() {
        Ok(plan) => plan,
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    // Sandboxes are temporary folders: they must be on the measured disk, too.
    tempfile::env::override_temp_dir(plan.folder.path()).unwrap();
    let mut disk = Disk::new(plan.folder.path());
    let mut table = Table::default();
    let parts: [(&str, Part); 12] = [
        ("append", append::measure),
        ("many", many::measure),
        ("chain", chain::measure),
        ("resume", resume::measure),
        ("growth", growth::measure),
        ("long", long::measure),
        ("listing", listing::measure),
        ("agents", agents::measure),
        ("pause", pause::measure),
        ("imports", imports::measure),
        ("server", server::measure),
        // The last part: it leaves millions of freed inodes behind, which slow down the next part.
        ("snapshots", snapshots::measure),
    ];
    for (name, measure) in parts {
        if plan.wants(name) {
            log_progress(&format!("measuring: {name}"));
            measure(&plan, &mut disk, &mut table);
        }
    }
    print!("{}{table}", disk.describe());
    if let Some(file) = &plan.json {
        save(file, &disk, &table);
    }
    ExitCode::SUCCESS
}

fn save(file: &Path, disk: &Disk, table: &Table) {
    let all = serde_json::json!({"v": 1, "disk": disk.json(), "rows": table.json()});
    std::fs::write(file, format!("{all:#}\n")).unwrap();
}

/// Reports progress to the waiting user.
pub(crate) fn log_progress(text: &str) {
    eprintln!("{text}");
}
